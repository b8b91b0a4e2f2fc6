"""4,096 tokens sampled from stories260K in f32 and its perplexity on them, for measurements of quantized models.

    python tests/golden/make_stories_sample.py FOLDER

FOLDER contains stories260K.bin. Writes tests/golden/stories_sample.json: 8 windows of 512 tokens (the context of the model), each
beginning with BOS, sampled at temperature 1 by the double-precision forward pass of reference.py.
Perplexity is exp of the mean of -log p over the 511 predictions of each window.
"""

import argparse
import json
import os
import platform

import numpy as np

from reference import Model, load_llama2c

FOLDER = os.path.dirname(os.path.abspath(__file__))
SEED = 1
WINDOWS, LENGTH, BOS = 8, 512, 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    weights, config = load_llama2c(f"{parser.parse_args().folder}/stories260K.bin")
    model = Model(weights, config, batch=WINDOWS)
    rng = np.random.default_rng(SEED)
    tokens = [np.full(WINDOWS, BOS)]
    surprise = 0.0
    for _ in range(LENGTH - 1):
        logits = model.feed(tokens[-1])
        p = np.exp(logits - logits.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        # The first token whose cumulative probability exceeds a uniform number.
        drawn = (p.cumsum(-1) > rng.random((WINDOWS, 1))).argmax(-1)
        surprise -= np.log(p[np.arange(WINDOWS), drawn]).sum()
        tokens.append(drawn)
    windows = np.stack(tokens, 1).tolist()
    perplexity = float(np.exp(surprise / (WINDOWS * (LENGTH - 1))))
    out = {"model": "stories260K", "seed": SEED, "temperature": 1, "predictions": WINDOWS * (LENGTH - 1), "perplexity": round(perplexity, 6),
           "made_with": {"python": platform.python_version(), "numpy": np.__version__}}
    with open(f"{FOLDER}/stories_sample.json", "w", encoding="utf8") as file:
        lines = ",\n  ".join(json.dumps(w, separators=(",", ":")) for w in windows)
        file.write(json.dumps(out, indent=1)[:-2] + f',\n "windows": [\n  {lines}\n ]\n}}\n')
    print(f"perplexity {perplexity:.4f}")


if __name__ == "__main__":
    main()
