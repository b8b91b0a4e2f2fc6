/** `bq4/shared`: one engine for all tabs of an origin. Reference: docs/reference/shared-tabs.md. */
import { createWorkerEngine } from '../client/client.js';
import { createProxy } from '../port/proxy.js';
import { portOf } from '../port/dispatch.js';
import { unlessAborted } from '../../shared/async.js';
import { BqError, thrownText } from '../../shared/errors.js';
import { number, text } from '../../shared/checks.js';
import { checkBy, OPTIONS } from '../../shared/options.js';
import { PROTOCOL } from '../../shared/protocol.js';
import { ReplayConnection } from './replay.js';
import { Tab } from './election.js';

export { BqError } from '../../shared/errors.js';

/** @import { SharedEngine, SharedOptions } from '../../shared/types.js' */

/** Milliseconds without an answer after which a leader is replaced. */
const DEFAULT_TIMEOUT_MS = 10_000;

const OPTION_CHECKS = { ...OPTIONS.createEngine, worker: () => '', name: text, leaderTimeout: number(1) };

/** Returns the reason why no engine can be shared here, or ''. */
async function whyNotShared() {
  if (!globalThis.navigator?.locks)
    return 'Web Locks are not available (pages need a secure context, Node needs version 24)';
  if (typeof BroadcastChannel !== 'function') return 'BroadcastChannel is not available';
  try {
    new BroadcastChannel('bq4').close();
    await navigator.locks.query();
  } catch (error) {
    return `the browser refuses access: ${thrownText(error)}`; // it blocks cookies or all storage
  }
  return '';
}

/** Checks the options. Throws ARGUMENT, also for options that concern one tab only. @param {SharedOptions} options */
function checkSharedOptions(options = {}) {
  const refuse = (/** @type {string} */ name, /** @type {string} */ reason) => {
    throw new BqError('ARGUMENT', `${name} can't be shared: ${reason}`, { details: { param: name } });
  };
  const { background, pressure, worker, cache } = /** @type {any} */ (options);
  if (background !== undefined || pressure !== undefined)
    refuse(
      background === undefined ? 'pressure' : 'background',
      'a hidden tab may compute for a visible one (engine.setPace() is shared)',
    );
  if (worker !== undefined && typeof worker !== 'function')
    refuse('worker', 'each leading tab creates its own: pass a function');
  if (cache && typeof cache === 'object' && 'open' in cache)
    refuse('cache', 'each leading tab opens it: pass options of a store');
  return checkBy(OPTION_CHECKS, 'createSharedEngine', options);
}

/**
 * Creates an engine, or joins it, that all tabs of an origin with the same `name` share. One tab runs it in a worker.
 * When that tab is closed, another one replaces it. Throws ARGUMENT, and the errors of createWorkerEngine.
 * @param {SharedOptions} [sharedOptions]
 * @returns {Promise<SharedEngine>}
 */
export async function createSharedEngine(sharedOptions) {
  const { name = 'bq4', leaderTimeout = DEFAULT_TIMEOUT_MS, signal, ...options } = checkSharedOptions(sharedOptions);
  signal?.throwIfAborted();
  const reason = await whyNotShared();
  if (reason) {
    const engine = await createWorkerEngine({ ...options, signal });
    Object.assign(engine.info, { shared: false, leads: true, sharedReason: reason });
    return /** @type {SharedEngine} */ (engine);
  }
  const replayConnection = new ReplayConnection();
  // Tabs with another version of the protocol form another group.
  const tab = new Tab(
    `bq4 shared ${PROTOCOL} ${name}`,
    () => createWorkerEngine(options),
    leaderTimeout,
    replayConnection,
  );
  try {
    await tab.enter();
    await unlessAborted(replayConnection.connected(), signal);
  } catch (error) {
    replayConnection.close();
    await tab.leave();
    throw error;
  }
  const connection = /** @type {any} */ (replayConnection);
  const { store } = /** @type {NonNullable<ReplayConnection['opened']>} */ (replayConnection.opened);
  /** @type {Set<MessagePort>} */
  const ports = new Set();
  const engine = createProxy(connection, 'engine', 0, {
    events: replayConnection.events,
    store: store && createProxy(connection, 'store', 'store', store),
    openPort: async () => portOf(engine, ports),
    async close() {
      for (const port of ports) port.close();
      replayConnection.close();
      await tab.leave();
    },
  });
  return Object.defineProperty(engine, 'info', {
    enumerable: true,
    get: () => ({ ...replayConnection.opened?.info, shared: true, leads: tab.isLeader, sharedReason: '' }),
  });
}
