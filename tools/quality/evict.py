"""What other ways to keep fewer keys and values would cost: a LLaMA GGUF in NumPy, its cache evicted by attention (H2O), or kept in 2 bits.
Prints the table of docs/decisions/0018-attention-sinks.md. Run by hand:
    python tools/quality/evict.py MODEL.gguf tokens.json [tokens [budgets]]
tokens.json: the ids of a text, a list. Needs numpy and gguf.

H2O: at every multiple of 32 positions each KV head forgets, until `budget` are left, those whose keys got the least attention so far; the newest
half stays. `32 at once`: whole runs of 32. Keys keep the positions that they had: no text is longer than the model's context."""
import json
import sys

import gguf
import numpy as np

CHUNK = 32
SINKS = 4


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.w = {t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
        key = lambda name: reader.fields[f"llama.{name}"].contents()
        self.layers, self.heads, self.kv_heads = key("block_count"), key("attention.head_count"), key("attention.head_count_kv")
        self.eps, self.theta = key("attention.layer_norm_rms_epsilon"), key("rope.freq_base")
        self.dim = key("embedding_length") // self.heads

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.w[name]

    def rotate(self, x, positions):
        """[tokens, heads, dim]; adjacent pairs, as GGUF has them."""
        angles = positions[:, None] * self.theta ** (-np.arange(0, self.dim, 2) / self.dim)
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape).astype(np.float32)

    def surprise(self, ids, policy):
        """Of all ids but the first, in nats each."""
        cache = [[Kept(self.dim, policy) for _ in range(self.kv_heads)] for _ in range(self.layers)]
        total = 0.0
        for at in range(0, len(ids), CHUNK):
            x = self.w["token_embd.weight"][ids[at:at + CHUNK]]
            for i in range(self.layers):
                x = self.layer(x, i, at, cache[i])
            logits = self.norm(x, "output_norm.weight") @ self.w.get("output.weight", self.w["token_embd.weight"]).T
            logits -= logits.max(-1, keepdims=True)
            logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
            following = ids[at + 1:at + 1 + len(x)]
            total -= float(logits[np.arange(len(following)), following].sum())
        return total / (len(ids) - 1)

    def layer(self, x, i, at, kept):
        get = lambda name: self.w[f"blk.{i}.{name}.weight"].T
        n, positions = len(x), at + np.arange(len(x))
        y = self.norm(x, f"blk.{i}.attn_norm.weight")
        q = self.rotate((y @ get("attn_q")).reshape(n, self.heads, self.dim), positions)
        k = self.rotate((y @ get("attn_k")).reshape(n, self.kv_heads, self.dim), positions)
        v = (y @ get("attn_v")).reshape(n, self.kv_heads, self.dim)
        group = self.heads // self.kv_heads
        mix = np.concatenate([kept[h].attend(q[:, h * group:(h + 1) * group], k[:, h], v[:, h], positions) for h in range(self.kv_heads)], 1)
        x = x + mix.reshape(n, -1) @ get("attn_output")
        y = self.norm(x, f"blk.{i}.ffn_norm.weight")
        gate = y @ get("ffn_gate")
        return x + (gate / (1 + np.exp(-gate)) * (y @ get("ffn_up"))) @ get("ffn_down")


def rounded(x, bits, middles):
    """Blocks of 32 numbers, each from its least to its largest in equal steps (i4), or in equal parts, of which each becomes its middle (i2)."""
    blocks, top = x.reshape(-1, 32), 2 ** bits - 1
    least = blocks.min(1, keepdims=True)
    step = np.maximum((blocks.max(1, keepdims=True) - least) / (top + middles), 1e-9)
    least = least + middles * step / 2
    return (np.clip(np.round((blocks - least) / step), 0, top) * step + least).reshape(x.shape)


def spread(x):
    """A Hadamard matrix over the dims, as c/session/forward.c does for i4."""
    n, size = x.shape[-1], 1
    y = x.reshape(-1, n)
    while size < n:
        y = y.reshape(-1, n // (2 * size), 2, size)
        y = np.concatenate([y[:, :, :1] + y[:, :, 1:], y[:, :, :1] - y[:, :, 1:]], 2).reshape(-1, n)
        size *= 2
    return (y / np.sqrt(n)).reshape(x.shape)


class Kept:
    """What one KV head of a layer remembers."""

    def __init__(self, dim, policy):
        self.k, self.v = np.zeros((0, dim), np.float32), np.zeros((0, dim), np.float32)
        self.at, self.mass = np.zeros(0, int), np.zeros(0)
        self.kind, self.budget, self.grain = policy

    def attend(self, q, k, v, positions):
        if self.kind == "bits":
            q, k, v = spread(q), rounded(spread(k), self.budget, self.grain), rounded(v, self.budget, self.grain)
        self.k, self.v = np.concatenate([self.k, k]), np.concatenate([self.v, v])
        self.at, self.mass = np.concatenate([self.at, positions]), np.concatenate([self.mass, np.zeros(len(positions))])
        scores = np.einsum("tgd,jd->tgj", q, self.k) / np.sqrt(q.shape[-1])
        scores = np.where(self.at[None, None] > positions[:, None, None], -np.inf, scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mix = np.einsum("tgj,jd->tgd", weights, self.v)
        self.mass += weights.sum((0, 1))
        if self.kind in ("sinks", "h2o") and len(self.at) > self.budget:
            self.evict()
        return mix

    def evict(self):
        over = len(self.at) - self.budget
        if self.kind == "sinks":
            gone = np.arange(SINKS, SINKS + over)
        else:
            old = len(self.at) - self.budget // 2  # the newest half stays
            if self.grain == 1:
                gone = np.argsort(self.mass[:old], kind="stable")[:over]
            else:
                runs = self.mass[:old // CHUNK * CHUNK].reshape(-1, CHUNK).sum(1)
                worst = np.argsort(runs, kind="stable")[:(over + CHUNK - 1) // CHUNK]
                gone = (worst[:, None] * CHUNK + np.arange(CHUNK)).ravel()
        keep = np.ones(len(self.at), bool)
        keep[gone] = False
        self.k, self.v, self.at, self.mass = self.k[keep], self.v[keep], self.at[keep], self.mass[keep]


def main(path, tokens, n="2048", budgets="256,512"):
    model = Model(path)
    ids = np.array(json.load(open(tokens))[:int(n)])
    print(f"| {len(ids)} tokens | positions kept | perplexity | against all |\n|---|---|---|---|", flush=True)
    first = None
    policies = [("all", ("all", 0, 0))]
    for budget in map(int, budgets.split(",")):
        policies += [("sinks and a window", ("sinks", budget, 1)), ("H2O", ("h2o", budget, 1)), ("H2O, 32 at once", ("h2o", budget, CHUNK))]
    policies += [("4 bits", ("bits", 4, 0)), ("2 bits, from end to end", ("bits", 2, 0)), ("2 bits, middles of parts", ("bits", 2, 1))]
    for name, policy in policies:
        perplexity = np.exp(model.surprise(ids, policy))
        first = first or perplexity
        kept = policy[1] if policy[0] in ("sinks", "h2o") else "all"
        print(f"| {name} | {kept} | {perplexity:.3f} | {100 * (perplexity / first - 1):+.1f} % |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
