"""A language model of the LLaMA architecture in plain PyTorch.

It has RMSNorm before each block, rotary positions (RoPE) with pairs (i, i + head_dim/2),
grouped-query attention, SwiGLU, and one matrix for both embedding and LM head.
Parameters have the names of the Hugging Face layout, so a checkpoint is
`state_dict()` plus `config.json`, and `LlamaForCausalLM` can load it.
"""

import json
import os
from dataclasses import asdict, dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file


@dataclass
class Config:
    """Properties of the Hugging Face configuration."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0

    @property
    def head_dim(self):
        return self.hidden_size // self.num_attention_heads


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rope_tables(config, length):
    """Returns cos and sin, each [length, head_dim / 2]."""
    half = config.head_dim // 2
    frequency = config.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """Applies rotary positions to x [batch, heads, positions, head_dim]."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.q_proj = nn.Linear(c.hidden_size, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, c.hidden_size, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape

        def split(y, heads):
            return y.view(batch, length, heads, self.head_dim).transpose(1, 2)

        q = rotate(split(self.q_proj(x), self.heads), cos, sin)
        k = rotate(split(self.k_proj(x), self.kv_heads), cos, sin)
        v = split(self.v_proj(x), self.kv_heads)
        repeat = self.heads // self.kv_heads
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = MLP(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(config.vocab_size, config.hidden_size),
            "layers": nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers)),
            "norm": RMSNorm(config.hidden_size, config.rms_norm_eps),
        })
        cos, sin = rope_tables(config, config.max_position_embeddings)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        residual_std = 0.02 / (2 * config.num_hidden_layers) ** 0.5
        for name, p in self.named_parameters():
            if p.ndim == 2:
                writes_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(p, std=residual_std if writes_residual else 0.02)

    def forward(self, ids):
        """Returns the logits [batch, positions, vocab] of ids [batch, positions]."""
        x = self.model["embed_tokens"](ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for layer in self.model["layers"]:
            x = layer(x, cos, sin)
        return F.linear(self.model["norm"](x), self.model["embed_tokens"].weight)

    @torch.no_grad()
    def greedy(self, ids, limit, stop):
        """Returns the greedy continuation of `ids`, up to a token of `stop`, and whether such a token was generated.
        It computes the complete text again for each token."""
        ids, new = list(ids), []
        for _ in range(limit):
            window = ids[-self.config.max_position_embeddings:]
            best = int(self(torch.tensor([window]))[0, -1].argmax())
            if best in stop:
                return new, True
            ids.append(best)
            new.append(best)
        return new, False


def save_hf(model, folder, tokenizer_path, dtype, bos=0, eos=3):
    """Writes the Hugging Face layout. Files are replaced only when all of them are complete."""
    os.makedirs(folder, exist_ok=True)
    c = asdict(model.config)
    rope_theta = c.pop("rope_theta")
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", **c,
        "head_dim": model.config.head_dim, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
        "attention_dropout": 0.0, "initializer_range": 0.02, "tie_word_embeddings": True,
        "rope_theta": rope_theta, "rope_parameters": {"rope_theta": rope_theta, "rope_type": "default"},
        "bos_token_id": bos, "eos_token_id": eos, "pad_token_id": None, "use_cache": True,
        "dtype": str(dtype).replace("torch.", ""),
    }
    weights = {k: v.detach().to(dtype).contiguous() for k, v in model.state_dict().items()}
    save_file(weights, f"{folder}/model.safetensors.part", metadata={"format": "pt"})
    texts = {"config.json": config, "generation_config.json": {"bos_token_id": bos, "eos_token_id": eos, "do_sample": False}}
    with open(tokenizer_path, encoding="utf8") as f:
        texts["tokenizer.json"] = json.load(f)
    for name, value in texts.items():
        with open(f"{folder}/{name}.part", "w", encoding="utf8") as f:
            json.dump(value, f, indent=None if name == "tokenizer.json" else 2, ensure_ascii=False)
            f.write("\n")
    for name in ["model.safetensors", *texts]:
        os.replace(f"{folder}/{name}.part", f"{folder}/{name}")


def load_hf(folder):
    """Reads the files of `save_hf`. Weights are converted to float32."""
    with open(f"{folder}/config.json", encoding="utf8") as f:
        config = json.load(f)
    config.setdefault("rope_theta", config.get("rope_parameters", {}).get("rope_theta", 10000.0))
    model = Llama(Config(**{k: config[k] for k in Config.__dataclass_fields__}))
    weights = {k: v.float() for k, v in load_file(f"{folder}/model.safetensors").items()}
    model.load_state_dict(weights)
    return model.eval()
