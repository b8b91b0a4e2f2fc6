"""The cast of a little story: the hero, the friend, the place where they live, and the words for them."""

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
CONSONANTS = "b d f g h k l m n p r s t v w z br dr pr st tr".split()
VOWELS = "a e i o u".split()


def with_article(noun):
    """Returns a noun with "a" or "an"."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def random_name(rng, names, invented_share=0.33):
    """Returns a name from the list or, with the probability `invented_share`, an invented one, so that the model learns to repeat names that
    are not in the list."""
    if rng.random() >= invented_share:
        return rng.choice(names)
    sounds = [rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.choice([1, 2, 2]))]
    return ("".join(sounds) + rng.choice(["n", "s", "r", "l", "x", "m", "ck"])).capitalize()


class Tale:
    """A random cast. `hero` and `friend` are kinds (such as fox), `name` and `pal` their names; `words` are the words for slots of plots."""

    def __init__(self, rng, hero=None, name=None):
        self.rng = rng
        self.hero = hero or rng.choice(ANIMALS * 3 + PEOPLE)
        is_female = self.hero in WOMEN or (self.hero not in MEN and rng.random() < 0.5)
        if name:
            is_female = name in SHE
        self.name = name or random_name(rng, SHE if is_female else HE, 0.12)
        self.friend = rng.choice([a for a in ANIMALS if a != self.hero])
        is_pal_female = self.friend in WOMEN or rng.random() < 0.5
        self.pal = random_name(rng, [n for n in (SHE if is_pal_female else HE) if n != self.name], 0.12)
        self.place, self.thing, self.adjective = rng.choice(PLACES), rng.choice(THINGS), rng.choice(ADJECTIVES)
        self.words = {
            "name": self.name, "hero": self.hero, "pal": self.pal, "friend": self.friend, "place": self.place,
            "thing": self.thing, "a_thing": with_article(self.thing), "a_friend": with_article(self.friend), "a_hero": with_article(self.hero),
            **dict(zip(("he", "his", "him", "himself"), ("she", "her", "her", "herself") if is_female else ("he", "his", "him", "himself"))),
            **dict(zip(("phe", "phis", "phim"), ("she", "her", "her") if is_pal_female else ("he", "his", "him"))),
            **dict(zip(("spot", "spot2", "spot3"), rng.sample(SPOTS, 3))),
        }
        for word in ("he", "his", "phe", "phis"):
            self.words[word.capitalize()] = self.words[word].capitalize()

    def opening(self):
        """Returns the first sentence of a story, which introduces the hero."""
        start = self.rng.choice(["Once upon a time", "Once upon a time", "Once", "Long ago", "Many years ago"])
        hero = f"{with_article(self.adjective)} {self.hero}"
        return self.rng.choice([
            f"{start}, {hero} named {self.name} lived {self.place}.",
            f"{start}, there was {hero} called {self.name} who lived {self.place}.",
            f"There was once {hero} named {self.name}, who lived {self.place}.",
            f"{self.place[0].upper() + self.place[1:]} there lived {hero} called {self.name}.",
            f"Have you heard of {self.name}, {hero} who once lived {self.place}?",
            f"{start}, {self.place}, there lived {hero}. Everybody called {self.words['him']} {self.name}."])
