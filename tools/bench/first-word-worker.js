// An engine's worker that reports how its time is spent. It wraps functions of the platform and of the engine, so that the product
// needs no code for it. The time of a nested call counts only for the inner function.

/**
 * `spent`: milliseconds by activity; `moments`: first start and last end of each activity. All threads use the same clock.
 * @typedef {{ started: number, spent: Record<string, number>, moments: Record<string, [number, number]> }} Times
 */

const clock = () => performance.timeOrigin + performance.now();

/** @type {Times} */
const times = { started: clock(), spent: {}, moments: {} };
/** Milliseconds of nested calls in the current call. */
let inner = 0;

/** @param {string} name @param {number} begin @param {number} end */
function note(name, begin, end) {
  const [first] = (times.moments[name] ??= [begin, end]);
  times.moments[name] = [Math.min(first, begin), end];
}

/** Measures a synchronous method. @param {any} object @param {string} method @param {(args: any[]) => string} nameOf */
function timeCalls(object, method, nameOf) {
  const original = object[method];
  object[method] = function timed(/** @type {any[]} */ ...args) {
    const begin = clock();
    const outer = inner;
    inner = 0;
    try {
      return original.apply(this, args);
    } finally {
      const end = clock();
      const name = nameOf(args);
      times.spent[name] = (times.spent[name] ?? 0) + end - begin - inner;
      inner = outer + end - begin;
      note(name, begin, end);
    }
  };
}

/** Records the start of a function and the time at which its promise settles. @param {any} object @param {string} method @param {string} name */
function noteCalls(object, method, name) {
  const original = object[method];
  object[method] = function noted(/** @type {any[]} */ ...args) {
    const begin = clock();
    const result = original.apply(this, args);
    const end = () => note(name, begin, clock());
    result.then(end, end);
    return result;
  };
}

/** Activities, with patterns of the functions of the engine's ABI. @type {[string, RegExp][]} */
const WORK = [
  ['hash', /^bqw_(xxh64|sha256)/],
  ['repack', /^bqw_repack/],
  ['plan', /^bqw_(plan|run_type)/],
  ['place', /^bqw_loader_/],
  ['measure', /^bqw_(measure|self_test)/],
];

const { prototype: handles } = /** @type {any} */ (globalThis).FileSystemSyncAccessHandle;
timeCalls(handles, 'read', () => 'read');
timeCalls(handles, 'write', ([{ length }]) => (length < 4096 ? 'mark' : 'write'));
noteCalls(WebAssembly, 'compileStreaming', 'compile');
noteCalls(WebAssembly, 'compile', 'compile');
const { instantiate } = WebAssembly;
/** Creates instances whose functions are measured. @param {any} module @param {any} imports */
WebAssembly.instantiate = /** @type {any} */ (
  async (/** @type {any} */ module, /** @type {any} */ imports) => {
    const exports = { .../** @type {any} */ (await instantiate(module, imports)).exports };
    for (const name of Object.keys(exports))
      if (name.startsWith('bqw_'))
        timeCalls(exports, name, () => WORK.find(([, pattern]) => pattern.test(name))?.[0] ?? 'compute');
    return { exports };
  }
);

const channel = new BroadcastChannel('bq4 bench');
channel.onmessage = () => channel.postMessage(times);

/** Messages that arrive before the engine's script listens. @type {MessageEvent[]} */
const early = [];
globalThis.onmessage = (event) => early.push(event);
await import(`${'../../dist'}/worker.js`);
for (const { data, ports } of early) globalThis.dispatchEvent(new MessageEvent('message', { data, ports: [...ports] }));
