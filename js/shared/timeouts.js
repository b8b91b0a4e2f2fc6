/**
 * All timeouts of the engine by name, and the clock of throttled work. They are in one place so that tests can set
 * them.
 *
 * `globalThis[Symbol.for('bq4.timeouts')]` can contain other values by the same names, in milliseconds (Infinity:
 * never), and `now`, a clock in milliseconds. It is read whenever a timeout starts. A page sends the values to its
 * engine's worker.
 */

/** @typedef {Partial<Record<keyof typeof TIMEOUTS, number>> & { now?: () => number }} Overrides */

/**
 * Timeouts in milliseconds. If the engine continues without the missing part afterwards (with fewer threads or another
 * store), the timeout is far longer than a busy machine needs. A part that is ready later is used the next time.
 */
export const TIMEOUTS = {
  /**
   * For each thread of an engine to start, counted from the start of the previous one; for the workers of tensor
   * parallelism to start.
   */
  threadStart: 10_000,
  /** For all threads to instantiate a module. */
  threadsReady: 10_000,
  /** For a worker that starts threads to send any message. Longer than its own timeout for the threads. */
  workerSilence: 30_000,
  /** Between two pings of a worker with pending calls. After several without an answer it counts as dead. */
  workerPing: 10_000,
  /** Between two updates of the time of a lock file, by which processes elsewhere see that its creator is running. */
  lockPing: 10_000,
  /** For an aborted call to return its partial result. */
  abort: 5000,
  /** For a worker to close its files. */
  workerClose: 1000,
  /**
   * For the nested workers of a worker to end before it ends itself. If both happen at once, Chromium 156 never ends
   * them.
   */
  nestedClose: 50,
  /** For the workers of tensor parallelism to finish a measurement, and to answer. */
  spreadMeasure: 10_000,
  spreadAnswer: 10_000,
  /**
   * For a storage backend to open, which usually takes some 10 ms. Chromium's OPFS takes 9 to 13 s to fail if it was
   * cleared during a write.
   */
  storeOpen: 15_000,
  /** Between the comments of a server's waiting stream. Clients and proxies close a silent one after a minute or more. */
  streamComment: 15_000,
  /** For the worker that reads files to start, and for its reads of a closed model to end. */
  readerStart: 15_000,
  readerClose: 5000,
  /** Before the first repetition of a pending read of a Blob. */
  blobRead: 2000,
  /** Before a model that is still loading is warmed up. A model that is loaded earlier is not delayed. */
  warmUp: 200,
  /**
   * For the reader of a reply to request more while other calls wait for its session, and the interval of this check.
   */
  sessionWait: 10_000,
  sessionLook: 1000,
  /** Interval at which an unread stream of the AI SDK is checked while another call waits. The second check ends it. */
  streamLook: 500,
  /**
   * Before the first retry of a request, unless the source specifies another delay. It doubles before each further
   * retry.
   */
  retryDelay: 500,
  /** Between two progress events. */
  progress: 20,
  /**
   * For earlier chunks to arrive, before a chunk is stored out of order and therefore hashed twice. In a fast download
   * this does not happen.
   */
  keepAhead: 100,
};

/** Maximum delay of a timer in JavaScript, in milliseconds. */
export const LONGEST_MS = 2 ** 31 - 1;

const OVERRIDES = Symbol.for('bq4.timeouts');

/** @returns {Overrides | undefined} */
const overrides = () => /** @type {any} */ (globalThis)[OVERRIDES];

/** Returns the milliseconds of a timeout. @param {keyof typeof TIMEOUTS} name */
export const timeout = (name) => overrides()?.[name] ?? TIMEOUTS[name];

/** Returns the time in milliseconds, like performance.now(). */
export const now = () => (overrides()?.now ?? performance.now.bind(performance))();

/**
 * Runs a function after a timeout, or never if it is Infinity.
 * @param {keyof typeof TIMEOUTS} name @param {() => void} run
 * @returns {() => void}  cancels it
 */
export function after(name, run) {
  const ms = timeout(name);
  if (ms === Infinity) return () => {};
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}

/**
 * Waits for a promise. Rejects after a timeout.
 * @template T
 * @param {keyof typeof TIMEOUTS} name
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
export function within(name, promise) {
  return new Promise((resolve, reject) => {
    const end = after(name, () => reject(new Error(`no response within ${timeout(name)} ms`)));
    promise.then(resolve, reject).finally(end);
  });
}

/** Returns the timeouts that were set in this thread, for a worker. @returns {Overrides | undefined} */
export const overriddenTimeouts = () =>
  overrides() && Object.fromEntries(Object.entries(/** @type {object} */ (overrides())).filter(([, ms]) => ms >= 0));

/** Sets timeouts received from another thread. @param {Overrides | undefined} received */
export function overrideTimeouts(received) {
  if (received) /** @type {any} */ (globalThis)[OVERRIDES] = { ...overrides(), ...received };
}
