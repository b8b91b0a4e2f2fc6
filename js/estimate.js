/** What a plan says beyond the file: what the cache has of it, how fast this machine would compute with it. */
import { Wasm } from './wasm.js';

/** @import { Planned } from './plan.js' */
/** @import { Cache, EngineInfo, Plan } from './types.js' */
/** @import { Compiled } from './wasm.js' */

/** What is timed (web/measure.c) like in js/threads.js, its weights, bits of each, and how often. */
const PRODUCTS = 8;
const WEIGHTS = PRODUCTS * 896 * 1024;
const BITS = 4.5;
const TIMES = 9;

/** Milliseconds of one bqw_measure in this thread, once per build. @type {WeakMap<WebAssembly.Module, Promise<number>>} */
const measured = new WeakMap();

/** @param {Compiled} compiled @param {EngineInfo} info */
async function measure(compiled, { build, kernel }) {
  const bytes = (await Wasm.create(compiled, 2 ** 20)).call('bqw_measure_bytes', PRODUCTS, 1);
  const wasm = await Wasm.create(compiled, bytes + 2 ** 20);
  if (kernel !== build) wasm.check('bqw_fallback');
  const block = wasm.alloc(bytes);
  wasm.call('bqw_measure_prepare', block, PRODUCTS, 1);
  const times = Array.from({ length: TIMES }, () => {
    const since = performance.now();
    wasm.call('bqw_measure', block);
    return performance.now() - since;
  });
  wasm.release();
  // Some clocks tick in milliseconds: the mean of what is left without the slowest.
  return times.sort((a, b) => a - b).slice(0, 6).reduce((sum, ms) => sum + ms, 0) / 6;
}

/** Tokens per second after a short prompt; wider weights take as much longer. @param {Compiled} compiled @param {EngineInfo} info @param {Plan} plan */
export async function tokensPerSecond(compiled, info, { tokenWeights, weightBytes }) {
  const timed = info.timings.find(({ threads }) => threads === info.threads)?.ms;
  if (!timed && !measured.has(compiled.module)) measured.set(compiled.module, measure(compiled, info));
  const ms = timed || Number(await measured.get(compiled.module));
  const bits = Math.max((8 * weightBytes) / tokenWeights, BITS);
  return ms > 0 && tokenWeights ? ((1000 / ms) * WEIGHTS * BITS) / (tokenWeights * bits) : null;
}

/** @param {Planned} planned @param {Cache | null} cache @returns {Promise<Plan['cached']>} */
export async function cachedBytes({ plan, cached, url, head, prefixBytes }, cache) {
  if (!cached || !cache || !url) return { bytes: 0, complete: false };
  const { fileBytes } = plan;
  const entry = await cache.open({ url, fileId: head.slice(40, 56), fileBytes, prefixBytes, hashes: null });
  let bytes = prefixBytes;
  for (let c = 0; c < entry.chunks; c++) if (entry.has(c)) bytes += Math.min(2 ** 20, fileBytes - prefixBytes - c * 2 ** 20);
  await entry.close();
  return { bytes, complete: bytes === fileBytes };
}
