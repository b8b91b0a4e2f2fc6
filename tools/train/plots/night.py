"""Plots of the night, dreams, stars, sleep, light and winter."""

from plots import add

add("moth_candle", "a moth, a candle", "lit a candle for a moth", """
A moth with one torn wing sat on {name}'s candlestick and asked for a light.
"You will burn yourself," said {name}, and put the candle into a [glass/jar].
The moth walked around it, sighing. "I only want to dance in front of it," it said. "I am too slow to fly in."
{pal} the {friend} lit a second candle on the other side. Now there was a big shadow of the moth on the wall.
It had two [whole/perfect] wings, for a shadow does not show a tear.
The moth danced until midnight and looked only at the wall. | "So that is me," said the moth, and danced until the candles were gone.
""")

add("firefly_queue", "fireflies, a street lamp", "lit a street lamp", """
The only street lamp of the lane went out, and {name} had to mend it.
{He} filled in oil, {he} changed the wick, and {he} even [polished/tickled] the glass. It stayed dark.
"Somebody will fall over the [pump/steps]," said {pal} the {friend}, and just then somebody fell over {pal}.
In the hedge a few fireflies giggled. "It is not funny," said {name}. "Could you do better?"
They whispered together. Then they flew into the lamp, one after the other, until it was full and bright.
They stayed until a new wick came, and each night {name} read them one page of a [poem/fairy tale] for it. | In the morning they were so tired that {pal} carried them home in a hat.
""")

add("dream_mixup", "dreams, a mix-up", "got the wrong dream", """
Last night {name} dreamed about [carrots/wool/acorns], a thousand of them, and {he} did not even like them.
"Strange," said {pal} the {friend} at breakfast. "I dreamed about {a_thing}, and I do not have one."
They looked at each other. The dreams had gone into the wrong beds!
"Did you enjoy mine?" asked {name}. "Very much," said {pal}. "You fell into a pond and laughed. And mine?"
"Rather a lot of [chewing/counting]," said {name}.
That evening they wrote their names on their pillows in big letters. | They could have changed back. But on Fridays they swap pillows, just to see what is on.
""")

add("star_washing", "stars, washing", "washed the stars", """
After the dusty summer the stars looked dull, and {name} carried a bucket and [a sponge/a soft cloth] up to the highest roof.
They were too far away, of course. {name} sat down beside the chimney and sighed.
"Have you looked at your window lately?" called {pal} the {friend} from the garden.
{name} ran down. The window was grey with dust! {He} washed it once, and then again.
That night {he} looked out, and the stars were as bright as [new pins/drops of dew].
"What a lot of work," said {name} proudly, "but now they are all clean." | "You washed all of them at once," said {pal}, "with one bucket."
""")

add("sheep_tired", "counting sheep", "counted sheep", """
To fall asleep, {name} counted the sheep that jumped over {his} bed, but number [twelve/eight/nineteen] stopped.
"I am tired," said the sheep. "Every night over your bed, and nobody asks how we are."
{name} sat up. {He} had never thought of it. "Would you like to lie down?" {he} asked.
The sheep lay down on {his} [feet/blanket], and the next ones lay down, too. It was warm, soft and a bit crowded.
In the morning {pal} the {friend} came in. "Why is there wool all over the place?" {phe} asked.
"Sh," said {name}. "Number thirty is still asleep." | "It is a long story," said {name}, yawning, "and it has [twelve/forty] tails."
""")

add("winter_bench", "a snowman, a bench", "sat with a snowman", """
By the frozen lake a snowman sat on a bench, and {name} sat down beside him every day after lunch.
The snowman said nothing, but he was a good listener. {name} told him about [the soup/a bad day/a new song].
In March he got thinner. "He is leaving me," said {name}, and held [an umbrella/a hat] over him.
"Nobody can stop that," said {pal} the {friend}, "but we can go with him." They followed the thin little stream that ran from the bench into the lake.
On the shore the first blue flowers were growing.
"He only needed more room," said {pal}. They sat down there, and {name} told them both about the day.
""")

add("ice_lantern", "ice, a lantern", "made lanterns of ice", """
Overnight the bucket by {name}'s door froze solid, and the ice came out round and hollow, like a bowl.
"Now I have no water for my [tea/porridge]," grumbled {name}. "Wait," said {pal} the {friend}, and put a candle into the ice.
It shone like a small moon. {name} forgot all about breakfast.
The next night they put out [five/ten] buckets, and soon a row of ice moons stood along the dark road.
People who had not gone out for weeks came and walked slowly up and down.
"Good evening," they said. "Good evening!" And it was one. | {name} now loves the cold, but {his} tea is always late.
""")

add("owl_nightshift", "a night watchman, an owl's call", "was a night watchman", """
"All is well!" called {name}, the night watchman, every hour, and every hour {he} woke up the whole town.
"We know," groaned the people, and pulled their [pillows/blankets] over their ears.
So {name} wrote "All is well" on slips of paper and pushed one under every door, on tiptoe.
In the morning {pal} the {friend} stood in front of {him} with twelve slips. "How nice!" said {pal}. "Nobody ever writes to me."
And all [along the street/around the square] people read their slips and smiled.
The next night {name} found a slip on {his} own lamp. It said, "Thank you. Good night." | Since then nobody sleeps badly in that town, and {name} needs a lot of paper.
""")

add("comet_tail", "a comet, staying awake", "stayed awake for a comet", """
Once in seventy years a comet comes, and {name} wanted to stay awake for it.
{He} put {his} feet into cold water and bit into a [lemon/raw onion]. By ten {his} head was sinking.
"Sleep a little," said {pal} the {friend}. "I will wake you." But soon {pal} was snoring as well.
The comet came, and nobody was awake. It was [hurt/sad], so it went down lower, and its tail tickled them both on the nose.
"Atchoo!" said {name} and {pal}, and opened their eyes.
"Bless you," said the comet. | There it was, right above them, and it stayed a minute longer than it was allowed to.
""")

add("midnight_pancake", "midnight, being hungry at night", "was hungry at midnight", """
At midnight {name}'s tummy growled so loudly that it woke up the [hens/neighbours].
{He} crept down to the kitchen without a light. The stairs creaked, and something creaked back.
In the dark kitchen {he} put out {his} hand for the bread and touched something warm. "Aah!" cried {name}. "Aah!" cried the warm thing.
A match flared up. It was {pal} the {friend}, with [jam/honey] all over {phis} face.
"I thought you were a ghost," said {name}. "I thought you were my conscience," said {pal}.
They cut two thick slices and ate them by the light of the moon.
""")

add("yawn_travels", "a yawn", "gave away a yawn", """
It began with {name}, who yawned at breakfast, so wide that you could count all {his} teeth.
{pal} the {friend} saw it and yawned, too. {Phe} carried the yawn to the [post office/bakery], and there it jumped on.
By ten the teacher was yawning, and by noon the [fire brigade/mayor] was.
"Who has started this?" called the doctor, and yawned. By three o'clock the whole village lay asleep, just where it stood.
Only {name} was awake, for {he} had no yawn left. {He} put a [cushion/coat] under every head.
In the evening they woke up, and nobody was in a bad mood any more. | When they woke up, they decided to do it every Wednesday.
""")

add("polar_light_scarf", "northern lights, knitting", "knitted a scarf", """
{name} was knitting a green scarf, and it grew longer each evening because {he} did not know how to stop.
It went out of the window and over the [fence/woodpile]. "When will it be ready?" asked {pal} the {friend}.
"You have to learn how to end it," said {name}, "and I was ill on that day."
One icy night the wind lifted it up, higher and higher. It spread out over the sky and shone, [green and violet/green and silver].
"Northern lights!" cried the people.
{name} looked up with the needles in {his} hands. "I still have the other end," {he} whispered, and knitted on.
""")

add("cellar_dark", "the cellar, a voice in the dark", "went into the cellar", """
In the cellar lived the Dark, and {name} had to go down there for [potatoes/apples].
"Who is there?" asked a small voice. "Please do not put on the light. It stings."
{name} stood on the bottom step. The voice sounded even more [frightened/timid] than {he} was.
"I only need something for supper," said {name}. Something rolled over the floor and stopped at {his} foot, and then another.
"Is everything all right down there?" called {pal} the {friend} from above. "Yes," said {name}. "Somebody is helping me."
Before {he} went up, {he} said, "Thank you, Dark." | The next day {name} hung a curtain over the cellar window, so that the Dark could sleep longer.
""")

add("sledge_uphill", "a sledge, a hill in winter", "pulled a sledge", """
{name}'s sledge went downhill as fast as an arrow, but up the hill it was as heavy as a cow.
{He} pulled and puffed, and each time it felt heavier. "It must be the [snow/wind]," thought {name}.
At the top {he} turned around. On the sledge sat {pal} the {friend}, with a [blanket/basket] and a book.
"I thought this was a bus," said {pal}. "It is so nice and slow. I have just come to the best part."
{name} had to laugh. "What happens in it?" {he} asked.
{pal} read it aloud on the way down, and it took [three/four] hills to the end of the chapter. | Then {pal} pulled, and {name} read.
""")

add("lost_evening", "the evening, a long day", "looked for the evening", """
One summer day just would not end, and {name} went out to look for the evening.
The sun stood over the [barn/church] and did not move. "I am waiting," it said. "Somebody has not had enough."
{name} asked the [bees/cows], and they had had enough since four.
Behind the house {pal} the {friend} was playing ball with the wall. "Only once more," said {pal}. {Phe} had said that for hours.
"Tomorrow I will play with you," said {name}. "I am better than a wall." {pal} caught the ball and kept it.
At once the sky turned pink, and the first star came out, a little out of breath. | "Good," said the sun, and it went down so quickly that the hens had to run.
""")
