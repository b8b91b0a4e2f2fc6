/**
 * The engine of this thread. It compiles a build once, then plans and loads models. Each model has its own
 * WebAssembly instance.
 */
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
import { filesOf, inOneResponse, resolveSource } from '../storage/sources/kinds.js';
import { isNode, nodeModule } from '../shared/node.js';
import { after } from '../shared/timeouts.js';
import { compile, measureBuilds, Wasm } from '../wasm/wasm.js';

/** @import { Cache, Engine, EngineStore, EngineInfo, EngineOptions, LoadOptions, Source } from '../shared/types.js' */
/** @import { OpenStep } from '../shared/protocol.js' */
/** @import { Threads } from '../wasm/threads.js' */
/** @import { Compiled } from '../wasm/wasm.js' */

/**
 * Bytes of weights that the warm-up multiplies, enough for a browser to optimize the code. A larger model computes
 * fewer layers.
 */
const WARM_UP_BYTES = 2 ** 27;
/** Spare heap bytes of the instance in which numbers of threads are measured. */
const SPARE_BYTES = 262144;
/** Largest number of threads that "auto" tries. */
const MAX_AUTO_THREADS = 8;

/** Smallest number of weights per token for which tensor parallelism without shared memory is tried. */
const MIN_PARALLEL_WEIGHTS = 50e6;

/**
 * Settings of tensor parallelism: the number of workers, whether the caller has set it (`isForced`), and the URL of the
 * workers' script.
 * @typedef {{ workerCount: number, isForced: boolean, url?: string }} ParallelismSettings
 */

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
  #paceState = Object.assign(new PauseGate(), { slow: false, events: this.events });

  /**
   * @param {Compiled} compiled @param {EngineInfo} info @param {Threads | null} threads
   * @param {Cache | null} cache @param {boolean} ownsCache  whether the engine closes the cache
   * @param {ParallelismSettings} parallelism
   * @param {() => Promise<void>} startThreads  starts threads again after some have started too late
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
    this.#checkOpen();
    const options = { ...loadOptions, ...handlers };
    const single = await this.#resolveToOneSource(requested, options);
    return retryInOneResponse(single, (source) => this.#plan(source, options));
  };

  /** @param {Source} single @param {import('../shared/types.js').LoadOptions} options */
  async #plan(single, options) {
    const file = await openSource(single, options.signal);
    try {
      const planResult = await planModel(this.#compiled, single, file, options, this.#cache);
      const { tokensPerSecond } = await onDemand(import('./speed-estimate.js'));
      return {
        ...planResult.plan,
        ...single.facts,
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
    this.#checkOpen();
    (await onDemand(import('./pace.js'))).applyPace(this.#paceState, change);
    for (const model of this.#models) model.useOneThread(this.#paceState.slow);
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
      const single = await this.#resolveToOneSource(requested, allOptions);
      const load = () => retryInOneResponse(single, (resolved) => this.#load(resolved, allOptions, false));
      const model = options.promptCache
        ? await (await onDemand(import('./prompt/prompt-cache-file.js'))).loadWithPromptCache(load, single, allOptions)
        : await load();
      return /** @type {any} */ (model); // addModelMethods (js/api/openai) adds the methods that are missing here
    } catch (error) {
      if (error instanceof BqError && error.code === 'NOMEM') emit(this.events, 'memory', { error });
      throw error;
    }
  };

  /**
   * Returns the single source to open. A name on a hub is resolved to its file, the files of a folder are converted.
   * @param {Source} source @param {LoadOptions} options
   */
  async #resolveToOneSource(source, options) {
    this.#checkOpen();
    let resolved = await resolveSource(source, { ...options, cache: this.#cache });
    if (this.#cache?.crossOrigin) {
      const { findStored } = await onDemand(import('../storage/sources/cross-origin.js'));
      resolved = await findStored(resolved, options.integrity, this.#cache);
    }
    if (!filesOf(resolved).length) return resolved;
    const { asOneFile } = await onDemand(import('./plan/multi-file.js'));
    return asOneFile(resolved, this.#compiled.convertUrl, options);
  }

  /**
   * @param {Source} requested @param {LoadOptions} options
   * @param {boolean} ignoresCache  true if the cached entry is out of date
   * @returns {Promise<LocalModel>}
   */
  async #load(requested, options, ignoresCache) {
    this.#checkOpen();
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
          (await loading.openCachedFile()) ?? (await loading.openRows?.()) ?? requested,
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
        this.#paceState,
      );
      this.#models.add(model);
      model.useOneThread(this.#paceState.slow);
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
      // Without a memory budget, rows of a large table are read from a cached copy. If the cache can't store the file,
      // load again with the table in memory.
      if (options.memoryBudget === undefined && error instanceof BqError && error.details.isUncached)
        return this.#load(requested, { ...options, memoryBudget: Infinity }, ignoresCache);
      throw error;
    }
  }

  /**
   * Starts tensor parallelism if memory can't be shared and distributing matrix products over workers is faster.
   * @param {LocalModel} model @param {Loading} loading @param {LoadOptions} options
   */
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
      const optionalKernels = planResult.plan.rareTypes
        ? await (await onDemand(import('../wasm/optional-kernels.js'))).loadOptionalKernels(this.#compiled)
        : undefined;
      wasm = await Wasm.create(this.#compiled, planResult.regionBytes, optionalKernels);
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

  /**
   * Reports the number of threads that the thread tuner of a model found to be the fastest.
   * @param {EngineInfo['learned']} learned
   */
  #reportLearned = (learned) => {
    this.info.learned = learned;
    emit(this.events, 'threads', { learned });
  };

  /** Makes threads that started after their timeout available to later models. @param {Threads} threads */
  async #useLateThreads(threads) {
    await this.#startThreads();
    const { count, reason, timings } = threads;
    this.#compiled = { ...this.#compiled, threads: count };
    Object.assign(this.info, { threads: count, threadsReason: reason, timings });
    emit(this.events, 'threads', { threads: count, threadsReason: reason, timings });
  }

  /** Throws CLOSED. */
  #checkOpen() {
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
    this.#checkOpen();
    return portOf(this, this.#ports);
  }

  [asyncDispose]() {
    return this.close();
  }
}

/**
 * Runs `work` with a source. If validators (ETag, Last-Modified) changed between responses, runs it again with a source
 * that reads the file in a single response. Some content delivery networks send different validators for the same bytes
 * from different nodes. Without hashes it is unknown whether several responses belong to the same version.
 * @template T @param {Source} source @param {(source: Source) => Promise<T>} work @returns {Promise<T>}
 */
async function retryInOneResponse(source, work) {
  try {
    return await work(source);
  } catch (error) {
    if (!(error instanceof BqError && error.details.renamed)) throw error;
    return work(inOneResponse(source));
  }
}

/**
 * Waits for all weights. If that takes a while, warms up: computes a prompt with the layers that have arrived. Browsers
 * start with baseline code and optimize functions that run often. Without the warm-up the first prompt would take a
 * quarter longer (docs/SPEED.md).
 * @param {LocalModel} model  not in use yet; closed if the weights don't arrive
 * @param {Loading} loading
 */
async function waitForWeights(model, { done, plan }) {
  let remainingUnits = (WARM_UP_BYTES / plan.weightBytes) * model.info.layers;
  let warmUpRun;
  const cancelWarmUp =
    plan.paging || !plan.generates
      ? () => {}
      : after('warmUp', () => (warmUpRun = warmUp(model, () => remainingUnits-- < 1)));
  try {
    await done;
  } catch (error) {
    await model.close();
    throw error;
  } finally {
    cancelWarmUp();
    remainingUnits = 0;
    await warmUpRun;
  }
}

/**
 * Computes a short prompt. Errors are ignored, since the first use of the model reports them.
 * @param {LocalModel} model @param {() => boolean} aborted
 */
async function warmUp(model, aborted) {
  try {
    const session = /** @type {any} */ (await model.createSession());
    await session.generate(new Uint32Array(16), { maxTokens: 1 }, aborted).result.finally(() => session.close());
  } catch {}
}

/**
 * Returns the number of threads to try, and the reason why there are no more.
 * `isBlocked`: whether this thread can't start threads that share memory.
 * @param {EngineOptions['threads']} requested
 * @returns {Promise<{ workerCount: number, reason: string, isBlocked?: boolean }>}
 */
async function planThreads(requested = 'auto') {
  if (requested === 1) return { workerCount: 1, reason: 'set by the option threads' };
  const reason = threadsBlocked();
  const isBlocked = Boolean(reason);
  if (requested !== 'auto') return { workerCount: requested, reason: reason || 'set by the option threads', isBlocked };
  const cores =
    globalThis.navigator?.hardwareConcurrency ?? (isNode ? (await nodeModule('os')).availableParallelism() : 1);
  // One core stays free for the page, unless the machine has only two.
  const count = Math.min(cores > 2 ? cores - 1 : cores, MAX_AUTO_THREADS);
  return { workerCount: count, reason: reason || 'this machine has one core', isBlocked };
}

/**
 * Compiles a build with threads, or without threads if only one is available or the threaded build can't be loaded.
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
 * Opens an engine in this thread. Throws NO_SIMD, NO_ENGINE.
 * @param {EngineOptions} options
 * @param {(step: OpenStep) => void} onStep
 * @returns {Promise<Engine>}
 */
export async function openEngine(options, onStep) {
  const threadPlan = await planThreads(options.threads);
  const threads = threadPlan.workerCount > 1 && !threadPlan.isBlocked ? await createThreads(options, onStep) : null;
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
    const measured = await readEarlierMeasurements(cache, options);
    const fastest = measureBuilds(options, measured?.build);
    const { compiled, reason: threadsReason } = await compileFor(options, threadPlan, fastest);
    isCompiled = true;
    compiling.resolve(compiled);
    const usedThreads = compiled.shared ? threads : null;
    if (usedThreads) onStep('threads');
    else threads?.close();
    const start = async () =>
      usedThreads ? startThreads(usedThreads, compiled, options, threadPlan, measured?.timings) : undefined;
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
    options.signal?.throwIfAborted();
    const { threads: threadOption = 'auto', threadUrl } = options;
    const parallelism = {
      workerCount: threadPlan.isBlocked ? threadPlan.workerCount : 1,
      isForced: threadOption !== 'auto',
      url: threadUrl && fullUrl(threadUrl),
    };
    return new LocalEngine(
      { ...compiled, threads: count },
      info,
      usedThreads,
      cache,
      cache !== options.cache,
      parallelism,
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
 * Reads the measurements of earlier visits; null if the cache stores none. If the caller requests a build, stored
 * measurements don't apply to it.
 * @param {Cache | null} cache @param {EngineOptions} options
 */
async function readEarlierMeasurements(cache, { build }) {
  if (!cache?.measurements || build) return null;
  const { readMeasurements } = await onDemand(import('../wasm/measurements.js'));
  return readMeasurements(cache.measurements);
}

/** @param {EngineOptions} options @param {(step: OpenStep) => void} onStep */
async function createThreads({ threadUrl }, onStep) {
  const { Threads } = await onDemand(import('../wasm/threads.js'));
  return Object.assign(new Threads(threadUrl && fullUrl(threadUrl)), { onStart: () => onStep('threads') });
}

/**
 * Starts threads. For "auto", measures in a separate instance which number of threads is fastest.
 * @param {Threads} threads @param {Compiled} compiled @param {EngineOptions} options
 * @param {{ workerCount: number }} threadPlan
 * @param {import('../shared/types.js').ThreadTiming[]} [timings]  of an earlier visit
 */
async function startThreads(
  threads,
  compiled,
  { threads: threadOption = 'auto' },
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
}
