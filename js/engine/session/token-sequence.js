/** The token sequence of a session, and the loop that computes it. */
import { MORE, OK, WANT_DATA } from '../../wasm/abi.js';
import { Yielder } from '../../shared/async.js';
import { DEFAULT_DRAFT_TOKENS } from '../plan/plan.js';
import { BqError, onDemand } from '../../shared/errors.js';

/**
 * Conditions that stop a computation. `aborted`: returns whether another thread has aborted it; `due`: its deadline on
 * the clock of performance.now().
 * @typedef {{ signal?: AbortSignal, aborted?: () => boolean, due?: number }} StopConditions
 */

/** @import { LocalModel } from '../model/model.js' */
/** @import { GenerateOptions } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/**
 * Milliseconds of work between yields if no yield is needed to notice aborts. Yields let other calls to the same worker
 * run. But the other threads fall asleep during a yield, and waking them costs as much as a hundred barriers.
 */
const ISOLATED_YIELD_MS = 16;

export class TokenSequence {
  #model;
  #wasm;
  sizes;
  #yielder = new Yielder();
  /** Tokens of the sequence in C, without `pendingToken`. @type {number[]} */
  tokens;
  /** A generated token that is appended when the generation continues. @type {number | null} */
  pendingToken = null;
  isClosed = false;
  /** Functions that wake waiting code when the session closes. @type {Set<() => void>} */
  sleepers = new Set();
  /** Largest number of draft tokens at once, and the numbers of draft tokens computed and accepted so far. */
  maxDraftTokens;
  draftedCount = 0;
  acceptedCount = 0;
  /** Milliseconds of the last run, without yields; 0 if it shared a batch with other sessions. */
  lastRunMs = 0;

  /**
   * @param {LocalModel} model @param {Wasm} wasm @param {number} handle  handle of the session
   * @param {{ contextTokens: number, prefillWindow?: number, prefillBatch?: number, draftTokens?: number }} sizes
   * @param {number[]} ids  tokens that the sequence begins with
   */
  constructor(
    model,
    wasm,
    handle,
    {
      contextTokens: context,
      prefillWindow: window = 256,
      prefillBatch: batch = 32,
      draftTokens: drafts = DEFAULT_DRAFT_TOKENS,
    },
    ids,
  ) {
    this.maxDraftTokens = drafts;
    this.#model = model;
    this.#wasm = wasm;
    this.handle = handle;
    this.sizes = { context, window: Math.min(window, context), batch, layers: model.info.layers };
    this.tokens = ids;
  }

  close() {
    this.isClosed = true;
    for (const wake of this.sleepers) wake();
  }

  /** Throws CLOSED. */
  check() {
    if (this.isClosed) throw new BqError('CLOSED', 'the session was closed');
  }

  /** Returns all tokens, including the pending one. */
  allTokens() {
    return this.pendingToken === null ? this.tokens : [...this.tokens, this.pendingToken];
  }

  /** Forgets all tokens. Does not change the sequence in C, which the caller then replaces. */
  clear() {
    this.tokens = [];
    this.pendingToken = null;
  }

  /** Appends a token. @param {number} id */
  push(id) {
    this.#wasm.check('bqw_session_append', this.handle, id);
    this.tokens.push(id);
    this.pendingToken = null;
  }

  /**
   * Adds draft tokens to the next run.
   * @param {number[]} tokens
   * @returns {number}  number of them that the run will compute
   */
  addDraftTokens(tokens) {
    return this.#wasm.scope((take) => {
      const at = take(tokens.length * 4);
      this.#wasm.u32(at, tokens.length).set(tokens);
      return this.#wasm.out('bqw_session_draft', this.handle, at, tokens.length);
    });
  }

  /**
   * Replaces the sequence.
   * @param {Uint32Array} tokens
   * @returns {number}  number of tokens that were in the KV cache
   */
  sync(tokens) {
    return this.#wasm.scope((take) => {
      const at = take(tokens.length * 4);
      this.#wasm.u32(at, tokens.length).set(tokens);
      const cachedCount = this.#wasm.out('bqw_session_sync', this.handle, at, tokens.length);
      this.tokens = [...tokens];
      this.pendingToken = null;
      return cachedCount;
    });
  }

  /**
   * Replaces the sequence by a prompt and computes it.
   * @param {StopConditions} stopConditions
   * @param {any} onProgress  `onProgress` of GenerateOptions
   * @param {Uint32Array} tokens
   * @returns {Promise<number>}  number of tokens that were in the KV cache
   */
  async prefill(stopConditions, onProgress, tokens) {
    const progressModule = onProgress && (await onDemand(import('../generation/prefill-progress.js')));
    const cachedCount = this.sync(tokens);
    const workUnits = () => this.#wasm.call('bqw_session_work_units', this.handle);
    const progress = progressModule?.prefillProgress(onProgress, tokens.length - cachedCount, this.sizes, workUnits);
    await this.run(stopConditions, 1, progress?.onWorkUnits);
    progress?.end();
    return cachedCount;
  }

  /**
   * Returns a promise that settles when the engine is resumed, the deadline passes or the sequence is closed. Returns
   * undefined if the engine is not paused.
   * @param {StopConditions} stopConditions
   */
  waitWhilePaused(stopConditions) {
    return this.#model.paceState.untilOpen ? this.#waitForGate(stopConditions) : undefined;
  }

  /** @param {StopConditions} stopConditions */
  async #waitForGate({ signal, due = Infinity }) {
    const { waitUntil } = await onDemand(import('../generation/rate-limiter.js'));
    for (;;) {
      const untilOpen = this.#model.paceState.untilOpen;
      if (!untilOpen || this.isClosed || performance.now() >= due) return;
      await waitUntil(due, this, signal, untilOpen);
    }
  }

  /**
   * Computes until there is output, or until the deadline.
   * @param {StopConditions} stopConditions
   * @param {number} workUnits  work units at once; 0: all
   * @param {() => void} [onWorkUnits]
   */
  async run(stopConditions, workUnits, onWorkUnits) {
    const { signal, aborted, due } = stopConditions;
    const { paceState, decoding } = this.#model;
    const checkContinues = () => {
      this.check();
      signal?.throwIfAborted();
      if (aborted?.()) throw new DOMException('This operation was aborted', 'AbortError');
    };
    let status = MORE;
    // A session without rows to compute already has output and does not wait for a batch.
    if (decoding.size > 1 && decoding.has(this) && this.#wasm.call('bqw_session_rows', this.handle)) {
      const batching = await onDemand(import('../batching/continuous-batching.js')).catch(() => null);
      if (await batching?.stepTogether(this.#model, this.#wasm, this, stopConditions)) status = OK;
    }
    const wasBatched = status === OK;
    this.lastRunMs = 0;
    let runStart = performance.now();
    const waitFor = async (/** @type {Promise<unknown>} */ promise) => {
      this.lastRunMs += performance.now() - runStart;
      await promise;
      runStart = performance.now();
    };
    while (status !== OK) {
      checkContinues();
      const gate = this.waitWhilePaused(stopConditions);
      if (gate) {
        await waitFor(gate);
        checkContinues();
      }
      if (due !== undefined && performance.now() >= due) return;
      this.#wasm.aborted = aborted;
      status = this.#model.run(this.handle, workUnits);
      onWorkUnits?.();
      if (status === WANT_DATA) {
        await this.#model.wait(this.handle, signal);
        continue;
      }
      // Awaits only if necessary, because threads wait during each await.
      const yielding = paceState.slow ? this.#yielder.rest() : this.#yielder.yield(aborted && ISOLATED_YIELD_MS);
      if (yielding) await waitFor(yielding);
    }
    if (!wasBatched) this.lastRunMs += performance.now() - runStart;
    checkContinues();
  }
}
