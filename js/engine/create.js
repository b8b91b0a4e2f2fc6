/** An engine in the calling thread. */
import { addModelMethods } from '../api/openai/model-mixin.js';
import { loaderOf } from '../shared/loader.js';
import { isNode } from '../shared/node.js';
import { checkOptions } from '../shared/options.js';
import { openEngine } from './engine.js';

const BUNDLED = "keep bq4 out of the server's bundle (Next: serverExternalPackages: ['bq4']; docs/guides/bundlers.md)";

/** @import { Engine, EngineOptions, LoadOptions, Model, SourceLike } from '../shared/types.js' */

/**
 * An engine that computes in this thread, with the help of others where memory can be shared. In a page rather use
 * createWorkerEngine. NO_SIMD, NO_ENGINE, ARGUMENT.
 * @param {EngineOptions} [options]
 * @returns {Promise<Engine>}
 */
export async function createEngine(options) {
  const engine = await openEngine(checkOptions('createEngine', options), () => {}).catch((error) => {
    // An address for browsers, on a server: what bundled it has moved the builds.
    if (isNode && error.code === 'NO_ENGINE' && /^the engine \/(?!\/)/.test(error.message)) error.hint = BUNDLED;
    throw error;
  });
  const { load } = engine;
  engine.load = async (...given) => addModelMethods(await load(...given));
  return engine;
}

/**
 * Makes an engine in this thread, loads a model and returns it: its `close` closes the engine, too. What createEngine and `engine.load` throw.
 * @type {(source: SourceLike, options?: EngineOptions & LoadOptions) => Promise<Model>}
 */
export const load = loaderOf(createEngine, 'createEngine');
