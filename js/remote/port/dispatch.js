/** The engine's side of a port: calls are looked up in the table, and what they make is kept until it is closed. */
import { BqError, packError, unpackError } from '../../shared/errors.js';
import { FORWARDED_EVENTS } from '../../shared/events.js';
import { CREDITS, listen, PROTOCOL } from '../../shared/protocol.js';
import { OPTIONS } from '../../shared/options.js';
import { overrideTimeouts } from '../../shared/timeouts.js';
import { delegateWorkers, handleSpawned } from '../../shared/workers.js';
import { TABLE } from './methods.js';

/** @import { Engine } from '../../shared/types.js' */

/**
 * Where a port's engine is from.
 * @typedef {object} Root
 * @property {(options: any, onThreads: () => void) => Promise<Engine>} open
 * @property {(engine: Engine) => Promise<void>} close  when the port is
 */
/**
 * A call under way, and the object that it works for. `synced`: parts after which its reader has asked for more; `read`: those that it had
 * read when it left, null: it has not.
 * @typedef {{ on: number | string, controller: AbortController, credits: number, synced: number, read: number | null, wake: () => void }} Call
 */
/** An object of a port, and the one it belongs to. @typedef {{ kind: string, object: any, parent: number | string | null }} Node */

const CLOSED = 'the model or session was closed';

/**
 * Another way to an engine of this thread. What is made over it ends with it; it ends with the engine, which closes its `ports`, and keeps
 * no program from ending.
 * @param {Engine} engine @param {Set<MessagePort>} ports  those that are open
 */
export function portOf(engine, ports) {
  const { port1, port2 } = new MessageChannel();
  serve(port1, { open: async () => engine, close: async () => void ports.delete(port1) });
  ports.add(port1);
  /** @type {any} */ (port1).unref?.();
  return port2;
}

/** Bytes of a result that are its alone: they need no copy. @param {any} ok @returns {Transferable[]} */
function transferable(ok) {
  if (ok instanceof MessagePort) return [ok];
  const all = ok instanceof Uint8Array ? [ok] : (ok?.vectors ?? []);
  return all.map((/** @type {Uint8Array | Float32Array} */ { buffer }) => buffer);
}

/**
 * Answers the calls that come over a port. Each port owns what it has made, as a tree.
 * @param {any} port
 * @param {Root} root
 */
export function serve(port, root) {
  /** @type {Map<number | string, Node>} */
  const nodes = new Map();
  /** @type {Map<number, Call>} */
  const calls = new Map();
  let last = 0;
  let over = false;

  /** @param {any} first @param {number} id */
  async function open({ protocol, options, hosts, timeouts }, id) {
    if (protocol !== PROTOCOL)
      throw new BqError('NO_WORKER', `the worker speaks version ${PROTOCOL}, the page ${protocol}`, {
        hint: 'empty the cache and load the page again',
      });
    const { signal } = /** @type {Call} */ (calls.get(id)).controller;
    if (hosts) delegateWorkers(port);
    overrideTimeouts(timeouts);
    const engine = await root.open({ ...options, signal }, () => port.postMessage({ id, progress: 'threads' }));
    const { info, store } = engine;
    nodes.set(0, { kind: 'engine', object: engine, parent: null });
    for (const type of FORWARDED_EVENTS) engine.events.addEventListener(type, tell);
    if (store) nodes.set('store', { kind: 'store', object: store, parent: 0 });
    return { info, store: store && { backend: store.backend, reason: store.reason } };
  }

  /** @param {any} event */
  function tell({ type, detail: { error, ...detail } }) {
    if (!over) port.postMessage({ event: type, detail: { ...detail, ...(error && { error: packError(error) }) } });
  }

  /** Forgets an object and all below it. @param {number | string} on */
  function drop(on) {
    nodes.delete(on);
    for (const call of calls.values()) {
      if (call.on !== on) continue;
      call.credits = Infinity; // a generation that waits for its reader sees that it is closed
      call.wake();
    }
    for (const [child, { parent }] of nodes) if (parent === on) drop(child);
  }

  /** The end of an object, of the whole port if it is the engine. @param {number | string} on @param {Node} node */
  async function close(on, { object }) {
    if (on === 0) return end(object);
    drop(on);
    await object.close();
  }

  /** @param {Engine} [engine] */
  async function end(engine) {
    over = true;
    for (const type of FORWARDED_EVENTS) nodes.get(0)?.object.events.removeEventListener(type, tell);
    const models = [...nodes.values()].filter(({ kind }) => kind === 'model');
    nodes.clear();
    for (const call of calls.values()) {
      call.controller.abort(new BqError('CLOSED', 'the engine was closed'));
      call.credits = Infinity;
      call.wake();
    }
    await Promise.all(models.map(({ object }) => object.close()));
    if (engine) await root.close(engine);
  }

  /** @param {any} request @param {Call} call @returns {Promise<any>} */
  async function answer({ id, on, method, args = [], options, flag, progress }, call) {
    if (method === 'open') return open(args[0], id);
    const node = nodes.get(on);
    if (!node) throw new BqError('CLOSED', CLOSED);
    const row = Object.hasOwn(TABLE[node.kind], method) ? TABLE[node.kind][method] : null;
    if (!row) throw new BqError('ARGUMENT', `a ${node.kind} knows no "${method}"`);
    if (method === 'close') return close(on, node);
    const { signal } = call.controller;
    const onProgress = (/** @type {object} */ event) => port.postMessage({ id, progress: event });
    const known = row.options ? OPTIONS[row.options] : {};
    const whole = { ...options, ...('signal' in known && { signal }), ...(progress && { onProgress }) };
    const given = row.options ? [...args, whole] : args;
    if (row.stream)
      return stream(
        id,
        node.object[method](...given, flag ? () => Number(Atomics.load(flag, 0)) === 1 : undefined),
        call,
        flag,
      );
    const result = await node.object[method](...given);
    if (!row.makes) return result;
    if (over || !nodes.has(on)) {
      await result.close();
      throw new BqError('CLOSED', CLOSED);
    }
    // A fork is a session of the model, too: it lives on when the other is closed.
    nodes.set(++last, { kind: row.makes, object: result, parent: row.makes === node.kind ? node.parent : on });
    call.on = last;
    const made = { on: last, info: result.info };
    if (!result.loaded) return { made };
    port.postMessage({ id, made });
    await result.loaded;
    return undefined;
  }

  /** @param {number} id @param {import('../../shared/generation.js').Generation} run @param {Call} call @param {Int32Array} [flag]  whether its reader has left, and what it had read */
  async function stream(id, run, call, flag) {
    let sent = 0;
    run.readBy({
      get read() {
        return call.read ?? (flag && Atomics.load(flag, 0) ? Atomics.load(flag, 1) : null);
      },
      async caughtUp() {
        port.postMessage({ id, sync: sent });
        while (call.synced < sent && call.read === null && call.credits < Infinity)
          await new Promise((resolve) => (call.wake = () => resolve(undefined)));
      },
    });
    try {
      for await (const part of run) {
        sent++;
        port.postMessage({ id, part });
        if (--call.credits === 0) await new Promise((resolve) => (call.wake = () => resolve(undefined)));
      }
    } catch (error) {
      if (over) throw error;
    }
    return await run.result;
  }

  listen(
    port,
    async (request) => {
      if (request.spawned) return handleSpawned(request);
      if (request.ping) return port.postMessage({ pong: true });
      const known = calls.get(request.id);
      if (request.abort) {
        if (!known) return;
        known.read = request.read ?? Infinity;
        known.controller.abort(unpackError(request.abort));
        return known.wake();
      }
      if (request.synced !== undefined) {
        if (known) known.synced = request.synced;
        return known?.wake();
      }
      if (request.credit) {
        if (known && (known.credits += request.credit) > 0) known.wake();
        return;
      }
      /** @type {Call} */
      const call = {
        on: request.on,
        controller: new AbortController(),
        credits: CREDITS,
        synced: -1,
        read: null,
        wake: () => {},
      };
      calls.set(request.id, call);
      try {
        const ok = await answer(request, call);
        port.postMessage({ id: request.id, ok }, transferable(ok));
      } catch (error) {
        port.postMessage({ id: request.id, error: packError(error) });
      }
      calls.delete(request.id);
    },
    (why) => {
      if (over) return;
      port.postMessage({ failed: why });
      end(nodes.get(0)?.object).catch(() => {});
    },
  );
}
