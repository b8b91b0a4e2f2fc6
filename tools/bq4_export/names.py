"""Names and shapes: what checkpoints of several families call the tensors of docs/FORMAT.md, and what
configuration they imply."""

import json
import os
import re

from .errors import ExportError

DEFAULTS = {"norm": "rms", "norm_eps": 1e-5, "position": "rope", "rope_theta": 10000.0, "rope_pairs": "half",
            "activation": "silu", "gated": 1, "tied": 0}
BULLET = {"norm": "layer", "position": "learned", "activation": "gelu", "gated": 1}
NEEDED = ("arch", "layers", "hidden", "heads", "ffn", "vocab", "context")

CANONICAL = re.compile(r"(wte|wpe|ln_f|lm_head|h\.\d+\.(ln[12]|attn\.[qkvo]|mlp\.(gate|up|down)))\.(weight|bias)")

# Per family: what a layer's prefix looks like, its modules, the rest. Matched after prefixes of wrappers are gone.
HF = {
    "layer": r"(?:model\.)?layers\.(\d+)\.(.+)",
    "modules": {"input_layernorm": "ln1", "self_attn.q_proj": "attn.q", "self_attn.k_proj": "attn.k",
                "self_attn.v_proj": "attn.v", "self_attn.o_proj": "attn.o", "post_attention_layernorm": "ln2",
                "mlp.gate_proj": "mlp.gate", "mlp.up_proj": "mlp.up", "mlp.down_proj": "mlp.down"},
    "rest": {"model.embed_tokens": "wte", "embed_tokens": "wte", "model.norm": "ln_f", "norm": "ln_f", "lm_head": "lm_head"},
    "implies": {"rope_pairs": "half"},
}
LLAMA2C = {
    "layer": r"layers\.(\d+)\.(.+)",
    "modules": {"attention_norm": "ln1", "attention.wq": "attn.q", "attention.wk": "attn.k", "attention.wv": "attn.v",
                "attention.wo": "attn.o", "ffn_norm": "ln2", "feed_forward.w1": "mlp.gate", "feed_forward.w3": "mlp.up",
                "feed_forward.w2": "mlp.down"},
    "rest": {"tok_embeddings": "wte", "norm": "ln_f", "output": "lm_head"},
    "implies": {"rope_pairs": "adjacent"},
}
# Its GELU is the exact one; ours is the tanh form, which differs by less than 1e-3.
NANOGPT = {
    "layer": r"(?:transformer\.)?h\.(\d+)\.(.+)",
    "modules": {"ln_1": "ln1", "attn.c_attn": "attn.qkv", "attn.c_proj": "attn.o", "ln_2": "ln2", "mlp.c_fc": "mlp.up",
                "mlp.c_proj": "mlp.down"},
    "rest": {"transformer.wte": "wte", "transformer.wpe": "wpe", "transformer.ln_f": "ln_f", "lm_head": "lm_head"},
    "implies": {"norm": "layer", "position": "learned", "activation": "gelu", "gated": 0},
}
# Tables that are computed, not learned.
BUFFER = re.compile(r"(^|\.)(rotary_emb\.inv_freq|freqs_cos|freqs_sin|rope\.freqs|attn\.(masked_)?bias)$")
WRAPPERS = ("_orig_mod.", "module.")


def strip(name):
    for wrapper in WRAPPERS:
        name = name.removeprefix(wrapper)
    return name


def family_of(names):
    if all(CANONICAL.fullmatch(n) for n in names):
        return None
    if any("tok_embeddings" in n for n in names):
        return LLAMA2C
    if any("embed_tokens" in n for n in names):
        return HF
    if any(re.search(r"(^|\.)h\.\d+\.ln_1\.", n) for n in names):
        return NANOGPT
    raise ExportError("UNSUPPORTED", f'the tensors are called "{sorted(names)[0]}" and the like, which no known family does',
                      "known are Hugging Face's LLaMA, llama2.c, nanoGPT and the names of docs/FORMAT.md; --list shows what is there")


def canonical(name, family):
    if family is None:
        return name
    stem, _, part = name.rpartition(".")
    if part in ("weight", "bias"):
        if stem in family["rest"]:
            return f'{family["rest"][stem]}.{part}'
        match = re.fullmatch(family["layer"], stem)
        if match and match[2] in family["modules"]:
            return f'h.{match[1]}.{family["modules"][match[2]]}.{part}'
    raise ExportError("UNSUPPORTED", f'tensor "{name}" has no place in a .bq4 file', "it would be ignored: is this a model of another family?")


class Rows:
    """Rows [first, first + count) of a tensor: how a fused matrix is taken apart."""

    def __init__(self, tensor, first, count):
        self.tensor, self.first = tensor, first
        self.shape = (count, *tensor.shape[1:])

    def rows(self, first=0, last=None):
        last = self.shape[0] if last is None else min(last, self.shape[0])
        return self.tensor.rows(self.first + first, self.first + last)


def rename(state):
    """state: name -> tensor. Returns (canonical name -> tensor, what the family implies for the configuration)."""
    state = {strip(name): tensor for name, tensor in state.items()}
    buffers = {name: t for name, t in state.items() if BUFFER.search(name)}
    state = {name: t for name, t in state.items() if name not in buffers}
    if not state:
        raise ExportError("FORMAT", "the checkpoint holds no tensors", "--list shows what is there, --key NAME takes a part")
    family = family_of(state)
    out = {}
    for name, tensor in state.items():
        new = canonical(name, family)
        if ".attn.qkv." not in new:
            out[new] = tensor
            continue
        third = tensor.shape[0] // 3
        for i, part in enumerate("qkv"):
            out[new.replace("qkv", part)] = Rows(tensor, i * third, third)
    implied = dict(family["implies"]) if family else {}
    for name, table in buffers.items():
        if name.endswith("freqs_cos") and len(table.shape) == 2:
            implied.update(context=table.shape[0], head_dim=2 * table.shape[1])
        elif name.endswith("inv_freq") and len(table.shape) == 1:
            implied["head_dim"] = 2 * table.shape[0]
    return out, implied


def from_arguments(args):
    """Configuration from the arguments that training scripts store: llama2.c's or nanoGPT's model_args."""
    names = {"dim": "hidden", "n_embd": "hidden", "n_layers": "layers", "n_layer": "layers", "n_heads": "heads", "n_head": "heads",
             "n_kv_heads": "kv_heads", "max_seq_len": "context", "block_size": "context", "norm_eps": "norm_eps"}
    return {ours: args[theirs] for theirs, ours in names.items() if isinstance(args.get(theirs), (int, float))}


def from_json(path):
    """config.json of Hugging Face (model_type "llama"), or our own keys."""
    try:
        with open(path, encoding="utf8") as file:
            c = json.load(file)
    except (OSError, ValueError) as error:
        raise ExportError("READ", f"{path} can't be read: {error}", "pass a JSON file") from error
    if "hidden_size" not in c:
        return {k: v for k, v in c.get("config", c).items() if k in {*NEEDED, *DEFAULTS, "kv_heads", "head_dim", "rope_dim"}}
    if c.get("model_type") != "llama":
        raise ExportError("UNSUPPORTED", f'config.json says model_type "{c.get("model_type")}"', 'only "llama" is mapped')
    rope = c.get("rope_scaling") or c.get("rope_parameters") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise ExportError("UNSUPPORTED", f'positions are scaled the "{kind}" way', "only plain RoPE is computed so far")
    activation = {"silu": "silu", "gelu_pytorch_tanh": "gelu", "gelu_new": "gelu", "relu": "relu"}.get(c.get("hidden_act", "silu"))
    if activation is None:
        raise ExportError("UNSUPPORTED", f'the activation is "{c["hidden_act"]}"')
    heads = c["num_attention_heads"]
    theta = c.get("rope_theta") or (c.get("rope_parameters") or {}).get("rope_theta", 10000.0)
    return {"arch": "llama", "layers": c["num_hidden_layers"], "hidden": c["hidden_size"], "heads": heads,
            "kv_heads": c.get("num_key_value_heads") or heads, "head_dim": c.get("head_dim") or c["hidden_size"] // heads,
            "ffn": c["intermediate_size"], "vocab": c["vocab_size"], "context": c.get("max_position_embeddings", 2048),
            "norm_eps": c.get("rms_norm_eps", 1e-6), "rope_theta": theta, "activation": activation,
            "tied": int(c.get("tie_word_embeddings", False))}


def complete(tensors, *sources):
    """The whole configuration: later sources win over earlier ones, shapes fill what none says. FORMAT."""
    config = {k: v for source in sources for k, v in source.items() if v is not None}
    wte = tensors.get("wte.weight")
    up = tensors.get("h.0.mlp.up.weight")
    if wte is None or up is None or len(wte.shape) != 2 or len(up.shape) != 2:
        raise ExportError("SHAPE", "the checkpoint lacks wte.weight or h.0.mlp.up.weight", "--list shows what is there")
    given = set(config)
    config.setdefault("arch", "bullet" if config.get("position") == "learned" else "llama")
    base = {**DEFAULTS, **(BULLET if config["arch"] in ("bullet", 2) else {})}
    config = {**base, **config}
    config.setdefault("vocab", wte.shape[0])
    config.setdefault("hidden", wte.shape[1])
    config.setdefault("ffn", up.shape[0])
    config.setdefault("layers", 1 + max(int(n.split(".")[1]) for n in tensors if n.startswith("h.")))
    if "wpe.weight" in tensors:
        config.setdefault("context", tensors["wpe.weight"].shape[0])
    if "head_dim" in config:
        config.setdefault("heads", tensors["h.0.attn.q.weight"].shape[0] // config["head_dim"])
    missing = [k for k in NEEDED if k not in config]
    if missing:
        raise ExportError("FORMAT", f"the checkpoint doesn't tell {', '.join(missing)}", "pass --config FILE with what is missing")
    config.setdefault("head_dim", config["hidden"] // config["heads"])
    config.setdefault("kv_heads", tensors["h.0.attn.k.weight"].shape[0] // config["head_dim"] if "h.0.attn.k.weight" in tensors else config["heads"])
    config.setdefault("rope_dim", config["head_dim"])
    if "tied" not in given:
        head = tensors.get("lm_head.weight")
        config["tied"] = int(head is None or same_storage(head, wte))
    if "gated" not in given:
        config["gated"] = int("h.0.mlp.gate.weight" in tensors)
    return config


def same_storage(a, b):
    """Whether two tensors of a checkpoint are one: tied weights are stored once."""
    return getattr(a, "storage", None) is not None and getattr(a, "storage", None) is getattr(b, "storage", None)


def table(c):
    """[(name, dims, required, embedding)] in execution order."""
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
    """[(name, dims, embedding, tensor)] in execution order. SHAPE."""
    rows = table(config)
    if config["tied"]:
        tensors = {n: t for n, t in tensors.items() if n != "lm_head.weight"}
    for name in tensors:
        if name not in {row[0] for row in rows}:
            raise ExportError("SHAPE", f'tensor "{name}" has no counterpart in this configuration', "is the configuration of another model?")
    out = []
    for name, dims, required, embedding in rows:
        tensor = tensors.get(name)
        if tensor is None:
            if required:
                raise ExportError("SHAPE", f'tensor "{name}" is missing')
            continue
        if tuple(tensor.shape) != dims:
            raise ExportError("SHAPE", f'tensor "{name}" is {tuple(tensor.shape)}, not {dims} as the configuration says')
        out.append((name, dims, embedding, tensor))
    return out


def config_beside(path):
    """config.json in the checkpoint's folder, where there is one."""
    beside = os.path.join(os.path.dirname(path), "config.json")
    return beside if os.path.exists(beside) else None
