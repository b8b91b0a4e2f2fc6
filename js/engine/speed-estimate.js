/** Estimates the speed of a model on this machine. */
import { Wasm } from '../wasm/wasm.js';

/** @import { EngineInfo, Plan } from '../shared/types.js' */
/** @import { Compiled } from '../wasm/wasm.js' */

/**
 * The measurement (web/measure.c, as in js/wasm/threads.js): matrix products, weights, bits per weight, repetitions.
 */
const PRODUCTS = 8;
const WEIGHTS = PRODUCTS * 896 * 1024;
const BITS = 4.5;
const TIMED_RUNS = 9;
/** Time of a token with i16 activations, as a multiple of the time with i8 activations (docs/SPEED.md). */
const I16_COST = 1.85;

/**
 * Milliseconds of one `bqw_measure` call in this thread, by build.
 * @type {WeakMap<WebAssembly.Module, Promise<number>>}
 */
const measurements = new WeakMap();

/** Measures the milliseconds of one `bqw_measure` call. @param {Compiled} compiled */
async function measure(compiled) {
  const bytes = (await Wasm.create(compiled, 2 ** 20)).call('bqw_measure_bytes', PRODUCTS, 1);
  const wasm = await Wasm.create(compiled, bytes + 2 ** 20);
  const block = wasm.alloc(bytes);
  wasm.call('bqw_measure_prepare', block, PRODUCTS, 1);
  const times = Array.from({ length: TIMED_RUNS }, () => {
    const since = performance.now();
    wasm.call('bqw_measure', block);
    return performance.now() - since;
  });
  wasm.release();
  // Some clocks have a resolution of only milliseconds, so the result is the mean of the six fastest runs.
  return (
    times
      .sort((a, b) => a - b)
      .slice(0, 6)
      .reduce((sum, ms) => sum + ms, 0) / 6
  );
}

/**
 * Estimates the tokens per second after a short prompt, from the engine's thread timings or a measurement.
 * @param {Compiled} compiled @param {EngineInfo} info @param {Plan} plan
 */
export async function tokensPerSecond(compiled, info, plan) {
  const fastestMs = info.timings.length && Math.min(...info.timings.map(({ ms }) => ms));
  if (!fastestMs && !measurements.has(compiled.module)) measurements.set(compiled.module, measure(compiled));
  return rateOf(fastestMs || Number(await measurements.get(compiled.module)), plan);
}

/**
 * Returns the tokens per second; null if `ms` or the number of weights is 0. The time of a token is assumed to be
 * proportional to the bits of its weights.
 * @param {number} ms  milliseconds of one `bqw_measure` call
 * @param {Pick<Plan, 'tokenWeights' | 'weightBytes'> & { activations?: Plan['activations'] }} plan
 * @returns {number | null}
 */
export function rateOf(ms, { tokenWeights, weightBytes, activations }) {
  const bits = Math.max((8 * weightBytes) / tokenWeights, BITS) * (activations === 'i16' ? I16_COST : 1);
  return ms > 0 && tokenWeights ? ((1000 / ms) * WEIGHTS * BITS) / (tokenWeights * bits) : null;
}
