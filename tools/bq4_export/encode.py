"""Encoders of the weight types of docs/FORMAT.md §1 in NumPy. All arithmetic is f32; the bytes equal those of the C and JavaScript encoders."""

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
MIN_F16 = F32(2.0 ** -24)


def type_named(name):
    """Returns the complete name of a type. Raises ARGUMENT."""
    full_name = ALIASES.get(name, name)
    if full_name not in TYPES:
        raise ExportError("ARGUMENT", f'expected a weight type, found "{name}"', "types: " + ", ".join([*ALIASES, *TYPES]))
    return full_name


def run_layout(name):
    """Returns the layout that kernels of the engine read."""
    return TILED if TYPES[name][3] else ROWS


def weight_bytes(name, layout, rows, cols):
    """Returns the number of bytes of a matrix."""
    _, block, block_bytes, step, tile_bytes, _ = TYPES[name]
    if layout == FLAT:
        return -(-rows * cols // block) * block_bytes
    if layout == ROWS:
        return rows * -(-cols // block) * block_bytes
    return -(-rows // 8) * -(-cols // step) * tile_bytes


def round_away(x):
    """Rounds halves away from zero, like roundf. x - trunc(x) is exact."""
    integer = np.trunc(x)
    fraction = x - integer
    return integer + (fraction >= 0.5) - (fraction <= -0.5)


def refuse(name, values, bad):
    """Raises FORMAT for the first value for which `bad` is true."""
    index = int(np.flatnonzero(bad)[0])
    raise ExportError("FORMAT", f"weight {index} is {values.ravel()[index]}: expected a value that {name} can represent",
                      "use another type; if the value is not finite, the checkpoint is damaged")


def block_values(name, blocks):
    """Quantizes blocks, f32 [n, block]. Returns int8 [n, block] and the scales, f32 [n], rounded to the type of scales in the file."""
    m = np.abs(blocks).max(axis=1)
    if name == "bq8_32":
        maximum, minimum, scale = 127, -127, m / F32(127)
    else:
        maximum, minimum, scale = 7, -8, np.maximum(m, F32(1e-8)) / F32(7)
    if TYPES[name][5] == "<f2":
        with np.errstate(over="ignore"):
            scale = scale.astype(np.float16).astype(F32)
        if not np.isfinite(scale).all():
            # The message names the largest weight of the first such block.
            first = int(np.flatnonzero(~np.isfinite(scale))[0])
            bad = np.zeros(blocks.shape, bool)
            bad[first, np.abs(blocks[first]).argmax()] = True
            refuse(name, blocks, bad)
        scale = np.where(m > 0, np.maximum(scale, MIN_F16), F32(0)) if name == "bq8_32" else np.maximum(scale, MIN_F16)
    inverse = np.divide(F32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    q = np.clip(round_away(blocks * inverse[:, None]), minimum, maximum).astype(np.int8)
    return q, scale


def pad_cols(values, unit):
    """Pads rows with zeros to a multiple of `unit` columns."""
    rows, cols = values.shape
    padded = np.zeros((rows, -(-cols // unit) * unit), values.dtype)
    padded[:, :cols] = values
    return padded


def to_rows(name, values):
    """Encodes rows as row-major blocks; a single row is the layout FLAT. Returns bytes and the decoded values."""
    _, block, block_bytes, _, _, scale_type = TYPES[name]
    q, scale = block_values(name, pad_cols(values, block).reshape(-1, block))
    out = np.empty((len(q), block_bytes), np.uint8)
    scale_bytes = np.dtype(scale_type).itemsize
    bits = q.view(np.uint8)
    out[:, :block_bytes - scale_bytes] = bits if name == "bq8_32" else bits[:, 0::2] & 15 | (bits[:, 1::2] & 15) << 4
    out[:, block_bytes - scale_bytes:] = scale.astype(scale_type)[:, None].view(np.uint8)
    return out.tobytes(), (q * scale[:, None]).reshape(len(values), -1)[:, :values.shape[1]]


def to_tiles(name, values):
    """Encodes tiles of 8 rows and one step, with weight bytes in the order [j][h][r][i]. Returns bytes and the decoded values."""
    _, block, _, step, tile_bytes, scale_type = TYPES[name]
    rows, cols = values.shape
    padded = np.zeros((-(-rows // 8) * 8, -(-cols // step) * step), F32)
    padded[:rows, :cols] = values
    q, scale = block_values(name, padded.reshape(-1, block))
    row_tiles, tiles = len(padded) // 8, padded.shape[1] // step
    decoded = (q * scale[:, None]).reshape(padded.shape)[:rows, :cols]
    # Blocks that contain only padding have the scale 0.
    scale = scale.reshape(len(padded), -1).copy()
    scale[rows:] = 0
    scale[:, -(-cols // block):] = 0
    out = np.empty((row_tiles, tiles, tile_bytes), np.uint8)
    # [row tile][row][tile][block of the tile] -> [row tile][tile][block][row]
    scales = scale.astype(scale_type).reshape(row_tiles, 8, tiles, step // block).transpose(0, 2, 3, 1)
    scale_bytes = np.ascontiguousarray(scales).view(np.uint8).reshape(row_tiles, tiles, -1)
    out[:, :, :scale_bytes.shape[2]] = scale_bytes
    if name == "bq8_32":
        weights = (q.reshape(row_tiles, 8, tiles, 8, 4).view(np.uint8) ^ 128).transpose(0, 2, 3, 1, 4)
    else:
        # k = 32 · group + 16 · half + 4j + i: the nibbles of both halves share a byte.
        nibbles = ((q.view(np.uint8) & 15) ^ 8).reshape(row_tiles, 8, tiles, step // 32, 2, 4, 4)
        weights = (nibbles[:, :, :, :, 0] | nibbles[:, :, :, :, 1] << 4).transpose(0, 2, 3, 4, 1, 5)
    out[:, :, scale_bytes.shape[2]:] = weights.reshape(row_tiles, tiles, -1)
    return out.tobytes(), decoded


def to_floats(name, values):
    """Converts to a float type. Returns bytes and the decoded values."""
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
    decoded = (rounded << 16).astype(np.uint32).view(F32)
    if not np.isfinite(decoded).all():
        refuse(name, values, ~np.isfinite(decoded).ravel())
    return rounded.astype("<u2").tobytes(), decoded


def encode(name, layout, values):
    """Encodes f32 [rows][cols]. Returns bytes and the decoded f32 values. Raises FORMAT if the type cannot represent a weight."""
    values = np.ascontiguousarray(values, F32)
    if not np.isfinite(values).all():
        refuse(name, values, ~np.isfinite(values).ravel())
    if TYPES[name][1] == 1:
        return to_floats(name, values)
    if layout == TILED:
        return to_tiles(name, values)
    if layout == FLAT:
        data, decoded = to_rows(name, values.reshape(1, -1))
        return data, decoded.reshape(values.shape)
    return to_rows(name, values)
