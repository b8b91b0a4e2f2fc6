"""XXH64 (seed 0) from its public specification: one block of bytes, or many blocks of equal size at once."""

import numpy as np

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
SEEDS = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]


def rotate(x, bits):
    return (x << bits | x >> (64 - bits)) & MASK


def step(lane, word):
    return rotate((lane + word * P2) & MASK, 31) * P1 & MASK


def finish(lanes, length, tail):
    """From the four lanes (None below 32 bytes) and what is left after whole stripes."""
    if lanes is None:
        h = P5
    else:
        h = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            h = ((h ^ step(0, lane)) * P1 + P4) & MASK
    h = (h + length) & MASK
    while len(tail) >= 8:
        h = (rotate(h ^ step(0, int.from_bytes(tail[:8], "little")), 27) * P1 + P4) & MASK
        tail = tail[8:]
    if len(tail) >= 4:
        h = (rotate(h ^ int.from_bytes(tail[:4], "little") * P1 & MASK, 23) * P2 + P3) & MASK
        tail = tail[4:]
    for byte in tail:
        h = rotate(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def xxh64(data):
    data = bytes(data)
    whole = len(data) // 32 * 32
    lanes = None
    if whole:
        lanes = list(SEEDS)
        words = np.frombuffer(data, "<u8", whole // 8).reshape(-1, 4).tolist()
        for stripe in words:
            lanes = [step(lane, word) for lane, word in zip(lanes, stripe)]
    return finish(lanes, len(data), data[whole:])


def xxh64_many(blocks):
    """blocks: uint8 [n, size], size a multiple of 32. All are hashed side by side: NumPy's speed, not Python's."""
    n, size = blocks.shape
    words = np.ascontiguousarray(np.ascontiguousarray(blocks).view("<u8").reshape(n, size // 32, 4).transpose(1, 2, 0))
    p1, p2 = np.uint64(P1), np.uint64(P2)
    left, right = np.uint64(31), np.uint64(33)
    lanes = np.repeat(np.array(SEEDS, np.uint64)[:, None], n, axis=1)
    for stripe in words:
        lanes += stripe * p2
        lanes = (lanes << left | lanes >> right) * p1
    return [finish([int(lane) for lane in lanes[:, i]], size, b"") for i in range(n)]
