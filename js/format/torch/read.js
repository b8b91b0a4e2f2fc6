/**
 * Reads PyTorch checkpoints: zip archives (torch.save since 1.6) and streams of pickles (before 1.6). Only the pickle
 * is read at first; it contains the tensors' shapes and offsets, while the tensors stay in the file.
 */
import { BqError } from '../../shared/errors.js';
import { readRange } from '../../storage/sources/read.js';
import { unpickle, walk } from './pickle.js';
import { floatRows } from '../checkpoint-tensors.js';
import { entryStart, readZip } from './zip.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { InTensor } from '../checkpoint-tensors.js' */
/** @import { Machine, StandIn } from './pickle.js' */

/**
 * Storage classes of torch: dtype (as in safetensors) and bytes of an element.
 * @type {Record<string, [string, number]>}
 */
const STORAGES = {
  FloatStorage: ['F32', 4],
  DoubleStorage: ['F64', 8],
  HalfStorage: ['F16', 2],
  BFloat16Storage: ['BF16', 2],
  LongStorage: ['I64', 8],
  IntStorage: ['I32', 4],
  ShortStorage: ['I16', 2],
  CharStorage: ['I8', 1],
  ByteStorage: ['U8', 1],
  BoolStorage: ['BOOL', 1],
};
const MAX_DIMS = 8;
/** Limit of a pickle's size in bytes, without the tensors. */
const MAX_PICKLE_BYTES = 16 << 20;
/** The first value in files of torch.save before 1.6. */
const LEGACY_MAGIC = 0x1950a86a20f9469cfc6cn;

/** @param {unknown} value @returns {value is number} */
const isCount = (value) => Number.isSafeInteger(value) && /** @type {number} */ (value) >= 0;

/** An array of elements of one type in the file. */
class Storage {
  /** Byte offset in the file; -1 until it is known. */
  offset = -1;

  /** @param {string} kind @param {number} count */
  constructor(kind, count) {
    const [dtype, itemBytes] = STORAGES[kind];
    this.dtype = dtype;
    this.itemBytes = itemBytes;
    this.kind = kind;
    this.count = count;
  }
}

/** A view of a storage. */
class Tensor {
  /** @param {Storage} storage @param {number} start @param {number[]} dims @param {number[]} strides  in elements */
  constructor(storage, start, dims, strides) {
    this.storage = storage;
    this.start = start;
    this.dims = dims;
    this.strides = strides;
  }
}

/** @param {string} file @param {string} problem */
const malformed = (file, problem) =>
  new BqError('FORMAT', `${file}: ${problem}`, { hint: 'save the checkpoint again, preferably as safetensors' });

/** Replaces torch._utils._rebuild_tensor_v2. Throws FORMAT. @param {string} file @param {any[]} args */
function rebuildTensor(file, [storage, start, dims, strides]) {
  if (!(storage instanceof Storage) || !isCount(start)) throw malformed(file, 'a tensor has no valid storage');
  const sizes = (/** @type {unknown} */ v) => Array.isArray(v) && v.length <= MAX_DIMS && v.every(isCount);
  if (!sizes(dims) || !sizes(strides) || dims.length !== strides.length)
    throw malformed(file, 'a tensor has no valid shape and strides');
  const count = dims.reduce((/** @type {number} */ a, /** @type {number} */ b) => a * b, 1);
  const last = count
    ? start +
      dims.reduce(
        (/** @type {number} */ sum, /** @type {number} */ n, /** @type {number} */ i) => sum + (n - 1) * strides[i],
        0,
      )
    : -1;
  if (last >= storage.count || count > storage.count)
    throw malformed(file, `a tensor of ${dims.join(' × ')} reaches element ${last} of a storage with ${storage.count}`);
  return new Tensor(storage, start, [...dims], [...strides]);
}

/** Replaces OrderedDict() and OrderedDict(pairs). Throws FORMAT. @param {unknown} pairs @param {Machine} machine */
function orderedDict(pairs, machine) {
  const dict = machine.dict();
  if (!Array.isArray(pairs)) return dict;
  machine.spend(pairs.length);
  if (!pairs.every((pair) => Array.isArray(pair) && pair.length === 2))
    throw machine.damaged('an OrderedDict has an item that is not a pair');
  for (const [key, value] of pairs) dict.set(key, value);
  return dict;
}

/**
 * Returns the replacements of all names that a pickle is allowed to use.
 * @param {string} file @returns {Record<string, StandIn>}
 */
function namesFor(file) {
  const first = (/** @type {any[]} */ [value]) => value;
  return {
    'collections.OrderedDict': { call: ([pairs], machine) => orderedDict(pairs, machine) },
    'torch._utils._rebuild_tensor_v2': { call: (args) => rebuildTensor(file, args) },
    'torch._utils._rebuild_parameter': { call: first },
    'torch.Size': { call: ([sizes]) => sizes },
    ...Object.fromEntries(Object.keys(STORAGES).map((kind) => [`torch.${kind}`, { value: kind }])),
    ...Object.fromEntries(
      ['float32', 'float16', 'bfloat16', 'float64'].map((name) => [`torch.${name}`, { value: name }]),
    ),
    'torch.device': { call: first },
  };
}

/**
 * Parses a reference to a storage: its kind, key and number of elements. Throws FORMAT.
 * @param {string} file @param {any} id
 */
function storageId(file, id) {
  const [tag, kind, key, , count] = Array.isArray(id) ? id : [];
  const name = kind?.standIn?.value;
  if (tag !== 'storage' || !Object.hasOwn(STORAGES, name ?? '') || typeof key !== 'string' || !isCount(count))
    throw malformed(file, 'the pickle has a persistent reference that is not a storage');
  return { kind: /** @type {string} */ (name), key, count };
}

/**
 * Returns a function that resolves references to storages and adds them to `storages`. References with the same key
 * must agree.
 * @param {string} file @param {Map<string, Storage>} storages
 */
const storageOf = (file, storages) => (/** @type {any} */ id) => {
  const { kind, key, count } = storageId(file, id);
  const storage = storages.get(key) ?? new Storage(kind, count);
  if (storage.kind !== kind || storage.count !== count)
    throw malformed(file, `storage ${key} is used with two types or sizes`);
  storages.set(key, storage);
  return storage;
};

/** @param {ByteSource} file */
async function readArchive(file) {
  const entries = await readZip(file);
  const pickles = [...entries.values()].filter(({ name }) => /(^|\/)data\.pkl$/.test(name));
  if (pickles.length !== 1)
    throw malformed(file.name, `the archive has ${pickles.length} entries named data.pkl; expected 1`);
  const [pickle] = pickles;
  const root = pickle.name.slice(0, -'data.pkl'.length);
  const bytesOf = async (/** @type {import('./zip.js').Entry} */ entry) => {
    if (entry.bytes > MAX_PICKLE_BYTES)
      throw malformed(file.name, `"${entry.name}" has ${entry.bytes} bytes; the limit is ${MAX_PICKLE_BYTES}`);
    const start = await entryStart(file, entry);
    return readRange(file, start, start + entry.bytes);
  };
  const order = entries.get(`${root}byteorder`);
  if (order && new TextDecoder().decode(await bytesOf(order)) !== 'little')
    throw new BqError('UNSUPPORTED', `${file.name} is big-endian`, { hint: 'save it on a little-endian machine' });
  /** @type {Map<string, Storage>} */
  const storages = new Map();
  const { value } = unpickle(await bytesOf(pickle), 0, {
    file: file.name,
    names: namesFor(file.name),
    persistent: storageOf(file.name, storages),
  });
  for (const [key, storage] of storages) {
    const entry = entries.get(`${root}data/${key}`);
    if (!entry) throw malformed(file.name, `the archive has no entry data/${key}`);
    if (entry.bytes < storage.count * storage.itemBytes)
      throw malformed(file.name, `storage ${key} declares ${storage.count} elements but has only ${entry.bytes} bytes`);
    storage.offset = await entryStart(file, entry);
  }
  return value;
}

/**
 * Reads a stream of pickles: magic, protocol, system, object, keys; then for each key a count and the elements. Returns
 * the object.
 * @param {ByteSource} file
 */
async function readStream(file) {
  const head = await readRange(file, 0, Math.min(file.size, MAX_PICKLE_BYTES));
  const plain = {
    file: file.name,
    names: namesFor(file.name),
    persistent: () => {
      throw malformed(file.name, 'a plain pickle has a persistent reference');
    },
  };
  const magic = unpickle(head, 0, plain);
  if (magic.value !== LEGACY_MAGIC) return magic.value;
  const protocol = unpickle(head, magic.end, plain);
  const system = unpickle(head, protocol.end, plain);
  /** @type {Map<string, Storage>} */
  const storages = new Map();
  const object = unpickle(head, system.end, { ...plain, persistent: storageOf(file.name, storages) });
  const keys = unpickle(head, object.end, plain);
  if (
    !Array.isArray(keys.value) ||
    new Set(keys.value).size !== keys.value.length ||
    !keys.value.every((key) => storages.has(key))
  )
    throw malformed(file.name, 'the list of storages does not match the pickle');
  let at = keys.end;
  for (const key of keys.value) {
    const storage = /** @type {Storage} */ (storages.get(key));
    const count = await readRange(file, at, at + 8);
    if (count.length < 8 || new DataView(count.buffer).getBigInt64(0, true) !== BigInt(storage.count))
      throw malformed(file.name, `storage ${key} has another size than the pickle declares`);
    storage.offset = at + 8;
    at = storage.offset + storage.count * storage.itemBytes;
    if (at > file.size)
      throw new BqError('TRUNCATED', `${file.name} ends after ${file.size} bytes, in storage ${key}`, {
        offset: file.size,
      });
  }
  if ([...storages.values()].some(({ offset }) => offset < 0)) throw malformed(file.name, 'a storage has no data');
  return object.value;
}

/**
 * Returns access to the rows of a tensor; null for tensors of integers.
 * @param {ByteSource} file @param {Tensor} tensor @returns {InTensor | null}
 */
function rowsOf(file, { storage, start, dims, strides }) {
  if (!/^B?F\d/.test(storage.dtype)) return null;
  const at = storage.offset + start * storage.itemBytes;
  let step = 1;
  const isContiguous = dims.toReversed().every((n, i) => {
    const fits = n === 1 || strides[dims.length - 1 - i] === step;
    step *= n;
    return fits;
  });
  const type = storage.dtype;
  if (isContiguous) return { ...floatRows(file, at, type, dims.length ? dims : [1]), at, type };
  return { ...strided(file, at, type, storage.itemBytes, dims, strides), type };
}

/**
 * Returns access to a tensor that is not contiguous (transposed or sliced). Each read of rows reads the whole range of
 * the storage that the tensor covers.
 * @param {ByteSource} file @param {number} at @param {string} dtype @param {number} itemBytes
 * @param {number[]} dims @param {number[]} strides @returns {InTensor}
 */
function strided(file, at, dtype, itemBytes, dims, strides) {
  const span = 1 + dims.reduce((sum, n, i) => sum + (n - 1) * strides[i], 0);
  const flat = floatRows(file, at, dtype, [span]);
  const cols = dims[dims.length - 1];
  const outer = dims.slice(0, -1);
  return {
    dims,
    async read(row, rows) {
      const values = await flat.read(0, 1);
      const out = new Float32Array(rows * cols);
      for (let r = 0; r < rows; r++) {
        let from = 0;
        for (let d = outer.length - 1, index = row + r; d >= 0; d--) {
          from += (index % outer[d]) * strides[d];
          index = Math.floor(index / outer[d]);
        }
        for (let c = 0; c < cols; c++) out[r * cols + c] = values[from + c * strides[dims.length - 1]];
      }
      return out;
    },
  };
}

/** Keys with which training scripts store the state dict. */
const WRAPPER_KEYS = ['state_dict', 'model_state_dict', 'model', 'module'];

/** Returns the state dict of a checkpoint: the object itself, or a dict nested in it. @param {any} value */
function stateDict(value) {
  for (let i = 0; i < WRAPPER_KEYS.length && value instanceof Map; i++) {
    const wrapper = WRAPPER_KEYS.find((name) => value.get(name) instanceof Map);
    if (!wrapper) break;
    value = value.get(wrapper);
  }
  return value;
}

/**
 * Returns the tensors by name; a tensor of integers is null. `value`: the whole object in the pickle. Throws FORMAT,
 * TRUNCATED, NOT_A_MODEL; UNSUPPORTED for a Python name that is not on the list of safe names.
 * @param {ByteSource} file
 * @returns {Promise<{ tensors: Map<string, InTensor | null>, value: any }>}
 */
export async function readTorch(file) {
  const start = await readRange(file, 0, 4);
  const zip = start.length === 4 && start[0] === 0x50 && start[1] === 0x4b;
  const value = zip ? await readArchive(file) : await readStream(file);
  /** @type {Map<string, InTensor | null>} */
  const tensors = new Map();
  walk(stateDict(value), (name, inner) => {
    if (inner instanceof Tensor) tensors.set(name.replace(/^(_orig_mod\.|module\.)+/, ''), rowsOf(file, inner));
  });
  if (!tensors.size)
    throw new BqError('NOT_A_MODEL', `${file.name} contains no dict of tensors`, {
      hint: 'expected a file of torch.save(model.state_dict(), path)',
    });
  return { tensors, value };
}
