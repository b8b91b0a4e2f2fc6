/**
 * The functions of bq4-convert.wasm that other builds don't have (web/convert.h), in the notation of js/wasm/abi.js.
 */
import { functions } from '../wasm/abi.js';

/** @type {Record<string, string>} */
export const quantizing = {
  bqw_layer_cut: 'suuuu',
  bqw_layer_part: 'suuuuuuu',
  bqw_layer_page: 'suuu',
  bqw_inputs_add: 'vuuuuuu',
  bqw_weights: 'suuuu',
  bqw_moments_end: 'suufuu',
  bqw_drift_floats: 'fu',
  bqw_drift_make_good: 'vuuuuuu',
  bqw_round_floats: 'fuuu',
  bqw_round: 'suuuuuuuuuuu',
};
Object.assign(functions, quantizing);

/** URLs of that module and of its build with threads. */
export const CONVERT_URL = new URL('../../build/wasm/bq4-convert.wasm', import.meta.url).href;
export const CONVERT_THREADS_URL = new URL('../../build/wasm/bq4-convert-threads.wasm', import.meta.url).href;
