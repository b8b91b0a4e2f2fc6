"""Estimates how many bits an embedding in clusters could save. Similar rows are put into clusters, as in c/model/clusters.c, and only the
difference between a row and the mean of its cluster would be stored. Prints, for several sizes of clusters, the share of the squares of
weights that the means contain, and the bits that each weight needs less. Run by hand:
    python tools/quality/embedding.py MODEL.gguf
It needs numpy and gguf."""
import sys

import gguf
import numpy as np

# Largest number of rows from which the axis of a cluster is computed.
SAMPLE_ROWS = 1024
# Number of power iterations for the axis.
ITERATIONS = 3


def split_into_clusters(rows, order, size):
    """Sorts `order`, the numbers of rows, so that each `size` of them are a cluster. Splits the rows in two parts along the axis of their
    largest variance, and then each part."""
    if len(order) <= size:
        return
    first = ((len(order) - 1) // size // 2 + 1) * size
    count = min(len(order), SAMPLE_ROWS)
    sample = rows[order[np.arange(count) * len(order) // count]]
    sample = sample - sample.mean(0)
    axis = sample[np.argmax((sample * sample).sum(1))]
    for _ in range(ITERATIONS):
        axis = axis / max(np.abs(axis).max(), 1e-30)
        axis = sample.T @ (sample @ axis)
    order[:] = order[np.argsort(-(rows[order] @ axis), kind="stable")]
    split_into_clusters(rows, order[:first], size)
    split_into_clusters(rows, order[first:], size)


def main(path):
    reader = gguf.GGUFReader(path)
    tensor = next(t for t in reader.tensors if t.name == "token_embd.weight")
    rows = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    rows = rows - rows.mean(0)
    print("| rows of a cluster | share of the squares in its mean | bits saved per weight | bits of the means per weight, 8 bits each |\n|---|---|---|---|")
    for size in (256, 32, 8, 2):
        order = np.arange(len(rows))
        split_into_clusters(rows, order, size)
        remainder = sum(float(((part - part.mean(0)) ** 2).sum()) for part in (rows[order[at:at + size]] for at in range(0, len(rows), size)))
        mean_share = 1 - remainder / float((rows * rows).sum())
        print(f"| {size} | {100 * mean_share:.1f} % | {-0.5 * np.log2(1 - mean_share):.2f} | {8 / size:.2f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
