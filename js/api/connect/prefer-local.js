/** `localOrRemote`: uses a local model if it fits this machine according to its plan, or else the model of a server. */
import { number } from '../../shared/checks.js';
import { BqError } from '../../shared/errors.js';
import { checkBy } from '../../shared/check-options.js';

/** @import { Engine, LoadOptions, Model, Plan, SourceLike } from '../../shared/types.js' */
/** @import { RemoteModel } from './index.js' */

/**
 * @typedef {object} Chosen
 * @property {'local' | 'remote'} where
 * @property {string} reason
 * @property {Plan | null} plan  null if the model could not be planned
 * @property {Model | RemoteModel} model  both have `chat.completions`, `completions` and `embeddings`
 */

/** Codes of errors that are caused by the machine, not by the caller. */
const LOCAL_FAILURES = new Set(['NOMEM', 'QUOTA', 'NO_SIMD', 'UNSUPPORTED']);

/**
 * Loads a model if it fits this machine and is fast enough, or else returns the remote model. Throws the errors of
 * `plan` and `load`, except those caused by the machine.
 * @param {Engine} engine
 * @param {SourceLike} source
 * @param {RemoteModel} remote
 * @param {LoadOptions & { tokensPerSecond?: number }} [options]  options of `load`; `tokensPerSecond`: smallest
 *   acceptable speed
 * @returns {Promise<Chosen>}
 */
export async function localOrRemote(engine, source, remote, { tokensPerSecond = 0, ...options } = {}) {
  /** @type {Plan | null} */
  let plan = null;
  checkBy({ tokensPerSecond: number(0) }, 'localOrRemote', { tokensPerSecond });
  const useRemote = (/** @type {string} */ reason) =>
    /** @type {Chosen} */ ({ where: 'remote', reason, plan, model: remote });
  try {
    const { onProgress: _, ...loadOptions } = options;
    plan = await engine.plan(source, loadOptions);
    if (plan.fits === 'no') return useRemote(plan.fitsReason);
    const rate = plan.tokensPerSecond;
    if (rate !== null && rate < tokensPerSecond)
      return useRemote(
        `about ${rate.toPrecision(2)} tokens per second on this machine, expected at least ${tokensPerSecond}`,
      );
    return { where: 'local', reason: plan.fitsReason, plan, model: await engine.load(source, options) };
  } catch (error) {
    if (error instanceof BqError && LOCAL_FAILURES.has(error.code)) return useRemote(error.message);
    throw error;
  }
}
