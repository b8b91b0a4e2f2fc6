/** An adapter in a model's heap (LoRA): what its file changes, as the engine computes with it. Loaded when first asked for. */
import { decodeConfig, readAdapter, SLOTS } from '../../format/lora/index.js';
import { asyncDispose } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { openSource } from '../../storage/sources/index.js';
import { withPath } from '../../storage/sources/kinds.js';
import { readRange } from '../../storage/sources/read.js';
import { structs } from '../../wasm/abi.js';

/** @import { Change } from '../../format/lora/index.js' */
/** @import { InTensor } from '../../format/checkpoint-tensors.js' */
/** @import { AdapterInfo, Source } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** adapter_config.json is no longer than that. */
const MOST_JSON = 1 << 20;
const ALIGN = 64;
const PART = structs.bqw_adapter_part.size;

/** @param {number} bytes */
const aligned = (bytes) => Math.ceil(bytes / ALIGN) * ALIGN;
/** What a block takes of the heap. @param {number} bytes */
const cost = (bytes) => aligned(bytes) + ALIGN;

/** What adapter_config.json says: the source's companion, or beside it. @param {Source} source @param {AbortSignal} [signal] */
async function settingsOf(source, signal) {
  const name = 'adapter_config.json';
  const beside = source.companion ?? withPath(source, (path) => path.replace(/[^/\\]*$/, name));
  if (!beside)
    throw new BqError('ARGUMENT', `PEFT's adapters need ${name}`, {
      hint: 'pass it as companion: fromBlob(file, { companion })',
    });
  const file = await openSource(beside, signal);
  try {
    return JSON.parse(new TextDecoder().decode(await readRange(file, 0, MOST_JSON, signal)));
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new BqError('FORMAT', `${file.name} is no JSON`, { cause });
  } finally {
    await file.close();
  }
}

/** Where everything lies in its block: the parts, then each matrix once. @param {Change[]} changes @param {number} layers */
function layOut(changes, layers) {
  let bytes = aligned(layers * SLOTS.length * PART);
  /** @type {Map<InTensor, number>} */
  const places = new Map();
  for (const tensor of changes.flatMap(({ a, b }) => [a, b])) {
    if (places.has(tensor)) continue;
    places.set(tensor, bytes);
    bytes += aligned(4 * tensor.dims[0] * tensor.dims[1]);
  }
  return { places, bytes };
}

/** Floats of a step's inputs times A: what a session needs besides, for each of its rows. @param {Change[]} changes @param {number} layers */
function ranksOf(changes, layers) {
  const steps = [0, 0, 0, 1, 2, 2, 3]; // q, k and v are one step, gate and up another
  const sums = new Float64Array(4 * layers);
  for (const { layer, slot, rank } of changes) sums[4 * layer + steps[slot]] += rank;
  return sums.reduce((most, sum) => Math.max(most, sum), 0);
}

/** Copies it into the heap. FORMAT: a value that is not finite. @param {Wasm} wasm @param {number} at @param {InTensor} tensor @param {string} name */
async function put(wasm, at, tensor, name) {
  const [rows, cols] = tensor.dims;
  const values = await tensor.read(0, rows);
  if (!values.every(Number.isFinite)) throw new BqError('FORMAT', `${name} has a weight that is no finite number`);
  if (!wasm.alive) throw new BqError('CLOSED', 'the model was closed');
  wasm.f32(at, rows * cols).set(values);
}

/**
 * A block with all of it; places in it still count from its beginning.
 * @param {Wasm} wasm @param {Change[]} changes @param {ReturnType<typeof layOut>} layout @param {number} factor @param {string} name @param {AbortSignal} [signal]
 */
async function fill(wasm, changes, { places, bytes }, factor, name, signal) {
  const at = wasm.alloc(bytes);
  try {
    wasm.bytes(at, bytes).fill(0);
    for (const [tensor, place] of places) {
      await put(wasm, at + place, tensor, name);
      signal?.throwIfAborted();
    }
    for (const { layer, slot, rank, scale, a, b } of changes)
      wasm.write('bqw_adapter_part', at + (layer * SLOTS.length + slot) * PART, {
        a: places.get(a),
        b: places.get(b),
        rank,
        scale: scale * factor,
      });
    return at;
  } catch (error) {
    wasm.free(at);
    throw error;
  }
}

/** What tells it from others, by all that is in its block: below 2^53, and not 0. @param {Wasm} wasm @param {number} at @param {number} bytes */
const keyOf = (wasm, at, bytes) =>
  wasm.scope((take) => {
    const out = take(8);
    wasm.call('bqw_xxh64', at, bytes, out);
    const [low, high] = wasm.u32(out, 2);
    return (high & 0xfffff) * 2 ** 32 + low || 1;
  });

/** @param {Wasm} wasm @param {number} at @param {number} parts */
function addressed(wasm, at, parts) {
  for (let i = 0; i < parts; i++) {
    const part = wasm.u32(at + i * PART, 3);
    if (part[2]) part.set([part[0] + at, part[1] + at]);
  }
}

/** Bytes that a model keeps for adapters. */
export class Room {
  #used = 0;
  #most;
  #adapters;
  #leave;

  /** @param {number} most @param {Map<string, LocalAdapter>} adapters  of the model @param {(id: string) => void} leave  idle sessions compute without one */
  constructor(most, adapters, leave) {
    this.#most = most;
    this.#adapters = adapters;
    this.#leave = leave;
  }

  /** NOMEM. @param {number} bytes */
  take(bytes) {
    const needed = this.#used + bytes;
    if (needed > this.#most)
      throw new BqError(
        'NOMEM',
        `the adapter takes ${bytes} bytes, of ${this.#most} that are kept for adapters ${this.#used} are in use`,
        {
          hint: `load the model with { adapterBytes: ${needed} }, or close another adapter`,
          details: { bytes, needed, adapterBytes: this.#most },
        },
      );
    this.#used = needed;
  }

  /** @param {number} bytes */
  freed(bytes) {
    this.#used -= bytes;
  }

  /** @param {string} id */
  closed(id) {
    this.#adapters.delete(id);
    this.#leave(id);
  }
}

export class LocalAdapter {
  #wasm;
  #at;
  #key;
  #onClose;
  #closed = false;
  /** Sessions that compute with it. */
  #users = 0;

  /**
   * @param {Wasm} wasm @param {number} at  its block @param {number} key @param {AdapterInfo} info
   * @param {{ closed: () => void, freed: () => void }} onClose
   */
  constructor(wasm, at, key, info, onClose) {
    this.#wasm = wasm;
    this.#at = at;
    this.#key = key;
    this.#onClose = onClose;
    this.info = info;
  }

  /**
   * FORMAT, TRUNCATED, UNSUPPORTED, SHAPE, NOMEM, and what sources throw.
   * @param {Wasm} wasm
   * @param {Uint8Array} conf  of the model
   * @param {Source} source
   * @param {{ scale?: number, signal?: AbortSignal }} options
   * @param {{ sessions: number, rows: number }} sizes  how many sessions there may be, and the rows of a batch
   * @param {{ take: (bytes: number) => void, freed: (bytes: number) => void, closed: (id: string) => void }} room  that is kept for adapters. NOMEM
   */
  static async load(wasm, conf, source, { scale = 1, signal }, { sessions, rows }, room) {
    const config = decodeConfig(conf); // C has checked it
    const file = await openSource(source, signal);
    try {
      const { format, changes } = await readAdapter(file, () => settingsOf(source, signal), config, signal);
      const layout = layOut(changes, config.layers);
      const bytes = cost(layout.bytes) + sessions * cost(4 * rows * ranksOf(changes, config.layers));
      const freed = () => room.freed(bytes);
      room.take(bytes);
      const at = await fill(wasm, changes, layout, scale, file.name, signal).catch((error) => {
        freed();
        throw error;
      });
      const key = keyOf(wasm, at, layout.bytes);
      addressed(wasm, at, config.layers * SLOTS.length);
      const id = crypto.getRandomValues(new Uint32Array(2)).join('-');
      const info = { id, name: file.name, format, bytes, changes: changes.length };
      return new LocalAdapter(wasm, at, key, info, { freed, closed: () => room.closed(id) });
    } finally {
      await file.close();
    }
  }

  /** Has a session compute with it. NO_SESSION. @param {number} session  its handle */
  enter(session) {
    this.#wasm.check('bqw_session_adapter', session, this.#at, this.#key);
    this.#users++;
  }

  /** One more session does: a fork of one. */
  join() {
    this.#users++;
  }

  /** A session no longer does. */
  leave() {
    this.#users--;
    this.#freeIfUnused();
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#onClose.closed();
    this.#freeIfUnused();
  }

  #freeIfUnused() {
    if (!this.#closed || this.#users) return;
    this.#wasm.free(this.#at);
    this.#onClose.freed();
  }

  [asyncDispose]() {
    return this.close();
  }
}
