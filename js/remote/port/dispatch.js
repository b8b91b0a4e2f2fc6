/**
 * The engine's side of a port. It calls the methods in the table of `methods.js`, and stores the objects that they
 * create until they are closed.
 */
import { BqError, packError, unpackError } from '../../shared/errors.js';
import { FORWARDED_EVENTS } from '../../shared/events.js';
import { WINDOW, listen, PROTOCOL } from '../../shared/protocol.js';
import { OPTIONS } from '../../shared/options.js';
import { overrideTimeouts } from '../../shared/timeouts.js';
import { delegateWorkers, handleSpawned } from '../../shared/workers.js';
import { TABLE } from './methods.js';

/** @import { Engine } from '../../shared/types.js' */
/** @import { OpenStep } from '../../shared/protocol.js' */

/**
 * Opens and closes the engine of a port.
 * @typedef {object} Root
 * @property {(options: any, onStep: (step: OpenStep) => void) => Promise<Engine>} open
 * @property {(engine: Engine) => Promise<void>} close  called when the port closes
 */
/**
 * A running call and its object. `window`: number of parts that may be sent before a grant; `synced`: number of parts
 * that the reader has confirmed as read; `readCount`: number of parts that the reader had read when it left, or null if
 * it has not left; `wake`: continues a generation that waits for its reader.
 * @typedef {{ target: number | string, controller: AbortController, window: number, synced: number, readCount: number | null, wake: () => void }} Call
 */
/**
 * An object of a port, with the number of its parent object.
 * @typedef {{ kind: string, object: any, parent: number | string | null }} Node
 */

const CLOSED = 'the model or session was closed';

/**
 * Opens another port to an engine of this thread. Closing the port closes the objects that were created over it. The
 * engine closes its `ports` when it closes. In Node an open port does not keep the process alive.
 * @param {Engine} engine @param {Set<MessagePort>} ports  open ports of the engine
 */
export function portOf(engine, ports) {
  const { port1, port2 } = new MessageChannel();
  serve(port1, { open: async () => engine, close: async () => void ports.delete(port1) });
  ports.add(port1);
  /** @type {any} */ (port1).unref?.();
  return port2;
}

/**
 * Returns the buffers of a result that are transferred instead of copied.
 * @param {any} value
 * @returns {Transferable[]}
 */
function transferablesOf(value) {
  if (value instanceof MessagePort) return [value];
  const views = value instanceof Uint8Array ? [value] : (value?.vectors ?? []);
  return views.map((/** @type {Uint8Array | Float32Array} */ { buffer }) => buffer);
}

/**
 * Answers the calls of a port. Each port owns a tree of the objects that were created over it.
 * @param {any} port
 * @param {Root} root
 */
export function serve(port, root) {
  /** @type {Map<number | string, Node>} */
  const nodes = new Map();
  /** @type {Map<number, Call>} */
  const calls = new Map();
  let lastId = 0;
  let isClosed = false;

  /** Opens the engine. @param {any} request @param {number} id */
  async function open({ protocol, options, hosts, timeouts }, id) {
    if (protocol !== PROTOCOL)
      throw new BqError('NO_WORKER', `expected a worker of protocol version ${protocol}, found ${PROTOCOL}`, {
        hint: 'clear the HTTP cache and reload the page',
      });
    const { signal } = /** @type {Call} */ (calls.get(id)).controller;
    if (hosts) delegateWorkers(port);
    overrideTimeouts(timeouts);
    const engine = await root.open({ ...options, signal }, (progress) => port.postMessage({ id, progress }));
    const { info, store } = engine;
    nodes.set(0, { kind: 'engine', object: engine, parent: null });
    for (const type of FORWARDED_EVENTS) engine.events.addEventListener(type, forwardEvent);
    if (store) nodes.set('store', { kind: 'store', object: store, parent: 0 });
    return { info, store: store && { backend: store.backend, reason: store.reason } };
  }

  /** @param {any} event */
  function forwardEvent({ type, detail: { error, ...detail } }) {
    if (!isClosed) port.postMessage({ event: type, detail: { ...detail, ...(error && { error: packError(error) }) } });
  }

  /** Removes an object and its children. @param {number | string} target */
  function dropObject(target) {
    nodes.delete(target);
    for (const call of calls.values()) {
      if (call.target !== target) continue;
      call.window = Infinity; // wakes a generation that waits for its reader, so that it notices the end
      call.wake();
    }
    for (const [child, { parent }] of nodes) if (parent === target) dropObject(child);
  }

  /** Closes an object. Closing the engine closes the port. @param {number | string} target @param {Node} node */
  async function close(target, { object }) {
    if (target === 0) return end(object);
    dropObject(target);
    await object.close();
  }

  /** Ends the port: aborts its calls and closes its models. @param {Engine} [engine] */
  async function end(engine) {
    isClosed = true;
    for (const type of FORWARDED_EVENTS) nodes.get(0)?.object.events.removeEventListener(type, forwardEvent);
    const models = [...nodes.values()].filter(({ kind }) => kind === 'model');
    nodes.clear();
    for (const call of calls.values()) {
      call.controller.abort(new BqError('CLOSED', 'the engine was closed'));
      call.window = Infinity;
      call.wake();
    }
    await Promise.all(models.map(({ object }) => object.close()));
    if (engine) await root.close(engine);
  }

  /** Runs a call and returns its value. @param {any} request @param {Call} call @returns {Promise<any>} */
  async function answer({ id, target, method, args = [], options, flag, progress }, call) {
    if (method === 'open') return open(args[0], id);
    const node = nodes.get(target);
    if (!node) throw new BqError('CLOSED', CLOSED);
    const row = Object.hasOwn(TABLE[node.kind], method) ? TABLE[node.kind][method] : null;
    if (!row) throw new BqError('ARGUMENT', `unknown method "${method}" of a ${node.kind}`);
    if (method === 'close') return close(target, node);
    const { signal } = call.controller;
    const onProgress = (/** @type {object} */ event) => port.postMessage({ id, progress: event });
    const optionChecks = row.options ? OPTIONS[row.options] : {};
    const callOptions = { ...options, ...('signal' in optionChecks && { signal }), ...(progress && { onProgress }) };
    const callArgs = row.options ? [...args, callOptions] : args;
    if (row.stream)
      return stream(
        id,
        node.object[method](...callArgs, flag ? () => Number(Atomics.load(flag, 0)) === 1 : undefined),
        call,
        flag,
      );
    const result = await node.object[method](...callArgs);
    if (!row.makes) return result;
    if (isClosed || !nodes.has(target)) {
      await result.close();
      throw new BqError('CLOSED', CLOSED);
    }
    // A fork belongs to the model, so it stays open when the original session is closed.
    nodes.set(++lastId, { kind: row.makes, object: result, parent: row.makes === node.kind ? node.parent : target });
    call.target = lastId;
    const handle = { target: lastId, info: result.info };
    if (!result.loaded) return { handle };
    port.postMessage({ id, handle });
    await result.loaded;
    return undefined;
  }

  /**
   * Sends the parts of a generation and returns its result.
   * @param {number} id
   * @param {import('../../shared/generation.js').Generation} generation
   * @param {Call} call
   * @param {Int32Array} [flag]  shared memory: whether the reader has left (1), and the number of parts that it had
   *   read
   */
  async function stream(id, generation, call, flag) {
    let sentCount = 0;
    generation.readBy({
      get readCount() {
        return call.readCount ?? (flag && Atomics.load(flag, 0) ? Atomics.load(flag, 1) : null);
      },
      async caughtUp() {
        port.postMessage({ id, sync: sentCount });
        while (call.synced < sentCount && call.readCount === null && call.window < Infinity)
          await new Promise((resolve) => (call.wake = () => resolve(undefined)));
      },
    });
    try {
      for await (const part of generation) {
        sentCount++;
        port.postMessage({ id, part });
        if (--call.window === 0) await new Promise((resolve) => (call.wake = () => resolve(undefined)));
      }
    } catch (error) {
      if (isClosed) throw error;
    }
    return await generation.result;
  }

  listen(
    port,
    async (request) => {
      if (request.spawned) return handleSpawned(request);
      if (request.ping) return port.postMessage({ pong: true });
      const runningCall = calls.get(request.id);
      if (request.abort) {
        if (!runningCall) return;
        runningCall.readCount = request.readCount ?? Infinity;
        runningCall.controller.abort(unpackError(request.abort));
        return runningCall.wake();
      }
      if (request.synced !== undefined) {
        if (runningCall) runningCall.synced = request.synced;
        return runningCall?.wake();
      }
      if (request.grant) {
        if (runningCall && (runningCall.window += request.grant) > 0) runningCall.wake();
        return;
      }
      /** @type {Call} */
      const call = {
        target: request.target,
        controller: new AbortController(),
        window: WINDOW,
        synced: -1,
        readCount: null,
        wake: () => {},
      };
      calls.set(request.id, call);
      try {
        const value = await answer(request, call);
        port.postMessage({ id: request.id, value }, transferablesOf(value));
      } catch (error) {
        port.postMessage({ id: request.id, error: packError(error) });
      }
      calls.delete(request.id);
    },
    (reason) => {
      if (isClosed) return;
      port.postMessage({ failure: reason });
      end(nodes.get(0)?.object).catch(() => {});
    },
  );
}
