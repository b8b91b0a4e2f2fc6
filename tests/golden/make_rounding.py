"""Rounds a small matrix by second moments of its input, like c/quant, in NumPy; the C code must write the same bytes.

    python tests/golden/make_rounding.py

Writes tests/golden/rounding.json: weights, moments, and for each type and method the bytes of its row-major blocks. Operations are in f32
(f64 where noted) in the order of c/quant/round.h and moments.h; rows are computed together, columns one after another.
"""

import base64
import json
import os
import platform

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROWS, COLS, TOKENS, SEED = 9, 80, 300, 5
F = np.float32
CUTS = [F(c) for c in (0, 0.03, 0.06, 0.1, 0.15, 0.21)]
ENCODER_CUTS = [(0.015, 0.015), (0.03, 0), (0, 0.03), (0, 0), (0.045, 0), (0, 0.045), (0.015, 0), (0, 0.015)]
TYPES = {"bq4a_32": (32, True, True), "bq4h_32": (32, False, True), "bq4_64": (64, False, False)}  # block, minimum, f16
METHODS = {"search": (False, 0), "sweeps": (False, 3), "gptq": (True, 2)}  # feedback, sweeps


def f16(x):
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(F)


class Form:
    def __init__(self, block, minimum, halves):
        self.block, self.minimum, self.halves = block, minimum, halves
        self.low, self.high = (F(0), F(15)) if minimum else (F(-8), F(7))

    def scale(self, s):
        s, smallest = (f16(s) if self.halves else s), F(2.0**-24 if self.halves else 2.0**-100)
        return np.where((s >= smallest) | (s <= -smallest), s, smallest)

    def min(self, m):
        return np.zeros_like(m) if not self.minimum else f16(m) if self.halves else m

    def nearest(self, x, low, inverse):
        q = np.minimum(np.maximum((x - low) * inverse, self.low), self.high)
        return np.rint(q).astype(F) + F(0)


def summed(terms):
    total = terms[0] * 0
    for term in terms:
        total = total + term
    return total


def fit_line(f, x, weight, scale, low):
    q = [f.nearest(c, low, F(1) / scale) for c in x]
    wq = [w * c for w, c in zip(weight, q)]
    sw, sq, sx = summed(weight), summed(wq), summed([w * c for w, c in zip(weight, x)])
    sqq, sqx = summed([a * b for a, b in zip(wq, q)]), summed([a * b for a, b in zip(wq, x)])
    if not f.minimum:
        return np.where(sqq > 0, sqx / np.where(sqq > 0, sqq, F(1)), scale), low
    center = sq / sw
    variance, covariance = sqq - sq * center, sqx - sx * center
    ok = variance > 0
    new = np.where(ok, covariance / np.where(ok, variance, F(1)), scale)
    return new, np.where(ok, (sx - new * sq) / sw, low)


def keep_better(f, x, weight, scale, low, best):
    s, m = f.scale(scale), f.min(low)
    off = [f.nearest(c, m, F(1) / s) * s + m - c for c in x]
    error = summed([w * (o * o) for w, o in zip(weight, off)])
    better = error < best[2]
    return [np.where(better, a, b) for a, b in zip((s, m, error), best)]


def try_start(f, x, weight, scale, low, best):
    scale = f.scale(scale)
    best = keep_better(f, x, weight, scale, low, best)
    for _ in range(2):
        scale, low = fit_line(f, x, weight, scale, low)
        scale = f.scale(scale)
    return keep_better(f, x, weight, scale, low, best)


def encoder_line(y, sum_y, smallest, inverse, best):
    q = [np.rint(np.minimum(np.maximum((c - smallest) * inverse, F(0)), F(15))) for c in y]
    total, squares, products = summed(q), summed([c * c for c in q]), summed([a * b for a, b in zip(q, y)])
    share = F(1) / F(len(y))
    variance, covariance = squares - total * total * share, products - total * sum_y * share
    step = covariance / np.where(variance > 0, variance, F(1))
    better = covariance * step > best[2]
    return [np.where(better, a, b) for a, b in zip((step, (sum_y - step * total) * share, covariance * step), best)]


def encoder_start(f, x):
    """The encoder of bq4a_32 in docs/FORMAT.md."""
    low, high = np.minimum.reduce(x), np.maximum.reduce(x)
    span = high - low
    factor = np.where(span > F(1e-30), F(15) / np.where(span > 0, span, F(1)), F(0))
    y = [(c - low) * factor for c in x]
    sum_y, best = summed(y), [np.ones_like(low), np.zeros_like(low), np.zeros_like(low)]
    for a, b in ENCODER_CUTS:
        best = encoder_line(y, sum_y, F(15) * F(a), F(1) / (F(1) - F(a) - F(b)), best)
    for _ in range(2):
        best = encoder_line(y, sum_y, best[1], F(1) / best[0], best)
    scale = span / F(15)
    low, scale = low + best[1] * scale, best[0] * scale
    top = low + scale * F(15)
    return (top - f.min(low)) / F(15), f.min(low)


def search(f, x, weight):
    low, high = np.minimum.reduce(x), np.maximum.reduce(x)
    zeros = np.zeros_like(low)
    best = [f.scale(zeros), f.min(x[0]), zeros + F(2.0**126)]
    if f.minimum:
        if len(x) <= 32:
            best = try_start(f, x, weight, *encoder_start(f, x), best)
        for a in CUTS:
            for b in CUTS:
                best = try_start(f, x, weight, (high - low) * (F(1) - a - b) / f.high, low + (high - low) * a, best)
        return best[:2]
    high = np.maximum(high, -low)
    best = try_start(f, x, weight, high / f.high, zeros, best)
    for i in range(50):
        size = (F(0.55) + F(0.03) * F(i // 2)) * -f.low
        best = try_start(f, x, weight, (-high if i % 2 else high) / size, zeros, best)
    return best[:2]


def feedback_of(h):
    a = h.astype(np.float64)
    n = len(a)
    for j in range(n - 1, -1, -1):
        for i in range(j):
            a[i, : i + 1] += -(a[j, i] / a[j, j]) * a[j, : i + 1]
        a[j, :j] /= a[j, j]
    for k in range(n):
        row = a[k, :k].copy()
        a[k, :k] = 0
        for l in range(k):
            a[k, :l] += -row[l] * a[l, :l]
            a[k, l] -= row[l]
    return np.tril(a).astype(F)


def blocks_of(f):
    return [(a, min(COLS, a + f.block)) for a in range(0, COLS, f.block)]


def rounded(f, w, h, feedback, sweeps):
    t, q = [w[:, i].copy() for i in range(COLS)], [None] * COLS
    scales, mins = [], []
    by = h if feedback is None else feedback
    for a, z in blocks_of(f):
        s, m = search(f, t[a:z], [np.full(len(w), by[i, i], F) for i in range(a, z)])
        lost = []
        for i in range(a, z):
            q[i] = f.nearest(t[i], m, F(1) / s)
            lost.append(q[i] * s + m - t[i])
            for k in range(i + 1, z) if feedback is not None else ():
                t[k] = t[k] + feedback[k, i] * lost[-1]
        for k in range(z, COLS) if feedback is not None else ():
            for i in range(a, z):
                t[k] = t[k] + feedback[k, i] * lost[i - a]
        scales.append(s)
        mins.append(m)
    off = [q[i] * scales[i // f.block] + mins[i // f.block] - w[:, i] for i in range(COLS)]
    g = [summed([h[k, i] * off[i] for i in range(COLS)]) for k in range(COLS)]
    for _ in range(sweeps):
        for b, (a, z) in enumerate(blocks_of(f)):
            sweep_block(f, h, q, g, scales, mins, b, a, z)
    return q, scales, mins


def sweep_block(f, h, q, g, scales, mins, b, a, z):
    block_columns = range(a, z)
    hq = [summed([h[k, i] * q[i] for i in block_columns]) for k in block_columns]
    all_h = F(0)
    for i in block_columns:
        for j in block_columns:
            all_h = all_h + h[i, j]
    gq, g1 = summed([g[i] * q[i] for i in block_columns]), summed([g[i] for i in block_columns])
    qq, q1 = summed([hq[i - a] * q[i] for i in block_columns]), summed(hq)
    zeros = np.zeros_like(gq)
    if f.minimum:
        det = qq * all_h - q1 * q1
        ok = det > F(1e-6) * qq * all_h
        det = np.where(ok, det, F(1))
        ds, dm = np.where(ok, (q1 * g1 - all_h * gq) / det, zeros), np.where(ok, (q1 * gq - qq * g1) / det, zeros)
    else:
        ds, dm = np.where(qq > 0, -gq / np.where(qq > 0, qq, F(1)), zeros), zeros
    ds, dm = f.scale(scales[b] + ds) - scales[b], f.min(mins[b] + dm) - mins[b]
    change = F(2) * (ds * gq + dm * g1) + (ds * ds * qq + F(2) * ds * dm * q1 + dm * dm * all_h)
    ds, dm = np.where(change < 0, ds, zeros), np.where(change < 0, dm, zeros)
    scales[b], mins[b] = scales[b] + ds, mins[b] + dm
    d = [ds * q[i] + dm for i in block_columns]
    for k in block_columns:
        for i in block_columns:
            g[k] = g[k] + h[k, i] * d[i - a]
    s, m = scales[b], mins[b]
    for i in block_columns:
        target = q[i] * s + m - g[i] * (F(1) / h[i, i])
        nearest_level = f.nearest(target, m, F(1) / s)
        step = (nearest_level - q[i]) * s
        q[i], d[i - a] = nearest_level, d[i - a] + step
        for k in block_columns:
            g[k] = g[k] + h[k, i] * step
    for k in [*range(a), *range(z, COLS)]:
        for i in block_columns:
            g[k] = g[k] + h[k, i] * d[i - a]


def packed(f, q, scales, mins):
    out = bytearray()
    for r in range(ROWS):
        for b, (a, z) in enumerate(blocks_of(f)):
            codes = [int(q[i][r]) & 15 for i in range(a, z)] + [0] * (f.block - (z - a))
            out += bytes(codes[i] | codes[i + 1] << 4 for i in range(0, f.block, 2))
            out += scales[b][r].astype(np.float16 if f.halves else F).tobytes()
            if f.minimum:
                out += mins[b][r].astype(np.float16).tobytes()
    return bytes(out)


def main():
    rng = np.random.default_rng(SEED)
    w = (0.1 * rng.standard_normal((ROWS, COLS))).astype(F)
    x = rng.standard_normal((TOKENS, COLS))
    x[:, 1:] += 0.7 * x[:, :-1]
    x[:, 3::17] *= 5
    moments = (x.T @ x).astype(F)
    total = 0.0
    for i in range(COLS):
        total += float(moments[i, i])
    h = np.tril(moments)
    h = h + np.tril(h, -1).T
    h[np.diag_indices(COLS)] += F(total / COLS) * F(0.01)
    fed = feedback_of(h)
    text = lambda data: base64.b64encode(data).decode()
    cases = {
        name: {method: text(packed(Form(*form), *rounded(Form(*form), w, h, fed if by else None, sweeps))) for method, (by, sweeps) in METHODS.items()}
        for name, form in TYPES.items()
    }
    out = {"rows": ROWS, "cols": COLS, "damp": 0.01, "methods": {name: {"feedback": by, "sweeps": n} for name, (by, n) in METHODS.items()},
           "made_with": {"python": platform.python_version(), "numpy": np.__version__},
           "weights": text(w.tobytes()), "moments": text(moments.tobytes()), "blocks": cases}
    with open(f"{FOLDER}/rounding.json", "w", encoding="utf8") as file:
        file.write(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
