/** Models that several tabs use: what they load alike is loaded once, and closed with the last that closes it. */
import { TABLE } from '../port/methods.js';
import { unlessAborted } from '../../shared/async.js';
import { Generation } from '../../shared/generation.js';

/** @import { Engine, LoadOptions, Model, Part, Progress, Source } from '../../shared/types.js' */

/** Whether it is the same wherever it is written: no Blob, no handle, no bytes. @param {unknown} value @returns {boolean} */
const plain = (value) =>
  typeof value !== 'object' ||
  value === null ||
  ((Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) && Object.values(value).every(plain));

/** What loads have in common that can share a model; null: nothing can. @param {Source} source @param {object} options */
const keyOf = (source, options) =>
  plain(source) ? JSON.stringify([source, Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1))]) : null;

/**
 * A call that may have a session. `held`: since when it waits for who reads it; Infinity: it doesn't.
 * @typedef {{ over: Promise<void>, end: () => void, held: number }} Work
 */
/** Whose they are while they load. @typedef {{ paused: boolean, onProgress?: (event: Progress) => void }} User */

/** One that is loaded for all who want it. */
class Shared {
  /** @type {Set<User>} */
  #users = new Set();
  #life = new AbortController();
  #forget;
  #patience;
  /** What it does now. @type {Set<Work>} */
  #busy = new Set();
  /** @type {Progress | null} */
  #last = null;

  /**
   * @param {Engine} engine @param {number} patience @param {Source} source @param {LoadOptions} options
   * @param {() => void} forget  who comes later loads anew
   */
  constructor(engine, patience, source, options, forget) {
    this.#patience = patience;
    this.#forget = forget;
    const onProgress = (/** @type {Progress} */ event) => {
      this.#last = event;
      for (const user of this.#users) user.onProgress?.(event);
    };
    this.model = engine.load(source, { ...options, signal: this.#life.signal, onProgress });
    this.model.then((model) => model.loaded).catch(forget);
  }

  /** @param {AbortSignal} [signal] @param {(event: Progress) => void} [onProgress] */
  async join(signal, onProgress) {
    const user = { paused: false, onProgress };
    this.#users.add(user);
    if (this.#last) onProgress?.(this.#last);
    try {
      return this.#seen(await unlessAborted(this.model, signal), user, signal);
    } catch (error) {
      await this.#leave(user);
      throw error;
    }
  }

  /** @param {User} user */
  async #leave(user) {
    if (!this.#users.delete(user) || this.#users.size) return;
    this.#forget();
    this.#life.abort();
    await this.model.then(
      (model) => model.close(),
      () => {},
    );
  }

  /** As one of them sees it: what he makes is closed with it, and nothing else. @param {Model} model @param {User} user @param {AbortSignal} [signal] */
  #seen(model, user, signal) {
    /** @type {Set<any>} */
    const below = new Set();
    const track = (/** @type {any} */ made) => {
      const { close, fork } = made;
      below.add(made);
      made.close = () => (below.delete(made), close());
      if (fork) made.fork = async () => track(await fork());
      return made;
    };
    const calls = /** @type {Record<string, (...given: any[]) => any>} */ (/** @type {unknown} */ (model));
    /** @type {any} */
    const seen = { info: model.info, loaded: unlessAborted(model.loaded, signal) };
    for (const [method, { stream, makes }] of Object.entries(TABLE.model)) {
      const call = (/** @type {any[]} */ ...given) => calls[method](...given);
      seen[method] = stream
        ? (/** @type {any} */ prompt, /** @type {any} */ options) =>
            this.#generation((signal) => call(prompt, { ...options, signal }), options?.signal)
        : async (/** @type {any[]} */ ...given) => {
            const made = await this.#inTurn(() => call(...given), given.at(-1)?.signal);
            return makes ? track(made) : made;
          };
    }
    // A download rests when nobody wants it.
    const rest = (/** @type {boolean} */ paused) => {
      user.paused = paused;
      return [...this.#users].every((one) => one.paused) ? model.pauseDownload() : model.resumeDownload();
    };
    seen.pauseDownload = () => rest(true);
    seen.resumeDownload = () => rest(false);
    seen.close = async () => {
      await Promise.all([...below].map((one) => one.close()));
      await this.#leave(user);
    };
    seen.loaded.then(
      () => (user.onProgress = undefined),
      () => {},
    );
    return seen;
  }

  /**
   * Where all sessions are in use it waits for another call to end; not for calls that only wait for who reads them.
   * @param {any} error @param {AbortSignal} [signal]
   */
  async #turn(error, signal) {
    if (error.code === 'TRAP') this.#forget(); // whoever loads it again gets another one
    for (;;) {
      const others = [...this.#busy];
      const late = performance.now() - this.#patience;
      if (error.code !== 'NO_SESSION' || others.every(({ held }) => held <= late)) throw error;
      /** @type {any} */
      let timer;
      const look = new Promise((resolve) => (timer = setTimeout(resolve, this.#patience / 2, true)));
      const again = Promise.race([look, ...others.map(({ over }) => over)]);
      if (!(await unlessAborted(again, signal).finally(() => clearTimeout(timer)))) return;
    }
  }

  /** @template T @param {() => Promise<T>} call @param {AbortSignal} [signal] @returns {Promise<T>} */
  async #inTurn(call, signal) {
    for (;;) {
      const work = this.#begin();
      try {
        return await call();
      } catch (error) {
        work.end();
        await this.#turn(error, signal);
      } finally {
        work.end();
      }
    }
  }

  /** What others may wait for. */
  #begin() {
    /** @type {Work} */
    const work = { over: Promise.resolve(), end: () => {}, held: Infinity };
    work.over = new Promise((resolve) => {
      work.end = () => {
        this.#busy.delete(work);
        resolve(undefined);
      };
    });
    this.#busy.add(work);
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
          work.held = performance.now();
          yield part;
          work.held = Infinity;
        }
        return;
      } catch (error) {
        work.end();
        await this.#turn(error, signal);
      } finally {
        work.end();
        const result = await run.result.catch(() => null);
        if (result) end(result);
      }
    }
  }
}

/** All of an engine. */
export class Models {
  #engine;
  #patience;
  /** @type {Map<string, Shared>} */
  #shared = new Map();

  /** @param {Engine} engine @param {number} patience  milliseconds that a call waits for sessions that nobody uses */
  constructor(engine, patience) {
    this.#engine = engine;
    this.#patience = patience;
  }

  /** As of an engine. @param {Source} source @param {LoadOptions} [given] */
  load(source, { signal, onProgress, ...options } = {}) {
    const key = keyOf(source, options);
    let shared = key === null ? undefined : this.#shared.get(key);
    if (!shared) {
      const made = new Shared(this.#engine, this.#patience, source, options, () => {
        if (key !== null && this.#shared.get(key) === made) this.#shared.delete(key);
      });
      shared = made;
      if (key !== null) this.#shared.set(key, made);
    }
    return shared.join(signal, onProgress);
  }
}
