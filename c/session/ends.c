/* Where a pass begins and ends, besides layers and head: embeddings of tokens and the angles of
 * their positions; hidden states as results, or pooled to one vector of a text. Rows are tokens. */
#include <string.h>

#include "core/fmath.h"
#include "session/session.h"

void bq_forward_norm(const bq_session *s, const float *x, const float *w, const float *b, size_t n,
                     float *y) {
  const bq_kernels *k = s->model->kernels;
  const bq_config *c = &s->model->config;
  if (c->norm == BQ_NORM_RMS) k->rmsnorm(x, w, c->norm_eps, n, y);
  else k->layernorm(x, w, b, c->norm_eps, n, y);
}

/* --- results that are no logits ------------------------------------------------------------- */

void bq_forward_hidden(bq_session *s) {
  const bq_model *m = s->model;
  const size_t hidden = m->config.hidden;
  const bq_rows rows = bq_head_rows(s);
  for (uint32_t t = 0; t < rows.n; t++) {
    const float *x = s->x + (size_t)(rows.first + t) * hidden;
    float *y = rows.results + t * hidden;
    if (m->ln_f_w) bq_forward_norm(s, x, m->ln_f_w, m->ln_f_b, hidden, y);
    else memcpy(y, x, hidden * sizeof *y);
  }
}

static void normalize(float *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  const float length = bq_sqrtf((float)sum);
  for (size_t i = 0; length > 0 && i < n; i++) x[i] /= length;
}

/* Adds a position's state to what is pooled, or begins with it. */
static void pool_state(const bq_session *s, const float *state, bool begins, float *y,
                       float *pooled) {
  const bq_model *m = s->model;
  const size_t hidden = m->config.hidden;
  if (m->ln_f_w) bq_forward_norm(s, state, m->ln_f_w, m->ln_f_b, hidden, y);
  else memcpy(y, state, hidden * sizeof *y);
  if (begins) memcpy(pooled, y, hidden * sizeof *y);
  else m->kernels->add(pooled, y, hidden);
}

static void end_pooling(const bq_session *s, uint32_t tokens, float *pooled) {
  const size_t hidden = s->model->config.hidden;
  if (s->pooling == BQ_POOL_MEAN) bq_scale_by(pooled, hidden, 1.0f / (float)tokens);
  if (s->normalize) normalize(pooled, hidden);
}

/* The window of one session, whose first row is x. Positions come in order, whatever the windows,
 * and each is added by itself. */
static void pool_window(const bq_session *s, const float *x, float *y) {
  const size_t hidden = s->model->config.hidden;
  const uint32_t end = s->win_start + s->win_len;
  const uint32_t last = s->pooling == BQ_POOL_MEAN || end <= s->from ? end : s->from + 1;
  for (uint32_t p = s->from > s->win_start ? s->from : s->win_start; p < last; p++)
    pool_state(s, x + (p - s->win_start) * hidden, p == s->from, y, s->pooled);
  if (end == s->n_tokens) end_pooling(s, s->n_tokens, s->pooled);
}

/* A whole text. Its vector takes the place of its first state. */
static void pool_text(const bq_session *s, const bq_text *text, float *y) {
  const size_t hidden = s->model->config.hidden;
  const uint32_t tokens = text[1].row - text->row;
  const uint32_t from = s->pooling == BQ_POOL_LAST ? tokens - 1 : 0;
  const uint32_t end = s->pooling == BQ_POOL_MEAN ? tokens : from + 1;
  float *x = s->x + text->row * hidden;
  for (uint32_t t = from; t < end; t++) pool_state(s, x + t * hidden, t == from, y, x);
  end_pooling(s, tokens, x);
}

void bq_forward_pool(bq_session *s) {
  const size_t hidden = s->model->config.hidden;
  for (uint32_t i = 0; i < s->n_texts; i++) pool_text(s, &s->texts[i], s->scratch.norm);
  for (uint32_t i = 0; i < s->n_members && !s->n_texts; i++)
    pool_window(s->members[i].s, s->x + s->members[i].row * hidden, s->scratch.norm);
}

/* --- the embedding ---------------------------------------------------------------------------- */

/* Of row `t`, a token of `of`. */
static void make_angles(bq_session *s, uint32_t t, const bq_session *of, uint32_t position) {
  const bq_model *m = s->model;
  const bq_config *c = &m->config;
  const float theta[BQ_ROPE_TABLES] = {c->rope_theta, c->local_theta};
  const float scale[BQ_ROPE_TABLES] = {bq_or_one(c->rope_scale), 1.0f};
  const float *const factors[BQ_ROPE_TABLES] = {
      bq_config_long(c, bq_session_sight(&of->options)) ? m->rope_long : m->rope[0], m->rope[1]};
  const uint32_t from = bq_kv_window_from(bq_sliding(&of->options), position);
  for (uint32_t i = 0; i < bq_rope_tables(c); i++) {
    const size_t at = (size_t)t * c->rope_dim;
    bq_rope_table(s->rope[i] + at, position, c->rope_dim, theta[i], factors[i], scale[i]);
    if (from && of->options.sinks)
      bq_rope_table(s->sink_rope[i] + at, from - of->options.sinks, c->rope_dim, theta[i],
                    factors[i], 1.0f);
  }
}

bq_status bq_forward_embed(bq_session *s, bq_error *err) {
  const bq_model *m = s->model;
  const bq_config *c = &m->config;
  float *row = s->scratch.norm;
  for (; s->embedded < s->rows; s->embedded++) {
    const uint32_t t = s->embedded;
    const bq_row of = bq_row_at(s, t);
    float *x = s->x + (size_t)t * c->hidden;
    float *p = c->position == BQ_POSITION_LEARNED ? row : NULL;
    bq_status status = bq_page_embedding(s, of.s->tokens[of.first + of.position], of.position, x, p,
                                         err);
    if (status) return status;
    bq_scale_by(x, c->hidden, bq_or_one(c->embed_scale));
    if (p) m->kernels->add(x, p, c->hidden);
    if (c->token_types) {
      m->wtt.ops->row(&m->wtt, 0, row);
      m->kernels->add(x, row, c->hidden);
    }
    if (c->embed_norm) bq_forward_norm(s, x, m->ln_0_w, m->ln_0_b, c->hidden, x);
    make_angles(s, t, of.s, of.position);
  }
  return BQ_OK;
}
