/** One that rounds: what encodes and what rounds by moments, each in an instance of its own. */
import { createCodec } from '../format/bq4/codec.js';
import { Rounder } from './rounder.js';

/** @import { Codec } from '../format/bq4/codec.js' */
/** @import { Moments, Rounding } from './rounder.js' */

/** What a hand is for: the matrices that are rounded by moments, and bytes of the largest piece. @typedef {{ shapes: readonly (readonly number[])[], rounding: Rounding, largestPiece: number }} Task */

export class Hand {
  #codec;
  #rounder;
  /** Whose moments it has. */
  key = '';

  /** @param {Codec} codec @param {Rounder | null} rounder  null: nothing is rounded by moments */
  constructor(codec, rounder) {
    this.#codec = codec;
    this.#rounder = rounder;
  }

  /** NOMEM. @param {Task} task @param {Codec} [codec] */
  static async create({ shapes, rounding, largestPiece }, codec) {
    const rounder = shapes.length ? await Rounder.create(shapes, rounding) : null;
    return new Hand(codec ?? (await createCodec(largestPiece)), rounder);
  }

  /** @param {Moments} moments */
  use(moments) {
    this.#rounder?.use(moments);
    this.key = moments.key;
  }

  /** @param {Parameters<Rounder['round']>} given */
  round = (...given) => /** @type {Rounder} */ (this.#rounder).round(...given);
  /** @param {Parameters<Codec['encode']>} given */
  encode = (...given) => this.#codec.encode(...given);
  /** @param {Parameters<Codec['dequantize']>} given */
  dequantize = (...given) => this.#codec.dequantize(...given);

  end() {
    this.#rounder?.close();
  }
}
