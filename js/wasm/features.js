/**
 * Chooses a build by what the machine's WebAssembly can do, never by its name, and its kernels by a measurement.
 * The probes are whole modules of one function; `WebAssembly.validate` accepts them where the instruction exists.
 */
import { BqError } from '../shared/errors.js';

/** @import { Wasm } from './wasm.js' */

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
export function pickBuild(wanted, validate = (bytes) => typeof WebAssembly === 'object' && WebAssembly.validate(bytes)) {
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
 * the SIMD128 table is the faster one.
 */

/** One matrix product, of a batch: what the tables differ by is arithmetic, not memory. */
const PRODUCTS = 1;
const TOKENS = 4;
/**
 * Milliseconds for all of it. Engines begin with quick code, in which the relaxed table always wins, and make better code
 * of what is used much: here after 20 ms. So the least times count.
 */
const MEASURE_MS = 30;
const LEAST_ROUNDS = 3;
/** How much faster the other table must be to be taken. */
const WORTH = 1.05;

/** What measuring takes of the heap. */
export const MEASURE_BYTES = 2 << 20;

/** @param {Wasm} wasm */
function prepare(wasm) {
  const block = wasm.alloc(wasm.call('bqw_measure_bytes', PRODUCTS, TOKENS));
  wasm.call('bqw_measure_prepare', block, PRODUCTS, TOKENS);
  return block;
}

/**
 * Milliseconds of the same work with the build's own table and with the fallback, which it uses from then on.
 * @param {Wasm} wasm  of a relaxed build, with MEASURE_BYTES
 */
export function timeTables(wasm) {
  const own = prepare(wasm);
  wasm.check('bqw_fallback');
  const blocks = [own, prepare(wasm)];
  const least = [Infinity, Infinity];
  const since = performance.now();
  for (let round = 0; round < LEAST_ROUNDS || performance.now() - since < MEASURE_MS; round++)
    blocks.forEach((block, i) => {
      const start = performance.now();
      wasm.call('bqw_measure', block);
      least[i] = Math.min(least[i], performance.now() - start);
    });
  return { own: least[0], fallback: least[1] };
}

/** @param {{ own: number, fallback: number }} times */
export const fallbackIsFaster = ({ own, fallback }) => own > fallback * WORTH;
