// Titles of visits in the report.

/** @typedef {{ visit: import('./cells.mjs').Visit }} Visited */

/** @type {Record<string, string>} */
const RUNTIME_TITLES = {
  bq4: '**bq4**',
  wllama: 'wllama',
  ort: 'onnxruntime-web',
  tjs: 'transformers.js',
  native: 'native llama.cpp',
  'llama-wasm': 'llama.cpp to wasm with SIMD, Node',
};
/** @type {Record<string, string>} */
export const PRECISION_TITLES = {
  'bq4h+bq8': '4-bit (f16 scales), 8-bit LM head',
  'bq4h+bq4h': 'all 4-bit (f16 scales)',
  'bq4+bq8': '4-bit (f32 scales), 8-bit LM head',
  q4_0: 'Q4_0, Q8_0 LM head',
  'q4_0-pure': 'Q4_0 pure',
  q8_0: 'Q8_0',
};
/** @type {Record<string, string>} */
const ONNX_TITLES = { fp32: 'f32', q8: 'int8, dynamic', q4: 'int4 (MatMulNBits)' };

/** Returns the title of a visit. @param {Visited} row */
export function titleOf({ visit }) {
  const { runtime, version, precision, variant, kv, browser } = visit;
  const isLlama = runtime === 'native' || runtime === 'llama-wasm'; // its version is that of the package
  const name = isLlama
    ? RUNTIME_TITLES[runtime] + (variant === 'no-amx' ? ', without AMX' : '')
    : `${RUNTIME_TITLES[runtime]} ${version}`.trim();
  const suffix =
    runtime === 'bq4' ? `, KV ${kv}${variant === 'simd128' ? ', SIMD128' : ''}${browser ? `, ${browser}` : ''}` : '';
  return `${name}, ${runtime === 'ort' || runtime === 'tjs' ? ONNX_TITLES[precision] : PRECISION_TITLES[precision]}${suffix}`;
}
