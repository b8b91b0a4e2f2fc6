// What `quantize --calibrate` does besides reading, alone: sums of outer products, the inverse of moments, what is made good of a drift, and rounding.
//   node tests/bench/rounding.mjs [CHECKOUT ...]     this one by default; several take turns, each after `npm run build`
// One thread; the least of some rounds, in milliseconds, and products per second. Made-up inputs; what is rounded is added up, so that equal bytes are seen.
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

/** Numbers of −0.5 to 0.5, the same every time. */
function numbers() {
  let state = 1;
  return () => (state = (state * 1103515245 + 12345) % 2 ** 31) / 2 ** 31 - 0.5;
}

/** Milliseconds of one round of each, with as many columns. @param {ReturnType<typeof open>} wasm @param {number} cols */
function prepare({ call, room, floats, bytes }, cols) {
  const [x, whole] = [room(4 * TOKENS * cols), room(4 * TOKENS * cols)];
  const [moments, drift, feedback] = [1, 2, 3].map(() => room(4 * cols ** 2));
  const factors = room(8 * cols * (cols + 1));
  const w = room(4 * ROWS * cols);
  const good = room(4 * call.bqw_drift_floats(cols));
  const work = room(4 * call.bqw_round_floats(BQ4H, ROWS, cols));
  const [out, errors] = [room(ROWS * cols + 65536), room(64)];
  const random = numbers();
  for (const [at, n] of [
    [x, TOKENS * cols],
    [whole, TOKENS * cols],
    [w, ROWS * cols],
  ])
    floats(at, n).forEach((_, i, all) => (all[i] = random()));
  const weights = floats(w, ROWS * cols).slice();
  // Every input by itself, and a little of all others.
  const correlated = Float32Array.from({ length: cols ** 2 }, (_, i) => (i % (cols + 1) ? 0.02 * random() : 2));
  const timed = (/** @type {() => unknown} */ work) => {
    const since = performance.now();
    work();
    return performance.now() - since;
  };
  return () => {
    // Builds of before 2026-11-26 add up elsewhere.
    const sums = call.bqw_inputs_add
      ? timed(() => call.bqw_inputs_add(moments, drift, cols, x, whole, TOKENS))
      : Infinity;
    floats(moments, cols ** 2).set(correlated);
    floats(drift, cols ** 2).set(correlated.map((value) => 0.01 * value));
    floats(w, ROWS * cols).set(weights);
    const inverse = timed(() => call.bqw_moments_end(moments, cols, 0.1, factors, feedback));
    const output = timed(() => call.bqw_drift_make_good(w, ROWS, cols, drift, feedback, good));
    floats(errors, 10).fill(0);
    const rounded = timed(() =>
      call.bqw_round(BQ4H, TILED, w, ROWS, cols, moments, feedback, SWEEPS, work, out, errors),
    );
    const sum = bytes(out, (ROWS * cols) / 2).reduce((all, byte) => (31 * all + byte) | 0, 0);
    return { sums, inverse, made: output, rounded, sum };
  };
}

/** Products, as far as they are all of a kind. @param {number} cols @returns {Record<string, number | null>} */
const products = (cols) => ({
  sums: 1.5 * cols ** 2 * TOKENS,
  inverse: null,
  made: 2 * ROWS * cols ** 2,
  rounded: null,
});

const checkouts = process.argv.length > 2 ? process.argv.slice(2) : [ROOT];
for (const cols of [576, 1536]) {
  const all = checkouts.map((checkout) => ({ checkout, run: prepare(open(resolve(checkout)), cols) }));
  const found = all.map(() => /** @type {any[]} */ ([]));
  for (let round = 0; round < ROUNDS; round++) for (const [i, { run }] of all.entries()) found[i].push(run());
  for (const [i, { checkout }] of all.entries()) {
    const cells = Object.entries(products(cols)).map(([name, n]) => {
      const ms = Math.min(...found[i].map((one) => one[name]));
      if (ms === Infinity) return `${name} –`;
      return `${name} ${ms.toFixed(1)} ms${n === null ? '' : ` (${(n / ms / 1e6).toFixed(1)} G/s)`}`;
    });
    console.log(`${cols} columns, ${checkout}: ${cells.join(', ')}; bytes add up to ${found[i][0].sum}`);
  }
}
