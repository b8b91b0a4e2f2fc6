"""Plots of the sea, ships, islands, rivers and weather."""

from plots import add

add("foghorn", "a foghorn, fog", "stood in for a foghorn", """
The foghorn of the harbour had a sore throat, and that night a thick fog came up. {name} heard it only [whisper/wheeze/cough].
"The [fishing boats/sailors] will not find the way in," said {name}. {He} ran to the pier and called "Hoo!" as loudly as {he} could.
After an hour {his} voice was nearly gone. Then {pal} the {friend} came with a big tin bath and a wooden spoon.
{name} hooed and {pal} banged, and one after the other [seven/nine/twelve] boats came in.
"What a terrible noise!" said the last captain happily.
In the morning they gave the foghorn a scarf and some warm honey. | By breakfast the foghorn was well again, and {name} had no voice left.
""")

add("seasick_captain", "a captain, being seasick", "was a seasick captain", """
Captain {name} had a fine ship and a fine hat, but {he} felt sick as soon as the ship moved.
So the ship always stayed in the harbour, and the sails were full of [spiders/dust/swallows].
"Look at one thing that does not move," said {pal} the {friend}, who scrubbed the deck.
"Here everything moves," groaned {name}, "even the [soup/lamp/bucket]."
"There is the line where the sky begins," said {pal}. {name} looked at it, and slowly {his} tummy became quiet.
"Up with the sails!" cried the captain. They sailed straight towards that line, and it is still in front of them.
""")

add("ant_captain", "a ship in a bottle, an ant", "built a ship in a bottle", """
For a whole winter {name} built a tiny ship inside a bottle, with [paper/silk] sails and a mast as thin as a hair.
When it was ready, an ant walked in through the neck and stood on the deck. "Let us sail!" it said.
"It is only for looking at," said {name}. The ant [hung its head/looked very sad].
{pal} the {friend} carried the bottle to the pond and laid it carefully on the water. It floated!
The wind blew into the neck of the bottle, and the little sails became round.
The ant saluted. It went around the pond three times, and {name} was prouder than any admiral. | "Home by supper!" called {name}, and the ant was.
""")

add("island_wakes", "an island, a whale", "had tea on a whale", """
On a round grey island, where no tree grew, {name} and {pal} the {friend} spread out a tablecloth and made tea.
"What a smooth island," said {pal}, and {name} scratched the ground with {his} foot. The island [giggled/sighed].
"A bit more to the left," said a deep voice. They were sitting on a whale!
{name} held on to the teapot. But {he} reached over and scratched, a bit more to the left.
"I could never reach that spot," said the whale. "Forty years! Where may I take you?"
It swam them home so gently that not one [cup/spoon] fell over. | It took them home, and they had their second cup on the way.
""")

add("weathercock", "a weathercock, the weather", "asked a weathercock", """
High up on the church the weathercock always pointed at the bakery, no matter where the wind came from.
"It is broken," said everyone, and {name} climbed up with [an oil can/a hammer].
"I am not broken," said the weathercock. "It smells so good over there, and I have never tasted a [bun/roll/tart]."
{name} climbed down again and told {pal} the {friend}, who bought one, still warm, and tied it to a long pole.
The weathercock took one bite and closed its eyes. Then it spun around twice with joy.
Now it shows the wind on six days. On Sundays it shows when the buns are ready.
""")

add("hail_plums", "hail, a tin roof", "slept through hail", """
Hailstones as big as plums fell on {name}'s tin roof, and it sounded like a hundred drums.
{name} crept under the table. {pal} the {friend} was there already, with [a pot/a pan] on {phis} head.
"It is only ice that is in a hurry," said {pal}, but {phis} voice was shaking.
{name} began to knock on the table leg, the same way as the hail: tack, tack, tack-a-tack. {pal} knocked back.
Soon they had a real song, with a slow part and a fast part, and neither of them noticed that the hail had stopped.
Outside the sun was shining on the ice. | They put the biggest hailstone into the lemonade.
""")

add("oyster_pearl", "a pearl, an oyster", "found an oyster", """
An oyster lay on the sand and held its mouth tightly shut. "It has a pearl," thought {name}, and {he} wanted it.
{He} knocked, {he} begged, and {he} told it {his} best jokes. The oyster said nothing.
"Perhaps it is thirsty," said {pal} the {friend}. Together they carried it back into the [waves/shallow water].
There the oyster opened at last. "Thank you," it said. "I could not talk with my mouth full."
It really had a pearl, small and [pink/silver/golden], and held it out to them.
"Keep it," said {name}. "I only wanted to know what was so important." | {name} looked at it for a long time and gave it back, because it matched the oyster so well.
""")

add("shell_kitchen", "a seashell, homesickness", "listened to a seashell", """
In every seashell you can hear the sea, but in {name}'s shell you could hear a kitchen.
There was a clatter of [plates/spoons/pans], and a voice that sang about onions.
"It must be the wrong shell," said {name}. {He} asked everyone on the beach who had lost a kitchen.
{pal} the {friend}, a sailor far from home, held it to {phis} ear and went very quiet.
"That is my mother," whispered {pal}. "She sings it every Friday." | "That is my mother's song," whispered {pal}. "It is Friday."
{name} gave {phim} the shell. And that Friday the two of them cooked onions and sang along.
""")

add("sandcastle_tide", "a sandcastle, the tide", "built a sandcastle", """
All morning {name} built a sandcastle with [four/five/six] towers, and then the tide came in.
"Stop!" {name} told the sea. {He} dug a ditch, and the sea filled it. {He} built a wall, and the sea licked it flat.
"You cannot win against it," said {pal} the {friend}. "But you can invite it."
So they opened the gate of the castle and bowed. The first wave came in, very small and polite.
It ran through the hall, went up the stairs and carried the [little/red/paper] flag away with it.
The next morning the flag lay on the sand, and beside it lay the prettiest shells. | "It was a good guest," said {name}. "Tomorrow we will build it a bigger hall."
""")

add("mill_wheel_duck", "a water mill, ducklings", "stopped a mill", """
The mill wheel stood still, although the stream was full of water, and nobody had any flour. {name} went to look.
On the lowest paddle sat {pal} the {friend} with an umbrella. "Quiet, please," said {pal}. "Look up there."
On the highest paddle was a nest with [three/five/six] ducklings. If the wheel turned, they would fall into the stream.
"But the village needs bread," said {name}. They thought about it for a while.
Then {name} asked everyone to eat [potatoes/porridge/pancakes without flour] for two weeks, and everyone grumbled a little.
On the last day the ducklings jumped into the water by themselves, and the wheel turned again. | When the ducklings could swim, the first loaf went to them.
""")

add("net_hole", "a fishing net, mending", "had a hole in a net", """
{name}'s fishing net had one big hole, and every day the same fat fish swam out through it and [winked/waved].
"Tomorrow I will mend it," {name} always said, but {he} was too tired.
One day {he} caught nothing but a boot. "Good morning," said the fat fish, and swam in and out again.
{pal} the {friend} brought a needle and thread. "Shall we?" {phe} asked. {name} looked at the hole.
"Who would say good morning to me then?" {he} asked.
So they sewed a neat border around the hole, in [red/blue/yellow], like a door. The fish used it every day. | They did not close the hole. They put a little curtain on it instead.
""")

add("waterfall_curtain", "a waterfall, hide and seek", "hid behind a waterfall", """
Behind the waterfall there was a dry little room of stone, and only {name} knew it.
When they played hide and seek, {he} hid there, and no one ever found {him}.
{name} was [proud/very pleased]. {He} waited one hour, and then another. The water was so loud that {he} could hear nothing else.
"Perhaps they have all gone home," {he} thought, and the room felt cold.
Then a wet nose came through the water. "Found you!" gasped {pal} the {friend}. "I have looked [everywhere/all afternoon]."
{name} had never been so happy to lose. | "What took you so long?" asked {name}, and gave {phim} half of {his} dry towel.
""")

add("fog_jar", "fog, a jar", "caught fog in jars", """
One grey morning {name} caught some fog in a jam jar and screwed the lid on tight.
"What do you want that for?" asked {pal} the {friend}. "You never know," said {name}, and put it [away/on a shelf].
In summer it became so hot that the [hens/bees] lay down in the shade and nobody could work.
Then {name} carried the jar to the village square and opened it.
Out came the fog, cool and soft. It grew and grew until the whole square was white.
They all sat in it and sighed, and {pal} bumped into three people and said sorry to a tree. | "You never know," said {pal}, and the next day {phe} began to wash out jars.
""")

add("barrel_flood", "a flood, a barrel", "sailed in a barrel", """
After weeks of rain the brook came into the house, and {name}'s bathtub floated out through the door.
{name} jumped into a pickle barrel and paddled after it with [a broom/a frying pan/a tennis racket].
In the bathtub sat {pal} the {friend}, who had been asleep on the doormat. "Are we at sea?" asked {pal}.
"We are in the [main street/vegetable garden]," said {name}. On the roofs their neighbours were calling for help.
All day long they rowed from roof to roof and took everyone up to the hill.
When the water had gone, {pal} got a medal in the shape of a bathtub, and {name} got a pickle.
""")

add("pier_gull", "a gull, chips", "shared lunch with a gull", """
At the end of the pier a gull stole {name}'s lunch, every day at twelve o'clock sharp.
{name} hid it under {his} hat. The gull took the hat, too. {He} hid it in {his} boot, and it took the boot.
"Why does it need so much?" asked {pal} the {friend}. They followed the gull along the [cliffs/rocks/shore].
There sat an old gull with a bad wing, in {name}'s hat, and beside it stood the boot, full of flowers.
"You could have asked," said {name}. The gull looked at its feet.
Since then {name} brings three lunches, and {he} has got back {his} boot. | Now they all have lunch together at twelve, and the old gull wears the hat.
""")
