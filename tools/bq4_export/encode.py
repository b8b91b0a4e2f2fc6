"""The weight types of docs/FORMAT.md §1 in NumPy, f32 throughout: the same bytes as the C and JavaScript encoders."""

import numpy as np

from .errors import ExportError

F32 = np.float32

# name: (id, weights per block, bytes of a row-major block, tile step, tile bytes, scale dtype)
TYPES = {
    "f32": (0, 1, 4, 0, 0, None),
    "f16": (1, 1, 2, 0, 0, None),
    "bf16": (2, 1, 2, 0, 0, None),
    "bq4_16": (3, 16, 12, 32, 192, "<f4"),
    "bq4_32": (4, 32, 20, 32, 160, "<f4"),
    "bq4_64": (5, 64, 36, 64, 288, "<f4"),
    "bq4h_32": (6, 32, 18, 32, 144, "<f2"),
    "bq8_32": (8, 32, 34, 32, 272, "<f2"),
}
ALIASES = {"bq4": "bq4_32", "bq4h": "bq4h_32", "bq8": "bq8_32"}
ROWS, TILED, FLAT = 0, 1, 2
LEAST_F16 = F32(2.0 ** -24)


def type_named(name):
    full = ALIASES.get(name, name)
    if full not in TYPES:
        raise ExportError("ARGUMENT", f'"{name}" is no weight type', "one of " + ", ".join([*ALIASES, *TYPES]))
    return full


def run_layout(name):
    """The layout that the engine computes with."""
    return TILED if TYPES[name][3] else ROWS


def weight_bytes(name, layout, rows, cols):
    _, block, block_bytes, step, tile_bytes, _ = TYPES[name]
    if layout == FLAT:
        return -(-rows * cols // block) * block_bytes
    if layout == ROWS:
        return rows * -(-cols // block) * block_bytes
    return -(-rows // 8) * -(-cols // step) * tile_bytes


def round_away(x):
    """roundf: halves away from zero. x - trunc(x) is exact."""
    whole = np.trunc(x)
    rest = x - whole
    return whole + (rest >= 0.5) - (rest <= -0.5)


def refuse(name, values, bad):
    index = int(np.flatnonzero(bad)[0])
    raise ExportError("FORMAT", f"weight {index} is {values.ravel()[index]}: {name} can't represent it",
                      "the checkpoint is damaged, or its weights need a wider type")


def block_values(name, blocks):
    """blocks: f32 [n, block] -> (int8 [n, block], f32 scales [n] that the file can hold)."""
    m = np.abs(blocks).max(axis=1)
    if name == "bq8_32":
        top, bottom, scale = 127, -127, m / F32(127)
    else:
        top, bottom, scale = 7, -8, np.maximum(m, F32(1e-8)) / F32(7)
    if TYPES[name][5] == "<f2":
        with np.errstate(over="ignore"):
            scale = scale.astype(np.float16).astype(F32)
        if not np.isfinite(scale).all():
            # The largest weight of the first such block.
            at = int(np.flatnonzero(~np.isfinite(scale))[0])
            bad = np.zeros(blocks.shape, bool)
            bad[at, np.abs(blocks[at]).argmax()] = True
            refuse(name, blocks, bad)
        scale = np.where(m > 0, np.maximum(scale, LEAST_F16), F32(0)) if name == "bq8_32" else np.maximum(scale, LEAST_F16)
    inverse = np.divide(F32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    q = np.clip(round_away(blocks * inverse[:, None]), bottom, top).astype(np.int8)
    return q, scale


def pad_cols(values, unit):
    rows, cols = values.shape
    padded = np.zeros((rows, -(-cols // unit) * unit), values.dtype)
    padded[:, :cols] = values
    return padded


def to_rows(name, values):
    """Row-major blocks; also FLAT, for one row."""
    _, block, block_bytes, _, _, scale_type = TYPES[name]
    q, scale = block_values(name, pad_cols(values, block).reshape(-1, block))
    out = np.empty((len(q), block_bytes), np.uint8)
    scale_bytes = np.dtype(scale_type).itemsize
    bits = q.view(np.uint8)
    out[:, :block_bytes - scale_bytes] = bits if name == "bq8_32" else bits[:, 0::2] & 15 | (bits[:, 1::2] & 15) << 4
    out[:, block_bytes - scale_bytes:] = scale.astype(scale_type)[:, None].view(np.uint8)
    return out.tobytes(), (q * scale[:, None]).reshape(len(values), -1)[:, :values.shape[1]]


def to_tiles(name, values):
    """8 rows × one step per tile, weight bytes ordered [j][h][r][i]."""
    _, block, _, step, tile_bytes, scale_type = TYPES[name]
    rows, cols = values.shape
    padded = np.zeros((-(-rows // 8) * 8, -(-cols // step) * step), F32)
    padded[:rows, :cols] = values
    q, scale = block_values(name, padded.reshape(-1, block))
    groups, tiles = len(padded) // 8, padded.shape[1] // step
    back = (q * scale[:, None]).reshape(padded.shape)[:rows, :cols]
    # Blocks of nothing but padding have the scale 0.
    scale = scale.reshape(len(padded), -1).copy()
    scale[rows:] = 0
    scale[:, -(-cols // block):] = 0
    out = np.empty((groups, tiles, tile_bytes), np.uint8)
    # [g][r][t][block of the tile] -> [g][t][block][r]
    scales = scale.astype(scale_type).reshape(groups, 8, tiles, step // block).transpose(0, 2, 3, 1)
    scale_bytes = np.ascontiguousarray(scales).view(np.uint8).reshape(groups, tiles, -1)
    out[:, :, :scale_bytes.shape[2]] = scale_bytes
    if name == "bq8_32":
        weights = (q.reshape(groups, 8, tiles, 8, 4).view(np.uint8) ^ 128).transpose(0, 2, 3, 1, 4)
    else:
        # k = 32 · run + 16 · half + 4j + i: the halves share a byte.
        nibbles = ((q.view(np.uint8) & 15) ^ 8).reshape(groups, 8, tiles, step // 32, 2, 4, 4)
        weights = (nibbles[:, :, :, :, 0] | nibbles[:, :, :, :, 1] << 4).transpose(0, 2, 3, 4, 1, 5)
    out[:, :, scale_bytes.shape[2]:] = weights.reshape(groups, tiles, -1)
    return out.tobytes(), back


def to_floats(name, values):
    if name == "f32":
        return values.astype("<f4").tobytes(), values
    if name == "f16":
        with np.errstate(over="ignore"):
            half = values.astype("<f2")
        if not np.isfinite(half).all():
            refuse(name, values, ~np.isfinite(half).ravel())
        return half.tobytes(), half.astype(F32)
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    back = (rounded << 16).astype(np.uint32).view(F32)
    if not np.isfinite(back).all():
        refuse(name, values, ~np.isfinite(back).ravel())
    return rounded.astype("<u2").tobytes(), back


def encode(name, layout, values):
    """f32 [rows][cols] -> (bytes, f32 values that a reader finds). FORMAT: a weight the type can't hold."""
    values = np.ascontiguousarray(values, F32)
    if not np.isfinite(values).all():
        refuse(name, values, ~np.isfinite(values).ravel())
    if TYPES[name][1] == 1:
        return to_floats(name, values)
    if layout == TILED:
        return to_tiles(name, values)
    if layout == FLAT:
        data, back = to_rows(name, values.reshape(1, -1))
        return data, back.reshape(values.shape)
    return to_rows(name, values)
