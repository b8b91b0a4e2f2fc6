"""A second reader of .bq4 files, written from docs/FORMAT.md alone, which is compared with the C loader.

read(path) checks all requirements of the document and returns a Model with f32 weights. It is slow and simple on purpose, and shares no
code with the engine.
"""

import base64
import json
import os
import re
import hashlib
import struct
from dataclasses import dataclass, field

import numpy as np


class FormatError(Exception):
    """The file does not match docs/FORMAT.md. `offset`: place of the error, if it is known."""

    def __init__(self, text, offset=None):
        super().__init__(text if offset is None else f"{text} (at byte {offset})")
        self.offset = offset


def text_of(raw):
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{raw} is not UTF-8") from error


def require(condition, text, offset=None):
    if not condition:
        raise FormatError(text, offset)


# --- XXH64 -----------------------------------------------------------------------------------

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _rotl(x, n):
    return ((x << n) | (x >> (64 - n))) & _MASK


def _round(lane, word):
    return _rotl((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def xxh64(data, seed=0):
    data = bytes(data)
    stripes = len(data) // 32
    if stripes:
        a, b, c, d = (seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK
        for w, x, y, z in struct.iter_unpack("<4Q", data[: 32 * stripes]):
            a, b, c, d = _round(a, w), _round(b, x), _round(c, y), _round(d, z)
        h = (_rotl(a, 1) + _rotl(b, 7) + _rotl(c, 12) + _rotl(d, 18)) & _MASK
        for lane in (a, b, c, d):
            h = ((h ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        h = (seed + _P5) & _MASK
    h = (h + len(data)) & _MASK
    at = 32 * stripes
    while at + 8 <= len(data):
        word = int.from_bytes(data[at : at + 8], "little")
        h = (_rotl(h ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= len(data):
        h = (_rotl(h ^ (int.from_bytes(data[at : at + 4], "little") * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        h = _rotl(h ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    h = (h ^ (h >> 33)) * _P2 & _MASK
    h = (h ^ (h >> 29)) * _P3 & _MASK
    return h ^ (h >> 32)


# --- §1 Weight types -------------------------------------------------------------------------

ROWS, TILED = 0, 1


@dataclass(frozen=True)
class Type:
    id: int
    name: str
    block: int  # weights
    bytes: int  # of a row-major block
    step: int = 0  # columns of a tile; 0: never tiled
    tile: int = 0  # bytes
    scale: str = ""  # type of its scales
    minima: bool = False  # a minimum after each scale, unsigned weights
    specified: bool = True  # whether docs/FORMAT.md specifies the contents of a block
    factors: int = 0  # number of signed bytes with factors of the scales of a block (and as many of its minima)
    codes: tuple = ()  # weights of the codes 0 to 7, in units
    unit: float = 1.0


TYPES = [
    Type(0, "f32", 1, 4),
    Type(1, "f16", 1, 2),
    Type(2, "bf16", 1, 2),
    Type(3, "bq4_16", 16, 12, 32, 192, "<f4"),
    Type(4, "bq4_32", 32, 20, 32, 160, "<f4"),
    Type(5, "bq4_64", 64, 36, 64, 288, "<f4"),
    Type(6, "bq4h_32", 32, 18, 32, 144, "<f2"),
    Type(7, "bq4a_32", 32, 20, 32, 160, "<f2", minima=True),
    Type(8, "bq8_32", 32, 34, 32, 272, "<f2"),
    Type(9, "q2s_64", 64, 20, specified=False),
    Type(10, "q2a_64", 64, 20, specified=False),
    Type(11, "q3a_64", 64, 28, specified=False),
    Type(12, "q4a_64", 64, 36, specified=False),
    Type(13, "tern_64", 64, 18, specified=False),
    Type(14, "q4_0", 32, 18, scale="<f2"),
    Type(15, "q4_1", 32, 20, scale="<f2", minima=True),
    Type(16, "q8_0", 32, 34, scale="<f2"),
    Type(17, "q5_0", 32, 22, scale="<f2"),
    Type(18, "q5_1", 32, 24, scale="<f2", minima=True),
    Type(19, "q2_k", 256, 84, scale="<f2", minima=True),
    Type(20, "q3_k", 256, 110, scale="<f2"),
    Type(21, "q4_k", 256, 144, scale="<f2", minima=True),
    Type(22, "q5_k", 256, 176, scale="<f2", minima=True),
    Type(23, "q6_k", 256, 210, scale="<f2"),
    Type(24, "iq4_nl", 32, 18, scale="<f2"),
    Type(25, "bq4k_16", 256, 146, 256, 1168, "<f2", factors=16),
    Type(26, "bq4ka_16", 256, 164, 256, 1312, "<f2", minima=True, factors=16),
    Type(27, "bq4ka_32", 256, 148, 256, 1184, "<f2", minima=True, factors=8),
    Type(28, "bq7a_32", 32, 36, 32, 288, "<f2", minima=True),
    Type(29, "bq7ka_32", 256, 276, 256, 2208, "<f2", minima=True, factors=8),
    Type(30, "bq7k_16", 256, 274, 256, 2192, "<f2", factors=16),
    Type(31, "iq4_xs", 256, 136, scale="<f2"),
    Type(32, "bq8k_32", 256, 266, 256, 2128, "<f2", factors=8),
    Type(33, "bq3a_64", 64, 28, 64, 224, "<f2", minima=True),
    Type(34, "bq2a_64", 64, 20, 64, 160, "<f2", minima=True),
    Type(35, "bq2_64", 64, 18, 64, 144, "<f2"),
    Type(36, "bqt_64", 64, 18, 64, 144, "<f2"),
    Type(37, "bqc2k_16", 256, 146, 256, 1168, "<f2", factors=16, codes=(8, 25, 43, 1, 7, 9, 0, 0), unit=1 / 8),
    Type(38, "bqc3k_16", 256, 146, 256, 1168, "<f2", factors=16, codes=(2, 6, 10, 14, 18, 22, 26, 31), unit=1 / 2),
    Type(39, "bqc3sk_16", 256, 146, 256, 1168, "<f2", factors=16, codes=(1, 3, 5, 7, 9, 11, 13, 15)),
    Type(40, "bqf4_16", 16, 10, 32, 160, "<f2", codes=(0, 1, 2, 3, 4, 6, 8, 12)),
]
BY_ID = {t.id: t for t in TYPES}
BY_NAME = {t.name: t for t in TYPES}


def up(n, unit):
    return -(-n // unit)


def stored_bytes(kind, layout, rows, cols):
    if layout == TILED:
        require(kind.step, f"{kind.name} is never tiled")
        return up(rows, 8) * up(cols, kind.step) * kind.tile
    return rows * up(cols, kind.block) * kind.bytes


def finite(values, name):
    require(np.isfinite(values).all(), f"{name}: a number is NaN or infinite")
    return values


def floats(kind, data):
    """Decodes a float type to f32."""
    if kind.name == "f32":
        return np.frombuffer(data, "<f4").copy()
    if kind.name == "f16":
        return np.frombuffer(data, "<f2").astype(np.float32)
    return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)


IQ4_NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def weighed(q, scales, minima=None):
    """q [blocks][weights], numbers [blocks][numbers]: each number belongs to the same number of weights."""
    weights_per_scale = q.shape[1] // scales.shape[1]
    w = q.astype(np.float32) * np.repeat(scales, weights_per_scale, axis=1)
    return w if minima is None else w + np.repeat(minima, weights_per_scale, axis=1)


def two_bits(packed):
    """Unpacks 32 bytes: four times 32 weights of two bits each."""
    packed = packed.reshape(len(packed), -1, 1, 32)
    return (packed >> np.array([0, 2, 4, 6], np.uint8).reshape(4, 1) & 3).reshape(len(packed), -1).astype(np.int32)


def nibbles(packed, run):
    """Unpacks `run` bytes: `run` weights in the low nibbles, then `run` weights in the high ones."""
    packed = packed.reshape(len(packed), -1, run)
    return np.concatenate([packed & 15, packed >> 4], axis=2).reshape(len(packed), -1).astype(np.int32)


def single_bits(packed):
    """Unpacks 32 bytes: bit j of byte i belongs to weight 32 j + i."""
    return (packed[:, None, :] >> np.arange(8, dtype=np.uint8)[None, :, None] & 1).reshape(len(packed), -1).astype(np.int32)


def factors_of_6_bits(p):
    """Unpacks 12 bytes: 8 factors of scales, 8 of minima."""
    low = np.concatenate([p[:, :4] & 63, p[:, 8:] & 15 | p[:, :4] >> 6 << 4], axis=1)
    high = np.concatenate([p[:, 4:8] & 63, p[:, 8:] >> 4 | p[:, 4:8] >> 6 << 4], axis=1)
    return low.astype(np.float32), high.astype(np.float32)


def k_blocks(kind, raw, name):
    at = {"q2_k": 80, "q3_k": 108, "q6_k": 208}.get(kind.name, 0)
    numbers = np.ascontiguousarray(raw[:, at : at + (4 if kind.minima else 2)]).view("<f2").astype(np.float32)
    d, dmin = finite(numbers, name)[:, :1], -numbers[:, 1:]
    if kind.name == "q2_k":
        scale, minimum = (raw[:, :16] & 15).astype(np.float32), (raw[:, :16] >> 4).astype(np.float32)
        return weighed(two_bits(raw[:, 16:80]), d * scale, dmin * minimum)
    if kind.name == "q3_k":
        f = raw[:, 96:108].astype(np.int32)
        low = np.concatenate([f[:, :8] & 15, f[:, :8] >> 4], axis=1)
        high = np.concatenate([f[:, 8:] >> shift & 3 for shift in (0, 2, 4, 6)], axis=1)
        q = two_bits(raw[:, 32:96]) + 4 * single_bits(raw[:, :32]) - 4
        return weighed(q, d * (low + 16 * high - 32).astype(np.float32))
    if kind.name == "q6_k":
        q = nibbles(raw[:, :128], 64) + 16 * two_bits(raw[:, 128:192]) - 32
        return weighed(q, d * raw[:, 192:208].view(np.int8).astype(np.float32))
    if kind.name == "iq4_xs":
        f = raw[:, 2:8].astype(np.int32)
        low = np.stack([f[:, 2:] & 15, f[:, 2:] >> 4], axis=2).reshape(-1, 8)
        high = np.concatenate([f[:, i : i + 1] >> np.array([0, 2, 4, 6]) & 3 for i in (0, 1)], axis=1)
        return weighed(np.array(IQ4_NL)[nibbles(raw[:, 8:], 16)], d * (low + 16 * high - 32).astype(np.float32))
    scale, minimum = factors_of_6_bits(raw[:, 4:16])
    q = nibbles(raw[:, -128:], 32)
    if kind.name == "q5_k":
        q += 16 * single_bits(raw[:, 16:48])
    return weighed(q, d * scale, dmin * minimum)


def gguf_blocks(kind, raw, name):
    """Decodes a scale, a minimum, then weights: weight i in low nibbles, weight 16 + i in high ones."""
    if kind.block == 256:
        return k_blocks(kind, raw, name)
    head = 4 if kind.minima else 2
    scales = finite(np.ascontiguousarray(raw[:, :head]).view("<f2").astype(np.float32), name)
    packed = raw[:, head:]
    if kind.name == "q8_0":
        q = packed.view(np.int8)
    elif kind.name == "iq4_nl":
        q = np.array(IQ4_NL)[nibbles(packed, 16)]
    elif kind.name in ("q5_0", "q5_1"):
        fifth = np.unpackbits(packed[:, :4], axis=1, bitorder="little").astype(np.int32)
        q = nibbles(packed[:, 4:], 16) + 16 * fifth - (0 if kind.minima else 16)
    else:
        q = nibbles(packed, 16) - (0 if kind.minima else 8)
    return weighed(q, scales[:, :1], scales[:, 1:] if kind.minima else None)


def imported_blocks(kind, raw, name):
    """Decodes types 25 to 32, and codes with factors: weights in the order of tiles, factors, numbers."""
    size = 4 if kind.minima else 2
    numbers = finite(np.ascontiguousarray(raw[:, -size:]).view("<f2").astype(np.float32), name)
    weights = kind.bytes - size - kind.factors * (2 if kind.minima else 1)
    packed = raw[:, :weights]
    if kind.name == "bq8k_32":
        q = packed.view(np.int8).astype(np.int32)
    else:
        q = (packed & 127).astype(np.int32) if weights == kind.block else nibbles(packed, 16)
        if kind.codes:
            q = decoded(kind, q)
        else:
            q -= 0 if kind.minima else 64 if weights == kind.block else 8
    if not kind.factors:
        return weighed(q, numbers[:, :1], numbers[:, 1:])
    factors = raw[:, weights:-size].view(np.int8).astype(np.float32)
    n = kind.factors
    minima = numbers[:, 1:] * factors[:, n:] if kind.minima else None
    return weighed(q, numbers[:, :1] * factors[:, :n], minima)


def decoded(kind, codes):
    """Returns the weights of codes; codes 8 to 15 are the negated weights of codes 0 to 7."""
    table = np.array(kind.codes)
    return np.concatenate([table, -table])[codes] * np.float32(kind.unit)


def small(kind, groups):
    """Returns q of small weights: groups [...][run of 32][group][i] of bytes -> [...][weight]."""
    if kind.name == "bq3a_64":
        a, b, c = (groups[..., i, :].astype(np.int32) for i in range(3))
        first = [x & 7 for x in (a, b, c)] + [a >> 6 | (c >> 6 & 1) << 2]
        second = [x >> 3 & 7 for x in (a, b, c)] + [b >> 6 | (c >> 7) << 2]
    else:
        g = groups.astype(np.int32)
        first = [g[..., j // 2, :] >> j % 2 * 4 & 3 for j in range(4)]
        second = [g[..., j // 2, :] >> j % 2 * 4 + 2 & 3 for j in range(4)]
    rearranged = np.stack(first + second, axis=-2)  # [...][run][quad][i]
    q = rearranged.reshape(*rearranged.shape[:-3], -1)
    return 2 * q - 3 if kind.name == "bq2_64" else q - 1 if kind.name == "bqt_64" else q


def blocks(kind, data, name):
    """Returns [number of blocks][weights per block] of a run of row-major blocks."""
    raw = np.frombuffer(data, np.uint8).reshape(-1, kind.bytes)
    if not kind.step:
        return gguf_blocks(kind, raw, name)
    if 33 <= kind.id <= 36:
        size = 4 if kind.minima else 2
        numbers = finite(np.ascontiguousarray(raw[:, -size:]).view("<f2").astype(np.float32), name)
        q = small(kind, raw[:, :-size].reshape(len(raw), 2, -1, 4))
        return weighed(q, numbers[:, :1], numbers[:, 1:] if kind.minima else None)
    if kind.factors or 25 <= kind.id <= 32:
        return imported_blocks(kind, raw, name)
    size = np.dtype(kind.scale).itemsize * (2 if kind.minima else 1)
    scale = np.ascontiguousarray(raw[:, -size:]).view(kind.scale).astype(np.float32)
    packed = raw[:, :-size]
    if kind.minima:
        q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(raw), kind.block)
        return q.astype(np.float32) * finite(scale, name)[:, :1] + scale[:, 1:]
    if kind.name == "bq8_32":
        q = packed.view(np.int8).astype(np.int32)
    else:
        q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(raw), kind.block).astype(np.int32)
        q = decoded(kind, q) if kind.codes else np.where(q > 7, q - 16, q)
    return q.astype(np.float32) * finite(scale, name)


def numbers_of(kind, tiles, name):
    """Returns [scales, minima][group][tile][row][weight of the step], and the offset of the weights."""
    groups, steps = tiles.shape[:2]
    numbers_per_block = 2 if kind.minima else 1
    per_row = 1 if kind.factors else kind.step // kind.block
    at = 8 * per_row * np.dtype(kind.scale).itemsize * numbers_per_block
    numbers = np.ascontiguousarray(tiles[:, :, :at]).view(kind.scale).astype(np.float32)
    numbers = finite(numbers, name).reshape(groups, steps, numbers_per_block, per_row, 8)
    if kind.factors:
        end = at + 8 * kind.factors * numbers_per_block
        factors = np.ascontiguousarray(tiles[:, :, at:end]).view(np.int8).astype(np.float32)
        numbers = numbers * factors.reshape(groups, steps, numbers_per_block, kind.factors, 8)
        at = end
    numbers = numbers.transpose(2, 0, 1, 4, 3)
    return np.repeat(numbers, kind.step // numbers.shape[-1], axis=4), at


def untile(kind, data, rows, cols, name):
    groups, steps = up(rows, 8), up(cols, kind.step)
    tiles = np.frombuffer(data, np.uint8).reshape(groups, steps, kind.tile)
    scales, at = numbers_of(kind, tiles, name)
    body = tiles[:, :, at:]
    bytewise = body.shape[2] == 8 * kind.step
    runs = kind.step // 32
    if 33 <= kind.id <= 36:
        q = small(kind, body.reshape(groups, steps, runs, -1, 8, 4).transpose(0, 1, 4, 2, 3, 5))
    elif bytewise:
        q = body.reshape(groups, steps, runs, 8, 2, 4, 4).astype(np.int32)  # [run of 32][j][h][r][i]
        eight_bits = kind.name.startswith("bq8")
        require(eight_bits or q.max() < 128, f"{name}: a weight of 7 bits has 8")
        q -= 0 if kind.minima else 128 if eight_bits else 64
        q = q.transpose(0, 1, 4, 5, 2, 3, 6).reshape(groups, steps, 8, kind.step)  # row 4h + r, k = 4j + i
    else:
        packed = body.reshape(groups, steps, runs, 4, 2, 4, 4)  # [run of 32][j][h][r][i]
        q = np.stack([packed & 15, packed >> 4], axis=3).astype(np.int32)  # [run][half][j][h][r][i]
        if kind.codes:
            q = decoded(kind, q)
        else:
            q -= 0 if kind.minima else 8
        q = q.transpose(0, 1, 5, 6, 2, 3, 4, 7).reshape(groups, steps, 8, kind.step)
    w = q.astype(np.float32) * scales[0]
    if kind.minima:
        w += scales[1]
    return w.transpose(0, 2, 1, 3).reshape(groups * 8, steps * kind.step)[:rows, :cols].copy()


def dequantize(kind, layout, data, rows, cols, name):
    require(kind.specified, f"{name}: the blocks of {kind.name} are not specified")
    if kind.block == 1:
        return finite(floats(kind, data), name).reshape(rows, cols)
    if layout == TILED:
        return untile(kind, data, rows, cols, name)
    return blocks(kind, data, name).reshape(rows, -1)[:, :cols].copy()


# --- CONF and the name table -----------------------------------------------------------------

U32, F32 = 0, 1
# key: (name, kind, needed, minimum, maximum)
CONF_KEYS = {
    1: ("arch", U32, True, 1, 65535),
    2: ("layers", U32, True, 1, 1024),
    3: ("hidden", U32, True, 1, 65536),
    4: ("heads", U32, True, 1, 1024),
    5: ("kv_heads", U32, False, 1, 1024),
    6: ("head_dim", U32, False, 1, 4096),
    7: ("ffn", U32, True, 0, 1 << 20),
    8: ("vocab", U32, True, 1, 1 << 24),
    9: ("context", U32, True, 1, 1 << 24),
    10: ("norm", U32, False, 0, 1),
    11: ("norm_eps", F32, True, 0.0, None),
    12: ("position", U32, False, 0, 3),
    13: ("rope_theta", F32, False, 0.0, None),
    14: ("rope_pairs", U32, False, 0, 1),
    15: ("rope_dim", U32, False, 1, 4096),
    16: ("activation", U32, False, 0, 4),
    17: ("gated", U32, False, 0, 1),
    18: ("tied", U32, False, 0, 1),
    19: ("norm_place", U32, False, 0, 3),
    20: ("block", U32, False, 0, 2),
    21: ("qk_norm", U32, False, 0, 4),
    22: ("window", U32, False, 0, 1 << 24),
    23: ("global_every", U32, False, 0, 1024),
    24: ("unrotated_every", U32, False, 0, 1024),
    25: ("local_theta", F32, False, 0.0, None),
    26: ("attn_scale", F32, False, 0.0, None),
    27: ("attn_softcap", F32, False, 0.0, None),
    28: ("logit_softcap", F32, False, 0.0, None),
    29: ("embed_scale", F32, False, 0.0, None),
    30: ("residual_scale", F32, False, 0.0, None),
    31: ("logit_scale", F32, False, 0.0, None),
    34: ("bidirectional", U32, False, 0, 1),
    35: ("embed_norm", U32, False, 0, 1),
    36: ("token_types", U32, False, 0, 65536),
    37: ("rope_scale", F32, False, 0.0, None),
    38: ("rope_original", U32, False, 0, 1 << 24),
    39: ("alibi_max", F32, False, 0.0, None),
    40: ("alibi_scale", F32, False, 0.0, None),
    41: ("qkv_clip", F32, False, 0.0, None),
    50: ("no_head", U32, False, 0, 1),
    51: ("pooling", U32, False, 0, 3),
    52: ("normalize", U32, False, 0, 1),
    53: ("text_tokens", U32, False, 0, 1 << 24),
    54: ("experts", U32, False, 0, 1024),
    55: ("experts_used", U32, False, 0, 64),
    56: ("expert_ffn", U32, False, 0, 1 << 20),
    57: ("shared_ffn", U32, False, 0, 1 << 20),
    58: ("experts_sum", U32, False, 0, 1),
    59: ("conv_size", U32, False, 0, 16),
    42: ("state_key_heads", U32, False, 0, 1024),
    43: ("state_value_heads", U32, False, 0, 1024),
    44: ("state_key_dim", U32, False, 0, 256),
    45: ("state_value_dim", U32, False, 0, 256),
    46: ("state_strided", U32, False, 0, 1),
    47: ("attn_gate", U32, False, 0, 2),
    48: ("mamba", U32, False, 0, 3),
    49: ("attn_beside", U32, False, 0, 1),
    194: ("shared_always", U32, False, 0, 1),
    195: ("global_head_dim", U32, False, 0, 4096),
    196: ("global_kv_heads", U32, False, 0, 1024),
    197: ("shared_kv", U32, False, 0, 1024),
    198: ("shared_kv_ffn", U32, False, 0, 1 << 20),
    199: ("value_norm", U32, False, 0, 1),
    200: ("keys_as_values", U32, False, 0, 1),
    201: ("layer_scale", U32, False, 0, 1),
    202: ("layer_embed", U32, False, 0, 4096),
    203: ("experts_sigmoid", U32, False, 0, 1),
    204: ("layer_embed_projected", U32, False, 0, 1),
    205: ("sub_norms", U32, False, 0, 1),
    206: ("local_rope_dim", U32, False, 0, 4096),
    207: ("attn_sinks", U32, False, 0, 1),
    32: ("tokens", U32, False, 0, None),
    33: ("merges", U32, False, 0, None),
}
# first key: sets of layers, of 32 words each
CONF_SETS = {64: "global_layers", 96: "unrotated_layers", 128: "dense_layers", 160: "conv_layers"}
LATER = tuple(CONF_KEYS[key][0] for key in (*range(19, 32), *range(34, 60), *range(194, 208)))
ZERO_BY_DEFAULT = ("norm", "position", "rope_pairs", "activation", "tied", "tokens", "merges", *LATER)


def complete_config(c):
    """Fills in defaults and checks relations of the values."""
    for name, _, needed, minimum, maximum in CONF_KEYS.values():
        if name not in c:
            require(not needed, f"CONF lacks {name}")
            continue
        require(c[name] >= minimum and (maximum is None or c[name] <= maximum), f"CONF: {name} is {c[name]}")
    for name in ZERO_BY_DEFAULT:
        c.setdefault(name, 0)
    c.setdefault("rope_theta", 10000.0)
    c.setdefault("gated", 1)
    c.setdefault("kv_heads", c["heads"])
    require(c["heads"] % c["kv_heads"] == 0, "CONF: kv_heads does not divide heads")
    if "head_dim" not in c:
        require(c["hidden"] % c["heads"] == 0, "CONF: heads does not divide hidden")
        c["head_dim"] = c["hidden"] // c["heads"]
    require(1 <= c["head_dim"] <= 4096 and c["heads"] * c["head_dim"] <= 1 << 20, "CONF: heads x head_dim is too large")
    c.setdefault("rope_dim", c["head_dim"])
    if c["position"] == 0:
        require(c["rope_dim"] % 2 == 0 and c["rope_dim"] <= c["head_dim"], "CONF: rope_dim")
    for name, kind, *_ in CONF_KEYS.values():
        require(kind != F32 or np.isfinite(c[name]), f"CONF: {name} is not finite")
    require(c["norm_place"] != 3 or c["block"] == 0, "CONF: norm_place and block")
    if c["experts"]:
        require(1 <= c["experts_used"] <= c["experts"] and c["block"] == 0, "CONF: experts")
        c["expert_ffn"] = c["expert_ffn"] or c["ffn"]
    else:
        require(not any(c[name] for name in ("experts_used", "expert_ffn", "shared_ffn", "experts_sum")), "CONF: keys of experts")
    require(c["ffn"] or not (c["experts"] or c["block"]), "CONF: ffn")
    require(c["shared_ffn"] or not c["shared_always"], "CONF: shared_always")
    require(c["state_value_heads"] or not c["mamba"], "CONF: mamba")
    require(not c["local_rope_dim"] or (c["local_rope_dim"] % 2 == 0 and c["local_rope_dim"] <= c["head_dim"] and c["position"] == 0 and c["local_theta"]), "CONF: local_rope_dim")
    require(not (c["attn_gate"] == 1 and c["qk_norm"] == 2), "CONF: attn_gate and qk_norm")
    require(not c["attn_beside"] or (c["mamba"] and c["norm_place"] == 0), "CONF: attn_beside")
    require(c["conv_size"] != 1 and not (c["conv_size"] and (c["block"] or c["bidirectional"])), "CONF: conv_size")
    require(not (c["no_head"] and c["tied"]), "CONF: no_head and tied")
    for name, means in (("global_layers", c["window"] and not c["global_every"]),
                        ("unrotated_layers", c["position"] == 0 and not c["unrotated_every"]), ("dense_layers", c["experts"]), ("conv_layers", c["conv_size"])):
        c[name] = sorted(c.get(name, []))
        require(not c[name] or means, f"CONF: {name} without meaning")
        require(not c[name] or c[name][-1] < c["layers"], f"CONF: {name} past the last layer")
    require(c["text_tokens"] <= c["context"], "CONF: text_tokens")
    require(c["rope_theta"] > 0, "CONF: rope_theta")
    require(c["tokens"] <= c["vocab"], "CONF: more tokens than the vocabulary")
    require(c["tokens"] or not c["merges"], "CONF: merges without tokens")
    return c


def read_conf(payload):
    require(len(payload) % 8 == 0, "CONF is not made of records")
    c, words = {}, set()
    for at in range(0, len(payload), 8):
        key, kind, flags = struct.unpack_from("<HBB", payload, at)
        require(flags in (0, 1), "CONF: unknown flags")
        if key & ~31 in CONF_SETS:
            require(kind == U32, f"CONF: key {key} has the wrong kind")
            require(key not in words, f"CONF: key {key} appears twice")
            words.add(key)
            word = struct.unpack_from("<I", payload, at + 4)[0]
            c.setdefault(CONF_SETS[key & ~31], []).extend(32 * (key & 31) + bit for bit in range(32) if word >> bit & 1)
            continue
        if key not in CONF_KEYS:
            require(flags == 0, f"CONF: key {key} is required but unknown")
            continue
        name, value_kind = CONF_KEYS[key][:2]
        require(kind == value_kind, f"CONF: {name} has the wrong kind")
        require(name not in c, f"CONF: {name} appears twice")
        c[name] = struct.unpack_from("<f" if kind == F32 else "<I", payload, at + 4)[0]
    return complete_config(c)


def expected_tensors(c):
    """Returns name -> (shape, needed) of every tensor that a model of this configuration can have."""
    hidden, ffn, vocab = c["hidden"], c["ffn"], c["vocab"]
    q, kv = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    layer_norm = c["norm"] == 1
    out = {"wte.weight": ((vocab, hidden), True)}
    if c["position"] == 1:
        out["wpe.weight"] = ((c["context"], hidden), True)

    def norm(name, size=hidden):
        out[f"{name}.weight"] = ((size,), True)
        if layer_norm:
            out[f"{name}.bias"] = ((size,), False)

    def mlp(name, inner):
        if c["gated"]:
            linear(f"{name}.gate", inner, hidden)
        linear(f"{name}.up", inner, hidden)
        if c["sub_norms"]:
            norm(f"{name}.sub_norm", inner)
        linear(f"{name}.down", hidden, inner)

    def linear(name, rows, cols):
        out[f"{name}.weight"] = ((rows, cols), True)
        out[f"{name}.bias"] = ((rows,), False)
        out[f"{name}.scale"] = ((rows,), False)

    if c["token_types"]:
        out["wtt.weight"] = ((c["token_types"], hidden), True)
    if c["embed_norm"]:
        norm("ln_0")
    if c["position"] == 0:
        n_factors = (c["global_head_dim"] or c["rope_dim"]) // 2
        out["rope.factors"] = ((n_factors,), False)
        if c["local_theta"]:
            out["rope.local_factors"] = ((c["rope_dim"] // 2,), False)
        if c["rope_original"]:
            out["rope.long_factors"] = ((n_factors,), True)
    if c["layer_embed"]:
        embeds = c["layers"] * c["layer_embed"]
        if not c["layer_embed_projected"]:
            out["embed.layers.weight"] = ((vocab, embeds), True)
        out["embed.project.weight"] = ((embeds, hidden), True)
        norm("embed.norm", c["layer_embed"])
    has_pre_norm, has_post_norm = c["norm_place"] in (0, 2), c["norm_place"] != 0
    for i in range(c["layers"]):
        shares = i >= c["layers"] - c["shared_kv"]
        seeing = not c["window"] or (c["global_every"] > 0 and (i + 1) % c["global_every"] == 0) or i in c.get("global_layers", ())
        dim = c["global_head_dim"] or c["head_dim"] if seeing else c["head_dim"]
        q, kv = c["heads"] * dim, (c["global_kv_heads"] or c["kv_heads"] if seeing else c["kv_heads"]) * dim
        if has_pre_norm:
            norm(f"h.{i}.ln1")
        values = c["state_value_heads"] * c["state_value_dim"]
        channels = 2 * c["state_key_heads"] * c["state_key_dim"] + values
        if i in c["conv_layers"] and c["mamba"]:
            linear(f"h.{i}.mamba.in", values + channels + c["state_value_heads"], hidden)
            for name, size in (("taps", channels * c["conv_size"]), ("bias", channels), *((one, c["state_value_heads"]) for one in ("dt", "decay", "skip")),
                               *([("norm", values)] if c["mamba"] != 1 else [])):
                out[f"h.{i}.mamba.{name}.weight"] = ((size,), True)
            linear(f"h.{i}.mamba.out", hidden, values)
        elif i in c["conv_layers"] and c["state_value_heads"]:
            linear(f"h.{i}.delta.in", channels, hidden)
            linear(f"h.{i}.delta.z", values, hidden)
            linear(f"h.{i}.delta.a", c["state_value_heads"], hidden)
            linear(f"h.{i}.delta.b", c["state_value_heads"], hidden)
            for name, size in (("taps", channels * c["conv_size"]), ("dt", c["state_value_heads"]), ("decay", c["state_value_heads"]), ("norm", c["state_value_dim"])):
                out[f"h.{i}.delta.{name}.weight"] = ((size,), True)
            linear(f"h.{i}.delta.out", hidden, values)
        elif i in c["conv_layers"]:
            linear(f"h.{i}.conv.in", 3 * hidden, hidden)
            out[f"h.{i}.conv.taps.weight"] = ((hidden * c["conv_size"],), True)
            linear(f"h.{i}.conv.out", hidden, hidden)
        if i not in c["conv_layers"] or c["attn_beside"]:
            linear(f"h.{i}.attn.q", 2 * q if c["attn_gate"] == 1 else q, hidden)
            if c["attn_gate"] == 2:
                linear(f"h.{i}.attn.gate", c["heads"], hidden)
            if not shares:
                linear(f"h.{i}.attn.k", kv, hidden)
                if not (seeing and c["keys_as_values"]):
                    linear(f"h.{i}.attn.v", kv, hidden)
            if c["qk_norm"]:
                norm(f"h.{i}.attn.q_norm", q if c["qk_norm"] in (2, 3) else dim)
                if not shares:
                    norm(f"h.{i}.attn.k_norm", kv if c["qk_norm"] in (2, 3) else dim)
            if c["attn_sinks"]:
                out[f"h.{i}.attn.sinks.weight"] = ((c["heads"],), True)
            if c["sub_norms"]:
                norm(f"h.{i}.attn.sub_norm", q)
            linear(f"h.{i}.attn.o", hidden, q)
        if has_post_norm:
            norm(f"h.{i}.ln1_post")
        if not ffn:
            continue
        if has_pre_norm and c["block"] != 2:
            norm(f"h.{i}.ln2")
        if c["experts"] and i not in c["dense_layers"]:
            linear(f"h.{i}.mlp.router", c["experts"], hidden)
            for name, rows, cols in (("gate", c["expert_ffn"], hidden), ("up", c["expert_ffn"], hidden), ("down", hidden, c["expert_ffn"])):
                if c["gated"] or name != "gate":
                    out[f"h.{i}.mlp.experts.{name}.weight"] = ((c["experts"], rows, cols), True)
            out[f"h.{i}.mlp.experts.down.bias"] = ((hidden,), False)
            if c["shared_ffn"]:
                if not c["shared_always"]:
                    linear(f"h.{i}.mlp.shared.switch", 1, hidden)
                mlp(f"h.{i}.mlp.shared", c["shared_ffn"])
        else:
            mlp(f"h.{i}.mlp", shares and c["shared_kv_ffn"] or ffn)
        if has_post_norm:
            norm(f"h.{i}.ln2_post")
        if c["layer_embed"]:
            linear(f"h.{i}.embed.gate", c["layer_embed"], hidden)
            linear(f"h.{i}.embed.out", hidden, c["layer_embed"])
            norm(f"h.{i}.embed.post")
        if c["layer_scale"]:
            out[f"h.{i}.layer_scale.weight"] = ((1,), True)
    if c["norm_place"] != 3:
        norm("ln_f")
    if c["no_head"]:
        return out
    if not c["tied"]:
        out["lm_head.weight"] = ((vocab, hidden), True)
    out["lm_head.bias"] = ((vocab,), False)
    return out


FUSED = {"attn.qkv": ("attn.q", "attn.k", "attn.v"), "mlp.gate_up": ("mlp.gate", "mlp.up")}


def single(shapes, expected):
    """Returns `shapes` with every fused tensor as its separate tensors."""
    out = {}
    for name, shape in shapes.items():
        start, _, ending = name.rpartition(".")
        layer = re.match(r"h\.\d+\.", start)
        parts = FUSED.get(start[layer.end() :]) if layer else None
        result = {name: shape}
        if parts:
            names = [f"{layer[0]}{part}.{ending}" for part in parts]
            require(all(n in expected for n in names), f"no tensor of this model is called {name}")
            rows = sum(expected[n][0][0] for n in names)
            require(shape == (rows, *expected[names[0]][0][1:]), f"{name} is {shape}")
            result = {n: expected[n][0] for n in names}
        require(not result.keys() & out.keys(), f"{name} appears twice")
        out |= result
    return out


def check_names(config, shapes):
    """Checks shapes: name -> shape in the file."""
    expected = expected_tensors(config)
    shapes = single(shapes, expected)
    for name, shape in shapes.items():
        require(name in expected, f"no tensor of this model is called {name}")
        require(shape == expected[name][0], f"{name} is {shape}, not {expected[name][0]}")
    for name, (_, needed) in expected.items():
        require(name in shapes or not needed, f"{name} is missing")


# --- TOKN ------------------------------------------------------------------------------------


def split_item_valid(item):
    """Whether an item of the program that splits text into words is valid."""
    classes, minimum, maximum, flags = item[:4]
    points, end = struct.unpack("<4I", item[4:20]), struct.unpack("<2I", item[24:])
    ends = flags & 6
    valid = classes < 16 and flags < 8 and item[20] < 16 and not any(item[21:24])
    for row in (points, end):
        used = [p for p in row if p != 0xFFFFFFFF]
        valid = valid and all(p <= 0x10FFFF for p in used) and list(row[: len(used)]) == used
    valid = valid and (minimum <= maximum and not ends if maximum else minimum <= 1)
    return valid and (not ends or (minimum == 1 and ends != 6))


def read_tokn(payload, config):
    require(len(payload) >= 44, "TOKN is cut off")
    head = struct.unpack_from("<11I", payload)
    kind, flags, pre, bos, eos, unk, pad, n_ends, n_tokens, n_merges, n_text = head
    require(kind in (1, 2, 3) and flags < 32 and pre <= (kind == 2), "TOKN: kind, flags or pre-tokenizer")
    require((n_tokens, n_merges) == (config["tokens"], config["merges"]), "TOKN and CONF differ")
    at = 44
    if pre:
        normalizer, n_items = struct.unpack_from("<2I", payload, at)
        require(normalizer == 0, "TOKN: normalizer")
        require(1 <= n_items <= 48 and len(payload) >= 52 + 32 * n_items, "TOKN: items of the pre-tokenizer")
        items = [payload[52 + 32 * i : 84 + 32 * i] for i in range(n_items)]
        require(all(split_item_valid(item) for item in items) and items[-1][3] & 1, "TOKN: the pre-tokenizer")
        at += 8 + 32 * n_items
    kinds_end = at + 4 * n_ends + 9 * n_tokens
    merges_at = up(kinds_end, 4) * 4
    require(len(payload) == merges_at + 12 * n_merges + n_text, "TOKN has the wrong length")
    eog = struct.unpack_from(f"<{n_ends}I", payload, at)
    at += 4 * n_ends
    ends = struct.unpack_from(f"<{n_tokens}I", payload, at)
    at += 4 * n_tokens
    scores = struct.unpack_from(f"<{n_tokens}f", payload, at)
    at += 4 * n_tokens
    kinds = payload[at : at + n_tokens]
    require(all(k <= 5 for k in kinds) and not any(payload[kinds_end:merges_at]), "TOKN: kinds")
    merges = list(struct.iter_unpack("<3I", payload[merges_at : merges_at + 12 * n_merges]))
    text = payload[merges_at + 12 * n_merges :]
    starts = (0, *ends[:-1])
    require(all(a <= b for a, b in zip(starts, ends)) and (ends or (0,))[-1] == n_text, "TOKN: ends")
    for id in (bos, eos, unk, pad):
        require(id < n_tokens or id == 0xFFFFFFFF, "TOKN: a special token is out of range")
    require(all(id < n_tokens for id in eog), "TOKN: no such token ends generation")
    require(not any(np.isnan(scores)), "TOKN: a score is NaN")
    tokens = [(text[a:b], score, k) for a, b, score, k in zip(starts, ends, scores, kinds)]
    require(all(k != 5 or len(t) == 1 for t, _, k in tokens), "TOKN: a byte token is not one byte")
    for left, right, id in merges:
        require(max(left, right, id) < n_tokens, "TOKN: a merge names no token")
        require(tokens[left][0] + tokens[right][0] == tokens[id][0], "TOKN: a merge spells something else")
    return {"kind": kind, "flags": flags, "bos": bos, "eos": eos, "unk": unk, "pad": pad, "eog": list(eog),
            "tokens": tokens, "merges": merges}


# --- §2 v2 -----------------------------------------------------------------------------------

PLAN_TAGS = {"CONF", "LICE", "TENS", "NAME"}
REST_TAGS = {"TOKN", "CHAT", "TMPL", "CARD", "ACTQ", "HASH"}
CHUNK = 1 << 20


@dataclass
class Model:
    version: int
    config: dict
    tensors: dict = field(default_factory=dict)  # name -> f32 array
    stored: dict = field(default_factory=dict)  # name -> (type name, layout)
    sections: dict = field(default_factory=dict)  # tag -> payload
    tokenizer: dict | None = None
    activations: dict | None = None  # ACTQ: name of a matrix -> step
    verified_chunks: int = 0


def read_sections(data, start, end, known_tags, misplaced_tags, result):
    at = start
    while at < end:
        require(at + 16 <= end, "too few bytes for a section", at)
        tag, flags, length = struct.unpack_from("<4sIQ", data, at)
        require(all(0x21 <= b <= 0x7E for b in tag), "a tag is not printable", at)
        tag = tag.decode()
        require(flags in (0, 1), f"{tag}: unknown flags", at)
        require(flags == 0 or (tag in known_tags and tag != "ACTQ"), f"{tag} is required but unknown", at)
        require(tag not in misplaced_tags and tag != "SUM8", f"{tag} is in the wrong place", at)
        require(tag not in result, f"{tag} appears twice", at)
        require(length <= end - at - 16, f"{tag} is longer than its run", at)
        stop = at + 16 + length
        padded = up(stop, 8) * 8
        require(padded <= end and not any(data[stop:padded]), f"{tag}: padding", stop)
        result[tag] = data[at + 16 : stop]
        at = padded
    require(len(result) <= 64, "more than 64 sections")


def check_sum8(data, start, at):
    require(data[at : at + 16] == struct.pack("<4sIQ", b"SUM8", 0, 8), "no SUM8", at)
    require(struct.unpack_from("<Q", data, at + 16)[0] == xxh64(data[start:at]), "SUM8 does not match", at)


def find_last_sum(data, start, prefix_length):
    for at in range(prefix_length - 24, max(start, prefix_length - 24 - 63) - 1, -8):
        if data[at : at + 16] == struct.pack("<4sIQ", b"SUM8", 0, 8) and not any(data[at + 24 : prefix_length]):
            return at
    raise FormatError("the prefix does not end with SUM8", prefix_length)


def read_directory(payload, prefix_length, file_length):
    """Returns [(name, type, layout, dims, offset, bytes)]."""
    at = 0

    def take(layout):
        nonlocal at
        size = struct.calcsize(layout)
        require(at + size <= len(payload), "TENS is cut off")
        values = struct.unpack_from(layout, payload, at)
        at += size
        return values

    listed = {}
    (n_types,) = take("<I")
    require(n_types <= 256, "TENS: too many types")
    for _ in range(n_types):
        id, length = take("<BB")
        (name,) = take(f"<{length}s")
        require(id not in listed, "TENS: a type is listed twice")
        require(id not in BY_ID or BY_ID[id].name == name.decode("ascii", "replace"), f"TENS: type {id} is called {name}")
        listed[id] = name
    (n,) = take("<I")
    entries = []
    end = prefix_length
    for _ in range(n):
        (length,) = take("<H")
        require(1 <= length <= 255, "TENS: length of a name")
        name = text_of(take(f"<{length}s")[0])
        id, layout, ndims = take("<BBB")
        require(1 <= ndims <= 8, f"{name}: {ndims} dimensions")
        dims = take(f"<{ndims}I")
        offset, size = take("<QQ")
        require(id in listed, f"{name}: type {id} is not listed")
        require(id in BY_ID, f"{name}: unknown type {listed[id]}")
        require(layout in (ROWS, TILED), f"{name}: layout {layout}")
        require(offset % 64 == 0 and offset >= end, f"{name}: offset {offset}")
        end = offset + size
        require(end <= file_length, f"{name} ends behind the file")
        require(name not in {e[0] for e in entries}, f"{name} appears twice")
        entries.append((name, BY_ID[id], layout, dims, offset, size))
    require(at == len(payload), "TENS: bytes behind the last entry")
    return entries


def read_activations(payload):
    """Returns steps by the names of matrices."""
    require(len(payload) >= 4, "ACTQ is cut off")
    steps, at = {}, 4
    for _ in range(struct.unpack_from("<I", payload)[0]):
        require(at + 2 <= len(payload), "ACTQ is cut off")
        (length,) = struct.unpack_from("<H", payload, at)
        require(1 <= length <= 255 and at + 6 + length <= len(payload), "ACTQ: a name, or it is cut off")
        (step,) = struct.unpack_from("<f", payload, at + 2 + length)
        require(0 < step < np.inf, "ACTQ: a step is no positive number")
        steps[payload[at + 2 : at + 2 + length]] = step
        at += 6 + length
    require(at == len(payload), "ACTQ: bytes behind the last step")
    return steps


def check_chunks(data, prefix_length, payload):
    kind, chunk = struct.unpack_from("<II", payload)
    require(kind in (1, 2) and chunk == CHUNK, "HASH: kind or chunk size")
    count = up(len(data) - prefix_length, CHUNK)
    require(len(payload) == 8 + count * (8 if kind == 1 else 32), "HASH has the wrong length")
    for i in range(count):
        start = prefix_length + i * CHUNK
        chunk_bytes = bytes(data[start : start + CHUNK])
        if kind == 1:
            valid = xxh64(chunk_bytes).to_bytes(8, "little") == payload[8 + 8 * i : 16 + 8 * i]
        else:
            valid = hashlib.sha256(chunk_bytes).digest() == payload[8 + 32 * i : 40 + 32 * i]
        require(valid, f"chunk {i} does not match its hash", start)
    return count


def check_gaps(data, prefix_length, entries):
    at = prefix_length
    for _, _, _, _, offset, size in [*entries, (None, None, None, None, len(data), 0)]:
        require(not any(data[at:offset]), "bytes between tensors are not zero", at)
        at = offset + size


def read_v2(data):
    require(len(data) >= 64, "the header is cut off", len(data))
    minor, flags, plan_length, prefix_length, file_length = struct.unpack_from("<IIQQQ", data, 8)
    require(struct.unpack_from("<Q", data, 56)[0] == xxh64(data[:56]), "the header's checksum", 56)
    require(minor == 0 and flags == 0, "minor version or flags", 8)
    require(plan_length % 8 == 0 and 24 <= plan_length <= 16 << 20, "plan_length", 16)
    require(prefix_length % 64 == 0 and 64 + plan_length + 24 <= prefix_length <= 256 << 20, "prefix_length", 24)
    require(prefix_length <= file_length <= 1 << 53 and file_length == len(data), "file_length", 32)
    plan_end = 64 + plan_length
    check_sum8(data, 64, plan_end - 24)
    sum_section = find_last_sum(data, plan_end, prefix_length)
    check_sum8(data, 0, sum_section)
    sections = {}
    read_sections(data, 64, plan_end - 24, PLAN_TAGS, REST_TAGS | {"XTRA"}, sections)
    read_sections(data, plan_end, sum_section, REST_TAGS, PLAN_TAGS | {"XTRA"}, sections)
    require("CONF" in sections and "TENS" in sections, "CONF or TENS is missing")
    model = Model(2, read_conf(sections["CONF"]), sections=sections)
    c, rest_bytes = model.config, prefix_length - plan_end
    require(not c["tokens"] or 44 + 9 * c["tokens"] + 12 * c["merges"] <= rest_bytes, "CONF: more tokens than fit")
    entries = read_directory(sections["TENS"], prefix_length, file_length)
    check_names(model.config, {name: dims for name, _, _, dims, _, _ in entries})
    if "ACTQ" in sections:
        model.activations = read_activations(sections["ACTQ"])
    if "HASH" in sections:
        model.verified_chunks = check_chunks(data, prefix_length, sections["HASH"])
    check_gaps(data, prefix_length, entries)
    for name, kind, layout, dims, offset, size in entries:
        rows, cols = (1, dims[0]) if len(dims) == 1 else (int(np.prod(dims[:-1])), dims[-1])
        require(len(dims) >= 2 or (kind.block == 1 and layout == ROWS), f"{name}: a vector of type {kind.name}")
        require(size == stored_bytes(kind, layout, rows, cols), f"{name} has {size} bytes", offset)
        values = dequantize(kind, layout, data[offset : offset + size], rows, cols, name)
        model.tensors[name] = values.reshape(dims)
        model.stored[name] = (kind.name, layout)
    require(("TOKN" in sections) == (model.config["tokens"] > 0), "TOKN and CONF differ")
    if "TOKN" in sections:
        model.tokenizer = read_tokn(sections["TOKN"], model.config)
    return model


# --- §3 v1.0 ---------------------------------------------------------------------------------

NAMED = {
    "arch": {"llama": 1, "bullet": 2, "gpt2": 3, "neox": 4, "gemma2": 5, "other": 6},
    "norm": {"rms": 0, "layer": 1},
    "position": {"rope": 0, "learned": 1, "alibi": 2, "none": 3},
    "rope_pairs": {"half": 0, "adjacent": 1},
    "activation": {"silu": 0, "gelu": 1, "relu": 2, "gelu_erf": 3, "relu2": 4},
    "norm_place": {"before": 0, "after": 1, "around": 2, "after_sum": 3},
    "block": {"sequential": 0, "parallel": 1, "shared": 2},
    "qk_norm": {"plain": 0, "heads": 1, "rows": 2, "each": 3, "rotated": 4},
    "pooling": {"unsaid": 0, "mean": 1, "cls": 2, "last": 3},
}


def companion_config(c):
    c = {name: NAMED[name][value] if isinstance(value, str) else value for name, value in c.items()}
    if c.get("arch") == 2:
        c = {"norm": 1, "position": 1, "activation": 1, **c}
    c.setdefault("norm_eps", 1e-5)
    c["norm_eps"] = float(np.float32(c["norm_eps"]))
    return complete_config(c)


def read_v1_directory(data):
    """Returns [(name, dims, block, blocks, offset)] and the end of the directory."""
    at = 8

    def u32():
        nonlocal at
        require(at + 4 <= len(data), "the directory is cut off", len(data))
        at += 4
        return struct.unpack_from("<I", data, at - 4)[0]

    entries = []
    for _ in range(u32()):
        start = at
        length = u32()
        require(1 <= length <= 255 and at + length <= len(data), "length of a name", start)
        name = text_of(data[at : at + length])
        at += length
        ndims = u32()
        require(1 <= ndims <= 8, f"{name}: {ndims} dimensions", start)
        dims = tuple(u32() for _ in range(ndims))
        block, blocks = u32(), u32()
        require(block in (16, 32, 64), f"{name}: blocks of {block}", start)
        weights = int(np.prod(dims, dtype=object))
        require(weights > 0 and weights == block * blocks, f"{name}: number of blocks", start)
        low, high = u32(), u32()
        entries.append((name, dims, block, blocks, low | high << 32))
    return entries, at


def read_v1(data, companion):
    require(companion is not None and companion.get("bq4_companion") == 1, "a v1 file needs its companion")
    config = dict(companion["config"])
    if "tokenizer" in companion:
        config["tokens"] = len(companion["tokenizer"]["tokens"])
        config["merges"] = len(companion["tokenizer"].get("merges", []))
    model = Model(1, companion_config(config))
    entries, directory_end = read_v1_directory(data)
    shapes = {}
    used_ranges = [(0, directory_end)]
    for name, dims, block, count, offset in entries:
        kind = BY_NAME[f"bq4_{block}"]
        size = count * kind.bytes
        require(offset + size <= len(data), f"{name} ends behind the file", len(data))
        require(name not in shapes, f"{name} appears twice")
        used_ranges.append((offset, offset + size))
        shapes[name] = dims
        model.tensors[name] = blocks(kind, data[offset : offset + size], name).reshape(dims)
        model.stored[name] = (kind.name, None)
    used_ranges.sort()
    require(all(a[1] <= b[0] for a, b in zip(used_ranges, used_ranges[1:])), "tensors overlap")
    for name, extra in companion.get("tensors", {}).items():
        require(name not in shapes, f"{name} appears twice")
        values = np.frombuffer(base64.b64decode(extra["f32"], validate=True), "<f4")
        shapes[name] = tuple(extra["dims"])
        model.tensors[name] = finite(values, name).reshape(shapes[name])
        model.stored[name] = ("f32", ROWS)
    check_names(model.config, shapes)
    model.tokenizer = companion.get("tokenizer")
    return model


def parse(data, companion=None):
    require(len(data) >= 8 and data[:4] == b"BQ4F", "this is no .bq4 file", 0)
    (version,) = struct.unpack_from("<I", data, 4)
    require(version in (1, 2), f"version {version}", 4)
    return read_v1(data, companion) if version == 1 else read_v2(data)


def read(path):
    """Reads the model of a file; v1 files need NAME.json next to NAME.bq4."""
    with open(path, "rb") as file:
        data = file.read()
    companion = None
    companion_path = os.path.splitext(path)[0] + ".json"
    if data[4:8] == b"\1\0\0\0" and os.path.exists(companion_path):
        with open(companion_path, encoding="utf-8") as file:
            companion = json.load(file)
    return parse(data, companion)
