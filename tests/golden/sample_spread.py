"""Measures how the increase of perplexity by quantization depends on the sample, with twelve samples like stories_sample.json.

    python tests/golden/sample_spread.py FOLDER

FOLDER contains stories260K.bin. Weights are quantized, everything else has double precision. Takes some minutes.
"""

import os
import sys

import numpy as np

from reference import Model, load_llama2c

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
from bq4_export.encode import ROWS, encode  # noqa: E402

SEED, SAMPLES, WINDOWS, LENGTH, BOS = 7, 12, 8, 512, 1


def quantized(weights, embedding):
    def kind(name):
        return embedding if name.startswith("wte") else "bq4_32"

    return {name: v if v.ndim == 1 else encode(kind(name), ROWS, v)[1].astype(np.float64) for name, v in weights.items()}


def main(folder):
    weights, config = load_llama2c(f"{folder}/stories260K.bin")
    count = SAMPLES * WINDOWS
    variants = {"f32": weights, "all BQ4": quantized(weights, "bq4_32"), "8-bit embedding": quantized(weights, "bq8_32")}
    models = {name: Model(w, config, count) for name, w in variants.items()}
    surprise = {name: np.zeros(count) for name in models}
    rng = np.random.default_rng(SEED)
    tokens = np.full(count, BOS)
    for _ in range(LENGTH - 1):
        logs = {}
        for name, model in models.items():
            logits = model.feed(tokens)
            logits -= logits.max(-1, keepdims=True)
            logs[name] = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        tokens = (np.exp(logs["f32"]).cumsum(-1) > rng.random((count, 1))).argmax(-1)
        for name in models:
            surprise[name] -= logs[name][np.arange(count), tokens]
    for name in list(models)[1:]:
        increase = (surprise[name] - surprise["f32"]).reshape(SAMPLES, WINDOWS).mean(-1) / (LENGTH - 1)
        percent = 100 * np.expm1(increase)
        print(f"{name}: {percent.min():.1f} to {percent.max():.1f} %, all together {100 * np.expm1(increase.mean()):.1f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
