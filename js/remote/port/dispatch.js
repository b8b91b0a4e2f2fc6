/**
 * The engine's side of a port. It calls the methods in the table of `methods.js`, and stores the objects that they
 * create until they are closed.
 */
import { BqError, packError } from '../../shared/errors.js';
import { FORWARDED_EVENTS } from '../../shared/events.js';
import { listen, PROTOCOL } from '../../shared/protocol.js';
import { overrideTimeouts } from '../../shared/timeouts.js';
import { delegateWorkers, handleSpawned } from '../../shared/workers.js';
import { TABLE } from './methods.js';
import { RunningCall } from './running-call.js';

/** @import { Engine } from '../../shared/types.js' */
/** @import { OpenStep } from '../../shared/protocol.js' */

/**
 * Opens and closes the engine of a port.
 * @typedef {object} Root
 * @property {(options: any, onStep: (step: OpenStep) => void) => Promise<Engine>} open
 * @property {(engine: Engine) => Promise<void>} close  called when the port closes
 */
/**
 * An object of a port, with the number of its parent object.
 * @typedef {{ kind: string, object: any, parent: number | string | null }} Node
 */

/** Creates the error CLOSED of a call to an object that was closed. @param {string} kind */
const closedError = (kind) => new BqError('CLOSED', `the ${kind} was closed`);

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
 * Returns the arguments of a method's call, with the signal and the progress of the call among its options.
 * @param {import('./methods.js').Row} row @param {any} request @param {RunningCall} call
 */
function argumentsOf(row, { args = [], options, progress }, call) {
  if (!row.options) return args;
  return [
    ...args,
    {
      ...options,
      ...('signal' in row.options && { signal: call.signal }),
      ...(progress && { onProgress: (/** @type {object} */ event) => call.post({ progress: event }) }),
    },
  ];
}

/** The objects of a port and its running calls. Each port owns a tree of the objects that were created over it. */
class PortServer {
  #port;
  #root;
  /** Objects by their numbers. @type {Map<number | string, Node>} */
  #nodes = new Map();
  /** Running calls by their ids. @type {Map<number, RunningCall>} */
  #calls = new Map();
  #lastId = 0;
  #isClosed = false;

  /** @param {any} port @param {Root} root */
  constructor(port, root) {
    this.#port = port;
    this.#root = root;
    listen(
      port,
      (request) => this.#receive(request),
      (reason) => this.#fail(reason),
    );
  }

  /** Handles a message: a call, or a message about a running one. @param {any} request */
  async #receive(request) {
    const { id } = request;
    if (request.spawned) return handleSpawned(request);
    if (request.ping) return this.#port.postMessage({ pong: true });
    if (request.abort || request.grant || request.synced !== undefined) return this.#calls.get(id)?.receive(request);
    const call = new RunningCall(this.#port, id, request.target);
    this.#calls.set(id, call);
    try {
      const value = await this.#answer(request, call);
      this.#port.postMessage({ id, value }, transferablesOf(value));
    } catch (error) {
      call.post({ error: packError(error) });
    }
    this.#calls.delete(id);
  }

  /** Handles the failure of the port. @param {string} reason */
  #fail(reason) {
    if (this.#isClosed) return;
    this.#port.postMessage({ failure: reason });
    this.#end(this.#nodes.get(0)?.object).catch(() => {});
  }

  /**
   * Runs a call and returns its value. Throws ARGUMENT, CLOSED, and the errors of the method.
   * @param {any} request @param {RunningCall} call @returns {Promise<any>}
   */
  async #answer(request, call) {
    const { target, method, flag } = request;
    if (method === 'open') return this.#open(request.args[0], call);
    const node = this.#nodes.get(target);
    if (!node) throw closedError(request.kind);
    const row = Object.hasOwn(TABLE[node.kind], method) ? TABLE[node.kind][method] : null;
    if (!row) throw new BqError('ARGUMENT', `unknown method "${method}" of a ${node.kind}`);
    if (method === 'close') return this.#close(target, node);
    const args = argumentsOf(row, request, call);
    if (row.stream)
      return call.stream(
        node.object[method](...args, flag ? () => Number(Atomics.load(flag, 0)) === 1 : undefined),
        flag,
      );
    const result = await node.object[method](...args);
    return row.makes ? this.#addObject(row.makes, result, node, call) : result;
  }

  /** Opens the engine. @param {any} request @param {RunningCall} call */
  async #open({ protocol, options, hosts, timeouts }, call) {
    if (protocol !== PROTOCOL)
      throw new BqError('NO_WORKER', `expected a worker of protocol version ${protocol}, found ${PROTOCOL}`, {
        hint: 'clear the HTTP cache and reload the page',
      });
    if (hosts) delegateWorkers(this.#port);
    overrideTimeouts(timeouts);
    const engine = await this.#root.open({ ...options, signal: call.signal }, (progress) => call.post({ progress }));
    const { info, store } = engine;
    this.#nodes.set(0, { kind: 'engine', object: engine, parent: null });
    for (const type of FORWARDED_EVENTS) engine.events.addEventListener(type, this.#forwardEvent);
    if (store) this.#nodes.set('store', { kind: 'store', object: store, parent: 0 });
    return { info, store: store && { backend: store.backend, reason: store.reason } };
  }

  /** @param {any} event */
  #forwardEvent = ({ type, detail: { error, ...detail } }) => {
    if (!this.#isClosed)
      this.#port.postMessage({ event: type, detail: { ...detail, ...(error && { error: packError(error) }) } });
  };

  /**
   * Adds an object that a call has created, and returns its handle. A model that is still loading is announced by a
   * message, and the call ends when it is loaded. Throws CLOSED.
   * @param {string} kind @param {any} object @param {Node} creator @param {RunningCall} call
   */
  async #addObject(kind, object, creator, call) {
    if (this.#isClosed || !this.#nodes.has(call.target)) {
      await object.close();
      throw closedError(creator.kind);
    }
    // A fork belongs to the model, so it stays open when the original session is closed.
    const parent = kind === creator.kind ? creator.parent : call.target;
    this.#nodes.set(++this.#lastId, { kind, object, parent });
    call.target = this.#lastId;
    const handle = { target: call.target, info: object.info };
    if (!object.loaded) return { handle };
    call.post({ handle });
    await object.loaded;
    return undefined;
  }

  /** Removes an object and its children. @param {number | string} target */
  #dropObject(target) {
    this.#nodes.delete(target);
    for (const call of this.#calls.values()) if (call.target === target) call.release();
    for (const [child, { parent }] of this.#nodes) if (parent === target) this.#dropObject(child);
  }

  /** Closes an object. Closing the engine closes the port. @param {number | string} target @param {Node} node */
  async #close(target, { object }) {
    if (target === 0) return this.#end(object);
    this.#dropObject(target);
    await object.close();
  }

  /** Ends the port: aborts its calls and closes its models. @param {Engine} [engine] */
  async #end(engine) {
    this.#isClosed = true;
    for (const type of FORWARDED_EVENTS)
      this.#nodes.get(0)?.object.events.removeEventListener(type, this.#forwardEvent);
    const models = [...this.#nodes.values()].filter(({ kind }) => kind === 'model');
    this.#nodes.clear();
    for (const call of this.#calls.values()) call.close();
    await Promise.all(models.map(({ object }) => object.close()));
    if (engine) await this.#root.close(engine);
  }
}

/** Answers the calls of a port until it closes. @param {any} port @param {Root} root */
export const serve = (port, root) => void new PortServer(port, root);
