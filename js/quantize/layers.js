/**
 * Runs windows of a text through single layers of a model, up to any input of the layer's matrix products
 * (web/layers.h).
 */
import { BqError } from '../shared/errors.js';
import { WANT_DATA } from '../wasm/abi.js';
import { inputCols, MODULES, syncSession } from './calibration-model.js';

/** @import { Wasm } from '../wasm/wasm.js' */
/** @import { Reading, Shape } from './calibration-model.js' */

/**
 * A point in a layer before the products that share an input. step: its position; cols: length of the input; carried:
 * numbers per token that the rest of the layer needs.
 * @typedef {{ key: string, step: number, cols: number, carried: number }} Cut
 */

/** Number that stands for the end of a layer instead of a module. */
const END_OF_LAYER = 255;

export class Layers {
  #wasm;
  #session;
  /** Addresses in the heap: states of a window before and after a part of a layer, and an input. */
  #before;
  #after;
  #input;
  #pages;

  /** @param {Reading} reading @param {number} session  with a prefill window of its context */
  constructor({ wasm, plan, context, pages }, session) {
    this.#wasm = wasm;
    this.#session = session;
    this.#pages = pages;
    this.#before = wasm.alloc(4 * context * maxCarried(plan));
    this.#after = wasm.alloc(4 * context * maxCarried(plan));
    this.#input = wasm.alloc(4 * context * Math.max(...inputCols(plan)));
  }

  close() {
    for (const at of [this.#before, this.#after, this.#input]) this.#wasm.free(at);
  }

  /** Returns the heap bytes that an instance takes. @param {Shape} plan @param {number} context */
  static bytes(plan, context) {
    return 4 * context * (2 * maxCarried(plan) + Math.max(...inputCols(plan))) + 4096;
  }

  /** @param {number} layer @param {string} key @param {number} module @returns {Cut} */
  #cut(layer, key, module) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const out = take(12);
      wasm.check('bqw_layer_cut', this.#session, layer, module, out);
      const [step, cols, carried] = wasm.u32(out, 3);
      return { key, step, cols, carried };
    });
  }

  /** Returns the cuts of a layer, in order of computation. @param {number} layer */
  cutsOf(layer) {
    return Object.entries(MODULES)
      .filter(([name, [, shared]]) => name === shared)
      .map(([name, [module]]) => this.#cut(layer, `h.${layer}.${name}`, module))
      .filter(({ cols }) => cols > 0)
      .sort((a, b) => a.step - b.step);
  }

  /** Returns the cut at the end of a layer. @param {number} layer */
  endOf(layer) {
    return this.#cut(layer, '', END_OF_LAYER);
  }

  /** Computes the states before the first layer. @param {Uint32Array} ids @param {number} layers  of the model */
  async embedded(ids, layers) {
    const { carried } = this.endOf(layers);
    syncSession(this.#wasm, this.#session, ids);
    while (this.#part(layers, 0, 0, 0) === WANT_DATA) await this.#pages?.loadMissing(this.#session);
    return this.#wasm.f32(this.#after, ids.length * carried).slice();
  }

  /**
   * Loads the weights of a layer from the file; to be called before parts of it are run. Weights of other layers may be
   * discarded, even if they were replaced.
   * @param {number} layer
   */
  async enter(layer) {
    await this.#pages?.layer(this.#session, layer);
  }

  /** @param {number} layer @param {number} from @param {number} to  steps @param {number} input  address, or 0 */
  #part(layer, from, to, input) {
    return this.#wasm.check('bqw_layer_part', this.#session, layer, from, to, this.#before, this.#after, input);
  }

  /**
   * Runs a window from one cut of a layer to another.
   * @param {Uint32Array} ids @param {number} layer @param {Cut | null} from  null: the layer's beginning
   * @param {Cut} to
   * @param {Float32Array} before  states at `from`
   * @returns {Float32Array} states at `to`
   */
  run(ids, layer, from, to, before) {
    const wasm = this.#wasm;
    syncSession(wasm, this.#session, ids);
    wasm.f32(this.#before, before.length).set(before);
    if (this.#part(layer, from?.step ?? 0, to.step, to.cols && this.#input) === WANT_DATA)
      throw new BqError('STATE', `layer ${layer} is not loaded: call enter() first`);
    return wasm.f32(this.#after, ids.length * to.carried).slice();
  }

  /**
   * Runs a window through a layer, from cut to cut.
   * @param {Uint32Array} ids @param {number} layer @param {Cut[]} cuts  some cuts of the layer, in order
   * @param {Float32Array} before
   * @param {(cut: Cut) => void} use  called at each cut, while its input is in the heap
   * @returns {Float32Array} states after the layer
   */
  runAll(ids, layer, cuts, before, use) {
    /** @type {Cut | null} */
    let from = null;
    for (const cut of cuts) {
      before = this.run(ids, layer, from, cut, before);
      use(cut);
      from = cut;
    }
    return this.run(ids, layer, from, this.endOf(layer), before);
  }

  /**
   * Returns the input at the cut of the last run: a view of the heap, valid until the next run.
   * @param {Uint32Array} ids @param {Cut} cut
   */
  inputAt(ids, { cols }) {
    return this.#wasm.f32(this.#input, ids.length * cols);
  }

  /**
   * Adds the input at the cut of the last run to a second-moment matrix, and its difference from the original model's
   * input to a drift matrix; both matrices are in the heap.
   * @param {Uint32Array} ids @param {Cut} cut @param {number} moments
   * @param {{ first?: number, drift?: number, original?: Float32Array }} [options]  first: index of the first token to
   *   count; original: the original model's input
   */
  add(ids, { cols }, moments, { first = 0, drift = 0, original } = {}) {
    // The buffer is free until the next run.
    if (original) this.#wasm.f32(this.#before, original.length).set(original);
    const [input, before] = [this.#input, original ? this.#before : 0].map((at) => at && at + 4 * first * cols);
    this.#wasm.call('bqw_inputs_add', moments, drift, cols, input, before, ids.length - first);
  }
}

/**
 * Returns an upper bound of the numbers per token that a cut carries: residual, outputs of attention and of a
 * recurrence, input of the last product.
 * @param {Shape} plan
 */
const maxCarried = ({ hidden, heads, headDim, ffn, stateWidth }) => hidden + heads * headDim + ffn + stateWidth;
