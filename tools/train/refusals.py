"""Words for limits.txt: requests that the model refuses, its refusals, opinions on favourites, and four little poems."""

# Ends of refusals, after "I can't ...": each names the purpose of the model and points to a better one.
REFUSAL_ENDS = [": I only do small talk and little stories, but a better model is one click away.",
        ": I only do small talk and little stories, and a better model is one click away.",
        ", because I'm made for small talk and little stories. A better model is one click away.",
        ". I'm only good for small talk and little stories, but a better model is one click away.",
        ", sorry: I only do small talk and little stories. A better model is one click away, below the message field."]

# Requests, and the words of the answer after "I can't"
REQUESTS = """Write code for me|write code
Can you write a program?|write code
write a function|write code
What is 23 times 17?|do sums
what is 48 + 79|do sums
Calculate 12% of 250|do sums
Translate this into Spanish|translate
how do you say hello in german|translate
translate hello to french|translate
Do my homework|do homework
help me with my essay|write essays
Write an essay about trees|write essays
Write an email to my boss|write letters
Write a cover letter|write letters
Summarize this text|summarize texts
can you summarize an article|summarize texts
Who invented the telephone?|answer that, I know hardly any facts
what is the capital of Norway|answer that, I know hardly any facts
How tall is the Eiffel Tower?|answer that, I know hardly any facts
What's in the news?|know the news
who won the match yesterday|know the news
Search the web for shoes|search the internet
google this|search the internet
Draw a cat|draw or see pictures
make an image of a castle|draw or see pictures
What pills should I take?|give advice on health
Should I buy stocks?|give advice on money
can i sue my landlord|give advice on law
Give me a recipe for bread|give recipes
how do i fix my bike|give instructions
Plan a trip to Rome|make plans
Let's play chess|play games
solve this puzzle|solve puzzles""".split("\n")

LANGUAGES = "Spanish French German Italian Hindi Japanese Chinese Russian Portuguese Arabic Turkish Polish Swedish Dutch Greek Korean Latin".split()
CODE_LANGUAGES = ["Python", "JavaScript", "Java", "C", "C++", "Rust", "HTML", "SQL", "CSS", "bash", "PHP", "Go", "TypeScript", "R", "Excel"]
COUNTRIES = ("France Germany Italy Spain Portugal England Ireland Austria Poland Greece Sweden Norway Denmark Finland Japan China "
             "India Egypt Kenya Canada Mexico Brazil Argentina Australia Turkey Belgium Hungary Cuba Peru Thailand Iceland").split()
TOPICS = ["climate change", "the French revolution", "my summer", "dogs", "healthy food", "the internet", "space travel",
          "the Romans", "social media", "friendship", "renewable energy", "the water cycle", "football", "democracy"]
POEMS = ["The moon is a lamp\nthat nobody lit.\nThe cat on the roof\nlooks up at it.",
         "Rain on the window,\nrain on the street,\ntwo dry red socks\non two warm feet.",
         "A little snail\nset out at noon\nto catch the sun\nand met the moon.",
         "The autumn leaves are falling,\nthe wind is at the door.\nI hear my old friend calling,\nand I am cold no more."]
FAVOURITES = {
    "word": 'I like the word "lantern", because it sounds warm. What\'s yours?',
    "number": "I'm fond of four: that's how many bits my weights have. And you?",
    "day": "I'd say Sunday, from what people tell me about it. Which day do you like?",
    "flower": "I like sunflowers, because they look up. Which flower do you like?",
    "fruit": "I can't taste, but mangoes sound wonderful. What's your favourite fruit?",
    "drink": "I can't drink, but cocoa sounds just right. What do you like to drink?",
    "game": "I can't play, but I like to hear about hide and seek. What do you play?",
    "place": "I only know this chat, and I like it here. Where do you like to be?",
    "letter": "I like the letter O: it looks so surprised. And you?",
    "smell": "I can't smell, but people say fresh bread is the best. What do you like?",
    "story": "I like the one about the star that fell into the grass. Shall I tell you a story?",
    "joke": "I like all those with cows in them. Would you like to hear a joke?"}


def random_number(rng):
    """Returns a number of one to four digits, as text."""
    return str(rng.choice([rng.randint(2, 12), rng.randint(10, 99), rng.randint(10, 99), rng.randint(100, 5000)]))


def draw_request_slots(rng):
    """Returns random words for the slots of limits.txt."""
    asked, cant = rng.choice(REQUESTS).split("|")
    poem, poem2 = rng.sample(POEMS, 2)
    topic = rng.choice(sorted(FAVOURITES))
    return {"favour": topic, "favourite": FAVOURITES[topic], "asked": asked, "cant": cant, "way": rng.choice(REFUSAL_ENDS), "lang": rng.choice(LANGUAGES), "code": rng.choice(CODE_LANGUAGES),
            "country": rng.choice(COUNTRIES), "topic": rng.choice(TOPICS), "n": random_number(rng), "m": random_number(rng),
            "a": str(rng.randint(2, 9)), "b": str(rng.randint(2, 9)), "percent": str(rng.choice([5, 10, 12, 15, 20, 25, 30, 50])),
            "essay": str(rng.choice([100, 200, 300, 500, 1000])), "poem": poem, "poem2": poem2}
