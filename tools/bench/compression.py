#!/usr/bin/env python3
"""Measures how much LZ4 and zstd compress the tiled weights of .bq4 files, for docs/decisions/0008-paging.md.

    pip install lz4==4.4.5 zstandard==0.25.0
    python3 tools/bench/compression.py models/chat.bq4 build/bench/135m-bq4h.bq4

Each matrix is compressed separately, as paging would require. Sizes are summed by type.
"""
import struct
import sys
import time

import lz4.block
import zstandard

TILED = 1
"""Layout of tiled tensors in the table of tensors."""
MAX_MATRICES = 40
"""Largest number of matrices of a type that are measured."""


def tensors(data):
    """Yields (name, type, bytes) of each tiled tensor of a v2 file (docs/FORMAT.md, section 2)."""
    if data[:4] != b"BQ4F" or struct.unpack_from("<I", data, 4)[0] != 2:
        raise SystemExit("expected a .bq4 file of version 2")
    at, end = 64, 64 + struct.unpack_from("<Q", data, 16)[0]
    while data[at:at + 4] != b"TENS":
        at += 16 + (struct.unpack_from("<Q", data, at + 8)[0] + 7) // 8 * 8
        if at >= end:
            raise SystemExit("expected a section TENS, found none")
    at += 16
    types = {}
    (count,) = struct.unpack_from("<I", data, at)
    at += 4
    for _ in range(count):
        number, length = data[at], data[at + 1]
        types[number] = data[at + 2:at + 2 + length].decode()
        at += 2 + length
    (count,) = struct.unpack_from("<I", data, at)
    at += 4
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2:at + 2 + length].decode()
        at += 2 + length
        kind, layout, ndims = data[at:at + 3]
        at += 3 + 4 * ndims
        offset, size = struct.unpack_from("<QQ", data, at)
        at += 16
        if layout == TILED:
            yield name, types[kind], data[offset:offset + size]


COMPRESSORS = {
    "lz4": (lambda b: lz4.block.compress(b, store_size=False), lambda c, n: lz4.block.decompress(c, uncompressed_size=n)),
    "lz4hc 12": (lambda b: lz4.block.compress(b, mode="high_compression", compression=12, store_size=False),
                 lambda c, n: lz4.block.decompress(c, uncompressed_size=n)),
    "zstd 3": (zstandard.ZstdCompressor(level=3).compress, lambda c, n: zstandard.ZstdDecompressor().decompress(c)),
    "zstd 19": (zstandard.ZstdCompressor(level=19).compress, lambda c, n: zstandard.ZstdDecompressor().decompress(c)),
}


def main(paths):
    for path in paths:
        with open(path, "rb") as file:
            data = file.read()
        matrices_of = {}
        for _, kind, matrix in tensors(data):
            matrices_of.setdefault(kind, []).append(matrix)
        for kind, matrices in matrices_of.items():
            matrices = matrices[:MAX_MATRICES]
            plain_bytes = sum(map(len, matrices))
            print(f"{path} {kind}: {len(matrices)} matrices, {plain_bytes} bytes")
            for name, (compress, decompress) in COMPRESSORS.items():
                compressed = [compress(matrix) for matrix in matrices]
                start = time.perf_counter()
                equal = all(decompress(c, len(m)) == m for c, m in zip(compressed, matrices))
                seconds = time.perf_counter() - start
                size = sum(map(len, compressed))
                print(f"  {name:9} saves {100 * (1 - size / plain_bytes):5.1f} %, decoded at {plain_bytes / seconds / 1e9:.2f} GB/s{'' if equal else ' INCORRECTLY'}")


main(sys.argv[1:])
