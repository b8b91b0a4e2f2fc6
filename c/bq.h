/* bq4: language models on the CPU. The public C interface.
 *
 *   bytes -> bq_loader -> bq_model -> bq_session -> logits -> bq_session_sample -> ids -> text
 *
 * In code, without error handling:
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
 * A loader is pushed the bytes of a .bq4 file in pieces of any size and says which it wants next;
 * it never sees a file, a socket or a clock. A model is immutable once all its bytes have arrived,
 * and can be used before: a session then stops at a layer with WANT_DATA and goes on when the
 * loader has been fed. A session is one token sequence and its KV cache; many sessions may share
 * one model. Nothing here keeps global state; nothing allocates after create.
 *
 * Conventions: options structs may be zeroed, zero is the default of each field. Out parameters
 * come last and are untouched on failure; bq_error is optional. Sizes are bytes unless named
 * otherwise. The caller frees what it created: sessions before their model, the model by freeing
 * its loader (bq_loader_free). A comment names the statuses that a function returns besides OK. */
#ifndef BQ_H
#define BQ_H

#include "core/arena.h"
#include "core/status.h"
#include "core/type.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "text/tokenizer.h"
#include "types.h"

#define BQ_ABI 2u

/* How the host runs threads; c/ starts none. Zeroed: one thread.
 *
 * `run` calls fn(arg, thread, threads) for every thread in [0, threads), threads >= 1, and returns
 * when all are done; thread 0 is the calling one. All threads see what was written before `run`,
 * and the caller sees what they wrote. A session divides its work among `threads` threads, the
 * number it was created for; further threads of a run only take part in barriers.
 *
 * `barrier`, called by every thread of a run, returns when all of them have called it; they then
 * see what any of them wrote before. A layer, or for one token all layers, then takes one run with
 * a barrier between its phases. Waits last microseconds, so it may spin. NULL: each phase is a run
 * of its own, whose threads may even run one after the other. The bits are the same.
 *
 * `claim` (for hosts with a barrier) divides the n items of a phase dynamically (work stealing): it
 * sets *from < *to <= n and returns true, or returns false if no items remain. Each item is given
 * to one thread. Threads call it as often as they like, all with the same n. NULL: equal shares. */
typedef struct bq_parallel {
  void *ctx;
  void (*run)(void *ctx, void (*fn)(void *arg, size_t thread, size_t threads), void *arg);
  size_t threads;
  void (*barrier)(void *ctx, size_t thread, size_t threads);
  bool (*claim)(void *ctx, size_t thread, size_t threads, size_t n, size_t *from, size_t *to);
} bq_parallel;

/* --- trace ------------------------------------------------------------------------------ */

/* c/ has no clock: the host has one. `mark` is called on the thread that called the session, at the
 * end of each stage: the time since the previous call belongs to `stage` of `layer` (0 for stages
 * outside layers). The first mark of every bq_session_run and bq_session_sample is BQ_STAGE_HOST.
 * Zeroed: no trace. */
typedef struct bq_trace {
  void *ctx;
  void (*mark)(void *ctx, bq_stage stage, uint32_t layer);
} bq_trace;

/* `asked` is called between two slices, on the thread that called bq_session_run; if it returns
 * true the run ends with MORE. So a run of many slices stops as promptly as runs of one slice.
 * Zeroed: runs are never stopped. */
typedef struct bq_stop {
  void *ctx;
  bool (*asked)(void *ctx);
} bq_stop;

/* The work of a stage, derived from shapes: the same on every machine. */
typedef struct bq_work {
  uint64_t weight_bytes; /* weights read, once per micro-batch */
  uint64_t kv_bytes;     /* KV cache: read by ATTEND, once per micro-batch; written by KV */
  uint64_t macs;         /* multiply-accumulates with weights and with cached keys and values */
} bq_work;

/* --- plan ------------------------------------------------------------------------------- */

/* Type that activations are quantized to before they meet quantized weights. I16: two i8 values,
 * each with a scale per 32 activations. Matmuls take about twice as many multiplications, and their
 * only error is that of the weights. */
typedef enum bq_activations {
  BQ_ACTIVATIONS_I8 = 0,
  BQ_ACTIVATIONS_I16 = 1,
  BQ_ACTIVATIONS_COUNT
} bq_activations;

/* What is evicted from a cache with a kv_window: the oldest positions, or the groups of 32
 * positions that received the least attention (H2O; docs/decisions/0018-attention-sinks.md). */
typedef enum bq_evict {
  BQ_EVICT_OLDEST = 0,
  BQ_EVICT_ATTENTION = 1,
  BQ_EVICT_COUNT
} bq_evict;

typedef struct bq_session_options {
  uint32_t context;    /* maximum positions; 0: the model's own */
  uint32_t chunk;     /* prefill chunk: tokens whose hidden states are kept at once; 0: min(context,
                         256) */
  uint32_t batch;      /* micro-batch: tokens per matmul in prefill; 0: 32 */
  bq_kv_type kv_type;  /* 0: f32; docs/decisions/0005-kv-cache-types.md compares them */
  bq_activations activations; /* type of activations in matmuls with quantized weights */
  uint32_t rows;       /* maximum positions whose outputs a run computes (bq_session_results); 0: 1
                          */
  bool hidden;         /* outputs are hidden states after the final norm instead of logits; always
                          for models without a head */
  uint32_t forks;      /* maximum number of forks at a time, for which memory is planned */
  uint32_t fork_positions; /* positions of each fork that it doesn't share; 0: context */
  /* sliding window of layers without one of their own: a token attends to at least so many
   * positions, at most BQ_KV_BLOCK - 1 more; 0: all. The context may then exceed the model's own
   * (docs/decisions/0018-attention-sinks.md) */
  uint32_t kv_window;
  uint32_t sinks;      /* attention sinks: first positions that stay visible besides the window; at
                          most BQ_SINKS_MAX */
  float head;          /* approximate head: share of the head's rows that is computed, in clusters
                          that bq_model_cluster makes; other logits are -INFINITY. 0: the whole head
                          */
  bq_evict evict;      /* ATTENTION: kv_window must be a multiple of BQ_KV_BLOCK and, because
                          positions keep their rotations, the context at most the model's own */
  uint32_t spread;     /* minimum tokens from which matmuls are spread (bq_session_spread); 0:
                          never. Not with paged models or threads */
  bq_parallel parallel;
  bq_trace trace;
  bq_stop stop;
} bq_session_options;

typedef struct bq_plan {
  bool foreign;            /* described by a manifest instead of by itself */
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
 * of a file that is no v2 file (docs/FORMAT.md §4), whose own bytes are then not read; 0 bytes:
 * none. file_bytes: 0 if unknown. WANT_DATA: *need (> n) bytes of the file are needed. */
bq_status bq_plan_make(const uint8_t *bytes, size_t n, uint64_t file_bytes,
                       const uint8_t *manifest, size_t manifest_bytes,
                       const bq_session_options *options, uint64_t *need, bq_plan *out,
                       bq_error *err);

/* --- less memory than weights ----------------------------------------------------------- */

/* A memory limit for everything together: the plan's blocks, `sessions` sessions, and `beside`
 * times slot_bytes (buffers that the host needs). */
typedef struct bq_budget {
  uint64_t bytes;
  uint32_t sessions, beside;
} bq_budget;

/* As bq_plan_make, with the residency that stays within the budget and reads the least; *plan has
 * the model_bytes of *paging. NOMEM: even with everything paged it takes more. UNSUPPORTED: it
 * takes more, and the weights can't be paged because the file doesn't store them in the compute
 * layout (quantized weights in rows, v1) or not aligned (foreign containers). */
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
  const uint8_t *manifest;    /* as for bq_plan_make; copied, unless */
  size_t manifest_bytes;      /* 0: no manifest */
  bool manifest_given;        /* it is a block of the allocator, which the loader takes over: it or,
                                 on failure, bq_loader_create frees it */
  bq_residency residency;     /* paged weights are verified as they stream by, then dropped */
  const uint8_t *integrity;   /* expected SHA-256 (docs/FORMAT.md, HASH); copied. NULL: not checked
                                 */
} bq_loader_options;

/* The bytes that the loader wants next: `length` bytes from `offset` on. The first `dst_bytes` of
 * them may be written straight to `dst`, followed by bq_loader_wrote. length 0: loading is
 * complete. */
typedef struct bq_want {
  uint64_t offset, length;
  uint8_t *dst;
  size_t dst_bytes;
} bq_want;

/* NOMEM, ARGUMENT. With a manifest also the statuses of a bad manifest and prefix. */
bq_status bq_loader_create(const bq_loader_options *options, bq_loader **out, bq_error *err);
bq_status bq_loader_want(bq_loader *loader, bq_want *out, bq_error *err);
/* Tells the loader that `n` bytes (<= dst_bytes of the last want) are in place. An error is final
 * and returned by all later calls, except after bq_loader_retry. */
bq_status bq_loader_wrote(bq_loader *loader, size_t n, bq_error *err);
/* After a CHECKSUM error (or INTEGRITY of a prefix): goes back to the start of the prefix or chunk
 * that did not verify, which the next want asks for. Returns other errors again; STATE if nothing
 * failed. */
bq_status bq_loader_retry(bq_loader *loader, bq_error *err);
/* As bq_loader_wrote, but copies the bytes: any number, from the wanted offset on. */
bq_status bq_loader_feed(bq_loader *loader, const uint8_t *bytes, size_t n, bq_error *err);
/* The model; it exists once the prefix has arrived (STATE before; with a manifest from the start)
 * and lives until bq_loader_free. Returns the error that ended loading before. */
bq_status bq_loader_model(bq_loader *loader, bq_model **out, bq_error *err);
void bq_loader_free(bq_loader *loader);

/* --- model ------------------------------------------------------------------------------ */

const bq_config *bq_model_config(const bq_model *model);
/* The id of the model's file, [BQ_FILE_ID_BYTES]: equal for equal files, whatever their address.
 * NULL if neither file nor manifest has one. */
const uint8_t *bq_model_file_id(const bq_model *model);
const bq_tokenizer *bq_model_tokenizer(const bq_model *model); /* NULL if the file has none */
/* Payload of a section (tag as "CHAT"), in place; NULL: no such section. */
const uint8_t *bq_model_section(const bq_model *model, const char tag[4], size_t *bytes);
/* Stages that have arrived: 0 = not even the embedding, 1 + i = layer i is next, layers + 2 =
 * everything. */
uint32_t bq_model_ready(const bq_model *model);
/* Builds the clusters of the head's rows for options.head, unless they exist; the same on every
 * machine. They live until bq_loader_free. No session of this model may run meanwhile. STATE: the
 * head has not arrived; UNSUPPORTED: the model has no head, or weights are paged; NOMEM. */
bq_status bq_model_cluster(bq_model *model, bq_allocator allocator, bq_error *err);

/* --- session ---------------------------------------------------------------------------- */

/* NO_SESSION: there is no memory for another session. ARGUMENT: an option that the model can't
 * have. */
bq_status bq_session_create(const bq_model *model, const bq_session_options *options,
                            bq_allocator allocator, bq_session **out, bq_error *err);
/* Creates a session that goes on independently from where `session` is, with its tokens, its
 * logits, and its options except the trace. Both share blocks of the KV cache until one writes to
 * them. Either may be freed first. NO_SESSION. */
bq_status bq_session_fork(const bq_session *session, bq_session **out, bq_error *err);
void bq_session_free(bq_session *session);
/* Sets a number that identifies everything besides the tokens that determines results, such as the
 * adapter; 0 at first. Results under another key are discarded. */
void bq_session_set_key(bq_session *session, uint64_t key);

/* Skips these n layers from now on: hidden states pass them unchanged. Discards what was computed
 * with another set. Forks skip the same layers. ARGUMENT: there is no such layer. */
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
 * NO_SESSION: no memory for A x beside the previous adapter's block, if that is too small. The
 * session is unchanged on failure. */
bq_status bq_session_set_adapter(bq_session *session, const bq_lora *parts, uint64_t key,
                                 bq_error *err);

/* Makes `tokens` the sequence: the common prefix with the previous sequence stays in the KV cache
 * (*kept positions), bq_session_run computes the rest. The last token is recomputed unless its
 * logits exist. n >= 1. May be called at any time, also during an unfinished run. CONTEXT_FULL,
 * ARGUMENT (id >= vocab). */
bq_status bq_session_sync(bq_session *session, const uint32_t *tokens, size_t n, size_t *kept,
                          bq_error *err);
/* Appends one token to the sequence (decode). */
bq_status bq_session_append(bq_session *session, uint32_t token, bq_error *err);
/* Speculative decoding: proposes draft tokens that may follow the sequence. The next run computes
 * as many of them as there is room for (*taken), in one batch with the sequence's last tokens, and
 * the logits after each. If a draft token is then appended, its logits exist and nothing has to
 * run; another token, or any other change of the sequence or its outputs, discards the remaining
 * draft. Drafts never change a bit. *taken is at most options.rows - 1, and 0 if nothing but the
 * draft is to be computed. ARGUMENT: a token outside the vocabulary; STATE: the session holds
 * texts. */
bq_status bq_session_draft(bq_session *session, const uint32_t *tokens, size_t n, size_t *taken,
                           bq_error *err);
/* Computes at most `slices` slices (0: no limit); a slice is one layer for one micro-batch, or the
 * head. OK: everything is computed. MORE: the limit is reached or bq_stop ended the run; call
 * again. WANT_DATA: feed the loader. NOMEM: forks have used up the KV cache. */
bq_status bq_session_run(bq_session *session, size_t slices, bq_error *err);
/* The same for several sessions of a model in one forward batch (continuous batching): each weight
 * is read once for all of them, and each computes the same bits as alone. `session` provides
 * buffers and options; it has tokens to run, and all pending tokens together are at most its
 * `chunk`, with at most its `rows` outputs. The `n` others have no larger context and the same KV
 * type, adapter and kind of outputs. After MORE and WANT_DATA call again with the same sessions; a
 * change of any of them, or another kind of run, abandons the batch. ARGUMENT, and as
 * bq_session_run. */
bq_status bq_session_run_with(bq_session *session, bq_session *const *others, size_t n,
                              size_t slices, bq_error *err);

/* --- tensor parallelism over hosts ---
 * Where threads can't share memory, other hosts can compute rows of matmuls: each holds a part of
 * every matrix, receives the activations and returns its rows. A run of a session with
 * options.spread stops with WANT_DATA before such a matmul. The host then gets the parts, has each
 * computed (bq_spread_multiply), puts the rows at `y`, calls bq_session_spread_done and runs again.
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

/* Part `part` of `parts` of the matmuls that the last run stopped for. False: it stopped for
 * another reason. */
bool bq_session_spread(const bq_session *session, uint32_t part, uint32_t parts, bq_spread *out);
/* Tells the session that all parts are in place. Does nothing if none was wanted. */
void bq_session_spread_done(bq_session *session);
/* Floats of scratch for computing a part. */
size_t bq_spread_scratch(const bq_spread *work);
/* Computes a part, wherever its weights, panel and `y` lie. `kernels` is the session's table. */
void bq_spread_multiply(const bq_kernels *kernels, const bq_spread *work, float *scratch);

/* --- saved sessions ---
 * The sequence and what is computed of it, as bytes in a format of this build: another session of
 * the same model, KV type and key continues from them with the same bits, whatever its context,
 * unless only one of the two contexts is so large that it rotates with rope.long_factors (CONF,
 * rope_original). An unfinished run is saved up to its last complete chunk. */

/* Size of the state, until the session is used for anything else. */
uint64_t bq_session_state_bytes(const bq_session *session);
/* Copies bytes [at, at + n) of the state. UNSUPPORTED: the model's file has no id (v1). ARGUMENT.
 */
bq_status bq_session_save(const bq_session *session, uint64_t at, uint8_t *out, size_t n,
                          bq_error *err);
/* Takes the next n bytes of a saved session, from its first on; the first call discards the
 * sequence. OK: the session is restored; run computes the logits of its last token. MORE: bytes are
 * missing. After an error, or a sync in between, restoring begins again. FORMAT, UNSUPPORTED,
 * MISMATCH, CONTEXT_FULL, NOMEM (as bq_session_run). The last bytes are a hash of all others, so
 * damage is FORMAT. It doesn't authenticate: a forged state gives forged results. */
bq_status bq_session_restore(bq_session *session, const uint8_t *bytes, size_t n, bq_error *err);

/* --- paging: reads that the host makes for a paged model ---
 * A session of such a model also stops with WANT_DATA if its next slice needs a page that isn't in
 * memory. The host then requests pages, reads each from the file and reports it. */

/* Pages to read for this session, the most urgent first: *n of them, at most `capacity`. They are
 * what its next slice needs and, as buffers are free, what later slices need. Each is handed out
 * once, until it is done. No session of this model may run meanwhile. */
bq_status bq_session_pages(bq_session *session, bq_page *out, size_t capacity, size_t *n);
/* Reports that a page is in place or, if not `good`, could not be read; then it will be requested
 * again. ARGUMENT: it was not handed out. */
bq_status bq_model_page_done(bq_model *model, uint32_t id, bool good, bq_error *err);

/* Requests the outputs of all positions from `from` to the end of the sequence in the next run.
 * What is already computed from there on is recomputed, so call it before the run. By default, and
 * again after each append and each sync that changes the sequence, only the last token has an
 * output. ARGUMENT: there are no such positions, or more than options.rows. */
bq_status bq_session_results(bq_session *session, uint32_t from, bq_error *err);

/* Requests one vector for the whole sequence instead: the hidden states after the final norm,
 * pooled, with length 1 if `normalize`, until the sequence changes. Recomputes as above. ARGUMENT;
 * STATE: there are no tokens. */
bq_status bq_session_pool(bq_session *session, bq_pooling how, bool normalize, bq_error *err);
/* The same for several texts at once, as many of them as fit one forward batch: *taken, at least
 * one. Text i has lengths[i] tokens; the texts' tokens lie one after the other. Weights are read
 * once for all, and each text gets the bits that it gets alone. Discards the sequence.
 * CONTEXT_FULL; ARGUMENT, also for a text without tokens. */
bq_status bq_session_texts(bq_session *session, const uint32_t *tokens, const uint32_t *lengths,
                           size_t n, bq_pooling how, bool normalize, size_t *taken, bq_error *err);
/* After the call above, before the run: the tokens of each of its n texts from position at[i] on
 * are of the second type (BERT's token type 1); 0: none is. STATE: there are not n texts. */
bq_status bq_session_second(bq_session *session, const uint32_t *at, size_t n, bq_error *err);
/* The vector of text `text` (of the sequence: 0), [bq_config_vector_cols], or [hidden] where the
 * model has labels and pooling is another than BQ_POOL_LABELS; NULL unless the last run returned OK
 * after one of the two calls above. Valid as logits are. */
const float *bq_session_vector(const bq_session *session, size_t text);

/* Logits of the last token, [vocab]; NULL unless the last run returned OK, or with options.hidden.
 * Valid until the next sync, append, results or run. */
const float *bq_session_logits(const bq_session *session);
/* The output of any position that has one: logits or, with options.hidden, the hidden state,
 * [hidden]. */
const float *bq_session_result(const bq_session *session, uint32_t position);

typedef struct bq_session_stats {
  uint64_t tokens;   /* in the sequence */
  uint64_t computed; /* positions in the KV cache that every layer has computed */
  uint64_t slices;   /* since the session was created */
  bq_work work;      /* of these slices */
  uint32_t rows;     /* rows of the open forward batch, or of the next one; 0: nothing is pending */
} bq_session_stats;
bq_session_stats bq_session_stats_get(const bq_session *session);

/* The work of one stage over a micro-batch of `tokens` tokens from `position` on (HEAD: of `tokens`
 * outputs). Layers of a model may have different types. Zero for stages without weights and cache.
 */
bq_work bq_session_work(const bq_session *session, bq_stage stage, uint32_t layer,
                        uint32_t position, uint32_t tokens);

/* --- sampling ----------------------------------------------------------------------------- */

/* Added to the logit of token `id`, which must be in the vocabulary. -INFINITY or NaN bans the
 * token. */
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

/* Filters in the order in which they are applied: hook, mask, bias, repetition penalty,
 * temperature, top-k, top-p, min-p. Only the hook changes the logits themselves. */
typedef struct bq_sample_options {
  float temperature;         /* >= 0; 0: greedy (the highest logit; among equal ones the lowest id)
                                */
  uint32_t top_k;            /* 0: off */
  float top_p;               /* 0...1: keeps the most likely tokens whose probabilities sum to this,
                                at least one; 0: only the most likely, 1: all */
  float min_p;               /* 0...1: minimum probability relative to the most likely token; 0: off
                                */
  float repeat_penalty;      /* finite, >= 0; 0 and 1: off; > 1 makes recent tokens less likely */
  uint32_t repeat_last;      /* number of recent tokens that are penalized; more than there are: all
                                */
  const uint32_t *mask;      /* [(vocab + 31) / 32]: only tokens whose bit id % 32 of word id / 32
                                is set may be picked; NULL: all */
  const bq_logit_bias *bias; /* [n_bias], in any order */
  uint32_t n_bias;
  bq_logits_hook hook;
} bq_sample_options;

/* State of the random numbers, kept by the caller; initialize it with bq_rng_seed. */
typedef struct bq_rng { uint64_t state; } bq_rng;
bq_rng bq_rng_seed(uint64_t seed);

/* Picks the next token of a session that has logits. Each draw advances *rng by one step; greedy
 * sampling doesn't use it (it may be NULL then). STATE: there are no logits; NO_TOKEN: mask, bias
 * and hook ban all tokens, or no logit is a number; ARGUMENT: a bias outside the vocabulary, or
 * another option out of range. */
bq_status bq_session_sample(bq_session *session, const bq_sample_options *options, bq_rng *rng,
                            uint32_t *token, bq_error *err);

#endif
