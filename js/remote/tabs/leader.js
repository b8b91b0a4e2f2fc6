/** The leading tab's work: it runs the engine, gives each tab a port to it, and closes the objects of tabs that are gone. */
import { serve } from '../port/dispatch.js';
import { PACES } from '../../shared/options.js';
import { deferred } from '../../shared/async.js';
import { SharedModels } from './shared-models.js';
import { BroadcastPort } from './broadcast-port.js';

/** @import { Engine, Pace } from '../../shared/types.js' */

/** State of a connected tab. @typedef {{ port: any, watch: AbortController, paused: boolean, pace: Pace }} Served */

export class Leader {
  #locks;
  #lockOf;
  #engine;
  #models;
  /** Connected tabs by their ids. @type {Map<string, Served>} */
  #tabs = new Map();
  #resignation = deferred();

  /**
   * @param {() => Promise<Engine>} create @param {LockManager} locks
   * @param {(tab: string) => string} lockOf  name of the lock that a tab holds while it is open
   * @param {number} timeout  milliseconds
   */
  constructor(create, locks, lockOf, timeout) {
    this.#locks = locks;
    this.#lockOf = lockOf;
    this.#engine = create();
    this.#engine.then(
      ({ events }) => events.addEventListener('died', () => this.resign()),
      (error) => this.resign(error),
    );
    this.#models = this.#engine.then((engine) => new SharedModels(engine, timeout));
    this.#models.catch(() => {});
  }

  /** Settles when this tab resigns, with the error if it can't create an engine. @returns {Promise<unknown>} */
  get resigned() {
    return this.#resignation.promise;
  }

  /** @param {unknown} [error] */
  resign(error) {
    this.#resignation.resolve(error);
  }

  /** Connects another tab over the channel with this name. @param {string} tab @param {string} channel */
  admit(tab, channel) {
    const port = this.#tabs.get(tab)?.port;
    if (port?.name === channel) return port.ready();
    // The tab has lost its earlier channel, and its objects with it.
    this.#dismiss(tab);
    const channelPort = new BroadcastPort(channel);
    this.serveTab(tab, channelPort);
    channelPort.ready();
  }

  /** @param {string} tab @param {any} port */
  serveTab(tab, port) {
    const watch = new AbortController();
    /** @type {Served} */
    const tabState = { port, watch, paused: false, pace: 'full' };
    this.#tabs.set(tab, tabState);
    serve(port, { open: () => this.#engineFor(tabState), close: async () => {} });
    this.#locks.request(this.#lockOf(tab), { signal: watch.signal }, () => this.#dismiss(tab)).catch(() => {}); // aborted when this tab resigns
  }

  /** The engine as one tab sees it. @param {Served} tabState @returns {Promise<Engine>} */
  async #engineFor(tabState) {
    const [engine, models] = await Promise.all([this.#engine, this.#models]).catch(
      // The next leader may be able to create an engine, so the call stays pending.
      () => new Promise(() => {}),
    );
    const { info, store, events, plan } = engine;
    const setWish = (/** @type {Partial<Served>} */ change) => {
      Object.assign(tabState, change);
      return this.#applyWishes();
    };
    return /** @type {any} */ ({
      info,
      store,
      events,
      plan,
      load: models.load.bind(models),
      pause: () => setWish({ paused: true }),
      resume: () => setWish({ paused: false }),
      setPace: (/** @type {Pace} */ pace) => setWish({ pace }),
    });
  }

  /** Applies the slowest pace that any tab has set, and pauses if any tab has paused. */
  async #applyWishes() {
    const engine = await this.#engine;
    const tabStates = [...this.#tabs.values()];
    await engine.setPace(/** @type {any} */ (PACES[Math.max(0, ...tabStates.map(({ pace }) => PACES.indexOf(pace)))]));
    await (tabStates.some(({ paused }) => paused) ? engine.pause() : engine.resume());
  }

  /** Removes a tab and its objects. @param {string} tab */
  #dismiss(tab) {
    const tabState = this.#tabs.get(tab);
    if (!tabState) return;
    this.#tabs.delete(tab);
    tabState.watch.abort();
    if (tabState.port instanceof BroadcastPort) tabState.port.end();
    if (tabState.paused || tabState.pace !== 'full') this.#applyWishes().catch(() => {});
  }

  /** Closes the ports of all tabs, then the engine. */
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
