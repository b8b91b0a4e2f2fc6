"""Plots of markets, shops, trades, food and inventions."""

from plots import add

add("cheese_wheel", "cheese, a hill", "chased a cheese", """
The biggest cheese of the year was as round as a wheel, and {name} wanted to bring it to the market.
At the top of the hill it [slipped/jumped] from the cart and began to roll.
"Stop that cheese!" cried {name}. It rolled past the [mill/church] and through the washing.
{pal} the {friend} was having lunch below, with plain dry bread. The cheese bumped into {phis} table and fell over.
"How kind," said {pal}. "I was just wishing for some."
{name} had to laugh. {He} cut two thick slices and sat down.
The rest was sold by noon, as "the cheese that ran". | Since then {name} ties up all {his} cheeses.
""")

add("kind_scales", "scales, being fair", "weighed things", """
{name}'s old brass scales had one fault: they always showed a little too little, so everyone got a plum too many.
"You will be poor," said the [grocer/cheese seller]. "Have them mended!"
Now they were right to the gram, and {name} weighed [plums/cherries] without a smile.
{pal} the {friend} looked into {phis} bag. "Something is missing," {phe} said. "It is not a plum. It is the extra one."
{name} thought about that. Then {he} weighed a pound, as exactly as {he} could, and laid one more on top.
"That one does not come from the scales," {he} said. "It comes from me."
""")

add("sour_lemonade", "lemonade, a hot day", "sold lemonade", """
Lemonade was all that {name} sold, but on the hottest day {he} forgot the sugar.
The first guest took a sip, and his whole face folded up like [a fan/an old sock].
{pal} the {friend} saw it and could not stop laughing. "I want to make that face, too!" {phe} cried.
{pal} drank, and it was an even better face. Soon there was a long line in front of the table.
They held a contest, and [the mayor/a very serious aunt] won it with both ears.
"Shall I bring some sugar tomorrow?" asked {name}. "Don't you dare," said {pal}.
""")

add("turnip_swap", "swapping, a turnip", "swapped a turnip", """
With one turnip in {his} bag, {name} went out to swap it for something better.
{He} swapped it for a {first}, and that for a fine umbrella, and the umbrella for a chair with golden legs.
But the chair was heavy, and {name} got hungrier with every step.
Then {he} met {pal} the {friend}, who was stirring a pot. "Soup," said {pal}, "but there is nothing in it. I would give all that I have for [a turnip/one good turnip]."
{name} ran back the whole way: the chair, the umbrella, the {first}, the turnip.
"That was a bad trade," said the neighbours.
But they had not tasted the soup.
""", [{"first": w} for w in ("candle", "spoon", "sponge", "bottle")])

add("popcorn_barn", "popcorn, corn", "grew corn", """
In a hot summer {name} put all {his} corn into the barn, right under the tin roof.
It grew hotter and hotter. At noon the barn said pop. Then it said pop, pop, and then it did not stop.
The door flew open, and popcorn rolled out [like a white river/like warm snow] all the way to the road.
"My corn!" wailed {name}. {pal} the {friend} came swimming through it, chewing. "Do you have any salt?" {phe} asked.
They called everybody, and each one ate a path to {his} neighbour's door.
In the evening only a small heap was left, and the sparrows took care of that.
""")

add("odd_ice_cream", "ice cream, trying something new", "made ice cream", """
Ice cream had only three flavours, until {name} tried to make a fourth.
{He} made [onion/cabbage] ice cream, and nobody came back. {He} made ice cream of [pine needles/burnt toast], and nobody came at all.
Only {pal} the {friend} tasted everything. "It is interesting," said {pal} each time, very politely, and drank a lot of water.
"What do you really like?" asked {name} at last. {pal} thought. "The smell when the first rain falls on warm stones," {phe} said.
{name} worked all night with mint, cold water and a pinch of salt.
In the morning {pal} took a spoonful and shut {phis} eyes. "It is raining," {phe} whispered.
""")

add("doughnut_holes", "doughnuts, a hole", "baked doughnuts", """
"Why do your doughnuts have no middle?" a little duck asked {name} in front of the shop.
{name} did not know. {He} had always cut out the middle and put it into a drawer.
{He} opened the drawer with {pal} the {friend}, and it was full to the top with small round balls of dough.
"Poor things," said {pal}. "They think that nobody wants them." So {name} fried them and rolled them in [sugar/cinnamon].
They were so good that the people forgot the rings.
Now {name} has a new worry. "Why do your little balls have nothing around them?" asked the duck.
""")

add("mixed_spices", "spices, a mistake", "mixed up the spices", """
All the labels had come off the spice jars in {name}'s shop, and {he} glued them on again in the dark.
The next day the mayor put pepper on his rice pudding, and the [smith/miller] put cinnamon on her eggs.
By noon an angry crowd stood at the counter and sneezed.
{pal} the {friend} pushed to the front. "One more bag of that, please," said {pal}. "The pink one. I had it on [potatoes/peas]."
It got quiet. "The pudding was not so bad, either," said the mayor slowly.
"And I finished my eggs," said another.
{name} still has the right labels in a box. Nobody has asked for them.
""")

add("runny_jam", "jam, strawberries", "cooked jam", """
Forty glasses of jam stood in {name}'s cellar, and not one of them was firm. It ran off the bread and into the sleeves.
"I cannot sell that," said {name}. "It is red water."
{pal} the {friend} carried one glass home, but {phe} [tripped/stumbled] on the steps, and the jam fell onto {phis} plate of pancakes.
It ran into every corner, and it shone. {pal} took a bite and came back at once, with the plate on {phis} head, so as to have both arms free.
"Give me [five/seven] more of those mistakes!" said {pal}.
{name} took a pen and crossed out "jam". "Pancake sauce," {he} wrote, forty times.
""")

add("bed_machine", "an alarm clock, getting up", "invented an alarm clock", """
To get up on time, {name} invented a bed that tipped over at seven.
On Monday it threw {him} onto the floor. On Tuesday it threw {him} [into the bath/into the flower bed].
"It works," said {name}, rubbing {his} back, "but I do not like it."
{pal} the {friend} studied all the wheels and ropes. "You built in a push," {phe} said. "You forgot a reason."
{Phe} took out the big spring and tied the rope to a frying pan instead.
At seven the next morning the bed stood still. There was only a smell of [pancakes/warm toast].
{name} was in the kitchen at one minute past.
""")

add("endless_noodle", "noodles, a machine", "invented a noodle machine", """
{name}'s noodle machine had a handle to start it, but no handle to stop it.
One single noodle came out. It crept across the table, down the stairs and [along the street/around the fountain].
"Eat faster!" cried {name}, but nobody can eat as fast as that.
At the other end of the village, {pal} the {friend} found a noodle at {phis} door and followed it, bite by bite.
In the evening {pal} came in at the door, quite round, just as the flour ran out.
"Good evening," said {pal}. "I wanted to see who was at the other end."
"Only me," said {name}. "Do you still have room for some sauce?"
""")

add("wooden_coin", "money, a coin", "found a coin", """
A coin lay on the market square, and {name} found it and paid {his} debt to the [miller/smith].
The man was glad and paid the grocer. The grocer paid the potter, and the potter paid {pal} the {friend}.
{pal} owed money to {name}. So {phe} came running and laid the very same coin into {name}'s hand.
Now nobody in the village owed anything to anyone, and they danced.
In the evening {name} looked at the coin under the lamp. It was made of wood. "Good for one ride on the merry-go-round," it said.
{name} showed it only to {pal}. They laughed, and then they went for a ride. | "Then that is what we shall buy," said {pal}, and they took turns on the white horse.
""")

add("pumpkin_show", "a pumpkin, a contest", "grew a pumpkin", """
For the pumpkin show {name} had grown the best pumpkin of {his} life, but it would not fit through the garden gate.
{He} pushed from behind. {pal} the {friend} pulled in front. It only got stuck between the posts.
"Then we have to be the show," said {pal}, and {phe} ran to fetch the judges.
The judges came, but they could not get in, because the pumpkin was in the way. [They looked at it with great respect/They walked around the whole fence twice].
"First prize," they said, "for the best closed gate in the land."
After that they all ate the gate, with cream. | Then {name} made soup, until there was room to get out.
""")

add("minute_shop", "time, a strange shop", "sold minutes", """
"Minutes for sale" was painted over the little shop that {name} opened.
People laughed. "How can you sell a minute?" asked the [smith/potter], who was always in a hurry.
{name} pointed to a chair. They sat and watched the hourglass, without a word.
"That was a long one," said the man in surprise. The next day he bought ten.
One evening {pal} the {friend} stood at the door. "I have no money," {phe} said, "but I have far too many minutes."
"Then come in," said {name}. "I have sold all of mine."
They sat until [the stars came out/the candle was small], and it cost nothing.
""")

add("pickle_jar", "pickles, being strong", "opened a jar", """
Nobody could open the pickle jar, and it had stood on {name}'s shelf for three years.
The smith tried and got red. The strongest [ox/bull] tried it with his knees.
{name} put up a sign: "Who can open this jar?" They came from far away, and while they waited they bought [bread and eggs/salt and string].
One quiet afternoon {pal} the {friend} picked it up. Plop, said the lid. "Oh," said {pal}. "Was I not supposed to?"
{name} looked left and right. The street was empty. They ate one wonderful pickle each.
Then {name} screwed the lid on again, as tight as {he} could.
""")
