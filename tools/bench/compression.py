#!/usr/bin/env python3
"""What LZ4 and zstd save on the tiled weights of .bq4 files: the measurement behind docs/decisions/0008-paging.md.

    pip install lz4==4.4.5 zstandard==0.25.0
    python3 tools/bench/compression.py models/chat.bq4 build/bench/135m-bq4h.bq4

Every matrix is compressed by itself, as a paged layer would be; sizes are summed per type.
"""
import struct
import sys
import time

import lz4.block
import zstandard

TILED = 1


def tensors(data):
    """(name, type, bytes) of every tiled tensor of a v2 file (docs/FORMAT.md, section 2)."""
    if data[:4] != b"BQ4F" or struct.unpack_from("<I", data, 4)[0] != 2:
        raise SystemExit("not a v2 file")
    at, end = 64, 64 + struct.unpack_from("<Q", data, 16)[0]
    while data[at:at + 4] != b"TENS":
        at += 16 + (struct.unpack_from("<Q", data, at + 8)[0] + 7) // 8 * 8
        if at >= end:
            raise SystemExit("no TENS section")
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


WAYS = {
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
        found = {}
        for name, kind, part in tensors(data):
            found.setdefault(kind, []).append(part)
        for kind, parts in found.items():
            parts = parts[:40]  # that is enough of a large file
            plain = sum(map(len, parts))
            print(f"{path} {kind}: {len(parts)} matrices, {plain} bytes")
            for way, (pack, unpack) in WAYS.items():
                packed = [pack(part) for part in parts]
                since = time.perf_counter()
                same = all(unpack(c, len(p)) == p for c, p in zip(packed, parts))
                seconds = time.perf_counter() - since
                small = sum(map(len, packed))
                print(f"  {way:9} saves {100 * (1 - small / plain):5.1f} %, decoded at {plain / seconds / 1e9:.2f} GB/s{'' if same else ' WRONGLY'}")


main(sys.argv[1:])
