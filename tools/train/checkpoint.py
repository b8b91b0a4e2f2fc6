"""Reads checkpoints from which training starts: a folder in Hugging Face layout, or a .bq4 file.

A larger model can start from a smaller one of the same width and heads. The additional layers and the
additional units of the feed-forward parts are initialized so that they add zero to the residual stream.
"""

import os
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from model import Config, load_hf

NAMES = {"ln1": "input_layernorm", "attn.q": "self_attn.q_proj", "attn.k": "self_attn.k_proj", "attn.v": "self_attn.v_proj",
         "attn.o": "self_attn.o_proj", "ln2": "post_attention_layernorm", "mlp.gate": "mlp.gate_proj", "mlp.up": "mlp.up_proj",
         "mlp.down": "mlp.down_proj"}
# Configuration that model.py computes; files with other values are refused.
REQUIRED_CONFIG = dict(arch=1, norm=0, position=0, rope_pairs=0, activation=0, gated=1, tied=1, block=0, norm_place=0, qk_norm=0,
             window=0, experts=0, rope_scale=0)


def read_file(path):
    """Reads a .bq4 file with the tests' reader, which needs only Python."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "py"))
    import bq4_reader
    return bq4_reader.read(path)


def hf_name(name):
    """Returns the name of a tensor in Hugging Face layout: h.0.attn.q.weight -> model.layers.0.self_attn.q_proj.weight"""
    if name == "wte.weight":
        return "model.embed_tokens.weight"
    if name == "ln_f.weight":
        return "model.norm.weight"
    _, layer, rest = name.split(".", 2)
    part = rest.removesuffix(".weight")
    if part not in NAMES:
        raise ValueError(f"expected a LLaMA without biases, found the tensor {name!r}")
    return f"model.layers.{layer}.{NAMES[part]}.weight"


def weights_of(path):
    """Returns (Config, {parameter: float32 tensor}) of a checkpoint."""
    if os.path.isdir(path):
        model = load_hf(path)
        return model.config, {k: v.detach() for k, v in model.state_dict().items()}
    file = read_file(path)
    c = file.config
    for key, value in REQUIRED_CONFIG.items():
        if c[key] != value:
            raise ValueError(f"{path}: expected a plain LLaMA, found {key} {c[key]}")
    config = Config(vocab_size=c["vocab"], hidden_size=c["hidden"], num_hidden_layers=c["layers"],
                    num_attention_heads=c["heads"], num_key_value_heads=c["kv_heads"], intermediate_size=c["ffn"],
                    max_position_embeddings=c["context"], rms_norm_eps=round(c["norm_eps"], 9), rope_theta=c["rope_theta"])
    return config, {hf_name(k): torch.tensor(v, dtype=torch.float32) for k, v in file.tensors.items()}


@torch.no_grad()
def start_from(model, path):
    """Copies the weights of a checkpoint into `model`, which must have the same width, heads and tokens. It can have more layers and
    wider feed-forward parts."""
    config, weights = weights_of(path)
    model_config = model.config
    for key in ("vocab_size", "hidden_size", "num_attention_heads", "num_key_value_heads"):
        if getattr(model_config, key) != getattr(config, key):
            raise ValueError(f"{path}: expected {key} {getattr(model_config, key)}, found {getattr(config, key)}: use the shape options of the checkpoint")
    for key in ("num_hidden_layers", "intermediate_size"):
        if getattr(model_config, key) < getattr(config, key):
            raise ValueError(f"{path}: expected {key} up to {getattr(model_config, key)}, found {getattr(config, key)}")
    if model_config.rope_theta != config.rope_theta:
        print(f"RoPE theta {model_config.rope_theta:g} instead of {config.rope_theta:g}: the model has to learn positions again")
    parameters = dict(model.named_parameters())
    unknown = set(weights) - set(parameters)
    if unknown:
        raise ValueError(f"{path}: expected parameters of a LLaMA, found {sorted(unknown)[:3]}")
    for name, p in parameters.items():
        writes_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
        if name not in weights:
            if writes_residual:
                p.zero_()
            continue
        w = weights[name]
        if writes_residual and w.shape != p.shape:
            p.zero_()
        p[tuple(slice(n) for n in w.shape)] = w
    return config


def tokenizer_of(path):
    """Returns the tokenizer of a checkpoint."""
    if os.path.isdir(path):
        return Tokenizer.from_file(os.path.join(path, "tokenizer.json"))
    stored = read_file(path).tokenizer
    if stored["kind"] != 2:
        raise ValueError(f"{path}: expected a byte-level BPE, found a tokenizer of kind {stored['kind']}")
    # Tokens of .bq4 files are bytes. In Hugging Face's file each byte is one letter, in GPT-2's order.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in printable)}
    special = [piece.decode() for piece, _, kind in stored["tokens"] if kind == 2]
    pieces = [piece.decode() if kind == 2 else "".join(letters[b] for b in piece) for piece, _, kind in stored["tokens"]]
    merges = [(pieces[a], pieces[b]) for a, b, _ in stored["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    return tokenizer
