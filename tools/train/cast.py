"""The cast of a little story: who it is about, the friend, where they live, and the words for them."""

SHE = ("Rosie Lily Mina Asha Nora Tara Ella Daisy Ruby Wanda Meena Lola Ivy Hazel Zuri Clara Penny Maya Anna Olive "
       "Sita Freya Luna Poppy Bella Gita Nell Emma Kiki Amara Dora Lena Tilda Mona Saba Flora Greta Pia Juno Sunny").split()
HE = ("Oliver Max Tomas Kofi Ravi Finn Leo Hugo Sam Bruno Arlo Nico Otto Jasper Milo Theo Barney Felix Ben Rafi Teddy "
      "Omar Gus Pablo Henry Chico Anand Toby Walter Juma Emil Basil Kito Rudi Albert Dev Pip Anton Moss Cosmo").split()
ANIMALS = ("dog cat fox rabbit mouse bear elephant lion tiger monkey duck goose hen owl frog turtle hedgehog squirrel goat "
           "sheep horse donkey cow pig camel penguin seal whale parrot crow sparrow butterfly bee ant snail wolf deer badger "
           "otter beaver kitten puppy dragon robot panda giraffe zebra crocodile").split()
PEOPLE = ["girl", "boy", "farmer", "baker", "fisherman", "princess", "prince", "king", "queen", "sailor", "gardener", "painter",
          "doctor", "teacher", "programmer", "pirate", "knight", "wizard", "cook", "postman", "nurse"]
WOMEN = ("girl", "princess", "queen", "hen", "cow")
MEN = ("boy", "prince", "king", "fisherman", "postman")
ADJECTIVES = ["little", "small", "brave", "shy", "curious", "cheerful", "young", "clever", "gentle", "kind"]
PLACES = ["at the edge of a green forest", "in a quiet village", "near a wide river", "on a small farm", "by the sea",
          "at the foot of a tall mountain", "beside a blue lake", "in a sunny valley", "on a little island", "in an old garden",
          "next to an old mill", "behind the windy hills", "in a house with a round door", "under a very old oak"]
THINGS = ["red ball", "blue hat", "silver bell", "golden key", "wooden boat", "yellow kite", "warm scarf", "shiny button",
          "little drum", "paper lantern", "green umbrella", "magic stone", "tin whistle", "brass compass", "box of paints"]
SPOTS = ["under the bed", "behind the door", "in the tall grass", "under the old tree", "by the well", "near the bridge",
         "in the basket", "behind the big rock", "in the hollow log", "on the roof"]
SOUNDS = "b d f g h k l m n p r s t v w z br dr pr st tr".split()
VOWELS = "a e i o u".split()


def article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def some_name(rng, names, made_up=0.33):
    """A name from the list or, with the probability `made_up`, an invented one: the model learns to repeat names, not the list."""
    if rng.random() >= made_up:
        return rng.choice(names)
    sounds = [rng.choice(SOUNDS) + rng.choice(VOWELS) for _ in range(rng.choice([1, 2, 2]))]
    return ("".join(sounds) + rng.choice(["n", "s", "r", "l", "x", "m", "ck"])).capitalize()


class Tale:
    """One drawn cast. `hero` and `friend` are kinds (fox), `name` and `pal` their names."""

    def __init__(self, rng, hero=None, name=None):
        self.rng = rng
        self.hero = hero or rng.choice(ANIMALS * 3 + PEOPLE)
        she = self.hero in WOMEN or (self.hero not in MEN and rng.random() < 0.5)
        if name:
            she = name in SHE
        self.name = name or some_name(rng, SHE if she else HE, 0.12)
        self.friend = rng.choice([a for a in ANIMALS if a != self.hero])
        pal_she = self.friend in WOMEN or rng.random() < 0.5
        self.pal = some_name(rng, [n for n in (SHE if pal_she else HE) if n != self.name], 0.12)
        self.place, self.thing, self.adjective = rng.choice(PLACES), rng.choice(THINGS), rng.choice(ADJECTIVES)
        self.words = {
            "name": self.name, "hero": self.hero, "pal": self.pal, "friend": self.friend, "place": self.place,
            "thing": self.thing, "a_thing": article(self.thing), "a_friend": article(self.friend), "a_hero": article(self.hero),
            **dict(zip(("he", "his", "him", "himself"), ("she", "her", "her", "herself") if she else ("he", "his", "him", "himself"))),
            **dict(zip(("phe", "phis", "phim"), ("she", "her", "her") if pal_she else ("he", "his", "him"))),
            **dict(zip(("spot", "spot2", "spot3"), rng.sample(SPOTS, 3))),
        }
        for word in ("he", "his", "phe", "phis"):
            self.words[word.capitalize()] = self.words[word].capitalize()

    def opening(self):
        start = self.rng.choice(["Once upon a time", "Once upon a time", "Once", "Long ago", "Many years ago"])
        who = f"{article(self.adjective)} {self.hero}"
        return self.rng.choice([
            f"{start}, {who} named {self.name} lived {self.place}.",
            f"{start}, there was {who} called {self.name} who lived {self.place}.",
            f"There was once {who} named {self.name}, who lived {self.place}.",
            f"{self.place[0].upper() + self.place[1:]} there lived {who} called {self.name}.",
            f"Have you heard of {self.name}, {who} who once lived {self.place}?",
            f"{start}, {self.place}, there lived {who}. Everybody called {self.words['him']} {self.name}."])
