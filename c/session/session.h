/* The inside of a session: a timeline of tokens, their KV cache, and the state of a forward
 * pass that can stop at any layer border (slice used up, or data not there yet).
 *
 * A *pass* walks layer by layer over a *window* of tokens, within it batch by batch:
 *
 *   for window:  x[rows] = embedding
 *     for layer: for batch in rows: x[batch] = block(layer, x[batch])       <- one slice
 *   last window: logits = head(norm(x[last]))                               <- one slice
 *
 * so a layer's weights are used for the whole window before the next layer is needed. Decode is a
 * window of one token. A pass may have windows of several sessions, its *members*: a row is a
 * position of one of them. It then belongs to the first, whose buffers and options it uses. Or its
 * rows are *texts* of one session, which see nothing of each other (texts.c). Every
 * operation gives a token the same bits whatever shares its batch or window, so any slicing equals
 * token by token. */
#ifndef BQ_SESSION_H
#define BQ_SESSION_H

#include "bq.h"
#include "core/assert.h"
#include "core/hash.h"
#include "model/clusters.h"
#include "model/model.h"
#include "session/cache.h"
#include "session/recurrence.h"

/* The experts that the tokens of a batch go through: *pairs* of a token and an expert, those of an
 * expert together, its tokens in order. */
typedef struct bq_routes {
  uint32_t *expert; /* [batch][used]: rising */
  float *weight;    /* [batch][used] */
  uint32_t *pair;   /* [batch][used]: its place among the pairs */
  uint32_t *token;  /* [pairs] */
  uint32_t *first;  /* [experts + 1]: each one's first pair */
  uint32_t *met;    /* [experts + 1]: how many have tokens, then which */
  uint8_t *panel;   /* quantized rows: those of an expert begin at pair * panel_bytes */
  size_t panel_bytes;
} bq_routes;

/* Work space of one batch, rows are tokens. `norm` and `panel` serve a batch of several tokens
 * together; for one token each thread makes its own, at norm + thread * hidden and
 * panel + thread * panel_bytes. */
typedef struct bq_scratch {
  float *norm;    /* [batch or threads][hidden] */
  uint8_t *panel; /* quantized activations, for the widest matmul input */
  size_t panel_bytes; /* of one token */
  float *product;     /* [threads][product_floats]; see bq_product_scratch */
  size_t product_floats;
  float *buffer[BQ_BUFFERS]; /* [batch][bq_buffer_cols]; X is the session's own */
  uint8_t *attend; /* [threads][attend_bytes] */
  size_t attend_bytes;
  bq_routes *routes; /* NULL without experts */
} bq_scratch;

/* Of the product that a spread pass is at: not asked for yet, to be computed, in place. */
typedef enum bq_spread_state {
  BQ_SPREAD_NONE = 0,
  BQ_SPREAD_WANTED,
  BQ_SPREAD_THERE
} bq_spread_state;

/* Builds for threads are smaller without it: theirs share memory. */
#ifdef BQ_NO_SPREAD
enum { BQ_CAN_SPREAD = 0 };
#else
enum { BQ_CAN_SPREAD = 1 };
#endif

enum { BQ_STATE_HEAD = 128, BQ_STATE_HASH = 8 }; /* bytes, state.c */

/* A session in a pass. */
typedef struct bq_member {
  bq_session *s;
  uint32_t row; /* of its window's first token, among the pass's rows */
} bq_member;

/* One of several texts of a session. */
typedef struct bq_text {
  uint32_t row;   /* of the pass: its first token's */
  uint32_t first; /* where that token is in `tokens` and in the cache */
} bq_text;

struct bq_session {
  const bq_model *model;
  bq_allocator allocator;
  bq_session_options options; /* defaults filled in */
  uint64_t key;               /* bq_session_set_key */
  bq_layer_set skipped;       /* bq_session_skip */
  bool clusters;              /* bq_session_clusters */

  uint64_t restored; /* bytes of a saved session that are there, until it is complete */
  bq_xxh64_state state_hash; /* of these */
  uint8_t state_ends[BQ_STATE_HEAD + BQ_STATE_HASH]; /* its first and its last */

  uint32_t *tokens;   /* [context]: the timeline */
  uint32_t n_tokens;
  uint32_t n_draft;   /* guesses in `tokens` behind them: bq_session_draft */
  uint32_t computed;  /* positions complete in every layer; <= n_tokens + n_draft */

  uint32_t from;      /* positions from here to the end of the timeline have results */
  bool has_results;   /* they are there */
  bq_pooling pooling; /* not 0: they are pooled, in `pooled`, and no head is computed */
  bool normalize;     /* to length 1, then */

  bq_text *texts;     /* [n_texts + 1], the last one: behind them. There is no timeline then */
  uint32_t n_texts;

  bq_session *pass;   /* a window is under way, in this session's pass; NULL: none is */
  uint32_t win_start, win_len;

  /* The pass of this session, while its `pass` is itself. */
  bq_member *members; /* [window], [n_members] are in use; the first is this session */
  uint32_t n_members;
  uint32_t rows;      /* of all windows together, at most options.window */
  uint32_t embedded;  /* rows whose x is there; < rows: rows of the embedding have to be read */
  uint32_t layer;     /* the next one; == layers: the head is next */
  uint32_t batch_at;  /* next row in that layer */
  uint32_t gathered;  /* of several members: rows with results, which come first now; 0: not yet */
  uint32_t head_unit; /* parts of the head that are done; 0 unless it is paged */
  uint32_t head_at;   /* results of the pass that are done, of the next part */
  uint32_t part;      /* of a slice whose products are spread: the next one */
  bq_spread_state spread;

  uint64_t slices;
  uint64_t run_end; /* the run under way ends at so many slices */
  bool run_stopped; /* it is to end */
  bq_work work;

  float *sinks;  /* [layers][kv_heads][2][options.sinks][head_dim]: keys as they are rotated at
                    their own positions, and values; of the timeline's first positions */
  float *sink_rope[BQ_ROPE_TABLES]; /* as rope: from there to where a row of the pass sees them */

  /* Where what gets the least attention leaves (evict.c); a part is 32 places: */
  uint32_t scored;    /* positions whose attention is in `attended`, a multiple of BQ_KV_BLOCK */
  uint64_t *attended; /* [parts] */
  uint32_t *attention_sums;     /* [threads][BQ_KV_BLOCK][parts]: by queries from `scored` on (bq_attend_job);
                         where no window is under way all is the first thread's */
  uint32_t *kept;     /* [parts]: those that stay, while others leave */

  float *x;      /* [window][hidden]: hidden states of the pass between layers */
  float *rope[BQ_ROPE_TABLES]; /* [window][rope_dim / 2][2]; see bq_rope_table */
  float *results; /* [options.rows][result_cols]: logits, or hidden states */
  uint32_t result_cols;
  float *pooled; /* [hidden] */
  bq_candidate *candidates; /* [vocab]: the sampler's; none where results are hidden states */
  bq_kv_cache kv;
  bq_recurrence recurrence;
  bq_scratch scratch;

  const bq_lora *adapter; /* [layers][BQ_ADAPTED_COUNT]; NULL: none */
  float *low;        /* A x of a step: [batch or threads][low_stride], as scratch.norm; a block of
                      * its own */
  size_t low_stride; /* the ranks of a step's parts together */
};

enum { BQ_FORKS_MAX = 1024, BQ_SINKS_MAX = 32, BQ_CONTEXT_MAX = 1 << 24 };


/* Fills in defaults and checks the options against the model. ARGUMENT. */
bq_status bq_session_options_resolve(const bq_config *config, const bq_session_options *in,
                                     bq_session_options *out, bq_error *err);
/* Bytes of a heap that a session with all its forks takes; *kv_bytes (may be NULL): what the
 * positions of its own context take of them. UINT64_MAX: more than the machine can address. */
uint64_t bq_session_memory(const bq_config *config, const bq_kernels *kernels,
                           const bq_session_options *options, uint64_t *kv_bytes);

/* The first layer from `layer` on that is computed; those of the model: none is left. */
static inline uint32_t bq_session_layer(const bq_session *s, uint32_t layer) {
  while (layer < s->model->config.layers && bq_layer_set_has(&s->skipped, layer)) layer++;
  return layer;
}

/* Begins a pass of its next window, and of all that is to be computed of others: of nothing yet. */
bq_status bq_pass_open(bq_session *s, bq_session *const *others, size_t n, bq_error *err);
/* Ends the pass that a window of the session is in, if there is one, without its results. */
void bq_pass_drop(bq_session *s);
/* The same where others are in it: what they share holds for none when one of them changes. */
void bq_pass_part(bq_session *s);

/* Discards all that was computed: the pass under way, blocks of the cache, what was evicted. */
void bq_session_clear(bq_session *s);
/* The session goes on as if nothing had been guessed. */
void bq_draft_forget(bq_session *s);
/* Positions of the timeline that are complete. */
static inline uint32_t bq_session_complete(const bq_session *s) {
  return s->computed < s->n_tokens ? s->computed : s->n_tokens;
}
/* Positions that are still to be computed. */
static inline uint32_t bq_session_pending(const bq_session *s) {
  return s->n_tokens + s->n_draft - s->computed;
}

/* Sinks that are moved to right before a window. */
static inline uint32_t bq_moved_sinks(const bq_session_options *o) {
  return o->evict ? 0 : o->sinks;
}
/* evict.c: parts of a cache. */
static inline uint32_t bq_evict_parts(const bq_session_options *o) {
  return o->evict ? (o->kv_window + BQ_KV_BLOCK) / 32 : 0;
}
/* Everything is computed anew. */
void bq_evict_reset(bq_session *s);
/* As where the attention of so many positions was added up; how much it was is still to be said. */
void bq_evict_resume(bq_session *s, uint32_t scored);
/* Before and after a window of so many tokens from `start` on. NOMEM: nothing has changed. */
bq_status bq_evict_open(bq_session *s, uint32_t start, uint32_t tokens, bq_error *err);
void bq_evict_close(bq_session *s);

/* How far positions are from each other at most, as tokens see them. */
static inline uint32_t bq_session_sight(const bq_session_options *o) {
  if (o->evict) return o->context;
  const uint64_t most = (uint64_t)o->kv_window + BQ_KV_BLOCK + o->sinks;
  return o->kv_window && most < o->context ? (uint32_t)most : o->context;
}
/* Of a thread's scratch for attention what comes before that of the kernels. */
typedef struct bq_sight {
  uint8_t **table; /* of the blocks in sight */
  uint8_t *block;  /* a head's share of the first of them, with sinks at its end */
  float *keys;     /* theirs: [sinks][head_dim] */
} bq_sight;
bq_sight bq_sight_lay_out(bq_arena *arena, const bq_kv_cache *kv, const bq_session_options *o);
/* What a head's sinks take. */
static inline size_t bq_sink_floats(const bq_session *s) {
  return 2 * (size_t)bq_moved_sinks(&s->options) * s->model->config.head_dim;
}
static inline size_t bq_sinks_floats(const bq_session *s) {
  const bq_config *c = &s->model->config;
  return (size_t)c->layers * c->kv_heads * bq_sink_floats(s);
}
static inline float *bq_sinks_of(const bq_session *s, uint32_t layer, uint32_t head) {
  return s->sinks + ((size_t)layer * s->model->config.kv_heads + head) * bq_sink_floats(s);
}

/* For a timeline that is there at once: its last token is computed anew, for its result. */
void bq_session_restart(bq_session *s);

/* Called by thread 0 once a layer is done: moves the session on. True: the layer after it is to be
 * done, too. Others may still be at the layer before, so they never look at where the session
 * is. */
typedef bool bq_next_fn(bq_session *s);

/* forward.c: the mathematics. All take the session's scratch. */
bq_status bq_forward_embed(bq_session *s, bq_error *err);   /* ends.c: rest of the rows -> x */
/* s->layer, `tokens` rows from s->batch_at on, and so on while `next` (NULL: no) says that
 * another layer follows with as many. */
void bq_forward_layers(bq_session *s, uint32_t tokens, bq_next_fn *next);
/* x = act(x) * y; y NULL: act(x). By the model's kind, as that of norms is. */
typedef void bq_activate_fn(float *x, const float *y, size_t n);
bq_activate_fn *bq_forward_activation(const bq_session *s);
/* Factors of a configuration: 0 is none. */
static inline float bq_or_one(float factor) { return factor > 0 ? factor : 1.0f; }
/* The same in every table: each element by itself. */
static inline void bq_scale_by(float *x, size_t n, float factor) {
  if (factor == 1.0f) return;
  for (size_t i = 0; i < n; i++) x[i] *= factor;
}
/* ends.c: y = norm(x) */
void bq_forward_norm(const bq_session *s, const float *x, const float *w, const float *b, size_t n,
                     float *y);
/* experts.c: a thread's share of a ROUTE, EXPERTS or COMBINE step over a batch; `prepare`: of its
 * input alone. */
bq_stage bq_forward_experts(const bq_session *s, const bq_layer *w, const bq_layer_step *step,
                            bool prepare, float *const *buffer, uint32_t tokens, size_t thread,
                            size_t threads);
/* Takes what a session needs for it. */
bq_routes *bq_routes_lay_out(bq_arena *arena, const bq_config *c, const bq_kernels *kernels,
                             uint32_t batch);
/* product.c: products of quantized weights with activations as the options want them; `thread`:
 * whose scratch is used. Rows of a panel that a token takes: */
static inline size_t bq_panel_rows(const bq_session_options *o) {
  return o->activations == BQ_ACTIVATIONS_I16 ? 2 : 1;
}
/* Floats that a thread needs for them. */
uint64_t bq_product_scratch(const bq_session_options *o, uint64_t widest);
/* Tokens from...to - 1 of x [tokens][cols] -> their part of the panel; `from` is a multiple of
 * BQ_PANEL_TOKENS. */
void bq_product_quantize(const bq_session *s, const float *x, size_t cols, size_t from, size_t to,
                         size_t thread, uint8_t *panel);
/* As the matmul of w->ops, which float weights are given to as they are. */
void bq_product_multiply(const bq_session *s, const bq_matrix *w, const bq_batch *a, size_t row0,
                         size_t row1, size_t thread, float *y, size_t y_stride);
/* Of the head's products: scaled and capped. */
void bq_forward_logits(const bq_config *c, float *y, size_t n);
/* Rows of bq_head_rows -> logits from row0 on; `head`: all of the head, or a part of its rows. */
void bq_forward_head(bq_session *s, const bq_matrix *head, uint32_t row0);
/* clusters.c: whether results are logits of a share of the head; the one row of bq_head_rows ->
 * logits. STATE: there are no clusters. */
bool bq_session_clustered(const bq_session *s);
bq_status bq_forward_clusters(bq_session *s, bq_error *err);
/* ends.c: rows of bq_head_rows -> hidden states behind the last norm. */
void bq_forward_hidden(bq_session *s);
/* A slice of a layer, or of the head, from s->part on, where products are spread. False: rows of
 * one are wanted; the same call goes on once they are BQ_SPREAD_THERE. */
bool bq_forward_spread(bq_session *s, uint32_t tokens);
/* What is wanted then, part `part` of `parts` of it. False: it no longer is, by other options. */
bool bq_forward_spread_part(const bq_session *s, uint32_t tokens, uint32_t part, uint32_t parts,
                            bq_spread *out);
/* adapter.c: of a module in a layer, NULL if it stays as it is; the session has an adapter. */
const bq_lora *bq_lora_of(const bq_session *s, uint32_t layer, uint32_t module);
/* low = A x * scale, of x [tokens][cols]. */
void bq_lora_down(const bq_session *s, const bq_lora *part, const float *x, size_t cols,
                      size_t tokens, float *low);
/* Rows row0...row1 - 1 of B low, added to y, of one token. */
void bq_lora_up(const bq_session *s, const bq_lora *part, const float *low,
                      size_t row0, size_t row1, float *y);
/* ends.c: the windows of the pass -> the `pooled` of each session. */
void bq_forward_pool(bq_session *s);

/* Rows of the pass under way, or of the one that comes next. */
uint32_t bq_pass_rows(const bq_session *s);

/* Rows of a pass for the next slice of the head, and where the result of the first goes: behind it
 * those of the others. */
typedef struct bq_rows {
  uint32_t first, n;
  float *results;
} bq_rows;
bq_rows bq_head_rows(const bq_session *s);
/* Results come from behind the last norm, not from the head. */
static inline bool bq_results_hidden(const bq_session *s) {
  return s->options.hidden || s->pooling;
}
/* Whether the window that is under way, or comes next, has results. */
bool bq_head_follows(const bq_session *s);

/* The session and position of a row of the pass. */
typedef struct bq_row {
  bq_session *s;
  uint32_t first;    /* where its text begins in the session's tokens and cache */
  uint32_t position; /* from there on */
  uint32_t left;     /* rows of the same text from here on, this one included */
} bq_row;
bq_row bq_row_at(const bq_session *s, uint32_t row);

bq_status bq_pooling_check(bq_pooling how, bq_error *err);

/* texts.c: the most texts of a pass; a row of a pass of texts. */
uint32_t bq_texts_most(const bq_session_options *options);
bq_row bq_text_row(const bq_session *s, uint32_t row);

/* page.c: what a slice needs, wherever it lies. WANT_DATA: it has to be read first. */
bq_status bq_page_embedding(bq_session *s, uint32_t token, uint32_t position, float *wte,
                            float *wpe, bq_error *err);      /* wpe NULL: not wanted */
bq_status bq_page_layer(const bq_session *s, bq_error *err); /* s->layer */
bq_status bq_page_head(const bq_session *s, bq_matrix *part, uint32_t *row0, bq_error *err);

/* parallel.c: the parts of a job one after the other, each shared out to threads; fn(arg, layer,
 * part, thread, threads) returns the stage that ends with it. A part may begin when all threads are
 * done with the one before. After the last one thread 0 asks `next` (NULL: no) whether to go on
 * with the parts of another layer. */
typedef struct bq_job {
  bq_stage (*fn)(const void *arg, uint32_t layer, uint32_t part, size_t thread, size_t threads);
  const bq_phases *(*parts)(const void *arg, uint32_t layer);
  const void *arg;
  bq_next_fn *next;
} bq_job;
void bq_run_job(bq_session *s, const bq_job *job);

/* A thread's share of a part's n things, given in runs from...to - 1: all threads together get each
 * of them once. Runs begin at multiples of `grain`. A part has but one such n and grain.
 *   for (bq_share share = bq_share_of(s, thread, threads, n, 1); bq_share_next(&share);) ... */
typedef struct bq_share {
  const bq_session *s;
  size_t thread, threads, n, grain;
  size_t from, to;
  bool given; /* all of it, where shares are equal */
} bq_share;
static inline bq_share bq_share_of(const bq_session *s, size_t thread, size_t threads, size_t n,
                                   size_t grain) {
  return (bq_share){s, thread, threads, n, grain, 0, 0, false};
}
bool bq_share_next(bq_share *share);

/* The results of a position from s->from on. */
static inline float *bq_result_at(const bq_session *s, uint32_t position) {
  bq_assert(position >= s->from && position - s->from < s->options.rows);
  return s->results + (size_t)(position - s->from) * s->result_cols;
}

static inline void bq_mark(const bq_session *s, bq_stage stage, uint32_t layer) {
  if (s->options.trace.mark) s->options.trace.mark(s->options.trace.ctx, stage, layer);
}

/* work.c: of one step of a layer's program. */
bq_work bq_layer_step_work(const bq_session *s, const bq_layer *layer, const bq_layer_step *step,
                     uint32_t position, uint32_t tokens);
/* Of rows of a pass in a stage; BQ_STAGE_COUNT: in all of a layer. */
bq_work bq_pass_work(const bq_session *s, bq_stage stage, uint32_t layer, uint32_t row,
                     uint32_t rows);

/* sampler.c: the next token, BQ_TOKEN_NONE if none may be picked. Logits may be anything: what
 * isn't greater than -infinity (NaN, too) is never picked, +infinity always. `recent`: the last
 * n_recent tokens of the text; `candidates`: room for [vocab], not read when greedy without mask,
 * bias and penalty; options->hook is not called. */
uint32_t bq_sample(const float *logits, uint32_t vocab, const uint32_t *recent, size_t n_recent,
                   const bq_sample_options *options, bq_rng *rng, bq_candidate *candidates);

#endif
