/** A text on its way through the layers of a model, each computed by itself and as far as it is wanted (web/layers.h), a window at a time. */
import { BqError } from '../shared/errors.js';
import { WANT_DATA } from '../wasm/abi.js';
import { inputCols, MODULES, syncSession } from './calibration-model.js';

/** @import { Wasm } from '../wasm/wasm.js' */
/** @import { Reading, Shape } from './calibration-model.js' */

/** A place in a layer, in front of the products of matrices that share an input: its columns, and how many numbers a token carries there. @typedef {{ key: string, step: number, cols: number, carried: number }} Cut */

/** No module's number. */
const NONE = 255;

export class Layers {
  #wasm;
  #session;
  /** In the heap: what tokens of a window carry, before and after, and an input. */
  #before;
  #after;
  #input;
  #pages;

  /** @param {Reading} reading @param {number} session  with windows of as many tokens as its context */
  constructor({ wasm, plan, context, pages }, session) {
    this.#wasm = wasm;
    this.#session = session;
    this.#pages = pages;
    this.#before = wasm.alloc(4 * context * mostCarried(plan));
    this.#after = wasm.alloc(4 * context * mostCarried(plan));
    this.#input = wasm.alloc(4 * context * Math.max(...inputCols(plan)));
  }

  close() {
    for (const at of [this.#before, this.#after, this.#input]) this.#wasm.free(at);
  }

  /** What it takes of the heap. @param {Shape} plan @param {number} context */
  static bytes(plan, context) {
    return 4 * context * (2 * mostCarried(plan) + Math.max(...inputCols(plan))) + 4096;
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

  /** In front of products that are a layer's own, in the order in which they are computed. @param {number} layer */
  cutsOf(layer) {
    return Object.entries(MODULES)
      .filter(([name, [, shared]]) => name === shared)
      .map(([name, [module]]) => this.#cut(layer, `h.${layer}.${name}`, module))
      .filter(({ cols }) => cols > 0)
      .sort((a, b) => a.step - b.step);
  }

  /** Behind a layer. @param {number} layer */
  endOf(layer) {
    return this.#cut(layer, '', NONE);
  }

  /** What tokens carry in front of the first layer. @param {Uint32Array} ids @param {number} layers  of the model */
  async embedded(ids, layers) {
    const { carried } = this.endOf(layers);
    syncSession(this.#wasm, this.#session, ids);
    while (this.#part(layers, 0, 0, 0) === WANT_DATA) await this.#pages?.lacking(this.#session);
    return this.#wasm.f32(this.#after, ids.length * carried).slice();
  }

  /** Before parts of a layer are run: its weights are there, as the file has them. Those of another one may be gone, and what became of them. @param {number} layer */
  async enter(layer) {
    await this.#pages?.layer(this.#session, layer);
  }

  /** @param {number} layer @param {number} from @param {number} to  steps @param {number} input */
  #part(layer, from, to, input) {
    return this.#wasm.check('bqw_layer_part', this.#session, layer, from, to, this.#before, this.#after, input);
  }

  /**
   * From one cut of a layer to another, over a window.
   * @param {Uint32Array} ids @param {number} layer @param {Cut | null} from  null: the layer's beginning @param {Cut} to
   * @param {Float32Array} before  what tokens carry there
   * @returns {Float32Array} what they carry then
   */
  run(ids, layer, from, to, before) {
    const wasm = this.#wasm;
    syncSession(wasm, this.#session, ids);
    wasm.f32(this.#before, before.length).set(before);
    if (this.#part(layer, from?.step ?? 0, to.step, to.cols && this.#input) === WANT_DATA)
      throw new BqError('STATE', `layer ${layer} was not entered`);
    return wasm.f32(this.#after, ids.length * to.carried).slice();
  }

  /**
   * All of a layer over a window, from cut to cut.
   * @param {Uint32Array} ids @param {number} layer @param {Cut[]} cuts  some of it, in their order @param {Float32Array} before
   * @param {(cut: Cut) => void} use  at each of them, while its input is in the heap
   * @returns {Float32Array} what tokens carry behind it
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

  /** The input of the cut that it has run to, in the heap until it runs again. @param {Uint32Array} ids @param {Cut} cut */
  inputAt(ids, { cols }) {
    return this.#wasm.f32(this.#input, ids.length * cols);
  }

  /**
   * Adds that input to moments and, beside what it was before anything was rounded, to a drift; both in the heap.
   * @param {Uint32Array} ids @param {Cut} cut @param {number} moments @param {{ first?: number, drift?: number, whole?: Float32Array }} [how]  first: the first token that counts
   */
  add(ids, { cols }, moments, { first = 0, drift = 0, whole } = {}) {
    // Nothing is carried there until it runs again.
    if (whole) this.#wasm.f32(this.#before, whole.length).set(whole);
    const [input, before] = [this.#input, whole ? this.#before : 0].map((at) => at && at + 4 * first * cols);
    this.#wasm.call('bqw_inputs_add', moments, drift, cols, input, before, ids.length - first);
  }
}

/** The residual, what attention gave, and what goes into the last product. @param {Shape} plan */
const mostCarried = ({ hidden, heads, headDim, ffn }) => hidden + heads * headDim + ffn;
