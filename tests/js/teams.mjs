// WebAssembly instances with threads, for tests of the ABI.
import { compile, Wasm } from '../../js/wasm/wasm.js';
import { MEASURE_BYTES, Threads } from '../../js/wasm/threads.js';

const compiled = await compile({}, true);

/**
 * Creates an instance with memory for the measurements of the thread tuner, and attaches threads.
 * @param {number} count  number of threads
 * @param {Threads} [threads]  pool of workers
 */
export async function createTeam(count, threads = new Threads()) {
  const wasm = await Wasm.create(compiled, MEASURE_BYTES + 3_000_000);
  const failure = await threads.attach(wasm, compiled, count);
  // All threads take part in all parallel regions, regardless of the load of the machine.
  if (!failure) wasm.check('bqw_threads', count, 100_000, 0);
  return { wasm, threads, failure };
}

/** Blocks this thread, so that the other threads fall asleep. @param {number} ms */
export const blockThread = (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
