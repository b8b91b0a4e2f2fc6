"""PyTorch checkpoints and pickles of arrays, read without executing what they say.

A pickle is a program whose GLOBAL instruction names any function of any module. Here a name is
looked up in one short table of inert stand-ins; all others are refused before anything is called.
Tensor data is not in the pickle but in entries of a zip archive (torch.save since 1.6), or after
it in the same file (before), and is read lazily, straight from the file.
"""

import collections
import io
import math
import os
import pickle
import pickletools
import struct
import zipfile
import zlib

import numpy as np

from .errors import ExportError

# Storage class -> NumPy dtype as stored; bf16 is widened from its bits.
STORAGES = {
    "FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "BFloat16Storage": "bf16",
    "LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "<i1",
    "ByteStorage": "<u1", "BoolStorage": "?",
}
ITEM = {name: 2 if dtype == "bf16" else np.dtype(dtype).itemsize for name, dtype in STORAGES.items()}
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
MAX_DIMS = 8


def malformed(message):
    return ExportError("FORMAT", message, "save the checkpoint again")


def is_count(value):
    return type(value) is int and 0 <= value < 1 << 62


class Storage:
    """`count` elements at `offset` of a buffer (bytes or a memory-mapped file)."""

    def __init__(self, kind, count, buffer=None, offset=0):
        self.kind, self.count, self.buffer, self.offset = kind, count, buffer, offset

    def bind(self, buffer, offset, available):
        """Says where the elements lie; `available` bytes are there."""
        if self.count * ITEM[self.kind] > available:
            raise malformed(f"a storage announces {self.count} elements, its data has {available} bytes")
        self.buffer, self.offset = buffer, offset

    def elements(self):
        dtype = STORAGES[self.kind]
        raw = np.frombuffer(self.buffer, "<u2" if dtype == "bf16" else dtype, self.count, self.offset)
        return raw


class Tensor:
    """Shape, strides (in elements) and storage; `rows` gives f32."""

    def __init__(self, storage, start, shape, strides):
        if not isinstance(storage, Storage) or not is_count(start):
            raise malformed("a tensor has no storage")
        for value in (shape, strides):
            if not isinstance(value, tuple) or len(value) > MAX_DIMS or not all(is_count(v) for v in value):
                raise malformed(f"a tensor has the shape or strides {value!r:.60}")
        if len(shape) != len(strides):
            raise malformed("a tensor's strides don't fit its shape")
        last = start + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else -1
        if last >= storage.count:
            raise malformed(f"a tensor reaches element {last} of a storage of {storage.count}")
        if math.prod(shape) > storage.count:
            raise malformed(f"a tensor makes {math.prod(shape)} elements of {storage.count}")
        self.storage, self.start, self.shape, self.strides = storage, start, shape, strides

    @property
    def dtype(self):
        return self.storage.kind.removesuffix("Storage").lower()

    def array(self):
        """As stored (bf16 as its bits), without a copy."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.storage.elements().dtype)
        flat = self.storage.elements()[self.start:]
        return np.lib.stride_tricks.as_strided(
            flat, self.shape, [s * flat.itemsize for s in self.strides], writeable=False)

    def rows(self, first=0, last=None):
        """f32 values, rows [first, last) of the first dimension."""
        part = self.array()[first:last] if self.shape else self.array()
        if self.storage.kind == "BFloat16Storage":
            return (part.astype(np.uint32) << 16).view(np.float32)
        return np.ascontiguousarray(part, dtype=np.float32).reshape(part.shape)


class Array:
    """Stand-in for numpy.ndarray while a pickle rebuilds it."""

    def __setstate__(self, state):
        if not isinstance(state, tuple) or len(state) != 5:
            raise malformed("an array has an unknown state")
        _, shape, dtype, fortran, data = state
        self.fill(shape, dtype, fortran, data)

    def fill(self, shape, dtype, fortran, data):
        kind = dtype.kind if isinstance(dtype, Dtype) else None
        if kind is None or not isinstance(shape, tuple) or not isinstance(data, (bytes, bytearray)):
            raise malformed("an array is not of plain numbers")
        if len(shape) > MAX_DIMS or not all(is_count(v) for v in shape):
            raise malformed(f"an array has the shape {shape!r:.60}")
        strides, step = [], 1
        for n in shape if fortran else reversed(shape):
            strides.append(step)
            step *= n
        storage = Storage(kind, step)
        storage.bind(data, 0, len(data))
        self.tensor = Tensor(storage, 0, shape, tuple(strides if fortran else reversed(strides)))


class Dtype:
    """Stand-in for numpy.dtype: `kind` is the name of a storage, None where there is none."""

    NAMES = {"f4": "FloatStorage", "f8": "DoubleStorage", "f2": "HalfStorage", "i8": "LongStorage",
             "i4": "IntStorage", "i2": "ShortStorage", "i1": "CharStorage", "u1": "ByteStorage", "b1": "BoolStorage"}

    def __init__(self, name="", *_):
        self.kind = self.NAMES.get(name if isinstance(name, str) else "")

    def __setstate__(self, state):
        if isinstance(state, tuple) and len(state) > 1 and state[1] == ">":
            raise ExportError("UNSUPPORTED", "an array is big-endian", "save it as little-endian")


class Kind:
    """Stand-in for a torch storage class, as the pickle names it."""

    def __init__(self, name):
        self.name = name


def rebuild_tensor(storage=None, start=None, shape=None, strides=None, *_):
    return Tensor(storage, start, shape, strides)


def rebuild_parameter(data=None, *_):
    return data


def rebuild_array(*_):
    return Array()


def array_from_buffer(data=None, dtype=None, shape=None, order="C", *_):
    """numpy's _frombuffer: how protocol 5 writes contiguous arrays."""
    array = Array()
    array.fill(shape, dtype, order == "F", data)
    return array


def encode_latin1(text="", encoding="", *_):
    """_codecs.encode: how protocol 2 writes bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise malformed("bytes in an unknown encoding")
    return text.encode("latin1")


def load_nested(data=b"", *_):
    """torch.storage._load_from_bytes: a storage that pickle.dump wrote as a torch file of its own."""
    if not isinstance(data, bytes):
        raise malformed("a nested storage is no bytes")
    value = read_buffer(data)
    if not isinstance(value, Storage):
        raise malformed("a nested file holds no storage")
    return value



STAND_INS = {
    "collections OrderedDict": collections.OrderedDict,
    "torch._utils _rebuild_tensor_v2": rebuild_tensor,
    "torch._utils _rebuild_parameter": rebuild_parameter,
    "torch.storage _load_from_bytes": load_nested,
    "torch Size": tuple,
    "numpy ndarray": Array,
    "numpy dtype": Dtype,
    "numpy.core.multiarray _reconstruct": rebuild_array,
    "numpy._core.multiarray _reconstruct": rebuild_array,
    "numpy.core.numeric _frombuffer": array_from_buffer,
    "numpy._core.numeric _frombuffer": array_from_buffer,
    "_codecs encode": encode_latin1,
    **{f"torch {name}": Kind(name) for name in STORAGES},
}


class SafeUnpickler(pickle.Unpickler):
    """Calls nothing but the stand-ins above."""

    def __init__(self, file, storage_of=None):
        super().__init__(file)
        self.storage_of = storage_of

    def find_class(self, module, name):
        found = STAND_INS.get(f"{module} {name}")
        if found is None:
            raise ExportError("REFUSED", f"the pickle asks for {module}.{name}, which is not on the list of harmless names",
                              "don't trust this file; a checkpoint of tensors only (torch.save(model.state_dict(), path)) is read")
        return found

    def persistent_load(self, pid):
        if self.storage_of is None:
            raise malformed("a plain pickle refers to a storage")
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[1], Kind):
            raise malformed(f"an unknown kind of storage: {pid!r:.60}")
        if not isinstance(pid[2], str) or not is_count(pid[4]):
            raise malformed("a storage without key or size")
        return self.storage_of(pid[1].name, pid[2], pid[4])


def check_memo(data):
    """Refuses memo indices beyond the number of instructions: the unpickler would make room for them."""
    try:
        for count, (op, arg, _) in enumerate(pickletools.genops(data)):
            if "PUT" in op.name and arg > count:
                raise malformed(f"a pickle uses memo {arg} in instruction {count}")
    except (ValueError, IndexError, TypeError, MemoryError, OverflowError, struct.error) as error:
        raise malformed(f"a pickle is damaged: {error}") from error


def unpickle(stream, storage_of=None):
    """One pickle from a seekable stream; leaves it behind the pickle."""
    start = stream.tell()
    check_memo(stream)
    stream.seek(start)
    try:
        return SafeUnpickler(stream, storage_of).load()
    except ExportError:
        raise
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError,
            OverflowError, MemoryError, RecursionError, struct.error) as error:
        raise malformed(f"a pickle is damaged: {type(error).__name__}: {error}") from error


def read_zip(file, buffer_of):
    """torch.save since 1.6: NAME/data.pkl and one entry per storage, NAME/data/KEY.
    buffer_of(archive, entry) gives (buffer, offset in it, bytes there)."""
    try:
        with zipfile.ZipFile(file) as archive:
            return read_archive(archive, buffer_of)
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError, OSError, struct.error) as error:
        raise malformed(f"the zip archive is damaged: {error}") from error


def read_archive(archive, buffer_of):
    names = archive.namelist()
    pickles = [n for n in names if n.endswith("/data.pkl") or n == "data.pkl"]
    if len(pickles) != 1:
        raise malformed(f"the archive has {len(pickles)} entries called data.pkl")
    root = pickles[0].removesuffix("data.pkl")
    if f"{root}byteorder" in names and archive.read(f"{root}byteorder") != b"little":
        raise ExportError("UNSUPPORTED", "the checkpoint is big-endian", "save it on a little-endian machine")
    storages = {}

    def storage_of(kind, key, count):
        if key not in storages:
            storage = Storage(kind, count)
            name = f"{root}data/{key}"
            if name not in names:
                raise malformed(f"the archive lacks {name}")
            storage.bind(*buffer_of(archive, archive.getinfo(name)))
            storages[key] = storage
        same = storages[key]
        if (same.kind, same.count) != (kind, count):
            raise malformed(f"storage {key} is used as two types or sizes")
        return same

    return unpickle(io.BytesIO(archive.read(pickles[0])), storage_of)


def read_legacy(stream, buffer, size):
    """torch.save before 1.6: magic, protocol, system, object, keys, then per key a count and its elements."""
    for what in ("protocol", "system"):
        unpickle(stream)
    storages = {}

    def storage_of(kind, key, count):
        return storages.setdefault(key, Storage(kind, count))

    value = unpickle(stream, storage_of)
    keys = unpickle(stream)
    if not isinstance(keys, list) or not all(isinstance(k, str) and k in storages for k in keys):
        raise malformed("the list of storages doesn't fit")
    for key in keys:
        head = stream.read(8)
        if len(head) != 8 or struct.unpack("<q", head)[0] != storages[key].count:
            raise malformed(f"storage {key} has another size than announced")
        at = stream.tell()
        storages[key].bind(buffer, at, size - at)
        stream.seek(at + storages[key].count * ITEM[storages[key].kind])
    if any(s.buffer is None for s in storages.values()):
        raise malformed("a storage has no data")
    return value


def read_stream(stream, buffer, size):
    """Anything but a zip archive."""
    value = unpickle(stream)
    if value == LEGACY_MAGIC:
        return read_legacy(stream, buffer, size)
    return value


def read_buffer(data):
    """A torch file or pickle in memory."""
    if data[:4] != b"PK\x03\x04":
        return read_stream(io.BytesIO(data), data, len(data))
    return read_zip(io.BytesIO(data), whole_entry)


def whole_entry(archive, info):
    data = archive.read(info)
    return data, 0, len(data)


def read_checkpoint(path):
    """What torch.load or pickle.load would give, with Tensors in place of torch's. READ, FORMAT, REFUSED, UNSUPPORTED."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            if file.read(4) != b"PK\x03\x04":
                file.seek(0)
                return unwrap(read_stream(file, np.memmap(path, np.uint8, "r") if size else b"", size))
    except OSError as error:
        raise ExportError("READ", f"{path} can't be read: {error.strerror}", "check the path") from error

    def buffer_of(archive, info):
        if info.compress_type != zipfile.ZIP_STORED:
            return whole_entry(archive, info)
        # Name and extra field of the local header may differ from those of the directory.
        with open(path, "rb") as file:
            file.seek(info.header_offset)
            head = file.read(30)
        if len(head) != 30 or head[:4] != b"PK\x03\x04":
            raise malformed(f"entry {info.filename} of the archive has no header")
        at = info.header_offset + 30 + sum(struct.unpack("<HH", head[26:30]))
        if at + info.file_size > size:
            raise malformed(f"entry {info.filename} of the archive ends beyond the file")
        return np.memmap(path, np.uint8, "r"), at, info.file_size

    return unwrap(read_zip(path, buffer_of))


def unwrap(value):
    """Arrays become tensors, at any depth of dicts."""
    if isinstance(value, dict):
        return {key: unwrap(v) for key, v in value.items()}
    if isinstance(value, Array):
        return value.tensor
    return value
