"""Measures the perplexity of methods that store fewer keys and values: eviction by attention (H2O), and caches of 2 and 4 bits. The model, a
LLaMA GGUF, is computed in NumPy. Prints the table of docs/decisions/0018-attention-sinks.md. Run by hand:
    python tools/quality/evict.py MODEL.gguf tokens.json [tokens [budgets]]
tokens.json: a list with the tokens of a text. It needs numpy and gguf.

H2O: at every multiple of 32 positions, each KV head evicts the positions whose keys got the least attention so far, until `budget` positions
are left. The newest half is not evicted. "32 at once": runs of 32 positions are evicted. Keys keep their position encoding, since no text is
longer than the model's context."""
import json
import sys

import gguf
import numpy as np

# Number of tokens that are computed together.
CHUNK = 32
SINKS = 4


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.weights = {t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
        key = lambda name: reader.fields[f"llama.{name}"].contents()
        self.layers, self.heads, self.kv_heads = key("block_count"), key("attention.head_count"), key("attention.head_count_kv")
        self.epsilon, self.rope_base = key("attention.layer_norm_rms_epsilon"), key("rope.freq_base")
        self.head_size = key("embedding_length") // self.heads

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * self.weights[name]

    def rotate(self, x, positions):
        """Applies RoPE to an array of shape [tokens, heads, head size]. Pairs are adjacent, as in GGUF files."""
        angles = positions[:, None] * self.rope_base ** (-np.arange(0, self.head_size, 2) / self.head_size)
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape).astype(np.float32)

    def mean_surprisal(self, ids, policy):
        """Returns the mean surprisal of all tokens but the first, in nats."""
        caches = [[HeadCache(self.head_size, policy) for _ in range(self.kv_heads)] for _ in range(self.layers)]
        total = 0.0
        for start in range(0, len(ids), CHUNK):
            x = self.weights["token_embd.weight"][ids[start:start + CHUNK]]
            for i in range(self.layers):
                x = self.compute_layer(x, i, start, caches[i])
            logits = self.norm(x, "output_norm.weight") @ self.weights.get("output.weight", self.weights["token_embd.weight"]).T
            logits -= logits.max(-1, keepdims=True)
            logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
            following = ids[start + 1:start + 1 + len(x)]
            total -= float(logits[np.arange(len(following)), following].sum())
        return total / (len(ids) - 1)

    def compute_layer(self, x, i, start, head_caches):
        get = lambda name: self.weights[f"blk.{i}.{name}.weight"].T
        n, positions = len(x), start + np.arange(len(x))
        y = self.norm(x, f"blk.{i}.attn_norm.weight")
        q = self.rotate((y @ get("attn_q")).reshape(n, self.heads, self.head_size), positions)
        k = self.rotate((y @ get("attn_k")).reshape(n, self.kv_heads, self.head_size), positions)
        v = (y @ get("attn_v")).reshape(n, self.kv_heads, self.head_size)
        group = self.heads // self.kv_heads
        attended = np.concatenate([head_caches[h].attend(q[:, h * group:(h + 1) * group], k[:, h], v[:, h], positions) for h in range(self.kv_heads)], 1)
        x = x + attended.reshape(n, -1) @ get("attn_output")
        y = self.norm(x, f"blk.{i}.ffn_norm.weight")
        gate = y @ get("ffn_gate")
        return x + (gate / (1 + np.exp(-gate)) * (y @ get("ffn_up"))) @ get("ffn_down")


def quantize(x, bits, middles):
    """Rounds blocks of 32 numbers. Levels divide the range of a block into equal steps (i4), or into equal parts, and numbers become the middle of
    their part (`middles`, i2)."""
    blocks, maximum_level = x.reshape(-1, 32), 2 ** bits - 1
    minimum = blocks.min(1, keepdims=True)
    step = np.maximum((blocks.max(1, keepdims=True) - minimum) / (maximum_level + middles), 1e-9)
    minimum = minimum + middles * step / 2
    return (np.clip(np.round((blocks - minimum) / step), 0, maximum_level) * step + minimum).reshape(x.shape)


def rotate_hadamard(x):
    """Multiplies vectors by a Hadamard matrix, as c/session/forward.c does for i4."""
    n, size = x.shape[-1], 1
    y = x.reshape(-1, n)
    while size < n:
        y = y.reshape(-1, n // (2 * size), 2, size)
        y = np.concatenate([y[:, :, :1] + y[:, :, 1:], y[:, :, :1] - y[:, :, 1:]], 2).reshape(-1, n)
        size *= 2
    return (y / np.sqrt(n)).reshape(x.shape)


class HeadCache:
    """The cache of one KV head of a layer. `policy`: kind ("all", "sinks", "h2o" or "bits"), budget (number of positions or of bits), and grain
    (number of positions that are evicted together; for "bits", whether values become the middles of parts)."""

    def __init__(self, head_size, policy):
        self.k, self.v = np.zeros((0, head_size), np.float32), np.zeros((0, head_size), np.float32)
        self.positions, self.attention_sums = np.zeros(0, int), np.zeros(0)
        self.kind, self.budget, self.grain = policy

    def attend(self, q, k, v, positions):
        if self.kind == "bits":
            q, k, v = rotate_hadamard(q), quantize(rotate_hadamard(k), self.budget, self.grain), quantize(v, self.budget, self.grain)
        self.k, self.v = np.concatenate([self.k, k]), np.concatenate([self.v, v])
        self.positions, self.attention_sums = np.concatenate([self.positions, positions]), np.concatenate([self.attention_sums, np.zeros(len(positions))])
        scores = np.einsum("tgd,jd->tgj", q, self.k) / np.sqrt(q.shape[-1])
        scores = np.where(self.positions[None, None] > positions[:, None, None], -np.inf, scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        attended = np.einsum("tgj,jd->tgd", weights, self.v)
        self.attention_sums += weights.sum((0, 1))
        if self.kind in ("sinks", "h2o") and len(self.positions) > self.budget:
            self.evict()
        return attended

    def evict(self):
        excess = len(self.positions) - self.budget
        if self.kind == "sinks":
            evicted = np.arange(SINKS, SINKS + excess)
        else:
            candidates = len(self.positions) - self.budget // 2  # The newest half is not evicted.
            if self.grain == 1:
                evicted = np.argsort(self.attention_sums[:candidates], kind="stable")[:excess]
            else:
                runs = self.attention_sums[:candidates // CHUNK * CHUNK].reshape(-1, CHUNK).sum(1)
                least_attended = np.argsort(runs, kind="stable")[:(excess + CHUNK - 1) // CHUNK]
                evicted = (least_attended[:, None] * CHUNK + np.arange(CHUNK)).ravel()
        is_kept = np.ones(len(self.positions), bool)
        is_kept[evicted] = False
        self.k, self.v, self.positions, self.attention_sums = self.k[is_kept], self.v[is_kept], self.positions[is_kept], self.attention_sums[is_kept]


def main(path, tokens_path, n="2048", budgets="256,512"):
    model = Model(path)
    ids = np.array(json.load(open(tokens_path))[:int(n)])
    print(f"| {len(ids)} tokens | positions kept | perplexity | against all |\n|---|---|---|---|", flush=True)
    reference = None
    policies = [("all", ("all", 0, 0))]
    for budget in map(int, budgets.split(",")):
        policies += [("sinks and a window", ("sinks", budget, 1)), ("H2O", ("h2o", budget, 1)), ("H2O, 32 at once", ("h2o", budget, CHUNK))]
    policies += [("4 bits", ("bits", 4, 0)), ("2 bits, equal steps", ("bits", 2, 0)), ("2 bits, middles of parts", ("bits", 2, 1))]
    for name, policy in policies:
        perplexity = np.exp(model.mean_surprisal(ids, policy))
        reference = reference or perplexity
        positions = policy[1] if policy[0] in ("sinks", "h2o") else "all"
        print(f"| {name} | {positions} | {perplexity:.3f} | {100 * (perplexity / reference - 1):+.1f} % |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
