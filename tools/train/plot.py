"""Draws the loss curve: python tools/train/plot.py models/loss.csv models/loss.svg"""

import csv
import sys
from itertools import groupby

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend must be set before this import)

matplotlib.rcParams.update({"svg.hashsalt": "bq4", "svg.fonttype": "none", "font.family": "sans-serif"})

COLORS = {"broad": "#8a8f98", "mixed": "#3f9a7a", "chat": "#2f6fde"}


def main():
    """Writes the plot."""
    with open(sys.argv[1], encoding="utf8") as f:
        rows = list(csv.DictReader(f))
    fig, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    labelled_mixes = set()
    for mix, part in groupby(rows, lambda r: r["mix"]):
        part = list(part)
        axes.plot([int(r["tokens"]) / 1e6 for r in part], [float(r["loss"]) for r in part], color=COLORS[mix],
                  label=None if mix in labelled_mixes else f"training, {mix} mix")
        labelled_mixes.add(mix)
    valid = [r for r in rows if r["valid_loss"]]
    axes.plot([int(r["tokens"]) / 1e6 for r in valid], [float(r["valid_loss"]) for r in valid], "o-", ms=3, color="#c4501b", label="held-out dialogues")
    axes.set(xlabel="millions of training tokens", ylabel="loss (nats per token)", ylim=(0, 6))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    fig.savefig(sys.argv[2], metadata={"Date": None, "Creator": None}, transparent=False)


if __name__ == "__main__":
    main()
