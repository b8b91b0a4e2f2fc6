/* bq4: language models on the CPU. The public C interface.
 *
 * bytes -> bq_loader -> bq_model -> bq_session -> logits -> bq_sample -> ids -> text
 *
 * A loader is pushed the bytes of a .bq4 file in any split and says which it wants next; it
 * never sees a file, a socket or a clock. A model is immutable once its bytes are there, and
 * can be used before they all are: a session then stops at a layer border with WANT_DATA and
 * goes on when the loader has been fed. A session is one timeline (tokens and their KV cache);
 * many may share one model. Nothing here keeps global state; nothing allocates after create.
 *
 * Conventions: options structs may be zeroed, zero is the default of each field. Out
 * parameters come last, untouched on failure; bq_error is optional. Sizes are bytes unless
 * named otherwise. Objects are freed by whoever created them, sessions before their model,
 * the model before its loader (bq_loader_free frees the model's memory).
 */
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

/* Runs fn(arg, thread, threads) for every thread in [0, threads), threads >= 1, and returns when
 * all are done; thread 0 is the calling one. What was written before `run` is seen by all threads,
 * what they wrote is seen after it. Injected by the host; c/ starts no thread. Work is given to as
 * many threads as a session was made for, `threads` below; others only come to the barriers. Zero:
 * one thread.
 *
 * `barrier`, callable by every thread of the current run, returns when all of its threads have
 * called it as often; what any of them wrote before is seen by all after it. A layer, or for one
 * token all of them, then takes one run with a barrier between its parts; its waits are short
 * (microseconds), so it may spin. NULL: each part is a run of its own, and its threads may as well
 * run one after the other. The bits are the same.
 *
 * `take`, for hosts with a barrier, shares out what there is to do between two barriers, n things,
 * as threads get to it: from one that is slow or interrupted others take over. It sets *from < *to
 * <= n and returns true, or false when nothing is left; each thing is given once. Callable as often
 * as one likes, by all threads with the same n. NULL: equal shares. */
typedef struct bq_parallel {
  void *ctx;
  void (*run)(void *ctx, void (*fn)(void *arg, size_t thread, size_t threads), void *arg);
  size_t threads;
  void (*barrier)(void *ctx, size_t thread, size_t threads);
  bool (*take)(void *ctx, size_t thread, size_t threads, size_t n, size_t *from, size_t *to);
} bq_parallel;

/* --- trace ------------------------------------------------------------------------------ */

/* c/ has no clock: the host brings its own. `mark` is called on the thread that called the session,
 * at the end of each stage: the time since the call before belongs to `stage` of `layer` (0 where
 * there is none). The first mark of every bq_session_run and bq_session_sample is
 * BQ_STAGE_HOST. Zero: off. */
typedef struct bq_trace {
  void *ctx;
  void (*mark)(void *ctx, bq_stage stage, uint32_t layer);
} bq_trace;

/* `asked` is asked between two slices, on the thread that called bq_session_run: true ends the run
 * with MORE. So a run of many slices can be stopped as soon as one of one slice. Zero: never. */
typedef struct bq_stop {
  void *ctx;
  bool (*asked)(void *ctx);
} bq_stop;

/* What a stage moves and computes: known beforehand, the same on every machine. */
typedef struct bq_work {
  uint64_t weight_bytes; /* weights read, once per batch */
  uint64_t kv_bytes;     /* of the KV cache: read by ATTEND, once per batch; written by KV */
  uint64_t macs;         /* multiplications with weights and with cached keys and values */
} bq_work;

/* --- plan ------------------------------------------------------------------------------- */

/* I16: two parts of i8, each with a scale per 32: products take about twice as many
 * multiplications, and what is lost is what the weights have lost. */
typedef enum bq_activations {
  BQ_ACTIVATIONS_I8 = 0,
  BQ_ACTIVATIONS_I16 = 1,
  BQ_ACTIVATIONS_COUNT
} bq_activations;

/* What leaves a cache with a kv_window: the oldest positions, or those 32 at a time that got the
 * least attention (H2O; docs/decisions/0018-attention-sinks.md). */
typedef enum bq_evict {
  BQ_EVICT_OLDEST = 0,
  BQ_EVICT_ATTENTION = 1,
  BQ_EVICT_COUNT
} bq_evict;

typedef struct bq_session_options {
  uint32_t context;    /* positions; 0: the model's own */
  uint32_t window;     /* tokens kept at once in prefill, as hidden states; 0: min(context, 256) */
  uint32_t batch;      /* tokens per matmul in prefill; 0: 32 */
  bq_kv_type kv_type;  /* 0: f32; docs/decisions/0005-kv-cache-types.md compares them */
  bq_activations activations; /* that quantized weights meet; 0: i8 */
  uint32_t rows;       /* positions whose results a run can give; 0: 1 (bq_session_results) */
  bool hidden;         /* results are hidden states behind the last norm: no head is computed.
                          Always where the model has none */
  uint32_t forks;      /* sessions forked from this one that are planned for, at a time */
  uint32_t fork_positions; /* that each of them will not share with others; 0: context */
  uint32_t kv_window;  /* positions that a token sees at least, in layers without a window of their
                          own, and BQ_KV_BLOCK - 1 more at most; 0: all. The context may be longer
                          than the model's own then (docs/decisions/0018-attention-sinks.md) */
  uint32_t sinks;      /* and besides, of the first ones; at most BQ_SINKS_MAX */
  float head;          /* the share of the head's rows that is computed, by clusters: those that
                          bq_model_cluster makes. The logits of others are -INFINITY. 0: all */
  bq_evict evict;      /* ATTENTION: kv_window is a multiple of BQ_KV_BLOCK, and positions keep
                          their rotations, so that the context is at most the model's own */
  uint32_t spread;     /* products of so many tokens at least are spread (bq_session_spread), not of
                          paged models, nor with threads; 0: none */
  bq_parallel parallel;
  bq_trace trace;
  bq_stop stop;
} bq_session_options;

typedef struct bq_plan {
  bool foreign;            /* described by a manifest, not by itself */
  uint64_t file_bytes;     /* by its header; foreign: by the caller, or up to the last tensor */
  uint64_t prefix_bytes;   /* everything before the data; foreign: 0 */
  uint64_t weight_bytes;   /* weights as the engine holds them */
  uint64_t loader_bytes;   /* one block: the loader itself */
  uint64_t prefix_block;   /* one block: prefix or manifest */
  uint64_t model_bytes;    /* one block: weights, tokenizer tables, staging */
  uint64_t session_bytes;  /* a session with the given options and its forks: blocks of a bq_heap */
  uint64_t kv_bytes;       /* of session_bytes, what the positions of its own context take */
  uint64_t token_weights;  /* weights that every token meets: what its time is spent on */
  uint64_t cluster_bytes;  /* one block: what bq_model_cluster takes; 0: options.head is 0 */
  bool lacks_kernels;      /* some are of types that bq_kernels_best() can't multiply with */
  bool key_bias;           /* keys have a bias, which may be so large that 8 bits cost much */
  bq_config config;
} bq_plan;

/* Plans from the first `n` bytes of a file. WANT_DATA: *need (> n) bytes are needed to tell.
 * `manifest`: what the host says of a file that is no v2 file (docs/FORMAT.md §4), whose own bytes
 * are then not looked at; 0 bytes: none. file_bytes: 0 when unknown. Allocates nothing. */
bq_status bq_plan_make(const uint8_t *bytes, size_t n, uint64_t file_bytes,
                       const uint8_t *manifest, size_t manifest_bytes,
                       const bq_session_options *options, uint64_t *need, bq_plan *out,
                       bq_error *err);

/* --- less memory than weights ----------------------------------------------------------- */

/* What all of it together may take: the plan's blocks, `sessions` sessions, and `beside` times
 * slot_bytes (buffers that the host needs of its own). */
typedef struct bq_budget {
  uint64_t bytes;
  uint32_t sessions, beside;
} bq_budget;

/* bq_plan_make with the residency that keeps to the budget with the least to read: *plan has the
 * model_bytes of *paging. NOMEM: even with everything paged it takes more. UNSUPPORTED: it takes
 * more, and its weights can't be paged because they are not stored as they are computed with
 * (quantized weights in rows, v1), or not aligned (foreign containers). */
bq_status bq_plan_paging(const uint8_t *bytes, size_t n, uint64_t file_bytes,
                         const uint8_t *manifest, size_t manifest_bytes,
                         const bq_session_options *options, const bq_budget *budget,
                         uint64_t *need, bq_plan *plan, bq_paging *paging, bq_error *err);

/* --- load ------------------------------------------------------------------------------- */

typedef struct bq_loader_options {
  bq_allocator allocator;
  const bq_kernels *kernels;  /* NULL: bq_kernels_best() */
  uint64_t file_bytes;        /* 0: unknown (foreign files then end with their last tensor) */
  uint64_t prefix_hint;       /* the plan's prefix_bytes: one exact block. 0: one that grows */
  const uint8_t *manifest;    /* as for bq_plan_make; copied, or */
  size_t manifest_bytes;      /* 0: none */
  bool manifest_given;        /* a block of the allocator, which the loader frees in the end, or
                               * bq_loader_create when it fails */
  bq_residency residency;     /* what is paged is checked on its way, and dropped */
  const uint8_t *integrity;   /* SHA-256 as in docs/FORMAT.md, HASH; copied. NULL: none asked for */
} bq_loader_options;

/* What the loader wants next: `length` bytes from `offset` on are useful; the first `dst_bytes`
 * of them may be written straight to `dst`, followed by bq_loader_wrote. length 0: complete. */
typedef struct bq_want {
  uint64_t offset, length;
  uint8_t *dst;
  size_t dst_bytes;
} bq_want;

/* NOMEM, ARGUMENT; with a manifest also what can be wrong with that, and with a prefix. */
bq_status bq_loader_create(const bq_loader_options *options, bq_loader **out, bq_error *err);
bq_status bq_loader_want(bq_loader *loader, bq_want *out, bq_error *err);
/* `n` bytes (<= dst_bytes of the last want) are in place. Errors are sticky, but see
 * bq_loader_retry. */
bq_status bq_loader_wrote(bq_loader *loader, size_t n, bq_error *err);
/* After a CHECKSUM error (INTEGRITY: only that of a prefix): goes back to the start of what did not
 * verify, the prefix or a chunk, which the next want asks for. Otherwise the error is for good and
 * returned again; STATE when there is none. */
bq_status bq_loader_retry(bq_loader *loader, bq_error *err);
/* As bq_loader_wrote, by copy: bytes from the wanted offset on, any number. */
bq_status bq_loader_feed(bq_loader *loader, const uint8_t *bytes, size_t n, bq_error *err);
/* The model, once the prefix is there (STATE before; with a manifest from the start). Lives until
 * bq_loader_free. What ended the loading before there was one. */
bq_status bq_loader_model(bq_loader *loader, bq_model **out, bq_error *err);
void bq_loader_free(bq_loader *loader);

/* --- model ------------------------------------------------------------------------------ */

const bq_config *bq_model_config(const bq_model *model);
/* The id of its file, [BQ_FILE_ID_BYTES]: equal where files are, whatever their address. NULL: the
 * file has none, and no manifest gave it one. */
const uint8_t *bq_model_file_id(const bq_model *model);
const bq_tokenizer *bq_model_tokenizer(const bq_model *model); /* NULL: the file has none */
/* Payload of a section (tag as "CHAT"), in place; NULL when there is none. */
const uint8_t *bq_model_section(const bq_model *model, const char tag[4], size_t *bytes);
/* Layers that can be computed now: 0 = not even the embedding, layers + 2 = everything. */
uint32_t bq_model_ready(const bq_model *model);
/* Makes clusters of the head's rows, for options.head, unless there are; the same ones everywhere.
 * They stay until bq_loader_free. Not while a session of this model runs. STATE: the head is not
 * there yet; UNSUPPORTED: there is none, or weights are paged; NOMEM. */
bq_status bq_model_cluster(bq_model *model, bq_allocator allocator, bq_error *err);

/* --- session ---------------------------------------------------------------------------- */

/* NO_SESSION: no memory for another one. ARGUMENT: an option that the model can't have. */
bq_status bq_session_create(const bq_model *model, const bq_session_options *options,
                            bq_allocator allocator, bq_session **out, bq_error *err);
/* A session that goes on from where `session` is, on its own: with its tokens, its options but for
 * the trace, and its logits. They share the blocks of the KV cache that both leave as they are;
 * which of the two is freed first doesn't matter. NO_SESSION. */
bq_status bq_session_fork(const bq_session *session, bq_session **out, bq_error *err);
void bq_session_free(bq_session *session);
/* What besides the tokens decides what is computed for them, such as the adapter in use: told by a
 * number, 0 at first. What was computed under another one is forgotten. */
void bq_session_set_key(bq_session *session, uint64_t key);

/* The n layers that are not computed from now on: a token's state passes them unchanged. What was
 * computed with others is forgotten; forks skip the same ones. ARGUMENT: there is no such layer. */
bq_status bq_session_skip(bq_session *session, const uint32_t *layers, size_t n, bq_error *err);

/* With options.head: whether its share of the head is enough from now on, which at first it isn't,
 * nor is it under a mask. The last logits are computed anew when that changes. */
void bq_session_clusters(bq_session *session, bool on);

/* --- adapters ---
 * Low-rank changes of a model's products: y += B (A x * scale), after the bias. */

/* Products of a layer that can be changed, by their numbers in an adapter. */
typedef enum bq_adapted {
  BQ_ADAPTED_Q, BQ_ADAPTED_K, BQ_ADAPTED_V, BQ_ADAPTED_O,
  BQ_ADAPTED_GATE, BQ_ADAPTED_UP, BQ_ADAPTED_DOWN,
  BQ_ADAPTED_COUNT
} bq_adapted;

typedef struct bq_lora {
  const float *a; /* [rank][columns of the matrix]; both 16-byte aligned, and finite */
  const float *b; /* [rows of the matrix][rank] */
  uint32_t rank;  /* 0: the product stays as it is */
  float scale;
} bq_lora;

/* Sessions compute with `parts` [layers][BQ_ADAPTED_COUNT] from now on, or as the model is: NULL.
 * They stay the caller's, as they are, until the session is freed or told others; forks have them
 * too. `key`: as of bq_session_set_key, not 0 where there are parts. SHAPE: a layer has no such
 * product; NO_SESSION: no memory for A x, beside the block of the adapter before where that is too
 * small. The session is then as it was. */
bq_status bq_session_set_adapter(bq_session *session, const bq_lora *parts, uint64_t key,
                                 bq_error *err);

/* Makes `tokens` the timeline: what agrees with it from the start stays in the KV cache
 * (*kept positions), the rest will be computed by bq_session_run. The last token is always
 * computed anew unless its logits are at hand. n >= 1. CONTEXT_FULL, ARGUMENT (id >= vocab).
 * May be called at any time, also amid an unfinished run. */
bq_status bq_session_sync(bq_session *session, const uint32_t *tokens, size_t n, size_t *kept,
                          bq_error *err);
/* Appends one token to the timeline (decode). */
bq_status bq_session_append(bq_session *session, uint32_t token, bq_error *err);
/* What may come next, by the caller's guess: the next run computes as many of these tokens as there
 * is room for, *taken, in one batch with the timeline's last ones, each with its logits. An append
 * of what was guessed finds them there, with nothing to run; another one, and whatever else changes
 * the timeline or its results, forgets the rest. No bit depends on guesses. *taken is at most
 * options.rows - 1, and 0 where there is nothing to run but they. ARGUMENT: a token outside the
 * vocabulary; STATE: there is no timeline but texts. */
bq_status bq_session_draft(bq_session *session, const uint32_t *tokens, size_t n, size_t *taken,
                           bq_error *err);
/* Computes at most `slices` slices (one slice: one layer for one batch; 0: no limit). OK: all done,
 * logits are there. MORE: call again, there were so many or bq_stop ended it. WANT_DATA: feed the
 * loader. NOMEM: forks have used up the blocks of the KV cache. */
bq_status bq_session_run(bq_session *session, size_t slices, bq_error *err);
/* The same of several sessions of a model in one pass: each weight is read once for all of them,
 * and what each computes is what it would alone. `session` lends its buffers and options: it has
 * tokens to run; all that is to be run of all together is at most its `window`, with at most its
 * `rows` results; the `n` others have no larger context, the same KV type, adapter and kind of
 * results. MORE and WANT_DATA: call again with the same ones; a change of any, or a run of another
 * kind, gives up what the pass has done. ARGUMENT, and as bq_session_run. */
bq_status bq_session_run_with(bq_session *session, bq_session *const *others, size_t n,
                              size_t slices, bq_error *err);

/* --- products spread over hosts ---
 * Where threads can't share memory, others may still compute rows of products: each holds a part
 * of every matrix, is sent what it is multiplied with, and sends its rows back. A run of a
 * session that has options.spread stops with WANT_DATA where such a product is next. The host
 * then asks for the parts, has each computed (bq_spread_multiply) and its rows put at `y`, says
 * so, and runs again. The bits are the same, whoever computes which part. */
typedef struct bq_spread_rows {
  const uint8_t *weights; /* of this part of a matrix: each time the same `bytes` there */
  size_t bytes;
  bq_type type;
  uint32_t rows;   /* of this part; may be 0 */
  float *y;        /* [tokens][stride], of which `rows` are this part's */
  uint32_t stride; /* floats */
} bq_spread_rows;

enum { BQ_SPREAD_MAX = 3 }; /* products with one input */

typedef struct bq_spread {
  uint32_t n, tokens, cols;
  bq_activations activations;
  const uint8_t *panel; /* the activations, as kernels take them */
  size_t panel_bytes;
  bq_spread_rows list[BQ_SPREAD_MAX];
} bq_spread;

/* Part `part` of `parts` of what the last run stopped for. False: that was something else. */
bool bq_session_spread(const bq_session *session, uint32_t part, uint32_t parts, bq_spread *out);
/* All parts of it are in place. Nothing where nothing was wanted. */
void bq_session_spread_done(bq_session *session);
/* Floats that computing a part needs besides. */
size_t bq_spread_scratch(const bq_spread *work);
/* Computes a part, wherever its weights, panel and `y` lie: by the table that the session has. */
void bq_spread_multiply(const bq_kernels *kernels, const bq_spread *work, float *scratch);

/* --- saved sessions ---
 * The timeline and what is computed of it, as bytes that only this build's layout knows: another
 * session of the same model, KV type and key goes on from them with the same bits, whatever its
 * context, unless only one of them has so much that it rotates otherwise (CONF, rope_original). A
 * run that isn't done is saved up to its last complete window. */

/* Until the session is used for anything else. */
uint64_t bq_session_state_bytes(const bq_session *session);
/* The bytes at...at + n - 1 of them. UNSUPPORTED: the model's file has no id (v1). ARGUMENT. */
bq_status bq_session_save(const bq_session *session, uint64_t at, uint8_t *out, size_t n,
                          bq_error *err);
/* The next n bytes of a saved session, from its first on; the timeline is gone with the first call.
 * OK: it is the saved one now; run computes the logits of its last token. MORE: not all are there
 * yet. After an error, or a sync in between, it begins anew. FORMAT, UNSUPPORTED, MISMATCH,
 * CONTEXT_FULL, NOMEM (as bq_session_run). The last bytes are a hash of all others: any that
 * changed is FORMAT, unless it is refused before. It keeps nobody from making one up: whoever takes
 * states from others computes on what these say was computed. */
bq_status bq_session_restore(bq_session *session, const uint8_t *bytes, size_t n, bq_error *err);

/* --- paging: reads that the host makes for a paged model ---
 * A session of such a model stops with WANT_DATA also where its next slice needs a page that is not
 * there. The host then asks for pages, reads each from the file and says so. */

/* Pages to be read for this session, the most urgent first, at most `capacity`, *n of them: what
 * its next slice needs, and what it will need after that as far as a buffer is free. Each is handed
 * out once, until it is done. Not while a session of this model runs. */
bq_status bq_session_pages(bq_session *session, bq_page *out, size_t capacity, size_t *n);
/* The page is in place or, not `good`, could not be read: it will be asked for again. ARGUMENT: it
 * was not handed out. */
bq_status bq_model_page_done(bq_model *model, uint32_t id, bool good, bq_error *err);

/* Results of the next run: those of all positions from `from` to the end of the timeline. What is
 * computed already from there on is computed anew, so call it before the run. Without it, and again
 * after each sync that changes the timeline and each append, only the last token has a result.
 * ARGUMENT: there are no such positions, or more than options.rows. */
bq_status bq_session_results(bq_session *session, uint32_t from, bq_error *err);

/* Instead: one vector of the whole timeline, pooled of the hidden states behind the last norm, of
 * length 1 if `normalize`, until the timeline changes. What it needs is computed anew, so call it
 * before the run. ARGUMENT; STATE: there are no tokens. */
bq_status bq_session_pool(bq_session *session, bq_pooling how, bool normalize, bq_error *err);
/* The same of several texts at once, as many of the first of these as a pass takes: *taken, one at
 * least. Text i has lengths[i] tokens, which lie one text behind the other. Weights are read once
 * for all, and each gets the bits that it gets alone. The timeline is gone. CONTEXT_FULL; ARGUMENT,
 * also for a text without tokens. */
bq_status bq_session_texts(bq_session *session, const uint32_t *tokens, const uint32_t *lengths,
                           size_t n, bq_pooling how, bool normalize, size_t *taken, bq_error *err);
/* [hidden], of text `text`, or 0; NULL unless the last run returned OK after one of both. Valid as
 * logits are. */
const float *bq_session_vector(const bq_session *session, size_t text);

/* Logits of the last token, [vocab]; NULL unless the last run returned OK, or with options.hidden.
 * Valid until the next sync, append, results or run. */
const float *bq_session_logits(const bq_session *session);
/* The same of any position that has a result; with options.hidden its hidden state, [hidden]. */
const float *bq_session_result(const bq_session *session, uint32_t position);

typedef struct bq_session_stats {
  uint64_t tokens;   /* in the timeline */
  uint64_t computed; /* positions in the KV cache that are complete */
  uint64_t slices;   /* slices run since create */
  bq_work work;      /* of these slices, all stages together */
  uint32_t rows;     /* of the pass under way, or of the one that comes next; 0: nothing is due */
} bq_session_stats;
bq_session_stats bq_session_stats_get(const bq_session *session);

/* The work of one stage over a batch of `tokens` from `position` on (HEAD: of `tokens` results).
 * Layers of a model may differ in their types. Zero for stages without weights and cache. */
bq_work bq_session_work(const bq_session *session, bq_stage stage, uint32_t layer,
                        uint32_t position, uint32_t tokens);

/* --- sampling ----------------------------------------------------------------------------- */

/* Added to the logit of token `id`, which has to be in the vocabulary. -INFINITY or NaN: never
 * picked. */
typedef struct bq_logit_bias {
  uint32_t id;
  float bias;
} bq_logit_bias;

/* `change` may do what it likes with the session's logits, [vocab], before a token is picked:
 * -INFINITY forbids a token. What it changes stays so, for bq_session_logits too, until the next
 * run. Zero: off. */
typedef struct bq_logits_hook {
  void *ctx;
  void (*change)(void *ctx, float *logits, uint32_t vocab);
} bq_logits_hook;

/* In the order in which they are applied: hook, mask, bias, repetition penalty, temperature, top-k,
 * top-p, min-p. The logits themselves are changed by the hook alone. */
typedef struct bq_sample_options {
  float temperature;         /* >= 0; 0: greedy (highest logit, ties to the lowest id) */
  uint32_t top_k;            /* 0: off */
  float top_p;               /* 0...1: the likeliest tokens that together reach it, at least one; 0:
                                the likeliest alone, 1: all */
  float min_p;               /* 0...1: share of the best token's probability; 0: off */
  float repeat_penalty;      /* finite, >= 0; 0 or 1: off; > 1 makes recent tokens less likely */
  uint32_t repeat_last;      /* how many recent tokens it looks at; more than there are: all */
  const uint32_t *mask;      /* [(vocab + 31) / 32]: only tokens whose bit id % 32 of word id / 32
                                is set may be picked; NULL: all */
  const bq_logit_bias *bias; /* [n_bias], in any order */
  uint32_t n_bias;
  bq_logits_hook hook;
} bq_sample_options;

/* Random state: seed it with bq_rng_seed; carried by the caller. */
typedef struct bq_rng { uint64_t state; } bq_rng;
bq_rng bq_rng_seed(uint64_t seed);

/* Picks the next token of a session that has logits. STATE when it has none, NO_TOKEN when mask,
 * bias and hook leave nothing to pick (or no logit is a number), ARGUMENT: a bias outside the
 * vocabulary, another option out of its range. The draw takes one step of *rng, which greedy
 * doesn't touch (it may be NULL then). */
bq_status bq_session_sample(bq_session *session, const bq_sample_options *options, bq_rng *rng,
                            uint32_t *token, bq_error *err);

#endif
