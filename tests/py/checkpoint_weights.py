"""The weights of tests/py/checkpoints/, computed by a formula: canonical name -> f32 array."""

import numpy as np

LLAMA = {"arch": "llama", "layers": 2, "hidden": 8, "heads": 2, "kv_heads": 1, "head_dim": 4, "ffn": 12, "vocab": 20, "context": 24,
         "norm": "rms", "position": "rope", "gated": 1, "tied": 0}
GPT = {"arch": "llama", "layers": 1, "hidden": 12, "heads": 2, "kv_heads": 2, "head_dim": 6, "ffn": 20, "vocab": 18, "context": 10,
       "norm": "layer", "position": "learned", "gated": 0, "tied": 1}


def shapes(c):
    kv = c["kv_heads"] * c["head_dim"]
    layer = {"ln1": (c["hidden"],), "attn.q": (c["hidden"], c["hidden"]), "attn.k": (kv, c["hidden"]), "attn.v": (kv, c["hidden"]),
             "attn.o": (c["hidden"], c["hidden"]), "ln2": (c["hidden"],), "mlp.up": (c["ffn"], c["hidden"]), "mlp.down": (c["hidden"], c["ffn"])}
    if c["gated"]:
        layer["mlp.gate"] = (c["ffn"], c["hidden"])
    out = {"wte.weight": (c["vocab"], c["hidden"])}
    if c["position"] == "learned":
        out["wpe.weight"] = (c["context"], c["hidden"])
    biased = c["norm"] == "layer"
    for n in range(c["layers"]):
        for module, shape in layer.items():
            out[f"h.{n}.{module}.weight"] = shape
            if biased:
                out[f"h.{n}.{module}.bias"] = shape[:1]
    out["ln_f.weight"] = (c["hidden"],)
    if biased:
        out["ln_f.bias"] = (c["hidden"],)
    if not c["tied"]:
        out["lm_head.weight"] = (c["vocab"], c["hidden"])
    return out


def weights(c):
    """Multiples of 1/256 between -100/256 and 100/256: exact in f32, f16 and bf16."""
    out = {}
    for k, (name, shape) in enumerate(shapes(c).items()):
        i = np.arange(int(np.prod(shape)))
        out[name] = (((i * 37 + k * 11) % 201 - 100) / 256).astype(np.float32).reshape(shape)
    return out
