// Counters in shared memory for a worker's engine: how many slices were run and tokens sampled so far, readable from
// another thread at any moment; and a gate, where the worker stops when it has run so many slices.
import { Wasm } from '../../js/wasm/wasm.js';

/** Words of the counters' memory. `LIMIT`: slices at which the worker waits, 0 for never; `WAITING`: 1 while it does. */
export const [WORK_UNITS, SAMPLES, LIMIT, WAITING, WORDS] = [0, 1, 2, 3, 4];

/** Call it before an engine runs. @param {Int32Array} counters  WORDS of shared memory */
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
  // A slice is counted before the worker looks for an abort: one that another thread counts after its abort is the one
  // that was being computed, however long this thread is kept from the processor in between.
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

/** A gate as other threads set it. @param {Int32Array} counters */
export const gateOf = (counters) => {
  const set = (/** @type {number} */ limit) => {
    Atomics.store(counters, LIMIT, limit);
    Atomics.notify(counters, LIMIT);
  };
  return {
    /** The worker waits once it has run so many more slices. @param {number} workUnits */
    closeAfter: (workUnits) => set(Atomics.load(counters, WORK_UNITS) + workUnits),
    /** Whether it waits there: it has run exactly those. */
    reached: () => Atomics.load(counters, WAITING) === 1,
    open: () => set(0),
  };
};
