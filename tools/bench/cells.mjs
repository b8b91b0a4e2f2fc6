// What is measured: a list of visits. A visit opens one runtime with one model and measures its cells once; visits are
// repeated in rounds. A cell is a prompt and the tokens decoded after it, so that decoding happens at that depth.
import { SHAPES } from '../make_random.mjs';

/**
 * @typedef {object} Cell
 * @property {number} prompt
 * @property {number} tokens
 */

/**
 * @typedef {object} Visit
 * @property {'us' | 'wllama' | 'ort' | 'tjs' | 'native' | 'kernels'} runtime
 * @property {string} version    of the runtime; '' for us: whatever is built
 * @property {string} precision  a name that models.mjs knows
 * @property {string} shape      of make_random.mjs; '' where there is no model
 * @property {number} threads
 * @property {string} kv         type of the KV cache
 * @property {string} [variant]  us: 'relaxed' or 'simd128'; native: 'best', or 'no-amx' for the best without AMX
 * @property {string} [browser]  default chromium
 * @property {Cell[]} cells
 */

/** A name for people and for --only; the identity of a visit across runs. @param {Visit} visit */
export function nameOf({ runtime, version, precision, shape, threads, kv, variant, browser }) {
  return [runtime + (version && ` ${version}`), precision, shape, `${threads}t`, `kv ${kv}`, variant, browser].filter(Boolean).join(' / ');
}

/** Tokens of context: what the largest cell needs, and room for warming up. @param {string} shape */
export const contextOf = (shape) => Math.min(SHAPES[shape].context, 2048);

/** Main type, then type of embedding and head. */
export const OURS = ['bq4h+bq8', 'bq4h+bq4h'];

/** @param {string} shape @returns {Cell[]} */
function ourCells(shape) {
  if (shape === '15m') return [{ prompt: 128, tokens: 64 }];
  if (shape === '500m') return [{ prompt: 128, tokens: 32 }, { prompt: 32, tokens: 16 }];
  return [{ prompt: 128, tokens: 64 }, { prompt: 512, tokens: 32 }, { prompt: 1900, tokens: 32 }];
}

const THREADS = [1, 2];

/** The same for `bench` and `bench:peers`. @param {string} shape @returns {Visit[]} */
function ours(shape) {
  const base = /** @type {const} */ ({ runtime: 'us', version: '', shape, kv: 'i8', variant: 'relaxed' });
  const cells = ourCells(shape);
  return THREADS.flatMap((threads) => OURS.map((precision, i) => ({ ...base, precision, threads, cells: i ? cells.slice(0, 1) : cells })));
}

/** What `bench` adds: other builds, KV types and browsers. @param {string} shape @param {string[]} browsers @returns {Visit[]} */
function variants(shape, browsers) {
  const cells = ourCells(shape);
  const [first] = cells;
  const base = /** @type {const} */ ({ runtime: 'us', version: '', precision: 'bq4h+bq8', shape, threads: 1, kv: 'i8', variant: 'relaxed' });
  return [
    { ...base, variant: 'simd128', cells: [first] },
    { ...base, precision: 'bq4+bq8', cells: [first] },
    ...['f32', 'f16'].map((kv) => ({ ...base, kv, cells: shape === '135m' ? [first, cells[2]] : [first] })),
    ...browsers.flatMap((browser) => THREADS.map((threads) => ({ ...base, threads, browser, cells: [first] }))),
  ];
}

/** @param {string} shape @returns {Visit[]} */
function native(shape) {
  const cells = ourCells(shape);
  const base = /** @type {const} */ ({ runtime: 'native', version: '3.22.1', shape, kv: 'f16', variant: 'best' });
  return THREADS.flatMap((threads) => [
    { ...base, precision: 'q4_0', threads, cells },
    { ...base, precision: 'q4_0-pure', threads, cells: cells.slice(0, 1) },
    ...(shape === '500m' ? [] : [{ ...base, precision: 'q8_0', threads, cells: cells.slice(0, 1) }]),
    { ...base, precision: 'q4_0', threads, variant: 'no-amx', cells: cells.slice(0, 2) },
    { ...base, precision: 'q4_0-pure', threads, variant: 'no-amx', cells: cells.slice(0, 1) },
  ]);
}

/** Slow ones get fewer tokens. @param {string} shape @returns {Visit[]} */
function wllama(shape) {
  return THREADS.flatMap((threads) => ['3.8.1', '2.3.7', '2.3.1'].flatMap((version) => {
    const precisions = shape === '500m' ? ['q4_0'] : ['q4_0', 'q8_0'];
    return precisions.map((precision) => {
      const cell = shape === '500m' ? { prompt: 32, tokens: 16 } : { prompt: 128, tokens: shape === '135m' ? 32 : 64 };
      return { runtime: /** @type {const} */ ('wllama'), version, precision, shape, threads, kv: 'f16', cells: [cell] };
    });
  }));
}

/** The ONNX runtimes; not at the 500m shape, whose f32 model has 2.5 GB. @param {string} shape @returns {Visit[]} */
function onnx(shape) {
  if (shape === '500m') return [];
  /** @type {[Visit['runtime'], string][]} */
  const runtimes = [['ort', '1.30.0'], ['tjs', '4.3.1']];
  return THREADS.flatMap((threads) => runtimes.flatMap(([runtime, version]) => ['q8', 'fp32', 'q4'].map((precision) => {
    const cells = [{ prompt: 128, tokens: precision === 'q4' ? 16 : 32 }];
    if (shape === '135m' && precision === 'q8') cells.push({ prompt: 512, tokens: 16 });
    return { runtime, version, precision, shape, threads, kv: 'f32', cells };
  })));
}

/** Loops over weights alone, and a plain read of them, in Node's V8: the roof over everything else. @returns {Visit} */
const kernels = () => ({ runtime: 'kernels', version: '', precision: 'all types', shape: '', threads: 1, kv: '-', cells: [] });

/**
 * @param {{ shapes: string[], peers: boolean, browsers?: string[], only?: string }} wanted
 * @returns {Visit[]}
 */
export function visitsOf({ shapes, peers, browsers = [], only }) {
  const all = shapes.flatMap((shape) => [
    ...ours(shape), ...(peers ? [...native(shape), ...wllama(shape), ...onnx(shape)] : variants(shape, browsers)),
  ]);
  const pattern = only && new RegExp(only);
  return [kernels(), ...all].filter((visit) => !pattern || pattern.test(nameOf(visit)));
}
