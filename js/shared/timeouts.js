/**
 * All time-outs of the engine by name, and the clock of throttled work, in one place so that tests can set them.
 *
 * `globalThis[Symbol.for('bq4.timeouts')]` may have other values by the same names, in milliseconds (Infinity: never), and `now`, a
 * clock in milliseconds. It is read whenever a time-out begins. A page sends the values to its engine's worker.
 */

/** @typedef {Partial<Record<keyof typeof TIMEOUTS, number>> & { now?: () => number }} Overrides */

/**
 * Milliseconds. A time-out after which the engine does without something (fewer threads, another store) is far longer than a busy
 * machine needs. What is ready only later is used the next time.
 */
export const TIMEOUTS = {
  /** For each thread of an engine to start, counted from the start of the one before. */
  threadStart: 10_000,
  /** For all threads to instantiate a module. */
  threadsReady: 10_000,
  /** For a worker that starts threads to send any message: longer than its own time-out for the threads. */
  workerSilence: 30_000,
  /** Between two pings of a worker with pending calls. After several without an answer it counts as dead. */
  workerPing: 10_000,
  /** For an aborted call to return what it has computed. */
  abort: 5000,
  /** For a worker to close its files. */
  workerClose: 1000,
  /** For the workers of a worker to end before it ends itself: if both happen at once, Chromium 156 never ends any of them. */
  nestedClose: 50,
  /** For the workers of tensor parallelism to start, to be measured, and to answer. */
  spreadStart: 10_000,
  spreadMeasure: 10_000,
  spreadAnswer: 10_000,
  /** For a storage backend to open, which takes some 10 ms. Chromium's OPFS takes 9 to 13 s to fail if it was cleared during a write. */
  storeOpen: 15_000,
  /** For the worker that reads files to start, and for its reads of a closed model to end. */
  readerStart: 15_000,
  readerClose: 5000,
  /** For a range of a Blob to be read, after which it is read anew, the first time. */
  blobRead: 2000,
  /** After which a model that is still loading is warmed up. A model that has loaded by then begins at once. */
  warmUp: 200,
  /** For the reader of a reply to ask for more while other calls wait for its session, and the interval at which this is checked. */
  sessionWait: 10_000,
  sessionLook: 1000,
  /** Interval at which a stream of the AI SDK that isn't read is checked while another call waits; it is ended at the second check. */
  streamLook: 500,
  /** Before the first repetition of a request, unless the source says otherwise; twice as long before each next. */
  retryDelay: 500,
  /** Between two progress events. */
  progress: 20,
  /** How long a chunk waits for those before it until it is stored out of order. In a fast download none is, and none is hashed twice. */
  keepAhead: 100,
};

/** Maximum delay of a timer in JavaScript, in milliseconds. */
export const LONGEST_MS = 2 ** 31 - 1;

const OVERRIDES = Symbol.for('bq4.timeouts');

/** @returns {Overrides | undefined} */
const overrides = () => /** @type {any} */ (globalThis)[OVERRIDES];

/** The milliseconds of a time-out. @param {keyof typeof TIMEOUTS} name */
export const timeout = (name) => overrides()?.[name] ?? TIMEOUTS[name];

/** The time in milliseconds, like performance.now(). */
export const now = () => (overrides()?.now ?? performance.now.bind(performance))();

/**
 * Runs a function after a time-out, or never if that is Infinity.
 * @param {keyof typeof TIMEOUTS} name @param {() => void} run
 * @returns {() => void}  cancels it
 */
export function after(name, run) {
  const ms = timeout(name);
  if (ms === Infinity) return () => {};
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}

/** Waits for a promise; rejects after a time-out. @template T @param {keyof typeof TIMEOUTS} name @param {Promise<T>} promise @returns {Promise<T>} */
export function within(name, promise) {
  return new Promise((resolve, reject) => {
    const end = after(name, () => reject(new Error(`no answer within ${timeout(name)} ms`)));
    promise.then(resolve, reject).finally(end);
  });
}

/** The time-outs that were set in this thread, to be sent to a worker. @returns {Overrides | undefined} */
export const overriddenTimeouts = () =>
  overrides() && Object.fromEntries(Object.entries(/** @type {object} */ (overrides())).filter(([, ms]) => ms >= 0));

/** Sets the time-outs that another thread has sent. @param {Overrides | undefined} received */
export function overrideTimeouts(received) {
  if (received) /** @type {any} */ (globalThis)[OVERRIDES] = { ...overrides(), ...received };
}
