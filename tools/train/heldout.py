"""The prompts that no training text may contain, and a check of the files of prepare.py.

    python tools/train/heldout.py build/train

Held out are the last turns of the prompts of models/check.json and models/prompts.json with "heldout": true.
A user turn contains a prompt if it consists of the same words, or if it contains the words of a prompt of
four words or more as a sequence. prepare.py removes all conversations with such a turn. This program reads
the mixes again; its exit status is 1 if one of them contains such a turn. It also prints the prompts that
share the longest sequences of words with the training text.
"""

import json
import os
import sys

import numpy as np
from tokenizers import Tokenizer

from sources import plain_words

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models")
USER, ASSISTANT = 1, 2
MIN_CONTAINED_WORDS = 4  # shortest prompt that must not be part of a longer turn


def sequences(words, n):
    """Returns all sequences of n words."""
    return (tuple(words[i:i + n]) for i in range(len(words) - n + 1))


class HeldOut:
    """The held-out prompts."""

    def __init__(self):
        self.prompts = set()
        for name in ("check.json", "prompts.json"):
            with open(os.path.join(MODELS, name), encoding="utf8") as f:
                self.prompts |= {plain_words(c["turns"][-1]) for c in json.load(f) if c["heldout"]}
        self.sequences = {}  # number of words -> sequences of words
        for words in (p.split() for p in self.prompts):
            if len(words) >= MIN_CONTAINED_WORDS:
                self.sequences.setdefault(len(words), set()).add(tuple(words))

    def prompt_in(self, turn):
        """Returns the held-out prompt that a user turn contains, or None."""
        text = plain_words(turn)
        if text in self.prompts:
            return text
        words = text.split()
        for n, prompts in self.sequences.items():
            for sequence in sequences(words, n):
                if sequence in prompts:
                    return " ".join(sequence)
        return None


def user_turns(path, tokenizer):
    """Returns the different user turns of a mix."""
    with np.load(path) as f:
        ids, starts = f["ids"], f["starts"]
    marks = np.flatnonzero(ids == USER)
    ends = np.flatnonzero(ids == 3)  # <|end|>
    turn_ends = ends[np.minimum(np.searchsorted(ends, marks), len(ends) - 1)]
    spans = {ids[a + 1:b].tobytes() for a, b in zip(marks, turn_ends) if b > a}
    print(f"{path}: {len(starts)} documents, {len(marks)} user turns, {len(spans)} different ones")
    return tokenizer.decode_batch([np.frombuffer(s, ids.dtype).tolist() for s in spans])


def main():
    out = sys.argv[1]
    tokenizer = Tokenizer.from_file(f"{out}/tokenizer.json")
    heldout, contained, shared = HeldOut(), [], {}
    for name in ("broad", "mixed", "chat"):
        if not os.path.exists(f"{out}/{name}.npz"):
            continue
        grams = set()
        for turn in user_turns(f"{out}/{name}.npz", tokenizer):
            prompt = heldout.prompt_in(turn)
            if prompt:
                contained.append(f"{name}: {turn!r} contains {prompt!r}")
            words = plain_words(turn).split()
            for n in range(3, 9):
                grams.update(sequences(words, n))
        for prompt in heldout.prompts:
            words = prompt.split()
            longest = max((n for n in range(3, min(9, len(words) + 1)) if any(r in grams for r in sequences(words, n))), default=0)
            shared[prompt] = max(shared.get(prompt, 0), longest)
    print("number of words in the longest sequence that a prompt shares with a user turn:")
    for prompt, n in sorted(shared.items(), key=lambda p: -p[1] / len(p[0].split()))[:10]:
        print(f"  {n} of {len(prompt.split())}  {prompt}")
    print("\n".join(contained) or f"none of the {len(heldout.prompts)} held-out prompts is part of a user turn")
    sys.exit(bool(contained))


if __name__ == "__main__":
    main()
