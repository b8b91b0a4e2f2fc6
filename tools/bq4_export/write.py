"""Writes .bq4 files of versions 1.0 and 2 (docs/FORMAT.md §2, §3), one tensor after another."""

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


def align_up(n, unit):
    """Returns the smallest multiple of `unit` that is at least n."""
    return -(-n // unit) * unit


def section(tag, payload, required=False):
    """Returns the bytes of a section; none if its payload is empty."""
    if isinstance(payload, str):
        payload = payload.encode()
    if not payload:
        return b""
    return tag.encode() + struct.pack("<IQ", required, len(payload)) + payload + bytes(-len(payload) % 8)


def conf_payload(config):
    """Returns the payload of the section CONF."""
    out = b""
    for name, key in CONF_KEYS.items():
        if name in config:
            value = config[name]
            value = CHOICES[name][value] if isinstance(value, str) else value
            kind = name in F32_KEYS
            out += struct.pack("<HBB", key, kind, name not in OPTIONAL_KEYS) + struct.pack("<f" if kind else "<I", value)
    return out


def tens_payload(entries):
    """Returns the payload of the section TENS."""
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
    """A file that gets its name only if no exception is raised."""

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
    """Returns the XXH64 of each MiB from `start`. It hashes 64 chunks at a time."""
    hashes = []
    file.seek(start)
    for first in range(0, size // CHUNK, 64):
        n = min(64, size // CHUNK - first)
        hashes += xxh64_many(np.frombuffer(file.read(n * CHUNK), np.uint8).reshape(n, CHUNK))
    if size % CHUNK:
        hashes.append(xxh64(file.read(size % CHUNK)))
    return hashes


def write_v2(path, config, tensors, name="", license="", tokenizer=b"", file_id=None):
    """Writes a file of version 2. tensors: [{name, type, layout, dims, data: () -> bytes}] in execution order. Returns the bytes of the file and
    of its weights."""
    end = 0
    entries = []
    for t in tensors:
        rows, cols = matrix_of(t["dims"])
        entries.append({**t, "offset": align_up(end, ALIGN), "bytes": weight_bytes(t["type"], t["layout"], rows, cols)})
        end = entries[-1]["offset"] + entries[-1]["bytes"]

    def header_sections(start):
        """Returns the sections before SUM8 if the weights start at `start`."""
        placed = [{**e, "offset": e["offset"] + start} for e in entries]
        return (section("CONF", conf_payload(config), True) + section("LICE", license) + section("NAME", name)
                + section("TENS", tens_payload(placed), True))

    tokenizer_section = section("TOKN", tokenizer)
    plan_length = len(header_sections(0)) + 24
    start = align_up(64 + plan_length + len(tokenizer_section) + 24 + 8 * -(-end // CHUNK) + 24, ALIGN)
    with PartFile(path) as file:
        for entry in entries:
            file.seek(start + entry["offset"])
            data = entry["data"]()
            if len(data) != entry["bytes"]:
                raise ExportError("SHAPE", f'tensor "{entry["name"]}": expected {entry["bytes"]} bytes, found {len(data)}')
            file.write(data)
        hashes = chunk_hashes(file, start, end)
        header = struct.pack("<4sIIIQQQ16s", b"BQ4F", 2, 0, 0, plan_length, start, start + end, file_id or os.urandom(16))
        head = header + struct.pack("<Q", xxh64(header))
        sections = header_sections(start)
        head += sections + section("SUM8", struct.pack("<Q", xxh64(sections)))
        head += tokenizer_section + section("HASH", struct.pack(f"<II{len(hashes)}Q", 1, CHUNK, *hashes))
        head += section("SUM8", struct.pack("<Q", xxh64(head)))
        file.seek(0)
        file.write(head + bytes(start - len(head)))
    return start + end, end


def matrix_of(dims):
    """Returns (rows, columns). One-dimensional tensors have one row."""
    return int(np.prod(dims[:-1], dtype=np.int64)), dims[-1]


def v1_type(dims):
    """Returns the type of a tensor in version 1: blocks of 32 or 16 if these divide the number of weights, otherwise None (then the tensor is in
    the companion)."""
    count = int(np.prod(dims, dtype=np.int64))
    return "bq4_32" if count % 32 == 0 else "bq4_16" if count % 16 == 0 else None


def write_v1(path, tensors, companion):
    """Writes a file of version 1. tensors: [{name, type, dims, data: () -> bytes}]; companion: the JSON object of NAME.json in the same folder.
    Returns the bytes of the file and of its weights."""
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
                raise ExportError("SHAPE", f"expected {at} bytes, found {file.tell()}")
        json_file.write(json.dumps(companion, separators=(",", ":")).encode() + b"\n")
    return at, at - start
