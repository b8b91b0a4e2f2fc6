/** Models that several tabs use. Tabs that load the same source with the same options share a model, which closes with its last user. */
import { TABLE } from '../port/methods.js';
import { unlessAborted } from '../../shared/async.js';
import { Generation } from '../../shared/generation.js';

/** @import { Engine, LoadOptions, Model, Part, Progress, Source } from '../../shared/types.js' */

/** Whether a value is plain data that can be compared as JSON: no Blob, handle or bytes. @param {unknown} value @returns {boolean} */
const isPlainData = (value) =>
  typeof value !== 'object' ||
  value === null ||
  ((Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) &&
    Object.values(value).every(isPlainData));

/** A key that is equal for loads that can share a model; null: this load can't be shared. @param {Source} source @param {object} options */
const shareKey = (source, options) =>
  isPlainData([source, options])
    ? JSON.stringify([source, Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1))])
    : null;

/**
 * A call that may occupy a session. `unreadSince`: when its reader stopped reading; Infinity: it is being read.
 * @typedef {{ ended: Promise<void>, end: () => void, unreadSince: number }} Work
 */
/** A tab that uses a model. @typedef {{ paused: boolean, onProgress?: (event: Progress) => void }} User */

/** A model that is loaded once for all its users. */
class SharedModel {
  /** @type {Set<User>} */
  #users = new Set();
  #lifetime = new AbortController();
  #forget;
  #timeout;
  /** Calls that are running. @type {Set<Work>} */
  #runningCalls = new Set();
  /** @type {Progress | null} */
  #lastProgress = null;

  /**
   * @param {Engine} engine @param {number} timeout @param {Source} source @param {LoadOptions} options
   * @param {() => void} forget  makes later loads start anew
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

  /** @param {AbortSignal} [signal] @param {(event: Progress) => void} [onProgress] */
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

  /** @param {User} user */
  async #leave(user) {
    if (!this.#users.delete(user) || this.#users.size) return;
    this.#forget();
    this.#lifetime.abort();
    await this.model.then(
      (model) => model.close(),
      () => {},
    );
  }

  /** The model as one user sees it: `close` closes the objects that this user has created. @param {Model} model @param {User} user @param {AbortSignal} [signal] */
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
    const calls = /** @type {Record<string, (...given: any[]) => any>} */ (/** @type {unknown} */ (model));
    /** @type {any} */
    const userModel = { info: model.info, loaded: unlessAborted(model.loaded, signal) };
    for (const [method, { stream, makes }] of Object.entries(TABLE.model)) {
      const invoke = (/** @type {any[]} */ ...callArgs) => calls[method](...callArgs);
      userModel[method] = stream
        ? (/** @type {any} */ prompt, /** @type {any} */ options) =>
            this.#generation((signal) => invoke(prompt, { ...options, signal }), options?.signal)
        : async (/** @type {any[]} */ ...callArgs) => {
            const result = await this.#callInTurn(() => invoke(...callArgs), callArgs.at(-1)?.signal);
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
   * Waits for another call to end if all sessions are in use. Calls whose readers have stopped reading don't count.
   * @param {any} error @param {AbortSignal} [signal]
   */
  async #waitForTurn(error, signal) {
    if (error.code === 'TRAP') this.#forget(); // a later load creates another instance
    for (;;) {
      const otherCalls = [...this.#runningCalls];
      const cutoff = performance.now() - this.#timeout;
      if (error.code !== 'NO_SESSION' || otherCalls.every(({ unreadSince }) => unreadSince <= cutoff)) throw error;
      /** @type {any} */
      let timer;
      const nextCheck = new Promise((resolve) => (timer = setTimeout(resolve, this.#timeout / 2, true)));
      const retry = Promise.race([nextCheck, ...otherCalls.map(({ ended }) => ended)]);
      if (!(await unlessAborted(retry, signal).finally(() => clearTimeout(timer)))) return;
    }
  }

  /** @template T @param {() => Promise<T>} call @param {AbortSignal} [signal] @returns {Promise<T>} */
  async #callInTurn(call, signal) {
    for (;;) {
      const work = this.#begin();
      try {
        return await call();
      } catch (error) {
        work.end();
        await this.#waitForTurn(error, signal);
      } finally {
        work.end();
      }
    }
  }

  /** Registers a running call, for whose end others may wait. */
  #begin() {
    /** @type {Work} */
    const work = { ended: Promise.resolve(), end: () => {}, unreadSince: Infinity };
    work.ended = new Promise((resolve) => {
      work.end = () => {
        this.#runningCalls.delete(work);
        resolve(undefined);
      };
    });
    this.#runningCalls.add(work);
    return work;
  }

  /** @param {(signal: AbortSignal) => Generation} call @param {AbortSignal} [signal]  of the caller */
  #generation(call, signal) {
    return new Generation((end, reading) => this.#parts(call, end, reading), signal);
  }

  /** @param {(signal: AbortSignal) => Generation} call @param {(result: any) => void} end @param {import('../../shared/generation.js').Reading} reading @returns {AsyncGenerator<Part, void>} */
  async *#parts(call, end, { signal, reader }) {
    for (;;) {
      const run = call(signal).readBy(reader);
      const work = this.#begin();
      try {
        for await (const part of run) {
          work.unreadSince = performance.now();
          yield part;
          work.unreadSince = Infinity;
        }
        return;
      } catch (error) {
        work.end();
        await this.#waitForTurn(error, signal);
      } finally {
        work.end();
        const result = await run.result.catch(() => null);
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

  /** @param {Engine} engine @param {number} timeout  milliseconds without reading after which a call counts as abandoned */
  constructor(engine, timeout) {
    this.#engine = engine;
    this.#timeout = timeout;
  }

  /** `engine.load`, shared. @param {Source} source @param {LoadOptions} [given] */
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
