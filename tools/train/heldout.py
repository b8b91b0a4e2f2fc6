"""The prompts that no training text may contain, and a check of what prepare.py wrote.

    python tools/train/heldout.py build/train

Held out are those of models/check.json and models/prompts.json with "heldout": true, by their last
turn. A user turn contains a prompt if it is the same words, or if the words of a prompt of four
words or more stand in it one after another. prepare.py drops every conversation in which that
happens; this reads the mixes again and ends with status 1 if one is left. It also shows the
prompts that share the longest runs of words with the training text.
"""

import json
import os
import sys

import numpy as np
from tokenizers import Tokenizer

from sources import plain_words

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models")
USER, ASSISTANT = 1, 2
LEAST = 4  # words of a prompt that must not stand inside a longer turn either


def runs(words, n):
    return (tuple(words[i:i + n]) for i in range(len(words) - n + 1))


class HeldOut:
    def __init__(self):
        self.prompts = set()
        for name in ("check.json", "prompts.json"):
            with open(os.path.join(MODELS, name), encoding="utf8") as f:
                self.prompts |= {plain_words(c["turns"][-1]) for c in json.load(f) if c["heldout"]}
        self.long = {}  # length in words -> runs
        for words in (p.split() for p in self.prompts):
            if len(words) >= LEAST:
                self.long.setdefault(len(words), set()).add(tuple(words))

    def prompt_in(self, turn):
        """The held-out prompt that a user turn contains, or None."""
        text = plain_words(turn)
        if text in self.prompts:
            return text
        words = text.split()
        for n, prompts in self.long.items():
            for run in runs(words, n):
                if run in prompts:
                    return " ".join(run)
        return None


def user_turns(path, tokenizer):
    """The different user turns of a mix."""
    with np.load(path) as f:
        ids, starts = f["ids"], f["starts"]
    marks = np.flatnonzero(ids == USER)
    ends = np.flatnonzero(ids == 3)  # <|end|>
    lasts = ends[np.minimum(np.searchsorted(ends, marks), len(ends) - 1)]
    spans = {ids[a + 1:b].tobytes() for a, b in zip(marks, lasts) if b > a}
    print(f"{path}: {len(starts)} documents, {len(marks)} user turns, {len(spans)} different ones")
    return tokenizer.decode_batch([np.frombuffer(s, ids.dtype).tolist() for s in spans])


def main():
    out = sys.argv[1]
    tokenizer = Tokenizer.from_file(f"{out}/tokenizer.json")
    heldout, found, shared = HeldOut(), [], {}
    for name in ("broad", "mixed", "chat"):
        if not os.path.exists(f"{out}/{name}.npz"):
            continue
        grams = set()
        for turn in user_turns(f"{out}/{name}.npz", tokenizer):
            prompt = heldout.prompt_in(turn)
            if prompt:
                found.append(f"{name}: {turn!r} contains {prompt!r}")
            words = plain_words(turn).split()
            for n in range(3, 9):
                grams.update(runs(words, n))
        for prompt in heldout.prompts:
            words = prompt.split()
            longest = max((n for n in range(3, min(9, len(words) + 1)) if any(r in grams for r in runs(words, n))), default=0)
            shared[prompt] = max(shared.get(prompt, 0), longest)
    print("longest run of words that a prompt shares with a user turn (of its words):")
    for prompt, n in sorted(shared.items(), key=lambda p: -p[1] / len(p[0].split()))[:10]:
        print(f"  {n} of {len(prompt.split())}  {prompt}")
    print("\n".join(found) or f"none of the {len(heldout.prompts)} held-out prompts is in a user turn")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
