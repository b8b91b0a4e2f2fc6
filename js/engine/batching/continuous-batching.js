/**
 * Continuous batching: sessions of a model that decode at the same time share a batch, so that each weight is read
 * once for all of them (bq_session_run_with). The results are bit-identical to those without a batch. A batch waits at
 * most one turn of the event loop for further sessions. Loaded when a second session decodes.
 */
import { OK, WANT_DATA } from '../../wasm/abi.js';
import { Yielder } from '../../shared/async.js';
import { DEFAULT_DRAFT_TOKENS } from '../plan/plan.js';

/** @import { Wasm } from '../../wasm/wasm.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { StopConditions, TokenSequence } from '../session/token-sequence.js' */

/**
 * A decoding step that waits for a batch. `done` is called with true if the batch computed the step, and with false if
 * the session must compute it alone.
 * @typedef {{ sequence: TokenSequence, stopConditions: StopConditions, done: (computed: boolean) => void }} WaitingStep
 */

/** Largest number of sessions in a batch: the first session's buffers hold one output per draft token, and one more. */
const MAX_BATCH_SESSIONS = DEFAULT_DRAFT_TOKENS + 1;
/**
 * Milliseconds between yields if aborts are signalled through shared memory, where no yield is needed to notice them.
 */
const ISOLATED_YIELD_MS = 16;

/** @type {WeakMap<LocalModel, Batcher>} */
const batchers = new WeakMap();

/**
 * Computes a decoding step of a session in one batch with other sessions.
 * @param {LocalModel} model @param {Wasm} wasm @param {TokenSequence} sequence @param {StopConditions} stopConditions
 * @returns {Promise<boolean>}  false: the session must compute the step alone
 */
export function stepTogether(model, wasm, sequence, stopConditions) {
  const batcher = batchers.get(model) ?? new Batcher(model, wasm);
  batchers.set(model, batcher);
  return batcher.step(sequence, stopConditions);
}

class Batcher {
  #model;
  #wasm;
  /** @type {WaitingStep[]} */
  #ready = [];
  /** Number of rounds started. A start that has waited is cancelled if another round has started in the meantime. */
  #round = 0;
  #yielder = new Yielder();
  /** Whether weights are paged. Sessions must run one after another then. */
  #paged = false;

  /** @param {LocalModel} model @param {Wasm} wasm */
  constructor(model, wasm) {
    this.#model = model;
    this.#wasm = wasm;
  }

  /** @param {TokenSequence} sequence @param {StopConditions} stopConditions @returns {Promise<boolean>} */
  step(sequence, stopConditions) {
    return new Promise((resolve) => {
      this.#ready.push({ sequence, stopConditions, done: resolve });
      const allReady = this.#ready.length >= this.#model.decoding.size;
      if (allReady || this.#ready.length === 1) void this.#startRound(this.#round, allReady);
    });
  }

  /** @param {number} round @param {boolean} allReady  whether all decoding sessions are ready */
  async #startRound(round, allReady) {
    const { paceState } = this.#model;
    const needsYield = this.#ready.some(({ stopConditions }) => !stopConditions.aborted);
    await (allReady
      ? paceState.slow
        ? this.#yielder.rest()
        : this.#yielder.yield(needsYield ? undefined : ISOLATED_YIELD_MS)
      : new Yielder().yield(0));
    if (round !== this.#round) return;
    this.#round++;
    const ready = this.#ready;
    this.#ready = [];
    for (const group of this.#groupSessions(ready)) this.#runBatch(group);
  }

  /**
   * Distributes steps over batches. Steps of sessions that must end or pause run alone.
   * @param {WaitingStep[]} ready @returns {WaitingStep[][]}
   */
  #groupSessions(ready) {
    const runsAlone = (/** @type {WaitingStep} */ { sequence, stopConditions }) =>
      this.#paged ||
      Boolean(this.#model.paceState.untilOpen) ||
      sequence.isClosed ||
      stopConditions.signal?.aborted ||
      stopConditions.aborted?.();
    const singles = ready.filter(runsAlone);
    const batched = ready.filter((waiting) => !singles.includes(waiting));
    // C uses the buffers of the first session, which therefore needs the largest context.
    batched.sort((a, b) => b.sequence.sizes.context - a.sequence.sizes.context);
    const parts = Math.ceil(batched.length / MAX_BATCH_SESSIONS);
    const groups = Array.from({ length: parts }, (_, i) => batched.filter((_, at) => at % parts === i));
    return [...singles.map((waiting) => [waiting]), ...groups];
  }

  /** @param {WaitingStep[]} group */
  #runBatch(group) {
    const wasm = this.#wasm;
    let computed = false;
    if (group.length > 1)
      try {
        wasm.aborted = () => group.some(({ stopConditions }) => stopConditions.aborted?.());
        const [first, ...laterHandles] = group.map(({ sequence }) => sequence.handle);
        const status = wasm.scope((take) => {
          const at = take(laterHandles.length * 4);
          wasm.u32(at, laterHandles.length).set(laterHandles);
          return this.#model.runTuned(first, laterHandles.length, () =>
            wasm.check('bqw_session_run_with', first, at, laterHandles.length, 0),
          );
        });
        computed = status === OK; // otherwise each session computes its step alone
        this.#paged = status === WANT_DATA;
      } catch {
        // The sessions have different adapters or caches, or one of them fails. Each session then computes its step
        // alone and reports its own error.
      }
    for (const { done } of group) done(computed);
  }
}
