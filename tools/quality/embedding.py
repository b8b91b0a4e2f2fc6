"""What an embedding in clusters could save: how much of its rows the means of clusters of rows that are alike (as c/model/clusters.c makes them)
tell, and how many bits a weight therefore needs less where only what is left is stored. Run by hand:
    python tools/quality/embedding.py MODEL.gguf
Needs numpy and gguf."""
import sys

import gguf
import numpy as np

SAMPLE = 1024
TURNS = 3


def halves(rows, order, size):
    """Leaves `order` cluster by cluster, `size` rows each."""
    if len(order) <= size:
        return
    first = ((len(order) - 1) // size // 2 + 1) * size
    taken = min(len(order), SAMPLE)
    sample = rows[order[np.arange(taken) * len(order) // taken]]
    sample = sample - sample.mean(0)
    axis = sample[np.argmax((sample * sample).sum(1))]
    for _ in range(TURNS):
        axis = axis / max(np.abs(axis).max(), 1e-30)
        axis = sample.T @ (sample @ axis)
    order[:] = order[np.argsort(-(rows[order] @ axis), kind="stable")]
    halves(rows, order[:first], size)
    halves(rows, order[first:], size)


def main(path):
    reader = gguf.GGUFReader(path)
    tensor = next(t for t in reader.tensors if t.name == "token_embd.weight")
    rows = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    rows = rows - rows.mean(0)
    print("| rows in a cluster | of the squares of weights its mean tells | bits that a weight needs less | bits that means take, at 8 each |\n|---|---|---|---|")
    for size in (256, 32, 8, 2):
        order = np.arange(len(rows))
        halves(rows, order, size)
        left = sum(float(((part - part.mean(0)) ** 2).sum()) for part in (rows[order[at:at + size]] for at in range(0, len(rows), size)))
        told = 1 - left / float((rows * rows).sum())
        print(f"| {size} | {100 * told:.1f} % | {-0.5 * np.log2(1 - told):.2f} | {8 / size:.2f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
