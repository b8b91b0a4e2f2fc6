/** Rounds matrices to blocks by what they are multiplied with: c/quant, in an instance of its own. */
import { ErrorSum } from '../convert/report.js';
import { rowsPerPiece } from '../convert/encoded.js';
import { weightBytes } from '../convert/weights.js';
import { matrixOf } from '../convert/write/v2.js';
import { compile, Wasm } from '../wasm/wasm.js';
import { CONVERT_URL } from './border.js';

/** @import { Match, Encoded } from '../convert/encoded.js' */
/** @import { WeightType } from '../convert/weights.js' */

const ROOM = 1 << 16;
const LAYOUTS = ['rows', 'tiled', 'flat'];

/**
 * How weights are rounded. Moments are raised, each on the diagonal by the share "own" of itself, and all by the share "damp" of their mean.
 * @typedef {{ feedback: boolean, sweeps: number, damp: number, own?: number }} Rounding
 */
/** @typedef {{ key: string, cols: number, values: Float32Array }} Moments */

export class Rounder {
  #wasm;
  #rounding;
  /** Of whose input moments and feedback lie in the heap. */
  #key = '';
  #moments = 0;
  #feedback = 0;

  /** @param {Wasm} wasm @param {Rounding} rounding */
  constructor(wasm, rounding) {
    this.#wasm = wasm;
    this.#rounding = rounding;
  }

  /** For matrices of these shapes. NOMEM. @param {readonly (readonly number[])[]} shapes @param {Rounding} rounding */
  static async create(shapes, rounding) {
    const compiled = await compile({ build: 'simd128', wasmUrl: CONVERT_URL });
    const bytes = shapes.map((dims) => {
      const { cols } = matrixOf(dims);
      // Moments, feedback, both in f64; a piece in f32, as integers and scales, and as bytes; columns of eight rows.
      return 16 * cols * (cols + 1) + 7 * rowsPerPiece(dims) * cols + 8 * 32 * (cols + 64);
    });
    return new Rounder(await Wasm.create(compiled, Math.max(...bytes) + ROOM), rounding);
  }

  close() {
    this.#wasm.release();
  }

  /** Brings moments to where the next pieces are rounded by them. FORMAT. @param {Moments} moments */
  use({ key, cols, values }) {
    if (key === this.#key) return;
    const wasm = this.#wasm;
    for (const at of [this.#feedback, this.#moments]) if (at) wasm.free(at);
    this.#key = key;
    this.#moments = wasm.alloc(4 * cols ** 2);
    this.#feedback = this.#rounding.feedback ? wasm.alloc(4 * cols ** 2) : 0;
    const h = wasm.f32(this.#moments, cols ** 2);
    h.set(values);
    const { own = 0 } = this.#rounding;
    for (let i = 0; i < cols; i++) h[i * cols + i] *= 1 + own;
    wasm.scope((take) => {
      const work = this.#feedback ? take(8 * cols * (cols + 1)) : 0;
      wasm.check('bqw_moments_end', this.#moments, cols, this.#rounding.damp, work, this.#feedback);
    });
  }

  /** @param {WeightType} type @param {number} layout @param {Float32Array} weights @param {number} rows @param {number} cols */
  round(type, layout, weights, rows, cols) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const src = take(4 * rows * cols);
      wasm.f32(src, rows * cols).set(weights);
      const bytes = weightBytes(type, layout, rows, cols);
      const dst = take(bytes);
      const work = take(4 * wasm.call('bqw_round_floats', type.id, rows, cols));
      const errors = take(40);
      wasm.bytes(errors, 40).fill(0);
      const { sweeps } = this.#rounding;
      wasm.check(
        'bqw_round',
        type.id,
        layout,
        src,
        rows,
        cols,
        this.#moments,
        this.#feedback,
        sweeps,
        work,
        dst,
        errors,
      );
      const [error, of, sum, squares, most] = new Float64Array(wasm.memory.buffer, errors, 5);
      return { bytes: wasm.bytes(dst, bytes).slice(), errors: { error, of, sum, squares, most } };
    });
  }
}

/**
 * A tensor rounded by its moments, piece by piece.
 * @param {Rounder} rounder @param {() => Promise<Moments | null>} momentsOf @param {Match} match @param {WeightType} type @param {number} layout
 * @param {() => Encoded} plain  what it is where there are no moments
 * @returns {Encoded}
 */
export function rounded(rounder, momentsOf, { slot, tensor }, type, layout, plain) {
  const { rows, cols } = matrixOf(slot.dims);
  const step = rowsPerPiece(slot.dims);
  const errors = new ErrorSum();
  const products = { error: 0, of: 0 };
  let bytes = 0;
  /** @type {Encoded | null} */
  let instead = null;
  async function* pieces() {
    const moments = await momentsOf();
    if (!moments) {
      instead = plain();
      yield* instead.pieces();
      return;
    }
    rounder.use(moments);
    for (let row = 0; row < rows; row += step) {
      const n = Math.min(step, rows - row);
      const piece = rounder.round(type, layout, await tensor.read(row, n), n, cols);
      errors.add(n * cols, piece.errors);
      products.error += piece.errors.error;
      products.of += piece.errors.of;
      bytes += piece.bytes.length;
      yield piece.bytes;
    }
  }
  const report = () =>
    instead?.report() ?? {
      name: slot.name,
      type: type.name,
      layout: LAYOUTS[layout],
      bytes,
      ...errors.figures,
      product: Math.sqrt(Math.max(products.error, 0) / products.of),
    };
  return { name: slot.name, type, layout, dims: slot.dims, pieces, report };
}
