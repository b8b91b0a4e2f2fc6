#include "session/experts.h"

#include <string.h>

#include "core/fmath.h"
#include "session/matmul.h"
#include "session/ops.h"
#include "session/threads.h"

bq_expert_routing *bq_expert_routing_lay_out(bq_arena *arena, const bq_config *c,
                                             const bq_kernels *kernels, uint32_t batch) {
  bq_expert_routing routes = {0}, *placed = bq_arena_take(arena, 1, sizeof *placed);
  const uint64_t pairs = (uint64_t)batch * c->experts_used;
  const uint32_t widest = c->hidden > c->expert_ffn ? c->hidden : c->expert_ffn;
  /* The panel of one row, or of the two rows of i16 activations (kernels.h, panel_bytes). */
  const uint64_t panel = kernels->panel_bytes(widest, 2);
  routes.panel_bytes = (size_t)((panel + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN);
  routes.expert = bq_arena_take(arena, pairs, sizeof *routes.expert);
  routes.weight = bq_arena_take(arena, pairs, sizeof *routes.weight);
  routes.pair = bq_arena_take(arena, pairs, sizeof *routes.pair);
  routes.token = bq_arena_take(arena, pairs, sizeof *routes.token);
  routes.first = bq_arena_take(arena, (uint64_t)c->experts + 1, sizeof *routes.first);
  routes.active = bq_arena_take(arena, (uint64_t)c->experts + 1, sizeof *routes.active);
  routes.panel = bq_arena_take(arena, pairs, routes.panel_bytes);
  if (placed) *placed = routes;
  return placed;
}

/* --- choosing --------------------------------------------------------------------------------- */

static const float LOWEST = -__builtin_inff();

/* The numbers by which experts are chosen: their scores, plus a bias unless it is NULL. */
typedef struct ranking {
  const float *scores, *bias;
} ranking;

/* NaN counts as the lowest score. */
static float score_of(ranking r, uint32_t e) {
  const float x = r.bias ? r.scores[e] + r.bias[e] : r.scores[e];
  return x == x ? x : LOWEST;
}

/* The expert that follows `after` in the order of falling scores; after == experts: the first one.
 * Of equal scores the lower number comes first. */
static uint32_t next_best(ranking r, uint32_t experts, uint32_t after) {
  uint32_t best = experts;
  for (uint32_t e = 0; e < experts; e++) {
    if (after < experts) {
      const float x = score_of(r, e), y = score_of(r, after);
      if (x > y || (!(x < y) && e <= after)) continue;
    }
    if (best == experts || score_of(r, e) > score_of(r, best)) best = e;
  }
  return best;
}

/* Writes the experts with the highest scores, in the order of their numbers. Returns the one with
 * the highest score. */
static uint32_t choose_highest(const bq_config *c, ranking r, uint32_t *expert) {
  uint32_t first = 0;
  for (uint32_t i = 0, last = c->experts; i < c->experts_used; i++) {
    uint32_t at = i;
    last = next_best(r, c->experts, last);
    if (i == 0) first = last;
    for (; at > 0 && expert[at - 1] > last; at--) expert[at] = expert[at - 1];
    expert[at] = last;
  }
  return first;
}

/* Start of the sum of sigmoids, so that it is not 0: as in transformers' Lfm2MoeTopKRouter. */
static const float SIGMOID_SUM_START = 1e-6f;

/* Chooses a token's experts and their weights: the sigmoids of the scores, which replace them. */
static void choose_by_sigmoids(const bq_config *c, const float *bias, float *scores,
                               uint32_t *expert, float *weight) {
  float sum = SIGMOID_SUM_START;
  for (uint32_t e = 0; e < c->experts; e++) scores[e] = 1.0f / (1.0f + bq_expf(-scores[e]));
  choose_highest(c, (ranking){scores, bias}, expert);
  for (uint32_t i = 0; i < c->experts_used; i++) sum += weight[i] = scores[expert[i]];
  for (uint32_t i = 0; c->experts_sum && i < c->experts_used; i++) weight[i] /= sum;
}

/* Chooses a token's experts and their weights: softmax over all scores or, with experts_sum
 * (norm_topk_prob), over the chosen ones. */
static void choose_experts(const bq_config *c, const float *scores, uint32_t *expert,
                           float *weight) {
  float sum = 0;
  const float top = scores[choose_highest(c, (ranking){scores, NULL}, expert)];
  for (uint32_t i = 0; i < c->experts_used; i++) weight[i] = bq_expf(scores[expert[i]] - top);
  if (c->experts_sum)
    for (uint32_t i = 0; i < c->experts_used; i++) sum += weight[i];
  else
    for (uint32_t e = 0; e < c->experts; e++) sum += bq_expf(scores[e] - top);
  for (uint32_t i = 0; i < c->experts_used; i++) weight[i] /= sum;
}

/* Sorts the (token, expert) pairs by expert: counts the pairs of each expert, computes where they
 * begin, then lists them. */
static void sort_pairs(const bq_config *c, bq_expert_routing *r, uint32_t tokens) {
  const uint32_t pairs = tokens * c->experts_used;
  memset(r->first, 0, ((size_t)c->experts + 1) * sizeof *r->first);
  for (uint32_t i = 0; i < pairs; i++) r->first[r->expert[i] + 1]++;
  r->active[0] = 0;
  for (uint32_t e = 0; e < c->experts; e++) {
    if (r->first[e + 1]) r->active[++r->active[0]] = e;
    r->first[e + 1] += r->first[e];
  }
  for (uint32_t i = 0; i < pairs; i++) { /* each `first` advances to that of the next expert */
    const uint32_t pair = r->first[r->expert[i]]++;
    r->pair[i] = pair;
    r->token[pair] = i / c->experts_used;
  }
  for (uint32_t e = c->experts; e > 0; e--) r->first[e] = r->first[e - 1];
  r->first[0] = 0;
}

static void assign_experts(const bq_session *s, const bq_layer *w, float *scores, uint32_t tokens) {
  const bq_config *c = &s->model->config;
  bq_expert_routing *r = s->scratch.routes;
  for (uint32_t t = 0; t < tokens; t++) {
    float *const token_scores = scores + (size_t)t * c->experts;
    uint32_t *const expert = r->expert + t * c->experts_used;
    float *const weight = r->weight + t * c->experts_used;
    if (c->experts_sigmoid)
      choose_by_sigmoids(c, w->module[BQ_ROUTER].b, token_scores, expert, weight);
    else
      choose_experts(c, token_scores, expert, weight);
  }
  sort_pairs(c, r, tokens);
}

/* --- products --------------------------------------------------------------------------------- */

/* The pairs of one expert: `rows` of them, from pair `first` on. */
typedef struct group {
  uint32_t expert, first, rows;
} group;

static group group_of(const bq_expert_routing *r, size_t i) {
  const uint32_t e = r->active[1 + i];
  return (group){e, r->first[e], r->first[e + 1] - r->first[e]};
}

/* The matrix of one expert in a module that stacks all of them. */
static bq_matrix matrix_of(const bq_config *c, const bq_matrix *all, uint32_t expert) {
  bq_matrix m = *all;
  m.rows = all->rows / c->experts;
  m.data += (size_t)bq_type_bytes(m.type, bq_type_compute_layout(m.type), (uint64_t)expert * m.rows,
                                  m.cols);
  return m;
}

static bool is_quantized(const bq_layer *w, const bq_layer_step *step) {
  for (uint32_t i = 0; i < step->n; i++)
    if (w->module[step->module[i]].w.ops->quantized) return true;
  return false;
}

/* The rows of a step's input, [pairs][cols]. */
static float *input_of(const bq_layer_step *step, float *const *buffer) {
  return buffer[step->in == BQ_BUFFER_X ? BQ_BUFFER_EXPERT_IN : step->in];
}

/* Prepares the input of one expert: copies and norms rows of X, then quantizes them. */
static void prepare_expert(const bq_session *s, const bq_layer *w, const bq_layer_step *step,
                           float *const *buffer, group g, size_t thread) {
  const bq_expert_routing *r = s->scratch.routes;
  const size_t cols = bq_buffer_cols(&s->model->config, (bq_buffer)step->in);
  float *rows = input_of(step, buffer) + g.first * cols;
  for (uint32_t i = 0; step->in == BQ_BUFFER_X && i < g.rows; i++) {
    const float *x = buffer[BQ_BUFFER_X] + r->token[g.first + i] * cols;
    if (step->norm == BQ_NO_MODULE) {
      memcpy(rows + i * cols, x, cols * sizeof *x);
      continue;
    }
    const bq_weights *m = &w->module[step->norm];
    bq_apply_norm(s, x, (const float *)(const void *)m->w.data, m->b, cols, rows + i * cols);
  }
  bq_assert(s->model->kernels->panel_bytes(cols, g.rows * bq_panel_rows(&s->options)) <=
            g.rows * r->panel_bytes);
  if (is_quantized(w, step))
    bq_matmul_quantize(s, rows, cols, 0, g.rows, thread,
                        r->panel + g.first * r->panel_bytes);
}

static void activate_experts(const bq_session *s, const bq_layer_step *step, float *const *buffer,
                             group g, size_t cols, size_t row0, size_t row1) {
  bq_activate_fn *const act = bq_activation_of(s);
  for (uint32_t i = 0; i < g.rows; i++) {
    const size_t at = (g.first + i) * cols + row0;
    act(buffer[step->out[0]] + at, step->n > 1 ? buffer[step->out[1]] + at : NULL, row1 - row0);
  }
}

/* A thread's share of all experts' matmuls, in runs of row groups. */
static void multiply_experts(const bq_session *s, const bq_layer *w, const bq_layer_step *step,
                             float *const *buffer, size_t thread, size_t threads) {
  const bq_config *c = &s->model->config;
  const bq_expert_routing *r = s->scratch.routes;
  const size_t in = bq_buffer_cols(c, (bq_buffer)step->in);
  const size_t cols = w->module[step->module[0]].w.rows / c->experts; /* columns of the result */
  const size_t run = 8 * BQ_TILE_ROWS, runs = (cols + run - 1) / run;
  for (bq_share share = bq_share_of(s, thread, threads, r->active[0] * runs, 1);
       bq_share_next(&share);)
    for (size_t i = share.from; i < share.to; i++) {
      const group g = group_of(r, i / runs);
      const size_t row0 = i % runs * run, row1 = row0 + run < cols ? row0 + run : cols;
      const bq_batch batch = {input_of(step, buffer) + g.first * in, in,
                              r->panel + g.first * r->panel_bytes, g.rows};
      for (uint32_t m = 0; m < step->n; m++) {
        const bq_matrix part = matrix_of(c, &w->module[step->module[m]].w, g.expert);
        bq_matmul(s, &part, &batch, row0, row1, thread,
                            buffer[step->out[m]] + g.first * cols, cols);
      }
      if (step->epilogue == BQ_EPILOGUE_ACTIVATE)
        activate_experts(s, step, buffer, g, cols, row0, row1);
    }
}

/* --- sums ------------------------------------------------------------------------------------- */

static void add_weighted(float *y, const float *x, float weight, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] += weight * x[i];
}

static void combine(const bq_session *s, const bq_layer *w, const bq_layer_step *step,
                    float *const *buffer, uint32_t t) {
  const bq_config *c = &s->model->config;
  const bq_expert_routing *r = s->scratch.routes;
  const size_t n = c->hidden, used = c->experts_used;
  float *y = buffer[BQ_BUFFER_OUT] + t * n, *x = buffer[BQ_BUFFER_X] + t * n;
  const float *bias = w->module[BQ_EXPERT_DOWN].b; /* of all experts together */
  for (size_t i = 0; i < n; i++) y[i] = bias ? bias[i] : 0.0f;
  for (size_t i = t * used; i < (t + 1) * used; i++)
    add_weighted(y, buffer[BQ_BUFFER_EXPERT_OUT] + r->pair[i] * n, r->weight[i], n);
  if (c->shared_ffn) {
    const float gate =
        c->shared_always ? 1.0f : 1.0f / (1.0f + bq_expf(-buffer[BQ_BUFFER_SWITCH][t]));
    add_weighted(y, buffer[BQ_BUFFER_SHARED_OUT] + t * n, gate, n);
  }
  if (step->epilogue != BQ_EPILOGUE_ADD) return;
  for (size_t i = 0; c->residual_scale > 0 && i < n; i++) y[i] *= c->residual_scale;
  s->model->kernels->add(x, y, n);
}

bq_stage bq_forward_experts(const bq_session *s, const bq_layer *w, const bq_layer_step *step,
                            bool prepares, float *const *buffer, uint32_t tokens, size_t thread,
                            size_t threads) {
  if (step->op == BQ_OP_ROUTE) {
    if (thread == 0) assign_experts(s, w, buffer[BQ_BUFFER_ROUTE], tokens);
  } else if (step->op == BQ_OP_COMBINE) {
    for (bq_share share = bq_share_of(s, thread, threads, tokens, 1); bq_share_next(&share);)
      for (size_t t = share.from; t < share.to; t++) combine(s, w, step, buffer, (uint32_t)t);
  } else if (prepares) {
    const size_t groups = s->scratch.routes->active[0];
    for (bq_share share = bq_share_of(s, thread, threads, groups, 1); bq_share_next(&share);)
      for (size_t i = share.from; i < share.to; i++)
        prepare_expert(s, w, step, buffer, group_of(s->scratch.routes, i), thread);
    return BQ_STAGE_NORM;
  } else {
    multiply_experts(s, w, step, buffer, thread, threads);
  }
  return (bq_stage)step->stage;
}
