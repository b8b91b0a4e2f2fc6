/**
 * What an engine has measured of its machine, kept for later visits: which build is the fastest, and how fast numbers of threads are.
 * Both take longer to measure than a small model takes to load. Loaded only where a cache keeps them.
 */
import { ABI } from './abi.js';
import { MEASURED_BUILDS } from './build-choice.js';

/** @import { Cache, ThreadTiming } from '../shared/types.js' */
/** @import { Build } from './build-choice.js' */

/** `build`: the fastest; `timings`: of numbers of threads. @typedef {{ build?: Build, timings?: ThreadTiming[] }} Measurements */

/** Age after which everything is measured again, since other work may have disturbed a measurement. */
const MAX_AGE_MS = 30 * 24 * 3600 * 1000;

/** Whether a value from a file is what `Threads.choose` measures: numbers of threads, rising from 1. @param {any} timings */
const areTimings = (timings) =>
  timings?.[0]?.threads === 1 &&
  timings.every(
    (/** @type {ThreadTiming} */ { threads, ms }, /** @type {number} */ i) =>
      Number.isInteger(threads) && !(threads <= timings[i - 1]?.threads) && Number.isFinite(ms) && ms > 0,
  );

/**
 * The measurements of an earlier visit, without what is missing, damaged, old or of another machine, and a function that keeps new ones in
 * their place. Never rejects. Two tabs that write at once may damage the file: then the next visit measures again.
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
    /** Keeps measurements if they are new; undefined: not measured. @param {Build} [build] @param {ThreadTiming[]} [timings] */
    keep(build = earlier.build, timings = earlier.timings) {
      if (build === earlier.build && timings === earlier.timings) return;
      void write(new TextEncoder().encode(JSON.stringify({ machine, date: Date.now(), build, timings })));
    },
  };
}
