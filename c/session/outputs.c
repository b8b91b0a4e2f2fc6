#include "session/outputs.h"

#include <string.h>

#include "core/fmath.h"
#include "session/batch.h"
#include "session/dense.h"
#include "session/ops.h"

void bq_hidden_outputs(bq_session *s) {
  const bq_model *m = s->model;
  const size_t hidden = m->config.hidden;
  const bq_output_range rows = bq_output_rows(s);
  for (uint32_t t = 0; t < rows.n; t++) {
    const float *x = s->batch.x + (size_t)(rows.first + t) * hidden;
    float *y = rows.results + t * hidden;
    if (m->ln_f_w) bq_apply_norm(s, x, m->ln_f_w, m->ln_f_b, hidden, y);
    else memcpy(y, x, hidden * sizeof *y);
  }
}

static void normalize(float *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  const float length = bq_sqrtf((float)sum);
  for (size_t i = 0; length > 0 && i < n; i++) x[i] /= length;
}

/* Adds a position's normed hidden state to the pooled vector or, if `begins`, copies it there. */
static void pool_row(const bq_session *s, const float *state, bool begins, float *y,
                     float *pooled) {
  const bq_model *m = s->model;
  const size_t hidden = m->config.hidden;
  if (m->ln_f_w) bq_apply_norm(s, state, m->ln_f_w, m->ln_f_b, hidden, y);
  else memcpy(y, state, hidden * sizeof *y);
  if (begins) memcpy(pooled, y, hidden * sizeof *y);
  else m->kernels->add(pooled, y, hidden);
}

/* Ends the pooling of text `text` of session `member`, which is in the batch of `s`. */
static void end_pooling(bq_session *s, const bq_session *member, uint32_t text, uint32_t tokens,
                        float *pooled) {
  const bq_config *c = &s->model->config;
  if (member->outputs.pooling == BQ_POOL_MEAN) bq_scale_by(pooled, c->hidden, 1.0f / (float)tokens);
  float *vector = pooled;
  if (member->outputs.dense) {
    vector = member->outputs.dense_out + (size_t)text * bq_config_vector_cols(c);
    bq_dense_layers(s, pooled, member->outputs.inner, vector);
  }
  if (member->outputs.normalize)
    normalize(vector, member->outputs.dense ? bq_config_vector_cols(c) : c->hidden);
}

/* Pools a member's part, whose first row is x. Positions are added one by one and in order, so
 * prefill windows don't change the bits. */
static void pool_window(bq_session *batch, const bq_session *s, const float *x, float *y) {
  const size_t hidden = s->model->config.hidden;
  const uint32_t end = s->part.start + s->part.length;
  const uint32_t last =
      s->outputs.pooling == BQ_POOL_MEAN || end <= s->outputs.from ? end : s->outputs.from + 1;
  for (uint32_t p = s->outputs.from > s->part.start ? s->outputs.from : s->part.start; p < last;
       p++)
    pool_row(s, x + (p - s->part.start) * hidden, p == s->outputs.from, y, s->outputs.pooled);
  if (end == s->sequence.n_tokens)
    end_pooling(batch, s, 0, s->sequence.n_tokens, s->outputs.pooled);
}

/* Pools a text. The vector, before dense layers, replaces the text's first hidden state. */
static void pool_text(bq_session *s, uint32_t i, float *y) {
  const bq_text *text = &s->sequence.texts[i];
  const size_t hidden = s->model->config.hidden;
  const uint32_t tokens = text[1].row - text->row;
  const uint32_t from = s->outputs.pooling == BQ_POOL_LAST ? tokens - 1 : 0;
  const uint32_t end = s->outputs.pooling == BQ_POOL_MEAN ? tokens : from + 1;
  float *x = s->batch.x + text->row * hidden;
  for (uint32_t t = from; t < end; t++) pool_row(s, x + t * hidden, t == from, y, x);
  end_pooling(s, s, i, tokens, x);
}

void bq_pool_outputs(bq_session *s) {
  const size_t hidden = s->model->config.hidden;
  for (uint32_t i = 0; i < s->sequence.n_texts; i++)
    pool_text(s, i, s->scratch.norm);
  for (uint32_t i = 0; i < s->batch.n_members && !s->sequence.n_texts; i++)
    pool_window(s, s->batch.members[i].s, s->batch.x + s->batch.members[i].row * hidden,
                s->scratch.norm);
}

/* --- access ----------------------------------------------------------------------------------- */

const float *bq_session_output(const bq_session *s, uint32_t position) {
  if (!s->outputs.ready || s->outputs.pooling || position < s->outputs.from ||
      position >= s->sequence.n_tokens)
    return NULL;
  return bq_output_at(s, position);
}

float *bq_last_logits(const bq_session *s) {
  if (!s->outputs.ready || bq_outputs_hidden_states(s)) return NULL;
  return bq_output_at(s, s->sequence.n_tokens - 1);
}

const float *bq_session_vector(const bq_session *s, size_t text) {
  if (!s->outputs.ready || !s->outputs.pooling ||
      text >= (s->sequence.n_texts ? s->sequence.n_texts : 1))
    return NULL;
  if (s->outputs.dense)
    return s->outputs.dense_out + text * bq_config_vector_cols(&s->model->config);
  return s->sequence.n_texts
             ? s->batch.x + (size_t)s->sequence.texts[text].row * s->model->config.hidden
             : s->outputs.pooled;
}

const float *bq_session_logits(const bq_session *s) { return bq_last_logits(s); }

bq_session_stats bq_session_stats_get(const bq_session *s) {
  return (bq_session_stats){s->sequence.n_tokens, bq_sequence_complete(s), s->run.work_units,
                            s->run.work, bq_batch_rows(s)};
}
