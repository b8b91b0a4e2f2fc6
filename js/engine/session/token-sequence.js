/** The tokens of a session, and what computes them. */
import { MORE, OK, WANT_DATA } from '../../wasm/abi.js';
import { Pace } from '../../shared/async.js';
import { DRAFTS } from '../plan/plan.js';
import { BqError, onDemand } from '../../shared/errors.js';

/** What ends it besides being closed, or holds it up; `due`: when it is over, of performance.now(). @typedef {{ signal?: AbortSignal, aborted?: () => boolean, due?: number }} Ends */

/** @import { LocalModel } from '../model/model.js' */
/** @import { GenerateOptions } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** Milliseconds of work between turns where an abort needs none: in a turn the other threads fall asleep, and waking them
 * costs as much as a barrier a hundred times. What waits is another call to the same worker. */
const ISOLATED_TURN_MS = 16;

export class Timeline {
  #model;
  #wasm;
  sizes;
  #pace = new Pace();
  /** Tokens that the engine has. @type {number[]} */
  ids;
  /** A token that was generated, and comes on the timeline when it goes on. @type {number | null} */
  next = null;
  closed = false;
  /** Who waits, and is to be woken when it is closed. @type {Set<() => void>} */
  sleepers = new Set();
  /** Tokens that a guess has at most, those that were computed along, and those of them that came. */
  drafts;
  drafted = 0;
  accepted = 0;
  /** Milliseconds that the last run took, without turns in between; 0: it shared a pass. */
  spent = 0;

  /**
   * @param {LocalModel} model @param {Wasm} wasm @param {number} handle  of the session
   * @param {{ contextTokens: number, prefillWindow?: number, prefillBatch?: number, draftTokens?: number }} sizes @param {number[]} ids
   */
  constructor(
    model,
    wasm,
    handle,
    { contextTokens: context, prefillWindow: window = 256, prefillBatch: batch = 32, draftTokens: drafts = DRAFTS },
    ids,
  ) {
    this.drafts = drafts;
    this.#model = model;
    this.#wasm = wasm;
    this.handle = handle;
    this.sizes = { context, window: Math.min(window, context), batch, layers: model.info.layers };
    this.ids = ids;
  }

  close() {
    this.closed = true;
    for (const wake of this.sleepers) wake();
  }

  /** CLOSED. */
  check() {
    if (this.closed) throw new BqError('CLOSED', 'the session was closed');
  }

  /** With what was generated last. */
  all() {
    return this.next === null ? this.ids : [...this.ids, this.next];
  }

  /** Of another text, or of none. */
  forget() {
    this.ids = [];
    this.next = null;
  }

  /** @param {number} id */
  push(id) {
    this.#wasm.check('bqw_session_append', this.handle, id);
    this.ids.push(id);
    this.next = null;
  }

  /** Guesses what comes next, for the next run. @param {number[]} tokens @returns {number} how many of these it computes along */
  draft(tokens) {
    return this.#wasm.scope((take) => {
      const at = take(tokens.length * 4);
      this.#wasm.u32(at, tokens.length).set(tokens);
      return this.#wasm.out('bqw_session_draft', this.handle, at, tokens.length);
    });
  }

  /** @param {Uint32Array} tokens @returns {number} how many were in the KV cache */
  sync(tokens) {
    return this.#wasm.scope((take) => {
      const at = take(tokens.length * 4);
      this.#wasm.u32(at, tokens.length).set(tokens);
      const kept = this.#wasm.out('bqw_session_sync', this.handle, at, tokens.length);
      this.ids = [...tokens];
      this.next = null;
      return kept;
    });
  }

  /**
   * Makes a prompt the timeline, and computes it.
   * @param {Ends} ends
   * @param {any} onProgress  of GenerateOptions
   * @param {Uint32Array} tokens
   * @returns {Promise<number>}  how many were in the KV cache
   */
  async prefill(ends, onProgress, tokens) {
    const told = onProgress && (await onDemand(import('../generation/prefill-progress.js')));
    const kept = this.sync(tokens);
    const slices = () => this.#wasm.call('bqw_session_slices', this.handle);
    const progress = told?.prefillProgress(onProgress, tokens.length - kept, this.sizes, slices);
    await this.run(ends, 1, progress?.onSlices);
    progress?.end();
    return kept;
  }

  /** Waits until nothing holds it up any more, or it ends; nothing, no promise, where nothing does. @param {Ends} ends */
  heldUp(ends) {
    return this.#model.tempo.untilOpen ? this.#rest(ends) : undefined;
  }

  /** @param {Ends} ends */
  async #rest({ signal, due = Infinity }) {
    const { until } = await onDemand(import('../generation/rate-limiter.js'));
    for (;;) {
      const held = this.#model.tempo.untilOpen;
      if (!held || this.closed || performance.now() >= due) return;
      await until(due, this, signal, held);
    }
  }

  /**
   * Computes until there are results, or until it is due.
   * @param {Ends} ends
   * @param {number} slices  at once; 0: all
   * @param {() => void} [onSlices]
   */
  async run(ends, slices, onSlices) {
    const { signal, aborted, due } = ends;
    const { tempo, decoding } = this.#model;
    const goOn = () => {
      this.check();
      signal?.throwIfAborted();
      if (aborted?.()) throw new DOMException('This operation was aborted', 'AbortError');
    };
    let status = MORE;
    // One that has its results already waits for nobody.
    if (decoding.size > 1 && decoding.has(this) && this.#wasm.call('bqw_session_rows', this.handle)) {
      const loaded = await onDemand(import('../batching/continuous-batching.js')).catch(() => null);
      if (await loaded?.step(this.#model, this.#wasm, this, ends)) status = OK;
    }
    const shared = status === OK;
    this.spent = 0;
    let since = performance.now();
    const rest = async (/** @type {Promise<unknown>} */ over) => {
      this.spent += performance.now() - since;
      await over;
      since = performance.now();
    };
    while (status !== OK) {
      goOn();
      const held = this.heldUp(ends);
      if (held) {
        await rest(held);
        goOn();
      }
      if (due !== undefined && performance.now() >= due) return;
      this.#wasm.aborted = aborted;
      status = this.#model.run(this.handle, slices);
      onSlices?.();
      if (status === WANT_DATA) {
        await this.#model.wait(this.handle, signal);
        continue;
      }
      // Nothing is awaited that need not be: each await is a slice's share of what threads wait for.
      const pause = tempo.slow ? this.#pace.rest() : this.#pace.pause(aborted && ISOLATED_TURN_MS);
      if (pause) await rest(pause);
    }
    if (!shared) this.spent += performance.now() - since;
    goOn();
  }
}
