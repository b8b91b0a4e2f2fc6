"""Small random checkpoints and their logits at every position, by transformers and PyTorch.

    python tests/golden/make_fixtures.py

Writes tests/golden/fixtures/NAME/{config.json, model.safetensors, expected.json}. LLaMA models are run by
transformers' own LlamaForCausalLM; the bullet block, which no library has, is written out below.
Needs torch, transformers and safetensors; the same versions on the same machine give the same files.
"""

import base64
import json
import math
import os
import platform
import re

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__, "numpy": np.__version__}

LLAMAS = {
    # Grouped queries, tied head, f16 storage.
    "llama-gqa": (torch.float16, 20, dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                          intermediate_size=64, tie_word_embeddings=True)),
    # All biases, a head of its own, one key-value head per query head, bf16 storage.
    "llama-biases": (torch.bfloat16, 20, dict(vocab_size=72, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
                                              intermediate_size=48, tie_word_embeddings=False, attention_bias=True, mlp_bias=True)),
    # No size is a multiple of 8; heads are wider than hidden / heads; one key-value head; other RoPE base and epsilon.
    "llama-odd": (torch.float32, 24, dict(vocab_size=67, hidden_size=36, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1,
                                          head_dim=14, intermediate_size=50, tie_word_embeddings=False, rms_norm_eps=1e-6,
                                          rope_parameters={"rope_type": "default", "rope_theta": 500000.0})),
}

BULLETS = {
    # All biases and an untied head.
    "bullet": (torch.float32, 24, dict(vocab=80, hidden=32, heads=4, ffn=48, layers=2, context=24, tied=False), dict(attention=True, head=True)),
    # The tied one, odd sizes, biases in the MLP only.
    "bullet-tied": (torch.float16, 18, dict(vocab=69, hidden=30, heads=3, ffn=44, layers=2, context=32, tied=True), dict(attention=False, head=False)),
}


class BulletAttention(nn.Module):
    def __init__(self, hidden, heads, bias):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden, bias=bias) for _ in range(4))

    def forward(self, x):
        n, hidden = x.shape
        q, k, v = (f(x).view(n, self.heads, hidden // self.heads).transpose(0, 1) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(1, 2) / math.sqrt(hidden // self.heads)
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
        return self.o((scores.softmax(-1) @ v).transpose(0, 1).reshape(n, hidden))


class BulletMLP(nn.Module):
    def __init__(self, hidden, ffn):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(hidden, ffn), nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)

    def forward(self, x):
        return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))


class BulletBlock(nn.Module):
    def __init__(self, hidden, heads, ffn, bias):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(hidden, eps=1e-5), nn.LayerNorm(hidden, eps=1e-5)
        self.attn, self.mlp = BulletAttention(hidden, heads, bias), BulletMLP(hidden, ffn)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Bullet(nn.Module):
    """LayerNorm before each block, learned positions, gated GELU (tanh), a last LayerNorm. Names as in docs/FORMAT.md."""

    def __init__(self, vocab, hidden, heads, ffn, layers, context, tied, attention, head):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(context, hidden)
        self.h = nn.ModuleList(BulletBlock(hidden, heads, ffn, attention) for _ in range(layers))
        self.ln_f = nn.LayerNorm(hidden, eps=1e-5)
        self.lm_head = None if tied else nn.Linear(hidden, vocab, bias=head)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(len(ids)))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        return x @ self.wte.weight.T if self.lm_head is None else self.lm_head(x)


def randomize(model, dtype, seed):
    """Weights that make lively logits, and that `dtype` holds exactly."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if p.ndim == 2:
                p.copy_(noise * (0.7 if "embed" in name or name.startswith("w") else 1.2 / math.sqrt(p.shape[1])))
            else:
                is_norm = "ln" in name or "norm" in name
                p.copy_(1 + 0.2 * noise if is_norm and name.endswith("weight") else 0.2 * noise)
            p.copy_(p.to(dtype).float())


def save(name, model, dtype, ids, logits, config):
    folder = f"{HERE}/fixtures/{name}"
    os.makedirs(folder, exist_ok=True)
    tied = config.get("tie_word_embeddings") or config.get("tied")
    weights = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items() if not (tied and k == "lm_head.weight")}
    save_file(weights, f"{folder}/model.safetensors", metadata={"format": "pt"})
    values = logits.detach().numpy().astype("<f4")
    expected = {"ids": ids.tolist(), "positions": values.shape[0], "vocab": values.shape[1],
                "logits": base64.b64encode(values.tobytes()).decode(), "made_with": VERSIONS}
    for file, content in {"config.json": config, "expected.json": expected}.items():
        text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", json.dumps(content, indent=1))
        with open(f"{folder}/{file}", "w", encoding="utf8") as out:
            out.write(text + "\n")
    print(f"{name}: {sum(v.numel() for v in weights.values())} parameters, logits {values.min():.2f} … {values.max():.2f}")


def llama(name, dtype, positions, settings, seed):
    settings = {"max_position_embeddings": 64, "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2, **settings}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings, attn_implementation="eager")).eval()
    randomize(model, dtype, seed)
    ids = torch.randint(settings["vocab_size"], (positions,), generator=torch.Generator().manual_seed(seed + 1))
    with torch.no_grad():
        logits = model(ids[None], use_cache=False).logits[0].float()
    keep = {"architectures", "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
            "head_dim", "intermediate_size", "hidden_act", "max_position_embeddings", "rms_norm_eps", "attention_bias", "mlp_bias",
            "tie_word_embeddings", "rope_parameters", "bos_token_id", "eos_token_id"}
    config = {"architectures": ["LlamaForCausalLM"], **{k: v for k, v in model.config.to_dict().items() if k in keep and v is not None}}
    save(name, model, dtype, ids, logits, config)


def bullet(name, dtype, positions, settings, biases, seed):
    model = Bullet(**settings, **biases).eval()
    randomize(model, dtype, seed)
    ids = torch.randint(settings["vocab"], (positions,), generator=torch.Generator().manual_seed(seed + 1))
    with torch.no_grad():
        logits = model(ids)
    save(name, model, dtype, ids, logits, {"model_type": "bq4", "arch": "bullet", **settings, "norm": "layer", "norm_eps": 1e-5,
                                           "position": "learned", "activation": "gelu", "gated": True, "kv_heads": settings["heads"],
                                           "head_dim": settings["hidden"] // settings["heads"]})


if __name__ == "__main__":
    torch.set_num_threads(1)
    for seed, (name, spec) in enumerate({**LLAMAS, **BULLETS}.items(), 1):
        (llama if name in LLAMAS else bullet)(name, *spec, seed * 100)
