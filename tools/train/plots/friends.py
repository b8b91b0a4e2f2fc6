"""Plots of feelings, quarrels and friends."""

from plots import add

add("quarrel", "a quarrel, making up", "had a quarrel", """
{name} and {pal} the {friend} had a quarrel, and in the evening nobody knew what it had been about.
{name} drew a line across the path. "This is my side," {he} said.
On {name}'s side was the swing. On {pal}'s side was somebody to push it.
So {name} sat on the swing and did not move, and {pal} stood there with nothing to push.
Then it began to rain, and the line was washed away.
"Oh," said {name}. "Oh," said {pal}, and gave the swing a push.
""")

add("shy", "being shy, a party", "was very shy", """
{name} was so shy that {he} always stood behind the curtain at parties.
This time somebody was there already. It was {pal} the {friend}.
"Are you hiding, too?" whispered {name}. "I am only resting from the noise," whispered {pal}.
They stood side by side and looked at the feet below the curtain, and they guessed whose they were.
It was the best game of the whole party. Soon they giggled so much that the curtain fell down.
Everyone clapped, and {name} found that {he} did not mind at all.
""")

add("imaginary", "an invisible friend", "had an invisible friend", """
{name} had a friend whom nobody could see. At dinner {he} always asked for two plates.
"There is no one there," said the others, and {name} got red.
Only {pal} the {friend} bowed to the empty chair. "Good evening," said {pal}. "Do you like soup?"
{name} was so surprised that {he} forgot to answer for the chair.
After dinner the three of them played cards, and the invisible one won twice.
As the weeks went by, {name} asked for the second plate less and less, because {pal} sat there.
""")

add("too_big", "being tall, being small", "wanted to be taller", """
{name} did not like being small. Every morning {he} measured {himself} at the door, and nothing had changed.
{He} ate carrots, {he} stretched, and {he} slept hanging from a branch. It did not help.
Then a key fell through a crack in the floor: it was the key to the whole house, and {pal} the {friend} could not reach it.
Everybody tried, and every hand and paw was too big. Only {name} fitted through.
"What luck that you are the size you are," said {pal}.
That day {name} wiped the marks from the door.
""")

add("different", "being different", "was not like the others", """
All the others {place} could sing, but {name} only made a sound like a creaking door.
So {he} always moved {his} mouth without a sound when they sang together.
One night a thick fog came, and {pal} the {friend} was lost in the hills. They sang for {phim}, but soft songs do not get far in fog.
Then {name} took a deep breath and creaked as loudly as {he} could.
{pal} heard it and followed it all the way home.
Since then the last note of every song belongs to {name}.
""")

add("jealous", "three friends, jealousy", "was jealous", """
{name} and {pal} the {friend} did everything together. Then a frog came, and {pal} taught it to skip stones.
{name} watched from behind a bush and felt something hot in {his} tummy.
{He} threw {his} own stone so hard that it only sank.
The frog came over. "{pal} says you are the best at this," it said. "I am too shy to ask. Would you show me?"
The hot thing in {name}'s tummy got smaller and then went out.
That afternoon three stones skipped over the water, one, two, three.
""")

add("goodbye", "saying goodbye, missing someone", "had to say goodbye", """
When autumn came, {pal} the {friend} had to go south for the winter, and {name} was sad.
"How long is a winter?" asked {name}. "As long as it takes to eat these," said {pal}, and gave {him} a bag with a hundred nuts.
Every day {name} ate one nut. On stormy days {he} would have liked to eat ten.
In the end there was one nut left. {name} held it in {his} hand and listened.
There was a flutter and a knock at the door.
"I kept the last one for you," said {name}.
""")

add("lie", "a lie, being honest", "told a fib", """
"I have been to the moon," {name} once said, because nobody was listening to {him}.
Now they all listened. So {he} told them about moon cheese and moon mice, and every day it got more.
"Take us with you!" they begged. {name} did not sleep that night.
{He} went to {pal} the {friend}. "I have never been there," {he} said. "I only wanted to be heard."
"Then say that," said {pal}, "and after that, tell us a story that says it is a story."
{name} did. They listened even longer than before.
""")

add("apology", "saying sorry", "had been rude", """
{name} had been rude to {pal} the {friend}, and the word "sorry" would not come out.
{He} tried it in front of the mirror, but it got stuck like a cork.
So {he} picked flowers and laid them at {pal}'s door. {He} swept {pal}'s steps. {He} even washed {pal}'s cat.
"Why are you so busy?" asked {pal} from the window.
"Because I am s... I am s..." said {name}. "Because I am so sorry!"
It popped out, and birds flew up. "I know," said {pal}. "The cat told me. Come in."
""")

add("worry", "worries, bedtime", "had many worries", """
{name} had so many worries that they did not let {him} fall asleep.
"What if the roof flies away? What if I forget my name? What if there is no breakfast?"
{pal} the {friend} brought a jar. "Say each of them into the jar," {phe} said, "and I will shut the lid."
{name} whispered for a long time. When the jar was full, {pal} put it outside the door.
In the morning they looked into it. There was nothing in it but air.
"They went home," said {pal}, and made breakfast. | {name} still knew {his} name, the roof was on, and there was toast.
""")

add("laugh_lost", "laughing, a clown", "had lost a laugh", """
One day {name} had no laugh any more. {He} looked for it in every pocket.
{pal} the {friend} told {him} a joke about a goose. {name} only nodded.
A clown came and fell over a bucket. {name} asked if he was hurt.
In the evening {pal} gave up, sat down on a chair, and the chair broke, and {phe} sat in the cake.
It was quiet for a moment. Then something began to bubble in {name}, and out it came, loud and round and shining.
"There it is!" cried {pal}. "It was under the cake."
""")

add("helper", "helping, being busy", "helped everyone", """
{name} could never say no. {He} carried the miller's sacks, walked the dog of the queen and looked after nine ducklings.
In the evening {he} was too tired to eat. {pal} the {friend} saw it and said nothing.
The next day a sign hung on {name}'s door: "Closed. Come and help."
The miller brought a pie. The queen watered the flowers. The nine ducklings pulled up the weeds, and some of the flowers, too.
{name} lay in the grass and looked at the clouds.
"Who wrote that sign?" {he} asked. {pal} hid a pencil and smiled.
""")

add("copycat", "being yourself", "wanted to be someone else", """
{name} thought that {pal} the {friend} was wonderful, and {he} wanted to be just the same.
{He} walked like {pal}. {He} ate what {pal} ate. {He} said "By my whiskers!" like {pal}, although {he} had none.
One morning {name} saw {pal} in the garden. {pal} was walking in a funny way and humming {name}'s song.
"What are you doing?" asked {name}. {pal} got red. "I wanted to be a bit like you," {phe} said.
They looked at each other for a while.
"By my whiskers," said {name}, and they both decided to stop.
""")

add("secret", "a secret", "kept a secret", """
{pal} the {friend} told {name} a secret, and it was so good that it tickled in {his} mouth.
{name} wanted to tell the baker. {He} wanted to tell the postman. {He} even wanted to tell a tree.
{He} held {his} mouth shut with both hands all day long.
In the evening {pal} laughed. "You may tell it now," said {pal}. "The secret is that there is a party for you tonight."
"For me?" cried {name}. "And I did not even tell myself!"
The music began, and the whole village came out from behind the hedge.
""")

add("lonely_giant", "a giant", "visited a giant", """
Behind the hill lived a giant, and everyone was afraid of his deep voice.
One day {name}'s {thing} flew over the hill and landed in his garden.
{name} was trembling when {he} knocked. The giant opened and held out the {thing} between two huge fingers.
"I mended it," he said. "It was a little torn. Nobody ever comes for their things."
In the next room there were shelves of balls and kites and hats, all mended and clean.
{name} fetched {pal} the {friend} and all the others, and that afternoon the giant had so many guests that he ran out of cups.
""")
