"""Reads PyTorch checkpoints and pickles of arrays without executing their code.

A pickle is a program whose GLOBAL instruction can name any function of any module. Only the names in a
short table of inert stand-ins are allowed; a pickle with other names is refused before any call. The data
of tensors is in entries of a zip archive (torch.save since 1.6) or after the pickle in the same file
(older versions). It is read from the file when it is needed.
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

# NumPy dtype of each storage class. NumPy has no bf16, so its bits are converted.
STORAGE_DTYPES = {
    "FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "BFloat16Storage": "bf16",
    "LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "<i1",
    "ByteStorage": "<u1", "BoolStorage": "?",
}
ITEM_BYTES = {name: 2 if dtype == "bf16" else np.dtype(dtype).itemsize for name, dtype in STORAGE_DTYPES.items()}
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
MAX_DIMS = 8


def malformed(message):
    """Returns the error of a damaged file."""
    return ExportError("FORMAT", message, "save the checkpoint again")


def is_count(value):
    """Whether a value is an integer that can be a number of elements."""
    return type(value) is int and 0 <= value < 1 << 62


class Storage:
    """`count` elements at `offset` of a buffer (bytes or a memory-mapped file)."""

    def __init__(self, kind, count, buffer=None, offset=0):
        self.kind, self.count, self.buffer, self.offset = kind, count, buffer, offset

    def bind(self, buffer, offset, available):
        """Sets the position of the elements, where `available` bytes are."""
        if self.count * ITEM_BYTES[self.kind] > available:
            raise malformed(f"expected {self.count * ITEM_BYTES[self.kind]} bytes for {self.count} elements of a storage, found {available}")
        self.buffer, self.offset = buffer, offset

    def elements(self):
        """Returns the elements as stored; bf16 as its bits."""
        dtype = STORAGE_DTYPES[self.kind]
        return np.frombuffer(self.buffer, "<u2" if dtype == "bf16" else dtype, self.count, self.offset)


class Tensor:
    """Shape, strides (in elements) and storage of a tensor. `rows` returns f32."""

    def __init__(self, storage, start, shape, strides):
        if not isinstance(storage, Storage) or not is_count(start):
            raise malformed("expected a storage of a tensor, found none")
        for value in (shape, strides):
            if not isinstance(value, tuple) or len(value) > MAX_DIMS or not all(is_count(v) for v in value):
                raise malformed(f"expected at most {MAX_DIMS} numbers as shape or strides of a tensor, found {value!r:.60}")
        if len(shape) != len(strides):
            raise malformed(f"expected {len(shape)} strides of a tensor, found {len(strides)}")
        last = start + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else -1
        if last >= storage.count:
            raise malformed(f"expected a tensor within a storage of {storage.count} elements, found element {last}")
        if math.prod(shape) > storage.count:
            raise malformed(f"expected a tensor of at most {storage.count} elements, found {math.prod(shape)}")
        self.storage, self.start, self.shape, self.strides = storage, start, shape, strides

    @property
    def dtype(self):
        """Name of the type, such as "float"."""
        return self.storage.kind.removesuffix("Storage").lower()

    def array(self):
        """Returns the values as stored (bf16 as its bits), without a copy."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.storage.elements().dtype)
        flat = self.storage.elements()[self.start:]
        return np.lib.stride_tricks.as_strided(
            flat, self.shape, [s * flat.itemsize for s in self.strides], writeable=False)

    def rows(self, first=0, last=None):
        """Returns the f32 values of rows [first, last) of the first dimension."""
        part = self.array()[first:last] if self.shape else self.array()
        if self.storage.kind == "BFloat16Storage":
            return (part.astype(np.uint32) << 16).view(np.float32)
        return np.ascontiguousarray(part, dtype=np.float32).reshape(part.shape)


class Array:
    """Stand-in for numpy.ndarray while a pickle rebuilds it."""

    def __setstate__(self, state):
        if not isinstance(state, tuple) or len(state) != 5:
            raise malformed("expected a state of five parts of an array")
        _, shape, dtype, fortran, data = state
        self.fill(shape, dtype, fortran, data)

    def fill(self, shape, dtype, fortran, data):
        kind = dtype.kind if isinstance(dtype, Dtype) else None
        if kind is None or not isinstance(shape, tuple) or not isinstance(data, (bytes, bytearray)):
            raise malformed("expected an array of numbers")
        if len(shape) > MAX_DIMS or not all(is_count(v) for v in shape):
            raise malformed(f"expected at most {MAX_DIMS} numbers as shape of an array, found {shape!r:.60}")
        strides, step = [], 1
        for n in shape if fortran else reversed(shape):
            strides.append(step)
            step *= n
        storage = Storage(kind, step)
        storage.bind(data, 0, len(data))
        self.tensor = Tensor(storage, 0, shape, tuple(strides if fortran else reversed(strides)))


class Dtype:
    """Stand-in for numpy.dtype. `kind` is the name of a storage class, or None if there is none."""

    NAMES = {"f4": "FloatStorage", "f8": "DoubleStorage", "f2": "HalfStorage", "i8": "LongStorage",
             "i4": "IntStorage", "i2": "ShortStorage", "i1": "CharStorage", "u1": "ByteStorage", "b1": "BoolStorage"}

    def __init__(self, name="", *_):
        self.kind = self.NAMES.get(name if isinstance(name, str) else "")

    def __setstate__(self, state):
        if isinstance(state, tuple) and len(state) > 1 and state[1] == ">":
            raise ExportError("UNSUPPORTED", "expected a little-endian array, found a big-endian one", "save it as little-endian")


class Kind:
    """Stand-in for a torch storage class, with its name in the pickle."""

    def __init__(self, name):
        self.name = name


def rebuild_tensor(storage=None, start=None, shape=None, strides=None, *_):
    return Tensor(storage, start, shape, strides)


def rebuild_parameter(data=None, *_):
    return data


def rebuild_array(*_):
    return Array()


def array_from_buffer(data=None, dtype=None, shape=None, order="C", *_):
    """Stand-in for numpy's _frombuffer, which protocol 5 uses for contiguous arrays."""
    array = Array()
    array.fill(shape, dtype, order == "F", data)
    return array


def encode_latin1(text="", encoding="", *_):
    """Stand-in for _codecs.encode, which protocol 2 uses for bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise malformed(f"expected bytes in the encoding latin1, found {encoding!r:.60}")
    return text.encode("latin1")


def load_nested(data=b"", *_):
    """Stand-in for torch.storage._load_from_bytes: reads a storage that pickle.dump wrote as a nested torch file."""
    if not isinstance(data, bytes):
        raise malformed("expected bytes of a nested storage")
    value = read_buffer(data)
    if not isinstance(value, Storage):
        raise malformed("expected a storage in a nested file")
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
    **{f"torch {name}": Kind(name) for name in STORAGE_DTYPES},
}


class SafeUnpickler(pickle.Unpickler):
    """An unpickler that calls only the stand-ins above."""

    def __init__(self, file, storage_of=None):
        super().__init__(file)
        self.storage_of = storage_of

    def find_class(self, module, name):
        stand_in = STAND_INS.get(f"{module} {name}")
        if stand_in is None:
            raise ExportError("REFUSED", f"expected only names of tensors and arrays in the pickle, found {module}.{name}",
                              "the file could execute code; use a checkpoint of tensors only: torch.save(model.state_dict(), path)")
        return stand_in

    def persistent_load(self, pid):
        if self.storage_of is None:
            raise malformed("expected no reference to a storage in a plain pickle")
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[1], Kind):
            raise malformed(f"expected a reference to a storage, found {pid!r:.60}")
        if not isinstance(pid[2], str) or not is_count(pid[4]):
            raise malformed("expected a key and a size of a storage")
        return self.storage_of(pid[1].name, pid[2], pid[4])


def check_memo(data):
    """Refuses memo indices beyond the number of instructions, because the unpickler would allocate memory for them."""
    try:
        for count, (op, arg, _) in enumerate(pickletools.genops(data)):
            if "PUT" in op.name and arg > count:
                raise malformed(f"expected a memo index of at most {count} in instruction {count} of a pickle, found memo {arg}")
    except (ValueError, IndexError, TypeError, MemoryError, OverflowError, struct.error) as error:
        raise malformed(f"a pickle is damaged: {error}") from error


def unpickle(stream, storage_of=None):
    """Reads one pickle from a seekable stream, whose position is then after the pickle."""
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
    """Reads the format of torch.save since 1.6: NAME/data.pkl and an entry for each storage, NAME/data/KEY.
    buffer_of(archive, entry) returns (buffer, offset in it, number of bytes)."""
    try:
        with zipfile.ZipFile(file) as archive:
            return read_archive(archive, buffer_of)
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError, OSError, struct.error) as error:
        raise malformed(f"the zip archive is damaged: {error}") from error


def read_archive(archive, buffer_of):
    """Reads an open archive."""
    names = archive.namelist()
    pickles = [n for n in names if n.endswith("/data.pkl") or n == "data.pkl"]
    if len(pickles) != 1:
        raise malformed(f"expected one entry data.pkl in the archive, found {len(pickles)}")
    root = pickles[0].removesuffix("data.pkl")
    if f"{root}byteorder" in names and archive.read(f"{root}byteorder") != b"little":
        raise ExportError("UNSUPPORTED", "expected a little-endian checkpoint, found a big-endian one", "save it on a little-endian machine")
    storages = {}

    def storage_of(kind, key, count):
        if key not in storages:
            storage = Storage(kind, count)
            name = f"{root}data/{key}"
            if name not in names:
                raise malformed(f"expected the entry {name} in the archive, found none")
            storage.bind(*buffer_of(archive, archive.getinfo(name)))
            storages[key] = storage
        storage = storages[key]
        if (storage.kind, storage.count) != (kind, count):
            raise malformed(f"expected one type and size of storage {key}, found two")
        return storage

    return unpickle(io.BytesIO(archive.read(pickles[0])), storage_of)


def read_legacy(stream, buffer, size):
    """Reads the format of torch.save before 1.6: magic number, protocol, system, object, keys, then for each key a count and its elements."""
    for _ in ("protocol", "system"):
        unpickle(stream)
    storages = {}

    def storage_of(kind, key, count):
        return storages.setdefault(key, Storage(kind, count))

    value = unpickle(stream, storage_of)
    keys = unpickle(stream)
    if not isinstance(keys, list) or not all(isinstance(k, str) and k in storages for k in keys):
        raise malformed("expected the keys of all storages after the pickle")
    for key in keys:
        head = stream.read(8)
        if len(head) != 8 or struct.unpack("<q", head)[0] != storages[key].count:
            raise malformed(f"expected {storages[key].count} elements of storage {key}, found another number")
        at = stream.tell()
        storages[key].bind(buffer, at, size - at)
        stream.seek(at + storages[key].count * ITEM_BYTES[storages[key].kind])
    if any(s.buffer is None for s in storages.values()):
        raise malformed("expected data of each storage")
    return value


def read_stream(stream, buffer, size):
    """Reads a file that is not a zip archive."""
    value = unpickle(stream)
    if value == LEGACY_MAGIC:
        return read_legacy(stream, buffer, size)
    return value


def read_buffer(data):
    """Reads a torch file or a pickle in memory."""
    if data[:4] != b"PK\x03\x04":
        return read_stream(io.BytesIO(data), data, len(data))
    return read_zip(io.BytesIO(data), read_entry)


def read_entry(archive, info):
    """Returns the data of an entry as a buffer."""
    data = archive.read(info)
    return data, 0, len(data)


def read_checkpoint(path):
    """Returns the value of torch.load or pickle.load, with Tensors in place of torch's. Raises READ, FORMAT, REFUSED, UNSUPPORTED."""
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
            return read_entry(archive, info)
        # The name and the extra field of the local header can differ from those of the directory.
        with open(path, "rb") as file:
            file.seek(info.header_offset)
            head = file.read(30)
        if len(head) != 30 or head[:4] != b"PK\x03\x04":
            raise malformed(f"expected a header of the entry {info.filename} in the archive, found none")
        at = info.header_offset + 30 + sum(struct.unpack("<HH", head[26:30]))
        if at + info.file_size > size:
            raise malformed(f"expected the entry {info.filename} of the archive within the file, found its end after the end of the file")
        return np.memmap(path, np.uint8, "r"), at, info.file_size

    return unwrap(read_zip(path, buffer_of))


def unwrap(value):
    """Replaces arrays by tensors, in nested dicts, too."""
    if isinstance(value, dict):
        return {key: unwrap(v) for key, v in value.items()}
    if isinstance(value, Array):
        return value.tensor
    return value
