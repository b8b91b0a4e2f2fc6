"""Plots of journeys, treasures and a little magic."""

from plots import add

add("map", "a treasure, a map", "found a treasure map", """
{name} found an old map with a red cross on it and set out at once with {pal} the {friend}.
They crossed a swamp and a very long meadow.
Under the red cross they dug until the moon came up. In a chest lay only a note.
"The treasure is the way you came," it said. {name} was angry and kicked the chest.
But on the way home {pal} said, "Do you remember how we fell into the swamp?" and they laughed all the way across the meadow.
{name} has hung the map over {his} bed. | They put in a drawing of the two of them and buried the chest again.
""")

add("key", "a key, a door", "found a key", """
{name} found a rusty key, and it would not fit into any lock {place}.
{He} tried the gate, the chest, the church and the henhouse.
"Perhaps it opens nothing," said the hens. But {pal} the {friend} said, "Then let us make something that it opens."
They built a box, {pal} carved the lock, and {name} turned the key. It fitted!
Now they only needed something to put in.
{name} thought for a while, and then {he} put in the key's old rust, a feather and a promise.
""")

add("three_wishes", "three wishes, a fish", "had three wishes", """
{name} caught a golden fish, and it said, "Let me go, and you will have three wishes."
"I wish for a sausage," said {name} at once, for {he} was hungry. There it was.
"What a silly wish!" said {pal} the {friend}. "I wish you were quiet!" cried {name}, and {pal} could not say one word more.
The whole evening was terribly quiet. {name} looked at the sausage and at {pal}.
"I wish {pal} could talk again," {he} said softly.
"Now you have nothing left," said {pal}. "I have half a sausage and you," said {name}.
""")

add("dragon_cold", "a dragon, a cold", "helped a sick dragon", """
The dragon of the mountain had a cold, and each time it sneezed a barn caught fire.
The king sent knights, but a sneeze sent them home again.
Then {name} went up with a pot of tea and a very large handkerchief, and {pal} the {friend} carried the honey.
"Nobody ever asked how I am," said the dragon with a thick voice.
They wrapped it in forty blankets and told it jokes until the fever was gone.
The next winter it came down by itself and lit all the stoves of the village.
""")

add("wizard_hat", "a wizard, magic", "helped a wizard", """
A wizard had forgotten all his spells, and he sat crying by the road.
"What was the last one that you remember?" asked {name}. "The one for lemonade," said the wizard, and made a jug of it.
{name} and {pal} the {friend} each drank a glass. It was the best lemonade in the world.
"But I could fly once!" cried the wizard. "I could turn lead into gold!"
"Anyone who is thirsty would rather have this," said {pal}.
So the three of them opened a stand, and the queue went all around the hill.
""")

add("sleeping_bell", "a bell, a village", "rang a bell", """
The great bell of the village had not rung for a hundred years. "It is asleep," said the old ones.
{name} climbed the tower with {pal} the {friend} and pulled the rope. Not a sound.
They shouted at it. They tickled it with a broom. {pal} even sang to it.
Then {name} looked inside. A family of swallows had built a nest where the bell should swing.
"Sh," said {name}. They tied up the rope and went down on tiptoe.
In autumn, when the swallows had gone, the bell rang for the first time, and it rang all day.
""")

add("bridge", "a bridge, a troll", "had to cross a bridge", """
Under the bridge lived a troll who let nobody cross without a riddle.
"What gets bigger the more you take away?" it asked {name}.
{name} thought for one hour, and then for two. {pal} the {friend} had sat down beside {him} with a shovel and was digging in the sand.
"What are you doing?" asked {name}. "I am making a hole," said {pal}. "A hole!" cried {name}. "It is a hole!"
The troll clapped. "Nobody has ever guessed it," it said. "Do you know any more? I am so bored down here."
They stayed until evening, and nobody won.
""")

add("balloon", "a balloon, flying", "flew away", """
{name} built a balloon from bed sheets, and it really flew.
It flew over the church, over the lake and over the edge of everything that {name} knew.
"How do I get down?" {he} thought then, because {he} had only planned the up.
Far below, {pal} the {friend} was running and shouting, "Let out the air! A little at a time!"
{name} pulled a thread, and the balloon sank slowly, like a tired whale, into a haystack.
"Next time we will plan the down together," said {pal}, and pulled the straw out of {name}'s ears.
""")

add("ship_bottle", "a ship, pirates", "met pirates", """
One morning a pirate ship lay in the bay. "Give us your gold!" roared the captain.
"We have none," said {name}. "We have potatoes."
The pirates looked at each other. They had eaten nothing but dry biscuits for a year.
{pal} the {friend} lit a big fire on the beach and baked potatoes until the sun went down. The pirates cried with joy.
In the morning the ship was gone, and on the sand lay a chest full of gold.
On it stood: "For the potatoes." | {name} bought a bigger field, and {pal} a bigger pan.
""")

add("cave_paint", "a cave, drawing", "found a cave", """
Deep in a cave {name} found pictures on the wall: a sun, a deer, and two small figures side by side.
"Somebody made this a thousand years ago," said {pal} the {friend}, holding up the lamp.
"They were friends," said {name}. "You can see it."
They sat there until the lamp burned low and thought about the two of them.
Before they left, {name} took a piece of coal and drew two more small figures, far down in a corner.
"For whoever comes in a thousand years," {he} said.
""")

add("lost_city", "a forest, getting lost", "got lost in a forest", """
{name} got lost in the forest, and all the trees looked the same.
{He} left a button on the ground to find the way back. After an hour {he} found a button. It was {his} own.
Then {he} heard somebody crying. It was {pal} the {friend}, who was lost, too.
"Now we are two who do not know the way," said {pal}. "But only half as afraid," said {name}.
They held on to each other and walked downhill, where the water goes.
The water led to a river, the river led to a mill, and in the mill there was a light.
""")

add("crown", "a crown, a king or queen", "became king or queen for a day", """
The old king was tired, and he said, "Whoever makes me laugh will wear my crown for a day."
Dancers came, and poets, and a dog on a ball. The king only yawned.
{name} wanted to bow, but {he} slipped, slid along the carpet and stopped with {his} nose at the king's toes.
The king laughed so much that the crown fell off, right onto {name}'s head.
{name} made one law: everyone had to have a nap. {pal} the {friend} wrote it down in gold.
It was such a good law that the king has kept it.
""")

add("mirror", "a mirror, a wish", "found a magic mirror", """
{name} found a mirror that showed not what was, but what could be.
In it {he} saw {himself} with a great ship and a coat of silk.
{He} looked into it all day and forgot to eat. {pal} the {friend} knocked three times and went away again.
The next morning {name} saw something else in the glass: an empty chair beside {his} own.
{He} turned the mirror to the wall and ran out into the rain. "{pal}!" {he} called. "Are you still there?"
{pal} was sitting on the steps. "I could be wetter," said {pal}, and laughed.
""")

add("robot_heart", "a robot, a machine", "built a machine", """
{name} built a machine that could do everything: sweep, cook and count to a million.
But it did not know when to stop. It swept the flowers out of the garden and counted all night.
"Teach it to wait," said {pal} the {friend}. "How do you teach that?" asked {name}.
{pal} sat down with the machine and showed it a sunset. It stood there, one minute, then two.
"What is it for?" asked the machine. "For nothing," said {pal}.
The machine thought about that for a long time, and it forgot to count. | Since that evening it stops by itself, whenever the sky turns red.
""")

add("old_turtle", "an old turtle, a question", "had a question", """
{name} wanted to know what the most important thing in the world was.
The goat said, "Grass." The miller said, "Wind." The king said, "Me."
So {name} walked for three days to the oldest turtle, and {pal} the {friend} came along to carry the bread.
The turtle thought until it was dark. "Ask me something easier," she said. "Who walked with you?"
"{pal} did," said {name}. "Did you ask {phim} to?" "No," said {name}, and then {he} was quiet.
All the way back {name} carried the bread.
""")
