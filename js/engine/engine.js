/** The engine of this thread: compiles a build once, plans and loads models. Each model has an instance of its own. */
import { portOf } from '../remote/port/dispatch.js';
import { checkCall, TABLE } from '../remote/port/methods.js';
import { asyncDispose } from '../shared/async.js';
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
import { compile, fasterBuild, Wasm } from '../wasm/wasm.js';

/** @import { Cache, Engine, EngineStore, EngineInfo, EngineOptions, LoadOptions, Source } from '../shared/types.js' */
/** @import { Threads } from '../wasm/threads.js' */
/** @import { Compiled } from '../wasm/wasm.js' */

/** Weights that warming up may multiply, in bytes: what a browser needs to notice; larger models don't need it. */
const WARM_BYTES = 2 ** 27;
/** What an instance that measures needs of the heap besides. */
const SPARE_BYTES = 262144;
/** The most threads that "auto" tries. */
const AUTO_THREADS = 8;

/** Weights of a token from which on others may compute a part of them without shared memory. */
const SPREAD_WEIGHTS = 50e6;

/** How many may compute without shared memory; whether that number was asked for. @typedef {{ most: number, asked: boolean, url?: string }} Sharing */

/** @implements {Engine} */
class LocalEngine {
  #compiled;
  #threads;
  #cache;
  #owned;
  #sharing;
  #startThreads;
  #closed = false;
  /** @type {Set<LocalModel>} */
  #models = new Set();
  /** Ways to it that are open. @type {Set<MessagePort>} */
  #ports = new Set();
  events = new Events();
  /** @type {import('./pace.js').Tempo} */
  #tempo = Object.assign(new PauseGate(), { slow: false, events: this.events });

  /**
   * @param {Compiled} compiled @param {EngineInfo} info @param {Threads | null} threads
   * @param {Cache | null} cache @param {boolean} owned  closed with the engine
   * @param {Sharing} sharing @param {() => Promise<void>} startThreads  once more, where some came late
   */
  constructor(compiled, info, threads, cache, owned, sharing, startThreads) {
    this.#startThreads = startThreads;
    this.#sharing = sharing;
    this.#compiled = compiled;
    this.#threads = threads;
    this.#cache = cache;
    this.#owned = owned;
    /** @type {EngineStore | null} */
    this.store = /** @type {any} */ (cache);
    this.info = info;
  }

  /** @type {Engine['plan']} */
  plan = async (source, given) => {
    const {
      args: [described],
      options: sizes,
      ...hears
    } = checkCall(TABLE.engine.plan, [source, given]);
    this.#check();
    const options = { ...sizes, ...hears };
    const one = await this.#oneFile(described, options);
    return unlessRenamed(one, (from) => this.#plan(from, options));
  };

  /** @param {Source} one @param {import('../shared/types.js').LoadOptions} options */
  async #plan(one, options) {
    const file = await openSource(one, options.signal);
    try {
      const planned = await planModel(this.#compiled, one, file, options, this.#cache);
      const { tokensPerSecond } = await onDemand(import('./speed-estimate.js'));
      return {
        ...planned.plan,
        .../** @type {any} */ (one).facts,
        tokensPerSecond: await tokensPerSecond(this.#compiled, this.info, planned.plan),
      };
    } finally {
      await file.close();
    }
  }

  pause = async () => this.#settle({ paused: true });
  resume = async () => this.#settle({ paused: false });

  /** @type {Engine['setPace']} */
  setPace = async (given) => this.#settle({ pace: checkCall(TABLE.engine.setPace, [given]).args[0] });

  /** @param {{ paused?: boolean, pace?: import('../shared/types.js').Pace }} change */
  async #settle(change) {
    (await onDemand(import('./pace.js'))).settle(this.#tempo, change);
    for (const model of this.#models) model.computeAlone(this.#tempo.slow);
  }

  /** @type {Engine['load']} */
  load = async (source, given) => {
    const {
      args: [described],
      options,
      ...hears
    } = checkCall(TABLE.engine.load, [source, given]);
    try {
      const all = { ...options, ...hears };
      const one = await this.#oneFile(described, all);
      const load = (/** @type {Source} */ from) => this.#load(from, all, false);
      return /** @type {any} */ (await unlessRenamed(one, load)); // createChat and others are made of it: openai/conversing.js
    } catch (error) {
      if (error instanceof BqError && error.code === 'NOMEM') emit(this.events, 'memory', { error });
      throw error;
    }
  };

  /** The source that is opened for another one: for a name on a hub, for the files of a folder. @param {Source} source @param {LoadOptions} options */
  async #oneFile(source, options) {
    this.#check();
    const resolved = await resolveSource(source, { ...options, cache: this.#cache });
    if (!filesOf(resolved).length) return resolved;
    const { asOneFile } = await onDemand(import('./plan/multi-file.js'));
    return asOneFile(resolved, this.#compiled.convertUrl, options);
  }

  /**
   * @param {Source} described @param {LoadOptions} options @param {boolean} fresh  what the cache knows is out of date
   * @returns {Promise<LocalModel>}
   */
  async #load(described, options, fresh) {
    this.#check();
    const loading = await this.#begin(described, options, fresh);
    let pager = null;
    /** @type {LocalModel | undefined} */
    let model;
    try {
      const handle = await loading.model;
      if (loading.plan.paging)
        pager = await (
          await onDemand(import('../storage/paging/paging.js'))
        ).Pager.open(loading.wasm, handle, (await loading.parts()) ?? described);
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
      model.computeAlone(this.#tempo.slow);
      await model.settleChat();
      if (this.#closed) await model.close();
      const one = model;
      const done = options.streaming ? loading.done : loaded(model, loading);
      const all = done.then(() => this.#spread(one, loading, options));
      if (!options.streaming) await all;
      else all.catch(() => {});
      return model;
    } catch (error) {
      if (model) this.#models.delete(model);
      await pager?.close();
      loading.stop(error);
      loading.wasm.release();
      await loading.releaseCache();
      if (loading.outdated && !options.streaming) return this.#load(described, options, true);
      throw error;
    }
  }

  /** Workers that compute parts of a model's products, where memory can't be shared and it pays. @param {LocalModel} model @param {Loading} loading @param {LoadOptions} options */
  async #spread(model, { wasm, plan }, options) {
    const { most, asked } = this.#sharing;
    if (most < 2 || plan.paging || !wasm.alive || (!asked && plan.tokenWeights < SPREAD_WEIGHTS)) return;
    const { Spread } = await onDemand(import('./batching/tensor-parallel.js'));
    model.spread(await Spread.open(wasm, this.#compiled, this.#sharing, plan, options));
  }

  /** @param {Source} source @param {LoadOptions} options @param {boolean} fresh */
  async #begin(source, options, fresh) {
    if (this.#threads?.late) await this.#useLateThreads(this.#threads);
    const file = await openSource(source, options.signal);
    /** @type {Wasm | undefined} */
    let wasm;
    try {
      const planned = await planModel(this.#compiled, source, file, options, this.#cache, true, fresh);
      const rare = planned.plan.rareTypes
        ? await (await onDemand(import('../wasm/optional-kernels.js'))).loadOptionalKernels(this.#compiled)
        : undefined;
      wasm = await Wasm.create(this.#compiled, planned.regionBytes, rare);
      await this.#threads?.attach(wasm, this.#compiled);
      if (wasm.choice) wasm.choice.onLearned = this.#learned;
      const { repacked, prefixBytes, wanted } = planned;
      const read = repacked
        ? await (
            await onDemand(import('./plan/gguf-plan.js'))
          ).openRepacked(repacked, prefixBytes, file, this.#compiled, wanted)
        : file;
      const loading = new Loading(wasm, read, planned, options, this.#cache);
      file.onFailure = (failures) => loading.failed(failures);
      return loading;
    } catch (error) {
      wasm?.release();
      await file.close();
      throw error;
    }
  }

  /** The model that computes has found a number of threads. @param {EngineInfo['learned']} learned */
  #learned = (learned) => {
    this.info.learned = learned;
    emit(this.events, 'threads', { learned });
  };

  /** Threads that came after their time-out compute the models that follow. @param {Threads} threads */
  async #useLateThreads(threads) {
    await this.#startThreads();
    const { count, reason, timings } = threads;
    this.#compiled = { ...this.#compiled, threads: count };
    Object.assign(this.info, { threads: count, threadsReason: reason, timings });
    emit(this.events, 'threads', { threads: count, threadsReason: reason, timings });
  }

  #check() {
    if (this.#closed) throw new BqError('CLOSED', 'the engine was closed');
  }

  async close() {
    this.#closed = true;
    await Promise.all([...this.#models].map((model) => model.close()));
    for (const port of this.#ports) port.close();
    this.#threads?.close();
    if (this.#owned) await this.store?.close?.();
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
 * Some networks for delivery have nodes that name the same bytes differently (ETag, Last-Modified). Without hashes it can't be told
 * whether several answers belong together: one answer, read to its end, does.
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
 * Waits for all weights. Where that takes a while, computes a prompt meanwhile with the layers that have come. Browsers
 * begin with quick code and make better code of what runs much: the first real prompt would take a quarter longer
 * (docs/SPEED.md).
 * @param {LocalModel} model  whose session nobody uses yet; closed when they don't come
 * @param {Loading} loading
 */
async function loaded(model, { done, plan }) {
  let slices = (WARM_BYTES / plan.weightBytes) * model.info.layers;
  let warm;
  const stay =
    plan.paging || !plan.generates ? () => {} : after('warmUp', () => (warm = warmUp(model, () => slices-- < 1)));
  try {
    await done;
  } catch (error) {
    await model.close();
    throw error;
  } finally {
    stay();
    slices = 0;
    await warm;
  }
}

/** What goes wrong in it is no trouble of the load: whoever uses the model meets it. @param {LocalModel} model @param {() => boolean} aborted */
async function warmUp(model, aborted) {
  try {
    const session = /** @type {any} */ (await model.createSession());
    await session.generate(Array(16), { maxTokens: 1 }, aborted).result.finally(() => session.close());
  } catch {}
}

/** How many threads to try, and why not more. @param {EngineOptions['threads']} wanted @returns {Promise<{ most: number, reason: string, blocked?: boolean }>} */
async function threadsToTry(wanted = 'auto') {
  if (wanted === 1) return { most: 1, reason: 'asked for' };
  const reason = threadsBlocked();
  const blocked = Boolean(reason);
  if (wanted !== 'auto') return { most: wanted, reason: reason || 'asked for', blocked };
  const cores =
    globalThis.navigator?.hardwareConcurrency ?? (isNode ? (await nodeModule('os')).availableParallelism() : 1);
  // One core stays free for the page, unless that leaves but one.
  const most = Math.min(cores > 2 ? cores - 1 : cores, AUTO_THREADS);
  return { most, reason: reason || 'this machine has one core', blocked };
}

/**
 * The build for so many threads; the plain one where there is but one to be had.
 * @param {EngineOptions} options
 * @param {{ most: number, reason: string, blocked?: boolean }} wanted
 */
async function compileFor(options, { most, reason, blocked }) {
  const faster = fasterBuild(options);
  if (most > 1 && !blocked) {
    try {
      return { compiled: await compile(options, true, faster), reason };
    } catch (error) {
      options.signal?.throwIfAborted();
      reason = /** @type {Error} */ (error).message;
    }
  }
  return { compiled: await compile(options, false, faster), reason };
}

/**
 * An engine in this thread, which tells when it starts threads: from then on it must go fast. NO_SIMD, NO_ENGINE.
 * @param {EngineOptions} options
 * @param {() => void} onThreads
 * @returns {Promise<Engine>}
 */
export async function openEngine(options, onThreads) {
  const wanted = await threadsToTry(options.threads);
  const { compiled, reason: threadsReason } = await compileFor(options, wanted);
  const cache = options.cache
    ? await (await onDemand(import('../storage/load/cached-load.js'))).openCache(options.cache, compiled)
    : null;
  const threads = compiled.shared ? await threadsFor(compiled, options, onThreads) : null;
  const start = async () => (threads ? startThreads(threads, compiled, options, wanted) : undefined);
  await start();
  const { count = 1, timings = [] } = threads ?? {};
  const info = {
    build: compiled.build,
    reason: compiled.reason,
    worker: false,
    threads: count,
    threadsReason: threads?.reason || threadsReason,
    timings,
    learned: {},
  };
  const { threads: asked = 'auto', threadUrl } = options;
  const sharing = {
    most: wanted.blocked ? wanted.most : 1,
    asked: asked !== 'auto',
    url: threadUrl && fullUrl(threadUrl),
  };
  return new LocalEngine(
    { ...compiled, threads: count },
    info,
    threads,
    cache,
    cache !== options.cache,
    sharing,
    start,
  );
}

/** @param {Compiled} compiled @param {EngineOptions} options @param {() => void} onThreads */
async function threadsFor(compiled, { threadUrl }, onThreads) {
  const { Threads } = await onDemand(import('../wasm/threads.js'));
  return Object.assign(new Threads(threadUrl && fullUrl(threadUrl)), { onStart: onThreads });
}

/** Starts threads in an instance that only measures. @param {Threads} threads @param {Compiled} compiled @param {EngineOptions} options @param {{ most: number }} wanted */
async function startThreads(threads, compiled, { threads: asked = 'auto', signal }, { most }) {
  const { MEASURE_BYTES: room } = await onDemand(import('../wasm/threads.js'));
  const wasm = await Wasm.create(compiled, SPARE_BYTES + room);
  try {
    if (asked === 'auto') await threads.choose(wasm, compiled, most);
    else threads.reason = (await threads.attach(wasm, compiled, most)) || ((threads.count = most), '');
  } finally {
    wasm.release();
  }
  if (!signal?.aborted) return;
  threads.close();
  throw signal.reason;
}
