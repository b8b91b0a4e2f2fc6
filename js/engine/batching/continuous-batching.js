/**
 * Continuous batching: sessions of a model that decode at the same time share a batch, so that each weight is read
 * once for all of them (bq_session_run_with). The results are the same bits as without a batch. A batch waits at most one turn of the
 * event loop for further sessions. Loaded when a second session decodes.
 */
import { OK, WANT_DATA } from '../../wasm/abi.js';
import { Pace } from '../../shared/async.js';
import { DEFAULT_DRAFT_TOKENS } from '../plan/plan.js';

/** @import { Wasm } from '../../wasm/wasm.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { StopConditions, TokenSequence } from '../session/token-sequence.js' */

/** @typedef {{ sequence: TokenSequence, ends: StopConditions, done: (computed: boolean) => void }} WaitingStep */

/** Largest number of sessions in a batch: the first session's buffers hold one result per draft token, and one more. */
const MAX_BATCH_SESSIONS = DEFAULT_DRAFT_TOKENS + 1;
/** Milliseconds between yields where aborts come through shared memory, so that yielding is not needed to notice them. */
const ISOLATED_TURN_MS = 16;

/** @type {WeakMap<LocalModel, Batcher>} */
const batchers = new WeakMap();

/** Computes a step of a session together with others that decode. @param {LocalModel} model @param {Wasm} wasm @param {TokenSequence} sequence @param {StopConditions} ends @returns {Promise<boolean>}  false: it is to be computed alone */
export function stepTogether(model, wasm, sequence, ends) {
  const batcher = batchers.get(model) ?? new Batcher(model, wasm);
  batchers.set(model, batcher);
  return batcher.step(sequence, ends);
}

class Batcher {
  #model;
  #wasm;
  /** @type {WaitingStep[]} */
  #ready = [];
  /** Number of batches started; a start that waited for its turn gives up if another batch has started since. */
  #round = 0;
  #pace = new Pace();
  /** Whether weights are paged, so that sessions must run one after another. */
  #paged = false;

  /** @param {LocalModel} model @param {Wasm} wasm */
  constructor(model, wasm) {
    this.#model = model;
    this.#wasm = wasm;
  }

  /** @param {TokenSequence} sequence @param {StopConditions} ends @returns {Promise<boolean>} */
  step(sequence, ends) {
    return new Promise((resolve) => {
      this.#ready.push({ sequence, ends, done: resolve });
      const allReady = this.#ready.length >= this.#model.decoding.size;
      if (allReady || this.#ready.length === 1) void this.#startRound(this.#round, allReady);
    });
  }

  /** @param {number} round @param {boolean} allReady  all sessions that decode are ready */
  async #startRound(round, allReady) {
    const { tempo } = this.#model;
    const needsTurn = this.#ready.some(({ ends }) => !ends.aborted);
    await (allReady
      ? tempo.slow
        ? this.#pace.rest()
        : this.#pace.pause(needsTurn ? undefined : ISOLATED_TURN_MS)
      : new Pace().pause(0));
    if (round !== this.#round) return;
    this.#round++;
    const ready = this.#ready;
    this.#ready = [];
    for (const group of this.#groupSessions(ready)) this.#runBatch(group);
  }

  /** Distributes steps over batches. Steps that must end or pause run alone. @param {WaitingStep[]} ready @returns {WaitingStep[][]} */
  #groupSessions(ready) {
    const runsAlone = (/** @type {WaitingStep} */ { sequence, ends }) =>
      this.#paged ||
      Boolean(this.#model.tempo.untilOpen) ||
      sequence.isClosed ||
      ends.signal?.aborted ||
      ends.aborted?.();
    const singles = ready.filter(runsAlone);
    const batched = ready.filter((waiting) => !singles.includes(waiting));
    batched.sort((a, b) => b.sequence.sizes.context - a.sequence.sizes.context); // the buffers of the first are used
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
        wasm.aborted = () => group.some(({ ends }) => ends.aborted?.());
        const [first, ...laterHandles] = group.map(({ sequence }) => sequence.handle);
        const status = wasm.scope((take) => {
          const at = take(laterHandles.length * 4);
          wasm.u32(at, laterHandles.length).set(laterHandles);
          return this.#model.runTuned(first, laterHandles.length, () =>
            wasm.check('bqw_session_run_with', first, at, laterHandles.length, 0),
          );
        });
        computed = status === OK; // otherwise each step runs by itself
        this.#paged = status === WANT_DATA;
      } catch {
        // The sessions have different adapters or caches, or one of them fails: each step runs by itself and reports its own error.
      }
    for (const { done } of group) done(computed);
  }
}
