/**
 * Chooses a build by what the machine's WebAssembly can do, never by its name, and its kernels by a measurement.
 * The probes are whole modules of one function; `WebAssembly.validate` accepts them where the instruction exists.
 */
import { BqError } from '../shared/errors.js';

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
 * The build to run here and why.
 * @param {'relaxed' | 'simd128' | undefined} [wanted]  asks for one build
 * @param {(bytes: Uint8Array<ArrayBuffer>) => boolean} [validate]
 * @returns {{ build: 'relaxed' | 'simd128', reason: string }}
 */
export function pickBuild(
  wanted,
  validate = (bytes) => typeof WebAssembly === 'object' && WebAssembly.validate(bytes),
) {
  if (!validate(SIMD128)) throw new BqError('NO_SIMD', 'this browser has no WebAssembly SIMD');
  if (wanted === 'simd128') return { build: wanted, reason: 'asked for' };
  const relaxed = validate(RELAXED);
  if (wanted === 'relaxed' && !relaxed)
    throw new BqError('NO_SIMD', 'this browser has no relaxed SIMD', { hint: 'leave the choice of the build to bq4' });
  return relaxed
    ? { build: 'relaxed', reason: 'relaxed SIMD is available' }
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
 * The relaxed dot product is one instruction on some machines and three on others, which WebAssembly doesn't tell: there
 * the SIMD128 build is the faster one. bq4-probe.wasm (web/probe.c) has the inner loop of both.
 */

/** The most milliseconds that timing may take. */
const PROBE_MS = 30;
/**
 * Engines begin with quick code, which is no guide, and replace it while it runs: it then becomes at least this many
 * times as fast. So many rounds after that are enough.
 */
const BETTER_CODE = 2;
const ROUNDS = 8;
/** How much faster the SIMD128 dot must be. */
const WORTH = 1.05;

/**
 * Whether the same multiplications take longer with the relaxed dot product.
 * @param {(relaxed: 0 | 1) => unknown} multiply
 */
export function relaxedIsSlower(multiply) {
  const least = [Infinity, Infinity];
  /** @type {number[] | undefined} */
  let first;
  const since = performance.now();
  for (let rounds = 0; rounds < ROUNDS && performance.now() - since < PROBE_MS;) {
    for (const relaxed of /** @type {const} */ ([0, 1])) {
      const start = performance.now();
      multiply(relaxed);
      least[relaxed] = Math.min(least[relaxed], performance.now() - start);
    }
    first ??= [...least];
    if (least.some((ms, i) => ms * BETTER_CODE < /** @type {number[]} */ (first)[i])) rounds++;
  }
  return least[1] > least[0] * WORTH;
}
