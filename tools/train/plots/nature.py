"""Plots of weather, water, sky and growing things."""

from plots import add

add("last_apple", "an apple tree, autumn", "wanted the last apple", """
On the old tree hung one last apple, red and round, and {name} wanted it very much.
{He} jumped, but it was too high. {He} shook the tree, but it would not fall.
{pal} the {friend} wanted the same apple. "I saw it first," said {pal}.
They argued so loudly that the apple fell down from fright and broke in two.
{name} looked at the two halves, and {pal} began to laugh. There was one for each.
They planted the seeds [under the window/by the path], so that next time there will be more.
""")

add("cloud", "a cloud, rain", "had a cloud for a friend", """
A small white cloud came down one day and followed {name} everywhere.
It waited at the door at night and got the floor wet in the morning.
"Send it away," said {pal} the {friend}. "You will catch a cold."
But that summer it did not rain, and all the gardens turned brown.
{name} whispered something to the cloud. It puffed itself up, flew over the gardens and rained all night long.
Now {pal} keeps a cushion by the door, just for the cloud. | In the morning everything was green, and {pal} said sorry to the cloud.
""")

add("first_snow", "snow, winter", "had never seen snow", """
{name} had never seen snow. "The sky is falling down in pieces!" {he} cried one morning.
{He} ran to {pal} the {friend} and pulled {phim} under the table.
{pal} peeped out and smiled. "Put out your tongue," {phe} said.
{name} did, and a cold little piece of sky melted on it. It tasted of nothing and of everything.
They built {a_hero} of snow with a carrot for a nose.
"Hello," said {name} to it politely. "You must be new here, too."
""")

add("leaf_boat", "a river, a letter", "sent a letter down the river", """
{name} wrote "Hello, who is there?" on a big leaf and put it into the river.
For a whole week {he} sat on the bank and waited. No answer came.
"Rivers run only one way," said the old heron. "Nobody can write back."
On the eighth day {pal} the {friend} came walking along the bank, tired and dusty, with the leaf in a bag.
"I am the one who is there," said {pal}. "I came to tell you."
They had tea by the water, and {name} never felt that the river was long again.
""")

add("lighthouse", "a lighthouse, a boat", "kept a light burning", """
Every evening {name} put a lamp in the window, though nobody ever came by.
"Why do you waste your oil?" asked the neighbours.
One foggy night a small boat was lost between the rocks. {pal} the {friend} sat in it and could see nothing at all.
Then {phe} saw one warm little light, and steered towards it, and came safely to the shore.
"Who put that lamp there?" asked {pal}, wet and happy. {name} only opened the door and made cocoa.
Now there is a lamp in every window of the coast.
""")

add("mushroom", "the rain, a small house", "had room for everyone", """
When the rain began, {name} slipped under a mushroom that was just big enough for one.
An ant came by. "May I come in?" "We can squeeze together," said {name}.
Then came a wet butterfly, then a mouse, and last of all {pal} the {friend}, who was much too big.
"There is no room," said the ant. "There is always room," said {name}.
And it was true, for mushrooms grow in the rain, and this one grew faster than the guests came.
When the sun came out, they were sitting under the largest mushroom in the land.
""")

add("echo", "the mountains, an echo", "shouted at a mountain", """
{name} shouted at the mountain, "Who are you?" and the mountain shouted, "Who are you?"
"Do not be rude!" cried {name}. "Rude! Rude!" answered the mountain.
{name} ran home angrily and told {pal} the {friend} about it.
"Try once more," said {pal}, "but say something nice."
So {name} went back and called softly, "I would like to be your friend."
And the mountain said, as softly as a mountain can, "Your friend, your friend."
""")

add("tree_house", "a tree, building", "built a house in a tree", """
{name} and {pal} the {friend} wanted to build a house in the big oak.
{name} wanted it round. {pal} wanted it square. They did not speak for two days.
Meanwhile a bird built a nest on the very same branch. It was round at the bottom and had corners of straw.
"It looks a bit like yours," said {pal}. "And a bit like yours," said {name}.
So they built one that was round on the left and square on the right.
It is a funny house, but on warm nights no one sleeps better. | The bird says that it is the second-best house in the tree.
""")

add("sun_sleeps", "the sun, morning", "woke up the sun", """
One morning the sun did not come up. It was eight o'clock, and still dark.
{name} lit a lantern and walked east until {he} came to the edge of the land.
There lay the sun behind a hill, snoring. "Wake up!" called {name}, but it only turned over.
Then {pal} the {friend} had an idea and began to fry pancakes. The smell went up and up.
"Is it breakfast already?" said the sun, and it rose quickly, golden and a little ashamed.
Since then, {pal} leaves one pancake on the hill every night.
""")

add("frozen_pond", "ice, winter", "helped the fish", """
In the coldest winter the pond froze over, and {name} could see the fish looking up through the ice.
"They have no window," said {name}. "They cannot breathe."
{He} knocked a hole into the ice, but by the next morning it had closed again.
So {name} and {pal} the {friend} took turns: {name} by day and {pal} by night, with a stick and a thick blanket.
When spring came, the fish jumped out of the water all at once, and it sounded like clapping.
{name} took a bow. | {name} was so tired that {he} slept until the tulips came.
""")

add("wind_hat", "the wind, a hat", "chased a hat", """
The wind stole {name}'s favourite hat and carried it over the roofs.
{name} ran after it, through the market, over the bridge and past the mill.
"Stop, thief!" {he} shouted, but the wind only whistled.
At last the hat landed on the head of {pal} the {friend}, who had been cold all morning.
{name} wanted to take it back. Then {he} saw how warm and happy {pal} looked.
"It suits you," said {name}. And the wind, who had planned it all, went to look for another hat.
""")

add("night_flower", "a flower, the night", "waited for a flower", """
In {name}'s garden grew a plant that never opened. "It is only a weed," said everyone.
But {name} gave it water all the same and said good night to it every evening.
Once {he} could not sleep and went out into the moonlight.
There stood the plant with a hundred silver flowers, and {pal} the {friend} sat in front of it, very still.
"I come here every night," whispered {pal}. "I thought nobody else knew."
They looked at it together until the birds began to sing.
""")

add("island_fruit", "an island, a coconut", "lived with very little", """
On {name}'s side of the island grew only coconuts, and on the other side grew only bananas.
{name} was tired of coconuts. {pal} the {friend} was tired of bananas. But they had never met.
One day {name} threw a coconut over the hill, just for fun. A minute later a banana came flying back.
So they went on throwing, every day at noon, for a whole year.
Then both of them got curious and climbed the hill, and they bumped into each other at the top.
"You have a good arm," said {name}. "Lunch?" said {pal}.
""")

add("snail_rainbow", "a rainbow, colours", "wanted to touch a rainbow", """
{name} wanted to touch a rainbow. Each time {he} came near, it was gone.
"You are too slow," said the swallow. "You are too fast," said the snail.
{name} asked {pal} the {friend}, who thought about it for a while and fetched a bucket of water.
{Phe} threw the water into the sunny air, and for a moment a rainbow stood right between them.
{name} put {his} nose into it. It was cool and wet, and it tickled.
"It was here all the time," said {name}. "It only needed the two of us."
""")

add("bee_map", "bees, honey", "followed a bee", """
A bee danced in front of {name}, twice to the left and once to the right.
"She is telling you a way," said {pal} the {friend}. "Bees do not talk. They dance."
So they walked twice to the left and once to the right and came to a field of blue flowers that nobody knew.
{name} wanted to thank the bee, but {he} could not speak her language.
So {he} danced: one step forward, a turn, and a bow. The bee was very surprised.
In the evening a small jar of honey stood in front of the door.
""")

add("tide_pool", "the beach, a crab", "helped a crab", """
At low tide {name} found a crab in a tiny pool. "I am the king of the sea," said the crab.
"Your sea is rather small," said {name} kindly.
The crab looked around and its eyes grew wet. "It was larger this morning," it said.
{pal} the {friend} brought a pail, and together they carried the crab across the long, wet sand.
When the first wave came, the crab stood still. "So much of it," it whispered.
It waved with one claw and was gone. | Before it went, it made {name} a knight of the sea.
""")
