"""Prints the largest difference between the logits of reference.py and of PyTorch (fixtures/).

    python tests/golden/check_reference.py
"""

import base64
import json
import os

import numpy as np

from reference import Model, load_hf

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")


def main():
    for name in sorted(os.listdir(FIXTURES)):
        if not name.startswith(("llama", "bullet")):  # the only ones that reference.py computes
            continue
        weights, config = load_hf(f"{FIXTURES}/{name}")
        with open(f"{FIXTURES}/{name}/expected.json", encoding="utf8") as file:
            expected = json.load(file)
        expected_logits = np.frombuffer(base64.b64decode(expected["logits"]), "<f4").reshape(expected["positions"], expected["vocab"])
        model = Model(weights, config)
        actual = np.stack([model.feed([token])[0] for token in expected["ids"]])
        error = np.abs(actual - expected_logits).max()
        assert error < 1e-4, f"{name}: {error}"
        print(f"{name}: {error:.1e}")


if __name__ == "__main__":
    main()
