/** `load` of the entries: creates an engine for one model and closes the engine with the model. */
import { checkBy, OPTIONS } from './options.js';

/** @import { Engine, EngineOptions, LoadOptions, Model, SourceLike } from './types.js' */

/**
 * Creates the function `load` of an entry.
 * @template {EngineOptions} O
 * @param {(options: any) => Promise<Engine>} createEngine
 * @param {'createEngine' | 'createWorkerEngine'} call  name of `createEngine`
 * @returns {(source: SourceLike, options?: O & LoadOptions) => Promise<Model>}
 */
export const loaderOf = (createEngine, call) => async (source, loadOptions) => {
  const options = checkBy({ ...OPTIONS[call], ...OPTIONS.load }, 'load', loadOptions);
  const pick = (/** @type {object} */ names) =>
    Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(names, name)));
  const engine = await createEngine(pick(OPTIONS[call]));
  try {
    const model = await engine.load(source, pick(OPTIONS.load));
    const close = model.close.bind(model);
    model.close = () => close().finally(() => engine.close());
    return model;
  } catch (error) {
    await engine.close();
    throw error;
  }
};
