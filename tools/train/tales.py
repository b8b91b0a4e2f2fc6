"""Short stories from templates (60 to 125 words), and conversations about them.

The sentences of a story depend on its hero, friend, place or thing, and there are many more combinations
than a model can memorize, so that a small model learns to stay consistent. cast.py chooses the characters,
the folder plots contains the plots.
"""

from cast import HE, SHE, Tale, with_article
from plots import PLOTS

__all__ = ["HE", "SHE", "Tale", "talk", "tell"]


def tell(tale, plot=None):
    """Returns the text of a story and sets `tale.plot` to the name of its plot."""
    tale.plot = plot or tale.rng.choice(sorted(PLOTS))
    return " ".join([tale.opening(), *PLOTS[tale.plot].sentences(tale)])


REQUESTS = ["Tell me a story", "Tell me a story.", "Can you tell me a story?", "Please tell me a story.", "I want to hear a story.",
          "Could you tell me a short story?", "Do you know a story?", "Tell me a bedtime story.", "Story please", "A story, please!",
          "Make up a story for me.", "Write me a story.", "Write a short story", "I'd like a story", "Tell a story",
          "Can you write a little story?", "How about a story?", "Let's have a story.", "Give me a story.", "Read me a story",
          "Tell me a nice story", "Tell me a short story for children.", "tell me something before I go to sleep",
          "Can I hear a story?", "Do you know any stories?", "Would you tell me a tale?", "tell story", "story", "a story",
          "tell me a story pls", "Tell me a fairy tale", "I need a bedtime story", "One story please"]
REQUESTS_ABOUT = ["Tell me a story about {x}.", "Tell me a story about {x}", "Can you tell me a story about {x}?", "I want a story about {x}.",
         "A story about {x}, please.", "Write a story about {x}.", "Make up a story about {x}.", "Do you know a story about {x}?",
         "Tell me a short story about {x}.", "story about {x}", "Write a short story about {x}", "Please tell me a tale about {x}.",
         "Give me a bedtime story about {x}.", "write me a story about {x}", "a tale of {x}"]
REQUESTS_FOR_MORE = ["Another one", "Tell me another one.", "Another story please", "One more!", "Can you tell me another story?", "More!",
        "Tell me a different story.", "Again!", "another", "A new one, please.", "Tell me one more story", "Do you know another one?"]
COMMENTS = [["That was nice!", "I'm glad you liked it! Would you like another one?"],
         ["I liked that story.", "Thank you! I liked telling it."],
         ["Nice story", "Thank you! There are more where it came from."],
         ["Thank you for the story", "You're welcome! I can tell you another one if you like."],
         ["What's the moral of the story?", "I think it's about being kind, and about not being alone. What do you think?"],
         ["Did you make that up?", "I put it together from pieces that I learned. The names change each time."],
         ["I didn't like it.", "That's all right! I can try another one. What should it be about?"],
         ["That was boring", "Oh, sorry! Name an animal or a thing, and I'll try a story about it."]]
COMMENT_WEIGHTS = [5, 4, 3, 3, 1, 1, 1, 1]


def subject_of(tale, rng):
    """Returns the subject of a request for a story: its hero, the action of the hero, or a theme."""
    plot, kind = PLOTS[tale.plot], rng.random()
    if kind < 0.35:
        return with_article(tale.hero)
    if kind < 0.55:
        return rng.choice([f"{with_article(tale.hero)} named {tale.name}", f"{with_article(tale.hero)} called {tale.name}",
                           f"{with_article(tale.adjective)} {tale.hero}", f"{with_article(tale.hero)} and {with_article(tale.friend)}"])
    if kind < 0.75 and plot.who:
        return f"{with_article(tale.hero)} who {plot.who}"
    return rng.choice(plot.themes)


def follow_up(tale, rng):
    """Returns a question about a story, or a comment on it, with the answer."""
    if rng.random() < 0.5:
        return rng.choices(COMMENTS, COMMENT_WEIGHTS)[0]
    return rng.choice([
        [f"What was the name of the {tale.hero}?", f"The {tale.hero} was called {tale.name}."],
        [f"What was the {tale.hero} called?", f"The {tale.hero}'s name was {tale.name}."],
        [f"Who was {tale.pal}?", f"{tale.pal} was the {tale.friend} in the story about {tale.name}."],
        [f"Who is {tale.name}?", f"{tale.name} is the {tale.hero} in the story."],
        [f"Where did {tale.name} live?", f"{tale.name} lived {tale.place}."],
        ["Who was the story about?", f"It was about {with_article(tale.hero)} named {tale.name}."],
        ["What was the story about?",
         f"It was about {with_article(tale.hero)} named {tale.name}, and about {tale.pal} the {tale.friend}."],
        ["That was a lovely story.", f"Thank you! I like {tale.name} the {tale.hero} too."]])


def talk(rng):
    """Returns a conversation with a request for a story, and possibly questions about it and requests for further stories with other plots."""
    turns = []
    rounds = rng.choice([1, 1, 1, 2, 2, 3, 4])
    for round_, plot in enumerate(rng.sample(sorted(PLOTS), rounds)):
        tale = Tale(rng)
        text = tell(tale, plot)
        if round_ and rng.random() < 0.6:
            request = rng.choice(REQUESTS_FOR_MORE)
        else:
            request = rng.choice(REQUESTS) if rng.random() < 0.4 else rng.choice(REQUESTS_ABOUT).format(x=subject_of(tale, rng))
        turns += [request, text]
        if rng.random() < 0.35:
            turns += follow_up(tale, rng)
    return turns
