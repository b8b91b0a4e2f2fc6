// Titles of visits in the report.

/** @typedef {{ visit: import('./cells.mjs').Visit }} Visited */

/** @type {Record<string, string>} */
const NAMES = {
  us: '**bq4**',
  wllama: 'wllama',
  ort: 'onnxruntime-web',
  tjs: 'transformers.js',
  native: 'native llama.cpp',
  'llama-wasm': 'llama.cpp to wasm with SIMD, Node',
};
/** @type {Record<string, string>} */
export const PRECISIONS = {
  'bq4h+bq8': '4-bit (f16 scales), 8-bit head',
  'bq4h+bq4h': 'all 4-bit (f16 scales)',
  'bq4+bq8': '4-bit (f32 scales), 8-bit head',
  q4_0: 'Q4_0, Q8_0 head',
  'q4_0-pure': 'Q4_0 pure',
  q8_0: 'Q8_0',
};
/** @type {Record<string, string>} */
const ONNX = { fp32: 'f32', q8: 'int8, dynamic', q4: 'int4 (MatMulNBits)' };

/** @param {Visited} row */
export function titleOf({ visit }) {
  const { runtime, version, precision, variant, kv, browser } = visit;
  const llama = runtime === 'native' || runtime === 'llama-wasm'; // whose version is its package's
  const name = llama
    ? NAMES[runtime] + (variant === 'no-amx' ? ', AMX left out' : '')
    : `${NAMES[runtime]} ${version}`.trim();
  const extra =
    runtime === 'us' ? `, KV ${kv}${variant === 'simd128' ? ', SIMD128' : ''}${browser ? `, ${browser}` : ''}` : '';
  return `${name}, ${runtime === 'ort' || runtime === 'tjs' ? ONNX[precision] : PRECISIONS[precision]}${extra}`;
}
