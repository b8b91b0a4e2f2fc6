/**
 * Runs a model on a calibration text. Collects, layer by layer, the second-moment matrix of the inputs of each matrix
 * product: the sum of x xᵀ over tokens, the Hessian of GPTQ. Its diagonal is llama.cpp's imatrix. Also computes the
 * model's predictions.
 */
import { logSum } from '../engine/model/probabilities.js';
import { Layers } from './layers.js';
import { WANT_DATA } from '../wasm/abi.js';
import {
  allocateZeros,
  DRAFT_TOKENS,
  inputCols,
  inputOf,
  openReading,
  sessionOf,
  syncSession,
  yieldToEventLoop,
  weightsAt,
} from './calibration-model.js';

/** @import { Reading } from './calibration-model.js' */

/** Limit of the matrices collected in one pass, in bytes: those of as many layers as fit, at least of one layer. */
const MAX_PASS_BYTES = 1 << 30;

/**
 * Returns the length of the common beginning of a window and the window before it. The tokens of this beginning are
 * counted only once. If a window is a beginning of the longer window before it, its last token is counted nevertheless.
 * @param {Uint32Array} ids @param {ArrayLike<number>} before
 */
function commonPrefix(ids, before) {
  const difference = ids.findIndex((id, i) => id !== before[i]);
  if (difference >= 0) return difference;
  return ids.length === before.length ? ids.length : ids.length - 1;
}

/**
 * Returns the size of a layer's second-moment matrices in bytes.
 * @param {import('./calibration-model.js').Shape} plan
 */
const momentBytes = (plan) => 4 * inputCols(plan).reduce((sum, n) => sum + n ** 2, 1024);

/**
 * A model with a calibration text. Second-moment matrices are requested in the order of the layers; the text is
 * processed again for matrices that were discarded.
 */
export class Calibrator {
  #reading;
  #wasm;
  #windows;
  #plan;
  #causal;
  #signal;
  /**
   * The next layer, and the hidden states of all windows before it; null at the beginning.
   * @type {{ layer: number, states: Float32Array[] } | null}
   */
  #position = null;
  /** Tokens processed so far, counted for each layer. */
  #processedTokens = 0;
  /**
   * Collected matrices by keys of `inputOf`: address in the heap, number of columns.
   * @type {Map<string, { at: number, cols: number }>}
   */
  #collected = new Map();
  /** @type {(done: number, total: number) => void} */
  onTokens = () => {};

  /** @param {Reading} reading @param {{ causal?: boolean, signal?: AbortSignal }} options */
  constructor(reading, { causal = true, signal }) {
    this.#reading = reading;
    this.#wasm = reading.wasm;
    this.#windows = reading.windows;
    this.#plan = reading.plan;
    this.#causal = causal;
    this.#signal = signal;
  }

  /** Whether all weights are in memory. */
  get isResident() {
    return !this.#reading.pages;
  }

  get tokens() {
    return this.#windows.reduce((sum, ids) => sum + ids.length, 0);
  }

  /**
   * Loads a model and tokenizes a text. Throws ARGUMENT if the text has no tokens, and NOMEM.
   * @param {import('../shared/types.js').SourceLike} from
   * @param {string} text
   * @param {{ tokens?: number, threads?: number, budget?: number, causal?: boolean, signal?: AbortSignal }} [options]
   *   causal: tokens do not attend to later ones (default)
   */
  static async open(from, text, { tokens, threads, budget, causal, signal } = {}) {
    const reservedBytesOf = (
      /** @type {import('./calibration-model.js').Shape} */ plan,
      /** @type {number} */ context,
    ) => momentBytes(plan) + Layers.bytes(plan, context);
    const optionalBytesOf = (/** @type {import('./calibration-model.js').Shape} */ plan) =>
      Math.min((plan.layers - 1) * momentBytes(plan), MAX_PASS_BYTES);
    const reading = await openReading(from, text, { tokens, threads, budget, reservedBytesOf, optionalBytesOf });
    return new Calibrator(reading, { causal, signal });
  }

  /** Returns the key of a matrix's input, which several matrices may share; '' if it has none. @param {string} name */
  keyOf(name) {
    return inputOf(name)?.key ?? '';
  }

  /**
   * Returns the second-moment matrix of a matrix's inputs; null if the matrix was not measured.
   * @param {string} name  of the matrix
   */
  async momentsOf(name) {
    const input = inputOf(name);
    if (!input) return null;
    if (!this.#collected.has(input.key)) await this.#collect(input.layer);
    const collected = this.#collected.get(input.key);
    return collected
      ? { ...collected, key: input.key, values: this.#wasm.f32(collected.at, collected.cols ** 2) }
      : null;
  }

  close() {
    this.#wasm.release();
  }

  /**
   * Creates a session for `use`; the heap has room for only one.
   * @template T @param {(session: number) => Promise<T>} use
   */
  async #session(use) {
    const { model, context } = this.#reading;
    const session = sessionOf(this.#wasm, model, context);
    try {
      return await use(session);
    } finally {
      this.#wasm.check('bqw_session_free', session);
    }
  }

  /** Runs a session to its end, and loads the weights that it needs. @param {number} session */
  async #run(session) {
    const { pages } = this.#reading;
    /** @type {number} */
    let status;
    do {
      await yieldToEventLoop(this.#signal);
      status = this.#wasm.check('bqw_session_run', session, 8);
      if (status === WANT_DATA) await pages?.loadMissing(session);
    } while (status !== 0);
  }

  /**
   * Computes log probabilities of the next token after each of the text's first `n` tokens.
   * @param {number} n @returns {Promise<Float32Array[]>}
   */
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
          const next = ids.slice(i, i + DRAFT_TOKENS);
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

  /** Computes the perplexity of the text's first window. */
  async perplexity() {
    const [ids] = this.#windows;
    const predicted = await this.predictions(ids.length);
    let sum = 0;
    for (let i = 1; i < ids.length; i++) sum -= predicted[i - 1][ids[i]];
    return Math.exp(sum / (ids.length - 1));
  }

  /**
   * Replaces the weights of one matrix while `use` runs. All weights must be in memory.
   * @template T @param {string} name  wte.weight, lm_head.weight, or a matrix of a layer @param {Float32Array} values
   * @param {() => Promise<T>} use
   */
  async withWeights(name, values, use) {
    const wasm = this.#wasm;
    const { at, bytesOf } = await this.#session(async (session) => weightsAt(wasm, session, this.#plan.layers, name));
    const bytes = bytesOf(values);
    const originalBytes = wasm.bytes(at, bytes.length).slice();
    wasm.bytes(at, bytes.length).set(bytes);
    try {
      return await use();
    } finally {
      wasm.bytes(at, bytes.length).set(originalBytes);
    }
  }

  /** Collects the matrices of as many layers as fit in memory, from this one on. @param {number} from */
  async #collect(from) {
    for (const { at } of this.#collected.values()) this.#wasm.free(at);
    this.#collected.clear();
    await this.#session(async (session) => {
      const layers = new Layers(this.#reading, session);
      try {
        await this.#readFrom(layers, from);
      } finally {
        layers.close();
      }
    });
  }

  /** Computes layers up to `from`, then collects from there on. @param {Layers} runner @param {number} from  layer */
  async #readFrom(runner, from) {
    const { layers } = this.#plan;
    if (!this.#position || this.#position.layer > from) {
      const states = [];
      for (const ids of this.#windows) states.push(await runner.embedded(ids, layers));
      [this.#position, this.#processedTokens] = [{ layer: 0, states }, 0];
    }
    for (let freeBytes = this.#reading.spare + momentBytes(this.#plan); this.#position.layer < layers;) {
      const { layer } = this.#position;
      const cuts = layer < from ? [] : runner.cutsOf(layer);
      const bytes = cuts.reduce((sum, { cols }) => sum + 4 * cols ** 2 + 256, 0);
      if (bytes > freeBytes && this.#collected.size) return;
      freeBytes -= bytes;
      for (const { key, cols } of cuts) this.#collected.set(key, { at: allocateZeros(this.#wasm, cols ** 2), cols });
      await this.#readLayer(runner, cuts);
    }
  }

  /**
   * Computes the next layer for all windows.
   * @param {Layers} runner @param {import('./layers.js').Cut[]} cuts  whose inputs are collected
   */
  async #readLayer(runner, cuts) {
    const { layer, states } = /** @type {{ layer: number, states: Float32Array[] }} */ (this.#position);
    const statesAfter = [];
    await runner.enter(layer);
    for (const [i, ids] of this.#windows.entries()) {
      await yieldToEventLoop(this.#signal);
      // With bidirectional attention even a common beginning has other states in each window.
      const first = this.#causal ? commonPrefix(ids, this.#windows[i - 1] ?? []) : 0;
      statesAfter.push(
        runner.runAll(ids, layer, cuts, states[i], (cut) => {
          const collected = this.#collected.get(cut.key);
          if (collected) runner.add(ids, cut, collected.at, { first });
        }),
      );
      this.#processedTokens += ids.length;
      const total = this.tokens * this.#plan.layers;
      this.onTokens(Math.min(this.#processedTokens, total), total);
    }
    this.#position = { layer: layer + 1, states: statesAfter };
  }
}
