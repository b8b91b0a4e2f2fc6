"""Writes v1.0 and v2 files (docs/FORMAT.md §2, §3), tensor by tensor."""

import json
import os
import struct

import numpy as np

from .encode import FLAT, TYPES, weight_bytes
from .errors import ExportError
from .xxh64 import xxh64, xxh64_many

CHUNK = 1 << 20
ALIGN = 64

CONF_KEYS = {
    "arch": 1, "layers": 2, "hidden": 3, "heads": 4, "kv_heads": 5, "head_dim": 6, "ffn": 7, "vocab": 8, "context": 9,
    "norm": 10, "norm_eps": 11, "position": 12, "rope_theta": 13, "rope_pairs": 14, "rope_dim": 15, "activation": 16,
    "gated": 17, "tied": 18, "tokens": 32, "merges": 33,
}
F32_KEYS = {"norm_eps", "rope_theta"}
OPTIONAL_KEYS = {"tokens", "merges"}
CHOICES = {
    "arch": {"llama": 1, "bullet": 2}, "norm": {"rms": 0, "layer": 1}, "position": {"rope": 0, "learned": 1},
    "rope_pairs": {"half": 0, "adjacent": 1}, "activation": {"silu": 0, "gelu": 1, "relu": 2},
}


def up(n, unit):
    return -(-n // unit) * unit


def section(tag, payload, required=False):
    if isinstance(payload, str):
        payload = payload.encode()
    if not payload:
        return b""
    return tag.encode() + struct.pack("<IQ", required, len(payload)) + payload + bytes(-len(payload) % 8)


def conf_payload(config):
    out = b""
    for name, key in CONF_KEYS.items():
        if name in config:
            value = config[name]
            value = CHOICES[name][value] if isinstance(value, str) else value
            kind = name in F32_KEYS
            out += struct.pack("<HBB", key, kind, name not in OPTIONAL_KEYS) + struct.pack("<f" if kind else "<I", value)
    return out


def directory(entries):
    names = sorted({e["type"] for e in entries}, key=lambda name: TYPES[name][0])
    out = struct.pack("<I", len(names))
    for name in names:
        out += struct.pack("<BB", TYPES[name][0], len(name)) + name.encode()
    out += struct.pack("<I", len(entries))
    for e in entries:
        name = e["name"].encode()
        out += struct.pack("<H", len(name)) + name + struct.pack("<BBB", TYPES[e["type"]][0], e["layout"], len(e["dims"]))
        out += struct.pack(f"<{len(e['dims'])}IQQ", *e["dims"], e["offset"], e["bytes"])
    return out


class PartFile:
    """A file that appears under its name only when all went well."""

    def __init__(self, path):
        self.path, self.part = path, f"{path}.part"

    def __enter__(self):
        try:
            self.file = open(self.part, "w+b")
        except OSError as error:
            raise ExportError("WRITE", f"{self.path} can't be written: {error.strerror}", "check the folder and its permissions") from error
        return self.file

    def __exit__(self, kind, *_):
        self.file.close()
        if kind is None:
            os.replace(self.part, self.path)
        else:
            os.unlink(self.part)


def chunk_hashes(file, start, size):
    """XXH64 of each 1 MiB from `start` on, 64 at a time."""
    hashes = []
    file.seek(start)
    for first in range(0, size // CHUNK, 64):
        n = min(64, size // CHUNK - first)
        hashes += xxh64_many(np.frombuffer(file.read(n * CHUNK), np.uint8).reshape(n, CHUNK))
    if size % CHUNK:
        hashes.append(xxh64(file.read(size % CHUNK)))
    return hashes


def write_v2(path, config, tensors, name="", license="", tokenizer=b"", file_id=None):
    """tensors: [{name, type, layout, dims, data: () -> bytes}] in execution order."""
    end = 0
    entries = []
    for t in tensors:
        rows, cols = matrix_of(t["dims"])
        entries.append({**t, "offset": up(end, ALIGN), "bytes": weight_bytes(t["type"], t["layout"], rows, cols)})
        end = entries[-1]["offset"] + entries[-1]["bytes"]

    def plan(start):
        placed = [{**e, "offset": e["offset"] + start} for e in entries]
        return (section("CONF", conf_payload(config), True) + section("LICE", license) + section("NAME", name)
                + section("TENS", directory(placed), True))

    rest = section("TOKN", tokenizer)
    plan_length = len(plan(0)) + 24
    start = up(64 + plan_length + len(rest) + 24 + 8 * -(-end // CHUNK) + 24, ALIGN)
    with PartFile(path) as file:
        for entry in entries:
            file.seek(start + entry["offset"])
            data = entry["data"]()
            if len(data) != entry["bytes"]:
                raise ExportError("SHAPE", f'tensor "{entry["name"]}" gave {len(data)} bytes, not {entry["bytes"]}')
            file.write(data)
        hashes = chunk_hashes(file, start, end)
        header = struct.pack("<4sIIIQQQ16s", b"BQ4F", 2, 0, 0, plan_length, start, start + end, file_id or os.urandom(16))
        head = header + struct.pack("<Q", xxh64(header))
        sections = plan(start)
        head += sections + section("SUM8", struct.pack("<Q", xxh64(sections)))
        head += rest + section("HASH", struct.pack(f"<II{len(hashes)}Q", 1, CHUNK, *hashes))
        head += section("SUM8", struct.pack("<Q", xxh64(head)))
        file.seek(0)
        file.write(head + bytes(start - len(head)))
    return start + end, end


def matrix_of(dims):
    """(rows, columns): one-dimensional tensors have one row."""
    return int(np.prod(dims[:-1], dtype=np.int64)), dims[-1]


def v1_type(dims):
    """Blocks of 32 where they divide the number of weights, else of 16, else none: the companion has the tensor."""
    count = int(np.prod(dims, dtype=np.int64))
    return "bq4_32" if count % 32 == 0 else "bq4_16" if count % 16 == 0 else None


def write_v1(path, tensors, companion):
    """tensors: [{name, type, dims, data: () -> bytes}]; companion: a JSON object for NAME.json beside it."""
    head = struct.pack("<4sII", b"BQ4F", 1, len(tensors))
    start = len(head) + sum(24 + len(t["name"].encode()) + 4 * len(t["dims"]) for t in tensors)
    at = start
    for t in tensors:
        _, block, block_bytes, *_ = TYPES[t["type"]]
        size = weight_bytes(t["type"], FLAT, 1, int(np.prod(t["dims"], dtype=np.int64)))
        name = t["name"].encode()
        head += struct.pack("<I", len(name)) + name + struct.pack("<I", len(t["dims"]))
        head += struct.pack(f"<{len(t['dims'])}IIIQ", *t["dims"], block, size // block_bytes, at)
        at += size
    with PartFile(os.path.splitext(path)[0] + ".json") as json_file:
        with PartFile(path) as file:
            file.write(head)
            for t in tensors:
                file.write(t["data"]())
            if file.tell() != at:
                raise ExportError("SHAPE", f"{file.tell()} bytes were written, not {at}")
        json_file.write(json.dumps(companion, separators=(",", ":")).encode() + b"\n")
    return at, at - start
