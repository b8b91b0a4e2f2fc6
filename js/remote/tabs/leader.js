/**
 * The tasks of the leader: it runs the engine, opens a port to it for each tab, and closes the objects of closed tabs.
 */
import { serve } from '../port/dispatch.js';
import { PACES } from '../../shared/options.js';
import { deferred } from '../../shared/async.js';
import { SharedModels } from './shared-models.js';
import { BroadcastPort } from './broadcast-port.js';

/** @import { Engine, Pace } from '../../shared/types.js' */

/**
 * State of a connected tab. `watch`: ends the wait for its lock.
 * @typedef {{ port: any, watch: AbortController, paused: boolean, pace: Pace }} TabState
 */

export class Leader {
  #locks;
  #lockOf;
  #engine;
  #models;
  /** Connected tabs by their ids. @type {Map<string, TabState>} */
  #tabs = new Map();
  #resignation = deferred();

  /**
   * @param {() => Promise<Engine>} create  creates the engine
   * @param {LockManager} locks
   * @param {(tab: string) => string} lockOf  returns the name of the lock that a tab holds while it is open
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

  /**
   * Promise that settles when this tab resigns, with the error if it can't create an engine.
   * @returns {Promise<unknown>}
   */
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
    // The tab no longer uses its earlier channel, so the objects of that channel are closed.
    this.#dismiss(tab);
    const channelPort = new BroadcastPort(channel);
    this.serveTab(tab, channelPort);
    channelPort.ready();
  }

  /** Answers the calls of a tab until the tab is closed. @param {string} tab @param {any} port */
  serveTab(tab, port) {
    const watch = new AbortController();
    /** @type {TabState} */
    const tabState = { port, watch, paused: false, pace: 'full' };
    this.#tabs.set(tab, tabState);
    serve(port, { open: () => this.#engineFor(tabState), close: async () => {} });
    this.#locks.request(this.#lockOf(tab), { signal: watch.signal }, () => this.#dismiss(tab)).catch(() => {}); // aborted when this tab resigns
  }

  /**
   * Returns the engine for one tab: its models, pauses and paces are shared.
   * @param {TabState} tabState
   * @returns {Promise<Engine>}
   */
  async #engineFor(tabState) {
    const [engine, models] = await Promise.all([this.#engine, this.#models]).catch(
      // The next leader may be able to create an engine, so the call stays pending.
      () => new Promise(() => {}),
    );
    const { info, store, events, plan } = engine;
    const changeState = (/** @type {Partial<TabState>} */ change) => {
      Object.assign(tabState, change);
      return this.#applyStates();
    };
    return /** @type {any} */ ({
      info,
      store,
      events,
      plan,
      load: models.load.bind(models),
      pause: () => changeState({ paused: true }),
      resume: () => changeState({ paused: false }),
      setPace: (/** @type {Pace} */ pace) => changeState({ pace }),
    });
  }

  /** Sets the slowest of the tabs' paces, and pauses the engine if a tab has paused it. */
  async #applyStates() {
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
    if (tabState.paused || tabState.pace !== 'full') this.#applyStates().catch(() => {});
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
