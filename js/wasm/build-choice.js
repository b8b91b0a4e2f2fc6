/**
 * Chooses the build of the engine for this machine. The first criterion is the WebAssembly instructions that the
 * runtime accepts, never the name of the browser. Then a measurement finds the build with the fastest kernels.
 *
 * A probe is a complete module with one function. `WebAssembly.validate` accepts it if the runtime has its
 * instructions.
 */
import { BqError } from '../shared/errors.js';
import { now as clock } from '../shared/timeouts.js';

const header = [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0]; // "\0asm", version 1
const type = [1, 5, 1, 0x60, 0, 1, 0x7b]; //            section 1: one type, () -> v128
const func = [3, 2, 1, 0]; //                           section 3: one function of that type
const splat = [0x41, 0, 0xfd, 0x0f]; //                 i32.const 0; i8x16.splat

/** Returns a module whose only function has these instructions. @param {number[]} instructions */
function probe(instructions) {
  const body = [0, ...instructions, 0x0b]; // 0 locals, the instructions, end
  return new Uint8Array([...header, ...type, ...func, 10, body.length + 2, 1, body.length, ...body]);
}

/** Probe of SIMD: i8x16.splat. */
export const SIMD128 = probe(splat);
/** Probe of relaxed SIMD: i32x4.relaxed_dot_i8x16_i7x16_add_s, opcode 0xfd 0x113. */
export const RELAXED = probe([...splat, ...splat, ...splat, 0xfd, 0x93, 0x02]);

/**
 * Builds differ in the instructions of their kernels. `relaxed` is the fastest on machines with a dot product of bytes
 * that accumulates in 32 bits (VNNI, Arm), `relaxed16` on machines where it accumulates in 16 bits (other x86).
 * `simd128` runs on all machines.
 * @typedef {'relaxed' | 'relaxed16' | 'simd128'} Build
 */

/**
 * Returns the build to use without a measurement, and the reason. Throws NO_SIMD if the runtime lacks the instructions.
 * @param {Build} [requested]  the caller's choice
 * @param {(bytes: Uint8Array<ArrayBuffer>) => boolean} [validate]  for tests
 * @returns {{ build: Build, reason: string }}
 */
export function pickBuild(
  requested,
  validate = (bytes) => typeof WebAssembly === 'object' && WebAssembly.validate(bytes),
) {
  if (!validate(SIMD128)) throw new BqError('NO_SIMD', 'this browser has no WebAssembly SIMD');
  if (requested === 'simd128') return { build: requested, reason: 'requested by the option build' };
  const relaxed = validate(RELAXED);
  if (requested && !relaxed)
    throw new BqError('NO_SIMD', 'this browser has no relaxed SIMD', { hint: 'omit the option build' });
  return relaxed
    ? { build: requested ?? 'relaxed', reason: 'relaxed SIMD is available' }
    : { build: 'simd128', reason: 'relaxed SIMD is not available here' };
}

/** Returns the reason why this thread can't start threads that share memory; '' if it can. */
export function threadsBlocked() {
  if (typeof SharedArrayBuffer !== 'function' || globalThis.crossOriginIsolated === false)
    return 'memory can be shared only in a cross-origin isolated page';
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 1);
  } catch {
    return 'the main thread of a page must not block: use createWorkerEngine';
  }
  return '';
}

/*
 * The measurement. A relaxed dot product is one machine instruction on some machines and several on others, and a
 * WebAssembly program can't query which. bq4-probe.wasm (web/probe.c) contains the inner loop of each build's kernels.
 */

/** The builds in the order of web/probe.c. @type {Build[]} */
export const MEASURED_BUILDS = ['simd128', 'relaxed', 'relaxed16'];
/** Time limit of the measurement, in milliseconds. */
const MEASURE_MS = 80;
/**
 * Minimum length of a sample, in milliseconds and in clock ticks. Clocks are coarse in pages that aren't cross-origin
 * isolated.
 */
const SAMPLE_MS = 0.5;
const SAMPLE_TICKS = 5;
/**
 * JavaScript engines first run code of a baseline compiler, whose speed is not representative. While it runs they
 * replace it by optimized code, for all builds at once. The replacement is detected with simd128, which has the most
 * instructions: its time falls below OPTIMIZED_SHARE of its former time. WARM_ROUNDS rounds after that are sufficient.
 * At least COLD_ROUNDS rounds must precede it, since the first round is cold and another one may be interrupted.
 */
const OPTIMIZED_SHARE = 0.65;
const WARM_ROUNDS = 8;
const COLD_ROUNDS = 4;
/** Smallest speedup over `relaxed` for which another build is chosen. */
const MIN_SPEEDUP = 1.05;

/** Measures the resolution of a clock, in milliseconds. @param {() => number} now */
function clockTick(now) {
  const start = now();
  let end = start;
  while (end === start) end = now();
  return end - start;
}

/**
 * Measures which build has the fastest dot product.
 * @param {(build: number) => unknown} multiply  runs the dot product of a build, given by its index in MEASURED_BUILDS
 * @param {() => number} [now]
 * @returns {Build}
 */
export function fastestBuild(multiply, now = clock) {
  const start = now();
  const sampleMs = Math.max(SAMPLE_MS, SAMPLE_TICKS * Math.min(clockTick(now), clockTick(now)));
  /** Measures the milliseconds of one call. @param {number} build */
  const timeCall = (build) => {
    const begin = now();
    let calls = 0;
    let ms = 0;
    for (; ms < sampleMs; calls++, ms = now() - begin) multiply(build);
    return ms / calls;
  };
  /** The shortest time of each build. */
  const shortest = MEASURED_BUILDS.map(() => Infinity);
  let [rounds, warmRounds] = [0, 0];
  for (let optimized = false; warmRounds < WARM_ROUNDS && now() - start < MEASURE_MS; rounds++) {
    const before = shortest[0];
    const times = MEASURED_BUILDS.map((_, build) => timeCall(build));
    if (!optimized && rounds >= COLD_ROUNDS && times[0] < before * OPTIMIZED_SHARE) {
      optimized = true;
      shortest.fill(Infinity);
    }
    for (const [build, ms] of times.entries()) if (rounds > 0) shortest[build] = Math.min(shortest[build], ms);
    if (optimized) warmRounds++;
  }
  const relaxed = MEASURED_BUILDS.indexOf('relaxed');
  const best = shortest.indexOf(Math.min(...shortest));
  return MEASURED_BUILDS[shortest[relaxed] > shortest[best] * MIN_SPEEDUP ? best : relaxed];
}
