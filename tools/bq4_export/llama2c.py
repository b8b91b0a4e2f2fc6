"""Readers of llama2.c files: checkpoints (`.bin`, legacy and version 1) and tokenizer.bin."""

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
        """Returns the values of rows [first, last)."""
        count = int(np.prod(self.shape, dtype=np.int64))
        return np.frombuffer(self.data, "<f4", count, self.offset).reshape(self.shape)[first:last].astype(np.float32)


def looks_like(path):
    """Whether the file can be a llama2.c checkpoint, according to its first bytes."""
    with open(path, "rb") as file:
        head = file.read(36)
    if len(head) < 36:
        return False
    if struct.unpack("<I", head[:4])[0] == MAGIC:
        return True
    dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack("<7i", head[:28])
    return all(0 < v < 1 << 24 for v in (dim, hidden, layers, heads, kv_heads, abs(vocab), context)) and layers <= 1024 and dim % heads == 0


def read_checkpoint(path):
    """Returns the tensors by canonical name, and the configuration. Raises FORMAT, TRUNCATED, UNSUPPORTED."""
    size = os.path.getsize(path)
    data = np.memmap(path, np.uint8, "r")
    head = data[:36].tobytes()
    is_version1 = struct.unpack("<I", head[:4])[0] == MAGIC
    if is_version1:
        version = struct.unpack("<i", head[4:8])[0]
        if version != 1:
            raise ExportError("UNSUPPORTED", f"{path}: expected a llama2.c checkpoint of version 0 or 1, found version {version}", "export it as version 0 or 1 (f32)")
        if size < 256:
            raise ExportError("TRUNCATED", f"{path}: expected a header of 256 bytes, found the end of the file after {size}")
    dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack("<7i", head[8:36] if is_version1 else head[:28])
    tied = data[36] != 0 if is_version1 else vocab > 0
    vocab = abs(vocab)
    if min(dim, hidden, layers, heads, kv_heads, vocab, context) <= 0 or dim % heads or heads % kv_heads or layers > 1024:
        raise ExportError("FORMAT", f"{path}: expected the header of a llama2.c checkpoint")
    kv = dim // heads * kv_heads
    shapes = {
        "ln1": (dim,), "attn.q": (dim, dim), "attn.k": (kv, dim), "attn.v": (kv, dim), "attn.o": (dim, dim), "ln2": (dim,),
        "mlp.gate": (hidden, dim), "mlp.down": (dim, hidden), "mlp.up": (hidden, dim),
        "wte": (vocab, dim), "ln_f": (dim,), "lm_head": (vocab, dim),
    }
    matrices = ["attn.q", "attn.k", "attn.v", "attn.o"]
    mlp = ["mlp.gate", "mlp.down", "mlp.up"]
    order = (["ln1", "ln2", "ln_f", "wte", *matrices, *mlp, "lm_head"] if is_version1
             else ["wte", "ln1", *matrices, "ln2", *mlp, "ln_f", "rope", "lm_head"])
    at = 256 if is_version1 else 28
    tensors = {}
    for key in order:
        if key == "rope":
            at += 4 * context * (dim // heads)
        elif key != "lm_head" or not tied:
            is_layer = key not in ("wte", "ln_f", "lm_head")
            for n in range(layers if is_layer else 1):
                tensors[f"h.{n}.{key}.weight" if is_layer else f"{key}.weight"] = Floats(data, at, shapes[key])
                at += 4 * int(np.prod(shapes[key], dtype=np.int64))
    if at != size:
        raise ExportError("TRUNCATED" if size < at else "FORMAT", f"{path}: expected {at} bytes according to its header, found {size}",
                          "check that it is a complete .bin file of llama2.c")
    return tensors, {"arch": "llama", "layers": layers, "hidden": dim, "heads": heads, "kv_heads": kv_heads, "ffn": hidden,
                     "vocab": vocab, "context": context, "rope_pairs": "adjacent", "tied": int(tied)}


def read_tokenizer(path, vocab):
    """Returns the tokens of tokenizer.bin as [(bytes, score, kind)], with the kinds of the TOKN section. Raises FORMAT."""
    with open(path, "rb") as file:
        data = file.read()
    tokens, at = [], 4
    for i in range(vocab):
        if at + 8 > len(data):
            raise ExportError("FORMAT", f"{path}: expected {vocab} tokens, found {i}")
        score, length = struct.unpack_from("<fI", data, at)
        text = data[at + 8:at + 8 + length]
        if len(text) != length:
            raise ExportError("FORMAT", f"{path}: expected {length} bytes of token {i}, found {len(text)}")
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
        raise ExportError("FORMAT", f"{path}: expected the end of the file after {vocab} tokens, found {len(data) - at} more bytes")
    return tokens
