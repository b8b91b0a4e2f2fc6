/** What goes into the products of a model while it reads a text: second moments of it, collected by C as the layers are computed. */
import { logSum } from '../engine/probabilities.js';
import {
  DRAFTS,
  inputCols,
  inputOf,
  inputsOf,
  openReader,
  sessionOf,
  syncSession,
  weightsAt,
  zeroed,
} from './reader.js';

/** @import { Wasm } from '../wasm/wasm.js' */

/** Bytes of moments that are collected at once: of so many layers as that is enough for. */
const AT_ONCE = 1 << 30;

/**
 * A model that reads a text. Moments are asked for in the order of the layers: those that are gone are collected anew.
 */
export class Calibrator {
  #wasm;
  #model;
  /** @type {Uint32Array[]} */
  #windows;
  #layers;
  #context;
  #vocab;
  #signal;
  /** By keys of `inputOf`: where in the heap, and how many columns. @type {Map<string, { at: number, cols: number }>} */
  #held = new Map();
  /** @type {(done: number, total: number) => void} */
  onTokens = () => {};

  /** @param {Wasm} wasm @param {number} model @param {Uint32Array[]} windows @param {{ layers: number, context: number, vocab: number }} plan @param {AbortSignal} [signal] */
  constructor(wasm, model, windows, { layers, context, vocab }, signal) {
    this.#wasm = wasm;
    this.#model = model;
    this.#windows = windows;
    this.#layers = layers;
    this.#context = context;
    this.#vocab = vocab;
    this.#signal = signal;
  }

  get tokens() {
    return this.#windows.reduce((sum, ids) => sum + ids.length, 0);
  }

  /**
   * ARGUMENT: the text has no tokens; NOMEM.
   * @param {import('../shared/types.js').SourceLike} from
   * @param {string} text
   * @param {{ tokens?: number, signal?: AbortSignal }} [limits]
   */
  static async open(from, text, { tokens, signal } = {}) {
    // All moments, or as many as there is room for.
    const momentBytes = (/** @type {import('./reader.js').Shape} */ plan) =>
      Math.min(4 * plan.layers * inputCols(plan).reduce((sum, n) => sum + n ** 2, 1024), AT_ONCE);
    const { wasm, model, windows, plan, context } = await openReader(from, text, { tokens, besideOf: momentBytes });
    return new Calibrator(wasm, model, windows, { ...plan, context }, signal);
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
    return held && held.at ? { ...held, key: input.key, values: this.#wasm.f32(held.at, held.cols ** 2) } : null;
  }

  close() {
    this.#wasm.release();
  }

  /** A session of the only one that there is room for. @template T @param {(session: number) => Promise<T>} use */
  async #session(use) {
    const session = sessionOf(this.#wasm, this.#model, this.#context, false);
    try {
      return await use(session);
    } finally {
      this.#wasm.check('bqw_session_free', session);
    }
  }

  /** @param {number} session */
  async #run(session) {
    do {
      await new Promise((resolve) => setImmediate(resolve));
      this.#signal?.throwIfAborted();
    } while (this.#wasm.check('bqw_session_run', session, 8) !== 0);
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
        const logits = wasm.f32(wasm.out('bqw_session_logits', session), this.#vocab).slice();
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
   * While `use` runs the model has other weights in one matrix.
   * @template T @param {string} name  wte.weight, or one that has moments @param {Float32Array} values @param {() => Promise<T>} use
   */
  async withWeights(name, values, use) {
    const wasm = this.#wasm;
    const { at, bytesOf } = await this.#session(async (session) => weightsAt(wasm, session, this.#layers, name));
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
    const wasm = this.#wasm;
    for (const { at } of this.#held.values()) if (at) wasm.free(at);
    this.#held.clear();
    await this.#session(async (session) => this.#read(session, from));
  }

  /** @param {number} session @param {number} from  layer */
  async #read(session, from) {
    for (let layer = from, room = AT_ONCE; layer < this.#layers; layer++) {
      const taken = this.#watch(session, layer, room);
      if (taken < 0) break;
      room -= taken;
    }
    let done = 0;
    for (const ids of this.#windows) {
      syncSession(this.#wasm, session, ids);
      await this.#run(session);
      done += ids.length;
      this.onTokens(done, this.tokens);
    }
    this.#wasm.call('bqw_inputs_end', session);
  }

  /** Begins to collect those of a layer; −1: there was no room, and none is. @param {number} session @param {number} layer @param {number} room */
  #watch(session, layer, room) {
    const wasm = this.#wasm;
    const wanted = inputsOf(wasm, session, layer);
    const bytes = wanted.reduce((sum, { cols }) => sum + 4 * cols ** 2 + 256, 0);
    if (bytes > room && this.#held.size) return -1;
    for (const { key, module, cols } of wanted) {
      const at = cols ? zeroed(wasm, cols ** 2) : 0;
      const watched = at ? wasm.out('bqw_inputs_watch', session, layer, module, at, 0, 0) : 0;
      if (at && !watched) wasm.free(at);
      this.#held.set(key, { at: watched ? at : 0, cols });
    }
    return bytes;
  }
}
