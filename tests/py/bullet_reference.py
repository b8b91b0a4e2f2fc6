"""Writes and reads .bullet files, from docs/FORMAT.md alone, without code of js/convert.

    python tests/py/bullet_reference.py write IN.json OUT.bullet
    python tests/py/bullet_reference.py read IN.bullet OUT.json

IN.json: name, architecture, dimensions, tokens, tensors [[name, dims, base64 of f32]].
OUT.json: the JSON of the file, its tokens, and tensors [[hash, dims, base64 of f32]].
"""

import base64
import json
import struct
import sys
from decimal import Decimal

import numpy as np

F32 = np.float32


def fnv1a(name):
    h = 14695981039346656037
    for byte in name.encode():
        h = (h ^ byte) * 1099511628211 % (1 << 64)
    return h


def round_half_away(x):
    """Rounds halves away from zero; doubling the number is exact."""
    return int(np.sign(x)) * ((int(np.floor(abs(float(x)) * 2)) + 1) // 2)


def block(weights):
    """Encodes up to 32 weights in 20 bytes."""
    w = np.zeros(32, F32)
    w[: len(weights)] = weights
    largest = np.abs(w).max()
    if largest == 0:
        return bytes(20)
    scale = max(np.float16(F32(largest / F32(7))), np.float16(2.0**-24))
    ratios = [F32(x / F32(scale)) for x in w]
    total = F32(0)
    for ratio in ratios:
        total = F32(total + ratio)
    zero = round_half_away(F32(total / F32(32)))
    q = [min(max(round_half_away(r) - zero, -8), 7) for r in ratios]
    nibbles = bytes((q[2 * i] % 16) + 16 * (q[2 * i + 1] % 16) for i in range(16))
    return struct.pack("<ebx", scale, zero) + nibbles


def unblock(data):
    scale, zero = struct.unpack_from("<eb", data)
    out = []
    for byte in data[4:20]:
        for nibble in (byte & 15, byte >> 4):
            out.append(F32(((nibble ^ 8) - 8 + zero) * F32(scale)))
    return out


def number(x):
    """Formats a number between 1e-6 and 1e21 like ECMAScript."""
    return format(Decimal(repr(x)), "f") if isinstance(x, float) else json.dumps(x)


def dumps(value):
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k, ensure_ascii=False) + ":" + dumps(v) for k, v in value.items()) + "}"
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def up(n, unit):
    return -(-n // unit) * unit


def attempt(model, offsets):
    """Returns the file with these offsets in its JSON, and the actual offsets of its parts."""
    head = {"bullet_version": "1.0", "model_name": model["name"], "architecture": model["architecture"], "dimensions": model["dimensions"],
            "quantization": {"type": "BQ4", "block_size": 32}, "file_offsets": offsets}
    out = bytearray(dumps(head).encode()) + bytes(4)
    out += bytes(up(len(out), 4096) - len(out))
    next_offsets = {"tokenizer": len(out)}
    out += b"BULK" + struct.pack("<I", len(model["tokens"]))
    for token in model["tokens"]:
        out += struct.pack("<H", len(token.encode())) + token.encode()
    next_offsets["tensors"] = len(out)
    out += b"BWT0" + struct.pack("<I", len(model["tensors"]))
    for name, dims, data in model["tensors"]:
        weights = np.frombuffer(base64.b64decode(data), "<f4")
        blocks = b"".join(block(weights[i : i + 32]) for i in range(0, len(weights), 32))
        out += struct.pack(f"<QB{len(dims)}HBI", fnv1a(name), len(dims), *dims, 0, len(blocks))
        out += bytes(up(len(out), 32) - len(out)) + blocks
    next_offsets["footer"] = len(out)
    return bytes(out + b"END!"), next_offsets


def write(model):
    offsets = {"tokenizer": 0, "tensors": 0, "footer": 0}
    while True:
        data, next_offsets = attempt(model, offsets)
        if next_offsets == offsets:
            return data
        offsets = next_offsets


def read(data):
    end = data.index(bytes(4))
    head = json.loads(data[:end])
    at = up(end + 4, 4096)
    assert at == head["file_offsets"]["tokenizer"] and data[at : at + 4] == b"BULK"
    count, at, tokens = struct.unpack_from("<I", data, at + 4)[0], at + 8, []
    for _ in range(count):
        size = struct.unpack_from("<H", data, at)[0]
        tokens.append(data[at + 2 : at + 2 + size].decode())
        at += 2 + size
    assert at == head["file_offsets"]["tensors"] and data[at : at + 4] == b"BWT0"
    count, at, tensors = struct.unpack_from("<I", data, at + 4)[0], at + 8, []
    for _ in range(count):
        name, rank = struct.unpack_from("<QB", data, at)
        *dims, kind, size = struct.unpack_from(f"<{rank}HBI", data, at + 9)
        assert kind == 0
        at = up(at + 14 + 2 * rank, 32)
        weights = [w for i in range(at, at + size, 20) for w in unblock(data[i : i + 20])][: int(np.prod(dims))]
        tensors.append([f"{name:016x}", dims, base64.b64encode(np.array(weights, "<f4").tobytes()).decode()])
        at += size
    assert at == head["file_offsets"]["footer"] and data[at:] == b"END!"
    return {"head": head, "tokens": tokens, "tensors": tensors}


def main(mode, source, target):
    if mode == "write":
        with open(source, encoding="utf-8") as file, open(target, "wb") as out:
            out.write(write(json.load(file)))
    else:
        with open(source, "rb") as file, open(target, "w", encoding="utf-8") as out:
            json.dump(read(file.read()), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
