/**
 * What rounding has already changed in the inputs of the matrices that are still to be rounded (c/quant/drift.h). Matrices are rounded one input
 * after the other, layer by layer: in front of each the text is read again by what those before it were rounded to, beside what the whole
 * model gives the same product.
 */
import { matrixOf } from '../format/bq4/write-v2.js';
import { deferred } from '../shared/async.js';
import { Layers } from './layers.js';
import {
  inputCols,
  inputOf,
  openReader,
  releasedUnless,
  sessionOf,
  turn,
  weightsAt,
  zeroed,
} from './calibration-model.js';

/** @import { Wasm } from '../wasm/wasm.js' */
/** @import { Match } from '../format/bq4/encode-tensor.js' */
/** @import { Deferred } from '../shared/async.js' */
/** @import { Cut } from './layers.js' */
/** @import { Moments } from './rounder.js' */

/**
 * Matrices that share an input: how many of their rows are still to be rounded, and who waits for that; known: all of them are rounded already, so
 * that nobody asks for its moments.
 * @typedef {{ key: string, layer: number, names: string[], rows: number, done: Deferred<undefined>, known: boolean }} Step
 */
/**
 * A window of the text: what its tokens carry in front of a layer, of the whole model and of the rounded one; how far this one has come in the
 * layer (null: not yet), and what they carry there; and what the whole model gives those of the layer's products that are still to come, by keys.
 * @typedef {{ ids: Uint32Array, whole: Float32Array, rounded: Float32Array, at: Cut | null, carried: Float32Array, inputs: Map<string, Float32Array> }} Window
 */

/** How many there were, so that those that round take no moments of another one for these. */
let made = 0;

/** @param {string} name  of a matrix that has an input */
const known = (name) => /** @type {NonNullable<ReturnType<typeof inputOf>>} */ (inputOf(name));

export class Drift {
  #wasm;
  #session;
  #layers;
  #through;
  /** @type {Window[]} */
  #windows;
  /** @type {Step[]} */
  #steps;
  /** Of the steps, and of the layers: the one that has begun; −1: none. */
  #step = -1;
  #layer = -1;
  /** The step's input, in the heap; null: the engine doesn't know it. @type {{ cols: number, moments: number, drift: number } | null} */
  #input = null;
  #name = `${++made}`;
  #signal;
  #read = 0;
  /** @type {(done: number, total: number) => void} */
  onTokens = () => {};

  /** @param {Wasm} wasm @param {{ session: number, layers: number, through: Layers, windows: Window[], steps: Step[], signal?: AbortSignal }} made */
  constructor(wasm, { session, layers, through, windows, steps, signal }) {
    this.#wasm = wasm;
    this.#session = session;
    this.#layers = layers;
    this.#through = through;
    this.#windows = windows;
    this.#steps = steps;
    this.#signal = signal;
  }

  /**
   * ARGUMENT: the text has no tokens; NOMEM.
   * @param {import('../shared/types.js').SourceLike} from
   * @param {string} text
   * @param {Match[]} matches  that are rounded, in their order: layer by layer, and those that share an input together
   * @param {{ tokens?: number, threads?: number, budget?: number, signal?: AbortSignal }} [limits]
   */
  static async open(from, text, matches, { tokens, threads, budget, signal } = {}) {
    // Moments and the drift of one input.
    const besideOf = (/** @type {import('./calibration-model.js').Shape} */ plan, /** @type {number} */ context) =>
      8 * Math.max(...inputCols(plan)) ** 2 + Layers.bytes(plan, context) + 8192;
    const reading = await openReader(from, text, { tokens, threads, budget, besideOf });
    const { wasm, model, plan, context } = reading;
    /** @type {Map<string, Step>} */
    const steps = new Map();
    for (const { slot } of matches) {
      const input = inputOf(slot.name);
      if (!input) continue;
      const { key, layer } = input;
      /** @type {Step} */
      const step = steps.get(key) ?? { key, layer, names: [], rows: 0, done: deferred(), known: false };
      step.names.push(slot.name);
      step.rows += matrixOf(slot.dims).rows;
      steps.set(key, step);
    }
    return releasedUnless(wasm, async () => {
      const session = sessionOf(wasm, model, context);
      const through = new Layers(reading, session);
      /** @type {Window[]} */
      const windows = [];
      for (const ids of reading.windows) {
        const whole = await through.embedded(ids, plan.layers);
        windows.push({ ids, whole, rounded: whole, at: null, carried: whole, inputs: new Map() });
      }
      return new Drift(wasm, { session, layers: plan.layers, through, windows, steps: [...steps.values()], signal });
    });
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

  /** These were rounded before, and are put in front of all others. @param {ReadonlySet<string>} names */
  known = (names) => {
    for (const step of this.#steps) step.known = step.names.every((name) => names.has(name));
  };

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
      if (step.known) this.#pass(step);
      else await this.#collect(step);
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

  /** Once through the text. @param {(window: Window) => void} use */
  async #each(use) {
    const tokens = this.#windows.reduce((sum, { ids }) => sum + ids.length, 0);
    const total = tokens * (2 * this.#layers + this.#steps.length);
    for (const window of this.#windows) {
      await turn(this.#signal);
      use(window);
      this.#read += window.ids.length;
      this.onTokens(Math.min(this.#read, total), total);
    }
  }

  /** The rounded model goes on to a cut of the layer. @param {Window} window @param {Cut} to */
  #advance(window, to) {
    const { ids, rounded, at } = window;
    // Of matrices side by side those that are rounded first may be computed last.
    const back = !at || at.step > to.step;
    window.carried = this.#through.run(ids, this.#layer, back ? null : at, to, back ? rounded : window.carried);
    window.at = to;
  }

  /** Goes on to the next layer: behind the one before as it was rounded, and through this one as it is in the whole model. */
  async #enterLayer() {
    if (this.#layer >= 0) {
      const end = this.#through.endOf(this.#layer);
      await this.#each((window) => {
        this.#advance(window, end);
        window.rounded = window.carried;
        window.at = null;
      });
    }
    const layer = ++this.#layer;
    await this.#through.enter(layer);
    const cuts = this.#through.cutsOf(layer).filter(({ key }) => this.#steps.some((step) => step.key === key));
    await this.#each((window) => {
      const { ids, inputs, whole } = window;
      window.whole = this.#through.runAll(ids, layer, cuts, whole, (cut) => {
        inputs.set(cut.key, this.#through.inputAt(ids, cut).slice());
      });
    });
  }

  /** Nobody asks for this input. @param {Step} step */
  #pass({ key }) {
    for (const { ids, inputs } of this.#windows) {
      inputs.delete(key);
      this.#read += ids.length;
    }
  }

  /** What the layer, as far as it is rounded, gives one of its inputs. @param {Step} step */
  async #collect({ key, layer }) {
    const wasm = this.#wasm;
    if (this.#input) for (const at of [this.#input.moments, this.#input.drift]) wasm.free(at);
    const cut = this.#through.cutsOf(layer).find((one) => one.key === key);
    this.#input = null;
    if (!cut) return;
    const [moments, drift] = [zeroed(wasm, cut.cols ** 2), zeroed(wasm, cut.cols ** 2)];
    this.#input = { cols: cut.cols, moments, drift };
    await this.#each((window) => {
      this.#advance(window, cut);
      this.#through.add(window.ids, cut, moments, { drift, whole: window.inputs.get(key) });
      window.inputs.delete(key);
    });
  }
}
