/**
 * Models that several tabs use. Tabs that load the same source with the same options share a model. It is closed when
 * the last of them closes it.
 */
import { TABLE } from '../port/methods.js';
import { unlessAborted } from '../../shared/async.js';
import { Generation } from '../../shared/generation.js';

/** @import { Engine, LoadOptions, Model, Part, Progress, Source } from '../../shared/types.js' */

/**
 * Whether a value is plain data that can be compared as JSON, without Blobs, handles or bytes.
 * @param {unknown} value
 * @returns {boolean}
 */
const isPlainData = (value) =>
  typeof value !== 'object' ||
  value === null ||
  ((Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) &&
    Object.values(value).every(isPlainData));

/**
 * Returns a key that is equal for loads that can share a model, or null if this load can't be shared.
 * @param {Source} source
 * @param {object} options
 */
const shareKey = (source, options) =>
  isPlainData([source, options])
    ? JSON.stringify([source, Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1))])
    : null;

/**
 * A running call, which may use a session. `unreadSince`: time (performance.now()) since which its reader has not
 * requested a part; Infinity while a part is requested.
 * @typedef {{ ended: Promise<void>, end: () => void, unreadSince: number }} RunningCall
 */
/**
 * A user of a model: one call of `load`.
 * @typedef {{ paused: boolean, onProgress?: (event: Progress) => void }} User
 */

/** A model that is loaded once for all its users. */
class SharedModel {
  /** @type {Set<User>} */
  #users = new Set();
  #lifetime = new AbortController();
  #forget;
  #timeout;
  /** @type {Set<RunningCall>} */
  #runningCalls = new Set();
  /** @type {Progress | null} */
  #lastProgress = null;

  /**
   * @param {Engine} engine
   * @param {number} timeout  milliseconds without reading after which a call counts as abandoned
   * @param {Source} source
   * @param {LoadOptions} options
   * @param {() => void} forget  removes this model, so that later loads create another one
   */
  constructor(engine, timeout, source, options, forget) {
    this.#timeout = timeout;
    this.#forget = forget;
    const onProgress = (/** @type {Progress} */ event) => {
      this.#lastProgress = event;
      for (const user of this.#users) user.onProgress?.(event);
    };
    this.model = engine.load(source, { ...options, signal: this.#lifetime.signal, onProgress });
    this.model.then((model) => model.loaded).catch(forget);
  }

  /**
   * Adds a user and returns the model for it.
   * @param {AbortSignal} [signal]
   * @param {(event: Progress) => void} [onProgress]
   */
  async join(signal, onProgress) {
    const user = { paused: false, onProgress };
    this.#users.add(user);
    if (this.#lastProgress) onProgress?.(this.#lastProgress);
    try {
      return this.#modelFor(await unlessAborted(this.model, signal), user, signal);
    } catch (error) {
      await this.#leave(user);
      throw error;
    }
  }

  /** Removes a user. After the last one the model is closed. @param {User} user */
  async #leave(user) {
    if (!this.#users.delete(user) || this.#users.size) return;
    this.#forget();
    this.#lifetime.abort();
    await this.model.then(
      (model) => model.close(),
      () => {},
    );
  }

  /**
   * Creates the model object for one user. Its `close` closes the objects that this user has created.
   * @param {Model} model
   * @param {User} user
   * @param {AbortSignal} [signal]
   */
  #modelFor(model, user, signal) {
    /** @type {Set<any>} */
    const children = new Set();
    const track = (/** @type {any} */ child) => {
      const { close, fork } = child;
      children.add(child);
      child.close = () => (children.delete(child), close());
      if (fork) child.fork = async () => track(await fork());
      return child;
    };
    const calls = /** @type {Record<string, (...args: any[]) => any>} */ (/** @type {unknown} */ (model));
    /** @type {any} */
    const userModel = { info: model.info, loaded: unlessAborted(model.loaded, signal) };
    for (const [method, { stream, makes }] of Object.entries(TABLE.model)) {
      const invoke = (/** @type {any[]} */ ...callArgs) => calls[method](...callArgs);
      userModel[method] = stream
        ? (/** @type {any} */ prompt, /** @type {any} */ options) =>
            this.#generation((signal) => invoke(prompt, { ...options, signal }), options?.signal)
        : async (/** @type {any[]} */ ...callArgs) => {
            const result = await this.#callWithRetry(() => invoke(...callArgs), callArgs.at(-1)?.signal);
            return makes ? track(result) : result;
          };
    }
    // The download pauses when all users have paused it.
    const setPaused = (/** @type {boolean} */ paused) => {
      user.paused = paused;
      return [...this.#users].every((other) => other.paused) ? model.pauseDownload() : model.resumeDownload();
    };
    userModel.pauseDownload = () => setPaused(true);
    userModel.resumeDownload = () => setPaused(false);
    userModel.close = async () => {
      await Promise.all([...children].map((child) => child.close()));
      await this.#leave(user);
    };
    userModel.loaded.then(
      () => (user.onProgress = undefined),
      () => {},
    );
    return userModel;
  }

  /**
   * Waits for the end of another call if a call failed because all sessions are in use. Throws the error for other
   * failures, and if the readers of all other calls have stopped reading.
   * @param {any} error @param {AbortSignal} [signal]
   */
  async #waitForSession(error, signal) {
    // A later load creates another instance: this one is unusable, or its paged file can't be read any more.
    if (['TRAP', 'READ'].includes(error?.code)) this.#forget();
    for (;;) {
      const otherCalls = [...this.#runningCalls];
      const cutoff = performance.now() - this.#timeout;
      if (error?.code !== 'NO_SESSION' || otherCalls.every(({ unreadSince }) => unreadSince <= cutoff)) throw error;
      /** @type {any} */
      let timer;
      const nextCheck = new Promise((resolve) => (timer = setTimeout(resolve, this.#timeout / 2, true)));
      const retry = Promise.race([nextCheck, ...otherCalls.map(({ ended }) => ended)]);
      if (!(await unlessAborted(retry, signal).finally(() => clearTimeout(timer)))) return;
    }
  }

  /**
   * Runs a call, and repeats it when a session is free.
   * @template T
   * @param {() => Promise<T>} call
   * @param {AbortSignal} [signal]
   * @returns {Promise<T>}
   */
  async #callWithRetry(call, signal) {
    for (;;) {
      const runningCall = this.#register();
      try {
        return await call();
      } catch (error) {
        runningCall.end();
        await this.#waitForSession(error, signal);
      } finally {
        runningCall.end();
      }
    }
  }

  /** Registers a running call, so that other calls can wait for its end. */
  #register() {
    /** @type {RunningCall} */
    const runningCall = { ended: Promise.resolve(), end: () => {}, unreadSince: Infinity };
    runningCall.ended = new Promise((resolve) => {
      runningCall.end = () => {
        this.#runningCalls.delete(runningCall);
        resolve(undefined);
      };
    });
    this.#runningCalls.add(runningCall);
    return runningCall;
  }

  /** @param {(signal: AbortSignal) => Generation} call @param {AbortSignal} [signal]  the caller's signal */
  #generation(call, signal) {
    return new Generation((end, reading) => this.#parts(call, end, reading), signal);
  }

  /**
   * @param {(signal: AbortSignal) => Generation} call
   * @param {(result: any) => void} end
   * @param {import('../../shared/generation.js').Reading} reading
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#parts(call, end, { signal, reader }) {
    for (;;) {
      const generation = call(signal).readBy(reader);
      const runningCall = this.#register();
      try {
        for await (const part of generation) {
          runningCall.unreadSince = performance.now();
          yield part;
          runningCall.unreadSince = Infinity;
        }
        return;
      } catch (error) {
        runningCall.end();
        await this.#waitForSession(error, signal);
      } finally {
        runningCall.end();
        const result = await generation.result.catch(() => null);
        if (result) end(result);
      }
    }
  }
}

/** All models of an engine. */
export class SharedModels {
  #engine;
  #timeout;
  /** @type {Map<string, SharedModel>} */
  #sharedModels = new Map();

  /** @param {Engine} engine @param {number} timeout  see SharedModel */
  constructor(engine, timeout) {
    this.#engine = engine;
    this.#timeout = timeout;
  }

  /** Implements `engine.load`. @param {Source} source @param {LoadOptions} [options] */
  load(source, { signal, onProgress, ...options } = {}) {
    const key = shareKey(source, options);
    let sharedModel = key === null ? undefined : this.#sharedModels.get(key);
    if (!sharedModel) {
      const created = new SharedModel(this.#engine, this.#timeout, source, options, () => {
        if (key !== null && this.#sharedModels.get(key) === created) this.#sharedModels.delete(key);
      });
      sharedModel = created;
      if (key !== null) this.#sharedModels.set(key, created);
    }
    return sharedModel.join(signal, onProgress);
  }
}
