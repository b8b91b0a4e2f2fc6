/**
 * The ABI of the wasm module as data: every function that JavaScript calls and every struct that it reads or writes.
 * web/border.h declares them in C; tests/js/abi.test.mjs compares both with each other and with web/exports.txt.
 */
import { OPTION_ROWS } from '../shared/generate-options.js';

/** Version of the ABI: BQ_ABI of c/bq.h. */
export const ABI = 3;
/**
 * BQW_THREADS and BQW_THREAD_STACK of web/border.h: the maximum number of threads, and the stack size of each in bytes.
 */
export const THREADS = 32;
export const THREAD_STACK = 65536;
/** Bits of bqw_token_flags. ENDS: the token ends a text; SPECIAL: the token is special and represents no text. */
export const [ENDS, SPECIAL] = [1, 2];

/**
 * Types of each function: first the result, then each argument. `s`: status; `u`: u32 (number, pointer or handle); `f`:
 * f64; `v`: void.
 * @type {Record<string, string>}
 */
export const functions = {
  bqw_abi: 'u',
  bqw_build: 'u',
  bqw_status_name: 'uu',
  bqw_status_hint: 'uu',
  bqw_error: 'u',
  bqw_init: 'suu',
  bqw_self_test: 'u',
  bqw_add_kernels: 'vu',
  bqw_heap: 'vu',
  bqw_alloc: 'uu',
  bqw_free: 'vu',
  bqw_plan_make: 'suufuuuuu',
  bqw_plan_paging: 'suufuuuufuuu',
  bqw_loader_create: 'sffuuuuu',
  bqw_loader_want: 'suu',
  bqw_loader_wrote: 'suu',
  bqw_loader_retry: 'su',
  bqw_loader_model: 'suu',
  bqw_loader_free: 'su',
  bqw_model_ready: 'uu',
  bqw_model_cluster: 'su',
  bqw_model_section: 'suuuu',
  bqw_tokenizer_info_get: 'suu',
  bqw_tokenize: 'suuuuuuuuu',
  bqw_token_text: 'uuuu',
  bqw_token_find: 'uuuu',
  bqw_token_flags: 'uuu',
  bqw_detokenize_limit: 'uu',
  bqw_detokenize: 'uuuuu',
  bqw_session_create: 'suuu',
  bqw_session_fork: 'suu',
  bqw_session_free: 'su',
  bqw_session_state_bytes: 'fu',
  bqw_session_save: 'sufuu',
  bqw_session_restore: 'suuu',
  bqw_session_adapter: 'suuf',
  bqw_session_skip: 'suuu',
  bqw_session_clusters: 'suu',
  bqw_session_sync: 'suuuu',
  bqw_session_append: 'suu',
  bqw_session_draft: 'suuuu',
  bqw_session_run: 'suu',
  bqw_session_run_with: 'suuuu',
  bqw_session_pages: 'suuuu',
  bqw_page_done: 'suuu',
  bqw_spread_from: 'vu',
  bqw_session_spread: 'uuuuuu',
  bqw_session_spread_done: 'vu',
  bqw_spread_multiply: 'suu',
  bqw_session_logits: 'suu',
  bqw_session_texts: 'suuuuuuu',
  bqw_session_second: 'suuu',
  bqw_session_vector: 'suuu',
  bqw_session_work_units: 'uu',
  bqw_session_rows: 'uu',
  bqw_session_work: 'fu',
  bqw_session_trace: 'suuu',
  bqw_rng_seed: 'vfu',
  bqw_session_sample: 'suuuu',
  bqw_thread_main: 'vu',
  bqw_thread_failed: 'vu',
  bqw_threads: 'suuu',
  bqw_threads_use: 'vu',
  bqw_threads_alone: 'u',
  bqw_threads_leave: 'v',
  bqw_measure_bytes: 'uuu',
  bqw_measure_prepare: 'vuuu',
  bqw_measure: 'vu',
  bqw_measure_empty: 'uuu',
  bqw_type_bytes: 'fuuff',
  bqw_encode: 'suuuuuuu',
  bqw_dequantize: 'suuuuuu',
  bqw_run_type: 'uu',
  bqw_repack: 'suuuuu',
  bqw_xxh64: 'fuuu',
  bqw_sha256: 'vuuuu',
};

/**
 * Statuses that are not errors. OK: the work is done; MORE: there is more work; WANT_DATA: C first needs data of the
 * file.
 */
export const OK = 0;
export const MORE = 1;
export const WANT_DATA = 2;
/** The u32 value for "no token" or "no index". */
export const NONE = 0xffffffff;

/**
 * Computes the layout of a struct from its fields: `name:kind`, or `name:kind*count` for arrays. Each field has its
 * natural alignment.
 * @param {string} text  fields in order, separated by white space
 */
function struct(text) {
  let end = 0;
  let align = 1;
  /** Offsets by name. @type {Record<string, number>} */
  const at = {};
  const fields = text
    .trim()
    .split(/\s+/)
    .map((field) => {
      const [name, kind, count] = field.split(/[:*]/);
      const bytes = Number(kind.slice(1)) / 8;
      const offset = Math.ceil(end / bytes) * bytes;
      align = Math.max(align, bytes);
      end = offset + bytes * Number(count ?? 1);
      at[name] = offset;
      return { name, kind: /** @type {'u32' | 'f32' | 'f64'} */ (kind), offset, count: Number(count ?? 1) };
    });
  return { size: Math.ceil(end / align) * align, fields, at };
}

export const structs = {
  bqw_error_record: struct('status:u32 pad:u32 offset:f64 detail:u8*248'),
  bqw_session_options: struct(
    'context:u32 window:u32 batch:u32 kv_type:u32 activations:u32 threads:u32 forks:u32 fork_positions:u32 drafts:u32 kv_window:u32 sinks:u32 head:f32 evict:u32',
  ),
  bqw_plan: struct(`file_bytes:f64 prefix_bytes:f64 weight_bytes:f64 model_bytes:f64 session_bytes:f64
    kv_bytes:f64 heap_bytes:f64 foreign:u32 layers:u32 hidden:u32 heads:u32 kv_heads:u32 head_dim:u32 ffn:u32
    vocab:u32 context:u32 arch:u32 tokens:u32 tied:u32 need:f64 token_weights:f64
    no_head:u32 bidirectional:u32 pooling:u32 normalize:u32 text_tokens:u32 lacks_kernels:u32
    key_bias:u32 vector_cols:u32 labels:u32 state_cols:u32 layer_embeds:u32 reserved:u32`),
  bqw_paging: struct(
    'model_bytes:f64 slot_bytes:f64 streamed_bytes:f64 paged:u32 head:u32 layers:u32 units:u32 reserved:u32*2',
  ),
  bqw_page: struct('offset:f64 dst:u32 bytes:u32 id:u32 reserved:u32'),
  bqw_spread: struct('n:u32 tokens:u32 cols:u32 activations:u32 panel:u32 panel_bytes:u32'),
  bqw_spread_rows: struct('weights:u32 bytes:u32 type:u32 rows:u32 y:u32 stride:u32'),
  bqw_want: struct('offset:f64 length:f64 dst:u32 dst_bytes:u32'),
  // Of c/bq.h. The first fields are options of `generate`, by their names there.
  bq_sample_options: struct(
    `${OPTION_ROWS.map(([name, row]) => (row.sampler ? `${name}:${row.sampler}` : '')).join(' ')} mask:u32 bias:u32
    n_bias:u32 hook_ctx:u32 hook_change:u32`,
  ),
  bq_logit_bias: struct('id:u32 bias:f32'),
  bqw_adapter_part: struct('a:u32 b:u32 rank:u32 scale:f32'),
  bqw_tokenizer_info: struct('kind:u32 tokens:u32 bos:u32 eos:u32 unk:u32 pad:u32 add_bos:u32 add_eos:u32'),
  bqw_heap_info: struct('used:f64 peak:f64 size:f64'),
  bqw_encode_errors: struct('sum:f64 squares:f64 most:f64'),
  bqw_stage: struct('ms:f64 calls:f64 weight_bytes:f64 kv_bytes:f64 macs:f64'),
};
