/**
 * Sessions of a model that decode at the same time: what is due of all that are ready is computed in one pass, which reads each
 * weight once (bq_session_run_with). What each computes is what it would alone, to the bit. Who is not ready within a turn of the
 * event loop is not waited for. Loaded when a second session decodes.
 */
import { OK, WANT_DATA } from '../../wasm/abi.js';
import { Pace } from '../../shared/async.js';
import { DRAFTS } from '../plan/plan.js';

/** @import { Wasm } from '../../wasm/wasm.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { Ends, Timeline } from '../session/token-sequence.js' */

/** @typedef {{ timeline: Timeline, ends: Ends, done: (computed: boolean) => void }} Ready */

/** Sessions of a pass at most: it has as many results as the first was made for. */
const MOST = DRAFTS + 1;
/** Milliseconds between turns where an abort is heard without one. */
const ISOLATED_TURN_MS = 16;

/** @type {WeakMap<LocalModel, Together>} */
const known = new WeakMap();

/** Computes what is due of a session, with others that decode. @param {LocalModel} model @param {Wasm} wasm @param {Timeline} timeline @param {Ends} ends @returns {Promise<boolean>}  false: it is to be computed alone */
export function step(model, wasm, timeline, ends) {
  const together = known.get(model) ?? new Together(model, wasm);
  known.set(model, together);
  return together.step(timeline, ends);
}

class Together {
  #model;
  #wasm;
  /** @type {Ready[]} */
  #ready = [];
  /** Passes that are begun since then are not those that a turn was waited for. */
  #round = 0;
  #pace = new Pace();
  /** Weights are read from a disk between slices: sessions take turns. */
  #paged = false;

  /** @param {LocalModel} model @param {Wasm} wasm */
  constructor(model, wasm) {
    this.#model = model;
    this.#wasm = wasm;
  }

  /** @param {Timeline} timeline @param {Ends} ends @returns {Promise<boolean>} */
  step(timeline, ends) {
    return new Promise((done) => {
      this.#ready.push({ timeline, ends, done });
      const all = this.#ready.length >= this.#model.decoding.size;
      if (all || this.#ready.length === 1) void this.#begin(this.#round, all);
    });
  }

  /** @param {number} round @param {boolean} all  that decode are ready */
  async #begin(round, all) {
    const { tempo } = this.#model;
    const apart = this.#ready.some(({ ends }) => !ends.aborted);
    await (all
      ? tempo.slow
        ? this.#pace.rest()
        : this.#pace.pause(apart ? undefined : ISOLATED_TURN_MS)
      : new Pace().pause(0));
    if (round !== this.#round) return;
    this.#round++;
    const ready = this.#ready;
    this.#ready = [];
    for (const group of this.#groups(ready)) this.#pass(group);
  }

  /** Who shares a pass; who has to end, or to rest, is alone. @param {Ready[]} ready @returns {Ready[][]} */
  #groups(ready) {
    const apart = (/** @type {Ready} */ { timeline, ends }) =>
      this.#paged ||
      Boolean(this.#model.tempo.untilOpen) ||
      timeline.closed ||
      ends.signal?.aborted ||
      ends.aborted?.();
    const alone = ready.filter(apart);
    const others = ready.filter((one) => !alone.includes(one));
    others.sort((a, b) => b.timeline.sizes.context - a.timeline.sizes.context); // the first lends its buffers
    const parts = Math.ceil(others.length / MOST);
    const groups = Array.from({ length: parts }, (_, i) => others.filter((_, at) => at % parts === i));
    return [...alone.map((one) => [one]), ...groups];
  }

  /** @param {Ready[]} group */
  #pass(group) {
    const wasm = this.#wasm;
    let computed = false;
    if (group.length > 1)
      try {
        wasm.aborted = () => group.some(({ ends }) => ends.aborted?.());
        const [first, ...others] = group.map(({ timeline }) => timeline.handle);
        const status = wasm.scope((take) => {
          const at = take(others.length * 4);
          wasm.u32(at, others.length).set(others);
          return this.#model.timed(first, others.length, () =>
            wasm.check('bqw_session_run_with', first, at, others.length, 0),
          );
        });
        computed = status === OK; // else the pass is given up, and each goes on by itself
        this.#paged = status === WANT_DATA;
      } catch {
        // They have different adapters or caches; or each says by itself what is wrong with it.
      }
    for (const { done } of group) done(computed);
  }
}
