/* The forward pass of one transformer block over one batch of tokens, of the embedding and of
 * the head: norms, attention with KV cache and MLP put together from kernel slots. Rows are
 * tokens, shapes as in bq_scratch. */
#include <string.h>

#include "core/fmath.h"
#include "session/session.h"

/* --- matmuls, split over threads ---------------------------------------------------------- */

/* One y[tokens][rows] = batch * w^T + bias. */
typedef struct product {
  const bq_matrix *w;
  const float *bias; /* [rows] or NULL */
  float *y;          /* [tokens][w->rows] */
} product;

typedef struct products {
  const product *list;
  size_t n;
  const bq_batch *batch;
} products;

static size_t row_groups(const bq_matrix *w) {
  return ((size_t)w->rows + BQ_TILE_ROWS - 1) / BQ_TILE_ROWS;
}

static void run_product(const product *p, const bq_batch *batch, size_t row0, size_t row1) {
  const size_t rows = p->w->rows;
  p->w->ops->matmul(p->w, batch, row0, row1, p->y, rows);
  if (!p->bias) return;
  for (size_t t = 0; t < batch->tokens; t++) {
    float *y = p->y + t * rows;
    for (size_t r = row0; r < row1; r++) y[r] += p->bias[r];
  }
}

/* A slice takes its share of all row groups of all products, as one long row of them. */
static void run_products_slice(void *arg, size_t slice, size_t slices) {
  const products *all = arg;
  size_t total = 0;
  for (size_t i = 0; i < all->n; i++) total += row_groups(all->list[i].w);
  size_t from = total * slice / slices, to = total * (slice + 1) / slices;
  for (size_t i = 0, first = 0; i < all->n; i++) {
    const product *p = &all->list[i];
    size_t groups = row_groups(p->w), rows = p->w->rows;
    size_t a = from > first ? from - first : 0, b = to > first ? to - first : 0;
    if (b > groups) b = groups;
    if (a < b) {
      size_t row1 = b * BQ_TILE_ROWS;
      run_product(p, all->batch, a * BQ_TILE_ROWS, row1 < rows ? row1 : rows);
    }
    first += groups;
  }
}

static void in_parallel(const bq_session *s, void (*fn)(void *, size_t, size_t), void *arg) {
  const bq_parallel *p = &s->options.parallel;
  if (p->run && p->threads > 1) p->run(p->ctx, fn, arg);
  else fn(arg, 0, 1);
}

/* All products share the input x [tokens][cols]; it is quantized once if one of them needs it. */
static void multiply(bq_session *s, const float *x, size_t cols, size_t tokens,
                     const product *list, size_t n) {
  bq_batch batch = {x, cols, NULL, tokens};
  for (size_t i = 0; i < n && !batch.panel; i++)
    if (list[i].w->ops->quantized) batch.panel = s->scratch.panel;
  if (batch.panel) s->model->kernels->quantize(x, cols, cols, tokens, s->scratch.panel);
  products all = {list, n, &batch};
  in_parallel(s, run_products_slice, &all);
}

/* --- attention ------------------------------------------------------------------------------ */

static uint8_t *kv_head(const bq_session *s, uint32_t layer, uint32_t v, uint32_t head) {
  const bq_kv_cache *kv = &s->kv;
  size_t plane = ((size_t)layer * 2 + v) * kv->kv_heads + head;
  return kv->data + plane * kv->head_bytes;
}

static void store_kv(bq_session *s, uint32_t position, uint32_t tokens) {
  const bq_config *c = &s->model->config;
  const size_t dim = c->head_dim, kv_dim = (size_t)c->kv_heads * dim;
  for (uint32_t h = 0; h < c->kv_heads; h++)
    for (uint32_t t = 0; t < tokens; t++) {
      size_t row = (position + t) * dim * s->kv.element, from = t * kv_dim + h * dim;
      s->model->kernels->kv_store[s->kv.type](s->scratch.k + from, dim,
                                              kv_head(s, s->layer, 0, h) + row);
      s->model->kernels->kv_store[s->kv.type](s->scratch.v + from, dim,
                                              kv_head(s, s->layer, 1, h) + row);
    }
}

typedef struct attention {
  bq_session *s;
  uint32_t position; /* of the batch's first token */
  uint32_t tokens;
  float scale;
} attention;

/* Work items are (token, head); a slice takes every slices-th token of each head, so that long
 * and short ones are shared out evenly. */
static void attend_slice(void *arg, size_t slice, size_t slices) {
  const attention *a = arg;
  bq_session *s = a->s;
  const bq_config *c = &s->model->config;
  const size_t dim = c->head_dim, q_dim = c->heads * dim, group = c->heads / c->kv_heads;
  float *scores = s->scratch.scores + slice * s->options.context;
  for (uint32_t h = 0; h < c->heads; h++) {
    uint32_t kv = (uint32_t)(h / group);
    bq_kv_view view = {kv_head(s, s->layer, 0, kv), kv_head(s, s->layer, 1, kv), dim};
    for (uint32_t t = 0; t < a->tokens; t++) {
      if ((t * c->heads + h) % slices != slice) continue;
      size_t at = t * q_dim + h * dim;
      s->model->kernels->attend[s->kv.type](s->scratch.q + at, &view, a->position + t + 1, dim,
                                            a->scale, scores, s->scratch.mix + at);
    }
  }
}

static void rotate(bq_session *s, uint32_t tokens) {
  const bq_config *c = &s->model->config;
  const bool adjacent = c->rope_pairs == BQ_ROPE_ADJACENT;
  for (uint32_t t = 0; t < tokens; t++) {
    const float *cs = s->rope + (size_t)(s->batch_at + t) * c->rope_dim;
    for (uint32_t h = 0; h < c->heads; h++)
      s->model->kernels->rope(s->scratch.q + ((size_t)t * c->heads + h) * c->head_dim, cs,
                              c->rope_dim, adjacent);
    for (uint32_t h = 0; h < c->kv_heads; h++)
      s->model->kernels->rope(s->scratch.k + ((size_t)t * c->kv_heads + h) * c->head_dim, cs,
                              c->rope_dim, adjacent);
  }
}

static void attention_block(bq_session *s, const bq_layer *w, uint32_t position, uint32_t tokens) {
  const bq_config *c = &s->model->config;
  bq_scratch *b = &s->scratch;
  const product qkv[] = {{&w->q, w->q_b, b->q}, {&w->k, w->k_b, b->k}, {&w->v, w->v_b, b->v}};
  multiply(s, b->norm, c->hidden, tokens, qkv, 3);
  if (c->position == BQ_POSITION_ROPE) rotate(s, tokens);
  store_kv(s, position, tokens);
  attention a = {s, position, tokens, 1.0f / bq_sqrtf((float)c->head_dim)};
  in_parallel(s, attend_slice, &a);
  const product o = {&w->o, w->o_b, b->out};
  multiply(s, b->mix, (size_t)c->heads * c->head_dim, tokens, &o, 1);
}

/* --- MLP, norms, block ---------------------------------------------------------------------- */

static void mlp_block(bq_session *s, const bq_layer *w, uint32_t tokens) {
  const bq_config *c = &s->model->config;
  const bq_kernels *k = s->model->kernels;
  bq_scratch *b = &s->scratch;
  void (*activate)(float *, const float *, size_t) =
      c->activation == BQ_SILU ? k->silu_mul : c->activation == BQ_GELU ? k->gelu_mul : k->relu_mul;
  const product in[] = {{&w->up, w->up_b, b->up}, {&w->gate, w->gate_b, b->gate}};
  multiply(s, b->norm, c->hidden, tokens, in, c->gated ? 2 : 1);
  float *wide = c->gated ? b->gate : b->up;
  activate(wide, c->gated ? b->up : NULL, (size_t)tokens * c->ffn);
  const product down = {&w->down, w->down_b, b->out};
  multiply(s, wide, c->ffn, tokens, &down, 1);
}

static void norm_rows(bq_session *s, const float *w, const float *b, const float *x, float *y,
                      uint32_t tokens) {
  const bq_config *c = &s->model->config;
  for (uint32_t t = 0; t < tokens; t++, x += c->hidden, y += c->hidden) {
    if (c->norm == BQ_NORM_RMS) s->model->kernels->rmsnorm(x, w, c->norm_eps, c->hidden, y);
    else s->model->kernels->layernorm(x, w, b, c->norm_eps, c->hidden, y);
  }
}

void bq_forward_layer(bq_session *s, uint32_t tokens) {
  const bq_config *c = &s->model->config;
  const bq_layer *w = &s->model->layers[s->layer];
  const size_t n = (size_t)tokens * c->hidden;
  float *x = s->x + (size_t)s->batch_at * c->hidden;
  norm_rows(s, w->ln1_w, w->ln1_b, x, s->scratch.norm, tokens);
  attention_block(s, w, s->win_start + s->batch_at, tokens);
  s->model->kernels->add(x, s->scratch.out, n);
  norm_rows(s, w->ln2_w, w->ln2_b, x, s->scratch.norm, tokens);
  mlp_block(s, w, tokens);
  s->model->kernels->add(x, s->scratch.out, n);
}

void bq_forward_embed(bq_session *s) {
  const bq_model *m = s->model;
  const size_t hidden = m->config.hidden;
  for (uint32_t t = 0; t < s->win_len; t++) {
    uint32_t position = s->win_start + t;
    float *x = s->x + t * hidden;
    m->wte.ops->row(&m->wte, s->tokens[position], x);
    if (m->config.position == BQ_POSITION_ROPE) {
      bq_rope_table(s->rope + (size_t)t * m->config.rope_dim, position, m->config.rope_dim,
                    m->config.rope_theta);
      continue;
    }
    float *p = s->scratch.norm;
    m->wpe.ops->row(&m->wpe, position, p);
    m->kernels->add(x, p, hidden);
  }
}

void bq_forward_head(bq_session *s) {
  const bq_model *m = s->model;
  const float *x = s->x + (size_t)(s->win_len - 1) * m->config.hidden;
  norm_rows(s, m->ln_f_w, m->ln_f_b, x, s->scratch.norm, 1);
  const product head = {&m->head, m->head_b, s->logits};
  multiply(s, s->scratch.norm, m->config.hidden, 1, &head, 1);
}
