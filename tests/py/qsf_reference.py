"""Writes QSF files, from section 6 of docs/FORMAT.md alone, for tests of the writer and the reader.

    qsf_reference.py MODEL.json WEIGHTS.f32 OUT.qsf VALUES.f32

MODEL.json has the fields of the header by name, "quant", "embed" and "tensors": the canonical name and the shape of each.
WEIGHTS.f32 has their weights one after another; the decoded weights are written to VALUES.f32.
"""

import json
import math
import struct
import sys
import zlib

KINDS = {"q2s": 0, "q2a": 1, "q3a": 2, "q4a": 3, "tern": 4, "f16": 0xFE}
BITS = {"q2s": 2, "q2a": 2, "q3a": 3, "q4a": 4}
MATRICES = ["attn.q", "attn.k", "attn.v", "attn.o", "mlp.gate", "mlp.up", "mlp.down"]
BIASES = ["attn.q", "attn.k", "attn.v", "attn.o"]
CHUNK = 50000


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def f16(x):
    return struct.unpack("<e", struct.pack("<e", f32(x)))[0]


def bitstream(codes, width):
    number = 0
    for i, code in enumerate(codes):
        number |= code << (i * width)
    return number.to_bytes(64 * width // 8, "little")


def block(kind, weights):
    """Returns bytes and decoded values of at most 64 weights."""
    pad = [0] * (64 - len(weights))
    if kind == "tern":
        total = 0.0
        for w in weights:
            total += abs(w)
        scale = f16(total / len(weights))
        zero = [abs(w) < f32(f32(0.3) * scale) for w in weights]
        signs = [int(w < 0 and not z) for w, z in zip(weights, zero)]
        values = [0.0 if z else -scale if s else scale for s, z in zip(signs, zero)]
        mask = [int(z) for z in zero] + [1] * len(pad)
        return struct.pack("<e", scale) + bitstream(signs + pad, 1) + bitstream(mask, 1), values
    max_level = 2 ** BITS[kind] - 1
    if kind == "q2s":
        scale, minimum = f16(f32(max(abs(w) for w in weights) / 1.5)), 0.0
        codes = [sum(f32(w / scale) >= edge for edge in (-1, 0, 1)) if scale else 0 for w in weights]
        values = [(q - 1.5) * scale for q in codes]
    else:
        minimum = f16(min(weights))
        scale = f16(f32(f32(max(weights) - min(weights)) / max_level))
        levels = [math.floor(max(0.0, f32(f32(w - minimum) / scale)) + 0.5) if scale else 0 for w in weights]
        codes = [min(q, max_level) for q in levels]
        values = [f32(q * scale + minimum) for q in codes]
    return struct.pack("<ee", scale, minimum) + bitstream(codes + pad, BITS[kind]), values


def rows_of(kind, rows, cols, weights):
    if kind == "f16":
        return struct.pack(f"<{len(weights)}e", *weights), [f16(w) for w in weights]
    parts, values = [], []
    for row in range(rows):
        line = weights[row * cols : (row + 1) * cols]
        for col in range(0, cols, 64):
            data, became = block(kind, line[col : col + 64])
            parts.append(data)
            values += became
    return b"".join(parts), values


class Model:
    def __init__(self, facts, floats):
        self.facts, self.tensors, self.values = facts, {}, {}
        at = 0
        for name, dims in facts["tensors"]:
            count = math.prod(dims)
            self.tensors[name] = (dims, floats[at : at + count])
            at += count

    def encode(self, name, kind):
        dims, weights = self.tensors[name]
        rows, cols = (1, dims[0]) if len(dims) == 1 else dims
        data, self.values[name] = rows_of(kind, rows, cols, weights)
        return rows, cols, data

    def section(self, name, kind):
        vectors, dim, data = self.encode(name, kind)
        if vectors > CHUNK:
            vector_bytes = len(data) // vectors
            cuts = [data[i : i + CHUNK * vector_bytes] for i in range(0, len(data), CHUNK * vector_bytes)]
            data = b"".join(struct.pack("<I", len(cut)) + cut for cut in cuts)
        return struct.pack("<4I", KINDS[kind], len(data), vectors, dim) + data

    def layer(self, n, kind):
        parts = []

        def add(number, quant, rows, cols, data):
            parts.append(struct.pack("<3IB3x", number, rows, cols, quant) + data)

        for number, module in enumerate(MATRICES):
            if f"h.{n}.{module}.weight" in self.tensors:
                add(number, 0xFF, *self.encode(f"h.{n}.{module}.weight", kind))
        for number, module in ((7, "ln1"), (8, "ln2")):
            names = [f"h.{n}.{module}.{part}" for part in ("weight", "bias") if f"h.{n}.{module}.{part}" in self.tensors]
            if names:
                encoded_vectors = [self.encode(name, "f16") for name in names]
                add(number, 0xFE, len(names), encoded_vectors[0][1], b"".join(data for _, _, data in encoded_vectors))
        for i, module in enumerate(BIASES):
            if f"h.{n}.{module}.bias" in self.tensors:
                add(9 + i, 0xFE, *self.encode(f"h.{n}.{module}.bias", "f16"))
        names = [f"h.{n}.mlp.{part}.bias" for part in ("gate", "up", "down") if f"h.{n}.mlp.{part}.bias" in self.tensors]
        if names:
            data = b"".join(self.encode(name, "f16")[2] for name in names)
            add(13, 0xFE, 1, len(data) // 2, data)
        return b"".join(parts), len(parts)

    def file(self):
        h, quant, embed = self.facts["header"], self.facts["quant"], self.facts["embed"]
        body, start = [], 128 + 32 * h["layers"]

        def put(data):
            at = start + sum(map(len, body))
            body.append(data)
            return at

        embedding = put(self.section("wte.weight", embed))
        if "wpe.weight" in self.tensors:
            put(self.section("wpe.weight", embed))
        index = b""
        for n in range(h["layers"]):
            data, count = self.layer(n, quant)
            entry = (put(data), len(data), len(data), KINDS[quant], 0, count, zlib.crc32(data), 1.0)
            index += struct.pack("<QIIBBHIf4x", *entry)
        final = put(self.encode("ln_f.weight", "f16")[2])
        if "ln_f.bias" in self.tensors:
            put(self.encode("ln_f.bias", "f16")[2])
        put(b"\x00" + self.section("lm_head.weight", embed) if "lm_head.weight" in self.tensors else b"\xff")
        size = start + sum(map(len, body))
        words = ("arch", "layers", "hidden", "heads", "kv_heads", "vocab", "context", "ffn", "head_dim")
        head = b"QSF1" + struct.pack("<II9I", 1, 128, *(h[key] for key in words))
        head += struct.pack("<4B", KINDS[quant], h["activation"], h["norm"], h["position"])
        head += struct.pack("<f3Q4I", h["theta"], 128, embedding, final, h["bos"], h["eos"], h["pad"], size % 2**32)
        head += struct.pack("<I28x", zlib.crc32(head))
        return head + index + b"".join(body)


def main(facts, weights, out, values):
    with open(facts, encoding="utf-8") as file:
        spec = json.load(file)
    with open(weights, "rb") as file:
        data = file.read()
    model = Model(spec, list(struct.unpack(f"<{len(data) // 4}f", data)))
    data = model.file()
    with open(out, "wb") as file:
        file.write(data)
    with open(values, "wb") as file:
        for name, _ in spec["tensors"]:
            file.write(struct.pack(f"<{len(model.values[name])}f", *model.values[name]))


if __name__ == "__main__":
    main(*sys.argv[1:])
