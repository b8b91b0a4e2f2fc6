"""Names and shapes: the names of the tensors of docs/FORMAT.md in checkpoints of several families, and the
configuration that follows from a family."""

import json
import os
import re

from .errors import ExportError

DEFAULTS = {"norm": "rms", "norm_eps": 1e-5, "position": "rope", "rope_theta": 10000.0, "rope_pairs": "half",
            "activation": "silu", "gated": 1, "tied": 0}
BULLET = {"norm": "layer", "position": "learned", "activation": "gelu", "gated": 1}
REQUIRED = ("arch", "layers", "hidden", "heads", "ffn", "vocab", "context")

CANONICAL = re.compile(r"(wte|wpe|ln_f|lm_head|h\.\d+\.(ln[12]|attn\.[qkvo]|mlp\.(gate|up|down)))\.(weight|bias)")

# For each family: pattern of the names of a layer, modules of a layer, other names, and the configuration that follows. Prefixes of
# wrappers are removed before.
HF = {
    "layer": r"(?:model\.)?layers\.(\d+)\.(.+)",
    "modules": {"input_layernorm": "ln1", "self_attn.q_proj": "attn.q", "self_attn.k_proj": "attn.k",
                "self_attn.v_proj": "attn.v", "self_attn.o_proj": "attn.o", "post_attention_layernorm": "ln2",
                "mlp.gate_proj": "mlp.gate", "mlp.up_proj": "mlp.up", "mlp.down_proj": "mlp.down"},
    "others": {"model.embed_tokens": "wte", "embed_tokens": "wte", "model.norm": "ln_f", "norm": "ln_f", "lm_head": "lm_head"},
    "config": {"rope_pairs": "half"},
}
LLAMA2C = {
    "layer": r"layers\.(\d+)\.(.+)",
    "modules": {"attention_norm": "ln1", "attention.wq": "attn.q", "attention.wk": "attn.k", "attention.wv": "attn.v",
                "attention.wo": "attn.o", "ffn_norm": "ln2", "feed_forward.w1": "mlp.gate", "feed_forward.w3": "mlp.up",
                "feed_forward.w2": "mlp.down"},
    "others": {"tok_embeddings": "wte", "norm": "ln_f", "output": "lm_head"},
    "config": {"rope_pairs": "adjacent"},
}
# nanoGPT uses the exact GELU. The engine computes the tanh form, which differs by less than 1e-3.
NANOGPT = {
    "layer": r"(?:transformer\.)?h\.(\d+)\.(.+)",
    "modules": {"ln_1": "ln1", "attn.c_attn": "attn.qkv", "attn.c_proj": "attn.o", "ln_2": "ln2", "mlp.c_fc": "mlp.up",
                "mlp.c_proj": "mlp.down"},
    "others": {"transformer.wte": "wte", "transformer.wpe": "wpe", "transformer.ln_f": "ln_f", "lm_head": "lm_head"},
    "config": {"norm": "layer", "position": "learned", "activation": "gelu", "gated": 0},
}
# Tables that are computed from the configuration.
BUFFER = re.compile(r"(^|\.)(rotary_emb\.inv_freq|freqs_cos|freqs_sin|rope\.freqs|attn\.(masked_)?bias)$")
WRAPPERS = ("_orig_mod.", "module.")


def strip_wrappers(name):
    """Removes the prefixes of wrappers from a name."""
    for wrapper in WRAPPERS:
        name = name.removeprefix(wrapper)
    return name


def family_of(names):
    """Returns the family with these names, or None for canonical names. Raises UNSUPPORTED."""
    if all(CANONICAL.fullmatch(n) for n in names):
        return None
    if any("tok_embeddings" in n for n in names):
        return LLAMA2C
    if any("embed_tokens" in n for n in names):
        return HF
    if any(re.search(r"(^|\.)h\.\d+\.ln_1\.", n) for n in names):
        return NANOGPT
    raise ExportError("UNSUPPORTED", f'expected names of tensors of a known family, found "{sorted(names)[0]}"',
                      "families: LLaMA of Hugging Face, llama2.c, nanoGPT, names of docs/FORMAT.md; --list prints the names")


def canonical_name(name, family):
    """Returns the name in docs/FORMAT.md. Raises UNSUPPORTED."""
    if family is None:
        return name
    stem, _, part = name.rpartition(".")
    if part in ("weight", "bias"):
        if stem in family["others"]:
            return f'{family["others"][stem]}.{part}'
        match = re.fullmatch(family["layer"], stem)
        if match and match[2] in family["modules"]:
            return f'h.{match[1]}.{family["modules"][match[2]]}.{part}'
    raise ExportError("UNSUPPORTED", f'expected tensors of docs/FORMAT.md, found "{name}"', "check the family of the model: without this tensor its results would differ")


class Rows:
    """Rows [first, first + count) of a tensor, for dividing fused matrices."""

    def __init__(self, tensor, first, count):
        self.tensor, self.first = tensor, first
        self.shape = (count, *tensor.shape[1:])

    def rows(self, first=0, last=None):
        """Returns the values of rows [first, last)."""
        last = self.shape[0] if last is None else min(last, self.shape[0])
        return self.tensor.rows(self.first + first, self.first + last)


def rename(state):
    """Returns the tensors of `state` by canonical name, and the configuration that follows from the family."""
    state = {strip_wrappers(name): tensor for name, tensor in state.items()}
    buffers = {name: t for name, t in state.items() if BUFFER.search(name)}
    state = {name: t for name, t in state.items() if name not in buffers}
    if not state:
        raise ExportError("FORMAT", "expected tensors in the checkpoint, found none", "--list prints its content, --key NAME selects a part")
    family = family_of(state)
    out = {}
    for name, tensor in state.items():
        new = canonical_name(name, family)
        if ".attn.qkv." not in new:
            out[new] = tensor
            continue
        third = tensor.shape[0] // 3
        for i, part in enumerate("qkv"):
            out[new.replace("qkv", part)] = Rows(tensor, i * third, third)
    config = dict(family["config"]) if family else {}
    for name, table in buffers.items():
        if name.endswith("freqs_cos") and len(table.shape) == 2:
            config.update(context=table.shape[0], head_dim=2 * table.shape[1])
        elif name.endswith("inv_freq") and len(table.shape) == 1:
            config["head_dim"] = 2 * table.shape[0]
    return out, config


def from_arguments(args):
    """Returns the configuration of the arguments that training scripts store: model_args of llama2.c or nanoGPT."""
    names = {"dim": "hidden", "n_embd": "hidden", "n_layers": "layers", "n_layer": "layers", "n_heads": "heads", "n_head": "heads",
             "n_kv_heads": "kv_heads", "max_seq_len": "context", "block_size": "context", "norm_eps": "norm_eps"}
    return {key: args[name] for name, key in names.items() if isinstance(args.get(name), (int, float))}


def from_json(path):
    """Reads config.json of Hugging Face (model_type "llama"), or a JSON file with the keys of docs/FORMAT.md."""
    try:
        with open(path, encoding="utf8") as file:
            c = json.load(file)
    except (OSError, ValueError) as error:
        raise ExportError("READ", f"{path} can't be read: {error}", "use a JSON file") from error
    if "hidden_size" not in c:
        return {k: v for k, v in c.get("config", c).items() if k in {*REQUIRED, *DEFAULTS, "kv_heads", "head_dim", "rope_dim"}}
    if c.get("model_type") != "llama":
        raise ExportError("UNSUPPORTED", f'config.json: expected the model_type "llama", found "{c.get("model_type")}"', 'convert it with `bq4 convert`')
    rope = c.get("rope_scaling") or c.get("rope_parameters") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise ExportError("UNSUPPORTED", f'config.json: expected RoPE of the type "default", found "{kind}"', 'convert it with `bq4 convert`')
    activation = {"silu": "silu", "gelu_pytorch_tanh": "gelu", "gelu_new": "gelu", "relu": "relu"}.get(c.get("hidden_act", "silu"))
    if activation is None:
        raise ExportError("UNSUPPORTED", f'config.json: expected hidden_act silu, gelu_pytorch_tanh, gelu_new or relu, found "{c["hidden_act"]}"')
    heads = c["num_attention_heads"]
    theta = c.get("rope_theta") or (c.get("rope_parameters") or {}).get("rope_theta", 10000.0)
    return {"arch": "llama", "layers": c["num_hidden_layers"], "hidden": c["hidden_size"], "heads": heads,
            "kv_heads": c.get("num_key_value_heads") or heads, "head_dim": c.get("head_dim") or c["hidden_size"] // heads,
            "ffn": c["intermediate_size"], "vocab": c["vocab_size"], "context": c.get("max_position_embeddings", 2048),
            "norm_eps": c.get("rms_norm_eps", 1e-6), "rope_theta": theta, "activation": activation,
            "tied": int(c.get("tie_word_embeddings", False))}


def complete(tensors, *sources):
    """Returns the complete configuration. Later sources have precedence; missing values follow from shapes. Raises FORMAT, SHAPE."""
    config = {k: v for source in sources for k, v in source.items() if v is not None}
    wte = tensors.get("wte.weight")
    up = tensors.get("h.0.mlp.up.weight")
    if wte is None or up is None or len(wte.shape) != 2 or len(up.shape) != 2:
        raise ExportError("SHAPE", "expected wte.weight and h.0.mlp.up.weight in the checkpoint, found only one or none of them", "--list prints the names")
    known_keys = set(config)
    config.setdefault("arch", "bullet" if config.get("position") == "learned" else "llama")
    defaults = {**DEFAULTS, **(BULLET if config["arch"] in ("bullet", 2) else {})}
    config = {**defaults, **config}
    config.setdefault("vocab", wte.shape[0])
    config.setdefault("hidden", wte.shape[1])
    config.setdefault("ffn", up.shape[0])
    config.setdefault("layers", 1 + max(int(n.split(".")[1]) for n in tensors if n.startswith("h.")))
    if "wpe.weight" in tensors:
        config.setdefault("context", tensors["wpe.weight"].shape[0])
    if "head_dim" in config:
        config.setdefault("heads", tensors["h.0.attn.q.weight"].shape[0] // config["head_dim"])
    missing = [k for k in REQUIRED if k not in config]
    if missing:
        raise ExportError("FORMAT", f"expected {', '.join(missing)} in the checkpoint, found none", "add them to a file and use --config FILE")
    config.setdefault("head_dim", config["hidden"] // config["heads"])
    config.setdefault("kv_heads", tensors["h.0.attn.k.weight"].shape[0] // config["head_dim"] if "h.0.attn.k.weight" in tensors else config["heads"])
    config.setdefault("rope_dim", config["head_dim"])
    if "tied" not in known_keys:
        head = tensors.get("lm_head.weight")
        config["tied"] = int(head is None or same_storage(head, wte))
    if "gated" not in known_keys:
        config["gated"] = int("h.0.mlp.gate.weight" in tensors)
    return config


def same_storage(a, b):
    """Whether two tensors have the same storage, as tied weights have."""
    return getattr(a, "storage", None) is not None and getattr(a, "storage", None) is getattr(b, "storage", None)


def tensor_table(c):
    """Returns [(name, dims, required, embedding)] in execution order."""
    layer_norm = c["norm"] in ("layer", 1)
    q, kv = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    out = [("wte.weight", (c["vocab"], c["hidden"]), True, True)]
    if c["position"] in ("learned", 1):
        out.append(("wpe.weight", (c["context"], c["hidden"]), True, True))

    def norm(name):
        out.append((f"{name}.weight", (c["hidden"],), True, False))
        if layer_norm:
            out.append((f"{name}.bias", (c["hidden"],), False, False))

    def linear(name, rows, cols):
        out.append((f"{name}.weight", (rows, cols), True, False))
        out.append((f"{name}.bias", (rows,), False, False))

    for n in range(c["layers"]):
        norm(f"h.{n}.ln1")
        linear(f"h.{n}.attn.q", q, c["hidden"])
        linear(f"h.{n}.attn.k", kv, c["hidden"])
        linear(f"h.{n}.attn.v", kv, c["hidden"])
        linear(f"h.{n}.attn.o", c["hidden"], q)
        norm(f"h.{n}.ln2")
        if c["gated"]:
            linear(f"h.{n}.mlp.gate", c["ffn"], c["hidden"])
        linear(f"h.{n}.mlp.up", c["ffn"], c["hidden"])
        linear(f"h.{n}.mlp.down", c["hidden"], c["ffn"])
    norm("ln_f")
    if not c["tied"]:
        out.append(("lm_head.weight", (c["vocab"], c["hidden"]), True, True))
    out.append(("lm_head.bias", (c["vocab"],), False, True))
    return out


def match(config, tensors):
    """Returns [(name, dims, embedding, tensor)] in execution order. Raises SHAPE."""
    rows = tensor_table(config)
    if config["tied"]:
        tensors = {n: t for n, t in tensors.items() if n != "lm_head.weight"}
    for name in tensors:
        if name not in {row[0] for row in rows}:
            raise ExportError("SHAPE", f'expected only tensors of the configuration, found "{name}"', "check that the configuration belongs to this model")
    out = []
    for name, dims, required, embedding in rows:
        tensor = tensors.get(name)
        if tensor is None:
            if required:
                raise ExportError("SHAPE", f'tensor "{name}" is missing')
            continue
        if tuple(tensor.shape) != dims:
            raise ExportError("SHAPE", f'tensor "{name}": expected the shape {dims} of the configuration, found {tuple(tensor.shape)}')
        out.append((name, dims, embedding, tensor))
    return out


def config_in_folder(path):
    """Returns the path of config.json in the checkpoint's folder, or None."""
    config_path = os.path.join(os.path.dirname(path), "config.json")
    return config_path if os.path.exists(config_path) else None
