/** A rounding worker: a codec for encoding without moments and a Rounder, each in a WebAssembly instance of its own. */
import { createCodec } from '../format/bq4/codec.js';
import { Rounder } from './rounder.js';

/** @import { Codec } from '../format/bq4/codec.js' */
/** @import { Moments, Rounding } from './rounder.js' */

/**
 * The task of a worker: shapes of the matrices that are rounded by moments, and bytes of the largest piece.
 * @typedef {{ shapes: readonly (readonly number[])[], rounding: Rounding, largestPiece: number }} Task
 */

export class RoundingWorker {
  #codec;
  #rounder;
  /** Key of the input whose moments the rounder has; '' before the first. */
  key = '';

  /** @param {Codec} codec @param {Rounder | null} rounder  null if nothing is rounded by moments */
  constructor(codec, rounder) {
    this.#codec = codec;
    this.#rounder = rounder;
  }

  /** Throws NOMEM. @param {Task} task @param {Codec} [codec] */
  static async create({ shapes, rounding, largestPiece }, codec) {
    const rounder = shapes.length ? await Rounder.create(shapes, rounding) : null;
    return new RoundingWorker(codec ?? (await createCodec(largestPiece)), rounder);
  }

  /** @param {Moments} moments */
  use(moments) {
    this.#rounder?.use(moments);
    this.key = moments.key;
  }

  /** @param {Parameters<Rounder['round']>} args */
  round = (...args) => /** @type {Rounder} */ (this.#rounder).round(...args);
  /** @param {Parameters<Codec['encode']>} args */
  encode = (...args) => this.#codec.encode(...args);
  /** @param {Parameters<Codec['dequantize']>} args */
  dequantize = (...args) => this.#codec.dequantize(...args);

  close() {
    this.#rounder?.close();
  }
}
