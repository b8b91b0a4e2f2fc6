"""A transformer in NumPy with double precision, as a reference for the engine.

It shares no kernel, no file format and no order of sums with the engine. Weights are a dict of arrays by the names of docs/FORMAT.md; a
configuration has the keys listed there.
"""

import json
import math
import struct

import numpy as np


def read_safetensors(path):
    """Reads name -> float64 array from F32, F16 and BF16."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        raw = data[8 + length:][slice(*entry["data_offsets"])]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
        out[name] = values.astype(np.float64).reshape(entry["shape"])
    return out


HF = {"input_layernorm": "ln1", "post_attention_layernorm": "ln2", "self_attn.q_proj": "attn.q", "self_attn.k_proj": "attn.k",
      "self_attn.v_proj": "attn.v", "self_attn.o_proj": "attn.o", "mlp.gate_proj": "mlp.gate", "mlp.up_proj": "mlp.up",
      "mlp.down_proj": "mlp.down"}


def load_hf(folder):
    """Returns (weights, configuration) of a folder with config.json and model.safetensors, with the names of LLaMA or of docs/FORMAT.md."""
    with open(f"{folder}/config.json", encoding="utf8") as file:
        c = json.load(file)
    tensors = read_safetensors(f"{folder}/model.safetensors")
    if c["model_type"] == "bq4":
        return tensors, c
    weights = {}
    for name, values in tensors.items():
        stem, part = name.removeprefix("model.").rsplit(".", 1)
        if stem.startswith("layers."):
            _, n, module = stem.split(".", 2)
            stem = f"h.{n}.{HF[module]}"
        weights[f'{ {"embed_tokens": "wte", "norm": "ln_f"}.get(stem, stem)}.{part}'] = values
    rope = c.get("rope_parameters") or c
    return weights, {
        "layers": c["num_hidden_layers"], "heads": c["num_attention_heads"], "kv_heads": c["num_key_value_heads"],
        "head_dim": c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"], "norm": "rms",
        "norm_eps": c["rms_norm_eps"], "position": "rope", "rope_theta": rope["rope_theta"], "rope_pairs": "half",
        "activation": "silu", "context": c["max_position_embeddings"],
    }


def load_llama2c(path):
    """Returns (weights, configuration) of a legacy .bin file of llama2.c with a tied LM head."""
    with open(path, "rb") as file:
        data = file.read()
    dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack("<7i", data[:28])
    kv = dim // heads * kv_heads
    at = 28
    weights = {}

    def take(name, *shape, stacked=True):
        nonlocal at
        n = layers if stacked else 1
        count = n * math.prod(shape)
        values = np.frombuffer(data, "<f4", count, at).astype(np.float64).reshape(n, *shape)
        at += 4 * count
        for i in range(n):
            weights[f"h.{i}.{name}" if stacked else name] = values[i]

    take("wte.weight", vocab, dim, stacked=False)
    take("ln1.weight", dim)
    take("attn.q.weight", dim, dim)
    take("attn.k.weight", kv, dim)
    take("attn.v.weight", kv, dim)
    take("attn.o.weight", dim, dim)
    take("ln2.weight", dim)
    take("mlp.gate.weight", hidden, dim)
    take("mlp.down.weight", dim, hidden)
    take("mlp.up.weight", hidden, dim)
    take("ln_f.weight", dim, stacked=False)
    return weights, {"layers": layers, "heads": heads, "kv_heads": kv_heads, "head_dim": dim // heads, "norm": "rms", "norm_eps": 1e-5,
                     "position": "rope", "rope_theta": 10000.0, "rope_pairs": "adjacent", "activation": "silu", "context": context}


class Model:
    """Computes the tokens of `batch` sequences position by position, with a cache of keys and values."""

    def __init__(self, weights, config, batch=1):
        self.w, self.c, self.batch = weights, config, batch
        self.position = 0
        self.cache = [([], []) for _ in range(config["layers"])]

    def linear(self, x, name):
        y = x @ self.w[f"{name}.weight"].T
        bias = self.w.get(f"{name}.bias")
        return y if bias is None else y + bias

    def norm(self, x, name):
        if self.c["norm"] == "layer":
            x = x - x.mean(-1, keepdims=True)
        y = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + self.c["norm_eps"]) * self.w[f"{name}.weight"]
        bias = self.w.get(f"{name}.bias")
        return y if bias is None else y + bias

    def rotate(self, x):
        """x: [batch, heads, head_dim] at the current position."""
        half = x.shape[-1] // 2
        angle = self.position * self.c["rope_theta"] ** (-np.arange(half) / half)
        cos, sin = np.cos(angle), np.sin(angle)
        y = np.empty_like(x)
        adjacent = self.c["rope_pairs"] == "adjacent"
        first, second = (slice(0, None, 2), slice(1, None, 2)) if adjacent else (slice(0, half), slice(half, None))
        a, b = x[..., first], x[..., second]
        y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
        return y

    def attention(self, x, n):
        c = self.c

        def heads(name, count):
            return self.linear(x, f"h.{n}.attn.{name}").reshape(self.batch, count, c["head_dim"])

        q, k, v = heads("q", c["heads"]), heads("k", c["kv_heads"]), heads("v", c["kv_heads"])
        if c["position"] == "rope":
            q, k = self.rotate(q), self.rotate(k)
        keys, values = self.cache[n]
        keys.append(k)
        values.append(v)
        group = c["heads"] // c["kv_heads"]
        ks = np.repeat(np.stack(keys, 1), group, axis=2)  # [batch, positions, heads, head_dim]
        vs = np.repeat(np.stack(values, 1), group, axis=2)
        scores = np.einsum("bhd,bphd->bhp", q, ks) / math.sqrt(c["head_dim"])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("bhp,bphd->bhd", weights, vs).reshape(self.batch, -1)
        return self.linear(mixed, f"h.{n}.attn.o")

    def activate(self, x):
        if self.c["activation"] == "silu":
            return x / (1 + np.exp(-x))
        if self.c["activation"] == "relu":
            return np.maximum(x, 0)
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))

    def mlp(self, x, n):
        up = self.linear(x, f"h.{n}.mlp.up")
        if f"h.{n}.mlp.gate.weight" in self.w:
            return self.linear(self.activate(self.linear(x, f"h.{n}.mlp.gate")) * up, f"h.{n}.mlp.down")
        return self.linear(self.activate(up), f"h.{n}.mlp.down")

    def feed(self, tokens):
        """tokens: [batch] ids. Returns logits, [batch, vocab]."""
        x = self.w["wte.weight"][np.asarray(tokens)]
        if self.c["position"] == "learned":
            x = x + self.w["wpe.weight"][self.position]
        for n in range(self.c["layers"]):
            x = x + self.attention(self.norm(x, f"h.{n}.ln1"), n)
            x = x + self.mlp(self.norm(x, f"h.{n}.ln2"), n)
        x = self.norm(x, "ln_f")
        self.position += 1
        if "lm_head.weight" in self.w:
            return self.linear(x, "lm_head")
        y = x @ self.w["wte.weight"].T
        return y + self.w["lm_head.bias"] if "lm_head.bias" in self.w else y


def greedy(weights, config, prompt, count):
    """Returns (tokens after the prompt, logits of every position from the last of the prompt on, smallest lead of a chosen token)."""
    model = Model(weights, config)
    for token in prompt[:-1]:
        model.feed([token])
    ids, all_logits, lead = [], [], math.inf
    token = prompt[-1]
    for _ in range(count):
        logits = model.feed([token])[0]
        token = int(np.argmax(logits))
        best, next_best = np.sort(logits)[:-3:-1]
        lead = min(lead, best - next_best)
        ids.append(token)
        all_logits.append(logits)
    return ids, all_logits, lead
