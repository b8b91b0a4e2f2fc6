"""XXH64 (seed 0) according to its public specification, for one block of bytes or for many blocks of equal size."""

import numpy as np

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
SEEDS = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]


def rotate(x, bits):
    """Rotates 64 bits to the left."""
    return (x << bits | x >> (64 - bits)) & MASK


def step(lane, word):
    """Adds a word to a lane."""
    return rotate((lane + word * P2) & MASK, 31) * P1 & MASK


def finish(lanes, length, tail):
    """Returns the hash of the four lanes (None for less than 32 bytes) and the bytes after the last stripe."""
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
    """Returns the hash of bytes."""
    data = bytes(data)
    stripes_end = len(data) // 32 * 32
    lanes = None
    if stripes_end:
        lanes = list(SEEDS)
        words = np.frombuffer(data, "<u8", stripes_end // 8).reshape(-1, 4).tolist()
        for stripe in words:
            lanes = [step(lane, word) for lane, word in zip(lanes, stripe)]
    return finish(lanes, len(data), data[stripes_end:])


def xxh64_many(blocks):
    """Returns the hashes of blocks, uint8 [n, size], where size is a multiple of 32. NumPy computes the lanes of all blocks together."""
    n, size = blocks.shape
    words = np.ascontiguousarray(np.ascontiguousarray(blocks).view("<u8").reshape(n, size // 32, 4).transpose(1, 2, 0))
    p1, p2 = np.uint64(P1), np.uint64(P2)
    left, right = np.uint64(31), np.uint64(33)
    lanes = np.repeat(np.array(SEEDS, np.uint64)[:, None], n, axis=1)
    for stripe in words:
        lanes += stripe * p2
        lanes = (lanes << left | lanes >> right) * p1
    return [finish([int(lane) for lane in lanes[:, i]], size, b"") for i in range(n)]
