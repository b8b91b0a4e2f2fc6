/** Rounds tensors to other types, piece by piece, each by a free worker of the pool. */
import { encodePiece, readPiece, rowsPerPiece } from '../format/bq4/encode-tensor.js';
import { ErrorSum } from '../format/conversion-report.js';
import { weightBytes } from '../format/bq4/weight-types.js';
import { matrixOf } from '../format/bq4/write-v2.js';
import { inputOf } from './calibration-model.js';

/** @import { Codec } from '../format/bq4/codec.js' */
/** @import { Encoded, Match, Piece } from '../format/bq4/encode-tensor.js' */
/** @import { WeightType } from '../format/bq4/weight-types.js' */
/** @import { AnyWorker, Job, WorkerPool } from './worker-pool.js' */
/** @import { Moments, Rounded } from './rounder.js' */

/**
 * How a tensor is rounded. byMoments: whether by the second moments of its inputs.
 * @typedef {{ type: WeightType, layout: number, byMoments: boolean }} How
 */

/**
 * Number of pieces of a matrix that later matrices wait for, so that several workers round it. It does not depend on
 * the threads, because the errors in reports are summed piece by piece.
 */
const PARALLEL_PIECES = 4;
const LAYOUTS = ['rows', 'tiled', 'flat'];

/** Accumulates the errors of a tensor's pieces. */
export class ErrorTally {
  #errors = new ErrorSum();
  /** @type {{ error: number, of: number } | null} */
  #products = null;
  #bytes = 0;

  /** @param {number} weights @param {Piece | Rounded} piece */
  add(weights, { bytes, errors }) {
    this.#errors.add(weights, errors);
    this.#bytes += bytes.length;
    if (!('of' in errors)) return;
    this.#products ??= { error: 0, of: 0 };
    this.#products.error += errors.error;
    this.#products.of += errors.of;
  }

  get figures() {
    const { error = 0, of = 0 } = this.#products ?? {};
    return {
      bytes: this.#bytes,
      ...this.#errors.figures,
      ...(this.#products && { product: Math.sqrt(Math.max(error, 0) / of) }),
    };
  }
}

/**
 * Divides a tensor into pieces: first row and number of rows of each.
 * @param {Match} match @param {number} [parts]  least number of pieces, unless they would be smaller than 32 rows
 */
export function piecesOf({ slot }, parts = 1) {
  const { rows } = matrixOf(slot.dims);
  const step = Math.min(rowsPerPiece(slot.dims), 32 * Math.ceil(rows / parts / 32));
  return Array.from({ length: Math.ceil(rows / step) }, (_, i) => ({
    row: i * step,
    n: Math.min(step, rows - i * step),
  }));
}

/**
 * The source of moments: a Calibrator, or a Drift, with which matrices are rounded in the order of their inputs.
 * @typedef {object} Inputs
 * @property {(name: string) => string} keyOf  returns the key of a matrix's input; '' if it has none
 * @property {(name: string) => Promise<Moments | null>} momentsOf
 * @property {(name: string) => Promise<void>} [ready]  settles when the matrices of earlier inputs are rounded
 * @property {(name: string) => Promise<void>} [enter]  collects the moments of a matrix's input, once it is ready
 * @property {(name: string, row: number, values: Float32Array, rows: number) => void} [put]  replaces rows of a matrix
 *   by rounded rows
 * @property {(names: ReadonlySet<string>) => void} [markRestored]  marks matrices that an earlier run has rounded
 */

/** @template {Inputs} [I=Inputs] */
export class Tensors {
  #pool;
  #inputs;
  /** The last queued work on the model of the inputs. @type {Promise<unknown>} */
  #last = Promise.resolve();

  /** @param {WorkerPool} pool @param {I | null} inputs */
  constructor(pool, inputs) {
    this.#pool = pool;
    this.#inputs = inputs;
  }

  /**
   * Returns the key of the input by which a tensor is rounded; '' if there is none.
   * @param {Match} match @param {boolean} byMoments
   */
  keyOf({ slot }, byMoments) {
    return byMoments && this.#inputs ? this.#inputs.keyOf(slot.name) : '';
  }

  /**
   * Runs work on the model of the inputs, after the work that was queued before.
   * @template T @param {(inputs: I) => Promise<T>} work @returns {Promise<T>}
   */
  runAlone(work) {
    const done = this.#last.then(() => work(/** @type {I} */ (this.#inputs)));
    this.#last = done.catch(() => {});
    return done;
  }

  /**
   * Copies a matrix's moments to a worker; false if the matrix has no moments.
   * @param {AnyWorker} worker @param {string} name
   */
  async #copyMoments(worker, name) {
    if (this.#inputs?.keyOf(name) === worker.key) return true;
    // Moments stay in the heap until the next ones are collected; the worker copies them before use() returns.
    const copying = await this.runAlone(async (inputs) => {
      const moments = await inputs.momentsOf(name);
      return moments && { done: worker.use(moments) };
    });
    await copying?.done;
    return copying !== null;
  }

  /**
   * Rounds a piece of a tensor. Throws FORMAT.
   * @param {AnyWorker} worker @param {Match} match @param {How} how @param {{ row: number, n: number }} rows
   */
  async piece(worker, match, how, { row, n }) {
    const { name, dims } = match.slot;
    const { ready, enter, put } = (inputOf(name) && this.#inputs) || {};
    await ready?.(name);
    if (enter) await this.runAlone(() => enter(name));
    const piece = await this.#round(worker, match, how, row, n);
    if (put) put(name, row, await worker.dequantize(how.type, how.layout, piece.bytes, n, matrixOf(dims).cols), n);
    return piece;
  }

  /** @param {AnyWorker} worker @param {Match} match @param {How} how @param {number} row @param {number} n */
  async #round(worker, match, { type, layout, byMoments }, row, n) {
    const { slot, tensor } = match;
    if (byMoments && this.#inputs && (await this.#copyMoments(worker, slot.name)))
      return worker.round(type, layout, await tensor.read(row, n), n, matrixOf(slot.dims).cols);
    return encodePiece(worker, match, await readPiece(tensor, row, n), type, layout, n, row);
  }

  /** As `startAhead` of the pool. @template T @param {Job<T>[]} jobs */
  startAhead(jobs) {
    return this.#pool.startAhead(jobs);
  }

  /**
   * Resumes a file that already has its first tensors: replaces their weights in the model of the inputs by the rounded
   * ones.
   * @param {Match[]} storedMatches @param {(match: Match) => How} howOf @param {Codec} codec
   * @param {import('../format/bq4/write-v2.js').ReadKept} read
   */
  async restore(storedMatches, howOf, codec, read) {
    const { markRestored, enter, put } = this.#inputs ?? {};
    if (!markRestored || !enter || !put) return;
    markRestored(new Set(storedMatches.map(({ slot }) => slot.name)));
    for (const [i, match] of storedMatches.entries()) {
      const { name, dims } = match.slot;
      if (!inputOf(name)) continue;
      await this.runAlone(() => enter(name));
      const { type, layout } = howOf(match);
      const { cols } = matrixOf(dims);
      let at = 0;
      for (const { row, n } of piecesOf(match)) {
        const bytes = weightBytes(type, layout, n, cols);
        put(name, row, codec.dequantize(type, layout, await read(i, at, bytes), n, cols), n);
        at += bytes;
      }
    }
  }

  /**
   * Returns the tensors for a file writer, which requests their pieces in order, starting with any tensor.
   * @param {Match[]} matches @param {(match: Match) => How} howOf @returns {Encoded[]}
   */
  encoded(matches, howOf) {
    const isUrgent = Boolean(this.#inputs?.put);
    const plannedTensors = matches.map((match) => ({
      match,
      how: howOf(match),
      rows: piecesOf(match, isUrgent ? PARALLEL_PIECES : 1),
    }));
    const jobs = plannedTensors.map(({ match, how, rows }) =>
      rows.map((piece) => ({
        key: this.keyOf(match, how.byMoments),
        isUrgent,
        bytes: weightBytes(how.type, how.layout, piece.n, matrixOf(match.slot.dims).cols),
        run: (/** @type {AnyWorker} */ worker) => this.piece(worker, match, how, piece),
      })),
    );
    /** @type {(() => Promise<Piece | Rounded>)[]} */
    let results = [];
    const resultsOf = (/** @type {number} */ tensor) => {
      if (!results.length) results = this.startAhead(jobs.slice(tensor).flat());
      return results.splice(0, jobs[tensor].length);
    };
    return plannedTensors.map(({ match, how: { type, layout }, rows }, tensor) => {
      const { name, dims } = match.slot;
      const tally = new ErrorTally();
      async function* pieces() {
        for (const [i, result] of resultsOf(tensor).entries()) {
          const piece = await result();
          tally.add(rows[i].n * matrixOf(dims).cols, piece);
          yield piece.bytes;
        }
      }
      const report = () => ({ name, type: type.name, layout: LAYOUTS[layout], ...tally.figures });
      return { name, type, layout, dims, pieces, report };
    });
  }
}
