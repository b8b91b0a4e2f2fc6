"""Plots of music, sounds, art, games and feasts."""

from plots import add

add("tuba_mouse", "a tuba, a mouse", "played the tuba", """
Out of {name}'s tuba came no sound at all, only a small sneeze.
{He} blew until {his} cheeks were as round as [apples/melons]. "Stop that!" said somebody. "There is a draught in my bedroom!"
A mouse lived in the tuba, with a bed and [a rug/a lamp/two chairs]. And the concert was that very evening.
"I have a house for you," said {pal} the {friend}, and opened the case of {phis} violin. "It has velvet walls."
The mouse jumped up and down on the velvet and moved in at once.
That evening the tuba sounded deep and golden, and in the first row a mouse clapped the longest. | Now the violin is kept in the sugar tin, and nobody minds.
""")

add("piano_key", "a piano, a missing note", "tuned a piano", """
One key of the old piano was silent: you pressed it, and nothing happened.
Every song that {name} played had a hole in it, and people [tripped/stumbled] over it while they danced.
{name} crawled inside with a candle. Between the strings lay [a cough drop/a ball of wool/an old mitten], soft and grey with dust.
"Leave it out a little longer," said {pal} the {friend}, who always danced alone. "I like the hole."
"Why?" asked {name}. {pal} got red. "That is where everyone stops, and then somebody looks at me."
{name} mended the key. But now {he} stops once at every dance, and asks {pal}.
""")

add("violin_cricket", "a cricket, a violin", "played with a cricket", """
Under {name}'s window a cricket played all summer, and it played much better than {name}.
{name} put {his} violin [under the bed/into the cupboard] and did not touch it any more.
"The cricket has asked about you," said {pal} the {friend} one evening. {name} did not believe it.
{He} leaned out of the window. "Is it true?" {he} asked. "I know only one note," said the cricket. "You have four strings!"
So {name} took out the violin. The cricket held its note, and {name} played [up and down/round and round] it.
{pal} fell asleep in the grass, smiling. | It was the best music of the summer, and {pal} could not say which of them was better.
""")

add("choir_frog", "a choir, frogs", "led a choir", """
{name}'s choir had lost its deepest voice, for old Uncle Bass had moved to the city.
{name} looked for a new one. The [rooster/kettle] was too high, and the bear only mumbled.
On the way home {he} heard a wonderful, deep "Rumm" from the pond. "Come out!" called {name}. "You must sing with us!"
It was a frog, no bigger than a [walnut/plum]. "I only sing in water," it said.
"I know a way," said {pal} the {friend}, and carried the frog to the concert in the soup bowl.
Rumm! went the bowl, and the windows shook. | Everyone looked for the big singer. Nobody looked into the bowl.
""")

add("lullaby_band", "a brass band, a sleeping baby", "made a band play softly", """
A brass band with six trumpets marched past {name}'s house, where a baby had just fallen asleep.
{name} ran out and waved both arms. "Softly!" {he} whispered. "We cannot do softly," said {pal} the {friend} at the big drum.
"Try it with [socks/mittens/woolly hats]," said {name}. They put one into each trumpet, and {pal} took two [feathers/carrots] for sticks.
Poo, went the trumpets. Fump, went the drum. It sounded like a parade of pillows.
The baby smiled in its sleep, and along the street all the cats lay down.
At the end of the street the band was asleep, too, standing up. | Since then they play for every new baby, and the baker lends them the socks.
""")

add("statue_pigeon", "a statue, a sculptor", "carved a statue", """
From a block of stone {name} carved a statue of the mayor, but the nose broke off.
{He} made the head smaller, and an ear broke off. In the end the stone was as small as a [loaf/melon].
"What shall I say to the mayor?" {name} sighed. {pal} the {friend} walked around the stone.
"Somebody is sitting in there," said {pal}. "It has its head under its wing."
{name} tapped once more, very gently, and there was a sleeping [pigeon/duck/dove].
"I wish I could sleep like that," said the mayor, and he put it up in the middle of the square.
""")

add("portrait_wiggle", "a portrait, sitting still", "painted a portrait", """
{pal} the {friend} wanted a portrait, but {phe} could not sit still for a minute.
First {pal} scratched {phis} ear. Then {phe} [sneezed/hopped/yawned]. Then {phe} came over to see if it was ready.
{name} painted every ear where it was just then. At noon the picture had nine ears and [four/five] noses.
"I have spoiled it," said {name}, and turned it to the wall.
But {pal} turned it back and began to laugh. "That is just what I feel like inside!" {phe} cried.
Now it hangs over {pal}'s bed, and if you walk past it quickly, it waves. | "Now I will paint you," said {pal}, and {name} found out how hard it is to sit still.
""")

add("chalk_pavement", "chalk, drawing on the street", "drew with chalk", """
With one piece of chalk {name} drew a door on the wall of the grey yard.
{pal} the {friend} knocked on it. "Nobody is in," said {name}. "Then draw somebody," said {pal}.
So {name} drew a [lady with a teapot/cook with a cake/cat in an armchair] behind the door, and {pal} drew a window with flowers.
By evening there was a whole street. In the night it rained.
{name} cried, for the wall was grey again. But {pal} pointed at the ground: the [puddles/gutter] shone pink, blue and yellow.
"They have all gone for a swim," said {pal}, and held out a new piece of chalk.
""")

add("dominoes_line", "dominoes, patience", "set up dominoes", """
Three thousand dominoes stood in a row through {name}'s whole house, and only the last one was missing.
{name} held {his} breath and bent down. Then {pal} the {friend} came in and said, "Good mor..." Clack!
Clack, clack, clack, they fell along the hall, around the [bath/stove] and under the bed.
They ran after them. It was like a small train, and it was wonderful. The last domino hit the [bell/spoon], and it went ding.
It was quiet. "I am so sorry," said {pal}. "Were you not ready?"
"I had never dared to push it," said {name}. "Will you help me set it up again?" | "I was waiting for somebody to see it," said {name}, and hugged {phim}.
""")

add("marbles_hill", "marbles, a game", "lost a marble", """
{name}'s best marble was green with a [golden/silver/white] swirl, and it rolled away down the hill.
It rolled through the legs of a goat, and {name} ran behind it.
It rolled over the bridge, hopped down [nine/twelve] steps and stopped at the foot of {pal} the {friend}.
"Is it yours?" asked {pal}. "I have never had a marble. Does it always come by itself?"
"Only this one," panted {name}, and {he} looked up the hill. "But I can send you one every day."
So each morning a marble comes down the hill, and each evening {pal} brings it back.
""")

add("feast_stone_chair", "a feast, a guest", "invited the whole land", """
For the great feast {name} counted the guests and laid a hundred plates, but a hundred and one guests came.
Everyone sat down, and {pal} the {friend} stood there without a chair. "I can go home again," said {pal}.
"Move up!" called {name}. They all moved a little, and there was a place the size of a [button/pea/penny].
"Once more!" Now it was the size of a [book/plate]. "And once more!"
{pal} sat down. At the other end the cook fell off the bench and landed in the whipped cream.
The cook tasted it and said, "More sugar." | After that feast they were all friends, for nobody could move an arm without the others.
""")

add("jelly_tower", "jelly, a feast", "made a jelly", """
A red jelly as tall as a door stood on {name}'s table, and it wobbled whenever somebody spoke.
"Nobody may laugh," said {name}, "or it will fall." So all the guests sat there [stiffly/as stiff as spoons].
The jelly wobbled to the left, and a boy bit his lip. It wobbled to the right, and [the queen/the judge] held her nose.
Then {pal} the {friend} gave a tiny hiccup, and the jelly gave a hiccup, too.
Everybody burst out laughing. The jelly bowed, slowly and politely, and fell flat onto the table.
"At last!" said {name}, and handed out [spoons/straws]. It tasted best with laughing. | "Now we can reach the top," said {pal}, and passed the spoons.
""")

add("whistle_kettle", "a kettle, a tune", "learned from a kettle", """
When its water boiled, {name}'s kettle whistled a tune, always the same [five/seven] notes.
{name} asked the postman and the organist, but neither of them knew it.
Then {pal} the {friend} came to tea and jumped up. "That is the song of the tinkers!" cried {pal}. "My grandfather made kettles and whistled all day."
{Phe} looked under the kettle, and there were his [letters/initials], very small.
{pal} sang the rest of the song, with all its verses. The kettle stopped whistling and listened.
Now it knows eight notes. | Since then it whistles the second verse, too, and tea takes a little longer.
""")

add("puppet_strings", "a puppet theatre", "had a puppet theatre", """
In {name}'s puppet theatre the strings of the puppets got into a terrible knot just before the show.
The wolf hung on the princess, and the king stood on his head. {name} pulled, and it got [worse/tighter].
"Open it!" called the children outside. "Just begin," whispered {pal} the {friend}.
The curtain went up. The wolf and the princess could not let go of each other, so they danced a [waltz/polka].
The king walked on his hands and asked politely for his crown. The children laughed until the benches shook.
"Shall I untie them now?" asked {pal} afterwards. "No," said {name}. "They want to see it again."
""")

add("dance_shoes", "dancing, shoes", "had dancing shoes", """
A pair of red shoes in the shop window tapped all night long, and {name} bought them for [two/three] coins.
They danced down the hill with {him} and through the [fountain/flower beds], and they would not stop.
"Help!" cried {name}. {pal} the {friend} ran beside {him}. "Where do they want to go?" {phe} called.
"Left!" cried {name}, and they all went left, to a small house at the end of the lane.
There lived an old lady who had once danced for the king. The shoes stopped at her feet and were quiet.
"There you are," she said. She made tea, and then she showed them the first step.
""")
