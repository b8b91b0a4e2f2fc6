/**
 * Measures how rounding the earlier matrices changes the inputs of the next ones (c/quant/drift.h), for GPTAQ, which
 * compensates for it. Matrices are rounded in the order of their inputs, layer by layer. Before an input is used, two
 * models process the text up to this input: the original model and the model rounded so far. From both inputs follow
 * the second-moment matrix and the drift.
 */
import { matrixOf } from '../format/bq4/write-v2.js';
import { deferred } from '../shared/async.js';
import { Layers } from './layers.js';
import {
  allocateZeros,
  inputCols,
  inputOf,
  openReading,
  releaseOnError,
  sessionOf,
  yieldToEventLoop,
  weightsAt,
} from './calibration-model.js';

/** @import { Wasm } from '../wasm/wasm.js' */
/** @import { Match } from '../format/bq4/encode-tensor.js' */
/** @import { Deferred } from '../shared/async.js' */
/** @import { Cut } from './layers.js' */
/** @import { Moments } from './rounder.js' */

/**
 * The matrices that share an input. rows: number of their rows that are not rounded yet; done: settles when all rows
 * are rounded; isRestored: whether all of them were rounded by an earlier run, so that no moments are needed.
 * @typedef {{ key: string, layer: number, names: string[], rows: number, done: Deferred<undefined>,
 *   isRestored: boolean }} Step
 */
/**
 * A window of the text. original, rounded: hidden states before the current layer in both models; at: the cut up to
 * which the rounded model has computed the layer (null: none), with the states `carried` there; inputs: inputs of the
 * layer's remaining products in the original model, by keys.
 * @typedef {{ ids: Uint32Array, original: Float32Array, rounded: Float32Array, at: Cut | null, carried: Float32Array,
 *   inputs: Map<string, Float32Array> }} Window
 */

/** Number of instances so far: part of the keys, so that workers never confuse moments of two instances. */
let instances = 0;

/** @param {string} name  of a matrix whose inputs are collected */
const requiredInput = (name) => /** @type {NonNullable<ReturnType<typeof inputOf>>} */ (inputOf(name));

export class Drift {
  #wasm;
  #session;
  #layers;
  #runner;
  /** @type {Window[]} */
  #windows;
  /** @type {Step[]} */
  #steps;
  /** Index of the current step, and of the current layer; -1: none yet. */
  #step = -1;
  #layer = -1;
  /**
   * Addresses of the current step's matrices in the heap; null if its inputs can't be collected.
   * @type {{ cols: number, moments: number, drift: number } | null}
   */
  #input = null;
  #name = `${++instances}`;
  #signal;
  /** Tokens processed so far, counted for each layer, model and step. */
  #processedTokens = 0;
  /** @type {(done: number, total: number) => void} */
  onTokens = () => {};

  /**
   * @param {Wasm} wasm
   * @param {{ session: number, layers: number, runner: Layers, windows: Window[], steps: Step[],
   *   signal?: AbortSignal }} parts
   */
  constructor(wasm, { session, layers, runner, windows, steps, signal }) {
    this.#wasm = wasm;
    this.#session = session;
    this.#layers = layers;
    this.#runner = runner;
    this.#windows = windows;
    this.#steps = steps;
    this.#signal = signal;
  }

  /**
   * Loads a model and tokenizes a text. Throws ARGUMENT if the text has no tokens, and NOMEM.
   * @param {import('../shared/types.js').SourceLike} from
   * @param {string} text
   * @param {Match[]} matches  matrices to round, in order: layer by layer, with those that share an input next to each
   *   other
   * @param {{ tokens?: number, threads?: number, budget?: number, signal?: AbortSignal }} [limits]
   */
  static async open(from, text, matches, { tokens, threads, budget, signal } = {}) {
    // The second-moment matrix and the drift of one input.
    const reservedBytesOf = (
      /** @type {import('./calibration-model.js').Shape} */ plan,
      /** @type {number} */ context,
    ) => 8 * Math.max(...inputCols(plan)) ** 2 + Layers.bytes(plan, context) + 8192;
    const reading = await openReading(from, text, { tokens, threads, budget, reservedBytesOf });
    const { wasm, model, plan, context } = reading;
    /** @type {Map<string, Step>} */
    const steps = new Map();
    for (const { slot } of matches) {
      const input = inputOf(slot.name);
      if (!input) continue;
      const { key, layer } = input;
      /** @type {Step} */
      const step = steps.get(key) ?? { key, layer, names: [], rows: 0, done: deferred(), isRestored: false };
      step.names.push(slot.name);
      step.rows += matrixOf(slot.dims).rows;
      steps.set(key, step);
    }
    return releaseOnError(wasm, async () => {
      const session = sessionOf(wasm, model, context);
      const runner = new Layers(reading, session);
      /** @type {Window[]} */
      const windows = [];
      for (const ids of reading.windows) {
        const original = await runner.embedded(ids, plan.layers);
        windows.push({ ids, original, rounded: original, at: null, carried: original, inputs: new Map() });
      }
      return new Drift(wasm, { session, layers: plan.layers, runner, windows, steps: [...steps.values()], signal });
    });
  }

  close() {
    this.#wasm.release();
  }

  /** Returns the key of a matrix's input, unique among all instances; '' if it has none. @param {string} name */
  keyOf(name) {
    const input = inputOf(name);
    return input ? `${this.#name}:${input.key}` : '';
  }

  /** @param {string} name */
  #stepOf(name) {
    const { key } = requiredInput(name);
    return this.#steps.findIndex((step) => step.key === key);
  }

  /**
   * Marks matrices that an earlier run has rounded. `put` must be called for them before all others.
   * @param {ReadonlySet<string>} names
   */
  markRestored = (names) => {
    for (const step of this.#steps) step.isRestored = step.names.every((name) => names.has(name));
  };

  /** Settles when all matrices of earlier inputs are rounded. @param {string} name */
  ready = async (name) => {
    await this.#steps[this.#stepOf(name) - 1]?.done.promise; // the step before has waited for the earlier ones
  };

  /** Collects the matrices of a matrix's input, once it is ready. @param {string} name */
  enter = async (name) => {
    const last = this.#stepOf(name);
    while (this.#step < last) {
      const step = this.#steps[++this.#step];
      while (this.#layer < step.layer) await this.#enterLayer();
      if (step.isRestored) this.#skip(step);
      else await this.#collect(step);
    }
  };

  /**
   * Returns the second-moment matrix of a matrix's inputs in the rounded model, and their drift, after enter(); null if
   * the matrix was not measured.
   * @param {string} name @returns {Promise<Moments | null>}
   */
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

  /**
   * Replaces rows of a matrix by rounded rows.
   * @param {string} name @param {number} row  first row @param {Float32Array} values @param {number} rows
   */
  put = (name, row, values, rows) => {
    const { at, bytesOf } = weightsAt(this.#wasm, this.#session, this.#layers, name);
    const bytes = bytesOf(values);
    this.#wasm.bytes(at + (bytes.length / rows) * row, bytes.length).set(bytes);
    const step = this.#steps[this.#stepOf(name)];
    step.rows -= rows;
    if (!step.rows) step.done.resolve(undefined);
  };

  /** Calls `use` for each window. @param {(window: Window) => void} use */
  async #forEachWindow(use) {
    const tokens = this.#windows.reduce((sum, { ids }) => sum + ids.length, 0);
    const total = tokens * (2 * this.#layers + this.#steps.length);
    for (const window of this.#windows) {
      await yieldToEventLoop(this.#signal);
      use(window);
      this.#processedTokens += window.ids.length;
      this.onTokens(Math.min(this.#processedTokens, total), total);
    }
  }

  /** Continues the rounded model up to a cut of the layer. @param {Window} window @param {Cut} to */
  #advance(window, to) {
    const { ids, rounded, at } = window;
    // Among parallel matrices, those rounded first may be computed last. Then the layer is computed again from its
    // beginning.
    const restarts = !at || at.step > to.step;
    window.carried = this.#runner.run(ids, this.#layer, restarts ? null : at, to, restarts ? rounded : window.carried);
    window.at = to;
  }

  /**
   * Proceeds to the next layer: ends the current one in the rounded model, and runs the next one in the original model.
   */
  async #enterLayer() {
    if (this.#layer >= 0) {
      const end = this.#runner.endOf(this.#layer);
      await this.#forEachWindow((window) => {
        this.#advance(window, end);
        window.rounded = window.carried;
        window.at = null;
      });
    }
    const layer = ++this.#layer;
    await this.#runner.enter(layer);
    const cuts = this.#runner.cutsOf(layer).filter(({ key }) => this.#steps.some((step) => step.key === key));
    await this.#forEachWindow((window) => {
      const { ids, inputs, original } = window;
      window.original = this.#runner.runAll(ids, layer, cuts, original, (cut) => {
        inputs.set(cut.key, this.#runner.inputAt(ids, cut).slice());
      });
    });
  }

  /** Skips an input that is not needed. @param {Step} step */
  #skip({ key }) {
    for (const { ids, inputs } of this.#windows) {
      inputs.delete(key);
      this.#processedTokens += ids.length;
    }
  }

  /** Collects the matrices of one input. @param {Step} step */
  async #collect({ key, layer }) {
    const wasm = this.#wasm;
    if (this.#input) for (const at of [this.#input.moments, this.#input.drift]) wasm.free(at);
    const cut = this.#runner.cutsOf(layer).find((candidate) => candidate.key === key);
    this.#input = null;
    if (!cut) return;
    const [moments, drift] = [allocateZeros(wasm, cut.cols ** 2), allocateZeros(wasm, cut.cols ** 2)];
    this.#input = { cols: cut.cols, moments, drift };
    await this.#forEachWindow((window) => {
      this.#advance(window, cut);
      this.#runner.add(window.ids, cut, moments, { drift, original: window.inputs.get(key) });
      window.inputs.delete(key);
    });
  }
}
