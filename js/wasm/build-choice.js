/**
 * Chooses a build by what the machine's WebAssembly can do, never by its name, and its kernels by a measurement.
 * The probes are whole modules of one function; `WebAssembly.validate` accepts them where the instruction exists.
 */
import { BqError } from '../shared/errors.js';
import { now as clock } from '../shared/timeouts.js';

const header = [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0]; // "\0asm", version 1
const type = [1, 5, 1, 0x60, 0, 1, 0x7b]; //            section 1: one type, () -> v128
const func = [3, 2, 1, 0]; //                           section 3: one function of that type
const splat = [0x41, 0, 0xfd, 0x0f]; //                 i32.const 0; i8x16.splat

/** @param {number[]} instructions */
function probe(instructions) {
  const body = [0, ...instructions, 0x0b]; // no locals … end
  return new Uint8Array([...header, ...type, ...func, 10, body.length + 2, 1, body.length, ...body]);
}

/** i8x16.splat */
export const SIMD128 = probe(splat);
/** i32x4.relaxed_dot_i8x16_i7x16_add_s: opcode 0xfd 0x113 */
export const RELAXED = probe([...splat, ...splat, ...splat, 0xfd, 0x93, 0x02]);

/**
 * Builds by their kernel tables: `relaxed` where the machine has a dot product of bytes into 32 bits (VNNI, Arm),
 * `relaxed16` where it has one into 16 bits (other x86), `simd128` everywhere.
 * @typedef {'relaxed' | 'relaxed16' | 'simd128'} Build
 */

/**
 * The build to run here and why, as far as that is known without a measurement.
 * @param {Build} [wanted]  asks for one build
 * @param {(bytes: Uint8Array<ArrayBuffer>) => boolean} [validate]
 * @returns {{ build: Build, reason: string }}
 */
export function pickBuild(
  wanted,
  validate = (bytes) => typeof WebAssembly === 'object' && WebAssembly.validate(bytes),
) {
  if (!validate(SIMD128)) throw new BqError('NO_SIMD', 'this browser has no WebAssembly SIMD');
  if (wanted === 'simd128') return { build: wanted, reason: 'asked for' };
  const relaxed = validate(RELAXED);
  if (wanted && !relaxed)
    throw new BqError('NO_SIMD', 'this browser has no relaxed SIMD', { hint: 'leave the choice of the build to bq4' });
  return relaxed
    ? { build: wanted ?? 'relaxed', reason: 'relaxed SIMD is available' }
    : { build: 'simd128', reason: 'relaxed SIMD is not available here' };
}

/** Why this thread can have no helpers; '' when it can. */
export function threadsBlocked() {
  if (typeof SharedArrayBuffer !== 'function' || globalThis.crossOriginIsolated === false)
    return 'memory can be shared only in a cross-origin isolated page';
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 1);
  } catch {
    return 'the thread of a page must not wait for others: use createWorkerEngine';
  }
  return '';
}

/*
 * A relaxed dot product is one instruction on some machines and several on others, which WebAssembly doesn't tell.
 * bq4-probe.wasm (web/probe.c) has the inner loop of each kernel table.
 */

/** As web/probe.c numbers them. @type {Build[]} */
export const TABLES = ['simd128', 'relaxed', 'relaxed16'];
/** The most milliseconds that timing may take. */
const PROBE_MS = 80;
/** Milliseconds of a sample, and ticks of the clock at least: pages that aren't isolated have coarse ones. */
const SAMPLE_MS = 0.5;
const TICKS = 5;
/**
 * Engines begin with quick code, which is no guide, and replace it while it runs, for all tables at once. SIMD128's, which has
 * the most instructions, then takes less than this share of before. So many rounds after that are enough; before, so many
 * have to be seen: the first one is cold, another one may be interrupted.
 */
const BETTER_CODE = 0.65;
const ROUNDS = 8;
const COLD_ROUNDS = 4;
/** How much faster another dot than that of `relaxed` must be. */
const WORTH = 1.05;

/** What `now` moves by, in milliseconds. @param {() => number} now */
function tickOf(now) {
  const since = now();
  let then = since;
  while (then === since) then = now();
  return then - since;
}

/**
 * The build whose dot product takes the least time for the same multiplications.
 * @param {(table: number) => unknown} multiply  by a number in TABLES
 * @param {() => number} [now]
 * @returns {Build}
 */
export function fastestBuild(multiply, now = clock) {
  const since = now();
  const sample = Math.max(SAMPLE_MS, TICKS * Math.min(tickOf(now), tickOf(now)));
  /** Milliseconds of a call. @param {number} table */
  const timed = (table) => {
    const start = now();
    let calls = 0;
    let ms = 0;
    for (; ms < sample; calls++, ms = now() - start) multiply(table);
    return ms / calls;
  };
  const least = TABLES.map(() => Infinity);
  let [rounds, left] = [0, ROUNDS];
  for (let better = false; left > 0 && now() - since < PROBE_MS; rounds++) {
    const before = least[0];
    const times = TABLES.map((_, table) => timed(table));
    if (!better && rounds >= COLD_ROUNDS && times[0] < before * BETTER_CODE) {
      better = true;
      least.fill(Infinity);
    }
    for (const [table, ms] of times.entries()) if (rounds > 0) least[table] = Math.min(least[table], ms);
    if (better) left--;
  }
  const relaxed = TABLES.indexOf('relaxed');
  const best = least.indexOf(Math.min(...least));
  return TABLES[least[relaxed] > least[best] * WORTH ? best : relaxed];
}
