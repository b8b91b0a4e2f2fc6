/* Walks the program of a layer (model/program.h) over one batch of tokens, step by step, in slices:
 * norms, products, attention and MLP put together from kernel slots. Also the head, which is
 * no layer's. Rows are tokens. */
#include <string.h>

#include "core/fmath.h"
#include "core/minmax.h"
#include "session/session.h"

/* --- a job: one layer, or the head, over one batch -------------------------------------------- */

typedef struct job {
  const bq_session *s; /* whose pass it is */
  uint32_t batch_at; /* the batch's first row in the pass */
  uint32_t tokens;   /* in the batch */
  float *buffer[BQ_BUFFERS]; /* [tokens][cols] */
  uint32_t cols[BQ_BUFFERS];
  const bq_matrix *head;     /* or a part of its rows, from row0 on */
  uint32_t row0;
  float *results;            /* of the head: [tokens][result_cols] */
} job;

/* Tokens of a batch that are of one text of a session, and see the same of its beginning. */
typedef struct segment {
  const bq_session *s;
  uint32_t at, tokens; /* the first in the batch, how many */
  uint32_t first;      /* where the text begins in the cache */
  uint32_t position;   /* there, of the first */
} segment;

/* The one behind `from` tokens of the batch. */
static segment segment_at(const job *j, uint32_t from) {
  const bq_row row = bq_row_at(j->s, j->batch_at + from);
  const uint32_t position = row.first + row.position, window = bq_sliding(&row.s->options);
  uint32_t n = bq_min32(row.left, j->tokens - from);
  /* All see the same first position. */
  if (window)
    n = bq_min32(n, bq_kv_window_from(window, position) + BQ_KV_BLOCK + window - 1 - position);
  return (segment){row.s, from, n, row.first, position};
}

/* A job at one layer. */
typedef struct place {
  const job *j;
  const bq_session *s;
  const bq_layer *w;
  uint32_t layer;
} place;

/* y[tokens][rows] = batch * w^T * scale + bias */
typedef struct product {
  const bq_matrix *w;
  const float *scale, *bias; /* [rows] or NULL */
  float *y;          /* [tokens][stride] */
  size_t stride;     /* floats, of these w->rows are written */
  const bq_lora *adapter; /* NULL: none */
  float *low;        /* of that: [tokens][s->low_stride] */
} product;

/* Products that share their input x [tokens][cols]. */
typedef struct linear {
  size_t thread; /* that computes them, or a part */
  const float *x;
  size_t cols;
  bool normed; /* the input is normed first */
  const float *norm_w, *norm_b;
  product list[BQ_STEP_MATRICES];
  size_t n;
  float *residual; /* [tokens][rows], what list[0] is added to; or NULL */
  float scale;     /* of list[0] before it is added */
  bool activate;   /* list[0] = act(list[0]) * list[1] */
  bool logits;     /* list[0] is scaled and capped */
  bq_stage stage;
} linear;

static linear head_of(const job *j, size_t thread) {
  const bq_session *s = j->s;
  const bq_model *m = s->model;
  const size_t hidden = m->config.hidden;
  const float *bias = m->head_b ? m->head_b + j->row0 : NULL;
  float *y = j->results + j->row0;
  return (linear){.thread = thread,
                  .x = s->x + j->batch_at * hidden,
                  .cols = hidden,
                  .normed = m->ln_f_w != NULL,
                  .norm_w = m->ln_f_w,
                  .norm_b = m->ln_f_b,
                  .list = {{.w = j->head, .bias = bias, .y = y, .stride = s->result_cols}},
                  .n = 1,
                  .logits = true,
                  .stage = BQ_STAGE_HEAD};
}

/* The weight of a norm. */
static const float *vector_of(const bq_weights *m) {
  return (const float *)(const void *)m->w.data;
}

/* For one token preparing its input costs less than waiting for others to do it. */
static bool prepares_alone(const job *j) { return j->tokens == 1; }

static void adapt(const place *p, const bq_layer_step *step, linear *l) {
  float *low = p->s->low + (prepares_alone(p->j) ? l->thread * p->s->low_stride : 0);
  for (uint32_t i = 0; i < step->n; i++) {
    l->list[i].adapter = bq_lora_of(p->s, p->layer, step->module[i]);
    l->list[i].low = low;
    if (l->list[i].adapter) low += l->list[i].adapter->rank;
  }
}

static linear linear_of(const place *p, const bq_layer_step *step, size_t thread) {
  const job *j = p->j;
  linear l = {.thread = thread, .x = j->buffer[step->in], .cols = j->cols[step->in], .n = step->n,
              .residual = step->then == BQ_EPILOGUE_ADD ? j->buffer[BQ_BUFFER_X] : NULL,
              .scale = bq_or_one(p->s->model->config.residual_scale),
              .activate = step->then == BQ_EPILOGUE_ACTIVATE,
              .stage = step->then == BQ_EPILOGUE_ACTIVATE ? BQ_STAGE_ACTIVATE : (bq_stage)step->stage};
  l.normed = step->norm != BQ_NO_MODULE;
  if (l.normed) {
    l.norm_w = vector_of(&p->w->module[step->norm]);
    l.norm_b = p->w->module[step->norm].b;
  }
  for (uint32_t i = 0; i < step->n; i++) {
    const bq_weights *m = &p->w->module[step->module[i]];
    l.list[i] = (product){.w = &m->w, .scale = m->scale, .bias = m->b,
                          .y = j->buffer[step->out[i]], .stride = j->cols[step->out[i]]};
  }
  if (p->s->adapter) adapt(p, step, &l);
  return l;
}

/* --- inputs --------------------------------------------------------------------------------- */

static bool quantized(const linear *l) {
  for (size_t i = 0; i < l->n; i++)
    if (l->list[i].w->ops->quantized) return true;
  return false;
}

/* Tokens from...to - 1 of the input as the products take it; `from` is a multiple of
 * BQ_PANEL_TOKENS. */
static void prepare(const bq_session *s, const linear *l, size_t from, size_t to, float *normed,
                    uint8_t *panel) {
  const float *x = l->normed ? normed : l->x;
  for (size_t t = from; l->normed && t < to; t++)
    bq_forward_norm(s, l->x + t * l->cols, l->norm_w, l->norm_b, l->cols, normed + t * l->cols);
  if (quantized(l)) bq_product_quantize(s, x, l->cols, from, to, l->thread, panel);
  for (size_t i = 0; i < l->n; i++)
    if (l->list[i].adapter)
      bq_lora_down(s, l->list[i].adapter, x + from * l->cols, l->cols, to - from,
                       l->list[i].low + from * s->low_stride);
}

static void prepare_share(const job *j, const linear *l, size_t thread, size_t threads) {
  for (bq_share share = bq_share_of(j->s, thread, threads, j->tokens, BQ_PANEL_TOKENS);
       bq_share_next(&share);)
    prepare(j->s, l, share.from, share.to, j->s->scratch.norm, j->s->scratch.panel);
}

/* --- products ------------------------------------------------------------------------------- */

static size_t row_groups(const bq_matrix *w) {
  return ((size_t)w->rows + BQ_TILE_ROWS - 1) / BQ_TILE_ROWS;
}

void bq_forward_logits(const bq_config *c, float *y, size_t n) {
  bq_scale_by(y, n, bq_or_one(c->logit_scale));
  const float cap = c->logit_softcap;
  for (size_t i = 0; cap > 0 && i < n; i++) y[i] = cap * bq_tanhf(y[i] / cap);
}

/* What comes behind multiplying, for rows row0...row1 - 1. */
static void finish_product(const bq_session *s, const linear *l, const product *p, size_t tokens,
                           size_t row0, size_t row1) {
  for (size_t t = 0; t < tokens; t++) {
    float *y = p->y + t * p->stride + row0;
    for (size_t i = 0; p->scale && i < row1 - row0; i++) y[i] *= p->scale[row0 + i];
    if (p->bias) s->model->kernels->add(y, p->bias + row0, row1 - row0);
    if (p->adapter)
      bq_lora_up(s, p->adapter, p->low + t * s->low_stride, row0, row1, y);
    if (l->logits) bq_forward_logits(&s->model->config, y, row1 - row0);
    if (!l->residual) continue;
    bq_scale_by(y, row1 - row0, l->scale);
    s->model->kernels->add(l->residual + t * p->w->rows + row0, y, row1 - row0);
  }
}

/* Groups a...b - 1 of BQ_TILE_ROWS rows. */
static void run_product(const bq_session *s, const linear *l, const product *p,
                        const bq_batch *batch, size_t a, size_t b) {
  const size_t rows = p->w->rows, row0 = a * BQ_TILE_ROWS;
  const size_t row1 = b * BQ_TILE_ROWS < rows ? b * BQ_TILE_ROWS : rows;
  bq_product_multiply(s, p->w, batch, row0, row1, l->thread, p->y, p->stride);
  finish_product(s, l, p, batch->tokens, row0, row1);
}

/* Row groups from...to - 1 of all products, as one long row of them. */
static void run_products(const bq_session *s, const linear *l, const bq_batch *batch, size_t from,
                         size_t to) {
  for (size_t i = 0, first = 0; i < l->n; i++) {
    size_t groups = row_groups(l->list[i].w);
    size_t a = from > first ? from - first : 0, b = to > first ? to - first : 0;
    if (b > groups) b = groups;
    if (a < b) run_product(s, l, &l->list[i], batch, a, b);
    first += groups;
  }
}

/* Row groups that are shared out together, since of one token kernels take several at once. */
static size_t grain_of(const bq_batch *batch) { return batch->tokens == 1 ? 8 : 1; }

static void multiply(const bq_session *s, const linear *l, const bq_batch *batch, size_t thread,
                     size_t threads) {
  size_t total = 0;
  for (size_t i = 0; i < l->n; i++) total += row_groups(l->list[i].w);
  for (bq_share share = bq_share_of(s, thread, threads, total, grain_of(batch));
       bq_share_next(&share);)
    run_products(s, l, batch, share.from, share.to);
}

bq_activate_fn *bq_forward_activation(const bq_session *s) {
  const bq_kernels *k = s->model->kernels;
  bq_activate_fn *const act[] = {[BQ_SILU] = k->silu_mul, [BQ_GELU] = k->gelu_mul,
                                 [BQ_RELU] = k->relu_mul, [BQ_GELU_ERF] = k->gelu_erf_mul};
  return act[s->model->config.activation];
}

/* gate = act(gate) * up, or up = act(up), for row groups from...to - 1. */
static void activate(const bq_session *s, const linear *l, size_t tokens, size_t from, size_t to) {
  bq_activate_fn *const act = bq_forward_activation(s);
  const size_t rows = l->list[0].w->rows, row0 = from * BQ_TILE_ROWS;
  const size_t row1 = to * BQ_TILE_ROWS < rows ? to * BQ_TILE_ROWS : rows;
  for (size_t t = 0; t < tokens; t++)
    act(l->list[0].y + t * rows + row0, l->n == 2 ? l->list[1].y + t * rows + row0 : NULL,
        row1 - row0);
}

/* The same rows of gate and up, so that a thread can join its own: when it has no more to multiply,
 * to keep the two stages apart. What it was given grows together to a few runs. */
static void run_gate(const place *p, const linear *l, const bq_batch *batch, size_t thread,
                     size_t threads) {
  const bq_session *s = p->s;
  enum { RUNS = 8 };
  size_t runs[RUNS][2], n = 0;
  bq_share share = bq_share_of(s, thread, threads, row_groups(l->list[0].w), grain_of(batch));
  while (bq_share_next(&share)) {
    for (size_t i = 0; i < l->n; i++)
      run_product(s, l, &l->list[i], batch, share.from, share.to);
    if (n > 0 && runs[n - 1][1] == share.from) runs[n - 1][1] = share.to;
    else if (n > 0 && runs[n - 1][0] == share.to) runs[n - 1][0] = share.from;
    else if (n == RUNS) activate(s, l, batch->tokens, share.from, share.to);
    else runs[n][0] = share.from, runs[n++][1] = share.to;
  }
  if (thread == 0) bq_mark(s, BQ_STAGE_MLP_IN, p->layer);
  for (size_t i = 0; i < n; i++) activate(s, l, batch->tokens, runs[i][0], runs[i][1]);
}

/* The input of a LINEAR, which for one token is made here. */
static bq_batch batch_of(const place *at, const linear *l) {
  const bq_session *s = at->s;
  const job *j = at->j;
  const size_t own = prepares_alone(j) ? l->thread : 0;
  float *normed = s->scratch.norm + own * s->model->config.hidden;
  uint8_t *panel = s->scratch.panel + own * s->scratch.panel_bytes;
  if (prepares_alone(j)) {
    prepare(s, l, 0, 1, normed, panel);
    if (l->thread == 0) bq_mark(s, BQ_STAGE_NORM, at->layer);
  }
  return (bq_batch){l->normed ? normed : l->x, l->cols, panel, j->tokens};
}

static bq_stage multiply_share(const place *at, const linear *l, size_t thread, size_t threads) {
  const bq_session *s = at->s;
  const bq_batch batch = batch_of(at, l);
  if (!l->activate) multiply(s, l, &batch, thread, threads);
  else run_gate(at, l, &batch, thread, threads);
  return l->stage;
}

/* --- attention ------------------------------------------------------------------------------ */

/* One head of all tokens, kept within -limit...limit. */
static void clip_head(const place *p, float *x, size_t stride, float limit) {
  const size_t dim = p->s->model->config.head_dim;
  for (uint32_t t = 0; limit > 0 && t < p->j->tokens; t++)
    for (size_t i = 0; i < dim; i++) {
      float *v = x + t * stride + i;
      *v = *v > limit ? limit : *v < -limit ? -limit : *v;
    }
}

/* Sums and differences of n numbers (a Hadamard matrix), n the largest power of 2 that divides dim,
 * times `scale`. What a few dims of all keys have then lies in all dims, and few bits hold it. */
static void spread_dims(float *x, size_t dim, float scale) {
  for (size_t half = 1; dim % (2 * half) == 0; half *= 2)
    for (size_t i = 0; i < dim; i++)
      if (!(i & half)) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
  for (size_t i = 0; i < dim; i++) x[i] *= scale; /* a power of 2: exact */
}

/* Makes head `h` of Q or K of all tokens ready: normed where its step says so, rotated. */
static void ready_head(const place *p, const bq_layer_step *step, uint32_t which, uint32_t h, float *x,
                       size_t stride) {
  const job *j = p->j;
  const bq_session *s = p->s;
  const bq_config *c = &s->model->config;
  const bq_weights *m = step->n ? &p->w->module[step->module[which]] : NULL;
  const size_t own = c->qk_norm == BQ_QK_EACH ? (size_t)h * c->head_dim : 0;
  const uint32_t table = p->w->kind->rope;
  const float *cs =
      table == BQ_NO_ROPE ? NULL : s->rope[table] + (size_t)j->batch_at * c->rope_dim;
  clip_head(p, x, stride, c->qkv_clip);
  for (uint32_t t = 0; t < j->tokens; t++) {
    if (m)
      bq_forward_norm(s, x + t * stride, vector_of(m) + own, m->b ? m->b + own : NULL, c->head_dim,
                      x + t * stride);
    if (cs)
      s->model->kernels->rope(x + t * stride, cs + (size_t)t * c->rope_dim, c->rope_dim,
                              c->rope_pairs == BQ_ROPE_ADJACENT);
  }
}

/* Whether a layer's keys are quantized so that their largest dims would cost the others: in 4 bits
 * or fewer always, in 8 where keys have a bias. Qwen 2's biases are up to 50 times as large as what
 * is added to them, and 32 dims share a scale. */
static bool spreads_keys(const place *p) {
  const bq_kv_type type = p->s->options.kv_type;
  return type > BQ_KV_I8 || (type == BQ_KV_I8 && p->w->module[BQ_K].b);
}

/* The dims of queries and of such keys are spread, which leaves their dots what they are. */
static void spread_heads(const place *p, float *x, size_t stride, size_t n, bool key) {
  const size_t dim = p->s->model->config.head_dim;
  for (size_t t = 0; t < n && spreads_keys(p); t++)
    spread_dims(x + t * stride, dim, key ? 1.0f : 1.0f / (float)(dim & (~dim + 1)));
}

/* Of a segment's keys and values those that are sinks. */
static void keep_sinks(const place *p, const segment *g, uint32_t head, const float *k,
                       const float *v, size_t stride) {
  const size_t dim = p->s->model->config.head_dim, n = bq_moved_sinks(&g->s->options);
  float *keys = bq_sinks_of(g->s, p->layer, head), *values = keys + n * dim;
  for (size_t t = 0; t < g->tokens && g->position + t < n; t++) {
    memcpy(keys + (g->position + t) * dim, k + t * stride, dim * sizeof *k);
    memcpy(values + (g->position + t) * dim, v + t * stride, dim * sizeof *v);
  }
}

/* Where a segment begins in the layer's cache. */
static uint32_t place_at(const place *p, const segment *g) {
  const uint32_t gone = p->w->kind->window ? 0 : g->s->kv.gone;
  bq_assert(g->position >= gone);
  return g->position - gone;
}

/* Query heads, then KV heads: one of all. */
static void store_head(const place *p, const bq_layer_step *step, size_t i) {
  const job *j = p->j;
  const bq_session *s = p->s;
  const bq_config *c = &s->model->config;
  const size_t dim = c->head_dim;
  if (i < c->heads) {
    float *q = j->buffer[BQ_BUFFER_Q] + i * dim;
    ready_head(p, step, 0, (uint32_t)i, q, j->cols[BQ_BUFFER_Q]);
    spread_heads(p, q, j->cols[BQ_BUFFER_Q], j->tokens, false);
    return;
  }
  const uint32_t h = (uint32_t)(i - c->heads);
  const size_t at = h * dim, stride = j->cols[BQ_BUFFER_K];
  float *k = j->buffer[BQ_BUFFER_K] + at, *v = j->buffer[BQ_BUFFER_V] + at;
  ready_head(p, step, 1, h, k, stride);
  clip_head(p, v, stride, c->qkv_clip);
  for (segment g = {0}; g.at < j->tokens; g.at += g.tokens) {
    g = segment_at(j, g.at);
    bq_assert(g.tokens > 0);
    float *key = k + g.at * stride, *value = v + g.at * stride;
    const bq_kv_view kv = bq_cache_view(&g.s->kv, p->layer, h);
    keep_sinks(p, &g, h, key, value, stride);
    spread_heads(p, key, stride, g.tokens, true);
    s->model->kernels->kv_store[s->options.kv_type](&kv, place_at(p, &g), g.tokens, key, value,
                                                    stride);
  }
}

static bq_stage store_share(const place *p, const bq_layer_step *step, size_t thread, size_t threads) {
  const bq_config *c = &p->s->model->config;
  const size_t total = (size_t)c->heads + c->kv_heads;
  for (bq_share share = bq_share_of(p->s, thread, threads, total, 1); bq_share_next(&share);)
    for (size_t i = share.from; i < share.to; i++) store_head(p, step, i);
  return BQ_STAGE_KV;
}

/* Leaves a job what it has to see behind a window's beginning `from`: its blocks, and before them
 * one with the sinks, whose keys are rotated to the positions right before. Their own block may be
 * gone. */
static void leave_sinks(const place *p, const segment *g, uint32_t head, uint32_t from,
                        bq_attend_job *attend) {
  const bq_session *s = p->s;
  const bq_config *c = &s->model->config;
  const uint32_t n = s->options.sinks, end = g->position + g->tokens;
  const size_t dim = c->head_dim, first = BQ_KV_BLOCK - n;
  bq_arena arena = {attend->scratch, s->scratch.attend_bytes, 0, false};
  const bq_sight sight = bq_sight_lay_out(&arena, &s->kv, &s->options);
  const float *keys = bq_sinks_of(g->s, p->layer, head);
  const uint32_t table = p->w->kind->rope;
  memcpy(sight.keys, keys, n * dim * sizeof *keys);
  for (uint32_t i = 0; i < n && table != BQ_NO_ROPE; i++)
    s->model->kernels->rope(sight.keys + i * dim,
                            s->sink_rope[table] + (size_t)(p->j->batch_at + g->at) * c->rope_dim,
                            c->rope_dim, c->rope_pairs == BQ_ROPE_ADJACENT);
  spread_heads(p, sight.keys, dim, n, true);
  sight.table[0] = sight.block;
  bq_assert(end - from + BQ_KV_BLOCK <= bq_kv_window_most(s->options.kv_window));
  for (uint32_t at = from, i = 1; at < end; at += BQ_KV_BLOCK, i++)
    sight.table[i] = attend->kv.blocks[at / BQ_KV_BLOCK] + attend->kv.offset;
  attend->kv = (bq_kv_view){sight.table, 0, c->head_dim};
  s->model->kernels->kv_store[s->options.kv_type](&attend->kv, first, n, sight.keys,
                                                  keys + n * dim, dim);
  attend->position -= from - BQ_KV_BLOCK;
  attend->first = first;
  attend->scratch = (uint8_t *)attend->scratch + arena.used;
}

/* What is attended to counts, where that decides what leaves. */
static void count_attention(const place *p, const segment *g, size_t thread,
                            bq_attend_job *attend) {
  const bq_session *s = p->s;
  const uint32_t parts = bq_evict_parts(&s->options);
  if (!parts || p->w->kind->window || s->n_texts) return;
  attend->attention_sums = g->s->attention_sums + (thread * BQ_KV_BLOCK + g->position % BQ_KV_BLOCK) * parts;
  attend->attention_sums_stride = parts;
}

/* Rows from...to - 1 of all (token, query head) of a session, ordered by KV head, then token: so
 * most that meet the same keys and values come together. */
static void attend_segment(const place *p, const segment *g, size_t from, size_t to,
                           size_t thread) {
  const bq_session *s = p->s;
  const job *j = p->j;
  const bq_config *c = &s->model->config;
  const size_t dim = c->head_dim, group = c->heads / c->kv_heads, rows = group * g->tokens;
  const size_t stride = j->cols[BQ_BUFFER_Q];
  const float scale = c->attn_scale > 0 ? c->attn_scale : 1.0f / bq_sqrtf((float)dim);
  const uint32_t seen =
      p->w->kind->window ? 0 : bq_kv_window_from(bq_sliding(&s->options), g->position);
  for (uint32_t h = 0; h < c->kv_heads; h++) {
    const size_t first = h * rows, at = g->at * stride + h * group * dim;
    if (to <= first || from >= first + rows) continue;
    bq_attend_job attend = {.kv = bq_cache_view(&g->s->kv, p->layer, h),
                                  .q = j->buffer[BQ_BUFFER_Q] + at,
                                  .y = j->buffer[BQ_BUFFER_MIX] + at,
                                  .stride = stride,
                                  .heads = group,
                                  .position = place_at(p, g),
                                  .first = seen ? seen : g->first,
                                  .row0 = from > first ? from - first : 0,
                                  .row1 = to - first < rows ? to - first : rows,
                                  .scale = scale,
                                  .window = p->w->kind->window,
                                  .full = c->bidirectional ? g->position + g->tokens : 0,
                                  .softcap = c->attn_softcap,
                                  .slopes = s->model->slopes ? s->model->slopes + h * group : NULL,
                                  .scratch = s->scratch.attend +
                                             thread * s->scratch.attend_bytes};
    if (seen && s->options.sinks) leave_sinks(p, g, h, seen, &attend);
    count_attention(p, g, thread, &attend);
    s->model->kernels->attend[s->options.kv_type](&attend);
  }
}

/* The same of all sessions in the batch, one after the other. */
static void attend_rows(const place *p, size_t from, size_t to, size_t thread) {
  const job *j = p->j;
  const size_t heads = p->s->model->config.heads;
  for (segment g = {0}; g.at < j->tokens; g.at += g.tokens) {
    g = segment_at(j, g.at);
    const size_t first = g.at * heads, end = first + g.tokens * heads;
    if (from < end && to > first)
      attend_segment(p, &g, from > first ? from - first : 0, (to < end ? to : end) - first,
                     thread);
  }
}

static bq_stage attend_share(const place *p, size_t thread, size_t threads) {
  const bq_session *s = p->s;
  const size_t total = (size_t)s->model->config.heads * p->j->tokens;
  /* For one token each thread has all of its share at once: queries that meet the same keys stay
   * together. */
  const size_t grain = p->j->tokens == 1 ? (total + threads - 1) / threads : 1;
  for (bq_share share = bq_share_of(s, thread, threads, total, grain); bq_share_next(&share);)
    attend_rows(p, share.from, share.to, thread);
  return BQ_STAGE_ATTEND;
}

/* --- short convolutions ----------------------------------------------------------------------- */

/* Channels are shared out; the rows of a text follow each other in one thread. */
static bq_stage convolve_share(const place *p, const bq_layer_step *step, size_t thread,
                               size_t threads) {
  enum { GRAIN = 64 };
  const job *j = p->j;
  const bq_config *c = &p->s->model->config;
  const float *taps = vector_of(&p->w->module[step->module[0]]);
  for (bq_share share = bq_share_of(p->s, thread, threads, c->hidden, GRAIN);
       bq_share_next(&share);)
    for (segment g = {0}; g.at < j->tokens; g.at += g.tokens) {
      g = segment_at(j, g.at);
      float *state = bq_recurrence_state(&g.s->recurrence, c, p->layer);
      for (size_t k = 0; g.position == g.first && k + 1 < c->conv_size; k++)
        memset(state + k * c->hidden + share.from, 0, (share.to - share.from) * sizeof *state);
      bq_convolve(c, taps, state, j->buffer[BQ_BUFFER_CONV_IN] + (size_t)g.at * 3 * c->hidden,
                  j->buffer[BQ_BUFFER_CONV_OUT] + (size_t)g.at * c->hidden, g.tokens, share.from,
                  share.to);
    }
  return BQ_STAGE_ATTEND;
}

/* --- whole rows ------------------------------------------------------------------------------- */

/* NORM, ADD: row by row, each in one thread. */
static bq_stage rows_share(const place *p, const bq_layer_step *step, size_t thread, size_t threads) {
  const job *j = p->j;
  const size_t cols = j->cols[step->in];
  const bq_weights *m = &p->w->module[step->norm];
  const float factor = bq_or_one(p->s->model->config.residual_scale);
  for (bq_share share = bq_share_of(p->s, thread, threads, j->tokens, 1); bq_share_next(&share);)
    for (size_t t = share.from; t < share.to; t++) {
      float *x = j->buffer[step->in] + t * cols;
      bq_forward_norm(p->s, x, vector_of(m), m->b, cols, x);
      if (step->op != BQ_OP_ADD) continue;
      bq_scale_by(x, cols, factor);
      p->s->model->kernels->add(j->buffer[BQ_BUFFER_X] + t * cols, x, cols);
    }
  return BQ_STAGE_NORM;
}

/* --- layers ----------------------------------------------------------------------------------- */

static bq_stage run_part(const void *arg, uint32_t layer, uint32_t part, size_t thread,
                         size_t threads) {
  const job *j = arg;
  const place p = {j, j->s, &j->s->model->layers[layer], layer};
  const bq_layer_step *step = &p.w->kind->steps[part & ~(uint32_t)BQ_PREPARE];
  switch ((bq_op)step->op) {
  case BQ_OP_STORE: return store_share(&p, step, thread, threads);
  case BQ_OP_ATTEND: return attend_share(&p, thread, threads);
  case BQ_OP_CONVOLVE: return convolve_share(&p, step, thread, threads);
  case BQ_OP_NORM:
  case BQ_OP_ADD: return rows_share(&p, step, thread, threads);
  case BQ_OP_ROUTE:
  case BQ_OP_EXPERTS:
  case BQ_OP_COMBINE:
    return bq_forward_experts(j->s, p.w, step, part & BQ_PREPARE, j->buffer, j->tokens, thread,
                              threads);
  case BQ_OP_MATMUL: break;
  }
  const linear l = linear_of(&p, step, thread);
  if (!(part & BQ_PREPARE)) return multiply_share(&p, &l, thread, threads);
  prepare_share(j, &l, thread, threads);
  return BQ_STAGE_NORM;
}

static const bq_phases *parts_of(const void *arg, uint32_t layer) {
  const job *j = arg;
  const bq_layer_kind *kind = j->s->model->layers[layer].kind;
  return prepares_alone(j) ? &kind->alone : &kind->batch;
}

static job layer_job(const bq_session *s, uint32_t tokens) {
  const bq_config *c = &s->model->config;
  job j = {.s = s,
           .batch_at = s->batch_at,
           .tokens = tokens};
  for (uint32_t i = 0; i < BQ_BUFFERS; i++) {
    j.buffer[i] = s->scratch.buffer[i];
    j.cols[i] = bq_buffer_cols(c, (bq_buffer)i);
  }
  j.buffer[BQ_BUFFER_X] = s->x + (size_t)s->batch_at * c->hidden;
  return j;
}

void bq_forward_layers(bq_session *s, uint32_t tokens, bq_next_fn *next) {
  const job j = layer_job(s, tokens);
  bq_run_job(s, &(bq_job){run_part, parts_of, &j, next});
}

/* --- the head --------------------------------------------------------------------------------- */

static bq_stage run_head_part(const void *arg, uint32_t layer, uint32_t part, size_t thread,
                              size_t threads) {
  const job *j = arg;
  const place p = {j, j->s, NULL, layer};
  const linear l = head_of(j, thread);
  if (part != BQ_PREPARE) return multiply_share(&p, &l, thread, threads);
  prepare_share(j, &l, thread, threads);
  return BQ_STAGE_NORM;
}

static const bq_phases *head_parts(const void *arg, uint32_t layer) {
  (void)layer;
  static const bq_phases alone = {{0}, 1}, batch = {{BQ_PREPARE, 0}, 2};
  return prepares_alone(arg) ? &alone : &batch;
}

static job head_job(const bq_session *s, const bq_matrix *head, uint32_t row0) {
  const bq_rows rows = bq_head_rows(s);
  return (job){.s = s, .batch_at = rows.first, .tokens = rows.n, .head = head, .row0 = row0,
               .results = rows.results};
}

void bq_forward_head(bq_session *s, const bq_matrix *head, uint32_t row0) {
  const job j = head_job(s, head, row0);
  bq_run_job(s, &(bq_job){run_head_part, head_parts, &j, NULL});
}

/* --- products that others compute a part of --------------------------------------------------- */

/* What is at `s->part` of a slice: of a layer, or of the head. */
static job spread_job(const bq_session *s, uint32_t tokens) {
  if (s->layer == s->model->config.layers) return head_job(s, &s->model->head, 0);
  return layer_job(s, tokens);
}

static const bq_phases *spread_parts(const job *j) {
  return j->head ? head_parts(j, 0) : parts_of(j, j->s->layer);
}

/* Its products, if they are to be spread: no such part, false. Those of floats are few. */
static bool spread_linear(const job *j, const place *p, linear *l) {
  const bq_session *s = j->s;
  const uint32_t part = spread_parts(j)->list[s->part];
  if ((part & BQ_PREPARE) || j->tokens < s->options.spread) return false;
  if (j->head) *l = head_of(j, 0);
  else if (p->w->kind->steps[part].op != BQ_OP_MATMUL) return false;
  else *l = linear_of(p, &p->w->kind->steps[part], 0);
  for (size_t i = 0; i < l->n; i++)
    if (!l->list[i].w->ops->quantized) return false;
  return true;
}

static place spread_place(const job *j) {
  const bq_session *s = j->s;
  return (place){j, s, j->head ? NULL : &s->model->layers[s->layer], s->layer};
}

/* All rows are there: what one thread would have done with its own. */
static void finish_spread(const place *p, const linear *l) {
  for (size_t i = 0; i < l->n; i++)
    finish_product(p->s, l, &l->list[i], p->j->tokens, 0, l->list[i].w->rows);
  if (l->activate) activate(p->s, l, p->j->tokens, 0, row_groups(l->list[0].w));
}

bool bq_forward_spread(bq_session *s, uint32_t tokens) {
  const job j = spread_job(s, tokens);
  const place p = spread_place(&j);
  const bq_phases *parts = spread_parts(&j);
  for (; s->part < parts->n; s->part++) {
    const uint32_t part = parts->list[s->part];
    linear l;
    bq_stage stage;
    if (!spread_linear(&j, &p, &l)) {
      stage = (j.head ? run_head_part : run_part)(&j, s->layer, part, 0, 1);
    } else if (s->spread == BQ_SPREAD_THERE) {
      finish_spread(&p, &l);
      stage = l.stage;
    } else {
      (void)batch_of(&p, &l);
      s->spread = BQ_SPREAD_WANTED;
      return false;
    }
    s->spread = BQ_SPREAD_NONE;
    bq_mark(s, stage, s->layer);
  }
  s->part = 0;
  return true;
}

/* Where product `i` begins for part `part` of `parts`: row groups in equal shares. */
static size_t part_row(const bq_matrix *w, uint32_t part, uint32_t parts) {
  const size_t row = row_groups(w) * part / parts * BQ_TILE_ROWS;
  return row < w->rows ? row : w->rows;
}

bool bq_forward_spread_part(const bq_session *s, uint32_t tokens, uint32_t part, uint32_t parts,
                            bq_spread *out) {
  const job j = spread_job(s, tokens);
  const place p = spread_place(&j);
  linear l;
  if (!spread_linear(&j, &p, &l)) return false;
  const bool i16 = s->options.activations == BQ_ACTIVATIONS_I16;
  const size_t rows = j.tokens * (i16 ? 2u : 1u);
  const bq_kernels *k = s->model->kernels;
  *out = (bq_spread){.n = (uint32_t)l.n, .tokens = j.tokens, .cols = (uint32_t)l.cols,
                     .activations = s->options.activations, .panel = s->scratch.panel,
                     .panel_bytes = k->panel_bytes(l.cols, rows)};
  for (size_t i = 0; i < l.n; i++) {
    const bq_matrix *w = l.list[i].w;
    const size_t row0 = part_row(w, part, parts), row1 = part_row(w, part + 1, parts);
    const bq_layout layout = bq_type_compute_layout(w->type);
    const uint64_t from = bq_type_bytes(w->type, layout, row0, w->cols);
    out->list[i] = (bq_spread_rows){
        .weights = w->data + from,
        .bytes = (size_t)(bq_type_bytes(w->type, layout, row1, w->cols) - from),
        .type = w->type, .rows = (uint32_t)(row1 - row0),
        .y = l.list[i].y + row0, .stride = (uint32_t)l.list[i].stride};
  }
  return true;
}
