// Counters in shared memory for a worker's engine: how many slices were run and tokens sampled so far, readable from
// another thread at any moment.
import { Wasm } from '../../js/wasm/wasm.js';

/** Call it before an engine runs. @param {Int32Array} counters  [slices, samples] */
export function countCalls(counters) {
  const { call, stop } = Wasm.prototype;
  Wasm.prototype.stop = function () {
    const ends = stop.call(this);
    if (!ends) Atomics.add(counters, 0, 1); // a slice is done, and this call goes on
    return ends;
  };
  Wasm.prototype.call = function (name, ...args) {
    const result = call.call(this, name, ...args);
    if (name === 'bqw_session_run') Atomics.add(counters, 0, 1);
    if (name === 'bqw_session_sample') Atomics.add(counters, 1, 1);
    return result;
  };
}
