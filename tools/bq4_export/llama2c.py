"""llama2.c files: checkpoints (`.bin`, legacy and version 1) and tokenizer.bin."""

import os
import struct

import numpy as np

from .errors import ExportError

MAGIC = 0x616B3432


class Floats:
    """A row-major f32 tensor at an offset of a memory-mapped file."""

    def __init__(self, data, offset, shape):
        self.data, self.offset, self.shape = data, offset, shape

    def rows(self, first=0, last=None):
        count = int(np.prod(self.shape, dtype=np.int64))
        return np.frombuffer(self.data, "<f4", count, self.offset).reshape(self.shape)[first:last].astype(np.float32)


def looks_like(path):
    """Whether the first bytes could be a llama2.c checkpoint's."""
    with open(path, "rb") as file:
        head = file.read(36)
    if len(head) < 36:
        return False
    if struct.unpack("<I", head[:4])[0] == MAGIC:
        return True
    dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack("<7i", head[:28])
    return all(0 < v < 1 << 24 for v in (dim, hidden, layers, heads, kv_heads, abs(vocab), context)) and layers <= 1024 and dim % heads == 0


def read_checkpoint(path):
    """(canonical name -> tensor, configuration). FORMAT, TRUNCATED, UNSUPPORTED."""
    size = os.path.getsize(path)
    data = np.memmap(path, np.uint8, "r")
    head = data[:36].tobytes()
    version1 = struct.unpack("<I", head[:4])[0] == MAGIC
    if version1:
        version = struct.unpack("<i", head[4:8])[0]
        if version != 1:
            raise ExportError("UNSUPPORTED", f"{path} is a llama2.c checkpoint of version {version}", "export it as version 0 or 1 (f32)")
        if size < 256:
            raise ExportError("TRUNCATED", f"{path} ends in its header")
    dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack("<7i", head[8:36] if version1 else head[:28])
    tied = data[36] != 0 if version1 else vocab > 0
    vocab = abs(vocab)
    if min(dim, hidden, layers, heads, kv_heads, vocab, context) <= 0 or dim % heads or heads % kv_heads or layers > 1024:
        raise ExportError("FORMAT", f"{path} does not begin like a llama2.c checkpoint")
    kv = dim // heads * kv_heads
    shapes = {
        "ln1": (dim,), "attn.q": (dim, dim), "attn.k": (kv, dim), "attn.v": (kv, dim), "attn.o": (dim, dim), "ln2": (dim,),
        "mlp.gate": (hidden, dim), "mlp.down": (dim, hidden), "mlp.up": (hidden, dim),
        "wte": (vocab, dim), "ln_f": (dim,), "lm_head": (vocab, dim),
    }
    matrices = ["attn.q", "attn.k", "attn.v", "attn.o"]
    mlp = ["mlp.gate", "mlp.down", "mlp.up"]
    order = (["ln1", "ln2", "ln_f", "wte", *matrices, *mlp, "lm_head"] if version1
             else ["wte", "ln1", *matrices, "ln2", *mlp, "ln_f", "rope", "lm_head"])
    at = 256 if version1 else 28
    tensors = {}
    for key in order:
        if key == "rope":
            at += 4 * context * (dim // heads)
        elif key != "lm_head" or not tied:
            layered = key not in ("wte", "ln_f", "lm_head")
            for n in range(layers if layered else 1):
                tensors[f"h.{n}.{key}.weight" if layered else f"{key}.weight"] = Floats(data, at, shapes[key])
                at += 4 * int(np.prod(shapes[key], dtype=np.int64))
    if at != size:
        raise ExportError("TRUNCATED" if size < at else "FORMAT", f"{path} has {size} bytes; its header makes it {at}",
                          "is it a llama2.c .bin file, and whole?")
    return tensors, {"arch": "llama", "layers": layers, "hidden": dim, "heads": heads, "kv_heads": kv_heads, "ffn": hidden,
                     "vocab": vocab, "context": context, "rope_pairs": "adjacent", "tied": int(tied)}


def read_tokenizer(path, vocab):
    """tokenizer.bin as [(bytes, score, kind)]: kinds as in the TOKN section. FORMAT."""
    with open(path, "rb") as file:
        data = file.read()
    tokens, at = [], 4
    for i in range(vocab):
        if at + 8 > len(data):
            raise ExportError("FORMAT", f"{path} ends after {i} of {vocab} tokens")
        score, length = struct.unpack_from("<fI", data, at)
        text = data[at + 8:at + 8 + length]
        if len(text) != length:
            raise ExportError("FORMAT", f"token {i} of {path} is longer than the file")
        at += 8 + length
        if i == 0:
            tokens.append((text, score, 1))
        elif i <= 2:
            tokens.append((text.strip(), score, 2))
        elif length == 6 and text.startswith(b"<0x") and text.endswith(b">"):
            tokens.append((bytes([int(text[3:5], 16)]), score, 5))
        else:
            tokens.append((text, score, 0))
    if at != len(data):
        raise ExportError("FORMAT", f"{len(data) - at} bytes follow the {vocab} tokens of {path}")
    return tokens
