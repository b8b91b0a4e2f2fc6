"""Greedy tokens and logits of the golden tiny model, computed by the double-precision forward pass of reference.py.

    python tests/golden/make_reference.py

Writes tests/golden/tiny.json. Needs NumPy and, for the tokens of the prompt, tokenizers. With --check FILE it also compares
reference.py with the published 200 tokens of stories260K.
"""

import argparse
import json
import os
import platform
import re

import numpy as np
import tokenizers

from reference import greedy, load_hf, load_llama2c

FOLDER = os.path.dirname(os.path.abspath(__file__))
# After this prompt, of several that were tried, the model repeats itself least.
PROMPT = '"What'
COUNT = 200
# The steps whose logits are written.
STEPS = [0, 1, 100, 199]


def check_stories(folder):
    """Compares reference.py with tokens computed by another program."""
    with open(f"{folder}/stories260K.greedy200.txt", encoding="utf8") as file:
        text = file.read()
    expected = json.loads(re.search(r"ids (\[.*?\])", text)[1])
    weights, config = load_llama2c(f"{folder}/stories260K.bin")
    ids, _, lead = greedy(weights, config, expected[:1], len(expected) - 1)
    assert ids == expected[1:], "reference.py disagrees with stories260K.greedy200.txt"
    print(f"stories260K: {len(ids)} ids agree, smallest lead {lead:.5f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", metavar="FOLDER", help="folder with stories260K.bin and stories260K.greedy200.txt")
    args = parser.parse_args()
    if args.check:
        check_stories(args.check)
    prompt = tokenizers.Tokenizer.from_file(f"{FOLDER}/tiny/tokenizer.json").encode(PROMPT).ids
    weights, config = load_hf(f"{FOLDER}/tiny")
    ids, logits, lead = greedy(weights, config, prompt, COUNT)
    print(f"tiny: smallest lead of a choice {lead:.5f}")
    assert lead > 1e-3, "a choice is too close to call in f32: take another prompt"
    out = {
        "model": "tiny", "prompt": PROMPT, "prompt_ids": prompt, "ids": ids, "smallest_lead": round(float(lead), 6),
        "logits": [{"step": s, "values": [float(np.float32(v)) for v in logits[s]]} for s in STEPS],
        "made_with": {"python": platform.python_version(), "numpy": np.__version__, "tokenizers": tokenizers.__version__},
    }
    text = json.dumps(out, indent=1)
    # Each list of numbers is on one line.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)
    with open(f"{FOLDER}/tiny.json", "w", encoding="utf8") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main()
