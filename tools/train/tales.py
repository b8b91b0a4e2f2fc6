"""Tiny stories from templates: a hero, a wish or a problem, and an ending that fits (60 to 120 words).

The point is a small model that holds a thread: sentences depend on the hero, friend, place or
thing, and there are far more combinations than a model could learn by heart. cast.py draws who it
is about, the folder plots what happens.
"""

from cast import HE, SHE, Tale, article
from plots import PLOTS, THEMES

__all__ = ["HE", "SHE", "Tale", "talk", "tell"]


def tell(tale, plot=None):
    """The text of a story; `tale.plot` is its plot's name afterwards."""
    tale.plot = plot or tale.rng.choice(sorted(PLOTS))
    return " ".join([tale.opening(), *PLOTS[tale.plot].told(tale)])


ASKING = ["Tell me a story", "Tell me a story.", "Can you tell me a story?", "Please tell me a story.", "I want to hear a story.",
          "Could you tell me a short story?", "Do you know a story?", "Tell me a bedtime story.", "Story please", "A story, please!",
          "Make up a story for me.", "Write me a story.", "Write a short story", "I'd like a story", "Tell a story",
          "Can you write a little story?", "How about a story?", "Let's have a story.", "Give me a story.", "Read me a story",
          "Tell me a nice story", "Tell me a short story for children.", "tell me something before I go to sleep",
          "Can I hear a story?", "Do you know any stories?", "Would you tell me a tale?", "tell story", "story", "a story",
          "tell me a story pls", "Tell me a fairy tale", "I need a bedtime story", "One story please"]
ABOUT = ["Tell me a story about {x}.", "Tell me a story about {x}", "Can you tell me a story about {x}?", "I want a story about {x}.",
         "A story about {x}, please.", "Write a story about {x}.", "Make up a story about {x}.", "Do you know a story about {x}?",
         "Tell me a short story about {x}.", "story about {x}", "Write a short story about {x}", "Please tell me a tale about {x}.",
         "Give me a bedtime story about {x}.", "write me a story about {x}", "a tale of {x}"]
MORE = ["Another one", "Tell me another one.", "Another story please", "One more!", "Can you tell me another story?", "More!",
        "Tell me a different story.", "Again!", "another", "A new one, please.", "Tell me one more story", "Do you know another one?"]
LIKED = [["That was nice!", "I'm glad you liked it! Would you like another one?"],
         ["I liked that story.", "Thank you! I liked telling it."],
         ["Nice story", "Thank you! There are more where it came from."],
         ["Thank you for the story", "You're welcome! I can tell you another one if you like."],
         ["What's the moral of the story?", "I think it's about being kind, and about not being alone. What do you think?"],
         ["Did you make that up?", "I put it together from pieces that I learned. The names change each time."],
         ["I didn't like it.", "That's all right! I can try another one. What should it be about?"],
         ["That was boring", "Oh, sorry! Name an animal or a thing, and I'll try a story about it."]]
WEIGHTS = [5, 4, 3, 3, 1, 1, 1, 1]


def about(tale, rng):
    """What a story is asked for by: its hero, its theme, or what the hero does."""
    plot, kind = PLOTS[tale.plot], rng.random()
    if kind < 0.35:
        return article(tale.hero)
    if kind < 0.55:
        return rng.choice([f"{article(tale.hero)} named {tale.name}", f"{article(tale.hero)} called {tale.name}",
                           f"{article(tale.adjective)} {tale.hero}", f"{article(tale.hero)} and {article(tale.friend)}"])
    if kind < 0.75 and plot.who:
        return f"{article(tale.hero)} who {plot.who}"
    return rng.choice(plot.themes)


def after(tale, rng):
    """A question about the story that was told, or what somebody says about it."""
    if rng.random() < 0.5:
        return rng.choices(LIKED, WEIGHTS)[0]
    return rng.choice([
        [f"What was the name of the {tale.hero}?", f"The {tale.hero} was called {tale.name}."],
        [f"What was the {tale.hero} called?", f"The {tale.hero}'s name was {tale.name}."],
        [f"Who was {tale.pal}?", f"{tale.pal} was the {tale.friend} in the story about {tale.name}."],
        [f"Who is {tale.name}?", f"{tale.name} is the {tale.hero} in the story."],
        [f"Where did {tale.name} live?", f"{tale.name} lived {tale.place}."],
        ["Who was the story about?", f"It was about {article(tale.hero)} named {tale.name}."],
        ["What was the story about?",
         f"It was about {article(tale.hero)} named {tale.name}, and about {tale.pal} the {tale.friend}."],
        ["That was a lovely story.", f"Thank you! I like {tale.name} the {tale.hero} too."]])


def talk(rng):
    """A conversation: somebody asks for a story, and perhaps asks about it or for others, which have other plots."""
    turns = []
    rounds = rng.choice([1, 1, 1, 2, 2, 3, 4])
    for round_, plot in enumerate(rng.sample(sorted(PLOTS), rounds)):
        tale = Tale(rng)
        text = tell(tale, plot)
        if round_ and rng.random() < 0.6:
            ask = rng.choice(MORE)
        else:
            ask = rng.choice(ASKING) if rng.random() < 0.4 else rng.choice(ABOUT).format(x=about(tale, rng))
        turns += [ask, text]
        if rng.random() < 0.35:
            turns += after(tale, rng)
    return turns
