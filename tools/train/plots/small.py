"""Short plots: one thing happens, and it is soon over."""

from plots import add

add("hiccup", "hiccups", "had the hiccups", """
{name} had the hiccups and could not get rid of them.
{He} drank water upside down. Hic! {He} held {his} breath until {he} turned red. Hic!
"I will scare you," said {pal} the {friend}, and jumped out of a barrel. Hic, said {name}.
Then a leaf fell onto {pal}'s head, and {pal} screamed and ran up a tree.
{name} laughed and laughed, and when {he} stopped, the hiccups were gone.
"It worked," called {pal} from the tree. "Now how do I get down?"
""")

add("puddle", "a puddle, boots", "loved puddles", """
After the rain there was a puddle so big that {name} gave it a name: the Tiny Ocean.
{He} jumped in, and the splash hit {pal} the {friend} from head to toe.
{pal} stood there and dripped. {name} thought, "Now {phe} will be angry."
{pal} took off {phis} hat, poured out the water and said, "You forgot one dry spot."
Then {phe} jumped, too.
By evening the Tiny Ocean was gone: they had carried all of it home in their clothes.
""")

add("shadow", "a shadow", "lost a shadow", """
One cloudy day {name} looked down, and {his} shadow was gone.
"It has run away," {he} said to {pal} the {friend}. "I think I was boring."
They looked {spot} and {spot2}, but there was no shadow.
So {name} did all that a shadow might like: {he} danced, {he} hopped, and {he} waved both arms.
Just then the sun came out, and there it was, dancing too.
"It only waited for the music," said {pal}.
""")

add("button", "a button", "found a button", """
{name} found a blue button on the road and asked everyone, "Is it yours?"
It was not the miller's, and it was not the queen's.
At the last house lived {pal} the {friend}, in a coat that was open in the cold wind.
"I lost it in spring," said {pal}, "and since then I have been holding it shut with one hand."
{name} took needle and thread and sewed it on.
"Now I have a hand free," said {pal}, and gave it to {name} to shake.
""")

add("whisper", "a whisper, a rumour", "heard a rumour", """
Somebody told {name}, "The sky will turn green tomorrow." {name} told {pal} the {friend}.
By noon they all knew: the sky would turn into green soup, and it would fall.
Everyone put up umbrellas and brought spoons. Nothing fell.
"Who said it first?" they asked. It went back from one to the next, until they came to the snail.
"I said that my pie will turn green tomorrow," said the snail. "I have an old pie."
So they buried the pie together, and that was that.
""")

add("sleepy_bear", "winter sleep, waking up", "overslept", """
{name} had wanted to see the first flower of spring for years, but {he} always overslept.
This time {he} tied a string to {his} toe and gave the other end to {pal} the {friend}.
In March {pal} pulled. {name} snored. {pal} pulled harder. {name} turned over.
So {pal} picked up the bed, with {name} in it, and pushed it out into the meadow.
When {name} opened one eye, a small white flower stood right in front of {his} nose.
"There you are," whispered {name}, and slept on, smiling.
""")

add("borrowed", "lending, a ladder", "lent something away", """
{name} lent {his} ladder to the miller, the miller lent it to the baker, and the baker lent it on.
When {name} needed it, nobody knew where it was.
{He} went from house to house, and everyone said, "It was here, and it was so useful!"
At the end of the village stood {pal} the {friend}, high up in a cherry tree, on the ladder.
"I wanted to thank the one it belongs to," said {pal}, and held out a full basket.
{name} counted: one ladder had made eleven friends.
""")

add("echo_song", "a song, a lullaby", "forgot a song", """
{name} remembered the beginning of a song from long ago, but not the end.
{He} hummed it in the morning and got stuck, always at the same place.
{pal} the {friend} was passing by with a cart. {Phe} stopped, and hummed the rest.
"Where do you know that from?" asked {name}. "From my mother," said {pal}. "But I have never known how it begins."
They sat down on the cart and sang it through, from the first note to the last.
Then they sang it again, to be sure.
""")

add("stairs", "stairs, a tower", "climbed a tower", """
The tower had a thousand steps, and {name} wanted to see the view.
At step one hundred {he} met {pal} the {friend}, who was sitting there, out of breath.
"What is up there?" asked {pal}. "I will tell you," said {name}, and climbed on.
At the top {name} saw seven villages and a silver river. But there was nobody to show them to.
So {he} ran down nine hundred steps and pulled {pal} up, one step at a time.
"It is higher than I thought," said {pal}. "It is nicer than before," said {name}.
""")

add("fly_in_soup", "an inn, a guest", "had an inn", """
{name} had a small inn with one table, and no guest ever came.
{He} cooked every day all the same, and set the table for one.
One night in the rain came {pal} the {friend}, muddy and cross. "The soup is too hot," said {pal}. "The bed is too soft. The lamp is too bright."
{name} blew on the soup, put a board into the bed and turned down the lamp.
In the morning {pal} asked shyly, "May I stay one more day?"
That was ten years ago. Now the inn has two chairs.
""")

add("spider_web", "a spider, a web", "was afraid of spiders", """
In the corner of {name}'s room sat a spider, and {name} did not dare to go in.
"Please go away," said {name} through the keyhole. "I am afraid of you."
"I am afraid of you as well," said a thin voice. "You are so terribly large."
{pal} the {friend}, who was passing, put a chair in the middle. "Nobody crosses the chair," said {pal}.
So each of them kept to one side. In the evening they said good night, and in summer there was not a single fly.
After a year nobody knew what the chair was for.
""")

add("lantern_walk", "a lantern, the dark", "walked home in the dark", """
It was late, and {name} had to walk home through the dark with one small lantern.
Behind {him} there were steps. When {he} stopped, they stopped, too.
{name} walked faster, and the steps got faster. At last {he} turned around and held up the light.
There stood {pal} the {friend}. "Excuse me," said {pal}. "I have no lamp, and yours is so nice to follow."
{name} breathed out. "It shines as well for two," {he} said.
They walked side by side, and the dark stayed politely behind.
""")

add("mayor", "an election, a vote", "became mayor", """
The village needed a mayor. "I will give everyone gold," said the rooster. "I will give everyone cake," said the fox.
{name} only stood there, because {he} was mending the well.
"And what will you give us?" asked {pal} the {friend}. "Water," said {name}. "In about ten minutes."
When the bucket came up full, they all drank, for it was a hot day.
Nobody voted for gold or for cake. {name} was very surprised.
The first thing {he} did as mayor was to paint the well.
""")

add("potato", "a potato, vegetables", "grew a giant potato", """
In {name}'s field grew a potato as big as a cottage.
{He} pulled, and {pal} the {friend} pulled. It would not move. The whole village pulled, and the rope broke.
"Then we will leave it where it is," said {name}. {He} cut a door into it, and two windows.
In the first winter they all sat inside, warm and dry, and when they were hungry they ate a bit of the wall.
In spring there was only a thin brown skin left.
"Next year," said {pal}, "let us plant a pumpkin, for the stairs."
""")

add("museum", "a museum, a collection", "collected things", """
{name} collected things that others threw away: a bent spoon, half a plate, a boot without a sole.
{He} wrote a card for each of them and put them on a shelf. "Museum," it said on the door.
People came to laugh. Then {pal} the {friend} stood still in front of the boot.
"That was my father's," said {pal}. "He walked to the sea in it."
{name} took the pen and wrote it on the card. After that, everyone knew a story about one of the things.
Nobody laughed any more, and they all came back on Sundays.
""")
