"""Sentences and their vectors, computed by sentence-transformers, for the tests of embed().

    python tests/golden/make_embeddings.py FOLDER

FOLDER is all-MiniLM-L6-v2 as stored by tools/setup/models.mjs. Writes tests/golden/embeddings/{sentences.json, minilm.f16}, with 384
numbers for each sentence. Needs torch and sentence-transformers.
"""

import json
import os
import platform
import random
import sys

import numpy as np
import sentence_transformers
import torch
import transformers

FOLDER = os.path.dirname(os.path.abspath(__file__))
OUT = f"{FOLDER}/embeddings"
COUNT = 500

SUBJECTS = ["A farmer", "The old engineer", "My sister", "Nobody", "An orchestra", "The committee", "A small robot", "Dr. Nakamura", "José", "Every student",
       "The café's owner", "A naïve investor", "The night train", "A flock of starlings", "Her lawyer", "THE WHOLE TOWN"]
DOES = ["repairs", "has never seen", "was thinking about", "sells", "quietly measures", "cannot afford", "writes a letter to", "photographs", "argued with",
        "is looking for", "translated", "forgot", "will rebuild", "counts", "didn't believe in"]
OBJECTS = ["the bridge", "a bag of apples", "three blue bicycles", "the theory of relativity", "an unpaid invoice", "the moons of Jupiter", "a recipe for bread",
        "the last ticket", "its own shadow", "a database of birdsong", "the harbour", "18.5 kilometres of cable", "a programme in C++", "the verdict", "naïveté"]
ADVERBIALS = ["", "", " in Lisbon", " before sunrise", " while it rains", ", as always", " at -12 °C", " on the 3rd floor", " – again!", " without a plan", " (see page 42)",
         " since 1998", " near the Øresund", ", e-mail in hand", " for 7% less"]
END = [".", ".", ".", "?", "!", "...", ""]
OTHER_TEXTS = ["yes", "Hello, world!", "北京是中国的首都。", "こんにちは", "Привет, как дела?", "नमस्ते दुनिया", "🙂🙂🙂", "a", "?", "antidisestablishmentarianism", "\ttabs  and   spaces ",
         "The capital of France is Paris.", "x" * 120, "don't won't can't", "e=mc²", "https://example.org/a?b=c#d"]


def sentences():
    rng = random.Random(11)
    out = list(OTHER_TEXTS)
    clause = lambda: f"{rng.choice(SUBJECTS)} {rng.choice(DOES)} {rng.choice(OBJECTS)}{rng.choice(ADVERBIALS)}"
    while len(out) < COUNT:
        clauses = rng.choice([1, 1, 1, 1, 2, 2, 3, 5, 30 if len(out) % 97 == 0 else 1])
        text = ", and ".join(clause() for _ in range(clauses)) + rng.choice(END)
        if text not in out:
            out.append(text)
    return out


if __name__ == "__main__":
    torch.set_num_threads(1)
    texts = sentences()
    model = sentence_transformers.SentenceTransformer(sys.argv[1], device="cpu")
    vectors = model.encode(texts, convert_to_numpy=True, batch_size=1)
    os.makedirs(OUT, exist_ok=True)
    with open(f"{OUT}/minilm.f16", "wb") as out:
        out.write(vectors.astype("<f2").tobytes())
    versions = {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
                "sentence_transformers": sentence_transformers.__version__, "numpy": np.__version__}
    with open(f"{OUT}/sentences.json", "w", encoding="utf8") as out:
        json.dump({"made_with": versions, "hidden": vectors.shape[1], "sentences": texts}, out, ensure_ascii=False, indent=0)
        out.write("\n")
    lengths = [len(model.tokenizer(text)["input_ids"]) for text in texts]
    print(f"{len(texts)} sentences of {min(lengths)} to {max(lengths)} tokens, {sum(lengths) / len(lengths):.1f} on average")
