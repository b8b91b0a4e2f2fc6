/**
 * What rounding has already changed in the inputs of the matrices that are still to be rounded (c/quant/drift.h). Matrices are rounded one input
 * after the other, layer by layer: in front of each the text is read again by what those before it were rounded to, beside what the whole
 * model gives the same product.
 */
import { matrixOf } from '../convert/write/v2.js';
import { gate } from '../shared/async.js';
import { inputCols, inputOf, inputsOf, openReader, sessionOf, syncSession, weightsAt, zeroed } from './reader.js';

/** @import { Wasm } from '../wasm/wasm.js' */
/** @import { Match } from '../convert/encoded.js' */
/** @import { Gate } from '../shared/async.js' */
/** @import { Moments } from './rounder.js' */

/** Matrices that share an input: how many of their rows are still to be rounded, and who waits for that. @typedef {{ key: string, layer: number, rows: number, done: Gate<undefined> }} Step */
/**
 * A window of the text: hidden states of its tokens [tokens][hidden] in front of a layer, of the whole model and of the rounded one, and what
 * the whole model gives the layer's products, by keys.
 * @typedef {{ ids: Uint32Array, whole: Float32Array, rounded: Float32Array, inputs: Map<string, Float32Array> }} Window
 */

/** How many there were, so that those that round take no moments of another one for these. */
let made = 0;

/** No module's number. */
const ALL = 255;

/** @param {string} name  of a matrix that has an input */
const known = (name) => /** @type {NonNullable<ReturnType<typeof inputOf>>} */ (inputOf(name));

export class Drift {
  #wasm;
  #session;
  #layers;
  /** @type {Window[]} */
  #windows;
  /** In the heap: hidden states of a window, and an input of it. */
  #states;
  #rows;
  /** @type {Step[]} */
  #steps;
  /** Of the steps, and of the layers: the one that has begun; −1: none. */
  #step = -1;
  #layer = -1;
  /** The step's input; null: the engine doesn't know it. @type {{ cols: number, moments: number, drift: number } | null} */
  #input = null;
  #name = `${++made}`;
  #signal;
  #read = 0;
  /** @type {(done: number, total: number) => void} */
  onTokens = () => {};

  /** @param {Wasm} wasm @param {number} session @param {import('./reader.js').Shape} plan @param {number} context @param {Uint32Array[]} windows @param {Step[]} steps @param {AbortSignal} [signal] */
  constructor(wasm, session, plan, context, windows, steps, signal) {
    this.#wasm = wasm;
    this.#session = session;
    this.#layers = plan.layers;
    this.#steps = steps;
    this.#signal = signal;
    this.#states = wasm.alloc(4 * context * plan.hidden);
    this.#rows = wasm.alloc(4 * context * Math.max(...inputCols(plan)));
    this.#windows = windows.map((ids) => {
      const whole = new Float32Array(ids.length * plan.hidden);
      this.#run(plan.layers, ids, whole);
      return { ids, whole, rounded: whole.slice(), inputs: new Map() };
    });
  }

  /**
   * ARGUMENT: the text has no tokens; NOMEM.
   * @param {import('../shared/types.js').SourceLike} from
   * @param {string} text
   * @param {Match[]} matches  that are rounded, in their order: layer by layer, and those that share an input together
   * @param {{ tokens?: number, signal?: AbortSignal }} [limits]
   */
  static async open(from, text, matches, { tokens, signal } = {}) {
    // Moments and the drift of one input, its rows; rows of all of a layer's; hidden states.
    const besideOf = (/** @type {import('./reader.js').Shape} */ plan, /** @type {number} */ context) => {
      const cols = inputCols(plan);
      const most = Math.max(...cols);
      return 8 * most ** 2 + 4 * context * cols.reduce((sum, n) => sum + n, most + plan.hidden) + 8192;
    };
    const { wasm, model, windows, plan, context } = await openReader(from, text, { tokens, whole: true, besideOf });
    /** @type {Map<string, Step>} */
    const steps = new Map();
    for (const { slot } of matches) {
      const input = inputOf(slot.name);
      if (!input) continue;
      const step = steps.get(input.key) ?? { key: input.key, layer: input.layer, rows: 0, done: gate() };
      step.rows += matrixOf(slot.dims).rows;
      steps.set(input.key, step);
    }
    return new Drift(wasm, sessionOf(wasm, model, context, true), plan, context, windows, [...steps.values()], signal);
  }

  close() {
    this.#wasm.release();
  }

  /** Of the input of a matrix, among all that hands may have; '': it has none. @param {string} name */
  keyOf(name) {
    const input = inputOf(name);
    return input ? `${this.#name}:${input.key}` : '';
  }

  /** @param {string} name */
  #stepOf(name) {
    const { key } = known(name);
    return this.#steps.findIndex((step) => step.key === key);
  }

  /** Settles when all matrices are rounded that come before those of its input. @param {string} name */
  ready = async (name) => {
    await this.#steps[this.#stepOf(name) - 1]?.done.promise; // which has waited for those before it
  };

  /** Its input is looked at, once it is ready. @param {string} name */
  enter = async (name) => {
    const last = this.#stepOf(name);
    while (this.#step < last) {
      const step = this.#steps[++this.#step];
      while (this.#layer < step.layer) await this.#enterLayer();
      await this.#collect(step);
    }
  };

  /** Moments of what a matrix is multiplied with behind those that are rounded, and how that has drifted, once it was entered; null: they aren't known. @param {string} name @returns {Promise<Moments | null>} */
  async momentsOf(name) {
    if (!this.#input) return null;
    const { cols, moments, drift } = this.#input;
    return {
      key: this.keyOf(name),
      cols,
      values: this.#wasm.f32(moments, cols ** 2),
      drift: this.#wasm.f32(drift, cols ** 2),
    };
  }

  /** Rows of a matrix as they were rounded. @param {string} name @param {number} row  the first @param {Float32Array} values @param {number} rows */
  put = (name, row, values, rows) => {
    const { at, bytesOf } = weightsAt(this.#wasm, this.#session, this.#layers, name);
    const bytes = bytesOf(values);
    this.#wasm.bytes(at + (bytes.length / rows) * row, bytes.length).set(bytes);
    const step = this.#steps[this.#stepOf(name)];
    step.rows -= rows;
    if (!step.rows) step.done.resolve(undefined);
  };

  /** A layer over the states of a window, in place; behind the last one: what its tokens are embedded to. @param {number} layer @param {Uint32Array} ids @param {Float32Array} states @param {number} [module]  as far as its product, and what becomes of the states is of no use */
  #run(layer, ids, states, module = ALL) {
    const wasm = this.#wasm;
    syncSession(wasm, this.#session, ids);
    wasm.f32(this.#states, states.length).set(states);
    wasm.check('bqw_layer_run', this.#session, layer, module, this.#states);
    if (module === ALL) states.set(wasm.f32(this.#states, states.length));
  }

  /** Once through the text. @param {(window: Window) => void} use */
  async #each(use) {
    const tokens = this.#windows.reduce((sum, { ids }) => sum + ids.length, 0);
    const total = tokens * (2 * this.#layers + this.#steps.length);
    for (const window of this.#windows) {
      await new Promise((resolve) => setImmediate(resolve));
      this.#signal?.throwIfAborted();
      use(window);
      this.#read += window.ids.length;
      this.onTokens(Math.min(this.#read, total), total);
    }
  }

  /** Goes on to the next layer: behind the one before as it was rounded, and through this one as it is in the whole model. */
  async #enterLayer() {
    const before = this.#layer++;
    if (before >= 0) await this.#each(({ ids, rounded }) => this.#run(before, ids, rounded));
    const layer = this.#layer;
    const inputs = inputsOf(this.#wasm, this.#session, layer).filter(({ cols }) => cols);
    await this.#each((window) => {
      const { ids, whole } = window;
      const heap = inputs.map(({ module, cols }) => {
        const at = this.#wasm.alloc(4 * ids.length * cols);
        this.#wasm.out('bqw_inputs_watch', this.#session, layer, module, 0, at, 0);
        return at;
      });
      this.#run(layer, ids, whole);
      this.#wasm.call('bqw_inputs_end', this.#session);
      window.inputs = new Map(
        inputs.map(({ key, cols }, i) => [key, this.#wasm.f32(heap[i], ids.length * cols).slice()]),
      );
      for (const at of heap) this.#wasm.free(at);
    });
  }

  /** What the layer, as far as it is rounded, gives one of its inputs. @param {Step} step */
  async #collect({ key, layer }) {
    const wasm = this.#wasm;
    if (this.#input) for (const at of [this.#input.moments, this.#input.drift]) wasm.free(at);
    const input = inputsOf(wasm, this.#session, layer).find((one) => one.key === key);
    this.#input = input?.cols
      ? { cols: input.cols, moments: zeroed(wasm, input.cols ** 2), drift: zeroed(wasm, input.cols ** 2) }
      : null;
    if (!input || !this.#input) return;
    const { moments, drift } = this.#input;
    await this.#each(({ ids, rounded, inputs }) => {
      const rows = /** @type {Float32Array} */ (inputs.get(key));
      wasm.f32(this.#rows, rows.length).set(rows);
      wasm.out('bqw_inputs_watch', this.#session, layer, input.module, moments, this.#rows, drift);
      this.#run(layer, ids, rounded, input.module);
      wasm.call('bqw_inputs_end', this.#session);
    });
  }
}
