"""Plots of travel, vehicles, mountains, forests, machines and odd visitors."""

from plots import add

add("turned_signpost", "a crossroads, a signpost", "stood at a crossroads", """
At the crossroads the wind had turned the signpost, so that every arrow pointed the wrong way.
{name} wanted to go to {his} cousin's wedding, and {he} came to a [duck pond/brickyard].
There stood {pal} the {friend} in swimming things, who had wanted to go to the lake. "This is the wedding?" asked {pal}.
Soon more came: a man with a [ladder/tuba], two aunts, and the bride.
"Well," said the bride, "is somebody missing?"
Only the groom was. He came an hour later, with a fishing rod.
It was a fine wedding, and the ducks got most of the cake. | They danced until it was dark, and {pal} held the signpost straight.
""")

add("tandem", "a bicycle, going together", "rode a bicycle", """
Out of two bicycles {name} and {pal} the {friend} built one, with a saddle in front and one behind.
They pedalled as hard as they could, and it did not move an inch.
"You are not pushing," puffed {name}. "I push more than you," puffed {pal}.
They pedalled until they were [red/steaming]. A snail passed them.
"Where are you two going?" asked the snail. "To the hill," said {name}. "To the lake," said {pal}, and only then they turned around.
They had been sitting back to back all the time.
{pal} changed seats. They rode up the hill and down the other side, and there, of course, was the lake.
""")

add("hill_stones", "a mountain, a stone", "wanted to be higher", """
On the lowest mountain of the land, {name} read a little sign: "One step too small to be on the map."
{He} felt sorry for it, carried up a stone and laid it on the top.
{pal} the {friend} laughed, and came back with [two stones/a stone under each arm].
Soon it was the custom. Whoever had a worry wrote it on a stone and left it up there.
The heap [grew and grew/got as high as a door].
One day a woman came with a long measuring pole. She nodded.
Now it is on the map. The worries are still there, but the view from on top of them is lovely.
""")

add("late_bus", "a bus, being late", "drove a bus", """
The village bus was always late, because {name}, who drove it, stopped for everything.
{He} stopped for the ducks, for a [loose button/fine sunset], and for old aunts with long stories.
"From tomorrow you will be on time," said the mayor, and gave {him} a whistle and a watch.
The next day the bus left without the ducks, the aunts, and {pal} the {friend}, who ran behind it with one shoe.
{name} saw {pal} get smaller and smaller in the mirror, and {he} put on the brakes.
"You will be late," said the mayor, who sat inside. Then his [hat/newspaper] flew out of the window.
"Stop!" he cried. {name} was already standing.
""")

add("coffee_lake", "a stain, a map", "drew a map", """
A drop of coffee fell onto the map that {name} was drawing, right between two villages.
{He} could not wipe it off. So {he} drew a line around it and wrote "Brown Lake" beside it.
In spring a family arrived with [towels and a boat/swimming rings]. "Where is the lake?" they asked {pal} the {friend}, who lived there.
"It is not quite ready," said {pal}, and ran to {name}.
They took two shovels. The family helped, and then [the neighbours/both villages] came, and in autumn it rained.
Now there are frogs in it, and in the evening it really is a little brown.
{name} drinks only water when {he} draws.
""")

add("rust_robot", "rust, a raincoat", "met a robot in the rain", """
A robot stood in {name}'s doorway and asked for a drop of oil and a dry corner.
"I am not allowed to get wet," it said, "or I will rust." It looked at the rain as others look at [a cake/the sea].
{name} and {pal} the {friend} heard it sigh all evening. "What does it feel like?" it asked. "Like being [tickled/tapped] by someone you cannot see," said {pal}.
By morning they had sewn a suit from an old raincoat, with [boots/a hood].
The robot walked out slowly and held up its face.
"Forty-one, forty-two," it counted, and then it stopped counting the drops, for all of them were nice.
""")

add("measuring_visitor", "a visitor from space, measuring", "had a visitor from space", """
A visitor from another planet landed in {name}'s cabbages and wanted to measure everything on Earth.
It measured the [barn/well], the cat and the soup.
"And this?" it asked, when {pal} the {friend} came in and {name} smiled. "How long is that?"
{name} smiled again, but each time it came out [wider/different]. The ruler was no use. The scales showed nothing.
All of its three eyes drooped. "I cannot go home with an empty line," it said.
So {pal} [tickled it/told it a joke about a cabbage]. Its mouth went up at both corners.
"Oh," it said, and put away the ruler. "I will just bring this one with me."
""")

add("swapped_suitcase", "a suitcase, a holiday", "went on holiday", """
At the station two brown suitcases stood side by side, and {name} took the wrong one.
At the hotel {he} opened it and found a [fishing net/telescope], red dancing shoes and a note: "Be brave!"
{name} had packed only slippers and a book, and {he} had never danced.
But the shoes fitted, and there was music. {He} was brave for a whole week.
On the last day, a well rested guest sat at the station, in {name}'s slippers. It was {pal} the {friend}.
"I never sit down," said {pal}. "It was heavenly. How does the book end?"
They swapped back. But {name} kept [the note/one shoe], and {pal} kept [the bookmark/one slipper].
""")

add("fallen_pine", "a fallen tree, the road", "found a tree on the road", """
A great pine had fallen across the forest road, and {name} could not get past with {his} cart.
On the other side stood {pal} the {friend}, with a cart, too.
They sawed, they pushed, and they [scolded it/asked it nicely]. The pine did not care.
"I must bring these eggs to the hill," said {name} at last. "And I must bring this flour to the [valley/village]," said {pal}.
They looked at each other. Then they climbed over the trunk and swapped carts.
Each one drove the other's load the rest of the way.
On the way home they met at the trunk again, and there was [cake/an omelette] for two.
""")

add("stuck_truck", "a truck, a low bridge", "got stuck under a bridge", """
Under the low stone bridge {name}'s truck got stuck, and it could go neither forwards nor backwards.
The mayor came and wanted to take down the bridge. The smith came and wanted to saw off the roof.
They argued until it was [dark/time for supper].
{pal} the {friend} had sat down beside a wheel. "Why is it so fat?" {phe} asked.
Only {name} listened. {He} looked at the tyre, and then {he} let out [a little/some] air. Pffff, on all four sides.
The truck sank a little and rolled out like a tired old [lady/gentleman].
"I only asked," said {pal}, and was allowed to honk all the way home.
""")

add("cable_car", "a cable car, strangers", "was stuck in the air", """
Halfway up, the cable car stopped with a jerk, and {name} was hanging between two mountains with four strangers.
Nobody spoke. They all looked at their [shoes/gloves]. The wind rocked them a little.
"I am afraid," said {pal} the {friend} in the corner, quite loudly. "Is anyone else?"
"I am," said {name}. "Me too," said the tall man, and "Terribly," said the lady with the hat.
Now that it was out, there was more room. They shared a [sausage/pear] in five pieces and told each other jokes.
After two hours it went on. "Already?" said the tall man.
They walked up the last part together, with the hat in front.
""")

add("lift_four", "a lift, a tall house", "lived in a tall house", """
The lift in {name}'s house had a will of its own and always went to the fourth floor.
You could press two or nine. It said "ding" and opened its doors at four.
{name}, who lived at the very top, kicked the door and [stubbed a toe/lost a shoe].
On the fourth floor lived {pal} the {friend}, who had a broken leg. "How nice," said {pal} each time. "A visitor!"
So {name} stayed for [a game of cards/a cup of tea], and the next day for two.
When {pal}'s leg was well again, the lift went wherever you pressed.
It has never said why. But now and then {name} pats it on the button.
""")

add("door_on_back", "a strange guest, a door", "met somebody with a door", """
Somebody walked along the road with a door on {phis} back. "Why are you carrying that?" asked {name}.
"It is all that is left of my old house," said {pal} the {friend}. "Perhaps I shall find some walls that fit."
{pal} put it down in the meadow. {name} [knocked/rang]. "Come in!" said {pal}.
They laughed, and {name} came back the next day with a [window/chimney].
Others brought [a shelf/a step], nine bricks, a piece of roof.
By winter there was a house behind the door, crooked and warm.
The door still does not shut well. {pal} says that it does not need to.
""")

add("lark_digger", "a digger, a nest", "drove a digger", """
With a big yellow digger {name} was to make a straight road, from the church to the river.
In the middle of the field a lark flew up. {name} stopped and climbed down. There were [three/four] eggs in a nest.
"Go on!" called the foreman. "The plan says straight." {name} looked at the eggs.
{pal} the {friend}, who held the measuring tape, coughed and let it [slip/hang] a little. "There is a bend in my tape," said {pal}.
"So there is," said {name}, and drove exactly along the tape.
The foreman never found out why.
But on that bend everyone drives slowly, and in May they [hear singing/open their windows].
""")

add("polite_ghost", "a ghost, an old castle", "met a ghost", """
In the old castle a ghost came through the wall and asked {name} for a new sheet.
"This one has a [hole/jam stain]," it said. "Everyone giggles."
{name} pulled the blanket up to {his} nose. "I have one with [ducks/stripes]," {he} said. "Would that do?"
The ghost put it on and floated to {pal} the {friend} in the next room. "Boo," it said. "What pretty [colours/cloth]!" said {pal}, half asleep.
"In three hundred years," said the ghost, "nobody has called me pretty."
It never went back to the old sheet.
Now it comes to breakfast, and only the toast is a bit afraid.
""")
