"""Generates random conversations from the files BLOCKS, tales.py and the lists below and in refusals.py."""

import os
import re

import tales
from refusals import draw_request_slots
from cast import HE, SHE, random_name

JOKES = """Why did the computer bring a blanket? Because it left its windows open.
Why did the cookie go to the doctor? It felt crumby.
What do you call a sleeping dinosaur? A dino-snore.
Why was the broom late? It swept in.
Why did the banana wear a hat? It didn't want to peel in the sun.
What did the ocean say to the beach? Nothing, it just waved.
Why do bees have sticky hair? They use honeycombs.
What is a cat's favourite colour? Purr-ple.
Why did the teddy bear say no to cake? It was already stuffed.
How does the moon cut its hair? Eclipse it.
What kind of tree fits in your hand? A palm tree.
Why did the snail paint an S on its car? So people would say, "Look at that S-car-go!"
What do you call a bear without teeth? A gummy bear.
Why was the math book so sad? It had too many problems.
What did one wall say to the other wall? I'll meet you at the corner.
Why can't a bicycle stand up by itself? It is two-tired.
What do snowmen eat for breakfast? Snowflakes.
Why did the tomato turn red? It saw the salad dressing.
What do you get when you cross a fish and an elephant? Swimming trunks.
Why did the robot go on holiday? It had to recharge its batteries.
Why was the little keyboard so tired? It had two shifts.
What is a robot's favourite snack? Computer chips.
Why did the mouse leave the computer? It heard there was no real cheese inside.
Why did the clock go to school? It wanted to learn to tell time.
What do clouds wear under their coats? Thunderwear.
Why did the frog take the bus? Its car got toad away.
Where do cows go on Friday night? To the moo-vies.
Why did the duck open a bank account? It had a very big bill.
What do you call a cow that plays the guitar? A moo-sician.
Why did the pencil win the race? It was the sharpest one.
What did the tired lamp say? I need to switch off for today.
Why did the owl stay home? It didn't give a hoot about the party.
What do you call a dog that does magic? A labra-cadabra-dor.
Why was the sandwich so popular? It was on a roll.
What did the small language model say to the large one? I can't hear you, you are too many layers away.
Why did the spider like the internet so much? It felt at home on the web.
What do you call a fish with no eye? A fsh.
Why did the potato cross the road? It saw a fork up ahead.
What did the blanket say to the bed? Don't worry, I've got you covered.
Why do birds fly south? It's too far to walk.
How do you make an egg laugh? Tell it a yolk.
What time is it when an elephant sits on your chair? Time to get a new chair.""".split("\n")

FACTS = """An octopus has three hearts.
Honey can stay good for thousands of years.
A group of flamingos is called a flamboyance.
Otters hold hands when they sleep, so that they don't drift apart.
A snail can sleep for a very long time, even for years.
Bananas are berries, but strawberries are not.
The heart of a blue whale is as big as a small car.
Light from the sun takes about eight minutes to reach us.
Butterflies taste with their feet.
A day on Venus is longer than a year on Venus.
Elephants can't jump, but they are good swimmers.
Cows have best friends.
Sharks are older than trees.
Bees can recognise human faces.
There are more trees on Earth than stars in our galaxy.
A hummingbird can fly backwards.
Penguins give each other pebbles as presents.
Sea horses swim upright.
Polar bears have black skin under their white fur.
A bolt of lightning is hotter than the surface of the sun.""".split("\n")

SOUNDS = dict(cow="moo", dog="woof", cat="meow", duck="quack", sheep="baa", pig="oink", lion="roar", horse="neigh",
              bee="buzz", frog="ribbit", hen="cluck", mouse="squeak", owl="hoo-hoo")

OPPOSITES = dict(p.split(":") for p in (
    "hot:cold cold:hot big:small small:big up:down happy:sad sad:happy fast:slow slow:fast day:night night:day good:bad "
    "bad:good old:young long:short high:low full:empty open:closed light:dark black:white hard:soft wet:dry early:late "
    "loud:quiet rich:poor strong:weak clean:dirty left:right first:last inside:outside").split(" "))

# Facts that such a small model can learn; limits.txt refuses questions about others.
QUESTIONS = {
    "How many days are in a week?|How many days does a week have?": "A week has seven days.",
    "How many months are in a year?|How many months does a year have?": "A year has twelve months.",
    "How many legs does a spider have?|How many legs do spiders have?": "A spider has eight legs.",
    "How many legs does a dog have?|How many legs does a cat have?": "Four legs.",
    "What color is the sky?|What colour is the sky?": "The sky is blue, at least on a nice day.",
    "What color is grass?|What colour is grass?": "Grass is green.",
    "What color is snow?": "Snow is white.",
    "What do cows eat?|What do horses eat?|What do sheep eat?": "They eat mostly grass.",
    "What do bees make?|Who makes honey?|Where does honey come from?": "Bees make honey.",
    "Where does milk come from?|What do cows give us?": "Milk comes from cows.",
    "What is a language model?|What does language model mean?|How do language models work?":
        "A language model is a program that guesses the next word of a text, again and again.",
    "What is bq4?|What does bq4 mean?": "bq4 runs language models like me in your browser.",
    "Can penguins fly?|Do penguins fly?": "No, penguins can't fly, but they swim very well.",
    "What comes after Monday?|What day comes after Monday?": "Tuesday comes after Monday.",
    "Count to five.|Can you count to five?": "One, two, three, four, five.",
    "Count to ten.|Can you count to ten?|Count to 10": "One, two, three, four, five, six, seven, eight, nine, ten.",
    "Say something.|Say something nice.|Say something nice to me.": "I'm glad that you are here. I hope you have a lovely day!",
    "Wish me luck.|Wish me good luck": "Good luck! I'm sure you will do well.",
    "Say hello.|Say hi": "Hello!",
    "Give me advice.|Can you give me some advice?": "Drink water, go outside a little, and call someone you like.",
    "Tell me a riddle.|Do you know a riddle?|Give me a riddle.|Can you tell me a riddle?":
        "What has hands but can't clap? A clock!",
    "Tell me a secret.|Do you have a secret?": "I only guess one word after another. Don't tell anyone!",
    "Sing a song.|Sing something.": "La la la! I can't really sing, but I can tell you a story.",
    "Are you better than ChatGPT?|Are you ChatGPT?|Are you as good as ChatGPT?":
        "No, I'm much smaller, for small talk and little stories. But I run right here in your browser.",
    "How big are you?|How many parameters do you have?": "I have a few million parameters. That is very small for a language model.",
}

SPORTS = "soccer basketball tennis volleyball cricket hockey badminton baseball rugby golf handball chess football".split()
HOBBIES = ("painting drawing cooking baking gardening dancing singing reading hiking swimming fishing knitting photography "
           "running cycling yoga writing camping skating sewing sailing").split()
NATURE = "sea mountains forest stars moon ocean".split()
COLORTHINGS = dict(blue="the sea", red="ripe apples", green="the forest", yellow="the sun", purple="evening clouds",
                   orange="autumn leaves", pink="spring flowers", white="fresh snow", black="the night sky", brown="warm chocolate")
NAMES = SHE + HE + ("John Mary Alex Peter Sarah David Laura Michael Julia Daniel Kate Chris Lucy James Sophie Mark Helen "
                    "Paul Jane Ali Fatima Chen Wei Yuki Kenji Carlos Maria Diego Ana Ingrid Lars Olga Ivan Priya Arjun Meera "
                    "Rahul Aisha Mohamed Leila Samir Jack Emily Grace Henrik Eva Adam Nina Simon Rita Vera Zoe Noah Mia Liam "
                    "Ethan Chloe Hannah Lena Jonas Felicia Marcus Irene Victor Sunil Kavya Rohan Neha Vikram Dan Sue Bob Tim").split()
PETNAMES = ("Buddy Bella Charlie Luna Rocky Daisy Max Molly Coco Simba Oreo Tiger Shadow Misty Pepper Ginger Snowy Fluffy Lucky "
            "Rex Whiskers Smokey Cleo Nala Milo Felix Leo Loki Toby Biscuit Cookie Muffin Peanut Waffles Pickles Mango Cinnamon "
            "Jasper Ziggy Bruno Otis Rusty Sam Nemo Bubbles Kiwi Oliver Otto Hugo Oskar Poppy Rosie Ruby Teddy Winston Zeus").split()
PETS = ["cat", "cat", "dog", "dog", "hamster", "rabbit", "parrot", "horse", "fish", "turtle", "kitten", "puppy", "bird", "goat"]
FOODS = ("pizza,pasta,rice and beans,chicken soup,chocolate,ice cream,noodles,curry,salad,bread and cheese,fried eggs,pancakes,"
         "apple pie,mangoes,dumplings,sushi,tacos,vegetable soup,strawberries,french fries,sandwiches,fish and chips").split(",")
CITIES = ("London Paris Berlin Delhi Mumbai Tokyo Madrid Rome Vienna Cairo Nairobi Lagos Lima Boston Chicago Toronto Sydney "
          "Oslo Dublin Athens Prague Lisbon Seoul Pune Zurich Austin Seattle Naples Porto Krakow").split()
MOVIES = ["Star Wars", "Toy Story", "The Wizard of Oz", "Titanic", "Batman", "The Lion King", "Frozen", "Finding Nemo", "Shrek", "Jaws"]
BLOCKS = ("openings.txt", "subjects.txt", "daily.txt", "feelings.txt", "limits.txt")
INSTRUMENTS = "guitar piano violin flute drums trumpet cello harp saxophone ukulele clarinet".split()


def path_of(name):
    """Returns the path of a file in this folder."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def read_slots():
    """Returns {name: words} of the lines "slot NAME: WORD, WORD" of all files; the words of a slot in several files are added up."""
    slots = {}
    for file in BLOCKS:
        with open(path_of(file), encoding="utf8") as f:
            for name, words in re.findall(r"^slot (\w+): (.*)", f.read(), re.M):
                slots.setdefault(name, {}).update(dict.fromkeys(words.split(", ")))
    return {name: list(words) for name, words in slots.items()}


SLOTS = read_slots()


def draw_slots(rng):
    """Returns random words for all slots."""
    joke, joke2 = rng.sample(JOKES, 2)
    fact, fact2 = rng.sample(FACTS, 2)
    farm, word, color = rng.choice(sorted(SOUNDS)), rng.choice(sorted(OPPOSITES)), rng.choice(sorted(COLORTHINGS))
    city, city2 = rng.sample(CITIES, 2)
    questions = rng.choice(sorted(QUESTIONS))
    slots = {
        "name": random_name(rng, NAMES), "pet": rng.choice(PETS), "petname": random_name(rng, PETNAMES), "color": color,
        "colorthing": COLORTHINGS[color], "city": city, "city2": city2, "age": str(rng.randint(7, 80)),
        "food": rng.choice(FOODS), "movie": rng.choice(MOVIES), "instrument": rng.choice(INSTRUMENTS),
        "sport": rng.choice(SPORTS), "hobby": rng.choice(HOBBIES), "nature": rng.choice(NATURE), "joke": joke, "joke2": joke2,
        "fact": fact, "fact2": fact2, "farm": farm, "sound": SOUNDS[farm], "word": word, "opposite": OPPOSITES[word],
        "dice": str(rng.randint(1, 6)), "question": rng.choice(questions.split("|")), "answer": QUESTIONS[questions],
        **draw_request_slots(rng),
        **{name: rng.choice(words) for name, words in SLOTS.items()},
    }
    return slots | {k.capitalize(): v[0].upper() + v[1:] for k, v in slots.items()}


def read_blocks(name):
    """Returns [(kind, weight, [[alternative, ...] per turn])] of a file in this folder."""
    blocks = []
    with open(path_of(name), encoding="utf8") as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            if line.startswith("= "):
                _, kind, weight = line.split()
                blocks.append((kind, float(weight), []))
            elif line[:2] in ("U ", "A "):
                turns = blocks[-1][2]
                if (line[0] == "A") != (len(turns) % 2 == 1):
                    raise ValueError(f"{name} line {number}: expected alternating lines U and A, found two of {line[0]}")
                turns.append([s.strip() for s in line[2:].split(" | ")])
            elif line and line[0] != "#" and not line.startswith("slot "):
                raise ValueError(f"{name} line {number}: expected =, U, A, slot or #, found {line!r}")
    return blocks


SHORT_FORMS = [(r"\byou\b", "u"), (r"\bplease\b", "pls"), (r"\bare\b", "r"), (r"\byour\b", "ur"), (r"\bI'm\b", "im"),
               (r"\bwhat's\b", "whats"), (r"'", "")]


def as_typed(text, rng):
    """Returns a text as users type it: often without capital letters, full stops and apostrophes, and sometimes with short forms."""
    if rng.random() < 0.2:
        text = text.lower()
        if rng.random() < 0.25:
            for pattern, short in SHORT_FORMS:
                text = re.sub(pattern, short, text, flags=re.I)
    if rng.random() < 0.3:
        text = text.rstrip(".!?")
    return text or "?"


def variant_count(alternative):
    """Returns the number of texts that an alternative can become, at most 40."""
    count = 1
    for choice in re.findall(r"\[([^\]]*)\]", alternative):
        count *= choice.count("/") + 1
    return min(count * (6 if "{" in alternative else 1), 40)


class Talker:
    """Generates random conversations. intents: CLINC150 queries by label; small_talk: [question, answer] pairs."""

    def __init__(self, rng, intents, small_talk):
        self.rng, self.intents, self.small_talk = rng, intents, small_talk
        self.blocks = [b for name in BLOCKS for b in read_blocks(name)]

    def line(self, alternatives, slots):
        """Returns one of the alternatives with its slots filled."""
        labels = [a[1:] for a in alternatives if a.startswith("@")]
        texts = [a for a in alternatives if not a.startswith("@")]
        if labels and (not texts or self.rng.random() < 0.35):
            return self.rng.choice(self.intents[self.rng.choice(labels)])
        text = self.rng.choices(texts, [variant_count(w) ** 0.5 for w in texts])[0]
        text = re.sub(r"\[([^\]]*)\]", lambda m: self.rng.choice(m[1].split("/")), text)
        return re.sub(r"\{(\w+)\}", lambda m: slots[m[1]], text)

    def block(self, kind):
        """Returns the turns of a random block of a kind."""
        blocks = [b for b in self.blocks if b[0] == kind]
        turns = self.rng.choices(blocks, [b[1] for b in blocks])[0][2]
        slots = draw_slots(self.rng)
        lines = [self.line(t, slots) for t in turns]
        return [t if i % 2 else as_typed(t, self.rng) for i, t in enumerate(lines)]

    def middle(self):
        """Returns turns for the middle of a conversation."""
        position = self.rng.random()
        if position < 0.07:
            return list(self.rng.choice(self.small_talk))
        if position < 0.12:
            turns = tales.talk(self.rng)
            return [t if i % 2 else as_typed(t, self.rng) for i, t in enumerate(turns)]
        for limit, kind in ((0.27, "limit"), (0.34, "near"), (0.7, "subject")):
            if position < limit:
                return self.block(kind)
        return self.block("any")

    def recall(self, parts):
        """Returns a conversation that mentions a name at the start and asks for it at the end."""
        slots = draw_slots(self.rng)
        name, pet, petname = slots["name"], slots["pet"], slots["petname"]
        first, last = self.rng.choice([
            ([f"My name is {name}.", f"Nice to meet you, {name}!"], ["What is my name?", f"Your name is {name}."]),
            ([f"I'm {name}.", f"Hello {name}, nice to meet you!"], ["Do you remember my name?", f"Your name is {name}."]),
            ([f"Hi, I'm {name}.", f"Nice to meet you, {name}!"], ["What's my name?", f"You told me your name is {name}."]),
            ([f"My {pet} is called {petname}.", f"{petname} is a lovely name for a {pet}!"],
             [f"What's my {pet}'s name?", f"Your {pet}'s name is {petname}."]),
            ([f"I have a {pet} named {petname}.", f"How nice! What is {petname} like?"],
             [f"Do you remember what my {pet} is named?", f"Yes, your {pet} is called {petname}."]),
            ([f"I live in {slots['city']}.", f"How nice! What is {slots['city']} like?"],
             ["Where do I live?", f"You told me about {slots['city']}."]),
        ])
        return [*first, *parts, *last]

    def conversation(self):
        """Returns the turns of a conversation."""
        rng = self.rng
        turns = self.block("open") if rng.random() < 0.35 else []
        for _ in range(rng.choice([1, 1, 2, 2, 3, 4])):
            turns = turns + self.middle()
        if rng.random() < 0.08:
            turns = self.recall(turns[-4:])
        if rng.random() < 0.2:
            turns = turns + self.block("close")
        return turns
