"""Plots of houses, kitchens, families and the things in them."""

from plots import add

add("too_much_soup", "cooking, a kitchen", "cooked too much", """
{name} wanted to cook soup for one, but the pot was small and {he} took the big one.
Into it went one carrot, and it looked lonely, so {he} put in ten.
Then it needed more water, and then more salt, and then another pot. Soon there was soup in the bath.
{pal} the {friend} looked in at the window. "Are you having a party?" {phe} asked.
{name} looked at all the soup. "Yes," {he} said. "It begins at six."
The whole street came with spoons, and not one drop was left. | Everybody came, and {pal} brought the bread.
""")

add("clock", "a clock, time", "had a slow clock", """
{name} had an old clock that was always slow. When it struck nine, it was really ten.
So {name} came late to everything, and the others shook their heads.
"Throw it away," they said. But {pal} the {friend} put an ear to it and listened.
"It is not slow," said {pal}. "It is only tired." {Phe} took out the dust, and a drop of oil did the rest.
The next day {name} was the first one everywhere, and it felt strange to wait for the others.
On Sundays, {name} lets the clock be slow again.
""")

add("blanket", "a blanket, sleep", "could not sleep", """
{name} could not sleep. {He} counted sheep, but they would not stay in line.
{He} drank warm milk, but then {he} was only awake with warm milk inside.
"What do you need?" asked {pal} the {friend} from the other bed.
"I do not know," said {name}. "Perhaps to hear that everything is where it should be."
So {pal} said, "The door is shut. The moon is up. The {thing} is on the chair. And I am here."
But that last part {name} did not hear, for {he} was already asleep.
""")

add("missing_sock", "a sock, a mystery", "solved a mystery", """
Every week one of {name}'s socks disappeared. First the blue one, then the striped one, then the green one.
{name} sat down behind the washing and watched all night with a lantern.
At midnight something small pulled a red sock down from the line and ran off.
{name} followed it into the hedge and found {pal} the {friend} with five babies, each one fast asleep in a sock.
"They were so cold," whispered {pal}. "I meant to ask."
{name} went home on tiptoe and came back with all the socks that {he} had.
""")

add("grandmother", "a grandmother, family", "visited a grandmother", """
{name}'s grandmother could remember everything except where she had put her glasses.
On Sunday {name} came to visit and searched [the kitchen and the cellar/the garden and the barn], but there were no glasses.
{pal} the {friend} searched, too, and found a spoon, a letter and a very old biscuit.
"Come here, both of you," said Grandmother, "and let me look at you." She bent down, and the glasses slid from her hair onto her nose.
They all laughed until their tummies hurt.
Then they shared the biscuit, and it was still quite good.
""")

add("new_baby", "a baby, a brother", "got a little brother", """
{name} got a baby brother, and all day long everyone said, "How sweet he is!"
Nobody said it about {name}. {He} packed {his} {thing} into a bag and moved into the shed.
{pal} the {friend} lived there and made room. "He cannot even walk," {name} complained.
In the night the baby cried and cried, and no song helped.
{name} went in and made the face that had always made {pal} laugh. The baby stopped and laughed, too.
"He likes me," said {name}, and {he} carried {his} bag back into the house.
""")

add("painted_door", "a door, colours", "painted a door", """
{name} painted {his} grey front door bright yellow.
The next morning {pal} the {friend} from next door had painted a window blue. | The next day the fence of {pal} the {friend} was suddenly pink.
Then {name} painted the chimney red, and {pal} answered with a green roof.
So it went on, and everybody who passed stood still and smiled.
Only the rain did not like it. But the paint was good, and the rain went away.
Now there is not one grey house left in the street. They say it began with {name}.
""")

add("bread_smell", "bread, a baker", "baked bread for the street", """
{name} baked bread every morning at four, when all the others were asleep.
{He} sometimes felt lonely, with only the oven to talk to.
One morning somebody knocked. It was {pal} the {friend}. "I woke up from the smell," {phe} said. "May I just sit here?"
The next day two came, and the day after that there were seven, in their pyjamas.
They did not talk much. They sat by the warm oven and watched the bread rise.
{name} calls it the early club, and {he} has never been lonely since. | Each of them goes home with a warm roll in the pocket.
""")

add("attic", "an old house, a box", "found an old box", """
In the attic {name} found a box with the words "Do not open".
{He} carried it down. {He} shook it, but it made no sound. {He} did not open it for a whole day.
"What if there is a ghost in it?" {he} asked {pal} the {friend}.
"Then it would like some air," said {pal}, and together they lifted the lid.
Inside lay a sheet of paper. It said, "Well done for waiting. Now draw something and close me again."
{name} drew {pal}, and {pal} drew {name}, and the box went back to the attic.
""")

add("cookie_thief", "biscuits, a thief", "looked for a thief", """
Somebody had eaten {name}'s biscuits, and there were crumbs on the floor.
"A thief!" cried {name}. {He} followed the crumbs through the hall, past the stairs and around the table.
{pal} the {friend} came along with a magnifying glass. "They lead to the bed," {phe} said. "To your bed."
{name} looked under the pillow, and there lay the last half of a biscuit.
Then {he} remembered a dream about a very good party.
"The thief is sorry," said {name} in a small voice, and {he} gave {pal} the half that was left.
""")

add("chair", "furniture, being old", "mended a chair", """
There was an old chair that nobody wanted. It had three legs, and it squeaked.
"Firewood," said the neighbours. But {name} took it home and gave it a new leg.
The leg was a little short, so that the chair rocked. {name} was ashamed of it.
Then {pal} the {friend} came by with a sick baby that would not stop crying. {Phe} sat down and rocked, squeak, squeak, and the baby fell asleep.
After that, everyone in the village wanted to sit on {name}'s chair.
"I made it wrong," said {name}. "You made it right," said {pal}.
""")

add("moving_house", "moving, a new home", "moved to a new house", """
{name} had to move away, and {he} did not want to.
{He} said goodbye to the garden, to the stairs, and to the crack in the ceiling that looked like a duck.
In the new house everything smelled of paint, and the ceilings had no cracks at all.
At night somebody threw a pebble at the window. It was {pal} the {friend} from across the road.
"Look at your wall," called {pal}. The moon shone through the tree, and the shadow of a branch looked just like a duck.
"Good night, duck," said {name}, and it felt a bit like home.
""")

add("letter_box", "the post, a letter", "never got a letter", """
Each day {name} looked into the letter box, and each day it was empty.
"You have to write letters to get letters," said {pal} the {friend}, who brought the post.
{name} knew nobody to write to. So {he} wrote to the letter box: "Thank you for waiting with me."
The next morning there was an answer: "You are welcome. I like your stamps."
For weeks they wrote to each other. Then {name} saw that the letter box had the same handwriting as {pal}.
{name} did not say a word. {He} only put a second cup on the table.
""")

add("broken_cup", "a cup, mending", "broke a cup", """
{name} had a cup that {he} loved, and one day it fell and broke into nine pieces.
{He} put the pieces into a drawer, so as not to see them.
{pal} the {friend} found them there. All evening {phe} glued, piece by piece, and painted the cracks gold.
"It is not the same cup," said {pal}. "It looks as if lightning lives in it."
{name} turned it in the light. It had never been so beautiful.
From then on {he} served tea in it only to {his} very best friend.
""")

add("toys_awake", "toys, the night", "heard the toys talk", """
At night {name} heard voices from the toy box.
"It is my turn to be hugged," said the bear. "You were hugged yesterday," said the rabbit.
{name} lay still. {He} had not known that they kept count.
In the morning {he} asked {pal} the {friend} what to do. "You have two arms," said {pal}, "and so have I."
That evening {name} took the bear and the rabbit, and {pal} took the rest.
The toy box was silent all night. Only once somebody in it said, "Much better."
""")

add("pillow_fort", "a castle, blankets", "built a castle of pillows", """
On a rainy day {name} built a castle from all the pillows in the house.
"No one may come in without the secret word," {he} called from inside.
{pal} the {friend} stood at the gate and tried. "Pancake? Dragon? Please?" It was none of them.
After a while it got quiet, and {name} noticed that a castle is rather boring alone.
{He} put {his} head out. "I forgot the secret word, too," {he} said.
"Then let us make a new one," said {pal}. They took "come in".
""")
