/**
 * More cores without shared memory: workers that hold a part of each matrix, are sent what it is multiplied with, and send its
 * rows back. C stops before such a product (bq_session_spread) and goes on once its rows are there; the bits are the same, whoever
 * computes which part. Where a worker fails, this thread computes its part: it has all weights.
 *
 * Loaded for large models, where memory can't be shared.
 */
import { deferred, unlessAborted } from '../../shared/async.js';
import { within } from '../../shared/timeouts.js';
import { rateOf } from '../speed-estimate.js';
import { structs } from '../../wasm/abi.js';
import { startThread } from '../../wasm/threads.js';
import { Wasm } from '../../wasm/wasm.js';

/** @import { LoadOptions, Plan } from '../../shared/types.js' */
/** @import { Thread } from '../../wasm/threads.js' */
/** @import { Compiled } from '../../wasm/wasm.js' */

/**
 * A part of a product, on its way to a worker: its weights only once.
 * @typedef {{ key: number, type: number, rows: number, bytes: number, weights?: Uint8Array }} PartRows
 * @typedef {{ tokens: number, cols: number, activations: number, panel: Uint8Array, list: PartRows[] }} PartWork
 */

/** What each worker's heap has besides its weights, activations and results: rows that don't divide evenly, what is measured with. */
const ROOM = 8 << 20;
/** Exchanges that are timed together, since clocks tick in up to a millisecond here. */
const ROUNDS = 24;
/** Products in each (web/measure.c): so many at most, of so many bytes. */
const PRODUCTS = 8;
const PRODUCT_BYTES = (896 * 1024 * 4.5) / 8;
/** So many times as fast it must be to be worth its memory and power. */
const WORTH = 1.15;
/** Tokens of a batch where nothing else is asked for, and how long one takes there beside one that comes alone. */
const BATCH = 32;
const IN_BATCH = 0.4;
/** Messages come so many times as late while all cores compute (docs/decisions/0016-rows-by-message.md). */
const LATER = 2.5;
/** Products of a layer that wait for another. */
const WAITS = 4;

/** @param {number[]} all */
const median = (all) => all.sort((a, b) => a - b)[all.length >> 1];

export class Spread {
  #wasm;
  /** By the number of their part; null: it failed. @type {(Thread | null)[]} */
  #workers;
  /** Addresses of the weights that each has. @type {Set<number>[]} */
  #known;
  /** Of a bqw_spread, and its rows. */
  #at;
  #closed = false;
  /** What waits for answers. @type {Set<(rows: Float32Array | null) => void>} */
  #asked = new Set();
  /** Tokens from which on products are shared. */
  tokens = 0;

  /** @param {Wasm} wasm @param {Thread[]} workers */
  constructor(wasm, workers) {
    this.#wasm = wasm;
    this.#workers = [null, ...workers];
    this.#known = this.#workers.map(() => new Set());
    this.#at = wasm.alloc(structs.bqw_spread.size + 3 * structs.bqw_spread_rows.size);
  }

  /** How many share a product, this thread included. */
  get parts() {
    return this.#workers.length;
  }

  /**
   * Null: it doesn't pay, or can't be had.
   * @param {Wasm} wasm @param {Compiled} compiled
   * @param {{ most: number, asked: boolean, url?: string }} wanted  `asked`: whether it pays or not
   * @param {Plan} plan @param {LoadOptions} options
   */
  static async open(
    wasm,
    compiled,
    { most, asked, url },
    plan,
    { memoryBudget: budget = Infinity, prefillBatch: batch = BATCH },
  ) {
    const own = workerBytes(plan, most, batch);
    if (plan.heapBytes + own * (most - 1) > budget) return null;
    /** @type {Thread[]} */
    const workers = [];
    const end = () => workers.splice(0).forEach((worker) => worker.end());
    const begin = async () => {
      while (workers.length < most - 1) {
        const worker = await startThread(url);
        workers.push(worker);
        await worker.here;
      }
      const { module, heapBase } = compiled;
      const said = await all(workers, {
        spread: { module, heapBase, shared: false },
        rare: wasm.rare,
        bytes: own,
      });
      if (said.some((message) => message !== 'ready')) throw new Error('a worker could not begin');
    };
    const begun = begin();
    /** @type {Spread | undefined} */
    let spread;
    try {
      await within('spreadStart', begun);
      spread = new Spread(wasm, workers);
      spread.tokens = asked ? 1 : await within('spreadMeasure', spread.#measure(compiled, plan, batch));
      for (const worker of workers) worker.rest();
      if (spread.tokens) return spread;
    } catch {
      // One thread computes, as it would without workers.
    }
    if (spread) wasm.free(spread.#at);
    end();
    begun.catch(() => {}).finally(end); // those that come later are not wanted either
    return null;
  }

  /** Sessions stop before products from now on: whoever runs them has to know of it already. */
  begin() {
    this.#wasm.call('bqw_spread_from', this.tokens);
  }

  /**
   * From how many tokens on it pays; 0: never. Times what a token's products will be: a part computed here, one by each worker, and
   * what it takes to hear of it. In an instance of its own, since the model's memory is planned to the last byte.
   * @param {Compiled} compiled @param {Plan} plan @param {number} batch
   */
  async #measure(compiled, plan, batch) {
    const wasm = await Wasm.create({ ...compiled, shared: false }, ROOM);
    const workers = /** @type {Thread[]} */ (this.#workers.slice(1));
    const part = plan.weightBytes / (WAITS * plan.layers + 1) / this.parts;
    const products = Math.min(Math.max(Math.round(part / PRODUCT_BYTES), 1), PRODUCTS);
    const block = wasm.alloc(wasm.call('bqw_measure_bytes', products, 1));
    wasm.call('bqw_measure_prepare', block, products, 1);
    // Most products have the hidden state as their input: that many rows come back of a token.
    const bytes = Math.ceil(plan.tokenWeights / plan.hidden / (WAITS * plan.layers + 1) / this.parts) * 4;
    const compute = () => wasm.call('bqw_measure', block);
    const exchange = (/** @type {number} */ tokens) => () => {
      const timed = { products, sent: new Uint8Array((bytes / 4) * tokens), bytes: bytes * tokens };
      const others = all(workers, { timed });
      compute();
      return others;
    };
    /** Milliseconds of one. @param {() => unknown} work */
    const time = async (work) => {
      const since = performance.now();
      for (let i = 0; i < ROUNDS; i++) await work();
      return (performance.now() - since) / ROUNDS;
    };
    const works = [compute, exchange(1), exchange(batch)];
    /** @type {number[][]} */
    const times = works.map(() => []);
    for (let turn = -1; turn < 3; turn++)
      for (const [i, work] of works.entries()) {
        const ms = await time(work);
        if (turn >= 0) times[i].push(ms); // before that with quick code
      }
    wasm.release();
    const [ms, one, whole] = times.map(median);
    return pays(plan, this.parts, (ms / products) * PRODUCTS, [one - ms, whole - ms], batch);
  }

  /** After a run that stopped: false, no product was wanted. @param {number} session  its handle @param {AbortSignal} [signal] */
  async wait(session, signal) {
    if (!this.#part(session, 0)) return false;
    const answers = this.#workers.map((worker, part) => (worker ? this.#ask(session, part, worker) : null));
    this.#compute(session, 0);
    for (let part = 1; part < this.parts; part++) {
      const asked = answers[part];
      const answer = asked && (await unlessAborted(asked, signal));
      if (answer) this.#take(session, part, answer);
      else this.#compute(session, part);
    }
    this.#wasm.call('bqw_session_spread_done', session);
    return true;
  }

  /** Describes a part in the heap. @param {number} session @param {number} part @returns {number} how many products */
  #part(session, part) {
    const rows = this.#at + structs.bqw_spread.size;
    return this.#wasm.call('bqw_session_spread', session, part, this.parts, this.#at, rows);
  }

  /** Of what is described. @param {number} i */
  #rows(i) {
    return this.#wasm.read('bqw_spread_rows', this.#at + structs.bqw_spread.size + i * structs.bqw_spread_rows.size);
  }

  /** @param {number} session @param {number} part */
  #compute(session, part) {
    if (this.#part(session, part))
      this.#wasm.check('bqw_spread_multiply', this.#at, this.#at + structs.bqw_spread.size);
  }

  /** @param {number} session @param {number} part @param {Thread} worker @returns {Promise<Float32Array | null>}  null: it failed */
  #ask(session, part, worker) {
    const n = this.#part(session, part);
    const wasm = this.#wasm;
    const { tokens, cols, activations, panel, panel_bytes: bytes } = wasm.read('bqw_spread', this.#at);
    const list = Array.from({ length: n }, (_, i) => this.#rowsFor(part, i));
    /** @type {PartWork} */
    const work = { tokens, cols, activations, panel: wasm.bytes(panel, bytes).slice(), list };
    const sent = [work.panel, ...list.map(({ weights }) => weights)].filter((bytes) => bytes !== undefined);
    worker.post(
      { work },
      sent.map(({ buffer }) => /** @type {ArrayBuffer} */ (buffer)),
    );
    const { promise, resolve } = deferred();
    const settle = (/** @type {Float32Array | null} */ rows) => {
      this.#asked.delete(resolve);
      resolve(rows);
    };
    this.#asked.add(resolve);
    within('spreadAnswer', worker.next()).then(
      (/** @type {any} */ answer) => {
        worker.rest();
        settle(answer.y ?? this.#fails(part));
      },
      () => settle(this.#fails(part)),
    );
    return promise;
  }

  /** @param {number} part @param {number} i @returns {PartRows} */
  #rowsFor(part, i) {
    const { weights: key, bytes, type, rows } = this.#rows(i);
    const known = this.#known[part];
    if (known.has(key)) return { key, type, rows, bytes };
    known.add(key);
    return { key, type, rows, bytes, weights: this.#wasm.bytes(key, bytes).slice() };
  }

  /** @param {number} part */
  #fails(part) {
    this.#workers[part]?.end();
    this.#workers[part] = null;
    return null;
  }

  /** Puts rows where C wants them: those of a product after those of another, of each token in turn. @param {number} session @param {number} part @param {Float32Array} from */
  #take(session, part, from) {
    const n = this.#part(session, part);
    const { tokens } = this.#wasm.read('bqw_spread', this.#at);
    for (let i = 0, at = 0; i < n; i++) {
      const { y, rows, stride } = this.#rows(i);
      for (let t = 0; t < tokens; t++, at += rows)
        this.#wasm.f32(y + 4 * t * stride, rows).set(from.subarray(at, at + rows));
    }
  }

  // What js/engine/model/model.js tells those who read weights between slices.
  leave() {}
  ahead() {}

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    for (const worker of this.#workers) worker?.end();
    for (const resolve of this.#asked) resolve(null); // browsers don't tell of a worker's end
  }
}

/**
 * What a worker's heap holds: its weights, and a batch's activations and results. A layer's products together have about as many rows as
 * it has weights for each of `hidden` columns, and none has more columns than that; activations of 16 bits are twice those of 8.
 * @param {Pick<Plan, 'layers' | 'hidden' | 'tokenWeights' | 'weightBytes'>} plan @param {number} parts @param {number} batch
 */
export function workerBytes({ layers, hidden, tokenWeights, weightBytes }, parts, batch) {
  const rows = tokenWeights / hidden / layers;
  return Math.ceil(weightBytes / parts + 2 * 4 * batch * rows) + ROOM;
}

/** The answers to a message to each. @param {Thread[]} workers @param {object} message */
function all(workers, message) {
  for (const worker of workers) worker.post(message);
  return Promise.all(workers.map((worker) => worker.next()));
}

/**
 * From how many tokens of a batch on sharing products pays; 0: never.
 * @param {Pick<Plan, 'layers' | 'tokenWeights' | 'weightBytes'> & { activations?: Plan['activations'] }} plan
 * @param {number} parts
 * @param {number} ms  of the measured products in one thread
 * @param {number[]} waits  milliseconds that an exchange takes longer than a part, with the rows of one token and of a batch
 * @param {number} [batch]  its tokens
 */
export function pays(plan, parts, ms, [one, whole], batch = BATCH) {
  const token = 1000 / (rateOf(ms, plan) ?? Infinity);
  const exchanges = WAITS * plan.layers + 1;
  for (const tokens of [1, batch / 4, batch / 2, batch].map(Math.ceil)) {
    const time = tokens === 1 ? token : token * IN_BATCH * tokens;
    const wait = Math.max(one + ((whole - one) * tokens) / batch, 0);
    if (time > WORTH * (time / parts + exchanges * wait * LATER)) return tokens;
  }
  return 0;
}
