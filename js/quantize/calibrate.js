/** What goes into the products of a model while it reads a text: second moments of it, layer by layer; and what it predicts. */
import { logSum } from '../engine/model/probabilities.js';
import { Layers } from './layers.js';
import { WANT_DATA } from '../wasm/abi.js';
import {
  DRAFTS,
  inputCols,
  inputOf,
  openReader,
  sessionOf,
  syncSession,
  turn,
  weightsAt,
  zeroed,
} from './calibration-model.js';

/** @import { Reading } from './calibration-model.js' */

/** Bytes of moments that are collected at once, at most: of so many layers as that is enough for, and a layer's at least. */
const AT_ONCE = 1 << 30;

/** How many tokens of a window are those that the one before begins with, which count once; of one that is shorter the last counts. @param {Uint32Array} ids @param {ArrayLike<number>} before */
function sameStart(ids, before) {
  const other = ids.findIndex((id, i) => id !== before[i]);
  if (other >= 0) return other;
  return ids.length === before.length ? ids.length : ids.length - 1;
}

/** Bytes of a layer's. @param {import('./calibration-model.js').Shape} plan */
const momentsOf = (plan) => 4 * inputCols(plan).reduce((sum, n) => sum + n ** 2, 1024);

/**
 * A model that reads a text. Moments are asked for in the order of the layers: those that are gone are collected anew.
 */
export class Calibrator {
  #reading;
  #wasm;
  #windows;
  #plan;
  #causal;
  #signal;
  /** What tokens of the windows carry in front of a layer; null: none of them is read yet. @type {{ layer: number, states: Float32Array[] } | null} */
  #at = null;
  #read = 0;
  /** By keys of `inputOf`: where in the heap, and how many columns. @type {Map<string, { at: number, cols: number }>} */
  #held = new Map();
  /** @type {(done: number, total: number) => void} */
  onTokens = () => {};

  /** @param {Reading} reading @param {{ causal?: boolean, signal?: AbortSignal }} how */
  constructor(reading, { causal = true, signal }) {
    this.#reading = reading;
    this.#wasm = reading.wasm;
    this.#windows = reading.windows;
    this.#plan = reading.plan;
    this.#causal = causal;
    this.#signal = signal;
  }

  /** All weights stay in memory. */
  get isWhole() {
    return !this.#reading.pages;
  }

  get tokens() {
    return this.#windows.reduce((sum, ids) => sum + ids.length, 0);
  }

  /**
   * ARGUMENT: the text has no tokens; NOMEM.
   * @param {import('../shared/types.js').SourceLike} from
   * @param {string} text
   * @param {{ tokens?: number, threads?: number, budget?: number, causal?: boolean, signal?: AbortSignal }} [how]  causal: no token sees those behind it (default)
   */
  static async open(from, text, { tokens, threads, budget, causal, signal } = {}) {
    const besideOf = (/** @type {import('./calibration-model.js').Shape} */ plan, /** @type {number} */ context) =>
      momentsOf(plan) + Layers.bytes(plan, context);
    const wantsOf = (/** @type {import('./calibration-model.js').Shape} */ plan) =>
      Math.min((plan.layers - 1) * momentsOf(plan), AT_ONCE);
    const reading = await openReader(from, text, { tokens, threads, budget, besideOf, wantsOf });
    return new Calibrator(reading, { causal, signal });
  }

  /** Whose moments a matrix has; '': none. @param {string} name */
  keyOf(name) {
    return inputOf(name)?.key ?? '';
  }

  /** Moments of what a matrix is multiplied with; null: they aren't known. @param {string} name  of the matrix */
  async momentsOf(name) {
    const input = inputOf(name);
    if (!input) return null;
    if (!this.#held.has(input.key)) await this.#collect(input.layer);
    const held = this.#held.get(input.key);
    return held ? { ...held, key: input.key, values: this.#wasm.f32(held.at, held.cols ** 2) } : null;
  }

  close() {
    this.#wasm.release();
  }

  /** A session of the only one that there is room for. @template T @param {(session: number) => Promise<T>} use */
  async #session(use) {
    const { model, context } = this.#reading;
    const session = sessionOf(this.#wasm, model, context);
    try {
      return await use(session);
    } finally {
      this.#wasm.check('bqw_session_free', session);
    }
  }

  /** @param {number} session */
  async #run(session) {
    const { pages } = this.#reading;
    /** @type {number} */
    let status;
    do {
      await turn(this.#signal);
      status = this.#wasm.check('bqw_session_run', session, 8);
      if (status === WANT_DATA) await pages?.lacking(session);
    } while (status !== 0);
  }

  /** What comes behind each of the text's first `n` tokens: log probabilities. @param {number} n @returns {Promise<Float32Array[]>} */
  async predictions(n) {
    const wasm = this.#wasm;
    const ids = [...this.#windows[0].subarray(0, n)];
    return this.#session(async (session) => {
      /** @type {Float32Array[]} */
      const out = [];
      syncSession(this.#wasm, session, [ids[0]]);
      for (let ahead = 0, i = 1; i <= ids.length; i++) {
        if (i > 1) wasm.check('bqw_session_append', session, ids[i - 1]);
        if (ahead) ahead--;
        else {
          const next = ids.slice(i, i + DRAFTS);
          ahead = wasm.scope((take) => {
            const at = take(4 * next.length);
            wasm.u32(at, next.length).set(next);
            return wasm.out('bqw_session_draft', session, at, next.length);
          });
          await this.#run(session);
        }
        const logits = wasm.f32(wasm.out('bqw_session_logits', session), this.#plan.vocabSize).slice();
        const sum = logSum(logits);
        out.push(logits.map((x) => x - sum));
      }
      return out;
    });
  }

  /** How well it predicts the text's first window. */
  async perplexity() {
    const [ids] = this.#windows;
    const predicted = await this.predictions(ids.length);
    let sum = 0;
    for (let i = 1; i < ids.length; i++) sum -= predicted[i - 1][ids[i]];
    return Math.exp(sum / (ids.length - 1));
  }

  /**
   * While `use` runs the model, which is whole, has other weights in one matrix.
   * @template T @param {string} name  wte.weight, or one that has moments @param {Float32Array} values @param {() => Promise<T>} use
   */
  async withWeights(name, values, use) {
    const wasm = this.#wasm;
    const { at, bytesOf } = await this.#session(async (session) => weightsAt(wasm, session, this.#plan.layers, name));
    const bytes = bytesOf(values);
    const before = wasm.bytes(at, bytes.length).slice();
    wasm.bytes(at, bytes.length).set(bytes);
    try {
      return await use();
    } finally {
      wasm.bytes(at, bytes.length).set(before);
    }
  }

  /** Of as many layers as there is room for, from this one on. @param {number} from */
  async #collect(from) {
    for (const { at } of this.#held.values()) this.#wasm.free(at);
    this.#held.clear();
    await this.#session(async (session) => {
      const through = new Layers(this.#reading, session);
      try {
        await this.#readFrom(through, from);
      } finally {
        through.close();
      }
    });
  }

  /** @param {Layers} through @param {number} from  layer */
  async #readFrom(through, from) {
    const { layers } = this.#plan;
    if (!this.#at || this.#at.layer > from) {
      const states = [];
      for (const ids of this.#windows) states.push(await through.embedded(ids, layers));
      [this.#at, this.#read] = [{ layer: 0, states }, 0];
    }
    for (let room = this.#reading.spare + momentsOf(this.#plan); this.#at.layer < layers;) {
      const { layer } = this.#at;
      const cuts = layer < from ? [] : through.cutsOf(layer);
      const taken = cuts.reduce((sum, { cols }) => sum + 4 * cols ** 2 + 256, 0);
      if (taken > room && this.#held.size) return;
      room -= taken;
      for (const { key, cols } of cuts) this.#held.set(key, { at: zeroed(this.#wasm, cols ** 2), cols });
      await this.#readLayer(through, cuts);
    }
  }

  /** @param {Layers} through @param {import('./layers.js').Cut[]} cuts  whose moments are collected */
  async #readLayer(through, cuts) {
    const { layer, states } = /** @type {{ layer: number, states: Float32Array[] }} */ (this.#at);
    const after = [];
    await through.enter(layer);
    for (const [i, ids] of this.#windows.entries()) {
      await turn(this.#signal);
      // Where tokens see those behind them, none is as it was in another window.
      const first = this.#causal ? sameStart(ids, this.#windows[i - 1] ?? []) : 0;
      after.push(
        through.runAll(ids, layer, cuts, states[i], (cut) => {
          const held = this.#held.get(cut.key);
          if (held) through.add(ids, cut, held.at, { first });
        }),
      );
      this.#read += ids.length;
      const total = this.tokens * this.#plan.layers;
      this.onTokens(Math.min(this.#read, total), total);
    }
    this.#at = { layer: layer + 1, states: after };
  }
}
