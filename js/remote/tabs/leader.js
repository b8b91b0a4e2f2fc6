/** What the tab that leads does for all: one engine, a port of it for each tab, and an end to what belongs to tabs that are gone. */
import { serve } from '../port/dispatch.js';
import { PACES } from '../../shared/options.js';
import { deferred } from '../../shared/async.js';
import { Models } from './shared-models.js';
import { Way } from './broadcast-port.js';

/** @import { Engine, Pace } from '../../shared/types.js' */

/** A tab that is served. @typedef {{ port: any, watch: AbortController, paused: boolean, pace: Pace }} Served */

export class Leader {
  #locks;
  #nameOf;
  #engine;
  #models;
  /** By their ids. @type {Map<string, Served>} */
  #tabs = new Map();
  #over = deferred();

  /**
   * @param {() => Promise<Engine>} create @param {LockManager} locks
   * @param {(tab: string) => string} nameOf  of the lock that a tab holds as long as it is there
   * @param {number} patience  milliseconds
   */
  constructor(create, locks, nameOf, patience) {
    this.#locks = locks;
    this.#nameOf = nameOf;
    this.#engine = create();
    this.#engine.then(
      ({ events }) => events.addEventListener('died', () => this.resign()),
      (error) => this.resign(error),
    );
    this.#models = this.#engine.then((engine) => new Models(engine, patience));
    this.#models.catch(() => {});
  }

  /** Settles when it leads no more; with the error, if it could make no engine. @returns {Promise<unknown>} */
  get over() {
    return this.#over.promise;
  }

  /** @param {unknown} [error] */
  resign(error) {
    this.#over.resolve(error);
  }

  /** Serves another tab, over a channel that has this name. @param {string} tab @param {string} channel */
  admit(tab, channel) {
    const known = this.#tabs.get(tab)?.port;
    if (known?.name === channel) return known.ready();
    // It has lost the way that it had, and with it all that it held.
    this.#dismiss(tab);
    const way = new Way(channel);
    this.serve(tab, way);
    way.ready();
  }

  /** @param {string} tab @param {any} port */
  serve(tab, port) {
    const watch = new AbortController();
    /** @type {Served} */
    const served = { port, watch, paused: false, pace: 'full' };
    this.#tabs.set(tab, served);
    serve(port, { open: () => this.#seen(served), close: async () => {} });
    this.#locks.request(this.#nameOf(tab), { signal: watch.signal }, () => this.#dismiss(tab)).catch(() => {}); // it leads no more
  }

  /** The engine, as one tab sees it. @param {Served} served @returns {Promise<Engine>} */
  async #seen(served) {
    const [engine, models] = await Promise.all([this.#engine, this.#models]).catch(
      // The one that comes next may be able to, so nobody is told.
      () => new Promise(() => {}),
    );
    const { info, store, events, plan } = engine;
    const wish = (/** @type {Partial<Served>} */ change) => {
      Object.assign(served, change);
      return this.#settle();
    };
    return /** @type {any} */ ({
      info,
      store,
      events,
      plan,
      load: models.load.bind(models),
      pause: () => wish({ paused: true }),
      resume: () => wish({ paused: false }),
      setPace: (/** @type {Pace} */ pace) => wish({ pace }),
    });
  }

  /** As slow as the tab wants it that wants it slowest. */
  async #settle() {
    const engine = await this.#engine;
    const all = [...this.#tabs.values()];
    await engine.setPace(/** @type {any} */ (PACES[Math.max(0, ...all.map(({ pace }) => PACES.indexOf(pace)))]));
    await (all.some(({ paused }) => paused) ? engine.pause() : engine.resume());
  }

  /** Frees what a tab held. @param {string} tab */
  #dismiss(tab) {
    const served = this.#tabs.get(tab);
    if (!served) return;
    this.#tabs.delete(tab);
    served.watch.abort();
    if (served.port instanceof Way) served.port.end();
    if (served.paused || served.pace !== 'full') this.#settle().catch(() => {});
  }

  /** Its tabs hear nothing more of it, and then its engine ends. */
  async close() {
    for (const { port, watch } of this.#tabs.values()) {
      watch.abort();
      port.close();
    }
    this.#tabs.clear();
    await this.#engine.then(
      (engine) => engine.close(),
      () => {},
    );
  }
}
