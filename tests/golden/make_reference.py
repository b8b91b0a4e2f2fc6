"""Greedy ids and logits of the golden tiny model, by the double-precision forward pass of reference.py.

    python tests/golden/make_reference.py

Writes tests/golden/tiny.json. Needs NumPy and, for the prompt's ids, tokenizers. With --check FILE
it also verifies reference.py itself against stories260K's published 200 ids.
"""

import argparse
import json
import os
import platform
import re

import numpy as np
import tokenizers

from reference import greedy, load_hf, load_llama2c

HERE = os.path.dirname(os.path.abspath(__file__))
# Of several tried, the one after which the model repeats itself least.
PROMPT = '"What'
COUNT = 200
# Logits are kept of these steps.
STEPS = [0, 1, 100, 199]


def check_stories(folder):
    """reference.py against ids that others computed."""
    with open(f"{folder}/stories260K.greedy200.txt", encoding="utf8") as file:
        text = file.read()
    wanted = json.loads(re.search(r"ids (\[.*?\])", text)[1])
    weights, config = load_llama2c(f"{folder}/stories260K.bin")
    ids, _, lead = greedy(weights, config, wanted[:1], len(wanted) - 1)
    assert ids == wanted[1:], "reference.py disagrees with stories260K.greedy200.txt"
    print(f"stories260K: {len(ids)} ids agree, smallest lead {lead:.5f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", metavar="FOLDER", help="folder with stories260K.bin and stories260K.greedy200.txt")
    args = parser.parse_args()
    if args.check:
        check_stories(args.check)
    prompt = tokenizers.Tokenizer.from_file(f"{HERE}/tiny/tokenizer.json").encode(PROMPT).ids
    weights, config = load_hf(f"{HERE}/tiny")
    ids, logits, lead = greedy(weights, config, prompt, COUNT)
    print(f"tiny: smallest lead of a choice {lead:.5f}")
    assert lead > 1e-3, "a choice is too close to call in f32: take another prompt"
    out = {
        "model": "tiny", "prompt": PROMPT, "prompt_ids": prompt, "ids": ids, "smallest_lead": round(float(lead), 6),
        "logits": [{"step": s, "values": [float(np.float32(v)) for v in logits[s]]} for s in STEPS],
        "made_with": {"python": platform.python_version(), "numpy": np.__version__, "tokenizers": tokenizers.__version__},
    }
    text = json.dumps(out, indent=1)
    # Lists of numbers on one line each.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)
    with open(f"{HERE}/tiny.json", "w", encoding="utf8") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main()
