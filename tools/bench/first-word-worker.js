// The worker of an engine that says where its time goes. Functions of the platform and of the engine are timed from outside, so that the
// product needs no code for it; a call within a call counts once, for the inner one.

/**
 * `spent`: milliseconds in it, by what was done; `moments`: when that began first and ended last; all by the clock of all threads.
 * @typedef {{ started: number, spent: Record<string, number>, moments: Record<string, [number, number]> }} Times
 */

const clock = () => performance.timeOrigin + performance.now();

/** @type {Times} */
const times = { started: clock(), spent: {}, moments: {} };
/** Milliseconds of the calls within the one that runs. */
let inner = 0;

/** @param {string} name @param {number} begin @param {number} end */
function note(name, begin, end) {
  const [first] = (times.moments[name] ??= [begin, end]);
  times.moments[name] = [Math.min(first, begin), end];
}

/** Times a method that returns when it is done. @param {any} object @param {string} method @param {(args: any[]) => string} nameOf */
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

/** Notes when a function begins and when its promise settles. @param {any} object @param {string} method @param {string} name */
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

/** What functions of the engine's ABI do. @type {[string, RegExp][]} */
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
/** Instances whose functions are timed. @param {any} module @param {any} imports */
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

/** Messages that come before the engine's script listens. @type {MessageEvent[]} */
const early = [];
globalThis.onmessage = (event) => early.push(event);
await import(`${'../../dist'}/worker.js`);
for (const { data, ports } of early) globalThis.dispatchEvent(new MessageEvent('message', { data, ports: [...ports] }));
