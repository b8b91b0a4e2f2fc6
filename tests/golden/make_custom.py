"""Custom models, which belong to no family: each combination of norm, positions and activation, described by config.json.

    python tests/golden/make_custom.py

Writes tests/golden/fixtures/custom-NORM-POSITION-ACTIVATION, like make_fixtures.py. This file implements the model in PyTorch;
another norm, other positions or another activation must change a logit by 100 times the tolerance of the tests.
"""

import itertools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from make_fixtures import TOLERANCE, randomize, save

SIZES = dict(layers=1, hidden=24, heads=3, kv_heads=1, head_dim=8, ffn=32, vocab=40, context=24)
POSITIONS = 16
NORMS = ("rms", "layer")
PLACES = ("learned", "rope", "alibi")
ACTIVATIONS = {"gelu": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "relu": F.relu}


class Norm(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.weight = kind, nn.Parameter(torch.ones(SIZES["hidden"]))
        self.bias = nn.Parameter(torch.zeros(SIZES["hidden"])) if kind == "layer" else None

    def forward(self, x):
        if self.kind == "layer":
            return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, 1e-5)
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * self.weight + (0 if self.bias is None else self.bias)


def rotate(x):
    """Rotates pairs of x[heads][tokens][d]: element i and element i + d / 2."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[1]).double()[:, None] * 10000.0 ** (-torch.arange(half).double() / half)
    a, b, cos, sin = x[..., :half], x[..., half:], angles.cos().float(), angles.sin().float()
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def slopes(heads):
    """The slopes of the ALiBi paper. If the number of heads is no power of two, every second slope of twice as many heads is added."""
    n = 2 ** int(math.log2(heads))
    return [2 ** (-8 * (h + 1) / n) for h in range(n)] + [2 ** (-4 * (2 * g + 1) / n) for g in range(heads - n)]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        wide, narrow = SIZES["heads"] * SIZES["head_dim"], SIZES["kv_heads"] * SIZES["head_dim"]
        self.q, self.k, self.v, self.o = (nn.Linear(SIZES["hidden"], n, bias=False) for n in (wide, narrow, narrow, SIZES["hidden"]))

    def forward(self, x, position):
        n, heads, dim = len(x), SIZES["heads"], SIZES["head_dim"]
        q, k, v = (f(x).view(n, -1, dim).transpose(0, 1) for f in (self.q, self.k, self.v))
        if position == "rope":
            q, k = rotate(q), rotate(k)
        scores = q @ k.expand(heads, n, dim).transpose(1, 2) / math.sqrt(dim)
        if position == "alibi":
            distance = torch.arange(n)[:, None] - torch.arange(n)
            scores = scores - torch.tensor(slopes(heads))[:, None, None] * distance
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
        return self.o((scores.softmax(-1) @ v.expand(heads, n, dim)).transpose(0, 1).reshape(n, -1))


class MLP(nn.Module):
    def __init__(self, gated):
        super().__init__()
        self.gate = nn.Linear(SIZES["hidden"], SIZES["ffn"], bias=False) if gated else None
        self.up, self.down = nn.Linear(SIZES["hidden"], SIZES["ffn"]), nn.Linear(SIZES["ffn"], SIZES["hidden"])

    def forward(self, x, activation):
        act = ACTIVATIONS[activation]
        return self.down(act(self.gate(x)) * self.up(x) if self.gate else act(self.up(x)))


class Block(nn.Module):
    def __init__(self, norm, gated):
        super().__init__()
        self.ln1, self.ln2, self.attn, self.mlp = Norm(norm), Norm(norm), Attention(), MLP(gated)


class Custom(nn.Module):
    def __init__(self, norm, position, activation):
        super().__init__()
        self.position, self.activation = position, activation
        self.wte = nn.Embedding(SIZES["vocab"], SIZES["hidden"])
        self.wpe = nn.Embedding(SIZES["context"], SIZES["hidden"]) if position == "learned" else None
        self.h = nn.ModuleList(Block(norm, activation == "silu") for _ in range(SIZES["layers"]))
        self.ln_f = Norm(norm)

    def forward(self, ids):
        x = self.wte(ids) + (self.wpe(torch.arange(len(ids))) if self.position == "learned" else 0)
        for block in self.h:
            x = x + block.attn(block.ln1(x), self.position)
            x = x + block.mlp(block.ln2(x), self.activation)
        return self.ln_f(x) @ self.wte.weight.T


def measure_exchange(model, ids):
    """Returns the logits, and the smallest change of the largest change of a logit with another norm, other positions, another activation."""
    logits, (position, activation) = model(ids), (model.position, model.activation)
    moved = {}

    def measure(part):
        moved[part] = min(moved.get(part, math.inf), (model(ids) - logits).abs().max().item())
    norms = [m for m in model.modules() if isinstance(m, Norm)]
    kind = norms[0].kind
    for m in norms:
        m.kind = "rms" if kind == "layer" else "layer"
    measure("norm")
    for m in norms:
        m.kind = kind
    for model.position in {*PLACES[1:], "none"} - {position}:
        measure("position")
    model.position = position
    for model.activation in set(ACTIVATIONS) - {activation}:
        measure("activation")
    model.activation = activation
    return logits, {part: round(by, 3) for part, by in moved.items()}


def write_model(norm, position, activation, seed):
    name = f"custom-{norm}-{position}-{activation}"
    model = Custom(norm, position, activation).eval()
    randomize(model, torch.float16, seed)
    ids = torch.randint(SIZES["vocab"], (POSITIONS,), generator=torch.Generator().manual_seed(seed + 1))
    with torch.no_grad():
        logits, moved = measure_exchange(model, ids)
    unchanged = [part for part, by in moved.items() if by < 100 * TOLERANCE]
    assert not unchanged, f"{name} would not notice another {unchanged}"
    save(name, model, torch.float16, ids, logits, {"model_type": "bq4", "arch": "other", **SIZES, "norm": norm, "norm_eps": 1e-5, "position": position,
                                                   "activation": activation, "gated": activation == "silu", "tied": True}, moved)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for seed, (norm, position, activation) in enumerate(itertools.product(NORMS, PLACES, ACTIVATIONS), 1):
        write_model(norm, position, activation, 100000 + 100 * seed)
