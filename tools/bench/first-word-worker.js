// An engine's worker that reports the time of its activities. It wraps functions of the browser and of the engine, so the product
// contains no code for this. The time of a nested call counts only for the inner function.

/**
 * `spentMs`: milliseconds by activity; `moments`: first start and last end of each activity. All threads use the same clock.
 * @typedef {{ startTime: number, spentMs: Record<string, number>, moments: Record<string, [number, number]> }} Times
 */

/** Returns the time in milliseconds. */
const clock = () => performance.timeOrigin + performance.now();

/** @type {Times} */
const times = { startTime: clock(), spentMs: {}, moments: {} };
/** Milliseconds of nested calls in the current call. */
let innerMs = 0;

/** Extends the period of an activity. @param {string} name @param {number} begin @param {number} end */
function recordMoment(name, begin, end) {
  const [first] = (times.moments[name] ??= [begin, end]);
  times.moments[name] = [Math.min(first, begin), end];
}

/** Replaces a synchronous method by one that measures its calls. @param {any} object @param {string} method @param {(args: any[]) => string} nameOf */
function timeCalls(object, method, nameOf) {
  const original = object[method];
  object[method] = function timed(/** @type {any[]} */ ...args) {
    const begin = clock();
    const outerMs = innerMs;
    innerMs = 0;
    try {
      return original.apply(this, args);
    } finally {
      const end = clock();
      const name = nameOf(args);
      times.spentMs[name] = (times.spentMs[name] ?? 0) + end - begin - innerMs;
      innerMs = outerMs + end - begin;
      recordMoment(name, begin, end);
    }
  };
}

/** Replaces an asynchronous method by one that records its start and the time at which its promise settles. @param {any} object @param {string} method @param {string} name */
function recordCalls(object, method, name) {
  const original = object[method];
  object[method] = function noted(/** @type {any[]} */ ...args) {
    const begin = clock();
    const result = original.apply(this, args);
    const end = () => recordMoment(name, begin, clock());
    result.then(end, end);
    return result;
  };
}

/** Activities, with patterns of the functions of the engine's ABI. @type {[string, RegExp][]} */
const ACTIVITIES = [
  ['hash', /^bqw_(xxh64|sha256)/],
  ['repack', /^bqw_repack/],
  ['plan', /^bqw_(plan|run_type)/],
  ['place', /^bqw_loader_/],
  ['measure', /^bqw_(measure|self_test)/],
];

const { prototype: fileHandles } = /** @type {any} */ (globalThis).FileSystemSyncAccessHandle;
timeCalls(fileHandles, 'read', () => 'read');
timeCalls(fileHandles, 'write', ([{ length }]) => (length < 4096 ? 'mark' : 'write'));
recordCalls(WebAssembly, 'compileStreaming', 'compile');
recordCalls(WebAssembly, 'compile', 'compile');
const { instantiate } = WebAssembly;
/** Creates instances whose functions are measured. @param {any} module @param {any} imports */
WebAssembly.instantiate = /** @type {any} */ (
  async (/** @type {any} */ module, /** @type {any} */ imports) => {
    const exports = { .../** @type {any} */ (await instantiate(module, imports)).exports };
    for (const name of Object.keys(exports))
      if (name.startsWith('bqw_'))
        timeCalls(exports, name, () => ACTIVITIES.find(([, pattern]) => pattern.test(name))?.[0] ?? 'compute');
    return { exports };
  }
);

const channel = new BroadcastChannel('bq4 bench');
channel.onmessage = () => channel.postMessage(times);

/** Messages that arrive before the engine's script has added its listener. @type {MessageEvent[]} */
const earlyMessages = [];
globalThis.onmessage = (event) => earlyMessages.push(event);
await import(`${'../../dist'}/worker.js`);
for (const { data, ports } of earlyMessages)
  globalThis.dispatchEvent(new MessageEvent('message', { data, ports: [...ports] }));
