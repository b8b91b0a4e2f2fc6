/** The worker's side: an engine behind a port. */
import { openEngine } from './engine/engine.js';
import { BqError, packError, unpackError } from './shared/errors.js';
import { CREDITS, listen, PROTOCOL } from './shared/protocol.js';
import { isNode, nodeModule } from './shared/node.js';

/** @import { Engine } from './shared/types.js' */

/** What may be called by name, on models and sessions. */
const METHODS = ['tokenize', 'detokenize', 'tokenId', 'memory', 'stats', 'trace', 'pause', 'resume'];

/** Likewise on the engine's store. */
const STORE = ['list', 'usage', 'delete', 'pin', 'clear'];

/** @typedef {{ controller: AbortController, credits: number, wake: () => void }} Call  a call under way */

/** @param {any} port  this worker's end */
function serve(port) {
  /** @type {Engine | undefined} */
  let engine;
  /** Models and sessions by number. @type {Map<number, any>} */
  const objects = new Map();
  /** The model of each session. @type {Map<number, number>} */
  const parents = new Map();
  /** What ends the load of each model. @type {Map<number, AbortController>} */
  const loads = new Map();
  let last = 0;
  /** @type {Map<number, Call>} */
  const calls = new Map();

  /** @param {any} object */
  const keep = (object) => {
    objects.set(++last, object);
    return last;
  };

  /** @param {any} request @param {Call} call */
  async function generate({ id, on, args: [prompt, options], flag }, call) {
    const aborted = flag ? () => Number(Atomics.load(flag, 0)) === 1 : undefined;
    const run = objects.get(on).generate(prompt, { ...options, aborted, signal: call.controller.signal });
    try {
      for await (const part of run) {
        port.postMessage({ id, event: part });
        if (--call.credits === 0) await new Promise((resolve) => (call.wake = () => resolve(undefined)));
      }
    } catch (error) {
      if (!run.result) throw error;
    }
    return run.result;
  }

  /** @param {any} request @param {Call} call @returns {Promise<any>} */
  async function answer(request, call) {
    const { id, op, on, args } = request;
    const { signal } = call.controller;
    if (op === 'open') {
      if (args[0].protocol !== PROTOCOL)
        throw new BqError('NO_WORKER', `the worker speaks version ${PROTOCOL}, the page ${args[0].protocol}`, { hint: 'empty the cache and load the page again' });
      engine = await openEngine({ ...args[0].options, signal }, () => port.postMessage({ id, event: 'threads' }));
      const { info, store } = engine;
      return { info, store: store && { backend: store.backend, reason: store.reason } };
    }
    if (!engine) throw new BqError('STATE', 'the worker has no engine yet');
    if (op === 'end') return engine.close();
    if (op === 'store' && STORE.includes(request.method)) return /** @type {any} */ (engine.store)[request.method](...args);
    if (op === 'plan') return engine.plan(args[0], { ...args[1], signal });
    if (op === 'load') {
      const model = await engine.load(args[0], { ...args[1], signal, onProgress: (/** @type {object} */ event) => port.postMessage({ id, event }) });
      const made = keep(model);
      loads.set(made, call.controller);
      return { model: made, info: model.info };
    }
    if (op === 'close') {
      const object = objects.get(on);
      for (const [child, parent] of parents)
        if (parent === on) [parents, objects].forEach((map) => map.delete(child));
      [parents, objects, loads].forEach((map) => map.delete(on));
      return object?.close();
    }
    const object = objects.get(on);
    if (!object) throw new BqError('CLOSED', 'the model or session was closed');
    if (op === 'createSession') {
      const made = keep(await object.createSession(...args));
      parents.set(made, on);
      return made;
    }
    if (op === 'generate') return generate(request, call);
    if (op === 'loaded') {
      signal.addEventListener('abort', () => loads.get(on)?.abort(signal.reason));
      return object.loaded;
    }
    if (op === 'call' && METHODS.includes(request.method)) return object[request.method](...args);
    throw new BqError('ARGUMENT', `the worker knows no "${op}"`);
  }

  listen(
    port,
    async (request) => {
      const known = calls.get(request.id);
      if (request.op === 'abort') {
        known?.controller.abort(request.reason && unpackError(request.reason));
        known?.wake();
        return;
      }
      if (request.op === 'credit') {
        if (known && (known.credits += request.n) > 0) known.wake();
        return;
      }
      const call = { controller: new AbortController(), credits: CREDITS, wake: () => {} };
      calls.set(request.id, call);
      try {
        port.postMessage({ id: request.id, ok: await answer(request, call) });
      } catch (error) {
        port.postMessage({ id: request.id, error: packError(error) });
      }
      calls.delete(request.id);
    },
    () => {},
  );
}

serve(isNode ? nodeModule('worker_threads').parentPort : globalThis);
