"""More short plots: neighbours, games and small surprises."""

from plots import add

add("egg", "an egg", "found an egg", """
{name} found a speckled egg in the cold grass and carried it home under {his} hat.
{He} kept it warm for a week. {He} slept sitting up and did not dare to sneeze.
"What will come out?" asked {pal} the {friend}. "Somebody," said {name}.
On Sunday it cracked, and out came a very small goose, and it looked at {name} and said, "Mama."
"I am not your mama," said {name}. The goose put its head on {his} foot.
"Well," said {name}, "until you are big." It still comes by every Sunday.
""")

add("snail_race", "a snail, being slow", "was very slow", """
{name} was the slowest of all. When {he} came to a party, the chairs were already on the tables.
"You miss everything," said the others.
But one evening, slowly on the way, {name} saw smoke behind the barn, where the fast ones had run past.
{He} woke up {pal} the {friend}, and with forty buckets of water they put out the fire.
"How did you see it?" they all asked. "I was looking," said {name}.
From then on every party waits until {name} is there.
""")

add("mud", "a bath, mud", "did not want to wash", """
{name} did not want to have a bath. "Mud keeps me warm," {he} said.
After a month {he} was so muddy that grass began to grow on {his} back.
After two months there were daisies, and {pal} the {friend} sat down on {him} by mistake.
"What a nice little hill," said {pal}, and opened a basket. "I am not a hill!" cried {name}.
{pal} fell over backwards, and the cake fell into the mud.
{name} was sorry about the cake. That evening {he} had a bath, and {pal} brought a new one.
""")

add("glasses", "glasses, seeing", "could not see well", """
{name} bumped into everything: into doors, into trees, and into the mayor.
"You are clumsy," said the others, and {name} believed it.
One day {pal} the {friend} put something on {his} nose. It was a pair of glasses.
{name} stood still. "The tree has leaves," {he} said. "One by one. And are those birds?"
{He} looked at everything all day long, and last of all at {pal}.
"You have a kind face," said {name}. "I always thought so, but now I can see it."
""")

add("kite_string", "a kite", "had a kite", """
{name} had a kite and always held it tight, so that it could not get away.
"It looks sad," said {pal} the {friend}. "It wants to go higher."
{name} let out a little string, and then a little more, and the kite became a red dot.
Then the string was at its end. A gust came, and it slipped out of {his} hand.
{name} watched it until it was gone. {pal} put an arm around {him}.
A week later a letter came from far away: "Who has sent us this beautiful kite? Please come and fly it with us."
""")

add("mole_astronomer", "the stars, a telescope", "looked at the stars", """
{name} had a telescope, and every night {he} looked for a new star.
{He} counted to three thousand, and all of them had been found already.
{pal} the {friend} came to bring some soup. "May I look?" {phe} asked, and turned the telescope the wrong way.
"I see one!" cried {pal}. "It is small and yellow, and somebody waves in it."
{name} looked. It was the window of {his} own house, and {his} sister waved at {him} from the kitchen.
"That one is not on any list," said {name}, and went home to supper.
""")

add("bad_weather_shop", "a shop", "had a shop", """
{name} opened a shop and sold only umbrellas, and from that day on the sun shone.
It shone for weeks. The umbrellas got dusty, and {name} sat in front of the door and sighed.
"I need some shade," said {pal} the {friend}, all hot, and took an umbrella from the shelf. {Phe} opened it and smiled.
The next one wanted one for his ice cream, and the next one for her cow.
By evening the shop was empty, and the street was full of colours.
That night it rained. {name} laughed, and got wet.
""")

add("thank_you_note", "saying thank you", "never said thank you", """
Every morning there was firewood in front of {name}'s door, and {he} never asked who brought it.
One morning there was none, and the next morning there was none either.
{name} felt cold, and then {he} felt something else. "I never said thank you," {he} said.
{He} followed the old tracks through the snow to a hut. There lay {pal} the {friend} with a fever.
{name} lit the stove with {his} own last wood, and stayed for three days.
On the fourth morning there was wood in front of both doors, and on each a note.
""")

add("swing", "a swing, sharing", "wanted the swing", """
There was one swing, and {name} sat on it from morning until night.
"When is it my turn?" asked {pal} the {friend}. "Soon," said {name}, and swung on.
In the evening {name} felt sick, but {he} was too proud to get off.
{pal} brought a bucket, just in case, and sat down in the grass to wait.
"Why are you so nice?" asked {name} with a green face. "Because you will push me tomorrow," said {pal}.
And that is what {name} did, all day long, and it was the better place.
""")

add("barber", "hair, a haircut", "cut hair", """
{name} was the barber, and the lion came to have his mane cut. "Only a little," he growled.
{name} cut a bit on the left. Then it was crooked, and {he} cut a bit on the right.
Left, right, left, right, and in the end there was nothing left to cut.
The lion looked into the mirror. {name} hid under the table, and {pal} the {friend} hid behind {name}.
"At last," said the lion, "I can feel the wind on my head!"
The next day nine lions were standing in line.
""")

add("nap_tiger", "silence, noise", "wanted it to be quiet", """
{name} wanted it to be quiet. {He} sent the birds away, stopped the clock and oiled the gate.
"May I hum?" asked {pal} the {friend}. "No," said {name}. So {pal} went away, too.
Now it was quiet. It was so quiet that {name} could hear {himself} chew.
By the third day {he} heard the dust fall.
{name} opened the window and shouted, "Is anybody there?" and it was the nicest sound in days.
The birds came back, and {pal} came, humming, by the squeaking gate.
""")

add("recipe_lost", "a cake, a recipe", "lost a recipe", """
{name} baked the best cake in the land, but the wind took the recipe and blew it over the wall.
{He} tried it from memory. The first cake was salty, the second was flat, and the third one bounced.
{pal} the {friend} ate a piece of each and said, "This one would make a good ball."
So they played with it until they were tired, and lay down in the grass.
Under {pal}'s ear something rustled: it was the recipe. The last line said, "Rest for an hour."
"I always forgot that part," said {name}.
""")

add("rope_walk", "a tightrope, balance", "walked on a rope", """
{name} stretched a rope between two trees and fell off eleven times.
"Look ahead and not down," said the squirrel. {name} looked ahead and fell off.
"Think of nothing," said the owl. {name} thought of nothing and fell off.
{pal} the {friend} went to the other end and sat down there. "Just come to me," said {pal}. "I have something to tell you."
{name} was so curious that {he} walked across without noticing.
"What is it?" asked {name}. "You just did it," said {pal}.
""")

add("invisible_paint", "a joke, invisible paint", "played a trick", """
{name} put an empty bucket in front of the house. "Invisible paint," it said on the sign. "One nut."
{pal} the {friend} bought some and painted {phis} fence. "How does it look?" asked {pal} proudly.
{name} wanted to laugh, but {pal} was so happy that it would not come out.
All afternoon {pal} painted: the door, the bench, and even {phis} own tail.
In the evening {name} could not stand it. "It is only air," {he} said, and gave back the nut.
"I know," said {pal}. "But I so liked to see you watch."
""")

add("winter_coat", "a coat, the cold", "gave away a coat", """
{name} had saved for a winter coat for two years, and on the first cold day {he} wore it to the market.
At the corner sat {pal} the {friend} and shivered so much that the whole bench shook.
{name} walked past. After ten steps {he} came back and sat down beside {pal}.
"It is too long for me anyway," said {name}, and put one half of it around {pal}.
It was a wide coat. They walked through the market in it like one animal with four legs and two heads.
All winter long they went everywhere together, and they had to agree on the way.
""")
