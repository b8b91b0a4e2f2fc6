// js/worker.js with counters in shared memory: how many slices were run and tokens sampled so far, readable from
// another thread at any moment. counters = [slices, samples]
import { workerData } from 'node:worker_threads';
import { Wasm } from '../../js/wasm.js';

const { counters } = workerData;
const { call } = Wasm.prototype;
Wasm.prototype.call = function (name, ...args) {
  const result = call.call(this, name, ...args);
  if (name === 'bqw_session_run') Atomics.add(counters, 0, 1);
  if (name === 'bqw_session_sample') Atomics.add(counters, 1, 1);
  return result;
};
await import('../../js/worker.js');
