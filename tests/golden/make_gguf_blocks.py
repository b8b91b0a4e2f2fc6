"""Writes random blocks of GGUF weight types and their values, decoded by the Python package gguf, to gguf_blocks/.

NAME.bin: u32 number of blocks, u32 weights of a block, u32 bytes of a block; the blocks; their values in f32.
Needs gguf and numpy: python tests/golden/make_gguf_blocks.py
"""

import json
import platform
import struct
from importlib.metadata import version
from pathlib import Path

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

OUT = Path(__file__).with_name("gguf_blocks")
# name: offsets of the f16 numbers in a block; for float types: bytes of a weight
TYPES = {
    "F32": 4, "F16": 2, "BF16": 2,
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ3_S": [0], "IQ4_XS": [0],
    "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ1_S": [0], "IQ1_M": [], "TQ1_0": [52], "TQ2_0": [64],
    "MXFP4": [], "NVFP4": [],
}
# Types that the package gguf lacks, from their definition in ggml-quants.c: weights, bytes, values of the weights by the f16 scale.
DEFINED = {
    "Q1_0": (128, 18, lambda bits: np.unpackbits(bits, axis=-1, bitorder="little").astype("<f4") * 2 - 1),
    "Q2_0": (64, 18, lambda bits: (bits[..., None] >> np.array([0, 2, 4, 6]) & 3).reshape(len(bits), -1).astype("<f4") - 1),
}
# f16: ordinary numbers, then zeros, the smallest, the largest subnormal and the largest number, of both signs
EDGES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x7BFF, 0xFBFF]


def blocks_of(name, random):
    kind = GGMLQuantizationType[name]
    weights, size = GGML_QUANT_SIZES[kind]
    if isinstance(TYPES[name], int):
        weights, size = 32, 32 * TYPES[name]
        values = random.standard_normal(12 * 32).astype("<f4")
        raw = {"F32": lambda: values, "F16": lambda: values.astype("<f2"),
               "BF16": lambda: values.view("<u4") >> 16}[name]()
        return weights, raw.astype("<u2" if name == "BF16" else raw.dtype).view(np.uint8).reshape(12, size)
    n = 12 if weights == 256 else 24
    raw = random.integers(0, 256, (n, size), np.uint8)
    raw[-2], raw[-1] = 0, 255
    for at in TYPES[name]:
        numbers = random.uniform(-0.1, 0.1, n).astype("<f2").view("<u2")
        numbers[: len(EDGES)] = random.permutation(EDGES)
        raw[:, at : at + 2] = numbers.view(np.uint8).reshape(n, 2)
    return weights, raw


def set_scales(name, raw, random):
    """Sets scales that are no single f16: IQ1_M divides it among four words; MXFP4 has powers of 2 that are exact in f16."""
    if name == "IQ1_M":
        numbers = random.uniform(-0.1, 0.1, len(raw)).astype("<f2").view("<u2")
        numbers[: len(EDGES)] = EDGES
        for i in range(4):
            raw[:, 49 + 2 * i] = raw[:, 49 + 2 * i] & 15 | (numbers >> 4 * i & 15).astype(np.uint8) << 4
    if name == "MXFP4":
        raw[:, 0] = random.integers(104, 144, len(raw))
        raw[:2, 0] = 104, 143
        raw[2] = np.concatenate([[0], np.full(16, 0x80)])  # zeros of both signs with the smallest scale


def defined_blocks(name, random):
    weights, size, decode = DEFINED[name]
    raw = random.integers(0, 256, (24, size), np.uint8)
    numbers = random.uniform(-0.1, 0.1, 24).astype("<f2").view("<u2")
    numbers[: len(EDGES)] = EDGES
    raw[:, :2] = numbers.view(np.uint8).reshape(24, 2)
    return weights, raw, decode(raw[:, 2:]) * numbers.view("<f2").astype("<f4")[:, None]


def write(name, weights, raw, values):
    assert values.size == len(raw) * weights and np.isfinite(values).all()
    head = struct.pack("<3I", len(raw), weights, raw.shape[1])
    (OUT / f"{name.lower()}.bin").write_bytes(head + raw.tobytes() + values.astype("<f4").tobytes())


def main():
    OUT.mkdir(exist_ok=True)
    for name in TYPES:
        random = np.random.default_rng(sum(name.encode()))
        weights, raw = blocks_of(name, random)
        set_scales(name, raw, random)
        write(name, weights, raw, dequantize(raw, GGMLQuantizationType[name]))
    for name in DEFINED:
        write(name, *defined_blocks(name, np.random.default_rng(sum(name.encode()))))
    versions = {"python": platform.python_version(), "numpy": version("numpy"), "gguf": version("gguf")}
    (OUT / "made_with.json").write_text(json.dumps(versions) + "\n")


main()
