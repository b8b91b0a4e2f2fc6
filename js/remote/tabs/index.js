/** `bq4/shared`: one engine for all tabs of an origin; docs/reference/shared-tabs.md explains it. */
import { createWorkerEngine } from '../client/client.js';
import { remote } from '../port/proxy.js';
import { portOf } from '../port/dispatch.js';
import { unlessAborted } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { checkBy, number, OPTIONS, text } from '../../shared/options.js';
import { PROTOCOL } from '../../shared/protocol.js';
import { Kept } from './replay.js';
import { Tab } from './election.js';

export { BqError } from '../../shared/errors.js';

/** @import { SharedEngine, SharedOptions } from '../../shared/types.js' */

/** Milliseconds without a word from the tab that leads. */
const PATIENCE = 10_000;

const KNOWN = { ...OPTIONS.createEngine, worker: () => '', name: text, patience: number(1) };

/** Why no engine can be shared here; '': it can. */
function alone() {
  if (!globalThis.navigator?.locks) return 'there are no Web Locks here (pages need a secure context, Node version 24)';
  return typeof BroadcastChannel === 'function' ? '' : 'there is no BroadcastChannel here';
}

/** What is of one tab only is refused by its name. @param {SharedOptions} given */
function check(given = {}) {
  const refuse = (/** @type {string} */ name, /** @type {string} */ why) => {
    throw new BqError('ARGUMENT', `${name} can't be shared: ${why}`, { details: { param: name } });
  };
  const { background, pressure, worker, cache } = /** @type {any} */ (given);
  if (background !== undefined || pressure !== undefined)
    refuse(
      background === undefined ? 'pressure' : 'background',
      'a tab out of sight may compute for one in sight (engine.setPace() is shared)',
    );
  if (worker !== undefined && typeof worker !== 'function')
    refuse('worker', 'each tab that leads makes one: pass a function');
  if (cache && typeof cache === 'object' && 'open' in cache)
    refuse('cache', 'each tab that leads opens it: pass options of a store');
  return checkBy(KNOWN, 'createSharedEngine', given);
}

/**
 * One engine for all tabs of an origin that ask for it by the same name: one of them runs it, in a worker, and another one takes over
 * when that is gone. ARGUMENT, and as createWorkerEngine.
 * @param {SharedOptions} [given]
 * @returns {Promise<SharedEngine>}
 */
export async function createSharedEngine(given) {
  const { name = 'bq4', patience = PATIENCE, signal, ...options } = check(given);
  signal?.throwIfAborted();
  const why = alone();
  if (why) {
    const engine = await createWorkerEngine({ ...options, signal });
    Object.assign(engine.info, { shared: false, leads: true, sharedReason: why });
    return /** @type {SharedEngine} */ (engine);
  }
  const kept = new Kept();
  // Tabs with another version of the package have an engine of their own.
  const tab = new Tab(`bq4 shared ${PROTOCOL} ${name}`, () => createWorkerEngine(options), patience, kept);
  try {
    await tab.enter();
    await unlessAborted(kept.connected(), signal);
  } catch (error) {
    kept.close();
    await tab.leave();
    throw error;
  }
  const connection = /** @type {any} */ (kept);
  const { store } = /** @type {NonNullable<Kept['opened']>} */ (kept.opened);
  /** @type {Set<MessagePort>} */
  const ports = new Set();
  const engine = remote(connection, 'engine', 0, {
    events: kept.events,
    store: store && remote(connection, 'store', 'store', store),
    openPort: async () => portOf(engine, ports),
    async close() {
      for (const port of ports) port.close();
      kept.close();
      await tab.leave();
    },
  });
  return Object.defineProperty(engine, 'info', {
    enumerable: true,
    get: () => ({ ...kept.opened?.info, shared: true, leads: tab.leads, sharedReason: '' }),
  });
}
