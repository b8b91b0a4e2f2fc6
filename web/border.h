/* The ABI between WebAssembly and JavaScript: all functions that JavaScript calls, and the structs
 * that it reads and writes (js/wasm/wasm.js). Their parameters are integers, floats and pointers.
 * An instance of the module is one engine with one heap, of exactly the size that was planned.
 *
 * - A function that can fail returns a bq_status; bqw_error() then points to the last error.
 * - File offsets and sizes are f64 (exact to 2^53), pointers and handles u32.
 * - A handle is a number that is never used twice. Every function returns ARGUMENT for an unknown
 *   or closed handle; the comments below omit it.
 * - Names in capitals in a comment are the statuses that a function returns besides OK. *Bad file*
 *   stands for FORMAT, TRUNCATED, CHECKSUM, UNSUPPORTED and SHAPE.
 * - Fields of structs are 4 or 8 bytes, naturally aligned. Their comments begin with the offset.
 *   bq_sample_options and bq_logit_bias are those of bq.h; their pointers are u32.
 *
 * exports.txt and js/wasm/abi.js list the same names; tests/js/abi.test.mjs compares them. */
#ifndef BQW_BORDER_H
#define BQW_BORDER_H

#include "bq.h"

/* Maximum threads of an instance, and the stack of each except the first. */
#define BQW_THREADS 32u
#define BQW_THREAD_STACK 65536u

#define BQW(type) __attribute__((visibility("default"), used)) type

typedef struct bqw_error_record { /* 264 bytes */
  uint32_t status;                /* 0 */
  uint32_t pad;                   /* 4 */
  double offset;                  /* 8: -1: no offset */
  char detail[248];               /* 16: UTF-8, terminated */
} bqw_error_record;

typedef struct bqw_session_options { /* 52 bytes */
  uint32_t context, window, batch, kv_type, activations;
  uint32_t threads;               /* number for which memory is planned; 0: one. Sessions use the
                                     number set by bqw_threads */
  uint32_t forks, fork_positions; /* of each session: bq_session_options */
  uint32_t drafts;                /* maximum tokens of bqw_session_draft */
  uint32_t kv_window, sinks;
  float head;
  uint32_t evict;
} bqw_session_options;

typedef struct bqw_plan { /* 168 bytes */
  double file_bytes;      /* 0 */
  double prefix_bytes;    /* 8 */
  double weight_bytes;    /* 16 */
  double model_bytes;     /* 24 */
  double session_bytes;   /* 32 */
  double kv_bytes;        /* 40 */
  double heap_bytes;      /* 48: the region bqw_init needs for the model and `sessions` sessions,
                             without static data and stack (JS adds the heap base) */
  uint32_t foreign;       /* 56: 1: a file of another format, described by a manifest */
  uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, context; /* 60 … 88 */
  uint32_t arch;          /* 92 */
  uint32_t tokens;        /* 96: of the tokenizer; 0: the model has no tokenizer */
  uint32_t tied;          /* 100 */
  double need;            /* 104: after WANT_DATA: number of bytes needed from the file's start */
  double token_weights;   /* 112: weights that every token is multiplied with */
  uint32_t no_head, bidirectional; /* 120, 124 */
  uint32_t pooling, normalize, text_tokens; /* 128 … 136: of its embeddings, as in bq_config */
  uint32_t lacks_kernels; /* 140: 1: some weights are of types that need bqw_add_kernels */
  uint32_t key_bias;      /* 144: 1: keys have a bias, for which an f16 cache is better than i8 */
  uint32_t vector_cols;   /* 148: floats of a pooled vector */
  uint32_t labels;        /* 152: 1: pooled vectors are logits of labels */
  uint32_t state_cols;    /* 156: floats per token in the buffers of a recurrence, or 0 */
  uint32_t layer_embeds;  /* 160: floats per token in the table of per-layer embeddings, or 0 */
  uint32_t reserved;      /* 164 */
} bqw_plan;

/* The residency and cost of a paged model (bq_paging). bqw_plan_paging fills it in; it is then
 * passed to bqw_loader_create unchanged. */
typedef struct bqw_paging { /* 48 bytes */
  double model_bytes;     /* 0 */
  double slot_bytes;      /* 8: of one of the two buffers */
  double streamed_bytes;  /* 16: read for each generated token */
  uint32_t paged;         /* 24: 0: all weights stay in memory */
  uint32_t head;          /* 28: 1: the LM head stays in memory */
  uint32_t layers;        /* 32: number of layers that stay in memory */
  uint32_t units;         /* 36: number of reads for each generated token */
  uint32_t reserved[2];   /* 40 */
} bqw_paging;

/* bq_page: a read for a paged model. */
typedef struct bqw_page { /* 24 bytes */
  double offset;          /* 0: in the file */
  uint32_t dst, bytes;    /* 8, 12 */
  uint32_t id;            /* 16 */
  uint32_t reserved;      /* 20 */
} bqw_page;

/* bq_spread: matmuls with one input, a part of whose rows this instance computes; and one of these
 * matmuls (bq_spread_rows). */
typedef struct bqw_spread { /* 24 bytes */
  uint32_t n, tokens, cols; /* 0, 4, 8: number of matmuls; rows and columns of their input */
  uint32_t activations;     /* 12 */
  uint32_t panel, panel_bytes; /* 16, 20 */
} bqw_spread;

typedef struct bqw_spread_rows { /* 24 bytes */
  uint32_t weights, bytes;  /* 0, 4 */
  uint32_t type, rows;      /* 8, 12 */
  uint32_t y, stride;       /* 16, 20 */
} bqw_spread_rows;

/* bq_want: the bytes of the file that a loader needs next. */
typedef struct bqw_want { /* 24 bytes */
  double offset;          /* 0 */
  double length;          /* 8: 0: loading is complete */
  uint32_t dst;           /* 16 */
  uint32_t dst_bytes;     /* 20 */
} bqw_want;

/* bq_lora: the adapter of one matrix. */
typedef struct bqw_adapter_part { /* 16 bytes */
  uint32_t a, b;          /* 0, 4: addresses of f32, 16-byte aligned */
  uint32_t rank;          /* 8 */
  float scale;            /* 12 */
} bqw_adapter_part;

typedef struct bqw_tokenizer_info { /* 32 bytes */
  uint32_t kind, tokens, bos, eos, unk, pad, add_bos, add_eos;
} bqw_tokenizer_info;

typedef struct bqw_heap_info { /* 24 bytes */
  double used, peak, size; /* bytes of the region */
} bqw_heap_info;

/* Statistics of |weight - decoded weight|, accumulated: sum, sum of squares, maximum. */
typedef struct bqw_encode_errors { /* 24 bytes */
  double sum, squares, most;
} bqw_encode_errors;

/* A stage of one layer in a trace, accumulated since the trace began. */
typedef struct bqw_stage { /* 40 bytes */
  double ms;              /* 0 */
  double calls;           /* 8 */
  double weight_bytes, kv_bytes, macs; /* 16, 24, 32: bq_work */
} bqw_stage;

/* Version of the ABI; names and hints of statuses; the last error. Strings are static, terminated
 * by 0. */
uint32_t bqw_abi(void);
const char *bqw_build(void);            /* name of the kernel table: "relaxed", … */
const char *bqw_status_name(uint32_t status);
const char *bqw_status_hint(uint32_t status);
bqw_error_record *bqw_error(void);

/* Known-answer test of the kernels; 1 = passed. May be called before bqw_init. */
uint32_t bqw_self_test(void);
/* Adds the optional kernels, for rarely used weight types. function: index in this instance's
 * function table of bq_rare_matmul, a function of their module. Call before any model is loaded. */
void bqw_add_kernels(uint32_t function);

/* Sets the heap: all memory is allocated from [base, base + bytes). NOMEM; STATE: it was called
 * before. */
uint32_t bqw_init(uint32_t base, uint32_t bytes);
void bqw_heap(bqw_heap_info *out);
/* Allocates a block for data on the way in or out, such as prompts, text and masks. The plan
 * reserves memory for it. Returns its address; 0: no memory. */
uint32_t bqw_alloc(uint32_t bytes);
void bqw_free(uint32_t ptr);

/* Plans a model with `sessions` sessions (bq_plan_make). `options`: NULL: defaults. WANT_DATA sets
 * out->need. ARGUMENT: options out of range; NOMEM: more than the machine can address; bad file. */
uint32_t bqw_plan_make(const uint8_t *bytes, uint32_t n, double file_bytes, const uint8_t *manifest,
                       uint32_t manifest_bytes, const bqw_session_options *options,
                       uint32_t sessions, bqw_plan *out);

/* As bqw_plan_make, within a budget in bytes for the sum of heap_bytes and host_slots * slot_bytes
 * (bq_plan_paging). Also NOMEM: the budget is too small even if all weights are paged; UNSUPPORTED:
 * these weights can't be paged. */
uint32_t bqw_plan_paging(const uint8_t *bytes, uint32_t n, double file_bytes,
                         const uint8_t *manifest, uint32_t manifest_bytes,
                         const bqw_session_options *options, uint32_t sessions, double budget,
                         uint32_t host_slots, bqw_paging *paging, bqw_plan *out);

/* Creates a loader. manifest: a block from bqw_alloc, owned by the loader from this call on, also
 * on failure. integrity: 32 bytes, or NULL. paging: NULL: all weights stay in memory. NOMEM,
 * ARGUMENT; with a manifest, which is read at once, also FORMAT, SHAPE, UNSUPPORTED, TRUNCATED. */
uint32_t bqw_loader_create(double file_bytes, double prefix_hint, const uint8_t *manifest,
                           uint32_t manifest_bytes, const uint8_t *integrity,
                           const bqw_paging *paging, uint32_t *out);
/* Returns the next bytes to read. A loader that failed returns the same status again: NOMEM,
 * INTEGRITY, bad file. */
uint32_t bqw_loader_want(uint32_t loader, bqw_want *out);
/* Reports that the first n bytes of the last want are at its dst. ARGUMENT: n > dst_bytes;
 * otherwise as bqw_loader_want. */
uint32_t bqw_loader_wrote(uint32_t loader, uint32_t n);
/* After CHECKSUM (or INTEGRITY of a prefix): goes back, so that the next want has the same bytes
 * again. STATE: nothing has failed. Other errors are final and returned again. */
uint32_t bqw_loader_retry(uint32_t loader);
/* *out = a handle of the loader's model. STATE: the prefix has not arrived; the error of a failed
 * load; NOMEM: no handle is free. */
uint32_t bqw_loader_model(uint32_t loader, uint32_t *out);
/* Frees the loader and its model, and closes their handles. */
uint32_t bqw_loader_free(uint32_t loader);

/* Number of stages that can be computed; layers + 2: all. 0 for an unknown model too. */
uint32_t bqw_model_ready(uint32_t model);
/* bq_model_cluster, before a session with options.head runs. STATE, UNSUPPORTED, NOMEM. */
uint32_t bqw_model_cluster(uint32_t model);
/* *out = address of a section's payload (0: none), *bytes = its length; tag: little-endian u32. */
uint32_t bqw_model_section(uint32_t model, uint32_t tag, uint32_t *out, uint32_t *bytes);

/* Returns facts about the tokenizer. STATE: the model has no tokenizer. */
uint32_t bqw_tokenizer_info_get(uint32_t model, bqw_tokenizer_info *out);
/* Tokenizes UTF-8 text. flags: sum of 1 (adds BOS and EOS as the model requires), 2 (recognizes
 * special tokens in the text), 4 (the text continues another one). plain: [n_plain][2] begin and
 * end of byte ranges, rising, in which no special token is recognized. Scratch is allocated from
 * the heap during the call. STATE: no tokenizer; NOMEM: no memory for the scratch; ARGUMENT: there
 * are *count ids, more than `capacity`. */
uint32_t bqw_tokenize(uint32_t model, const char *text, uint32_t bytes, uint32_t flags,
                      uint32_t *ids, uint32_t capacity, uint32_t *count, const uint32_t *plain,
                      uint32_t n_plain);
/* Address of a token's text, special tokens included; *bytes = its length, 0 without a tokenizer.
 */
uint32_t bqw_token_text(uint32_t model, uint32_t id, uint32_t *bytes);
/* The id of a token with this text, or 0xFFFFFFFF. */
uint32_t bqw_token_find(uint32_t model, const char *text, uint32_t bytes);
/* Properties of a token, sum of 1 (ends generation) and 2 (is special). */
uint32_t bqw_token_flags(uint32_t model, uint32_t id);
/* Converts a stream of tokens to text. `state` is a bq_detokenizer (8 bytes, zeroed to start, byte
 * 6: whether to keep a leading space). Returns the number of bytes written to out, at most
 * bqw_detokenize_limit(). id 0xFFFFFFFF writes the rest. Both return 0 without a tokenizer. */
uint32_t bqw_detokenize_limit(uint32_t model);
uint32_t bqw_detokenize(uint32_t model, uint8_t *state, uint32_t id, char *out);

/* bq_session_create. ARGUMENT: options out of range; NOMEM: no memory, or no handle is free. */
uint32_t bqw_session_create(uint32_t model, const bqw_session_options *options, uint32_t *out);
/* bq_session_fork: *out = a copy of the session that continues independently. NO_SESSION. */
uint32_t bqw_session_fork(uint32_t session, uint32_t *out);
uint32_t bqw_session_free(uint32_t session);
/* Saved sessions (bq.h): the size of the state; copying bytes [at, at + n) of it (ARGUMENT,
 * UNSUPPORTED); restoring it from its next n bytes (MORE until all have arrived, then OK; FORMAT,
 * UNSUPPORTED, MISMATCH, CONTEXT_FULL, NOMEM). */
double bqw_session_state_bytes(uint32_t session); /* -1: no such session */
uint32_t bqw_session_save(uint32_t session, double at, uint8_t *out, uint32_t n);
uint32_t bqw_session_restore(uint32_t session, const uint8_t *bytes, uint32_t n);
/* bq_session_set_adapter: parts [layers][7], or 0 to remove it; key: below 2^53. SHAPE, NO_SESSION.
 */
uint32_t bqw_session_adapter(uint32_t session, const bqw_adapter_part *parts, double key);
/* bq_session_skip. ARGUMENT. */
uint32_t bqw_session_skip(uint32_t session, const uint32_t *layers, uint32_t n);
/* bq_session_clusters: 1 or 0. */
uint32_t bqw_session_clusters(uint32_t session, uint32_t on);
/* bq_session_sync. ARGUMENT: no tokens, or one outside the vocabulary; CONTEXT_FULL. */
uint32_t bqw_session_sync(uint32_t session, const uint32_t *tokens, uint32_t n, uint32_t *kept);
/* bq_session_append; statuses as bqw_session_sync. */
uint32_t bqw_session_append(uint32_t session, uint32_t token);
/* bq_session_draft: the next run computes the first *taken of n draft tokens. */
uint32_t bqw_session_draft(uint32_t session, const uint32_t *tokens, uint32_t n, uint32_t *taken);
/* bq_session_run; work_units 0: no limit. The module imports env.stop, which is called between two
 * work units: non-zero ends the run with MORE. WANT_DATA: weights or pages are missing; STATE:
 * there are no tokens. */
uint32_t bqw_session_run(uint32_t session, uint32_t work_units);
/* bq_session_run_with: one forward batch with n other sessions, at most BQW_TOGETHER. */
enum { BQW_TOGETHER = 15 };
uint32_t bqw_session_run_with(uint32_t session, const uint32_t *others, uint32_t n,
                              uint32_t work_units);
/* bq_session_pages: *count pages to read for a session of a paged model, at most `capacity`. Report
 * each with bqw_page_done. */
uint32_t bqw_session_pages(uint32_t session, bqw_page *out, uint32_t capacity, uint32_t *count);
/* Reports a page; good 0: it could not be read. ARGUMENT: no such page is being read. */
uint32_t bqw_page_done(uint32_t model, uint32_t id, uint32_t good);
/* Sets the smallest number of tokens for which matmuls are spread, for all existing and future
 * sessions; 0: never. */
void bqw_spread_from(uint32_t tokens);
/* bq_session_spread, rows [BQ_SPREAD_MAX]: returns the number of matmuls; 0: the last run did not
 * stop for any. */
uint32_t bqw_session_spread(uint32_t session, uint32_t part, uint32_t parts, bqw_spread *out,
                            bqw_spread_rows *rows);
void bqw_session_spread_done(uint32_t session);
/* bq_spread_multiply; all addresses are in the memory of the instance that computes. NOMEM;
 * UNSUPPORTED: the build has threads; ARGUMENT. */
uint32_t bqw_spread_multiply(const bqw_spread *work, const bqw_spread_rows *rows);
/* *out = address of the logits, f32 [vocab]. STATE: the last run has not finished. */
uint32_t bqw_session_logits(uint32_t session, uint32_t *out);
/* bq_session_texts: requests a pooled vector for each of the first *taken of n texts. Text i has
 * lengths[i] tokens; `tokens` has the texts one after the other. Discards the sequence.
 * CONTEXT_FULL, ARGUMENT. */
uint32_t bqw_session_texts(uint32_t session, const uint32_t *tokens, const uint32_t *lengths,
                           uint32_t n, uint32_t pooling, uint32_t normalize, uint32_t *taken);
/* bq_session_second: where the second part of each text begins. STATE. */
uint32_t bqw_session_second(uint32_t session, const uint32_t *at, uint32_t n);
/* *out = address of the vector of a text, f32 (bq_session_vector). STATE: no vector was requested,
 * or the run has not finished. */
uint32_t bqw_session_vector(uint32_t session, uint32_t text, uint32_t *out);
/* Number of work units computed since the session was created; 0 for an unknown session. */
uint32_t bqw_session_work_units(uint32_t session);
/* Rows of the open forward batch, or of the next one; and the work since the session was created:
 * the sum of bytes read and multiply-accumulates, which take about the same time. 0 for an unknown
 * session. */
uint32_t bqw_session_rows(uint32_t session);
double bqw_session_work(uint32_t session);
/* Measures the time of each stage. todo: 0: off, 1: start from zero, 2: query. *out = address of
 * bqw_stage [layers][BQ_STAGE_COUNT], 0 if the trace is off; stages outside layers are in layer 0.
 * The module imports env.now, in milliseconds. The stage HOST has the time between calls since the
 * last bqw_session_sync. NOMEM. */
uint32_t bqw_session_trace(uint32_t session, uint32_t todo, uint32_t *out);
void bqw_rng_seed(double seed, uint64_t *state);              /* 8 bytes of state */
/* bq_session_sample: picks the next token. The caller may change the logits in place before
 * (bqw_session_logits). STATE: there are no logits; NO_TOKEN: all tokens are banned; ARGUMENT: a
 * bias outside the vocabulary. */
uint32_t bqw_session_sample(uint32_t session, const bq_sample_options *options, uint64_t *state,
                            uint32_t *token);

/* Threads, in builds with shared memory; the other builds have only the calling thread. For each
 * further thread, JavaScript starts an instance of the module in a worker, over the same memory,
 * with a stack of BQW_THREAD_STACK bytes (counted in the plan), and calls bqw_thread_main there
 * with an index from 1 on. A *region* is a piece of work that the calling thread divides among all
 * threads. */
void bqw_thread_main(uint32_t index);   /* returns after bqw_threads_leave */
/* Reports a trap in another thread's instance; called in that instance. The thread that runs the
 * region then traps as well. */
void bqw_thread_failed(uint32_t index);
/* Sets the number of threads of later regions. All of them must have been started, and will call
 * bqw_thread_main soon. A waiting thread polls `spins` times before it sleeps. `alone` 1: if cores
 * are busy with other programs, the caller computes regions alone for a while. ARGUMENT. */
uint32_t bqw_threads(uint32_t threads, uint32_t spins, uint32_t alone);
/* Sets how many of these threads take part in regions from now on, 1 to all; the others sleep.
 * Sessions keep scratch for all. */
void bqw_threads_use(uint32_t threads);
/* Number of regions so far that the caller computed alone because cores were busy. */
uint32_t bqw_threads_alone(void);
void bqw_threads_leave(void);           /* from now on one thread; the others return */
/* Benchmark for choosing threads and kernels: `products` matmuls as large as a layer's, with a
 * batch of `tokens` tokens (at most 8 of either), one region each. The block has
 * bqw_measure_bytes() bytes and belongs to the kernel table that was in use when it was prepared.
 */
uint32_t bqw_measure_bytes(uint32_t products, uint32_t tokens);
void bqw_measure_prepare(uint8_t *block, uint32_t products, uint32_t tokens);
void bqw_measure(uint8_t *block);
/* Benchmark and test of the threads: runs regions without work, each with the given number of
 * barriers. Returns the number of phases that all threads have finished: each thread finishes
 * barriers + 1 per region. 0: a thread passed a barrier before all had reached it. */
uint32_t bqw_measure_empty(uint32_t regions, uint32_t barriers);

/* Bytes of a matrix; type and layout as in docs/FORMAT.md; -1: there is no such matrix. */
double bqw_type_bytes(uint32_t type, uint32_t layout, double rows, double cols);
/* Only in the modules for converters: encodes f32 [rows][cols] as blocks (errors: NULL, or added
 * to), and decodes them. ARGUMENT: there is no such type or layout. */
uint32_t bqw_encode(uint32_t type, uint32_t layout, const float *src, uint32_t rows, uint32_t cols,
                    uint8_t *dst, bqw_encode_errors *errors);
uint32_t bqw_dequantize(uint32_t type, uint32_t layout, const uint8_t *src, uint32_t rows,
                        uint32_t cols, float *dst);

/* The compute type of a storage type; BQ_TYPE_COUNT: this version can't read the type. */
uint32_t bqw_run_type(uint32_t stored);
/* Converts rows of stored blocks to tiles of the compute type, whose size is bqw_type_bytes of that
 * type and BQ_TILED. ARGUMENT: the type is unreadable or not converted to tiles; FORMAT: a scale is
 * not finite, at the error's offset in `src`; NOMEM. */
uint32_t bqw_repack(uint32_t stored, const uint8_t *src, uint32_t rows, uint32_t cols,
                    uint8_t *dst);
double bqw_xxh64(const uint8_t *bytes, uint32_t n, uint64_t *out); /* hash to *out; returns 0 */
/* Adds bytes to a SHA-256; `state` is 104 bytes, zeros to begin with. out: NULL, or 32 bytes that
 * receive the hash of all bytes so far. */
void bqw_sha256(uint8_t *state, const uint8_t *bytes, uint32_t n, uint8_t *out);

#endif
