/** Creates an engine in the calling thread. */
import { addModelMethods } from '../api/openai/model-mixin.js';
import { loaderOf } from '../shared/loader.js';
import { isNode } from '../shared/node.js';
import { checkOptions } from '../shared/options.js';
import { openEngine } from './engine.js';

const BUNDLED_HINT =
  "keep bq4 out of the server's bundle (Next: serverExternalPackages: ['bq4']; docs/guides/bundlers.md)";

/** @import { Engine, EngineOptions, LoadOptions, Model, SourceLike } from '../shared/types.js' */

/**
 * Creates an engine that computes in this thread, and in further threads where memory can be shared. In a page use
 * createWorkerEngine instead. Throws NO_SIMD, NO_ENGINE, ARGUMENT.
 * @param {EngineOptions} [options]
 * @returns {Promise<Engine>}
 */
export async function createEngine(options) {
  const engine = await openEngine(checkOptions('createEngine', options), () => {}).catch((error) => {
    // In Node, a URL that begins with "/" means that a bundler has moved the builds.
    if (isNode && error?.code === 'NO_ENGINE' && /^\/(?!\/)/.test(error.details.url)) error.hint = BUNDLED_HINT;
    throw error;
  });
  const { load } = engine;
  engine.load = async (...args) => addModelMethods(await load(...args));
  return engine;
}

/**
 * Creates an engine in this thread, loads a model and returns it. The model's `close` closes the engine too.
 * Throws the errors of `createEngine` and `engine.load`.
 * @type {(source: SourceLike, options?: EngineOptions & LoadOptions) => Promise<Model>}
 */
export const load = loaderOf(createEngine, 'createEngine');
