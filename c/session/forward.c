#include "session/forward.h"

#include <string.h>

#include "core/fmath.h"
#include "session/attention.h"
#include "session/experts.h"
#include "session/linear.h"
#include "session/ops.h"
#include "session/recurrent_steps.h"

/* The NORM and ADD steps: each row is computed by one thread. */
static bq_stage norm_rows(const bq_layer_run *p, const bq_layer_step *step, size_t thread,
                          size_t threads) {
  const bq_micro_batch *j = p->j;
  const size_t cols = p->w->kind->cols[step->in];
  const bq_weights *m = &p->w->module[step->norm];
  const float factor = bq_factor_or_one(p->s->model->config.residual_scale);
  for (bq_share share = bq_share_of(p->s, thread, threads, j->tokens, 1); bq_share_next(&share);)
    for (size_t t = share.from; t < share.to; t++) {
      float *x = j->buffer[step->in] + t * cols;
      bq_apply_norm(p->s, x, bq_norm_weight(m), m->b, cols, x);
      if (step->op != BQ_OP_ADD) continue;
      bq_scale_by(x, cols, factor);
      float *residual = j->buffer[BQ_BUFFER_X] + t * cols;
      p->s->model->kernels->add(residual, x, cols);
      if (step->n) bq_scale_by(residual, cols, *bq_norm_weight(&p->w->module[step->module[0]]));
    }
  return BQ_STAGE_NORM;
}

/* The EMBED step: the layer's embedding of a token is a projection of X before the first layer,
 * normed. With a table, it is the sum of this and the token's row, divided by sqrt(2). Each row is
 * computed by one thread. */
static bq_stage embed_rows(const bq_layer_run *p, size_t thread, size_t threads) {
  const bq_micro_batch *j = p->j;
  const bq_model *m = p->s->model;
  const size_t n = m->config.layer_embed, table_cols = bq_config_layer_embeds(&m->config);
  const float into = 1.0f / bq_sqrtf((float)m->config.hidden), out = 1.0f / bq_sqrtf(2.0f);
  for (bq_share share = bq_share_of(p->s, thread, threads, j->tokens, 1); bq_share_next(&share);)
    for (size_t t = share.from; t < share.to; t++) {
      float *embed = j->buffer[BQ_BUFFER_EMBED_IN] + t * n;
      bq_scale_by(embed, n, into);
      bq_apply_norm(p->s, embed, m->embed_norm_w, NULL, n, embed);
      if (table_cols) {
        const float *row = j->buffer[BQ_BUFFER_LAYER_EMBEDS] + t * table_cols;
        m->kernels->add(embed, row + p->layer * n, n);
        bq_scale_by(embed, n, out);
      }
      bq_activation_of(p->s)(j->buffer[BQ_BUFFER_EMBED_GATE] + t * n, embed, n);
    }
  return BQ_STAGE_ACTIVATE;
}

bq_stage bq_layer_phase(const void *arg, uint32_t layer, uint32_t part, size_t thread,
                        size_t threads) {
  const bq_micro_batch *j = arg;
  const bq_layer_run p = {j, j->s, &j->s->model->layers[layer], layer};
  const bq_layer_step *step = &p.w->kind->steps[part % BQ_PASS];
  switch ((bq_op)step->op) {
  case BQ_OP_STORE: return bq_store_kv(&p, step, thread, threads);
  case BQ_OP_ATTEND:
    return bq_attend(&p, (bq_attend_pass)(part / BQ_PASS), thread, threads);
  case BQ_OP_CONVOLVE: return bq_convolve_step(&p, step, thread, threads);
  case BQ_OP_DELTA: return bq_delta_step(&p, step, thread, threads);
  case BQ_OP_MAMBA_CONVOLVE:
  case BQ_OP_MAMBA:
  case BQ_OP_MAMBA_NORM: return bq_mamba_step(&p, step, thread, threads);
  case BQ_OP_GATE: return bq_gate_step(&p, thread, threads);
  case BQ_OP_EMBED: return embed_rows(&p, thread, threads);
  case BQ_OP_NORM:
  case BQ_OP_ADD: return norm_rows(&p, step, thread, threads);
  case BQ_OP_ROUTE:
  case BQ_OP_EXPERTS:
  case BQ_OP_COMBINE:
    return bq_forward_experts(j->s, p.w, step, part & BQ_PREPARE, j->buffer, j->tokens, thread,
                              threads);
  case BQ_OP_MATMUL: break;
  }
  const bq_linear l = bq_linear_of(&p, step, thread);
  if (!(part & BQ_PREPARE)) return bq_linear_multiply(&p, &l, thread, threads);
  bq_linear_prepare(j, &l, thread, threads);
  return BQ_STAGE_NORM;
}

const bq_phases *bq_layer_phases(const void *arg, uint32_t layer, size_t threads) {
  const bq_micro_batch *j = arg;
  const bq_layer_kind *kind = j->s->model->layers[layer].kind;
  if (!bq_each_thread_prepares(j)) return &kind->many_tokens;
  if (BQ_HAS_THREADS && bq_threads_share_attention(j, kind, threads))
    return &kind->shared_attention;
  return &kind->one_token;
}

bq_micro_batch bq_layer_batch(const bq_session *s, uint32_t tokens) {
  const bq_config *c = &s->model->config;
  const size_t row = s->batch.row;
  bq_micro_batch j = {.s = s,
           .batch_at = s->batch.row,
           .tokens = tokens};
  memcpy(j.buffer, s->scratch.buffer, sizeof j.buffer);
  j.buffer[BQ_BUFFER_X] = s->batch.x + row * c->hidden;
  if (!c->layer_embed) return j;
  j.buffer[BQ_BUFFER_EMBEDDED] = s->batch.start + row * c->hidden;
  j.buffer[BQ_BUFFER_LAYER_EMBEDS] = s->batch.layer_embeds + row * bq_config_layer_embeds(c);
  return j;
}

void bq_forward_layers(bq_session *s, uint32_t tokens, bq_advance_fn *next) {
  const bq_micro_batch j = bq_layer_batch(s, tokens);
  bq_job_run(s, &(bq_job){bq_layer_phase, bq_layer_phases, &j, next});
}
