/** The engine of this thread: compiles a build once, plans and loads models. Each model has an instance of its own. */
import { BqError } from './errors.js';
import { Loading } from './loading.js';
import { LocalModel } from './model.js';
import { planModel } from './plan.js';
import { openSource, toSource } from './sources/index.js';
import { compile, Wasm } from './wasm.js';

/** @import { Engine, EngineInfo, EngineOptions, LoadOptions, Source, SourceLike } from './types.js' */
/** @import { Compiled } from './wasm.js' */

/** What a self test needs of the heap. */
const SELF_TEST_BYTES = 262144;

/** @implements {Engine} */
class LocalEngine {
  #compiled;
  #fallback;
  #closed = false;
  /** @type {Set<LocalModel>} */
  #models = new Set();

  /** @param {Compiled} compiled @param {EngineInfo} info @param {boolean} fallback */
  constructor(compiled, info, fallback) {
    this.#compiled = compiled;
    this.#fallback = fallback;
    this.info = info;
  }

  /** @type {Engine['plan']} */
  plan = async (source, options = {}) => {
    this.#check();
    const described = toSource(source);
    const file = await openSource(described, options.signal);
    try {
      return (await planModel(this.#compiled, described, file, options)).plan;
    } finally {
      await file.close();
    }
  };

  /** @type {Engine['load']} */
  load = async (source, options = {}) => {
    this.#check();
    const described = toSource(source);
    options.onProgress?.({ phase: 'plan', loaded: 0, total: 0 });
    const loading = await this.#begin(described, options);
    try {
      const model = new LocalModel(loading.wasm, loading, await loading.model, loading.plan, options, (closed) => this.#models.delete(closed));
      this.#models.add(model);
      if (this.#closed) await model.close();
      if (!options.streaming) await loading.done.catch((error) => model.close().then(() => Promise.reject(error)));
      return model;
    } catch (error) {
      loading.stop(error);
      throw error;
    }
  };

  /** @param {Source} source @param {LoadOptions} options */
  async #begin(source, options) {
    const file = await openSource(source, options.signal);
    try {
      const planned = await planModel(this.#compiled, source, file, options);
      const wasm = await Wasm.create(this.#compiled, planned.regionBytes);
      if (this.#fallback) wasm.check('bqw_fallback');
      return new Loading(wasm, file, planned, options);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  #check() {
    if (this.#closed) throw new BqError('CLOSED', 'the engine was closed');
  }

  async close() {
    this.#closed = true;
    await Promise.all([...this.#models].map((model) => model.close()));
  }
}

/**
 * An engine that computes in this thread. In a page rather use createWorkerEngine. NO_SIMD, NO_ENGINE.
 * @param {EngineOptions} [options]
 * @returns {Promise<Engine>}
 */
export async function createEngine(options = {}) {
  const compiled = await compile(options);
  const wasm = await Wasm.create(compiled, SELF_TEST_BYTES);
  const good = wasm.call('bqw_self_test') === 1;
  if (!good) wasm.check('bqw_fallback');
  const kernel = wasm.text(wasm.call('bqw_build'));
  const reason = good ? compiled.reason : `the self test of the ${compiled.build} kernels failed on this machine`;
  return new LocalEngine(compiled, { build: compiled.build, kernel, reason, worker: false }, !good);
}
