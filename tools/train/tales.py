"""Tiny stories from templates: a hero, a wish or a problem, help, and an ending (60 to 120 words).

The point is a small model that holds a thread: every sentence of a plot depends on its hero,
friend, place or thing, and there are far more combinations than a model could learn by heart.
"""

SHE = ("Rosie Lily Mina Asha Nora Tara Ella Daisy Ruby Wanda Meena Lola Ivy Hazel Zuri Clara Penny Maya Anna Olive "
       "Sita Freya Luna Poppy Bella Gita Nell Emma Kiki Amara").split()
HE = ("Oliver Max Tomas Kofi Ravi Finn Leo Hugo Sam Bruno Arlo Nico Otto Jasper Milo Theo Barney Felix Ben Rafi Teddy "
      "Omar Gus Pablo Henry Chico Anand Toby Walter Juma").split()
ANIMALS = ("dog cat fox rabbit mouse bear elephant lion tiger monkey duck goose hen owl frog turtle hedgehog squirrel goat "
           "sheep horse donkey cow pig camel penguin seal whale parrot crow sparrow butterfly bee ant snail wolf deer badger "
           "otter beaver kitten puppy dragon robot panda giraffe zebra crocodile").split()
PEOPLE = ["girl", "boy", "farmer", "baker", "fisherman", "princess", "prince", "king", "queen", "sailor", "gardener", "painter"]
ADJECTIVES = ["little", "small", "brave", "shy", "curious", "cheerful", "young", "clever", "gentle", "kind"]
PLACES = ["at the edge of a green forest", "in a quiet village", "near a wide river", "on a small farm", "by the sea",
          "at the foot of a tall mountain", "beside a blue lake", "in a sunny valley", "on a little island", "in an old garden"]
THINGS = ["red ball", "blue hat", "silver bell", "golden key", "wooden boat", "yellow kite", "warm scarf", "shiny button",
          "little drum", "paper lantern", "green umbrella", "magic stone"]
SPOTS = ["under the bed", "behind the door", "in the tall grass", "under the old tree", "by the well", "near the bridge",
         "in the basket", "behind the big rock"]
THEMES = {"friendship": "stranger", "sharing": "share", "courage": "fear", "honesty": "truth", "the sea": "sea",
          "a birthday": "birthday", "a race": "race", "a storm": "storm", "magic": "star", "the moon": "moon",
          "a garden": "seed", "music": "music", "being brave": "fear", "kindness": "race"}


def article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def some_name(rng, names):
    """A name from the list or, one time in three, one that nobody has: repeating it is learned, not the list."""
    if rng.random() < 0.67:
        return rng.choice(names)
    sounds = [rng.choice("b c d f g h j k l m n p r s t v w z br ch dr gr kr pr sh st th tr".split()) + rng.choice("a e i o u ai ee ia oo".split())
              for _ in range(rng.choice([1, 2, 2, 3]))]
    return ("".join(sounds) + rng.choice(["", "n", "s", "r", "l", "x", "m", "ck"])).capitalize()


class Tale:
    """One drawn cast. `hero` and `friend` are kinds (fox), `name` and `pal` their names."""

    def __init__(self, rng, hero=None, name=None):
        self.rng = rng
        self.hero = hero or rng.choice(ANIMALS * 3 + PEOPLE)
        she = self.hero in ("girl", "princess", "queen", "hen", "cow") or (
            self.hero not in ("boy", "prince", "king", "fisherman") and rng.random() < 0.5)
        if name:
            she = name in SHE
        self.name = name or some_name(rng, SHE if she else HE)
        self.he, self.his, self.him = ("she", "her", "her") if she else ("he", "his", "him")
        self.friend = rng.choice([a for a in ANIMALS if a != self.hero])
        pal_she = rng.random() < 0.5
        self.pal = some_name(rng, [n for n in (SHE if pal_she else HE) if n != self.name])
        self.pal_he, self.pal_his = ("she", "her") if pal_she else ("he", "his")
        self.place = rng.choice(PLACES)
        self.thing = rng.choice(THINGS)
        self.adjective = rng.choice(ADJECTIVES)

    def pick(self, *choices):
        return self.rng.choice(choices)

    def opening(self):
        start = self.pick("Once upon a time", "Once upon a time", "Once", "Long ago")
        return self.pick(
            f"{start}, {article(self.adjective)} {self.hero} named {self.name} lived {self.place}.",
            f"{start}, there was {article(self.adjective)} {self.hero} called {self.name} who lived {self.place}.")

    def ending(self):
        return self.pick(
            f"From that day on, {self.name} and {self.pal} were the best of friends.",
            f"{self.name} fell asleep that night with a big smile.",
            f"And {self.name} never forgot how good it is to have a friend.",
            f"{self.name} and {self.pal} laughed all the way home.")

    def told(self, plot=None):
        self.plot = plot or self.rng.choice(sorted(PLOTS))
        return " ".join([self.opening(), *PLOTS[self.plot](self), self.ending()])


def lost(t):
    first, second, third = t.rng.sample(SPOTS, 3)
    return [
        f"{t.name} had {article(t.thing)} and took it everywhere.",
        t.pick(f"One morning the {t.thing} was gone.", f"One day {t.name} could not find the {t.thing}."),
        f"{t.name} looked {first}, but it was not there. {t.he.capitalize()} looked {second}, but it was not there.",
        f'"Do not cry," said {t.pal} the {t.friend}. "I will help you."',
        f"Together they looked {third}, and there was the {t.thing}!",
        f'"Thank you, {t.pal}," said {t.name}. "Now we can both play with it."']


def fear(t):
    scare, test = t.pick(("the dark", "One night the lamp went out, and a small voice called for help."),
                         ("deep water", "One day a small boat with a mouse in it drifted down the river."),
                         ("thunder", "One evening a great storm came, and a small voice called for help."),
                         ("high places", "One day a baby bird was stuck at the top of a tree."))
    return [
        f"{t.name} was afraid of {scare}.", test,
        f"{t.name}'s heart beat fast. But {t.he} thought, \"Somebody needs me.\"",
        f"{t.pal} the {t.friend} said, \"I am here. We will go together.\"",
        f"Step by step, {t.name} went on, and soon everyone was safe.",
        f'"You were so brave!" said {t.pal}. "I was still afraid," said {t.name}, "but I did it anyway."']


def sea(t):
    wish, sight = t.pick(("the sea", "blue water as far as the eye could see"), ("snow", "soft white snow on every tree"),
                         ("the big city", "a thousand lights shining in the night"), ("a rainbow", "a rainbow over the hills"))
    return [
        f"{t.name} had one wish: {t.he} wanted to see {wish}.",
        f"One morning {t.he} packed some bread and an apple and set off.",
        f"On the way {t.he} met {t.pal} the {t.friend}, who was hungry. {t.name} shared the bread.",
        f'"I know the way," said {t.pal}. "Come with me!"',
        f"They walked for two days. At last they stood still, because there was {sight}.",
        f'"It is even more beautiful than I dreamed," said {t.name}.']


def share(t):
    food = t.pick("pumpkin", "cheese", "cake", "melon", "pot of honey")
    return [
        f"One day {t.name} found a very big {food}.",
        f'"It is all mine," said {t.name}, and {t.he} hid it at home.',
        f"{t.name} ate and ate until {t.his} tummy hurt, and it was no fun to eat alone.",
        f"Then {t.pal} the {t.friend} knocked at the door. \"I have had nothing to eat today,\" {t.pal_he} said.",
        f"{t.name} felt sorry and cut the {food} in two. They ate and talked until the stars came out."
        if food != "pot of honey" else
        f"{t.name} felt sorry and put two spoons on the table. They ate and talked until the stars came out.",
        f'"It tastes better with you," said {t.name}.']


def race(t):
    return [
        f"Every year there was a great race, and {t.name} wanted to win it.",
        f"{t.name} ran as fast as {t.he} could and was ahead of everyone.",
        f"Then {t.he} saw {t.pal} the {t.friend} sitting by the road with a hurt foot.",
        t.pick(f'"Go on, or you will lose," said {t.pal}.', f'"Do not stop for me," said {t.pal}.'),
        f'But {t.name} said, "You matter more than a race," and helped {t.pal} all the way.',
        "They came in last, and everybody clapped for them louder than for the winner."]


def storm(t):
    return [
        f"One night a terrible storm came. The wind blew the roof off the house of {t.pal} the {t.friend}.",
        f'"Come and stay with me," said {t.name}, and made hot soup.',
        f"In the morning {t.name} called all the neighbours. One brought wood, one brought nails, and one brought lunch.",
        "They worked and sang all day, and in the evening the house was stronger than before.",
        f'"How can I thank you?" asked {t.pal}. "You just did," said {t.name}.']


def stranger(t):
    return [
        f"One day {article(t.friend)} named {t.pal} came to live next door.",
        f'"We do not know you," said the others, and nobody played with {t.pal}.',
        f"{t.name} thought about how lonely that must be. {t.he.capitalize()} took {t.his} {t.thing} and knocked at the door.",
        f'"Would you like to play with me?" asked {t.name}. {t.pal} smiled for the first time.',
        f"They played until the sun went down. Soon the others came too, because {t.pal} knew the funniest games."]


def birthday(t):
    return [
        f"It was {t.name}'s birthday, but nobody said a word about it.",
        f'"They have all forgotten," thought {t.name}, and {t.he} felt sad.',
        f"In the evening {t.pal} the {t.friend} knocked. \"Please come, I need your help,\" {t.pal_he} said.",
        f"{t.name} went along, and when the door opened everyone shouted, \"Happy birthday!\"",
        f"There was a big cake, there was music, and there was a present: {article(t.thing)}.",
        f'"I thought you forgot me," said {t.name}. "Never," said {t.pal}.']


def star(t):
    return [
        f"One night {t.name} saw a little star fall from the sky into the grass.",
        f'"I want to go home," cried the star, "but I cannot fly so high."',
        f"{t.name} held the star in {t.his} hands and carried it up the hill, but the sky was still too far away.",
        f"Then {t.pal} the {t.friend} had an idea. They tied the star to a kite, and the wind took it up and up.",
        f"The star shone brightly and said, \"Thank you, {t.name}!\"",
        "Every night since then, it has winked at them from the sky."]


def moon(t):
    return [
        f"{t.name} loved the moon and wanted to give it a present.",
        f"{t.he.capitalize()} climbed the highest hill, but the moon was still too far away.",
        f'"Look into the lake," said {t.pal} the {t.friend}. There was the moon, shining in the water!',
        f"{t.name} laid a white flower on the water, and it floated right into the middle of the moon.",
        f'"Now the moon has a flower," said {t.name}. "And we have the moon," said {t.pal}.']


def seed(t):
    return [
        f"{t.name} planted a seed in the garden and gave it water.",
        f'The next day nothing had grown. "It will never grow," said {t.name}.',
        f'"Wait a little," said {t.pal} the {t.friend}. "Good things take time."',
        f"So {t.name} gave it water every day, and sang to it, and waited.",
        "One morning there was a tiny green leaf, and by summer there was a sunflower as tall as the house.",
        f'"You were right," said {t.name}. "It was worth the wait."']


def truth(t):
    broken = t.pick("blue bowl", "big vase", "window", "tea pot")
    return [
        f"One day {t.name} was playing with {article(t.thing)} and broke the {broken} of {t.pal} the {t.friend}.",
        f"Nobody had seen it. {t.name} ran home and hid, but {t.he} could not sleep all night.",
        f"In the morning {t.he} went to {t.pal}. \"I broke your {broken},\" {t.he} said. \"I am sorry.\"",
        f'{t.pal} was quiet for a moment. "Thank you for telling me," {t.pal_he} said. "That was not easy."',
        f"They mended the {broken} together, and {t.name} felt light again."]


def music(t):
    instrument, noise = t.pick(("drum", "boom, boom"), ("flute", "too-loo"), ("trumpet", "ta-ra"), ("bell", "ding, ding"))
    return [
        f"Every night {t.name} heard a strange sound: {noise}, {noise}.",
        f'"Is it a monster?" {t.name} wondered. One night {t.he} took a lamp and went to look.',
        f"Behind the hill sat {t.pal} the {t.friend} with {article(instrument)}.",
        f'"I play at night because I am too shy to play in the day," said {t.pal}.',
        f'"But it is beautiful!" said {t.name}, and {t.he} began to sing along.',
        "The next evening they played for the whole village, and everyone danced."]


def skill(t):
    what, past = t.pick(("swim", "swam across the lake"), ("dance", "danced in front of everyone"),
                        ("whistle", "whistled a whole song"), ("ride a bicycle", "rode all around the village"),
                        ("paint", "painted the most beautiful picture"), ("bake bread", "baked the best bread in the land"))
    return [
        f"{t.name} wanted to learn to {what}.",
        f"The first time it went badly, and some of the others laughed. {t.name} wanted to give up.",
        f'"I needed a hundred tries myself," said {t.pal} the {t.friend}. "Try again. I will stay with you."',
        f"So {t.name} tried again every day. Each day it went a little better.",
        f"And one fine morning, {t.name} {past}.",
        f'"You did it!" cried {t.pal}. "We did it," said {t.name}.']


def trick(t):
    enemy = t.pick("wolf", "crocodile", "tiger", "giant")
    return [
        f"One day {t.name} met a hungry {enemy}. \"I am going to eat you,\" said the {enemy}.",
        f'"Very well," said {t.name}, "but I am so small. My friend {t.pal} has a whole pot of soup. Come and eat that first."',
        f"The {enemy} followed {t.name} home. {t.pal} the {t.friend} put the pot on the table.",
        f"The {enemy} ate and ate until it was full and fell asleep.",
        f"When it woke up, it was not hungry any more. \"That was the best soup of my life,\" it said, and it went home in peace."]


PLOTS = {f.__name__: f for f in (lost, fear, sea, share, race, storm, stranger, birthday, star, moon, seed, truth, music, skill, trick)}

ASKING = ["Tell me a story", "Tell me a story.", "Can you tell me a story?", "Please tell me a story.", "I want to hear a story.",
          "Could you tell me a short story?", "Do you know a story?", "Tell me a bedtime story.", "Story please", "A story, please!",
          "Make up a story for me.", "Write me a story.", "Write a short story", "I'd like a story", "Tell a story",
          "Can you write a little story?", "How about a story?", "Let's have a story.", "Give me a story.", "Read me a story",
          "Tell me a nice story", "Tell me a short story for children.", "tell me something before I go to sleep",
          "Can I hear a story?", "Do you know any stories?", "Would you tell me a tale?"]
ABOUT = ["Tell me a story about {x}.", "Tell me a story about {x}", "Can you tell me a story about {x}?", "I want a story about {x}.",
         "A story about {x}, please.", "Write a story about {x}.", "Make up a story about {x}.", "Do you know a story about {x}?",
         "Tell me a short story about {x}.", "story about {x}", "Write a short story about {x}", "Please tell me a tale about {x}.",
         "Give me a bedtime story about {x}."]
MORE = ["Another one", "Tell me another one.", "Another story please", "One more!", "Can you tell me another story?", "More!",
        "Tell me a different story.", "Again!"]


def talk(rng):
    """A conversation: somebody asks for a story, and perhaps asks about it or for one more."""
    turns = []
    for round_ in range(rng.choice([1, 1, 1, 2])):
        kind = rng.random()
        tale = Tale(rng)
        if round_:
            ask, text = rng.choice(MORE), tale.told()
        elif kind < 0.4:
            ask, text = rng.choice(ASKING), tale.told()
        elif kind < 0.8:
            x = article(tale.hero)
            if rng.random() < 0.25:
                x = rng.choice([f"{article(tale.hero)} named {tale.name}", f"{article(tale.hero)} called {tale.name}",
                                f"{article(tale.adjective)} {tale.hero}", f"{article(tale.hero)} and {article(tale.friend)}"])
            ask, text = rng.choice(ABOUT).format(x=x), tale.told()
        else:
            theme = rng.choice(sorted(THEMES))
            ask, text = rng.choice(ABOUT).format(x=theme), tale.told(THEMES[theme])
        turns += [ask, text]
        if rng.random() < 0.45:
            turns += rng.choice([
                [f"What was the name of the {tale.hero}?", f"The {tale.hero} was called {tale.name}."],
                [f"What was the {tale.hero} called?", f"The {tale.hero}'s name was {tale.name}."],
                [f"Who was {tale.pal}?", f"{tale.pal} was the {tale.friend} who was a friend of {tale.name}."],
                [f"Who is {tale.name}?", f"{tale.name} is the {tale.hero} in the story."],
                [f"Where did {tale.name} live?", f"{tale.name} lived {tale.place}."],
                ["Who was the story about?", f"It was about {article(tale.hero)} named {tale.name}."],
                ["What was the story about?", f"It was about {article(tale.hero)} named {tale.name} and a friend, {tale.pal} the {tale.friend}."],
                ["That was nice!", "I'm glad you liked it! Would you like another one?"],
                ["I liked that story.", "Thank you! I liked telling it."],
                ["That was a lovely story.", f"Thank you! I like {tale.name} the {tale.hero} too."],
                ["Thank you for the story", "You're welcome! I can tell you another one if you like."],
            ])
    return turns
