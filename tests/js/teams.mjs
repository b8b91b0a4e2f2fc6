// Instances with threads, below the public interface.
import { compile, Wasm } from '../../js/wasm/wasm.js';
import { MEASURE_BYTES, Threads } from '../../js/wasm/threads.js';

const compiled = await compile({}, true);

/**
 * An instance with room for measuring and `count` threads of `threads`.
 * @param {number} count
 * @param {Threads} [threads]
 */
export async function team(count, threads = new Threads()) {
  const wasm = await Wasm.create(compiled, MEASURE_BYTES + 3_000_000);
  const failure = await threads.attach(wasm, compiled, count);
  if (!failure) wasm.check('bqw_threads', count, 100_000, 0); // all of them at all regions, whatever else runs
  return { wasm, threads, failure };
}

/** Lets all threads fall asleep, without a turn of this thread's event loop. @param {number} ms */
export const pause = (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
