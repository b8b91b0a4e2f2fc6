/* The forward pass of one transformer block over one batch of tokens, of the embedding and of
 * the head: norms, attention with KV cache and MLP put together from kernel slots. Rows are
 * tokens, shapes as in bq_scratch. */
#include "core/fmath.h"
#include "session/session.h"

/* --- a job: one layer, or the head, over one batch --------------------------------------------- */

/* y[tokens][rows] = batch * w^T + bias */
typedef struct product {
  const bq_matrix *w;
  const float *bias; /* [rows] or NULL */
  float *y;          /* [tokens][w->rows] */
} product;

/* Products that share their input x [tokens][cols]. */
typedef struct linear {
  const float *x;
  size_t cols;
  const float *norm_w, *norm_b; /* the input is normed first; NULL: it is not */
  product list[3];
  size_t n;
  float *residual; /* [tokens][rows], what list[0] is added to; or NULL */
  bool activate;   /* list[0] = act(list[0]) * list[1] */
  bq_stage stage;
} linear;

enum { QKV, O, IN, DOWN, HEAD, LINEARS };
/* Parts of a job: the input of each linear, the linears, and what lies between them. */
enum { PREPARE, MULTIPLY = PREPARE + LINEARS, STORE = MULTIPLY + LINEARS, ATTEND };

typedef struct job {
  const bq_session *s;
  uint32_t layer;
  uint32_t batch_at, position, tokens; /* the batch's first token, in the window and of all; tokens in the batch */
  const bq_matrix *head;     /* or a part of its rows, from row0 on */
  uint32_t row0;
} job;

static linear head_of(const job *j) {
  const bq_session *s = j->s;
  const bq_model *m = s->model;
  const size_t hidden = m->config.hidden;
  return (linear){s->x + (s->win_len - 1) * hidden, hidden, m->ln_f_w, m->ln_f_b,
                  {{j->head, m->head_b ? m->head_b + j->row0 : NULL, s->logits + j->row0}},
                  1, NULL, false, BQ_STAGE_HEAD};
}

static linear linear_of(const job *j, uint32_t which) {
  if (which == HEAD) return head_of(j); /* of no layer */
  const bq_session *s = j->s;
  const bq_config *c = &s->model->config;
  const bq_layer *w = &s->model->layers[j->layer];
  const bq_scratch *b = &s->scratch;
  float *x = s->x + (size_t)j->batch_at * c->hidden;
  const product gate = {&w->gate, w->gate_b, b->gate}, up = {&w->up, w->up_b, b->up};
  switch (which) {
  case QKV:
    return (linear){x, c->hidden, w->ln1_w, w->ln1_b,
                    {{&w->q, w->q_b, b->q}, {&w->k, w->k_b, b->k}, {&w->v, w->v_b, b->v}},
                    3, NULL, false, BQ_STAGE_QKV};
  case O:
    return (linear){b->mix, (size_t)c->heads * c->head_dim, NULL, NULL, {{&w->o, w->o_b, b->out}},
                    1, x, false, BQ_STAGE_O};
  case IN:
    return (linear){x, c->hidden, w->ln2_w, w->ln2_b, {c->gated ? gate : up, up},
                    c->gated ? 2 : 1, NULL, true, BQ_STAGE_ACTIVATE};
  default: /* DOWN */
    return (linear){c->gated ? b->gate : b->up, c->ffn, NULL, NULL,
                    {{&w->down, w->down_b, b->out}}, 1, x, false, BQ_STAGE_DOWN};
  }
}

/* --- inputs --------------------------------------------------------------------------------- */

static bool quantized(const linear *l) {
  for (size_t i = 0; i < l->n; i++)
    if (l->list[i].w->ops->quantized) return true;
  return false;
}

static void norm_rows(const bq_session *s, const linear *l, size_t from, size_t to, float *y) {
  const bq_kernels *k = s->model->kernels;
  const bq_config *c = &s->model->config;
  for (size_t t = from; t < to; t++) {
    const float *x = l->x + t * l->cols;
    if (c->norm == BQ_NORM_RMS) k->rmsnorm(x, l->norm_w, c->norm_eps, l->cols, y + t * l->cols);
    else k->layernorm(x, l->norm_w, l->norm_b, c->norm_eps, l->cols, y + t * l->cols);
  }
}

/* Tokens from...to - 1 of the input as the products take it; `from` is a multiple of
 * BQ_PANEL_TOKENS. */
static void prepare(const bq_session *s, const linear *l, size_t from, size_t to, float *norm,
                    uint8_t *panel) {
  const bq_kernels *k = s->model->kernels;
  const float *x = l->norm_w ? norm : l->x;
  if (l->norm_w) norm_rows(s, l, from, to, norm);
  if (quantized(l))
    k->quantize(x + from * l->cols, l->cols, l->cols, to - from,
                panel + k->panel_bytes(l->cols, from));
}

/* For one token preparing its input costs less than waiting for others to do it. */
static bool prepares_alone(const job *j) { return j->tokens == 1; }

static void prepare_slice(const job *j, const linear *l, size_t slice, size_t slices) {
  for (bq_share share = bq_share_of(j->s, slice, slices, j->tokens, BQ_PANEL_TOKENS);
       bq_share_next(&share);)
    prepare(j->s, l, share.from, share.to, j->s->scratch.norm, j->s->scratch.panel);
}

/* --- products ------------------------------------------------------------------------------- */

static size_t row_groups(const bq_matrix *w) {
  return ((size_t)w->rows + BQ_TILE_ROWS - 1) / BQ_TILE_ROWS;
}

/* Groups a...b - 1 of BQ_TILE_ROWS rows. */
static void run_product(const bq_session *s, const product *p, const bq_batch *batch, size_t a,
                        size_t b, float *residual) {
  const size_t rows = p->w->rows, row0 = a * BQ_TILE_ROWS;
  const size_t row1 = b * BQ_TILE_ROWS < rows ? b * BQ_TILE_ROWS : rows;
  p->w->ops->matmul(p->w, batch, row0, row1, p->y, rows);
  for (size_t t = 0; t < batch->tokens; t++) {
    float *y = p->y + t * rows + row0;
    if (p->bias) s->model->kernels->add(y, p->bias + row0, row1 - row0);
    if (residual) s->model->kernels->add(residual + t * rows + row0, y, row1 - row0);
  }
}

/* Row groups from...to - 1 of all products, as one long row of them. */
static void run_products(const bq_session *s, const linear *l, const bq_batch *batch, size_t from,
                         size_t to) {
  for (size_t i = 0, first = 0; i < l->n; i++) {
    size_t groups = row_groups(l->list[i].w);
    size_t a = from > first ? from - first : 0, b = to > first ? to - first : 0;
    if (b > groups) b = groups;
    if (a < b) run_product(s, &l->list[i], batch, a, b, l->residual);
    first += groups;
  }
}

/* Row groups that are shared out together, since kernels take several at once. */
static size_t grain_of(const bq_session *s, const bq_batch *batch) {
  return batch->tokens == 1 ? 8 : s->model->kernels->batch_groups;
}

static void multiply(const bq_session *s, const linear *l, const bq_batch *batch, size_t slice,
                     size_t slices) {
  size_t total = 0;
  for (size_t i = 0; i < l->n; i++) total += row_groups(l->list[i].w);
  for (bq_share share = bq_share_of(s, slice, slices, total, grain_of(s, batch));
       bq_share_next(&share);)
    run_products(s, l, batch, share.from, share.to);
}

/* gate = act(gate) * up, or up = act(up), for row groups from...to - 1. */
static void activate(const bq_session *s, const linear *l, size_t tokens, size_t from, size_t to) {
  const bq_kernels *k = s->model->kernels;
  const bq_activation act = s->model->config.activation;
  void (*fn)(float *, const float *, size_t) =
      act == BQ_SILU ? k->silu_mul : act == BQ_GELU ? k->gelu_mul : k->relu_mul;
  const size_t rows = l->list[0].w->rows, row0 = from * BQ_TILE_ROWS;
  const size_t row1 = to * BQ_TILE_ROWS < rows ? to * BQ_TILE_ROWS : rows;
  for (size_t t = 0; t < tokens; t++)
    fn(l->list[0].y + t * rows + row0, l->n == 2 ? l->list[1].y + t * rows + row0 : NULL,
       row1 - row0);
}

/* The same rows of gate and up, so that a slice can join its own: when it has no more to multiply, to
 * keep the two stages apart. What it was given grows together to a few runs. */
static void run_gate(const job *j, const linear *l, const bq_batch *batch, size_t slice,
                     size_t slices) {
  const bq_session *s = j->s;
  enum { RUNS = 8 };
  size_t runs[RUNS][2], n = 0;
  bq_share share = bq_share_of(s, slice, slices, row_groups(l->list[0].w), grain_of(s, batch));
  while (bq_share_next(&share)) {
    for (size_t i = 0; i < l->n; i++)
      run_product(s, &l->list[i], batch, share.from, share.to, NULL);
    if (n > 0 && runs[n - 1][1] == share.from) runs[n - 1][1] = share.to;
    else if (n > 0 && runs[n - 1][0] == share.to) runs[n - 1][0] = share.from;
    else if (n == RUNS) activate(s, l, batch->tokens, share.from, share.to);
    else runs[n][0] = share.from, runs[n++][1] = share.to;
  }
  if (slice == 0) bq_mark(s, BQ_STAGE_MLP_IN, j->layer);
  for (size_t i = 0; i < n; i++) activate(s, l, batch->tokens, runs[i][0], runs[i][1]);
}

static bq_stage multiply_slice(const job *j, const linear *l, size_t slice, size_t slices) {
  const bq_session *s = j->s;
  const size_t own = prepares_alone(j) ? slice : 0;
  float *norm = s->scratch.norm + own * s->model->config.hidden;
  uint8_t *panel = s->scratch.panel + own * s->scratch.panel_bytes;
  if (prepares_alone(j)) {
    prepare(s, l, 0, 1, norm, panel);
    if (slice == 0) bq_mark(s, BQ_STAGE_NORM, j->layer);
  }
  const bq_batch batch = {l->norm_w ? norm : l->x, l->cols, panel, j->tokens};
  if (!l->activate) multiply(s, l, &batch, slice, slices);
  else run_gate(j, l, &batch, slice, slices);
  return l->stage;
}

/* --- attention ------------------------------------------------------------------------------ */

static bq_kv_view kv_head(const job *j, uint32_t head) {
  const bq_session *s = j->s;
  const bq_config *c = &s->model->config;
  size_t plane = (size_t)j->layer * c->kv_heads + head;
  return (bq_kv_view){s->kv.data + plane * s->kv.head_bytes, s->options.context, c->head_dim};
}

static void rotate(const job *j, float *x, size_t stride) {
  const bq_config *c = &j->s->model->config;
  if (c->position != BQ_POSITION_ROPE) return;
  const float *cs = j->s->rope + (size_t)j->batch_at * c->rope_dim;
  for (uint32_t t = 0; t < j->tokens; t++)
    j->s->model->kernels->rope(x + t * stride, cs + (size_t)t * c->rope_dim, c->rope_dim,
                               c->rope_pairs == BQ_ROPE_ADJACENT);
}

/* Query heads, then KV heads: one of all. */
static void store_head(const job *j, size_t i) {
  const bq_session *s = j->s;
  const bq_config *c = &s->model->config;
  const size_t dim = c->head_dim, q_dim = c->heads * dim, kv_dim = c->kv_heads * dim;
  if (i < c->heads) {
    rotate(j, s->scratch.q + i * dim, q_dim);
    return;
  }
  const size_t at = (i - c->heads) * dim;
  const bq_kv_view kv = kv_head(j, (uint32_t)(i - c->heads));
  rotate(j, s->scratch.k + at, kv_dim);
  s->model->kernels->kv_store[s->options.kv_type](&kv, j->position, j->tokens, s->scratch.k + at,
                                                  s->scratch.v + at, kv_dim);
}

static bq_stage store_slice(const job *j, size_t slice, size_t slices) {
  const bq_config *c = &j->s->model->config;
  const size_t total = (size_t)c->heads + c->kv_heads;
  for (bq_share share = bq_share_of(j->s, slice, slices, total, 1); bq_share_next(&share);)
    for (size_t i = share.from; i < share.to; i++) store_head(j, i);
  return BQ_STAGE_KV;
}

/* Rows from...to - 1 of all (token, query head), ordered by KV head, then token: so most that meet the
 * same keys and values come together. */
static void attend_rows(const job *j, size_t from, size_t to, uint8_t *scratch) {
  const bq_session *s = j->s;
  const bq_config *c = &s->model->config;
  const size_t dim = c->head_dim, group = c->heads / c->kv_heads, rows = group * j->tokens;
  for (uint32_t h = 0; h < c->kv_heads; h++) {
    const size_t first = h * rows, at = h * group * dim;
    if (to <= first || from >= first + rows) continue;
    const bq_attend_job attend = {.kv = kv_head(j, h),
                                  .q = s->scratch.q + at,
                                  .y = s->scratch.mix + at,
                                  .stride = c->heads * dim,
                                  .heads = group,
                                  .position = j->position,
                                  .row0 = from > first ? from - first : 0,
                                  .row1 = to - first < rows ? to - first : rows,
                                  .scale = 1.0f / bq_sqrtf((float)dim),
                                  .scratch = scratch};
    s->model->kernels->attend[s->options.kv_type](&attend);
  }
}

static bq_stage attend_slice(const job *j, size_t slice, size_t slices) {
  const bq_session *s = j->s;
  uint8_t *scratch = s->scratch.attend + slice * s->scratch.attend_bytes;
  const size_t total = (size_t)s->model->config.heads * j->tokens;
  /* For one token each slice has all of its share at once: queries that meet the same keys stay together. */
  const size_t grain = j->tokens == 1 ? (total + slices - 1) / slices : 1;
  for (bq_share share = bq_share_of(s, slice, slices, total, grain); bq_share_next(&share);)
    attend_rows(j, share.from, share.to, scratch);
  return BQ_STAGE_ATTEND;
}

/* --- layers ----------------------------------------------------------------------------------- */

static bq_stage run_part(void *arg, uint32_t layer, uint32_t part, size_t slice, size_t slices) {
  job j = *(const job *)arg;
  j.layer = layer;
  if (part == STORE) return store_slice(&j, slice, slices);
  if (part == ATTEND) return attend_slice(&j, slice, slices);
  const linear l = linear_of(&j, part % MULTIPLY);
  if (part >= MULTIPLY) return multiply_slice(&j, &l, slice, slices);
  prepare_slice(&j, &l, slice, slices);
  return BQ_STAGE_NORM;
}

void bq_forward_layers(bq_session *s, uint32_t tokens, bq_next_fn *next) {
  static const uint8_t parts[] = {PREPARE + QKV,  MULTIPLY + QKV,  STORE,
                                  ATTEND,         PREPARE + O,     MULTIPLY + O,
                                  PREPARE + IN,   MULTIPLY + IN,   PREPARE + DOWN,
                                  MULTIPLY + DOWN};
  static const uint8_t alone[] = {MULTIPLY + QKV, STORE,         ATTEND,
                                  MULTIPLY + O,   MULTIPLY + IN, MULTIPLY + DOWN};
  job j = {.s = s, .batch_at = s->batch_at, .position = s->win_start + s->batch_at, .tokens = tokens};
  if (prepares_alone(&j)) bq_run_parts(s, run_part, &j, alone, sizeof alone, next);
  else bq_run_parts(s, run_part, &j, parts, sizeof parts, next);
}

void bq_forward_head(bq_session *s, const bq_matrix *head, uint32_t row0) {
  static const uint8_t alone[] = {MULTIPLY + HEAD};
  job j = {.s = s, .tokens = 1, .head = head, .row0 = row0};
  bq_run_parts(s, run_part, &j, alone, sizeof alone, NULL);
}

bq_status bq_forward_embed(bq_session *s, bq_error *err) {
  const bq_model *m = s->model;
  const size_t hidden = m->config.hidden;
  for (; s->embedded < s->win_len; s->embedded++) {
    uint32_t t = s->embedded, position = s->win_start + t;
    float *x = s->x + t * hidden;
    float *p = m->config.position == BQ_POSITION_ROPE ? NULL : s->scratch.norm;
    bq_status status = bq_page_embedding(s, s->tokens[position], position, x, p, err);
    if (status) return status;
    if (m->config.position == BQ_POSITION_ROPE) {
      bq_rope_table(s->rope + (size_t)t * m->config.rope_dim, position, m->config.rope_dim,
                    m->config.rope_theta);
      continue;
    }
    m->kernels->add(x, p, hidden);
  }
  return BQ_OK;
}
