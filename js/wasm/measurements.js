/**
 * Measurements of the machine that are stored for later visits: the fastest build, and the times of numbers of threads.
 * Both take longer to measure than a small model takes to load. Loaded only if the cache stores them.
 */
import { ABI } from './abi.js';
import { MEASURED_BUILDS } from './build-choice.js';

/** @import { Cache, ThreadTiming } from '../shared/types.js' */
/** @import { Build } from './build-choice.js' */

/**
 * `build`: the fastest build; `timings`: times of numbers of threads.
 * @typedef {{ build?: Build, timings?: ThreadTiming[] }} Measurements
 */

/** Age after which measurements are repeated, since other work may have disturbed them. */
const MAX_AGE_MS = 30 * 24 * 3600 * 1000;

/**
 * Returns whether a value from a file is a valid list of timings: numbers of threads in ascending order from 1.
 * @param {any} timings
 */
const areTimings = (timings) =>
  timings?.[0]?.threads === 1 &&
  timings.every(
    (/** @type {ThreadTiming} */ { threads, ms }, /** @type {number} */ i) =>
      Number.isInteger(threads) && !(threads <= timings[i - 1]?.threads) && Number.isFinite(ms) && ms > 0,
  );

/**
 * Reads the measurements of an earlier visit. Returns them with a function that stores new ones. Measurements that are
 * damaged, old or of another machine are omitted. Never rejects. Two tabs that write at once may damage the file; the
 * next visit then measures again.
 * @param {Required<Cache>['measurements']} file
 */
export async function readMeasurements({ read, write }) {
  // Another browser, version of the engine or number of cores is measured again.
  const machine = `${ABI} ${navigator.hardwareConcurrency} ${navigator.userAgent}`;
  /** @type {Measurements} */
  const earlier = {};
  try {
    const stored = JSON.parse(new TextDecoder().decode((await read()) ?? undefined));
    const age = Date.now() - stored.date;
    if (stored.machine === machine && age >= 0 && age < MAX_AGE_MS) {
      if (MEASURED_BUILDS.includes(stored.build)) earlier.build = stored.build;
      if (areTimings(stored.timings)) earlier.timings = stored.timings;
    }
  } catch {} // missing or damaged
  return {
    ...earlier,
    /**
     * Stores measurements if they are new. Undefined: not measured.
     * @param {Build} [build] @param {ThreadTiming[]} [timings]
     */
    keep(build = earlier.build, timings = earlier.timings) {
      if (build === earlier.build && timings === earlier.timings) return;
      void write(new TextEncoder().encode(JSON.stringify({ machine, date: Date.now(), build, timings })));
    },
  };
}
