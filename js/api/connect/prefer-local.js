/** Here or elsewhere: the model of this machine where its plan says that it fits, a server's otherwise. */
import { number } from '../../shared/checks.js';
import { BqError } from '../../shared/errors.js';
import { checkBy } from '../../shared/options.js';

/** @import { Engine, LoadOptions, Model, Plan, SourceLike } from '../../shared/types.js' */
/** @import { RemoteModel } from './index.js' */

/**
 * @typedef {object} Chosen
 * @property {'local' | 'remote'} where
 * @property {string} reason
 * @property {Plan | null} plan  null: it could not be made
 * @property {Model | RemoteModel} model  both have `chat.completions`, `completions` and `embeddings`
 */

/** What a machine, not a caller, lacks. */
const LOCAL_FAILURES = new Set(['NOMEM', 'QUOTA', 'NO_SIMD', 'UNSUPPORTED']);

/**
 * Throws what `plan` and `load` throw, but for what the machine lacks: then the server is taken.
 * @param {Engine} engine @param {SourceLike} source @param {RemoteModel} remote
 * @param {LoadOptions & { tokensPerSecond?: number }} [options]  those of `load`; `tokensPerSecond`: fewer than that are too slow
 * @returns {Promise<Chosen>}
 */
export async function localOrRemote(engine, source, remote, { tokensPerSecond = 0, ...options } = {}) {
  /** @type {Plan | null} */
  let plan = null;
  checkBy({ tokensPerSecond: number(0) }, 'localOrRemote', { tokensPerSecond });
  const elsewhere = (/** @type {string} */ reason) =>
    /** @type {Chosen} */ ({ where: 'remote', reason, plan, model: remote });
  try {
    const { onProgress: _, ...loadOptions } = options;
    plan = await engine.plan(source, loadOptions);
    if (plan.fits === 'no') return elsewhere(plan.fitsReason);
    const rate = plan.tokensPerSecond;
    if (rate !== null && rate < tokensPerSecond)
      return elsewhere(`about ${rate.toPrecision(2)} tokens per second here, ${tokensPerSecond} are wanted`);
    return { where: 'local', reason: plan.fitsReason, plan, model: await engine.load(source, options) };
  } catch (error) {
    if (error instanceof BqError && LOCAL_FAILURES.has(error.code)) return elsewhere(error.message);
    throw error;
  }
}
