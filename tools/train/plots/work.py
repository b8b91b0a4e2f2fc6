"""Plots of school, work, games and making things."""

from plots import add

add("first_day", "school, the first day", "went to school", """
On the first day of school {name} had a new bag and a cold feeling in {his} tummy.
All the seats were taken except one, next to {pal} the {friend}, who was looking out of the window.
"Have you got that cold feeling, too?" asked {name}. {pal} nodded.
The teacher asked who could count to ten. {name} knew it up to five, and {pal} knew the rest.
So they said it together, one half each, and the teacher drew a star for both.
At noon {name} noticed that the cold feeling had gone home without {him}.
""")

add("painter_rain", "painting, a picture", "painted pictures", """
{name} painted the village, but it always turned out crooked. The tower leaned, and the moon was too large.
"That is not how it looks," said the neighbours.
{name} wanted to throw the pictures into the fire, but {pal} the {friend} asked for one and hung it up at home.
Soon people stood in front of {pal}'s window. "The moon was that large," said one, "on the night I got married."
"And the tower does lean," said another, "when I come home late."
{name} bought new paint, most of all yellow.
""")

add("orchestra", "an orchestra, music", "played a wrong note", """
In the village orchestra {name} had only one note to play, a single ding at the very end.
{He} practised it all year. Ding. Ding. Ding.
On the great evening {name} was so nervous that {he} came in too early, right in the quiet part. Ding!
Everyone turned around. Then {pal} the {friend} at the flute answered it: tweet! The drum said boom, and the fiddle said hey!
It was not in the notes, and it was the best part of the night.
"Again!" shouted the people. And {name} played it again, this time on purpose.
""")

add("gardener_wall", "a garden, a wall", "had a high wall", """
Around {name}'s garden was a high wall, so that nobody could take the strawberries.
But behind the wall there was little sun, and the strawberries stayed small and sour.
"Shall I tell you what I would do?" asked {pal} the {friend}. {name} did not want to hear it.
In spring a storm knocked down a piece of the wall. The sun came in, and so did {pal}, with a basket of cherries to swap.
The strawberries grew red and sweet.
{name} looked at the hole for a while, and then {he} made it into a gate.
""")

add("market", "a market, selling", "sold things at a market", """
{name} went to the market to sell {a_thing}.
"What does it do?" asked a woman. "Nothing much," said {name}, who always told the truth.
Nobody bought it. Then {pal} the {friend} came by and asked, "Why do you like it?"
{name} told how {he} had found it on a rainy day, and how it had made the day better.
People stopped to listen. Soon ten of them wanted to buy it.
But now {name} could not part with it any more. {He} carried the {thing} home, and {pal} carried the basket.
""")

add("ferry", "a ferry, a river", "took people over the river", """
{name} had a small boat and took everyone across the river, for one nut each.
"When I have a thousand nuts I will stop and be rich," {he} said.
One evening it was nearly so far: nine hundred and ninety-nine. {pal} the {friend} came to the bank without a nut.
"My sister is ill on the other side," said {pal}. {name} took the oars without a word.
It was late when {he} came back, and the stars lay in the water all around the boat.
"I think I was rich already," said {name}, and {he} rowed on for many years.
""")

add("inventor", "an invention", "invented something", """
{name} invented an umbrella for two, but it was so heavy that nobody could hold it.
{He} invented a spoon that stirred by itself, and it stirred the cat.
"I am a bad inventor," said {name}, and put away the tools.
{pal} the {friend} looked at all the things in the shed. {Phe} put the heavy umbrella into the ground, and set the spoon on top with a string.
The wind turned the spoon, and the umbrella gave shade, and the children sat under it and went round and round.
"You invented a merry-go-round," said {pal}. "I thought so," said {name}.
""")

add("library", "books, a library", "loved books", """
{name} had read every book in the little library, all seventeen of them.
"There is nothing left to read," {he} sighed. {pal} the {friend}, who swept the floor, gave {him} an empty one.
"This one is not finished," said {pal}. "It only has a first line."
On the first page stood: "Once there was {a_hero} who wanted to know what came next."
{name} took a pen. {He} wrote until the lamp went out, and in the morning {he} read it to everybody.
Now there are eighteen books in the little library, and the last one is always out.
""")

add("chess_champion", "a game, losing", "hated to lose", """
{name} hated to lose. When {he} lost a game, {he} tipped over the board.
After a while nobody wanted to play with {him} any more, only {pal} the {friend}.
{pal} lost ten times in a row, and each time {phe} said, "That was fun. Once more?"
"How can it be fun if you lose?" asked {name}. "I was looking at your face," said {pal}. "It is so happy when you think."
In the eleventh game {name} lost. {He} put {his} hand to the board, and then took it away again.
"That was fun," {he} said slowly. "Once more?"
""")

add("night_train", "a train", "took a night train", """
{name} took the night train for the first time, and {he} could not find {his} seat.
In every seat somebody was sleeping: a nurse, a goose, a man with a cello.
At the very end sat {pal} the {friend}, who was driving the train. "You can sit with me," said {pal}, "if you help me look."
So {name} looked. {He} saw foxes at the stations, and a lake full of moon, and a lamp far out where nobody lived.
When it got light, all the others woke up and had seen nothing.
"Which was the best seat?" they asked. {name} only smiled.
""")

add("snow_post", "the post, winter", "brought the post", """
{name} brought the post, even when the snow was as high as the fences.
On the shortest day of the year there was one parcel left, for the last house behind the woods.
{He} fell three times and lost a glove. At last {he} saw a light. {pal} the {friend} opened the door.
"It is for you," said {name}. {pal} unpacked it: it was a pair of gloves. "I ordered them for the one who brings my post," said {pal}.
{name} did not know what to say.
So {he} put them on, and they had tea until the snow stopped.
""")

add("circus", "a circus, juggling", "wanted to join a circus", """
A circus came, and {name} wanted to join. "What can you do?" asked the director.
{name} could not juggle. On the rope {he} fell off, and the lion only licked {him}.
"Then you can carry water," said the director. So {name} carried water and talked to everybody on the way.
{He} knew that the clown was homesick, that the strong man was afraid of mice, and that {pal} the {friend} had sore feet.
{He} wrote home for the clown, caught the mice and got {pal} soft shoes.
When the circus moved on, they painted a new word on the wagon, under all the stars: "{name}".
""")

add("tailor", "clothes, sewing", "made clothes", """
{name} was to sew a coat for the queen by Sunday, with a hundred pockets.
{He} sewed day and night, but by Saturday there were only ninety-nine, and the thread was used up.
{pal} the {friend} pulled a thread from {phis} own scarf, and it was just enough.
The queen put her hand into every pocket. Into the last one she put it twice. "This one is the warmest," she said. "Why?"
"It is made from a friend's scarf," said {name}.
The next day the queen sent {pal} a new one, with a pocket in it. | "Then I will keep it for my hands," said the queen, "and the others for gold."
""")

add("football_dog", "a team, football", "was the worst player of the team", """
In the team {name} was the one who always sat on the bench.
{He} kicked the ball into the river, into the hedge, and once into the soup of the trainer.
On the day of the big match the goalkeeper had a cold. "We have only {name}," sighed {pal} the {friend}.
The others shot. {name} got such a fright that {he} ran the wrong way and fell over, and the ball bounced off {his} back.
"What a save!" shouted everybody. {pal} ran across the field and hugged {him}.
They did not win, but nobody ever laughed about {name} again. | It ended one to one, and {name} got the soup of honour.
""")

add("cloud_factory", "the sky, dreams", "had a strange job", """
Every evening, when it got dark, {name} went to work: {he} swept the sky.
{He} had a long ladder and a soft broom. {He} swept the clouds together and dusted the stars, one by one.
One night the broom broke, and a cloud stayed lying in front of the moon. Children below began to cry.
{pal} the {friend} came up the ladder, puffing, and the two of them blew as hard as they could.
The cloud moved. The moon looked out as if it had only blinked.
"Tomorrow I will bring a second broom," said {pal}.
""")

add("tunnel", "digging, a tunnel", "dug a tunnel", """
{name} began to dig a tunnel to the other side of the world.
On the first day {he} found a spoon. On the second day {he} found a root that looked like the mayor.
On the third day the wall in front of {him} began to move, and out came the head of {pal} the {friend}.
"Is this the other side of the world?" asked {pal}. "No, this is the first side," said {name}. "Is yours the other?"
They thought about it, sitting in the dark with one candle.
Then they swapped places, and each of them had a long way home to look at things.
""")
