/**
 * Tensor parallelism without shared memory: each worker holds a part of each matrix, receives the activations and
 * returns the rows of the product. C stops before such a product (bq_session_spread) and continues when the rows have
 * been written to the heap. The results are bit-identical for any distribution. If a worker fails, this thread computes
 * its part, since it has all weights.
 *
 * Loaded for large models where memory can't be shared.
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
 * A part of a product in a message to a worker; its weights are sent only once.
 * @typedef {{ key: number, type: number, rows: number, bytes: number, weights?: Uint8Array }} PartRows
 * @typedef {{ tokens: number, cols: number, activations: number, panel: Uint8Array, list: PartRows[] }} PartWork
 */

/** Spare bytes of each worker's heap, for rows that don't divide evenly and for measuring. */
const SPARE_BYTES = 8 << 20;
/**
 * Number of exchanges with the workers that are timed together, since a clock may have a resolution of only a
 * millisecond.
 */
const TIMED_ROUNDS = 24;
/** Largest number of measured products in an exchange (web/measure.c), and the weight bytes of each. */
const PRODUCTS = 8;
const PRODUCT_BYTES = (896 * 1024 * 4.5) / 8;
/** Smallest speedup that justifies the additional memory and power. */
const MIN_SPEEDUP = 1.15;
/** Default number of tokens in a batch, and the time of a token in a batch relative to that of a single token. */
const DEFAULT_BATCH = 32;
const BATCH_TOKEN_COST = 0.4;
/** Factor by which messages are delayed while all cores compute (docs/decisions/0016-rows-by-message.md). */
const LOADED_DELAY = 2.5;
/** Number of exchanges per layer: its products that depend on an earlier product. */
const EXCHANGES_PER_LAYER = 4;

/** @param {number[]} numbers */
const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];

export class TensorParallel {
  #wasm;
  /**
   * Workers by the index of their part; null: this thread (index 0), or a worker that failed.
   * @type {(Thread | null)[]}
   */
  #workers;
  /** Heap addresses of the weights that each worker has received. @type {Set<number>[]} */
  #sentWeights;
  /** Heap address of a bqw_spread, followed by its bqw_spread_rows. */
  #record;
  #isClosed = false;
  /** Resolve functions of pending answers. @type {Set<(rows: Float32Array | null) => void>} */
  #pendingAnswers = new Set();
  /** Smallest batch, in tokens, whose products are distributed over the workers. */
  minTokens = 0;

  /** @param {Wasm} wasm @param {Thread[]} workers */
  constructor(wasm, workers) {
    this.#wasm = wasm;
    this.#workers = [null, ...workers];
    this.#sentWeights = this.#workers.map(() => new Set());
    this.#record = wasm.alloc(structs.bqw_spread.size + 3 * structs.bqw_spread_rows.size);
  }

  /** Number of parts of a product: one for this thread and one for each worker. */
  get parts() {
    return this.#workers.length;
  }

  /**
   * Starts the workers. Returns null if they can't be started, exceed the memory budget, or would not be faster.
   * @param {Wasm} wasm @param {Compiled} compiled
   * @param {{ workerCount: number, isForced: boolean, url?: string }} settings  with `isForced`, no speedup is required
   * @param {Plan} plan @param {LoadOptions} options
   */
  static async open(
    wasm,
    compiled,
    { workerCount, isForced, url },
    plan,
    { memoryBudget: budget = Infinity, prefillBatch: batch = DEFAULT_BATCH },
  ) {
    const bytesPerWorker = workerBytes(plan, workerCount, batch);
    if (plan.heapBytes + bytesPerWorker * (workerCount - 1) > budget) return null;
    /** @type {Thread[]} */
    const workers = [];
    const end = () => workers.splice(0).forEach((worker) => worker.end());
    const begin = async () => {
      while (workers.length < workerCount - 1) {
        const worker = await startThread(url);
        workers.push(worker);
        await worker.started;
      }
      const { module, heapBase } = compiled;
      const answers = await postToAll(workers, {
        spread: { module, heapBase, shared: false },
        rare: wasm.rare,
        bytes: bytesPerWorker,
      });
      if (answers.some((message) => message !== 'ready')) throw new Error('a worker could not start');
    };
    const started = begin();
    /** @type {TensorParallel | undefined} */
    let parallel;
    try {
      await within('threadStart', started);
      parallel = new TensorParallel(wasm, workers);
      parallel.minTokens = isForced ? 1 : await within('spreadMeasure', parallel.#measure(compiled, plan, batch));
      for (const worker of workers) worker.allowExit();
      if (parallel.minTokens) return parallel;
    } catch {
      // This thread computes alone, as without workers.
    }
    if (parallel) wasm.free(parallel.#record);
    end();
    started.catch(() => {}).finally(end); // ends workers that start after the timeout
    return null;
  }

  /** Makes sessions stop before products from now on. The model must already use this object. */
  begin() {
    this.#wasm.call('bqw_spread_from', this.minTokens);
  }

  /**
   * Returns the smallest number of tokens for which tensor parallelism is faster; 0 if it never is. Measures products
   * of the model's size: one part in this thread, one in each worker, and the messages. Uses a separate instance, since
   * the model's instance has no spare memory.
   * @param {Compiled} compiled @param {Plan} plan @param {number} batch
   */
  async #measure(compiled, plan, batch) {
    const wasm = await Wasm.create({ ...compiled, shared: false }, SPARE_BYTES);
    const workers = /** @type {Thread[]} */ (this.#workers.slice(1));
    const partBytes = plan.weightBytes / (EXCHANGES_PER_LAYER * plan.layers + 1) / this.parts;
    const products = Math.min(Math.max(Math.round(partBytes / PRODUCT_BYTES), 1), PRODUCTS);
    const block = wasm.alloc(wasm.call('bqw_measure_bytes', products, 1));
    wasm.call('bqw_measure_prepare', block, products, 1);
    // Bytes of a part's result for one token, since most products have the hidden state as input.
    const bytes = Math.ceil(plan.tokenWeights / plan.hidden / (EXCHANGES_PER_LAYER * plan.layers + 1) / this.parts) * 4;
    const compute = () => wasm.call('bqw_measure', block);
    const exchange = (/** @type {number} */ tokens) => () => {
      const timed = { products, sent: new Uint8Array((bytes / 4) * tokens), bytes: bytes * tokens };
      const answers = postToAll(workers, { timed });
      compute();
      return answers;
    };
    /** Measures the milliseconds of one call. @param {() => unknown} work */
    const time = async (work) => {
      const since = performance.now();
      for (let i = 0; i < TIMED_ROUNDS; i++) await work();
      return (performance.now() - since) / TIMED_ROUNDS;
    };
    const works = [compute, exchange(1), exchange(batch)];
    /** @type {number[][]} */
    const times = works.map(() => []);
    for (let turn = -1; turn < 3; turn++)
      for (const [i, work] of works.entries()) {
        const ms = await time(work);
        if (turn >= 0) times[i].push(ms); // the first round only warms up
      }
    wasm.release();
    const [ms, singleMs, batchMs] = times.map(median);
    return minTokensWorthwhile(plan, this.parts, (ms / products) * PRODUCTS, [singleMs - ms, batchMs - ms], batch);
  }

  /**
   * Computes the product before which a run stopped. Returns false if the run did not stop before a product.
   * @param {number} session  handle of the session @param {AbortSignal} [signal]
   */
  async wait(session, signal) {
    if (!this.#describePart(session, 0)) return false;
    const answers = this.#workers.map((worker, part) => (worker ? this.#requestPart(session, part, worker) : null));
    this.#computePart(session, 0);
    for (let part = 1; part < this.parts; part++) {
      const pendingAnswer = answers[part];
      const answer = pendingAnswer && (await unlessAborted(pendingAnswer, signal));
      if (answer) this.#storeRows(session, part, answer);
      else this.#computePart(session, part);
    }
    this.#wasm.call('bqw_session_spread_done', session);
    return true;
  }

  /**
   * Writes the description of a part to the heap.
   * @param {number} session @param {number} part
   * @returns {number} number of products
   */
  #describePart(session, part) {
    const rows = this.#record + structs.bqw_spread.size;
    return this.#wasm.call('bqw_session_spread', session, part, this.parts, this.#record, rows);
  }

  /** Reads the record of product `i` of the described part. @param {number} i */
  #readRows(i) {
    return this.#wasm.read(
      'bqw_spread_rows',
      this.#record + structs.bqw_spread.size + i * structs.bqw_spread_rows.size,
    );
  }

  /** @param {number} session @param {number} part */
  #computePart(session, part) {
    if (this.#describePart(session, part))
      this.#wasm.check('bqw_spread_multiply', this.#record, this.#record + structs.bqw_spread.size);
  }

  /**
   * Requests a part from its worker.
   * @param {number} session @param {number} part @param {Thread} worker
   * @returns {Promise<Float32Array | null>}  null: the worker failed
   */
  #requestPart(session, part, worker) {
    const n = this.#describePart(session, part);
    const wasm = this.#wasm;
    const { tokens, cols, activations, panel, panel_bytes: bytes } = wasm.read('bqw_spread', this.#record);
    const list = Array.from({ length: n }, (_, i) => this.#rowsFor(part, i));
    /** @type {PartWork} */
    const work = { tokens, cols, activations, panel: wasm.bytes(panel, bytes).slice(), list };
    const buffers = [work.panel, ...list.map(({ weights }) => weights)].filter((bytes) => bytes !== undefined);
    worker.post(
      { work },
      buffers.map(({ buffer }) => /** @type {ArrayBuffer} */ (buffer)),
    );
    const { promise, resolve } = deferred();
    const settle = (/** @type {Float32Array | null} */ rows) => {
      this.#pendingAnswers.delete(resolve);
      resolve(rows);
    };
    this.#pendingAnswers.add(resolve);
    within('spreadAnswer', worker.next()).then(
      (/** @type {any} */ answer) => {
        worker.allowExit();
        settle(answer.y ?? this.#dropWorker(part));
      },
      () => settle(this.#dropWorker(part)),
    );
    return promise;
  }

  /**
   * Describes product `i` for a worker, with its weights if the worker has not received them.
   * @param {number} part @param {number} i
   * @returns {PartRows}
   */
  #rowsFor(part, i) {
    const { weights: key, bytes, type, rows } = this.#readRows(i);
    const sentKeys = this.#sentWeights[part];
    if (sentKeys.has(key)) return { key, type, rows, bytes };
    sentKeys.add(key);
    return { key, type, rows, bytes, weights: this.#wasm.bytes(key, bytes).slice() };
  }

  /** @param {number} part */
  #dropWorker(part) {
    this.#workers[part]?.end();
    this.#workers[part] = null;
    return null;
  }

  /**
   * Copies rows to the heap. `values` has all tokens of the first product, then those of the next.
   * @param {number} session @param {number} part @param {Float32Array} values
   */
  #storeRows(session, part, values) {
    const n = this.#describePart(session, part);
    const { tokens } = this.#wasm.read('bqw_spread', this.#record);
    for (let i = 0, at = 0; i < n; i++) {
      const { y, rows, stride } = this.#readRows(i);
      for (let t = 0; t < tokens; t++, at += rows)
        this.#wasm.f32(y + 4 * t * stride, rows).set(values.subarray(at, at + rows));
    }
  }

  // The model calls these around each work unit; only paging needs them.
  leave() {}
  ahead() {}

  async close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const worker of this.#workers) worker?.end();
    for (const resolve of this.#pendingAnswers) resolve(null); // browsers don't report that a worker has ended
  }
}

/**
 * Returns the bytes of a worker's heap: its weights, and the activations and results of a batch. A layer's products
 * together have about as many rows as the layer has weights per hidden dimension. No product has more columns than
 * that. Activations of 16 bits take twice the bytes of 8 bits.
 * @param {Pick<Plan, 'layers' | 'hidden' | 'tokenWeights' | 'weightBytes'>} plan @param {number} parts
 * @param {number} batch
 */
export function workerBytes({ layers, hidden, tokenWeights, weightBytes }, parts, batch) {
  const rows = tokenWeights / hidden / layers;
  return Math.ceil(weightBytes / parts + 2 * 4 * batch * rows) + SPARE_BYTES;
}

/** Sends a message to all workers and collects their answers. @param {Thread[]} workers @param {object} message */
function postToAll(workers, message) {
  for (const worker of workers) worker.post(message);
  return Promise.all(workers.map((worker) => worker.next()));
}

/**
 * Returns the smallest batch, in tokens, for which distributing products over workers is faster; 0 if none is.
 * @param {Pick<Plan, 'layers' | 'tokenWeights' | 'weightBytes'> & { activations?: Plan['activations'] }} plan
 * @param {number} parts
 * @param {number} ms  milliseconds of the measured products in one thread
 * @param {number[]} waits  milliseconds that an exchange takes in addition to the computation: for one token, for a batch
 * @param {number} [batch]  tokens of the batch
 */
export function minTokensWorthwhile(plan, parts, ms, [singleWait, batchWait], batch = DEFAULT_BATCH) {
  const token = 1000 / (rateOf(ms, plan) ?? Infinity);
  const exchanges = EXCHANGES_PER_LAYER * plan.layers + 1;
  for (const tokens of [1, batch / 4, batch / 2, batch].map(Math.ceil)) {
    const time = tokens === 1 ? token : token * BATCH_TOKEN_COST * tokens;
    const wait = Math.max(singleWait + ((batchWait - singleWait) * tokens) / batch, 0);
    if (time > MIN_SPEEDUP * (time / parts + exchanges * wait * LOADED_DELAY)) return tokens;
  }
  return 0;
}
