"""How much of a head has to be read for the likeliest token: rows in clusters (k-means), of which those with the best centroids are computed.
Prints the last table of docs/decisions/0019-quality.md. Run by hand:
    python tools/quality/head.py MODEL.gguf tokens.json [tokens [clusters]]
tokens.json: the ids of a text, a list. Needs numpy and gguf."""
import json
import sys

import numpy as np

from evict import Kept, Model

CHUNK = 32
ROUNDS = 8


def states(model, ids):
    """What the head reads, of every token."""
    cache = [[Kept(model.dim, ("all", 0, 0)) for _ in range(model.kv_heads)] for _ in range(model.layers)]
    out = []
    for at in range(0, len(ids), CHUNK):
        x = model.w["token_embd.weight"][ids[at:at + CHUNK]]
        for i in range(model.layers):
            x = model.layer(x, i, at, cache[i])
        out.append(model.norm(x, "output_norm.weight"))
    return np.concatenate(out)


def clustered(rows, n):
    """Which cluster each row is in, by direction, and their centroids: means of the rows as they are."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    centers = unit[np.random.default_rng(1).choice(len(rows), n, replace=False)]
    for _ in range(ROUNDS):
        of = np.concatenate([np.argmax(part @ centers.T, 1) for part in np.array_split(unit, 16)])
        sums = np.zeros_like(centers)
        np.add.at(sums, of, unit)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        centers = np.where(norms > 0, sums / np.maximum(norms, 1e-9), centers)
    counts = np.bincount(of, minlength=n)
    sums = np.zeros_like(centers)
    np.add.at(sums, of, rows)
    return of, counts, sums / np.maximum(counts, 1)[:, None]


def main(path, tokens, n="256", clusters="256"):
    model = Model(path)
    ids = np.array(json.load(open(tokens))[:int(n)])
    head = model.w.get("output.weight", model.w["token_embd.weight"])
    h = states(model, ids)
    best = np.concatenate([np.argmax(part @ head.T, 1) for part in np.array_split(h, 8)])
    print(f"| {len(ids)} tokens, {clusters} clusters: clusters computed | rows read, with centroids | same choice |\n|---|---|---|", flush=True)
    of, counts, centers = clustered(head, int(clusters))
    order = np.argsort(-(h @ centers.T), 1)
    place = np.argmax(order == of[best][:, None], 1)
    for k in (1, 2, 4, 8, 16, 32, 64, 96, 128, 192):
        if k > int(clusters):
            break
        read = (counts[order[:, :k]].sum(1).mean() + int(clusters)) / len(head)
        print(f"| {k} | {100 * read:.1f} % | {100 * (place < k).mean():.1f} % |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
