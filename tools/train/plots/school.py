"""Plots of school, letters, numbers, rules, neighbours and families."""

from plots import add

add("letter_b", "the alphabet, letters", "looked for a letter", """
The letter B had had enough of standing behind the A, and it jumped out of {name}'s spelling book.
At once the {whole} was only {rest}, and the bee was just an "ee".
{name} ran through the streets and called, "Come ack! Come ack!"
{pal} the {friend} found the B in a [meadow/ditch], lying on its round side. "I want to be first," it sobbed.
"But you are," said {pal}. "You are the first one in 'bed', in 'book' and in 'butter'."
The B had not looked at it like that.
It hopped back into its place, and it was so proud that it came out bold.
""", [{"whole": "bread", "rest": 'a "read"'}, {"whole": "bear", "rest": 'an "ear"'}, {"whole": "broom", "rest": 'a "room"'}])

add("skipped_seven", "counting, numbers", "learned to count", """
When {name} counted, {he} always left out the seven. "Five, six, eight," {he} said.
Nobody knew why. In {name}'s basket there were never seven apples, and after Saturday the week [jumped/hopped] straight to Monday.
"On Sunday I have a party," said {pal} the {friend}. "It is the seventh day. Will you come?"
{name} got red. "I cannot get there," {he} said. "I do not have a seven."
{pal} broke off seven pieces of [chocolate/cake] and laid them in a row. "Eat slowly," said {pal}, "and say what you taste."
After that {name} never left it out again. Seven was the sweetest number of all.
""")

add("goat_homework", "homework, an excuse", "had no homework", """
"A goat has eaten my homework," said {name}, and the whole class laughed.
But it was true. The goat stood outside at the window, with a corner of paper in its beard.
"Then let us ask the goat," said the teacher. "How much is [three and four/nine take away two]?"
The goat tapped its hoof: one, two, three, four, five, six, seven.
Nobody laughed any more. "That is right," said the teacher. "And what is the capital of France?" The goat only [chewed/burped].
"We had not done that page," whispered {pal} the {friend}, who had learned together with {name}.
The goat got a gold star, and ate it.
""")

add("spelling_contest", "spelling, a contest", "took part in a contest", """
At the spelling contest only two were left on the stage: {name} and {pal} the {friend}.
They had practised together all winter, under one [blanket/lamp], with one book.
"Spell 'elephant'," said the judge, and both could. They could spell 'umbrella' and 'rhythm', too.
It got late. The judge [yawned/loosened his tie]. "The last word is 'friend'," he said. "{name}, you begin."
{name} looked across at the other side. "{pal}," {he} said, and spelled it, letter by letter.
The judge frowned and searched in his big book. Then he looked at the two of them and closed it.
"There is more than one way to spell it," he said. Both won.
""")

add("too_many_rules", "rules, a sign", "wrote rules", """
Rule number one hung on {name}'s garden gate: "No shouting."
Then somebody whistled, and {he} wrote rule two. By June there were [fifty/ninety] rules.
Nobody came in any more, because it took so long to read them.
{pal} the {friend} stood there with a lamp and read until it was dark. "I have found a mistake," said {pal}. "Rule twelve says that guests must [smile/hop], and rule forty says that there are no guests."
{name} scratched {his} head. Then {he} pulled off the rules, one after the other, and {pal} folded boats from them.
Only one new rule hangs there now. "Mind the cat," it says.
""")

add("class_snail", "a class pet, the weekend", "looked after a pet", """
This weekend it was {name}'s turn to take home Turbo, the pet snail of the class.
On Saturday morning the box was open, and Turbo was gone.
{name} crawled under every cupboard. {pal} the {friend} came and crawled along. "How far can a snail get?" {phe} asked. [They measured it with a ruler/They worked it out on paper]: "Twenty steps at most."
They looked twenty steps in every direction and found a lost penny, a spoon and {name}'s first tooth, but no snail.
On Monday {name} went to school with [wet eyes/a heavy heart].
"What is that on your hat?" asked the teacher.
There sat Turbo. He had seen the whole weekend from up there.
""")

add("shoelaces", "shoelaces, learning", "learned to tie a bow", """
{name}'s shoelaces would not stay tied. {He} wound them, knotted them and [even glued them/even scolded them].
"It is easy," said all those who could do it, and their fingers were too quick to see.
{pal} the {friend} could not do it, either. So they sat down on the step together, each with one shoe.
"Mine looks like a spider," said {pal}. "Mine looks like [soup/a bird's nest]," said {name}.
They pulled and twisted until the lamps were lit, and suddenly there was a bow. It was beautiful.
But when they stood up, they both fell over.
They had tied {name}'s shoe to {pal}'s, and nobody wanted to undo it. | They hopped home like that, with three legs, and showed it to everyone.
""")

add("learned_signs", "reading, signs", "learned to read", """
As soon as {name} could read, {he} read everything that stood on the walls and doors of the village.
"Fresh fish," {he} read aloud. "Pull. Push. [Closed on Tuesdays/Beware of the goose]."
{pal} the {friend} sat on a green bench and nodded kindly. {Phe} had never learned to read.
"Wet paint," read {name}. They looked at each other, and {pal} stood up. Behind {phim} there were now stripes.
"I thought it said 'welcome'," said {pal} softly.
{name} sat down on the ground and wrote a word into the [dust/sand]. "This is your name," {he} said.
By summer they read the signs together, and they always sat down last.
""")

add("stair_tables", "sums, stairs", "learned the times tables", """
Seven times eight would not stay in {name}'s head. In the evening it was there, and in the morning it was gone.
"Numbers need a place to live," said {pal} the {friend}, and {phe} came with [chalk/paint].
They wrote the sums on the stairs, one on each step. Nobody could go up without saying them.
The neighbour learned them, and even the [landlady/chimney sweep].
Only one step was in the dark, and there {name} always stumbled. It was seven times eight.
{He} stumbled on Monday, on Tuesday and on Wednesday.
"Fifty-six!" {he} cried on Thursday, before {his} foot was even there, and {he} jumped right over it.
""")

add("hole_in_fence", "neighbours, a fence", "had a hole in the fence", """
In the fence between two gardens there was a hole, no bigger than a plum.
{name} looked through it one day, and on the other side an eye looked back.
"Do you always look in?" asked {name}. "Do you always look out?" asked {pal} the {friend}.
They began to push things through: a [radish/cherry], a riddle, a very thin slice of cake.
For {pal}'s birthday, {name} brought a [drum/kettle], but it was too big.
{name} pushed, and it got stuck. {pal} pulled, and the whole fence fell over.
They saw each other for the first time. "You have a second eye!" said {pal}.
""")

add("family_tree", "a family, a family tree", "drew a family tree", """
Everyone in the class had to draw a family tree, and {name}'s was very short.
There was {name}, and above {him} one old aunt.
{pal} the {friend} had so many cousins that they [hung over the edge of the paper/did not all fit on the page].
{name} looked at it and sharpened a pencil that was already sharp.
"Who cooks for you when your aunt is ill?" asked {pal}. "The [weaver/miller]," said {name}. "Who knows your favourite song?" "You do."
With each answer {pal} took a green pencil and drew one more branch.
In the end {name}'s tree had birds in it. "My aunt will need a bigger wall," {he} said.
""")

add("why_sister", "a little sister, questions", "had a little sister", """
"Why?" was the only word that {name}'s little sister liked. Why is grass green? Why do we have knees?
"Because," said {name} ten times, and then, "Ask {pal}."
{pal} the {friend} was mending a [net/chair] and answered everything, until the thread was used up.
"Why do you know so much?" asked the little sister. "Because I asked so much," said {pal}, "and somebody had time."
{name} heard it from the window. {He} put down {his} [paper/spoon].
"Come here," {he} called. "I do not know about the grass, but about the knees I have an idea."
They tried it out all afternoon, walking without any.
""")

add("sick_teacher", "teaching, a teacher", "taught a class", """
The teacher had lost her voice, and {name} was to take the class for one day.
But {name} had forgotten the rivers, the [kings/planets] and the sums.
"What shall we learn?" asked twenty-two faces. {name} looked at the floor. "I know nothing," {he} said, "except how to whistle on a blade of grass."
They all went out into the meadow. The first sounds were [terrible/very rude].
Then {pal} the {friend}, the quietest of all, blew one long, clear note, and showed the others how.
The teacher heard it and smiled.
She wrote into her book: "Everybody learned something. One learned to be heard."
""")

add("word_collector", "long words, a dictionary", "collected words", """
{name} collected long words, as others collect shells. {He} kept them in a tin.
"Nevertheless" was in it, and "[marmalade/cauliflower]", and one that {he} could not say without sitting down.
When {name} used them, people nodded quickly and went away.
One evening {pal} the {friend} came in, wet and tired, because {phis} house had been [flooded/blown over]. {name} opened the tin and searched for the right word.
There was "catastrophe". There was "unfortunately". None of them was any good.
So {name} shut it and took two short ones that had never been in a tin at all.
"Stay here," {he} said.
""")

add("class_photo", "a photo, a class", "had a photo taken", """
For the class photo everyone had to stand still and keep their eyes open.
Click! {name} had blinked. Click! Now {pal} the {friend} had a finger in {phis} ear. Click! Somebody had [sneezed/fallen off the bench].
The man behind the camera groaned. "I have only one picture left," he said. "Think of something serious!"
They thought of [rain/spinach].
Then {name}'s tummy creaked like a castle door, and just as the camera clicked, they all laughed.
No one in the picture looks the right way, and half of them have no face at all.
It has hung in the hall for years, and whoever walks past has to laugh, too.
""")
