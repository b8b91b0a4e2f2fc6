/**
 * Rounds matrices to blocks by the second moments of their inputs: the functions of c/quant, in a WebAssembly instance
 * of its own.
 */
import { rowsPerPiece } from '../format/bq4/encode-tensor.js';
import { weightBytes } from '../format/bq4/weight-types.js';
import { matrixOf } from '../format/bq4/write-v2.js';
import { compile, Wasm } from '../wasm/wasm.js';
import { CONVERT_URL } from './abi.js';

/** @import { EncodeErrors } from '../format/bq4/codec.js' */
/** @import { WeightType } from '../format/bq4/weight-types.js' */

/** Heap bytes of the allocator's own records. */
const ALLOCATOR_BYTES = 1 << 16;

/**
 * How weights are rounded. feedback: whether errors are compensated in later weights. The diagonal of the second-moment
 * matrix is damped: each element is raised by the share relativeDamp of itself, and all by the share damp of their
 * mean.
 * @typedef {{ feedback: boolean, sweeps: number, damp: number, relativeDamp?: number }} Rounding
 */
/**
 * The second-moment matrix of an input. drift: its changes from the original to the rounded model (c/quant/drift.h).
 * @typedef {{ key: string, cols: number, values: Float32Array, drift?: Float32Array }} Moments
 */
/**
 * Rounded weights with their errors. error: squared error of the products; of: sum of the squared products.
 * @typedef {{ bytes: Uint8Array, errors: EncodeErrors & { error: number, of: number } }} Rounded
 */

/** Returns the heap bytes for rounding matrices of these shapes. @param {readonly (readonly number[])[]} shapes */
export const roundingBytes = (shapes) =>
  ALLOCATOR_BYTES +
  Math.max(
    ...shapes.map((dims) => {
      const { cols } = matrixOf(dims);
      // Moments, feedback, f64 work space, drift; a piece as f32, as integers and scales, and encoded; columns of eight
      // rows.
      return 20 * cols * (cols + 1) + 7 * rowsPerPiece(dims) * cols + 8 * 32 * (cols + 64);
    }),
  );

export class Rounder {
  #wasm;
  #rounding;
  /** Key of the input whose moments are in the heap. */
  #key = '';
  #moments = 0;
  #feedback = 0;
  #drift = 0;

  /** @param {Wasm} wasm @param {Rounding} rounding */
  constructor(wasm, rounding) {
    this.#wasm = wasm;
    this.#rounding = rounding;
  }

  /**
   * Creates an instance for matrices of these shapes. Throws NOMEM.
   * @param {readonly (readonly number[])[]} shapes @param {Rounding} rounding
   */
  static async create(shapes, rounding) {
    const compiled = await compile({ build: 'simd128', wasmUrl: CONVERT_URL });
    return new Rounder(await Wasm.create(compiled, roundingBytes(shapes)), rounding);
  }

  close() {
    this.#wasm.release();
  }

  /** Copies the moments for the next pieces to the heap. Throws FORMAT. @param {Moments} moments */
  use({ key, cols, values, drift }) {
    if (key === this.#key) return;
    const wasm = this.#wasm;
    for (const at of [this.#drift, this.#feedback, this.#moments]) if (at) wasm.free(at);
    this.#key = key;
    this.#moments = wasm.alloc(4 * cols ** 2);
    this.#feedback = this.#rounding.feedback ? wasm.alloc(4 * cols ** 2) : 0;
    this.#drift = drift ? wasm.alloc(4 * cols ** 2) : 0;
    if (drift) wasm.f32(this.#drift, cols ** 2).set(drift);
    const h = wasm.f32(this.#moments, cols ** 2);
    h.set(values);
    const { relativeDamp = 0 } = this.#rounding;
    for (let i = 0; i < cols; i++) h[i * cols + i] *= 1 + relativeDamp;
    wasm.scope((take) => {
      const work = this.#feedback ? take(8 * cols * (cols + 1)) : 0;
      wasm.check('bqw_moments_end', this.#moments, cols, this.#rounding.damp, work, this.#feedback);
    });
  }

  /**
   * Rounds a piece of a matrix.
   * @param {WeightType} type @param {number} layout @param {Float32Array} weights @param {number} rows
   * @param {number} cols @returns {Rounded}
   */
  round(type, layout, weights, rows, cols) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const src = take(4 * rows * cols);
      wasm.f32(src, rows * cols).set(weights);
      const bytes = weightBytes(type, layout, rows, cols);
      const dst = take(bytes);
      const work = take(4 * wasm.call('bqw_round_floats', type.id, rows, cols));
      if (this.#drift)
        wasm.scope((takeWork) => {
          const lanes = takeWork(4 * wasm.call('bqw_drift_floats', cols));
          wasm.call('bqw_drift_make_good', src, rows, cols, this.#drift, this.#feedback, lanes);
        });
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
