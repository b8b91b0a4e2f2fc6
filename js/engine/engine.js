/** The engine of this thread: compiles a build once, then plans and loads models. Each model has its own instance. */
import { portOf } from '../remote/port/dispatch.js';
import { checkCall, TABLE } from '../remote/port/methods.js';
import { asyncDispose, deferred } from '../shared/async.js';
import { fullUrl } from '../shared/builds.js';
import { BqError, onDemand } from '../shared/errors.js';
import { threadsBlocked } from '../wasm/build-choice.js';
import { Loading } from '../storage/load/loading.js';
import { LocalModel } from './model/model.js';
import { emit, Events } from '../shared/events.js';
import { PauseGate } from '../shared/pause-gate.js';
import { planModel } from './plan/plan.js';
import { openSource } from '../storage/sources/index.js';
import { filesOf, inOneAnswer, resolveSource } from '../storage/sources/kinds.js';
import { isNode, nodeModule } from '../shared/node.js';
import { after } from '../shared/timeouts.js';
import { compile, measureBuilds, Wasm } from '../wasm/wasm.js';

/** @import { Cache, Engine, EngineStore, EngineInfo, EngineOptions, LoadOptions, Source } from '../shared/types.js' */
/** @import { OpenStep } from '../shared/protocol.js' */
/** @import { Threads } from '../wasm/threads.js' */
/** @import { Compiled } from '../wasm/wasm.js' */

/** Bytes of weights that warming up multiplies: enough for a browser to optimize the code. Larger models don't need it. */
const WARM_UP_BYTES = 2 ** 27;
/** Spare heap bytes of an instance that measures. */
const SPARE_BYTES = 262144;
/** The most threads that "auto" tries. */
const AUTO_THREADS = 8;

/** Least number of weights per token for tensor parallelism without shared memory. */
const MIN_PARALLEL_WEIGHTS = 50e6;

/** Number of workers for tensor parallelism; `isForced`: the caller has set it. @typedef {{ workerCount: number, isForced: boolean, url?: string }} Sharing */

/** @implements {Engine} */
class LocalEngine {
  #compiled;
  #threads;
  #cache;
  #ownsCache;
  #parallelism;
  #startThreads;
  #isClosed = false;
  /** @type {Set<LocalModel>} */
  #models = new Set();
  /** Open ports of the engine. @type {Set<MessagePort>} */
  #ports = new Set();
  events = new Events();
  /** @type {import('./pace.js').PaceState} */
  #tempo = Object.assign(new PauseGate(), { slow: false, events: this.events });

  /**
   * @param {Compiled} compiled @param {EngineInfo} info @param {Threads | null} threads
   * @param {Cache | null} cache @param {boolean} ownsCache  the engine closes the cache
   * @param {Sharing} parallelism @param {() => Promise<void>} startThreads  starts threads again, if some started too late
   */
  constructor(compiled, info, threads, cache, ownsCache, parallelism, startThreads) {
    this.#startThreads = startThreads;
    this.#parallelism = parallelism;
    this.#compiled = compiled;
    this.#threads = threads;
    this.#cache = cache;
    this.#ownsCache = ownsCache;
    /** @type {EngineStore | null} */
    this.store = /** @type {any} */ (cache);
    this.info = info;
  }

  /** @type {Engine['plan']} */
  plan = async (source, callOptions) => {
    const {
      args: [requested],
      options: loadOptions,
      ...handlers
    } = checkCall(TABLE.engine.plan, [source, callOptions]);
    this.#check();
    const options = { ...loadOptions, ...handlers };
    const single = await this.#oneFile(requested, options);
    return unlessRenamed(single, (opened) => this.#plan(opened, options));
  };

  /** @param {Source} single @param {import('../shared/types.js').LoadOptions} options */
  async #plan(single, options) {
    const file = await openSource(single, options.signal);
    try {
      const planResult = await planModel(this.#compiled, single, file, options, this.#cache);
      const { tokensPerSecond } = await onDemand(import('./speed-estimate.js'));
      return {
        ...planResult.plan,
        .../** @type {any} */ (single).facts,
        tokensPerSecond: await tokensPerSecond(this.#compiled, this.info, planResult.plan),
      };
    } finally {
      await file.close();
    }
  }

  pause = async () => this.#applyPace({ paused: true });
  resume = async () => this.#applyPace({ paused: false });

  /** @type {Engine['setPace']} */
  setPace = async (newPace) => this.#applyPace({ pace: checkCall(TABLE.engine.setPace, [newPace]).args[0] });

  /** @param {{ paused?: boolean, pace?: import('../shared/types.js').Pace }} change */
  async #applyPace(change) {
    (await onDemand(import('./pace.js'))).applyPace(this.#tempo, change);
    for (const model of this.#models) model.useOneThread(this.#tempo.slow);
  }

  /** @type {Engine['load']} */
  load = async (source, callOptions) => {
    const {
      args: [requested],
      options,
      ...handlers
    } = checkCall(TABLE.engine.load, [source, callOptions]);
    try {
      const allOptions = { ...options, ...handlers };
      const single = await this.#oneFile(requested, allOptions);
      const load = () => unlessRenamed(single, (opened) => this.#load(opened, allOptions, false));
      const model = options.promptCache
        ? await (await onDemand(import('./prompt/prompt-cache-file.js'))).loadWithPromptCache(load, single, allOptions)
        : await load();
      return /** @type {any} */ (model); // the mixin in js/api/openai adds the other methods
    } catch (error) {
      if (error instanceof BqError && error.code === 'NOMEM') emit(this.events, 'memory', { error });
      throw error;
    }
  };

  /** The file to open for a name on a hub or for the files of a folder. @param {Source} source @param {LoadOptions} options */
  async #oneFile(source, options) {
    this.#check();
    const resolved = await resolveSource(source, { ...options, cache: this.#cache });
    if (!filesOf(resolved).length) return resolved;
    const { asOneFile } = await onDemand(import('./plan/multi-file.js'));
    return asOneFile(resolved, this.#compiled.convertUrl, options);
  }

  /**
   * @param {Source} requested @param {LoadOptions} options @param {boolean} ignoresCache  the cached entry is out of date
   * @returns {Promise<LocalModel>}
   */
  async #load(requested, options, ignoresCache) {
    this.#check();
    const loading = await this.#startLoading(requested, options, ignoresCache);
    let pager = null;
    /** @type {LocalModel | undefined} */
    let model;
    try {
      const handle = await loading.model;
      if (loading.plan.paging)
        pager = await (
          await onDemand(import('../storage/paging/paging.js'))
        ).Pager.open(
          loading.wasm,
          handle,
          (await loading.parts()) ?? (await loading.openRows?.()) ?? requested,
          options.signal,
        );
      model = new LocalModel(
        loading.wasm,
        loading,
        handle,
        loading.plan,
        { ...options, kv: loading.plan.kv, activations: loading.plan.activations },
        pager,
        this.#models,
        this.#tempo,
      );
      this.#models.add(model);
      model.useOneThread(this.#tempo.slow);
      await model.findChatFormat();
      if (this.#isClosed) await model.close();
      const loadedModel = model;
      const whenLoaded = options.streaming ? loading.done : waitForWeights(model, loading);
      const whenReady = whenLoaded.then(() => this.#startTensorParallel(loadedModel, loading, options));
      if (!options.streaming) await whenReady;
      else whenReady.catch(() => {});
      return model;
    } catch (error) {
      if (model) this.#models.delete(model);
      await pager?.close();
      loading.stop(error);
      loading.wasm.release();
      await loading.releaseCache();
      if (loading.outdated && !options.streaming) return this.#load(requested, options, true);
      // A table that is read by rows where nothing else was asked for, of a file that the cache can't take.
      if (options.memoryBudget === undefined && error instanceof BqError && error.details.isUncached)
        return this.#load(requested, { ...options, memoryBudget: Infinity }, ignoresCache);
      throw error;
    }
  }

  /** Starts tensor parallelism where memory can't be shared and sharing products is faster. @param {LocalModel} model @param {Loading} loading @param {LoadOptions} options */
  async #startTensorParallel(model, { wasm, plan }, options) {
    const { workerCount, isForced } = this.#parallelism;
    if (workerCount < 2 || plan.paging || !wasm.alive || (!isForced && plan.tokenWeights < MIN_PARALLEL_WEIGHTS))
      return;
    const { TensorParallel } = await onDemand(import('./batching/tensor-parallel.js'));
    model.useTensorParallel(await TensorParallel.open(wasm, this.#compiled, this.#parallelism, plan, options));
  }

  /** @param {Source} source @param {LoadOptions} options @param {boolean} ignoresCache */
  async #startLoading(source, options, ignoresCache) {
    if (this.#threads?.late) await this.#useLateThreads(this.#threads);
    const file = await openSource(source, options.signal);
    /** @type {Wasm | undefined} */
    let wasm;
    try {
      const planResult = await planModel(this.#compiled, source, file, options, this.#cache, true, ignoresCache);
      const rare = planResult.plan.rareTypes
        ? await (await onDemand(import('../wasm/optional-kernels.js'))).loadOptionalKernels(this.#compiled)
        : undefined;
      wasm = await Wasm.create(this.#compiled, planResult.regionBytes, rare);
      await this.#threads?.attach(wasm, this.#compiled);
      if (wasm.choice) wasm.choice.onLearned = this.#reportLearned;
      const { repacked, prefixBytes, expectedHash } = planResult;
      const byteSource = repacked
        ? await (
            await onDemand(import('./plan/gguf-plan.js'))
          ).openRepacked(repacked, prefixBytes, file, this.#compiled, expectedHash)
        : file;
      const loading = new Loading(wasm, byteSource, planResult, options, this.#cache);
      if (repacked && !planResult.url)
        loading.openRows = async () =>
          (await onDemand(import('./plan/gguf-plan.js'))).openRows(repacked, prefixBytes, source, this.#compiled);
      file.onFailure = (failures) => loading.reportFailures(failures);
      return loading;
    } catch (error) {
      wasm?.release();
      await file.close();
      throw error;
    }
  }

  /** Reports the number of threads that a model has found to be the fastest. @param {EngineInfo['learned']} learned */
  #reportLearned = (learned) => {
    this.info.learned = learned;
    emit(this.events, 'threads', { learned });
  };

  /** Lets threads that started after their timeout compute for later models. @param {Threads} threads */
  async #useLateThreads(threads) {
    await this.#startThreads();
    const { count, reason, timings } = threads;
    this.#compiled = { ...this.#compiled, threads: count };
    Object.assign(this.info, { threads: count, threadsReason: reason, timings });
    emit(this.events, 'threads', { threads: count, threadsReason: reason, timings });
  }

  #check() {
    if (this.#isClosed) throw new BqError('CLOSED', 'the engine was closed');
  }

  async close() {
    this.#isClosed = true;
    await Promise.all([...this.#models].map((model) => model.close()));
    for (const port of this.#ports) port.close();
    this.#threads?.close();
    if (this.#ownsCache) await this.store?.close?.();
  }

  async openPort() {
    this.#check();
    return portOf(this, this.#ports);
  }

  [asyncDispose]() {
    return this.close();
  }
}

/**
 * Some content delivery networks give the same bytes different validators (ETag, Last-Modified) on different nodes. Without hashes it is unknown
 * whether several answers belong to the same version, so the file is read again as a single answer.
 * @template T @param {Source} source @param {(source: Source) => Promise<T>} work @returns {Promise<T>}
 */
async function unlessRenamed(source, work) {
  try {
    return await work(source);
  } catch (error) {
    if (!(error instanceof BqError && error.details.renamed)) throw error;
    return work(inOneAnswer(source));
  }
}

/**
 * Waits for all weights. If that takes a while, computes a prompt with the layers that have arrived. Browsers
 * start with baseline code and optimize functions that run often: without it the first prompt would take a quarter longer
 * (docs/SPEED.md).
 * @param {LocalModel} model  not in use yet; closed if the weights don't arrive
 * @param {Loading} loading
 */
async function waitForWeights(model, { done, plan }) {
  let remainingUnits = (WARM_UP_BYTES / plan.weightBytes) * model.info.layers;
  let warm;
  const stay =
    plan.paging || !plan.generates
      ? () => {}
      : after('warmUp', () => (warm = warmUp(model, () => remainingUnits-- < 1)));
  try {
    await done;
  } catch (error) {
    await model.close();
    throw error;
  } finally {
    stay();
    remainingUnits = 0;
    await warm;
  }
}

/** Computes a short prompt. Errors are ignored, since the first use of the model reports them. @param {LocalModel} model @param {() => boolean} aborted */
async function warmUp(model, aborted) {
  try {
    const session = /** @type {any} */ (await model.createSession());
    await session.generate(new Uint32Array(16), { maxTokens: 1 }, aborted).result.finally(() => session.close());
  } catch {}
}

/** How many threads to try, and the reason why not more. @param {EngineOptions['threads']} requested @returns {Promise<{ workerCount: number, reason: string, isBlocked?: boolean }>} */
async function threadsToTry(requested = 'auto') {
  if (requested === 1) return { workerCount: 1, reason: 'asked for' };
  const reason = threadsBlocked();
  const isBlocked = Boolean(reason);
  if (requested !== 'auto') return { workerCount: requested, reason: reason || 'asked for', isBlocked };
  const cores =
    globalThis.navigator?.hardwareConcurrency ?? (isNode ? (await nodeModule('os')).availableParallelism() : 1);
  // One core stays free for the page, unless the machine has only two.
  const count = Math.min(cores > 2 ? cores - 1 : cores, AUTO_THREADS);
  return { workerCount: count, reason: reason || 'this machine has one core', isBlocked };
}

/**
 * Compiles the build for these threads; without threads if only one is available.
 * @param {EngineOptions} options
 * @param {{ workerCount: number, reason: string, isBlocked?: boolean }} threadPlan
 * @param {Promise<import('../wasm/build-choice.js').Build | undefined>} fastest
 */
async function compileFor(options, { workerCount, reason, isBlocked }, fastest) {
  if (workerCount > 1 && !isBlocked) {
    try {
      return { compiled: await compile(options, true, fastest), reason };
    } catch (error) {
      options.signal?.throwIfAborted();
      reason = /** @type {Error} */ (error).message;
    }
  }
  return { compiled: await compile(options, false, fastest), reason };
}

/**
 * An engine in this thread. NO_SIMD, NO_ENGINE.
 * @param {EngineOptions} options
 * @param {(step: OpenStep) => void} onStep
 * @returns {Promise<Engine>}
 */
export async function openEngine(options, onStep) {
  const requested = await threadsToTry(options.threads);
  const threads = requested.workerCount > 1 && !requested.isBlocked ? await threadsFor(options, onStep) : null;
  /** @type {import('../shared/async.js').Deferred<Compiled>} */
  const compiling = deferred();
  let isCompiled = false;
  /** @type {Cache | null} */
  let cache = null;
  try {
    // The first thread starts while the cache opens and the module is fetched and compiled.
    void threads?.prepare().then(() => isCompiled || onStep('compile'));
    if (options.cache) {
      const { openCache } = await onDemand(import('../storage/load/cached-load.js'));
      cache = await openCache(options.cache, compiling.promise);
    }
    const measured = await measurementsOf(cache, options);
    const fastest = measureBuilds(options, measured?.build);
    const { compiled, reason: threadsReason } = await compileFor(options, requested, fastest);
    isCompiled = true;
    compiling.resolve(compiled);
    const usedThreads = compiled.shared ? threads : null;
    if (usedThreads) onStep('threads');
    else threads?.close();
    const start = async () =>
      usedThreads ? startThreads(usedThreads, compiled, options, requested, measured?.timings) : undefined;
    await start();
    const { count = 1, timings = [] } = usedThreads ?? {};
    measured?.keep(await fastest, timings.length ? timings : undefined);
    const info = {
      build: compiled.build,
      reason: compiled.reason,
      worker: false,
      threads: count,
      threadsReason: usedThreads?.reason || threadsReason,
      timings,
      learned: {},
    };
    const { threads: threadOption = 'auto', threadUrl } = options;
    const sharing = {
      workerCount: requested.isBlocked ? requested.workerCount : 1,
      isForced: threadOption !== 'auto',
      url: threadUrl && fullUrl(threadUrl),
    };
    return new LocalEngine(
      { ...compiled, threads: count },
      info,
      usedThreads,
      cache,
      cache !== options.cache,
      sharing,
      start,
    );
  } catch (error) {
    isCompiled = true;
    compiling.reject(error);
    threads?.close();
    if (cache !== options.cache) await /** @type {any} */ (cache)?.close();
    throw error;
  }
}

/**
 * What earlier visits have measured; null: nothing is kept. A build that the caller requests is not measured, and has other timings.
 * @param {Cache | null} cache @param {EngineOptions} options
 */
async function measurementsOf(cache, { build }) {
  if (!cache?.measurements || build) return null;
  const { readMeasurements } = await onDemand(import('../wasm/measurements.js'));
  return readMeasurements(cache.measurements);
}

/** @param {EngineOptions} options @param {(step: OpenStep) => void} onStep */
async function threadsFor({ threadUrl }, onStep) {
  const { Threads } = await onDemand(import('../wasm/threads.js'));
  return Object.assign(new Threads(threadUrl && fullUrl(threadUrl)), { onStart: () => onStep('threads') });
}

/**
 * Starts threads and, for "auto", measures how many are fastest, in a separate instance.
 * @param {Threads} threads @param {Compiled} compiled @param {EngineOptions} options @param {{ workerCount: number }} threadPlan
 * @param {import('../shared/types.js').ThreadTiming[]} [timings]  of an earlier visit
 */
async function startThreads(
  threads,
  compiled,
  { threads: threadOption = 'auto', signal },
  { workerCount: maxThreads },
  timings,
) {
  const { MEASURE_BYTES: spareBytes } = await onDemand(import('../wasm/threads.js'));
  const wasm = await Wasm.create(compiled, SPARE_BYTES + spareBytes);
  try {
    if (threadOption === 'auto') await threads.choose(wasm, compiled, maxThreads, timings);
    else threads.reason = (await threads.attach(wasm, compiled, maxThreads)) || ((threads.count = maxThreads), '');
  } finally {
    wasm.release();
  }
  if (!signal?.aborted) return;
  threads.close();
  throw signal.reason;
}
