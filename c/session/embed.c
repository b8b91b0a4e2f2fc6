#include "session/embed.h"

#include <string.h>

#include "core/fmath.h"
#include "session/batch.h"
#include "session/ops.h"
#include "session/page.h"

/* Computes the rotary angles of row `t` of the batch, a token of session `member`. */
static void make_angles(bq_session *s, uint32_t t, const bq_session *member, uint32_t position) {
  const bq_model *m = s->model;
  const bq_config *c = &m->config;
  const float theta[BQ_ROPE_TABLES] = {c->rope_theta, c->local_theta};
  const float scale[BQ_ROPE_TABLES] = {bq_factor_or_one(c->rope_scale), 1.0f};
  const float *const factors[BQ_ROPE_TABLES] = {
      bq_config_long(c, bq_attention_span(&member->options)) ? m->rope_long : m->rope[0],
      m->rope[1]};
  const uint32_t from = bq_window_start(bq_sliding_window(&member->options), position);
  for (uint32_t i = 0; i < bq_rope_tables(c); i++) {
    const uint32_t dim = bq_config_rope_dim(c, i);
    const size_t at = (size_t)t * dim;
    bq_rope_table(s->batch.rope[i] + at, position, dim, theta[i], factors[i], scale[i]);
    if (from && member->options.sinks)
      bq_rope_table(s->sink_cache.rope[i] + at, from - member->options.sinks, dim, theta[i],
                    factors[i], 1.0f);
  }
}

bq_status bq_forward_embed(bq_session *s, bq_error *err) {
  const bq_model *m = s->model;
  const bq_config *c = &m->config;
  float *row = s->scratch.norm;
  const uint32_t layer_cols = bq_config_layer_embeds(c);
  for (; s->batch.embedded < s->batch.rows; s->batch.embedded++) {
    const uint32_t t = s->batch.embedded;
    const bq_row token = bq_row_at(s, t);
    float *x = s->batch.x + (size_t)t * c->hidden;
    float *p = c->position == BQ_POSITION_LEARNED ? row : NULL;
    float *embeds = layer_cols ? s->batch.layer_embeds + (size_t)t * layer_cols : NULL;
    bq_status status = bq_paged_embedding(s, token.s->sequence.tokens[token.first + token.position],
                                          token.position, x, p, embeds, err);
    if (status) return status;
    bq_scale_by(x, c->hidden, bq_factor_or_one(c->embed_scale));
    if (p) m->kernels->add(x, p, c->hidden);
    if (c->token_types) {
      const bool second = token.second && token.position >= token.second;
      m->wtt.ops->row(&m->wtt, second && c->token_types > 1 ? 1 : 0, row);
      m->kernels->add(x, row, c->hidden);
    }
    if (c->embed_norm) bq_apply_norm(s, x, m->ln_0_w, m->ln_0_b, c->hidden, x);
    if (embeds) bq_scale_by(embeds, layer_cols, bq_sqrtf((float)c->layer_embed));
    if (c->layer_embed) memcpy(s->batch.start + (size_t)t * c->hidden, x, c->hidden * sizeof *x);
    make_angles(s, t, token.s, token.position);
  }
  return BQ_OK;
}
