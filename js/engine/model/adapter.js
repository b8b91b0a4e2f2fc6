/** LoRA adapters in a model's heap. Loaded with the first adapter. */
import { decodeConfig, readAdapter, SLOTS } from '../../format/lora/index.js';
import { checkCall, TABLE } from '../../remote/port/methods.js';
import { asyncDispose } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { openSource } from '../../storage/sources/index.js';
import { withPath } from '../../storage/sources/kinds.js';
import { readRange } from '../../storage/sources/read.js';
import { structs } from '../../wasm/abi.js';

/** @import { Change } from '../../format/lora/index.js' */
/** @import { InTensor } from '../../format/checkpoint-tensors.js' */
/** @import { AdapterInfo, LoadOptions, Source } from '../../shared/types.js' */
/** @import { LocalModel } from './model.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** Largest accepted size of adapter_config.json. */
const MAX_JSON_BYTES = 1 << 20;
const ALIGN = 64;
const PART = structs.bqw_adapter_part.size;

/** @param {number} bytes */
const alignUp = (bytes) => Math.ceil(bytes / ALIGN) * ALIGN;
/** Returns the heap bytes of a block, including the allocator's header. @param {number} bytes */
const heapCost = (bytes) => alignUp(bytes) + ALIGN;

/**
 * Reads adapter_config.json: the companion of the source, or the file of this name in the same folder. Throws ARGUMENT,
 * FORMAT, and errors of sources.
 * @param {Source} source @param {AbortSignal} [signal]
 */
async function readSettings(source, signal) {
  const name = 'adapter_config.json';
  const settingsSource = source.companion ?? withPath(source, (path) => path.replace(/[^/\\]*$/, name));
  if (!settingsSource)
    throw new BqError('ARGUMENT', `expected ${name} of a PEFT adapter, found none`, {
      hint: 'pass it as companion: fromBlob(file, { companion })',
    });
  const file = await openSource(settingsSource, signal);
  try {
    return JSON.parse(new TextDecoder().decode(await readRange(file, 0, MAX_JSON_BYTES, signal)));
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new BqError('FORMAT', `${file.name} is not valid JSON`, { cause });
  } finally {
    await file.close();
  }
}

/**
 * Returns the offset of each matrix in the block, and the size of the block. The block begins with the records of the
 * parts (bqw_adapter_part); then follows each matrix once.
 * @param {Change[]} changes @param {number} layers
 */
function layoutMatrices(changes, layers) {
  let bytes = alignUp(layers * SLOTS.length * PART);
  /** @type {Map<InTensor, number>} */
  const offsets = new Map();
  for (const tensor of changes.flatMap(({ a, b }) => [a, b])) {
    if (offsets.has(tensor)) continue;
    offsets.set(tensor, bytes);
    bytes += alignUp(4 * tensor.dims[0] * tensor.dims[1]);
  }
  return { offsets, bytes };
}

/**
 * Returns the largest sum of ranks of one step: the number of floats per row that a session needs for products with A.
 * @param {Change[]} changes @param {number} layers
 */
function largestRankSum(changes, layers) {
  const steps = [0, 0, 0, 1, 2, 2, 3]; // q, k and v are one step, gate and up another
  const sums = new Float64Array(4 * layers);
  for (const { layer, slot, rank } of changes) sums[4 * layer + steps[slot]] += rank;
  return sums.reduce((largest, sum) => Math.max(largest, sum), 0);
}

/**
 * Copies a tensor to the heap. Throws FORMAT if a value is not finite; throws CLOSED.
 * @param {Wasm} wasm @param {number} at @param {InTensor} tensor @param {string} name
 */
async function copyTensor(wasm, at, tensor, name) {
  const [rows, cols] = tensor.dims;
  const values = await tensor.read(0, rows);
  if (!values.every(Number.isFinite))
    throw new BqError('FORMAT', `${name}: expected finite weights, found another value`);
  if (!wasm.alive) throw new BqError('CLOSED', 'the model was closed');
  wasm.f32(at, rows * cols).set(values);
}

/**
 * Allocates a block and fills it with the adapter. Pointers in the block are offsets from its beginning.
 * @param {Wasm} wasm @param {Change[]} changes @param {ReturnType<typeof layoutMatrices>} layout
 * @param {number} factor  additional scale @param {string} name  name of the file @param {AbortSignal} [signal]
 */
async function fillBlock(wasm, changes, { offsets, bytes }, factor, name, signal) {
  const at = wasm.alloc(bytes);
  try {
    wasm.bytes(at, bytes).fill(0);
    for (const [tensor, offset] of offsets) {
      await copyTensor(wasm, at + offset, tensor, name);
      signal?.throwIfAborted();
    }
    for (const { layer, slot, rank, scale, a, b } of changes)
      wasm.write('bqw_adapter_part', at + (layer * SLOTS.length + slot) * PART, {
        a: offsets.get(a),
        b: offsets.get(b),
        rank,
        scale: scale * factor,
      });
    return at;
  } catch (error) {
    wasm.free(at);
    throw error;
  }
}

/**
 * Returns a hash of the block that identifies the adapter: a positive integer below 2^52.
 * @param {Wasm} wasm @param {number} at @param {number} bytes
 */
const hashOf = (wasm, at, bytes) =>
  wasm.scope((take) => {
    const out = take(8);
    wasm.call('bqw_xxh64', at, bytes, out);
    const [low, high] = wasm.u32(out, 2);
    return (high & 0xfffff) * 2 ** 32 + low || 1;
  });

/**
 * Converts the offsets in the records of parts to pointers.
 * @param {Wasm} wasm @param {number} at @param {number} parts
 */
function makeAbsolute(wasm, at, parts) {
  for (let i = 0; i < parts; i++) {
    const part = wasm.u32(at + i * PART, 3);
    if (part[2]) part.set([part[0] + at, part[1] + at]);
  }
}

export class LocalAdapter {
  #wasm;
  /** Heap address of the adapter. */
  #block;
  #contentHash;
  #onClose;
  #isClosed = false;
  /** Number of sessions that use it. */
  #userCount = 0;

  /**
   * @param {Wasm} wasm @param {number} block  heap address of the adapter @param {number} contentHash
   * @param {AdapterInfo} info
   * @param {{ remove: () => void, release: () => void }} onClose
   */
  constructor(wasm, block, contentHash, info, onClose) {
    this.#wasm = wasm;
    this.#block = block;
    this.#contentHash = contentHash;
    this.#onClose = onClose;
    this.info = info;
  }

  /**
   * Loads an adapter. Throws FORMAT, TRUNCATED, UNSUPPORTED, SHAPE, NOMEM, and errors of sources.
   * @param {Wasm} wasm
   * @param {Uint8Array} conf  CONF section of the model
   * @param {Source} source
   * @param {{ scale?: number, signal?: AbortSignal }} options
   * @param {{ sessions: number, rows: number }} sizes  the number of sessions, and the rows of a batch
   * @param {Pick<Adapters, 'take' | 'release' | 'remove'>} budget
   */
  static async load(wasm, conf, source, { scale = 1, signal }, { sessions, rows }, budget) {
    const config = decodeConfig(conf); // C has checked the section
    const file = await openSource(source, signal);
    try {
      const { format, changes } = await readAdapter(file, () => readSettings(source, signal), config, signal);
      const layout = layoutMatrices(changes, config.layers);
      const bytes = heapCost(layout.bytes) + sessions * heapCost(4 * rows * largestRankSum(changes, config.layers));
      const release = () => budget.release(bytes);
      budget.take(bytes);
      const at = await fillBlock(wasm, changes, layout, scale, file.name, signal).catch((error) => {
        release();
        throw error;
      });
      const contentHash = hashOf(wasm, at, layout.bytes);
      makeAbsolute(wasm, at, config.layers * SLOTS.length);
      const id = crypto.getRandomValues(new Uint32Array(2)).join('-');
      const info = { id, name: file.name, format, bytes, changes: changes.length };
      return new LocalAdapter(wasm, at, contentHash, info, { release, remove: () => budget.remove(id) });
    } finally {
      await file.close();
    }
  }

  /** Applies the adapter to a session. Throws NO_SESSION. @param {number} session  handle of the session */
  enter(session) {
    this.#wasm.check('bqw_session_adapter', session, this.#block, this.#contentHash);
    this.#userCount++;
  }

  /** Counts a fork of a session that uses the adapter. */
  join() {
    this.#userCount++;
  }

  /** Counts a session that has stopped using the adapter. The last one frees it if it is closed. */
  leave() {
    this.#userCount--;
    this.#freeIfUnused();
  }

  async close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#onClose.remove();
    this.#freeIfUnused();
  }

  #freeIfUnused() {
    if (!this.#isClosed || this.#userCount) return;
    this.#wasm.free(this.#block);
    this.#onClose.release();
  }

  [asyncDispose]() {
    return this.close();
  }
}

/** The adapters of a model, and the heap bytes that it reserves for them. */
export class Adapters {
  #wasm;
  #model;
  #options;
  #usedBytes = 0;
  /** @type {Map<string, LocalAdapter>} */
  #byId = new Map();

  /** @param {Wasm} wasm @param {LocalModel} model @param {LoadOptions} options  of the model */
  constructor(wasm, model, options) {
    this.#wasm = wasm;
    this.#model = model;
    this.#options = options;
  }

  /** Loads an adapter. Throws the errors of LocalAdapter.load. @param {any[]} args  of Model.loadAdapter */
  async load(args) {
    const {
      args: [source],
      options,
      signal,
    } = checkCall(TABLE.model.loadAdapter, args);
    const { prefillBatch: batch = 32, forks = 0 } = this.#options;
    const sessions = this.#model.info.sessions * (1 + forks);
    const adapter = await LocalAdapter.load(
      this.#wasm,
      this.#model.bytes('CONF'),
      source,
      { ...options, signal },
      { sessions, rows: Math.max(batch, this.#wasm.threads) },
      this,
    );
    this.#byId.set(adapter.info.id, adapter);
    return adapter;
  }

  /** Returns an adapter; undefined if it is not one of the model's. @param {string} id */
  get(id) {
    return this.#byId.get(id);
  }

  /** Takes bytes of those reserved. Throws NOMEM. @param {number} bytes */
  take(bytes) {
    const { adapterBytes = 0 } = this.#options;
    const needed = this.#usedBytes + bytes;
    if (needed > adapterBytes)
      throw new BqError(
        'NOMEM',
        `the adapter needs ${bytes} bytes, but ${this.#usedBytes} of the ${adapterBytes} bytes for adapters are in use`,
        {
          hint: `load the model with { adapterBytes: ${needed} }, or close another adapter`,
          details: { bytes, needed, adapterBytes },
        },
      );
    this.#usedBytes = needed;
  }

  /** @param {number} bytes */
  release(bytes) {
    this.#usedBytes -= bytes;
  }

  /** Removes an adapter from the model and from its idle sessions. @param {string} id */
  remove(id) {
    this.#byId.delete(id);
    this.#model.replies.dropAdapter(id);
  }
}
