/** Tensors in other types, piece by piece, each by the hand that is free. */
import { encodePiece, readPiece, rowsPerPiece } from '../format/bq4/encode-tensor.js';
import { ErrorSum } from '../format/conversion-report.js';
import { weightBytes } from '../format/bq4/weight-types.js';
import { matrixOf } from '../format/bq4/write-v2.js';
import { inputOf } from './calibration-model.js';

/** @import { Codec } from '../format/bq4/codec.js' */
/** @import { Encoded, Match, Piece } from '../format/bq4/encode-tensor.js' */
/** @import { WeightType } from '../format/bq4/weight-types.js' */
/** @import { AnyHand, Hands, Job } from './worker-pool.js' */
/** @import { Moments, Rounded } from './rounder.js' */

/** How a tensor is rounded; by: its moments. @typedef {{ type: WeightType, layout: number, by: boolean }} How */

/** Pieces of a matrix that others wait for, so that several hands round it. What reports say is added up piece by piece, so they are no more where there are more hands. */
const PARTS = 4;
const LAYOUTS = ['rows', 'tiled', 'flat'];

/** What its pieces say of a tensor. */
export class Tally {
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

/** The pieces of a tensor: their first rows, and how many each has. @param {Match} match @param {number} [parts]  as many at least, if they are not too small */
export function cutsOf({ slot }, parts = 1) {
  const { rows } = matrixOf(slot.dims);
  const step = Math.min(rowsPerPiece(slot.dims), 32 * Math.ceil(rows / parts / 32));
  return Array.from({ length: Math.ceil(rows / step) }, (_, i) => ({
    row: i * step,
    n: Math.min(step, rows - i * step),
  }));
}

/**
 * Where moments come from; null: a matrix has none. Of some, matrices are rounded one input after the other (drift.js).
 * @typedef {object} Inputs
 * @property {(name: string) => string} keyOf  whose moments a matrix has; '': none
 * @property {(name: string) => Promise<Moments | null>} momentsOf
 * @property {(name: string) => Promise<void>} [ready]  settles when those before the ones of a matrix's input are rounded
 * @property {(name: string) => Promise<void>} [enter]  its input is looked at, once it is ready
 * @property {(name: string, row: number, values: Float32Array, rows: number) => void} [put]  what became of its rows
 * @property {(names: ReadonlySet<string>) => void} [known]  of these it is known: where that are all of an input, nobody asks for moments
 */

/** @template {Inputs} [I=Inputs] */
export class Tensors {
  #hands;
  #inputs;
  /** What was done last with what the inputs are of. @type {Promise<unknown>} */
  #last = Promise.resolve();

  /** @param {Hands} hands @param {I | null} inputs */
  constructor(hands, inputs) {
    this.#hands = hands;
    this.#inputs = inputs;
  }

  /** Whose moments a tensor is rounded by; '': none. @param {Match} match @param {boolean} by */
  keyOf({ slot }, by) {
    return by && this.#inputs ? this.#inputs.keyOf(slot.name) : '';
  }

  /** The model of the inputs does one thing after the other. @template T @param {(inputs: I) => Promise<T>} work @returns {Promise<T>} */
  alone(work) {
    const done = this.#last.then(() => work(/** @type {I} */ (this.#inputs)));
    this.#last = done.catch(() => {});
    return done;
  }

  /** Brings a matrix's moments to a hand; false: there are none. @param {AnyHand} hand @param {string} name */
  async #bring(hand, name) {
    if (this.#inputs?.keyOf(name) === hand.key) return true;
    // They lie in a heap until the next ones are collected: the hand has copied them before that.
    const brought = await this.alone(async (inputs) => {
      const moments = await inputs.momentsOf(name);
      return moments && { used: hand.use(moments) };
    });
    await brought?.used;
    return brought !== null;
  }

  /** A piece of a tensor. FORMAT. @param {AnyHand} hand @param {Match} match @param {How} how @param {{ row: number, n: number }} rows */
  async piece(hand, match, how, { row, n }) {
    const { name, dims } = match.slot;
    const { ready, enter, put } = (inputOf(name) && this.#inputs) || {};
    await ready?.(name);
    if (enter) await this.alone(() => enter(name));
    const piece = await this.#rounded(hand, match, how, row, n);
    if (put) put(name, row, await hand.dequantize(how.type, how.layout, piece.bytes, n, matrixOf(dims).cols), n);
    return piece;
  }

  /** @param {AnyHand} hand @param {Match} match @param {How} how @param {number} row @param {number} n */
  async #rounded(hand, match, { type, layout, by }, row, n) {
    const { slot, tensor } = match;
    if (by && this.#inputs && (await this.#bring(hand, slot.name)))
      return hand.round(type, layout, await tensor.read(row, n), n, matrixOf(slot.dims).cols);
    return encodePiece(hand, match, await readPiece(tensor, row, n), type, layout, n, row);
  }

  /** @template T @param {Job<T>[]} jobs */
  ahead(jobs) {
    return this.#hands.ahead(jobs);
  }

  /**
   * Of a file that has the first tensors already: those that are still to be rounded know what became of these.
   * @param {Match[]} kept @param {(match: Match) => How} howOf @param {Codec} codec @param {import('../format/bq4/write-v2.js').ReadKept} read
   */
  async restore(kept, howOf, codec, read) {
    const { known, enter, put } = this.#inputs ?? {};
    if (!known || !enter || !put) return;
    known(new Set(kept.map(({ slot }) => slot.name)));
    for (const [i, match] of kept.entries()) {
      const { name, dims } = match.slot;
      if (!inputOf(name)) continue;
      await this.alone(() => enter(name));
      const { type, layout } = howOf(match);
      const { cols } = matrixOf(dims);
      let at = 0;
      for (const { row, n } of cutsOf(match)) {
        const bytes = weightBytes(type, layout, n, cols);
        put(name, row, codec.dequantize(type, layout, await read(i, at, bytes), n, cols), n);
        at += bytes;
      }
    }
  }

  /** For a file, in its order, from the first that is asked for. @param {Match[]} matches @param {(match: Match) => How} howOf @returns {Encoded[]} */
  encoded(matches, howOf) {
    const hurry = Boolean(this.#inputs?.put);
    const planned = matches.map((match) => ({
      match,
      how: howOf(match),
      rows: cutsOf(match, hurry ? PARTS : 1),
    }));
    const jobs = planned.map(({ match, how, rows }) =>
      rows.map((piece) => ({
        key: this.keyOf(match, how.by),
        hurry,
        bytes: weightBytes(how.type, how.layout, piece.n, matrixOf(match.slot.dims).cols),
        run: (/** @type {AnyHand} */ hand) => this.piece(hand, match, how, piece),
      })),
    );
    /** @type {(() => Promise<Piece | Rounded>)[]} */
    let results = [];
    const resultsOf = (/** @type {number} */ tensor) => {
      if (!results.length) results = this.ahead(jobs.slice(tensor).flat());
      return results.splice(0, jobs[tensor].length);
    };
    return planned.map(({ match, how: { type, layout }, rows }, tensor) => {
      const { name, dims } = match.slot;
      const tally = new Tally();
      async function* pieces() {
        const own = resultsOf(tensor);
        for (const [i, result] of own.entries()) {
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
