/* bq4: language models on the CPU. The public C interface.
 *
 *   bytes -> bq_loader -> bq_model -> bq_session -> logits -> bq_session_sample -> ids -> text
 *
 * An example without error handling; `a` is a bq_allocator, read_file belongs to the caller:
 *
 *   bq_loader_create(&(bq_loader_options){.allocator = a}, &loader, &err);
 *   for (bq_want w; bq_loader_want(loader, &w, &err) == BQ_OK && w.length;)
 *     bq_loader_wrote(loader, read_file(w.offset, w.dst, w.dst_bytes), &err);
 *   bq_loader_model(loader, &model, &err);
 *   bq_session_create(model, NULL, a, &session, &err);
 *   bq_session_sync(session, prompt, n, NULL, &err);
 *   for (;;) {
 *     while (bq_session_run(session, 0, &err) == BQ_MORE) continue;
 *     bq_session_sample(session, NULL, NULL, &token, &err);
 *     bq_session_append(session, token, &err);
 *   }
 *
 * A loader accepts the bytes of a .bq4 file in pieces of any size and reports which bytes are
 * needed next (bq_loader_want). It does no I/O of its own. A model is immutable once all its bytes
 * have arrived, and usable before: a session then stops with WANT_DATA at the first layer that is
 * missing, and continues after the loader has received more bytes. A session is one token sequence
 * and its KV cache; many sessions may share one model. There is no global state, and no function
 * allocates memory after the create functions.
 *
 * Conventions:
 * - Options structs may be zeroed: zero is the default of each field.
 * - Out parameters come last and are unchanged on failure; bq_error may be NULL.
 * - Sizes are in bytes unless the comment names another unit.
 * - The caller frees sessions before their model, and a model by freeing its loader.
 * - Names in capitals at the end of a comment are the statuses that a function returns besides OK.
 * - A *work unit* is what is computed between two points where a run can stop: one layer for one
 *   micro-batch, or the LM head. */
#ifndef BQ_H
#define BQ_H

#include "core/arena.h"
#include "core/status.h"
#include "core/type.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "text/tokenizer.h"
#include "types.h"

#define BQ_ABI 3u

/* Thread functions of the host; c/ starts no threads. Zeroed: one thread.
 *
 * `run` calls fn(arg, thread, threads) for every thread in [0, threads), threads >= 1, and returns
 * when all are done; thread 0 is the calling one. Writes before `run` are visible to all threads,
 * and their writes are visible to the caller afterwards. A session divides its work among
 * `threads` threads, the number it was created for; further threads of a run only take part in
 * barriers.
 *
 * `barrier` is called by every thread of a run and returns when all of them have called it. Writes
 * before it are visible to all threads after it. With a barrier, a layer (or for one token all
 * layers) takes one run with a barrier between its phases. Waits last microseconds, so it may spin.
 * NULL: each phase is a run of its own, whose threads may even run one after the other. The results
 * are the same to the bit.
 *
 * `claim` (for hosts with a barrier) divides the n items of a phase dynamically (work stealing): it
 * sets *from < *to <= n and returns true, or returns false if no items remain. Each item is given
 * to one thread. A thread may call it any number of times; all threads pass the same n. NULL: equal
 * shares. */
typedef struct bq_parallel {
  void *ctx;
  void (*run)(void *ctx, void (*fn)(void *arg, size_t thread, size_t threads), void *arg);
  size_t threads;
  void (*barrier)(void *ctx, size_t thread, size_t threads);
  bool (*claim)(void *ctx, size_t thread, size_t threads, size_t n, size_t *from, size_t *to);
} bq_parallel;

/* --- trace ------------------------------------------------------------------------------ */

/* Hook that measures the time of each stage with the host's clock; c/ has none. `mark` is called at
 * the end of each stage, on the thread that called the session. The time since the previous call
 * belongs to `stage` of `layer` (0 for stages outside layers). The first mark of every
 * bq_session_run and bq_session_sample is BQ_STAGE_HOST. Zeroed: no trace. */
typedef struct bq_trace {
  void *ctx;
  void (*mark)(void *ctx, bq_stage stage, uint32_t layer);
} bq_trace;

/* Hook that stops a run. `is_requested` is called between two work units, on the thread that called
 * bq_session_run; if it returns true, the run ends with MORE. A run of many work units thus stops
 * as promptly as runs of one work unit. Zeroed: runs are never stopped. */
typedef struct bq_stop {
  void *ctx;
  bool (*is_requested)(void *ctx);
} bq_stop;

/* The work of a stage. It is derived from shapes, so it is the same on every machine. */
typedef struct bq_work {
  uint64_t weight_bytes; /* weights read, once per micro-batch */
  uint64_t kv_bytes;     /* KV cache: read by ATTEND, once per micro-batch; written by KV */
  uint64_t macs;         /* multiply-accumulates with weights and with cached keys and values */
} bq_work;

/* --- plan ------------------------------------------------------------------------------- */

/* Type that activations are quantized to before a matmul with quantized weights. I16: two i8
 * values, each with a scale per 32 activations. Matmuls then take about twice as many
 * multiplications, and the quantization of the weights is their only error. */
typedef enum bq_activations {
  BQ_ACTIVATIONS_I8 = 0,
  BQ_ACTIVATIONS_I16 = 1,
  BQ_ACTIVATIONS_COUNT
} bq_activations;

/* The positions that are evicted from a cache with a kv_window: the oldest, or the groups of 32
 * positions that received the least attention (H2O; docs/decisions/0018-attention-sinks.md). */
typedef enum bq_evict {
  BQ_EVICT_OLDEST = 0,
  BQ_EVICT_ATTENTION = 1,
  BQ_EVICT_COUNT
} bq_evict;

typedef struct bq_session_options {
  uint32_t context;    /* maximum positions; 0: the model's own */
  uint32_t prefill_window; /* tokens whose hidden states are kept at once; 0: min(context, 256) */
  uint32_t batch;      /* micro-batch: tokens per matmul in prefill; 0: 32 */
  bq_kv_type kv_type;  /* 0: f32; docs/decisions/0005-kv-cache-types.md compares them */
  bq_activations activations; /* type of activations in matmuls with quantized weights */
  uint32_t rows;       /* maximum positions whose outputs a run computes; 0: 1 */
  bool hidden;         /* outputs are hidden states after the final norm instead of logits; always
                          for models without a head */
  uint32_t forks;      /* maximum number of forks at a time, for which memory is planned */
  uint32_t fork_positions; /* positions of each fork that it doesn't share; 0: context */
  /* sliding window, in positions, of layers that have no window in the model: a token attends to at
   * least kv_window positions, and to at most BQ_KV_BLOCK - 1 more; 0: to all. With a window the
   * context may exceed the model's own (docs/decisions/0018-attention-sinks.md) */
  uint32_t kv_window;
  uint32_t sinks;      /* attention sinks: first positions that stay visible besides the window; at
                          most BQ_SINKS_MAX */
  float head;          /* approximate head: share of the head's rows that is computed, in clusters
                          that bq_model_cluster makes; other logits are -INFINITY. 0: the whole head
                          */
  bq_evict evict;      /* ATTENTION: kv_window must be a multiple of BQ_KV_BLOCK and, because
                          positions keep their rotations, the context at most the model's own */
  uint32_t spread;     /* smallest number of tokens for which matmuls are spread over hosts
                          (bq_session_spread); 0: never. Not with paged models or threads */
  bq_parallel parallel;
  bq_trace trace;
  bq_stop stop;
} bq_session_options;

typedef struct bq_plan {
  bool foreign;            /* the file is of another format and described by a manifest */
  uint64_t file_bytes;     /* from the file's header; foreign: as passed by the caller, or the end
                              of the last tensor */
  uint64_t prefix_bytes;   /* everything before the data; foreign: 0 */
  uint64_t weight_bytes;   /* weights as the engine holds them */
  uint64_t loader_bytes;   /* one block: the loader */
  uint64_t prefix_block;   /* one block: prefix or manifest */
  uint64_t model_bytes;    /* one block: weights, tokenizer tables, staging */
  uint64_t session_bytes;  /* a session with the given options and its forks: blocks of a bq_heap */
  uint64_t kv_bytes;       /* part of session_bytes: positions of its own context */
  uint64_t token_weights;  /* weights that every token is multiplied with; they determine its time
                              */
  uint64_t cluster_bytes;  /* one block, allocated by bq_model_cluster; 0 if options.head is 0 */
  bool lacks_kernels;      /* some weights are of types that bq_kernels_best() lacks */
  bool key_bias;           /* keys have a bias, which may be so large that an 8-bit cache costs
                              quality */
  bq_config config;
} bq_plan;

/* Plans from the first `n` bytes of a file; allocates nothing. `manifest`: the host's description
 * of a file that is not a v2 file (docs/FORMAT.md §4); `bytes` is not read then. manifest_bytes 0:
 * no manifest. file_bytes: 0 if unknown. WANT_DATA: the first *need (> n) bytes of the file are
 * needed. Also the statuses of a bad file: FORMAT, TRUNCATED, CHECKSUM, UNSUPPORTED, SHAPE; and
 * ARGUMENT (options), NOMEM (more than the machine can address). */
bq_status bq_plan_make(const uint8_t *bytes, size_t n, uint64_t file_bytes,
                       const uint8_t *manifest, size_t manifest_bytes,
                       const bq_session_options *options, uint64_t *need, bq_plan *out,
                       bq_error *err);

/* --- less memory than weights ----------------------------------------------------------- */

/* A memory limit for the sum of the plan's blocks, `sessions` sessions, and `host_slots` buffers of
 * slot_bytes that the host allocates for itself. */
typedef struct bq_budget {
  uint64_t bytes;
  uint32_t sessions, host_slots;
} bq_budget;

/* As bq_plan_make, and chooses the residency that stays within the budget and reads the fewest
 * bytes per token; *plan has the model_bytes of *paging. NOMEM: the budget is too small even if all
 * weights are paged. UNSUPPORTED: the budget is too small without paging, and the weights can't be
 * paged: the file stores them in another layout than the compute layout (quantized weights in rows,
 * v1), or unaligned (foreign containers). */
bq_status bq_plan_paging(const uint8_t *bytes, size_t n, uint64_t file_bytes,
                         const uint8_t *manifest, size_t manifest_bytes,
                         const bq_session_options *options, const bq_budget *budget,
                         uint64_t *need, bq_plan *plan, bq_paging *paging, bq_error *err);

/* --- load ------------------------------------------------------------------------------- */

typedef struct bq_loader_options {
  bq_allocator allocator;
  const bq_kernels *kernels;  /* NULL: bq_kernels_best() */
  uint64_t file_bytes;        /* 0: unknown (foreign files then end with their last tensor) */
  uint64_t prefix_hint;       /* the plan's prefix_bytes, to allocate one exact block; 0: a block
                                 that grows */
  const uint8_t *manifest;    /* as for bq_plan_make; copied unless owns_manifest */
  size_t manifest_bytes;      /* 0: no manifest */
  bool owns_manifest;         /* the manifest is a block of `allocator`, owned by the loader from
                                 this call on; freed also if bq_loader_create fails */
  bq_residency residency;     /* paged weights are verified on arrival, then discarded */
  const uint8_t *integrity;   /* expected SHA-256 (docs/FORMAT.md, HASH); copied. NULL: not checked
                                 */
} bq_loader_options;

/* The bytes that the loader needs next: `length` bytes of the file from `offset` on. The first
 * `dst_bytes` of them may be written directly to `dst`, followed by bq_loader_wrote. length 0:
 * loading is complete. */
typedef struct bq_want {
  uint64_t offset, length;
  uint8_t *dst;
  size_t dst_bytes;
} bq_want;

/* Creates a loader. NOMEM, ARGUMENT. With a manifest, which is read at once, also the statuses of a
 * bad file. */
bq_status bq_loader_create(const bq_loader_options *options, bq_loader **out, bq_error *err);
/* Returns the next bytes to read. Fails with the error that ended loading. */
bq_status bq_loader_want(bq_loader *loader, bq_want *out, bq_error *err);
/* Reports that the first `n` bytes (<= dst_bytes) of the last want are in place. An error is final:
 * all later calls return it, except after bq_loader_retry. */
bq_status bq_loader_wrote(bq_loader *loader, size_t n, bq_error *err);
/* After a CHECKSUM error (or INTEGRITY of a prefix): goes back to the start of the prefix or chunk
 * that failed verification; the next want starts there. Returns other errors again; STATE if
 * nothing failed. */
bq_status bq_loader_retry(bq_loader *loader, bq_error *err);
/* As bq_loader_wrote, but copies the bytes: any number, from the offset of the next want on. Bytes
 * that are not needed are ignored. */
bq_status bq_loader_feed(bq_loader *loader, const uint8_t *bytes, size_t n, bq_error *err);
/* Returns the model. It exists once the prefix has arrived (STATE before that; with a manifest from
 * the start) and lives until bq_loader_free. If loading failed before, returns that error. */
bq_status bq_loader_model(bq_loader *loader, bq_model **out, bq_error *err);
void bq_loader_free(bq_loader *loader);

/* --- model ------------------------------------------------------------------------------ */

const bq_config *bq_model_config(const bq_model *model);
/* The id of the model's file, [BQ_FILE_ID_BYTES]: copies of a file have the same id. NULL if
 * neither file nor manifest contains one. */
const uint8_t *bq_model_file_id(const bq_model *model);
const bq_tokenizer *bq_model_tokenizer(const bq_model *model); /* NULL if the file has none */
/* Payload of a section, such as "CHAT": *bytes bytes that live as long as the model. NULL: there is
 * no such section. */
const uint8_t *bq_model_section(const bq_model *model, const char tag[4], size_t *bytes);
/* Number of stages that have arrived: 0: not even the embedding; 1 + i: everything before layer i;
 * layers + 2: all. */
uint32_t bq_model_ready(const bq_model *model);
/* Builds the clusters of the head's rows for options.head, unless they exist. The clusters are the
 * same on every machine and live until bq_loader_free. No session of this model may run during the
 * call. STATE: the head has not arrived; UNSUPPORTED: the model has no head, or weights are paged;
 * NOMEM. */
bq_status bq_model_cluster(bq_model *model, bq_allocator allocator, bq_error *err);

/* --- session ---------------------------------------------------------------------------- */

/* Creates a session with an empty sequence. NO_SESSION: there is no memory for another session.
 * ARGUMENT: an option is out of range for this model. */
bq_status bq_session_create(const bq_model *model, const bq_session_options *options,
                            bq_allocator allocator, bq_session **out, bq_error *err);
/* Creates a copy of `session` that continues independently, with its tokens, its logits, and its
 * options except the trace. Both share blocks of the KV cache until one writes to them. Either may
 * be freed first. NO_SESSION. */
bq_status bq_session_fork(const bq_session *session, bq_session **out, bq_error *err);
void bq_session_free(bq_session *session);
/* Sets a number that identifies all inputs of a result besides the tokens, such as the adapter; 0
 * at first. Results that were computed under another key are discarded. */
void bq_session_set_key(bq_session *session, uint64_t key);

/* Skips these n layers from now on: hidden states pass them unchanged. Discards results that were
 * computed with another set. Forks skip the same layers. ARGUMENT: there is no such layer. */
bq_status bq_session_skip(bq_session *session, const uint32_t *layers, size_t n, bq_error *err);

/* With options.head: whether the approximate head is used from now on; off at first, and never used
 * under a mask. The last logits are recomputed when this changes. */
void bq_session_clusters(bq_session *session, bool on);

/* --- adapters ---
 * Low-rank changes (LoRA) of a model's matrices: y += B (A x * scale), after the bias. */

/* The matrices of a layer that can be adapted, by their index in an adapter. */
typedef enum bq_adapted {
  BQ_ADAPTED_Q, BQ_ADAPTED_K, BQ_ADAPTED_V, BQ_ADAPTED_O,
  BQ_ADAPTED_GATE, BQ_ADAPTED_UP, BQ_ADAPTED_DOWN,
  BQ_ADAPTED_COUNT
} bq_adapted;

typedef struct bq_lora {
  const float *a; /* [rank][columns of the matrix]; both 16-byte aligned, and finite */
  const float *b; /* [rows of the matrix][rank] */
  uint32_t rank;  /* 0: the matrix isn't adapted */
  float scale;
} bq_lora;

/* Sets the adapter, `parts` [layers][BQ_ADAPTED_COUNT], or removes it (NULL). The caller keeps the
 * arrays unchanged until the session is freed or gets another adapter; forks use them too. `key`:
 * see bq_session_set_key; not 0 with an adapter. SHAPE: a layer lacks an adapted matrix;
 * NO_SESSION: the previous adapter's block for A x is too small, and there is no memory for another
 * one. The session is unchanged on failure. */
bq_status bq_session_set_adapter(bq_session *session, const bq_lora *parts, uint64_t key,
                                 bq_error *err);

/* Replaces the sequence by `tokens`, n >= 1. The common prefix with the previous sequence stays in
 * the KV cache (*kept positions), bq_session_run computes the rest. The last token is recomputed
 * unless its logits exist. May be called at any time, also during an unfinished run. CONTEXT_FULL,
 * ARGUMENT (id >= vocab). */
bq_status bq_session_sync(bq_session *session, const uint32_t *tokens, size_t n, size_t *kept,
                          bq_error *err);
/* Appends one token to the sequence (decode). */
bq_status bq_session_append(bq_session *session, uint32_t token, bq_error *err);
/* Speculative decoding: proposes draft tokens that may follow the sequence. The next run computes
 * the first *taken of them, in one batch with the sequence's last tokens, and the logits after
 * each. If a draft token is then appended, its logits exist and no run is needed. Another token, or
 * any other change of the sequence or its outputs, discards the remaining draft. The results are
 * the same bits as without drafts. *taken is at most options.rows - 1, and 0 if the sequence itself
 * has nothing to compute. ARGUMENT: a token outside the vocabulary; STATE: the session holds packed
 * texts (bq_session_texts). */
bq_status bq_session_draft(bq_session *session, const uint32_t *tokens, size_t n, size_t *taken,
                           bq_error *err);
/* Computes at most `work_units` work units (0: no limit). OK: everything is computed. MORE: the
 * limit is reached or bq_stop ended the run; call again. WANT_DATA: weights are missing; feed the
 * loader, read the pages (bq_session_pages) or compute the spread rows, then call again. NOMEM:
 * forks have used up the KV cache. */
bq_status bq_session_run(bq_session *session, size_t work_units, bq_error *err);
/* Runs several sessions of a model in one forward batch (continuous batching). Each weight is read
 * once for all of them, and each session gets the same bits as alone. `session` provides buffers
 * and options; it must have tokens to compute. The pending tokens of all sessions together are at
 * most its `prefill_window`, their outputs at most its `rows`. The `n` others must have no larger
 * context, and the same KV type, adapter and kind of outputs. After MORE and WANT_DATA call again
 * with the same sessions; a change of any of them, or another kind of run, abandons the batch.
 * ARGUMENT, and as bq_session_run. */
bq_status bq_session_run_with(bq_session *session, bq_session *const *others, size_t n,
                              size_t work_units, bq_error *err);

/* --- tensor parallelism over hosts ---
 * Where threads can't share memory, other hosts can compute rows of matmuls: each holds a part of
 * every matrix, receives the activations and returns its rows. A run of a session with
 * options.spread stops with WANT_DATA before such a matmul. The caller then:
 *   1. gets each part with bq_session_spread;
 *   2. has each part computed on its host by bq_spread_multiply;
 *   3. copies the rows to `y`, calls bq_session_spread_done, and runs the session again.
 * The bits do not depend on which host computes which part. */
typedef struct bq_spread_rows {
  const uint8_t *weights; /* this part of a matrix; the same address and size each time */
  size_t bytes;
  bq_type type;
  uint32_t rows;   /* rows of this part; may be 0 */
  float *y;        /* [tokens][stride], of which `rows` belong to this part */
  uint32_t stride; /* floats */
} bq_spread_rows;

enum { BQ_SPREAD_MAX = 3 }; /* matmuls with one input */

typedef struct bq_spread {
  uint32_t n, tokens, cols;
  bq_activations activations;
  const uint8_t *panel; /* quantized activations, as kernels take them */
  size_t panel_bytes;
  bq_spread_rows list[BQ_SPREAD_MAX];
} bq_spread;

/* Returns part `part` of `parts` of the matmuls that the last run stopped for; false if the run
 * stopped for another reason. */
bool bq_session_spread(const bq_session *session, uint32_t part, uint32_t parts, bq_spread *out);
/* Reports that the rows of all parts are in place. Does nothing if the run stopped for another
 * reason. */
void bq_session_spread_done(bq_session *session);
/* Number of floats of scratch for computing a part. */
size_t bq_spread_scratch(const bq_spread *work);
/* Computes a part; its weights, panel and `y` may be in any memory. `kernels` is the table that the
 * session uses. */
void bq_spread_multiply(const bq_kernels *kernels, const bq_spread *work, float *scratch);

/* --- saved sessions ---
 * The state is the sequence, its computed keys and values, and the states of recurrent layers, as
 * bytes in a format of this build. Another session of the same model, KV type and key continues
 * from them with the same bits. Its context may differ, unless only one of the two contexts is so
 * large that it rotates with rope.long_factors (CONF, rope_original). An unfinished run is saved up
 * to its last complete prefill window. */

/* Size of the state in bytes; valid until the session is used otherwise. */
uint64_t bq_session_state_bytes(const bq_session *session);
/* Copies bytes [at, at + n) of the state. UNSUPPORTED: the model's file has no id (v1). ARGUMENT.
 */
bq_status bq_session_save(const bq_session *session, uint64_t at, uint8_t *out, size_t n,
                          bq_error *err);
/* Restores a session from a state that is passed in pieces of any size, from its first byte on. The
 * first call discards the sequence. MORE: bytes are missing. OK: the session is restored, and
 * bq_session_run computes the logits of its last token. After an error, or a sync in between,
 * restoring begins again. FORMAT, UNSUPPORTED, MISMATCH, CONTEXT_FULL, NOMEM (as bq_session_run).
 * The last bytes are a hash of all others, so a damaged state is FORMAT. The hash doesn't
 * authenticate: a forged state gives forged results. */
bq_status bq_session_restore(bq_session *session, const uint8_t *bytes, size_t n, bq_error *err);

/* --- paging: reads that the host makes for a paged model ---
 * A session of such a model also stops with WANT_DATA if its next work unit needs a page that isn't
 * in memory. The host then gets a list of pages, reads each from the file and reports it. */

/* Returns pages to read for this session, the most urgent first: *n of them, at most `capacity`.
 * The list has the pages of the next work unit and, as far as buffers are free, of later work
 * units. A page is returned once until it is reported as done. No session of this model may run
 * during the call. */
bq_status bq_session_pages(bq_session *session, bq_page *out, size_t capacity, size_t *n);
/* Reports that a page is in place or, if not `good`, could not be read; it will then be returned
 * again. ARGUMENT: no such page is being read. */
bq_status bq_model_page_done(bq_model *model, uint32_t id, bool good, bq_error *err);

/* Requests the outputs of all positions from `from` to the end of the sequence in the next run.
 * Positions from there on are recomputed if they were already computed, so call it before the run.
 * By default, and again after each append and each sync that changes the sequence, only the last
 * token has an output. ARGUMENT: there are no such positions, or more than options.rows. */
bq_status bq_session_request_outputs(bq_session *session, uint32_t from, bq_error *err);

/* Requests one vector for the whole sequence in place of logits, until the sequence changes: the
 * hidden states after the final norm, pooled by `how`, scaled to length 1 if `normalize`.
 * Recomputes positions as bq_session_request_outputs does. ARGUMENT; STATE: there are no tokens. */
bq_status bq_session_pool(bq_session *session, bq_pooling how, bool normalize, bq_error *err);
/* As bq_session_pool, for several texts (packed sequences): the first *taken (>= 1) of n texts, as
 * many as fit in one forward batch. Text i has lengths[i] tokens; `tokens` has the tokens of all
 * texts, one text after the other. Weights are read once for all, and each text gets the same bits
 * as alone. Discards the sequence. CONTEXT_FULL; ARGUMENT, also for a text without tokens. */
bq_status bq_session_texts(bq_session *session, const uint32_t *tokens, const uint32_t *lengths,
                           size_t n, bq_pooling how, bool normalize, size_t *taken, bq_error *err);
/* Sets where the second part of each text begins, between bq_session_texts and the run. Tokens of
 * text i from position at[i] on have the second token type (BERT's type 1); at[i] 0: no token has.
 * STATE: the session does not hold n texts. */
bq_status bq_session_second(bq_session *session, const uint32_t *at, size_t n, bq_error *err);
/* The vector of text `text` (0 for the sequence): [bq_config_vector_cols] floats, or [hidden] if
 * the model has labels and pooling is not BQ_POOL_LABELS. NULL unless the last run returned OK
 * after bq_session_pool or bq_session_texts. Valid as long as logits are. */
const float *bq_session_vector(const bq_session *session, size_t text);

/* Logits of the last token, [vocab]; NULL unless the last run returned OK, or with options.hidden.
 * Valid until the next sync, append, request of outputs or run. */
const float *bq_session_logits(const bq_session *session);
/* The output of a position: logits, [vocab], or with options.hidden the hidden state, [hidden].
 * NULL if the position has none (bq_session_request_outputs). */
const float *bq_session_output(const bq_session *session, uint32_t position);

typedef struct bq_session_stats {
  uint64_t tokens;   /* in the sequence */
  uint64_t computed; /* positions in the KV cache that every layer has computed */
  uint64_t work_units; /* since the session was created */
  bq_work work;        /* of these work units */
  uint32_t rows;     /* rows of the open forward batch, or of the next one; 0: nothing is pending */
} bq_session_stats;
bq_session_stats bq_session_stats_get(const bq_session *session);

/* The work of one stage over a micro-batch of `tokens` tokens from `position` on (HEAD: of `tokens`
 * outputs). Layers of a model may have different types. Zero for stages without weights and cache.
 */
bq_work bq_session_work(const bq_session *session, bq_stage stage, uint32_t layer,
                        uint32_t position, uint32_t tokens);

/* --- sampling ----------------------------------------------------------------------------- */

/* A number that is added to the logit of token `id`, which must be in the vocabulary. -INFINITY or
 * NaN bans the token. */
typedef struct bq_logit_bias {
  uint32_t id;
  float bias;
} bq_logit_bias;

/* `change` may modify the session's logits, [vocab], before a token is picked; -INFINITY bans a
 * token. Its changes remain until the next run, also for bq_session_logits. Zeroed: no hook. */
typedef struct bq_logits_hook {
  void *ctx;
  void (*change)(void *ctx, float *logits, uint32_t vocab);
} bq_logits_hook;

/* Options of sampling. Filters are applied in this order: hook, mask, bias, repetition penalty,
 * temperature, top-k, top-p, min-p. Only the hook changes the logits themselves. JavaScript
 * adds presence and frequency penalties to the biases.
 *
 * JavaScript writes this struct too (web/border.h). The fields before `mask` have the order of
 * their rows in js/shared/generate-options.js, and are float or uint32_t. */
typedef struct bq_sample_options {
  float temperature;         /* >= 0; 0: greedy (the highest logit; among equal ones the lowest id)
                                */
  uint32_t top_k;            /* 0: off */
  float top_p;               /* 0...1: keeps the most likely tokens whose probabilities sum to this,
                                at least one; 0: only the most likely, 1: all */
  float min_p;               /* 0...1: minimum probability relative to the most likely token; 0: off
                                */
  float repeat_penalty;      /* finite, >= 0; 0 and 1: off; > 1 makes recent tokens less likely */
  uint32_t repeat_last;      /* number of recent tokens that are penalized; beyond the length of the
                                sequence: all tokens */
  const uint32_t *mask;      /* [(vocab + 31) / 32]: only tokens whose bit id % 32 of word id / 32
                                is set may be picked; NULL: all */
  const bq_logit_bias *bias; /* [n_bias], in any order */
  uint32_t n_bias;
  bq_logits_hook hook;
} bq_sample_options;

/* State of the random number generator, owned by the caller; initialized with bq_rng_seed. */
typedef struct bq_rng { uint64_t state; } bq_rng;
bq_rng bq_rng_seed(uint64_t seed);

/* Picks the next token of a session that has logits. Each draw advances *rng by one step; greedy
 * sampling doesn't use it (it may be NULL then). STATE: there are no logits; NO_TOKEN: mask, bias
 * and hook ban all tokens, or all logits are NaN or -infinity; ARGUMENT: a bias outside the
 * vocabulary, or another option out of range. */
bq_status bq_session_sample(bq_session *session, const bq_sample_options *options, bq_rng *rng,
                            uint32_t *token, bq_error *err);

#endif
