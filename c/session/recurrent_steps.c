#include "session/recurrent_steps.h"

#include <string.h>

#include "core/fmath.h"
#include "core/minmax.h"
#include "session/batch.h"
#include "session/recurrent_layers.h"
#include "session/threads.h"

/* Consecutive rows of one text of a session in a micro-batch. */
typedef struct segment {
  const bq_session *s;
  uint32_t at, tokens; /* index of the first row in the micro-batch, and number of rows */
  bool first;          /* the segment is the beginning of the text */
  bool opens;          /* it is the beginning of the session's part of the batch */
} segment;

/* The segment that begins at row `from` of the micro-batch. */
static segment segment_at(const bq_micro_batch *j, uint32_t from) {
  const bq_row row = bq_row_at(j->s, j->batch_at + from);
  return (segment){row.s, from, bq_min32(row.remaining, j->tokens - from), row.position == 0,
                   !row.s->sequence.n_texts && row.position == row.s->part.start};
}

/* Vector `i` of a step. */
static const float *vector_of(const bq_layer_run *p, const bq_layer_step *step, uint32_t i) {
  return bq_norm_weight(&p->w->module[step->module[i]]);
}

/* Channels are divided among threads; each computes all rows of a text in order. */
bq_stage bq_convolve_step(const bq_layer_run *p, const bq_layer_step *step, size_t thread,
                          size_t threads) {
  enum { GRAIN = 64 };
  const bq_micro_batch *j = p->j;
  const bq_config *c = &p->s->model->config;
  const float *taps = bq_norm_weight(&p->w->module[step->module[0]]);
  for (bq_share share = bq_share_of(p->s, thread, threads, c->hidden, GRAIN);
       bq_share_next(&share);)
    for (segment g = {0}; g.at < j->tokens; g.at += g.tokens) {
      g = segment_at(j, g.at);
      float *state = bq_recurrence_state(&g.s->recurrence, c, p->layer);
      for (size_t k = 0; g.first && k + 1 < c->conv_size; k++)
        memset(state + k * c->hidden + share.from, 0, (share.to - share.from) * sizeof *state);
      bq_convolve(c, taps, state, j->buffer[BQ_BUFFER_CONV_IN] + (size_t)g.at * 3 * c->hidden,
                  j->buffer[BQ_BUFFER_CONV_OUT] + (size_t)g.at * c->hidden, g.tokens, share.from,
                  share.to);
    }
  return BQ_STAGE_ATTEND;
}

/* Address of a segment's rows in a buffer. */
static float *rows_of(const bq_layer_run *p, bq_buffer buffer, const segment *g) {
  return p->j->buffer[buffer] + (size_t)g->at * p->w->kind->cols[buffer];
}

/* The layer's state before a segment, whose matrices are read. */
static const float *state_before(const bq_layer_run *p, const segment *g) {
  const bq_recurrence *r = &g->s->recurrence;
  const bq_config *c = &p->s->model->config;
  return g->opens ? bq_recurrence_start(r, c, p->layer) : bq_recurrence_state(r, c, p->layer);
}

/* Key heads, each with its value heads, are divided among threads. */
bq_stage bq_delta_step(const bq_layer_run *p, const bq_layer_step *step, size_t thread,
                       size_t threads) {
  const bq_micro_batch *j = p->j;
  const bq_config *c = &p->s->model->config;
  const float *vector[BQ_STEP_MATRICES];
  for (uint32_t i = 0; i < step->n; i++) vector[i] = vector_of(p, step, i);
  for (bq_share share = bq_share_of(p->s, thread, threads, c->state_key_heads, 1);
       bq_share_next(&share);)
    for (segment g = {0}; g.at < j->tokens; g.at += g.tokens) {
      g = segment_at(j, g.at);
      const bq_delta d = {.taps = vector[0],
                          .dt = vector[1],
                          .decay = vector[2],
                          .norm = vector[3],
                          .in = rows_of(p, BQ_BUFFER_DELTA_QKV, &g),
                          .z = rows_of(p, BQ_BUFFER_DELTA_Z, &g),
                          .a = rows_of(p, BQ_BUFFER_DELTA_A, &g),
                          .b = rows_of(p, BQ_BUFFER_DELTA_B, &g),
                          .from = state_before(p, &g),
                          .state = bq_recurrence_state(&g.s->recurrence, c, p->layer),
                          .out = rows_of(p, BQ_BUFFER_STATE_OUT, &g),
                          .tokens = g.tokens};
      for (size_t h = share.from; h < share.to; h++) {
        if (g.first) bq_delta_reset(c, d.state, (uint32_t)h);
        bq_delta_head(c, &d, (uint32_t)h);
      }
    }
  return BQ_STAGE_ATTEND;
}

/* Channels, heads or groups of heads, depending on the step, are divided among threads. */
bq_stage bq_mamba_step(const bq_layer_run *p, const bq_layer_step *step, size_t thread,
                       size_t threads) {
  const bq_config *c = &p->s->model->config;
  const bool convolves = step->op == BQ_OP_MAMBA_CONVOLVE, recurs = step->op == BQ_OP_MAMBA;
  const size_t total = convolves ? bq_config_channels(c)
                       : recurs  ? c->state_value_heads
                                 : c->state_key_heads;
  bq_mamba_rows m = {.kernels = p->s->model->kernels};
  for (uint32_t i = 0; i < step->n; i++) m.vectors[i] = vector_of(p, step, i);
  for (bq_share share = bq_share_of(p->s, thread, threads, total, convolves ? 64 : 1);
       bq_share_next(&share);)
    for (segment g = {0}; g.at < p->j->tokens; g.at += g.tokens) {
      g = segment_at(p->j, g.at);
      m.in = rows_of(p, BQ_BUFFER_MAMBA_IN, &g);
      m.out = rows_of(p, BQ_BUFFER_STATE_OUT, &g);
      m.from = state_before(p, &g);
      m.state = bq_recurrence_state(&g.s->recurrence, c, p->layer);
      m.tokens = g.tokens;
      m.first = g.first;
      if (convolves) bq_mamba_convolve(c, &m, share.from, share.to);
      for (size_t i = share.from; !convolves && i < share.to; i++)
        (recurs ? bq_mamba_head : bq_mamba_normalize)(c, &m, (uint32_t)i);
    }
  return BQ_STAGE_ATTEND;
}

/* Heads of all tokens are divided among threads. */
bq_stage bq_gate_step(const bq_layer_run *p, size_t thread, size_t threads) {
  const bq_micro_batch *j = p->j;
  const bq_config *c = &p->s->model->config;
  const bool per_head = c->attn_gate == BQ_ATTN_GATE_HEADS;
  const size_t dim = c->head_dim, total = (size_t)c->heads * j->tokens;
  for (bq_share share = bq_share_of(p->s, thread, threads, total, 1); bq_share_next(&share);)
    for (size_t i = share.from; i < share.to; i++) {
      const float *gates = per_head ? j->buffer[BQ_BUFFER_HEAD_GATES] + i
                                    : j->buffer[BQ_BUFFER_GATED_Q] + (2 * i + 1) * dim;
      float *y = j->buffer[BQ_BUFFER_MIX] + i * dim;
      for (size_t k = 0; k < dim; k++)
        y[k] *= 1.0f / (1.0f + bq_expf(-gates[per_head ? 0 : k]));
    }
  return BQ_STAGE_ATTEND;
}
