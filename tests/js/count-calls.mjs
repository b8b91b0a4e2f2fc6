// Counters of an engine in a worker: numbers of computed work units and sampled tokens, in shared memory, so that another thread can read
// them at any time; and a gate at which the worker waits after a given number of work units.
import { Wasm } from '../../js/wasm/wasm.js';

/** Indices of the counters, and their number. `LIMIT`: work units after which the worker waits, 0: it does not wait; `WAITING`: 1 while it waits. */
export const [WORK_UNITS, SAMPLES, LIMIT, WAITING, WORDS] = [0, 1, 2, 3, 4];

/** Installs the counters. It is called before an engine is created. @param {Int32Array} counters  WORDS words of shared memory */
export function countCalls(counters) {
  const { call, stop } = Wasm.prototype;
  const waitAtGate = (/** @type {number} */ workUnits) => {
    for (let limit; (limit = Atomics.load(counters, LIMIT)) && workUnits >= limit;) {
      Atomics.store(counters, WAITING, 1);
      Atomics.wait(counters, LIMIT, limit);
    }
    Atomics.store(counters, WAITING, 0);
  };
  let isLastCounted = false;
  // A work unit is counted before the worker checks for an abort. So another thread that reads the counter after its abort finds at most
  // one more: the work unit that was computed at that time.
  Wasm.prototype.stop = function () {
    const workUnits = Atomics.add(counters, WORK_UNITS, 1) + 1;
    const ends = stop.call(this);
    isLastCounted = Boolean(ends);
    if (!ends) waitAtGate(workUnits);
    return ends;
  };
  Wasm.prototype.call = function (name, ...args) {
    const result = call.call(this, name, ...args);
    if (name === 'bqw_session_run') {
      if (!isLastCounted) waitAtGate(Atomics.add(counters, WORK_UNITS, 1) + 1);
      isLastCounted = false;
    }
    if (name === 'bqw_session_sample') Atomics.add(counters, SAMPLES, 1);
    return result;
  };
}

/** The gate, for another thread. @param {Int32Array} counters */
export const gateOf = (counters) => {
  const set = (/** @type {number} */ limit) => {
    Atomics.store(counters, LIMIT, limit);
    Atomics.notify(counters, LIMIT);
  };
  return {
    /** Closes the gate: the worker waits after this number of further work units. @param {number} workUnits */
    closeAfter: (workUnits) => set(Atomics.load(counters, WORK_UNITS) + workUnits),
    /** Whether the worker waits at the gate. */
    reached: () => Atomics.load(counters, WAITING) === 1,
    open: () => set(0),
  };
};
