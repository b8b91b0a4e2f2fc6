/** An engine in the calling thread. */
import { conversing } from '../openai/conversing.js';
import { checkOptions } from '../shared/options.js';
import { openEngine } from './engine.js';

/** @import { Engine, EngineOptions } from '../shared/types.js' */

/**
 * An engine that computes in this thread, with the help of others where memory can be shared. In a page rather use
 * createWorkerEngine. NO_SIMD, NO_ENGINE, ARGUMENT.
 * @param {EngineOptions} [options]
 * @returns {Promise<Engine>}
 */
export async function createEngine(options) {
  const engine = await openEngine(checkOptions('createEngine', options), () => {});
  const { load } = engine;
  engine.load = async (...given) => conversing(await load(...given));
  return engine;
}
