/**
 * All time-outs of the engine, by name, and the clock that throttled work looks at: one place, so that tests can set them.
 *
 * `globalThis[Symbol.for('bq4.timeouts')]` may hold other milliseconds by the same names (Infinity: never), and `now`, a clock in
 * milliseconds. It is read whenever a time-out begins. The numbers are sent along to a worker that an engine opens in.
 */

/** @typedef {Partial<Record<keyof typeof TIMEOUTS, number>> & { now?: () => number }} Overrides */

/**
 * Milliseconds. Each of those that make something else happen instead (fewer threads, another store) is far longer than a busy
 * machine needs, and what comes late is used the next time.
 */
export const TIMEOUTS = {
  /** For each thread of an engine to be there, from the one before it on. */
  threadStart: 10_000,
  /** For all threads to take a module. */
  threadsReady: 10_000,
  /** For a worker that starts threads to say anything: longer than it gives the threads. */
  workerSilence: 30_000,
  /** Between two questions to a worker that owes answers whether it is there; it is given up after some without an answer. */
  workerPing: 10_000,
  /** For a call that was aborted to say what it had computed. */
  abort: 5000,
  /** For a worker to close its files. */
  workerClose: 1000,
  /** For a worker's own workers to end before it does: Chromium 156 keeps all of them, for good, when both happen at once. */
  nestedClose: 50,
  /** For the workers that compute parts of products to be there, to be measured, and to answer. */
  spreadStart: 10_000,
  spreadMeasure: 10_000,
  spreadAnswer: 10_000,
  /** For a storage backend to open, which takes tens. Chromium's OPFS, cleared while it was written to, needs 9 to 13 s to say no. */
  storeOpen: 15_000,
  /** For the worker that reads files to be there, and for its reads of a model that is closed to end. */
  readerStart: 15_000,
  readerClose: 5000,
  /** After which a model that still loads is warmed up: what has loaded by then had no time to lose. */
  warmUp: 200,
  /** For the reader of a reply to ask for more while other calls wait for its session, and between two looks at that. */
  sessionWait: 10_000,
  sessionLook: 1000,
  /** Between two looks at a stream of AI SDK that is not read on while another call waits; it is ended after two. */
  streamLook: 500,
  /** Between two progress events. */
  progress: 20,
  /** That a chunk lies waiting for others before it is kept. Where all comes fast none does, and none is hashed twice. */
  keepAhead: 100,
};

/** Timers can't be set for longer, in milliseconds. */
export const LONGEST_MS = 2 ** 31 - 1;

const PLACE = Symbol.for('bq4.timeouts');

/** @returns {Overrides | undefined} */
const overrides = () => /** @type {any} */ (globalThis)[PLACE];

/** @param {keyof typeof TIMEOUTS} name */
export const timeout = (name) => overrides()?.[name] ?? TIMEOUTS[name];

/** Milliseconds, as of performance.now(). */
export const now = () => (overrides()?.now ?? performance.now.bind(performance))();

/**
 * Runs something after a time-out; after none where that is Infinity.
 * @param {keyof typeof TIMEOUTS} name @param {() => void} run
 * @returns {() => void}  takes it back
 */
export function after(name, run) {
  const ms = timeout(name);
  if (ms === Infinity) return () => {};
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}

/** Waits for a promise, but no longer than a time-out. @template T @param {keyof typeof TIMEOUTS} name @param {Promise<T>} promise @returns {Promise<T>} */
export function within(name, promise) {
  return new Promise((resolve, reject) => {
    const end = after(name, () => reject(new Error(`no answer within ${timeout(name)} ms`)));
    promise.then(resolve, reject).finally(end);
  });
}

/** The numbers that were set here, to be sent to a worker. @returns {Overrides | undefined} */
export const overriddenTimeouts = () =>
  overrides() && Object.fromEntries(Object.entries(/** @type {object} */ (overrides())).filter(([, ms]) => ms >= 0));

/** What another thread sent. @param {Overrides | undefined} sent */
export function overrideTimeouts(sent) {
  if (sent) /** @type {any} */ (globalThis)[PLACE] = { ...overrides(), ...sent };
}
