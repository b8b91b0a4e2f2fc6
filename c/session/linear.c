#include "session/linear.h"

#include "session/adapter.h"
#include "session/matmul.h"
#include "session/ops.h"
#include "session/threads.h"

static void adapt(const bq_layer_run *p, const bq_layer_step *step, bq_linear *l) {
  float *down =
      p->s->lora.down + (bq_each_thread_prepares(p->j) ? l->thread * p->s->lora.stride : 0);
  for (uint32_t i = 0; i < step->n; i++) {
    l->list[i].lora = bq_lora_of(p->s, p->layer, step->module[i]);
    l->list[i].lora_down = down;
    if (l->list[i].lora) down += l->list[i].lora->rank;
  }
}

bq_linear bq_linear_of(const bq_layer_run *p, const bq_layer_step *step, size_t thread) {
  const bq_micro_batch *j = p->j;
  bq_linear l = {
      .thread = thread,
      .x = j->buffer[step->in],
      .cols = p->w->kind->cols[step->in],
      .n = step->n,
      .residual = step->epilogue == BQ_EPILOGUE_ADD ? j->buffer[BQ_BUFFER_X] : NULL,
      .scale = bq_factor_or_one(p->s->model->config.residual_scale),
      .activate = step->epilogue == BQ_EPILOGUE_ACTIVATE,
      .stage = step->epilogue == BQ_EPILOGUE_ACTIVATE ? BQ_STAGE_ACTIVATE : (bq_stage)step->stage};
  l.normed = step->norm != BQ_NO_MODULE;
  if (l.normed) {
    l.norm_w = bq_norm_weight(&p->w->module[step->norm]);
    l.norm_b = p->w->module[step->norm].b;
  }
  for (uint32_t i = 0; i < step->n; i++) {
    const bq_weights *m = &p->w->module[step->module[i]];
    /* With experts_sigmoid, the router's bias is for the choice of experts, not for their
     * scores. */
    const bool chooses = step->module[i] == BQ_ROUTER && p->s->model->config.experts_sigmoid;
    l.list[i] = (bq_product){.w = &m->w, .scale = m->scale, .bias = chooses ? NULL : m->b,
                          .y = j->buffer[step->out[i]], .stride = p->w->kind->cols[step->out[i]]};
  }
  if (p->s->lora.matrices) adapt(p, step, &l);
  return l;
}

/* --- inputs ----------------------------------------------------------------------------------- */

static bool is_quantized(const bq_linear *l) {
  for (size_t i = 0; i < l->n; i++)
    if (l->list[i].w->ops->quantized) return true;
  return false;
}

/* Norms and quantizes tokens [from, to) of the input; `from` is a multiple of BQ_PANEL_TOKENS. */
static void prepare_tokens(const bq_session *s, const bq_linear *l, size_t from, size_t to,
                           float *normed, uint8_t *panel) {
  const float *x = l->normed ? normed : l->x;
  for (size_t t = from; l->normed && t < to; t++)
    bq_apply_norm(s, l->x + t * l->cols, l->norm_w, l->norm_b, l->cols, normed + t * l->cols);
  if (is_quantized(l)) bq_matmul_quantize(s, x, l->cols, from, to, l->thread, panel);
  for (size_t i = 0; i < l->n; i++)
    if (l->list[i].lora)
      bq_lora_down(s, l->list[i].lora, x + from * l->cols, l->cols, to - from,
                       l->list[i].lora_down + from * s->lora.stride);
}

void bq_linear_prepare(const bq_micro_batch *j, const bq_linear *l, size_t thread, size_t threads) {
  for (bq_share share = bq_share_of(j->s, thread, threads, j->tokens, BQ_PANEL_TOKENS);
       bq_share_next(&share);)
    prepare_tokens(j->s, l, share.from, share.to, j->s->scratch.norm, j->s->scratch.panel);
}

/* --- products --------------------------------------------------------------------------------- */

/* Epilogue of a matmul for rows [row0, row1): scale, bias, LoRA, logits, residual. */
static void bq_product_epilogue(const bq_session *s, const bq_linear *l, const bq_product *p,
                                size_t tokens, size_t row0, size_t row1) {
  for (size_t t = 0; t < tokens; t++) {
    float *y = p->y + t * p->stride + row0;
    for (size_t i = 0; p->scale && i < row1 - row0; i++) y[i] *= p->scale[row0 + i];
    if (p->bias) s->model->kernels->add(y, p->bias + row0, row1 - row0);
    if (p->lora)
      bq_lora_up(s, p->lora, p->lora_down + t * s->lora.stride, row0, row1, y);
    if (l->logits) bq_scale_logits(&s->model->config, y, row1 - row0);
    if (!l->residual) continue;
    bq_scale_by(y, row1 - row0, l->scale);
    s->model->kernels->add(l->residual + t * p->w->rows + row0, y, row1 - row0);
  }
}

/* Computes the groups [a, b) of BQ_TILE_ROWS rows. */
static void run_product(const bq_session *s, const bq_linear *l, const bq_product *p,
                        const bq_batch *batch, size_t a, size_t b) {
  const size_t rows = p->w->rows, row0 = a * BQ_TILE_ROWS;
  const size_t row1 = b * BQ_TILE_ROWS < rows ? b * BQ_TILE_ROWS : rows;
  bq_matmul(s, p->w, batch, row0, row1, l->thread, p->y, p->stride);
  bq_product_epilogue(s, l, p, batch->tokens, row0, row1);
}

/* Computes row groups [from, to) of all matmuls, numbered consecutively. */
static void run_products(const bq_session *s, const bq_linear *l, const bq_batch *batch,
                         size_t from, size_t to) {
  for (size_t i = 0, first = 0; i < l->n; i++) {
    size_t groups = bq_row_groups(l->list[i].w);
    size_t a = from > first ? from - first : 0, b = to > first ? to - first : 0;
    if (b > groups) b = groups;
    if (a < b) run_product(s, l, &l->list[i], batch, a, b);
    first += groups;
  }
}

/* Number of row groups that a thread claims at once, at least. For one token: those that kernels
 * compute at once, but at least 4, so that a thread needs few claims. */
static size_t grain_of(const bq_linear *l, const bq_batch *batch) {
  size_t grain = 4;
  if (!BQ_HAS_THREADS || batch->tokens > 1) return 1;
  for (size_t i = 0; i < l->n; i++)
    if (l->list[i].w->ops->groups > grain) grain = l->list[i].w->ops->groups;
  return grain;
}

static void multiply_products(const bq_session *s, const bq_linear *l, const bq_batch *batch,
                              size_t thread, size_t threads) {
  size_t total = 0;
  for (size_t i = 0; i < l->n; i++) total += bq_row_groups(l->list[i].w);
  for (bq_share share = bq_share_of(s, thread, threads, total, grain_of(l, batch));
       bq_share_next(&share);)
    run_products(s, l, batch, share.from, share.to);
}

/* gate = act(gate) * up, or up = act(up), for row groups [from, to). */
static void activate_rows(const bq_session *s, const bq_linear *l, size_t tokens, size_t from,
                          size_t to) {
  bq_activate_fn *const act = bq_activation_of(s);
  const size_t rows = l->list[0].w->rows, row0 = from * BQ_TILE_ROWS;
  const size_t row1 = to * BQ_TILE_ROWS < rows ? to * BQ_TILE_ROWS : rows;
  for (size_t t = 0; t < tokens; t++)
    act(l->list[0].y + t * rows + row0, l->n == 2 ? l->list[1].y + t * rows + row0 : NULL,
        row1 - row0);
}

/* Computes gate and up, then the activation. A thread computes the same rows of both, so that it
 * can combine them itself. It does so after all its multiplications, to keep the two stages apart
 * in a trace. The ranges that it has claimed are merged into a few runs. */
static void run_gate(const bq_layer_run *p, const bq_linear *l, const bq_batch *batch,
                     size_t thread, size_t threads) {
  const bq_session *s = p->s;
  enum { RUNS = 8 };
  size_t runs[RUNS][2], n = 0;
  bq_share share = bq_share_of(s, thread, threads, bq_row_groups(l->list[0].w), grain_of(l, batch));
  while (bq_share_next(&share)) {
    for (size_t i = 0; i < l->n; i++)
      run_product(s, l, &l->list[i], batch, share.from, share.to);
    if (n > 0 && runs[n - 1][1] == share.from) runs[n - 1][1] = share.to;
    else if (n > 0 && runs[n - 1][0] == share.to) runs[n - 1][0] = share.from;
    else if (n == RUNS) activate_rows(s, l, batch->tokens, share.from, share.to);
    else runs[n][0] = share.from, runs[n++][1] = share.to;
  }
  if (thread == 0) bq_mark(s, BQ_STAGE_MLP_IN, p->layer);
  for (size_t i = 0; i < n; i++) activate_rows(s, l, batch->tokens, runs[i][0], runs[i][1]);
}

bq_batch bq_linear_input(const bq_layer_run *at, const bq_linear *l) {
  const bq_session *s = at->s;
  const bq_micro_batch *j = at->j;
  const size_t own = bq_each_thread_prepares(j) ? l->thread : 0;
  float *normed = s->scratch.norm + own * bq_config_max_normed_cols(&s->model->config);
  uint8_t *panel = s->scratch.panel + own * s->scratch.panel_bytes;
  if (bq_each_thread_prepares(j)) {
    prepare_tokens(s, l, 0, 1, normed, panel);
    if (l->thread == 0) bq_mark(s, BQ_STAGE_NORM, at->layer);
  }
  return (bq_batch){l->normed ? normed : l->x, l->cols, panel, j->tokens};
}

bq_stage bq_linear_multiply(const bq_layer_run *at, const bq_linear *l, size_t thread,
                            size_t threads) {
  const bq_session *s = at->s;
  const bq_batch batch = bq_linear_input(at, l);
  if (!l->activate) multiply_products(s, l, &batch, thread, threads);
  else run_gate(at, l, &batch, thread, threads);
  return l->stage;
}

void bq_linear_epilogue(const bq_layer_run *p, const bq_linear *l) {
  for (size_t i = 0; i < l->n; i++)
    bq_product_epilogue(p->s, l, &l->list[i], p->j->tokens, 0, l->list[i].w->rows);
  if (l->activate) activate_rows(p->s, l, p->j->tokens, 0, bq_row_groups(l->list[0].w));
}
