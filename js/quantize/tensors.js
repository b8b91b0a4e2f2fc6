/** Tensors in other types, piece by piece, each by the hand that is free. */
import { encodePiece, readPiece, rowsPerPiece } from '../convert/encoded.js';
import { ErrorSum } from '../convert/report.js';
import { weightBytes } from '../convert/weights.js';
import { matrixOf } from '../convert/write/v2.js';
import { inputOf } from './calibrate.js';

/** @import { Encoded, Match, Piece } from '../convert/encoded.js' */
/** @import { WeightType } from '../convert/weights.js' */
/** @import { Calibrator } from './calibrate.js' */
/** @import { AnyHand, Hands, Job } from './hands.js' */
/** @import { Rounded } from './rounder.js' */

/** How a tensor is rounded; by: its moments. @typedef {{ type: WeightType, layout: number, by: boolean }} How */

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

/** The first rows of a tensor's pieces. @param {Match} match */
export function firstRows({ slot }) {
  const { rows } = matrixOf(slot.dims);
  const step = rowsPerPiece(slot.dims);
  return Array.from({ length: Math.ceil(rows / step) }, (_, i) => i * step);
}

/** Rows of the piece that begins with this one. @param {Match} match @param {number} row */
export const rowsFrom = ({ slot }, row) => Math.min(rowsPerPiece(slot.dims), matrixOf(slot.dims).rows - row);

/** Whose moments it is rounded by; '': none. @param {Match} match @param {boolean} by */
export const keyOf = ({ slot }, by) => (by && inputOf(slot.name)?.key) || '';

export class Tensors {
  #hands;
  #calibrator;
  /** What a calibrator did last. @type {Promise<unknown>} */
  #last = Promise.resolve();

  /** @param {Hands} hands @param {Calibrator | null} calibrator */
  constructor(hands, calibrator) {
    this.#hands = hands;
    this.#calibrator = calibrator;
  }

  /** The calibrator's model does one thing after the other. @template T @param {(calibrator: Calibrator) => Promise<T>} work @returns {Promise<T>} */
  alone(work) {
    const done = this.#last.then(() => work(/** @type {Calibrator} */ (this.#calibrator)));
    this.#last = done.catch(() => {});
    return done;
  }

  /** Brings a matrix's moments to a hand; false: there are none. @param {AnyHand} hand @param {string} name */
  async #bring(hand, name) {
    if (inputOf(name)?.key === hand.key) return true;
    // They lie in the calibrator's heap until the next ones are collected: the hand has copied them before that.
    const brought = await this.alone(async (calibrator) => {
      const moments = await calibrator.momentsOf(name);
      return moments && { used: hand.use(moments) };
    });
    await brought?.used;
    return brought !== null;
  }

  /** A piece of a tensor. FORMAT. @param {AnyHand} hand @param {Match} match @param {How} how @param {number} row  its first */
  async piece(hand, match, { type, layout, by }, row) {
    const { slot, tensor } = match;
    const n = rowsFrom(match, row);
    if (by && this.#calibrator && (await this.#bring(hand, slot.name)))
      return hand.round(type, layout, await tensor.read(row, n), n, matrixOf(slot.dims).cols);
    return encodePiece(hand, match, await readPiece(tensor, row, n), type, layout, n, row);
  }

  /** @template T @param {Job<T>[]} jobs */
  ahead(jobs) {
    return this.#hands.ahead(jobs);
  }

  /** For a file, in its order. @param {Match[]} matches @param {(match: Match) => How} howOf @returns {Encoded[]} */
  encoded(matches, howOf) {
    const planned = matches.map((match) => ({ match, how: howOf(match), rows: firstRows(match) }));
    const results = this.ahead(
      planned.flatMap(({ match, how, rows }) =>
        rows.map((row) => ({
          key: keyOf(match, how.by),
          bytes: weightBytes(how.type, how.layout, rowsFrom(match, row), matrixOf(match.slot.dims).cols),
          run: (/** @type {AnyHand} */ hand) => this.piece(hand, match, how, row),
        })),
      ),
    );
    let next = 0;
    return planned.map(({ match, how: { type, layout }, rows }) => {
      const { name, dims } = match.slot;
      const own = results.slice(next, (next += rows.length));
      const tally = new Tally();
      async function* pieces() {
        for (const [i, result] of own.entries()) {
          const piece = await result();
          tally.add(rowsFrom(match, rows[i]) * matrixOf(dims).cols, piece);
          yield piece.bytes;
        }
      }
      const report = () => ({ name, type: type.name, layout: LAYOUTS[layout], ...tally.figures });
      return { name, type, layout, dims, pieces, report };
    });
  }
}
