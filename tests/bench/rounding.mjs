// Measures the computations of `quantize --calibrate`: sums of outer products, the inverse of second moments, compensation of drift, and rounding.
//   node tests/bench/rounding.mjs [CHECKOUT ...]     default: this checkout; several take turns, each after `npm run build`
// One thread, random inputs. It prints minima of some rounds in milliseconds, products per second, and a checksum of the rounded weights.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PAGES = 4096;
const ROUNDS = 5;
const [ROWS, TOKENS, SWEEPS, BQ4H, TILED] = [64, 1024, 4, 6, 1];

/** @param {string} checkout */
function open(checkout) {
  const memory = new WebAssembly.Memory({ initial: PAGES, maximum: PAGES });
  const module = new WebAssembly.Module(readFileSync(join(checkout, 'build/wasm/bq4-convert.wasm')));
  const env = { memory, now: () => performance.now(), stop: () => 0 };
  const call = /** @type {any} */ (new WebAssembly.Instance(module, { env }).exports);
  const base = call.__heap_base.value;
  call.bqw_init(base, PAGES * 65536 - base);
  return {
    call,
    /** @param {number} bytes */
    room: (bytes) => call.bqw_alloc(bytes) >>> 0,
    /** @param {number} at @param {number} n */
    floats: (at, n) => new Float32Array(memory.buffer, at, n),
    /** @param {number} at @param {number} n */
    bytes: (at, n) => new Uint8Array(memory.buffer, at, n),
  };
}

/** Returns a generator of numbers from −0.5 to 0.5, the same in every call. */
function createRandom() {
  let state = 1;
  return () => (state = (state * 1103515245 + 12345) % 2 ** 31) / 2 ** 31 - 0.5;
}

/** Returns a function that measures one round of each computation with this number of columns. @param {ReturnType<typeof open>} wasm @param {number} cols */
function prepare({ call, room: allocate, floats, bytes }, cols) {
  const [x, originals] = [allocate(4 * TOKENS * cols), allocate(4 * TOKENS * cols)];
  const [moments, drift, feedback] = [1, 2, 3].map(() => allocate(4 * cols ** 2));
  const factors = allocate(8 * cols * (cols + 1));
  const w = allocate(4 * ROWS * cols);
  const driftWork = allocate(4 * call.bqw_drift_floats(cols));
  const work = allocate(4 * call.bqw_round_floats(BQ4H, ROWS, cols));
  const [out, errors] = [allocate(ROWS * cols + 65536), allocate(64)];
  const random = createRandom();
  for (const [at, n] of [
    [x, TOKENS * cols],
    [originals, TOKENS * cols],
    [w, ROWS * cols],
  ])
    floats(at, n).forEach((_, i, all) => (all[i] = random()));
  const weights = floats(w, ROWS * cols).slice();
  // Each input correlates a little with all others.
  const correlated = Float32Array.from({ length: cols ** 2 }, (_, i) => (i % (cols + 1) ? 0.02 * random() : 2));
  const measureMs = (/** @type {() => unknown} */ work) => {
    const since = performance.now();
    work();
    return performance.now() - since;
  };
  return () => {
    // Builds before 2026-11-26 lack this function.
    const sums = call.bqw_inputs_add
      ? measureMs(() => call.bqw_inputs_add(moments, drift, cols, x, originals, TOKENS))
      : Infinity;
    floats(moments, cols ** 2).set(correlated);
    floats(drift, cols ** 2).set(correlated.map((value) => 0.01 * value));
    floats(w, ROWS * cols).set(weights);
    const inverse = measureMs(() => call.bqw_moments_end(moments, cols, 0.1, factors, feedback));
    const output = measureMs(() => call.bqw_drift_make_good(w, ROWS, cols, drift, feedback, driftWork));
    floats(errors, 10).fill(0);
    const rounding = measureMs(() =>
      call.bqw_round(BQ4H, TILED, w, ROWS, cols, moments, feedback, SWEEPS, work, out, errors),
    );
    const sum = bytes(out, (ROWS * cols) / 2).reduce((all, byte) => (31 * all + byte) | 0, 0);
    return { sums, inverse, drift: output, rounding, sum };
  };
}

/** Numbers of products; null if a computation has other operations, too. @param {number} cols @returns {Record<string, number | null>} */
const products = (cols) => ({
  sums: 1.5 * cols ** 2 * TOKENS,
  inverse: null,
  drift: 2 * ROWS * cols ** 2,
  rounding: null,
});

const checkouts = process.argv.length > 2 ? process.argv.slice(2) : [ROOT];
for (const cols of [576, 1536]) {
  const all = checkouts.map((checkout) => ({ checkout, run: prepare(open(resolve(checkout)), cols) }));
  const results = all.map(() => /** @type {any[]} */ ([]));
  for (let round = 0; round < ROUNDS; round++) for (const [i, { run }] of all.entries()) results[i].push(run());
  for (const [i, { checkout }] of all.entries()) {
    const cells = Object.entries(products(cols)).map(([name, n]) => {
      const ms = Math.min(...results[i].map((result) => result[name]));
      if (ms === Infinity) return `${name} –`;
      return `${name} ${ms.toFixed(1)} ms${n === null ? '' : ` (${(n / ms / 1e6).toFixed(1)} G/s)`}`;
    });
    console.log(`${cols} columns, ${checkout}: ${cells.join(', ')}; checksum ${results[i][0].sum}`);
  }
}
