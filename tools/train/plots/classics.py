"""The first fifteen plots: something lost, a fear, a wish, a share, a race."""

from plots import add

add("lost", "losing something, helping", "lost something", """
{name} had {a_thing} and took it everywhere.
One morning the {thing} was gone. | One day {name} could not find the {thing}.
{name} looked {spot}, but it was not there. {He} looked {spot2}, but it was not there.
"Do not cry," said {pal} the {friend}. "I will help you."
Together they looked {spot3}, and there was the {thing}!
"Thank you, {pal}," said {name}. "Now we can both play with it."
From that day on, {name} and {pal} were the best of friends. | And from then on, the {thing} belonged to both of them.
""")

add("fear", "being brave, courage", "was afraid", """
{name} was afraid of {scare}.
{test}
{name}'s heart beat fast. But {he} thought, "Somebody needs me."
{pal} the {friend} said, "I am here. We will go together."
Step by step, {name} went on, and soon everyone was safe.
"You were so brave!" said {pal}. "I was still afraid," said {name}, "but I did it anyway."
That night {name} slept well, and {scare} seemed a little smaller. | And whenever {name} is afraid now, {he} thinks of that day.
""", [dict(scare="the dark", test="One night the lamp went out, and a small voice called for help."),
      dict(scare="deep water", test="One day a small boat with a mouse in it drifted down the river."),
      dict(scare="thunder", test="One evening a great storm came, and a small voice called for help."),
      dict(scare="high places", test="One day a baby bird was stuck at the top of a tree."),
      dict(scare="fire", test="One evening there was smoke over the barn, and a small voice called for help.")])

add("wish", "the sea, a journey", "wanted to see the world", """
{name} had one wish: {he} wanted to see {wish}.
One morning {he} packed some bread and an apple and set off.
On the way {he} met {pal} the {friend}, who was hungry. {name} shared the bread.
"I know the way," said {pal}. "Come with me!"
They walked for two days. At last they stood still, because there was {sight}.
"It is even more beautiful than I dreamed," said {name}.
They sat there together until it was time to go home. | And {name} has told everyone at home about it ever since.
""", [dict(wish="the sea", sight="blue water as far as the eye could see"),
      dict(wish="snow", sight="soft white snow on every tree"),
      dict(wish="the big city", sight="a street with a thousand lights"),
      dict(wish="a rainbow", sight="a rainbow over the hills")])

add("share", "sharing, food", "did not want to share", """
One day {name} found a very big {food}.
"It is all mine," said {name}, and {he} hid it at home.
{name} ate and ate until {his} tummy hurt, and it was no fun to eat alone.
Then {pal} the {friend} knocked at the door. "I have had nothing to eat today," {phe} said.
{name} felt sorry and put two plates on the table. They ate and talked until the stars came out.
"It tastes better with you," said {name}. | "Half of it is plenty," said {name}, "when you are here."
""", [dict(food=f) for f in ("pumpkin", "cheese", "cake", "melon", "pie")])

add("race", "a race, winning", "wanted to win a race", """
Every year there was a great race, and {name} wanted to win it.
{name} ran as fast as {he} could and was ahead of everyone.
Then {he} saw {pal} the {friend} sitting by the road with a hurt foot.
"Go on, or you will lose," said {pal}. | "Do not stop for me," said {pal}.
But {name} said, "You matter more than a race," and helped {pal} all the way.
They came in last, and everybody clapped for them louder than for the winner.
""")

add("storm", "a storm, neighbours", "helped after a storm", """
One night a terrible storm came. The wind blew the roof off the house of {pal} the {friend}.
"Come and stay with me," said {name}, and made hot soup.
In the morning {name} called all the neighbours. One brought wood, one brought nails, and one brought lunch.
They worked and sang all day, and in the evening the house was stronger than before.
"How can I thank you?" asked {pal}. "You just did," said {name}.
""")

add("stranger", "friendship, someone new", "met a stranger", """
One day {a_friend} named {pal} came to live next door.
"We do not know you," said the others, and nobody played with {pal}.
{name} thought about how lonely that must be. {He} took {his} {thing} and knocked at the door.
"Would you like to play with me?" asked {name}. {pal} smiled for the first time.
They played until the sun went down. Soon the others came too, because {pal} knew the funniest games.
Now nobody can remember a time when {pal} was a stranger.
""")

add("birthday", "a birthday, a surprise", "had a birthday", """
It was {name}'s birthday, but nobody said a word about it.
"They have all forgotten," thought {name}, and {he} felt sad.
In the evening {pal} the {friend} knocked. "Please come, I need your help," {phe} said.
{name} went along, and when the door opened everyone shouted, "Happy birthday!"
There was a big cake, there was music, and there was a present: {a_thing}.
"I thought you forgot me," said {name}. "Never," said {pal}.
""")

add("star", "a star, the night", "found a star", """
One night {name} saw a little star fall from the sky into the grass.
"I want to go home," cried the star, "but I cannot fly so high."
{name} held the star in {his} arms and carried it up the hill, but the sky was still too far away.
Then {pal} the {friend} had an idea. They tied the star to a kite, and the wind took it up and up.
The star shone brightly and said, "Thank you, {name}!"
Every night since then, it has winked at them from the sky.
""")

add("moon", "the moon, a present", "loved the moon", """
{name} loved the moon and wanted to give it a present.
{He} climbed the highest hill, but the moon was still too far away.
"Look into the lake," said {pal} the {friend}. There was the moon, shining in the water!
{name} laid a white flower on the water, and it floated right into the middle of the moon.
"Now the moon has a flower," said {name}. "And we have the moon," said {pal}.
""")

add("seed", "a garden, waiting", "planted a seed", """
{name} planted a seed in the garden and gave it water.
The next day nothing had grown. "It will never grow," said {name}.
"Wait a little," said {pal} the {friend}. "Good things take time."
So {name} gave it water every day, and sang to it, and waited.
One morning there was a tiny green leaf, and by summer there was a sunflower as tall as the house.
"You were right," said {name}. "It was worth the wait."
""")

add("truth", "honesty, saying sorry", "told the truth", """
One day {name} was playing with {a_thing} and broke the {broken} of {pal} the {friend}.
Nobody had seen it. {name} ran home and hid, but {he} could not sleep all night.
In the morning {he} went to {pal}. "I broke your {broken}," {he} said. "I am sorry."
{pal} was quiet for a moment. "Thank you for telling me," {phe} said. "That was not easy."
They mended the {broken} together, and {name} felt light again.
""", [dict(broken=b) for b in ("blue bowl", "big vase", "window", "tea pot")])

add("music", "music, a strange sound", "heard a strange sound", """
Every night {name} heard a strange sound: {noise}, {noise}.
"Is it a monster?" {name} wondered. One night {he} took a lamp and went to look.
Behind the hill sat {pal} the {friend} with {instrument}.
"I play at night because I am too shy to play in the day," said {pal}.
"But it is beautiful!" said {name}, and {he} began to sing along.
The next evening they played for the whole village, and everyone danced.
""", [dict(instrument="a drum", noise="boom, boom"), dict(instrument="a flute", noise="too-loo"),
      dict(instrument="a trumpet", noise="ta-ra"), dict(instrument="a bell", noise="ding, ding")])

add("skill", "learning, not giving up", "wanted to learn something", """
{name} wanted to learn to {what}.
The first time it went badly, and some of the others laughed. {name} wanted to give up.
"I needed a hundred tries myself," said {pal} the {friend}. "Try again. I will stay with you."
So {name} tried again every day. Each day it went a little better.
And one fine morning, {name} {past}.
"You did it!" cried {pal}. "We did it," said {name}.
""", [dict(what="swim", past="swam across the lake"), dict(what="dance", past="danced in front of everyone"),
      dict(what="whistle", past="whistled a whole song"), dict(what="ride a bicycle", past="rode all around the village"),
      dict(what="paint", past="painted the most beautiful picture"), dict(what="bake bread", past="baked the best bread in the land")])

add("trick", "a monster, soup", "met a hungry monster", """
One day {name} met a hungry {enemy}. "I am going to eat you," said the {enemy}.
"Very well," said {name}, "but I am so small. My friend {pal} has a whole pot of soup. Come and eat that first."
The {enemy} followed {name} home. {pal} the {friend} put the pot on the table.
The {enemy} ate and ate until it was full and fell asleep.
When it woke up, it was not hungry any more. "That was the best soup of my life," it said, and it went home in peace.
""", [dict(enemy=e) for e in ("monster", "giant", "troll", "ogre")])
