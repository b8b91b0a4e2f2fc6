#include "session/attention.h"

#include <string.h>

#include "core/fmath.h"
#include "core/minmax.h"
#include "kernels/kv.h"
#include "session/batch.h"
#include "session/hadamard.h"
#include "session/ops.h"
#include "session/sinks.h"
#include "session/threads.h"

/* The segment that begins at token `from` of the micro-batch. */
static bq_segment segment_at(const bq_micro_batch *j, uint32_t from) {
  const bq_row row = bq_row_at(j->s, j->batch_at + from);
  const uint32_t position = row.first + row.position, window = bq_sliding_window(&row.s->options);
  uint32_t n = bq_min32(row.remaining, j->tokens - from);
  /* All tokens of a segment have the same first visible position. */
  if (window)
    n = bq_min32(n, bq_window_start(window, position) + BQ_KV_BLOCK + window - 1 - position);
  return (bq_segment){row.s, from, n, row.first, position};
}

/* --- storing ---------------------------------------------------------------------------------- */

/* Clamps one head of all tokens to -limit...limit; limit 0: doesn't clamp. */
static void clip_head(const bq_layer_run *p, float *x, size_t stride, float limit) {
  const size_t dim = p->w->kind->head_dim;
  for (uint32_t t = 0; limit > 0 && t < p->j->tokens; t++)
    for (size_t i = 0; i < dim; i++) {
      float *v = x + t * stride + i;
      *v = *v > limit ? limit : *v < -limit ? -limit : *v;
    }
}

/* Prepares head `h` of Q or K of all tokens: clamps, norms and rotates it, as far as the model does
 * so. `which`: index of the norm's module in the step. */
static void prepare_head(const bq_layer_run *p, const bq_layer_step *step, uint32_t which,
                         uint32_t h, float *x, size_t stride) {
  const bq_micro_batch *j = p->j;
  const bq_session *s = p->s;
  const bq_config *c = &s->model->config;
  const bq_weights *m = step->n ? &p->w->module[step->module[which]] : NULL;
  const uint32_t table = p->w->kind->rope, rotated = p->w->kind->rope_dim;
  const size_t dim = p->w->kind->head_dim, norm_at = c->qk_norm == BQ_QK_EACH ? h * dim : 0;
  const float *cs =
      table == BQ_NO_ROPE ? NULL : s->batch.rope[table] + (size_t)j->batch_at * rotated;
  clip_head(p, x, stride, c->qkv_clip);
  /* Two steps for each head: its norm and its rotation, or the other way round. */
  for (uint32_t i = 0; i < 2 * j->tokens; i++) {
    float *head = x + i / 2 * stride;
    if (i % 2 == (c->qk_norm == BQ_QK_ROTATED)) {
      if (m)
        bq_apply_norm(s, head, bq_norm_weight(m) + norm_at, m->b ? m->b + norm_at : NULL, dim,
                      head);
    } else if (cs)
      s->model->kernels->rope(head, cs + (size_t)(i / 2) * rotated, rotated,
                              c->rope_pairs == BQ_ROPE_ADJACENT);
  }
}

/* The cache slot of a segment's first token in this layer. */
static uint32_t first_slot(const bq_layer_run *p, const bq_segment *g) {
  const uint32_t evicted = p->w->kind->window ? 0 : g->s->kv.evicted;
  bq_assert(g->position >= evicted);
  return g->position - evicted;
}

/* Prepares head i: query heads are counted first, then KV heads, which are also stored. */
static void store_head(const bq_layer_run *p, const bq_layer_step *step, size_t i) {
  const bq_micro_batch *j = p->j;
  const bq_session *s = p->s;
  const bq_config *c = &s->model->config;
  const uint32_t *cols = p->w->kind->cols;
  const size_t dim = p->w->kind->head_dim;
  if (i < c->heads) {
    float *q = j->buffer[BQ_BUFFER_Q] + i * dim;
    for (uint32_t t = 0; c->attn_gate == BQ_ATTN_GATE_DIMS && t < j->tokens; t++)
      memcpy(q + t * cols[BQ_BUFFER_Q],
             j->buffer[BQ_BUFFER_GATED_Q] + t * cols[BQ_BUFFER_GATED_Q] + 2 * i * dim,
             dim * sizeof *q);
    prepare_head(p, step, 0, (uint32_t)i, q, cols[BQ_BUFFER_Q]);
    bq_hadamard_heads(p, q, cols[BQ_BUFFER_Q], j->tokens, false);
    return;
  }
  const uint32_t h = (uint32_t)(i - c->heads);
  const size_t at = h * dim, stride = cols[BQ_BUFFER_K];
  float *k = j->buffer[BQ_BUFFER_K] + at, *v = j->buffer[BQ_BUFFER_V] + at;
  for (uint32_t t = 0; p->w->kind->keys_as_values && t < j->tokens; t++)
    memcpy(v + t * stride, k + t * stride, dim * sizeof *v);
  prepare_head(p, step, 1, h, k, stride);
  clip_head(p, v, stride, c->qkv_clip);
  for (uint32_t t = 0; c->value_norm && t < j->tokens; t++)
    bq_apply_norm(s, v + t * stride, NULL, NULL, dim, v + t * stride);
  for (bq_segment g = {0}; g.at < j->tokens; g.at += g.tokens) {
    g = segment_at(j, g.at);
    bq_assert(g.tokens > 0);
    float *key = k + g.at * stride, *value = v + g.at * stride;
    const bq_kv_view kv = bq_cache_view(&g.s->kv, p->layer, h);
    bq_sinks_store(p, &g, h, key, value, stride);
    bq_hadamard_heads(p, key, stride, g.tokens, true);
    s->model->kernels->kv_store[s->options.kv_type](&kv, first_slot(p, &g), g.tokens, key, value,
                                                    stride);
  }
}

bq_stage bq_store_kv(const bq_layer_run *p, const bq_layer_step *step, size_t thread,
                     size_t threads) {
  const bq_layer_kind *kind = p->w->kind;
  const size_t total = (size_t)p->s->model->config.heads + (kind->stores ? kind->kv_heads : 0);
  for (bq_share share = bq_share_of(p->s, thread, threads, total, 1); bq_share_next(&share);)
    for (size_t i = share.from; i < share.to; i++) store_head(p, step, i);
  return BQ_STAGE_KV;
}

/* --- attending -------------------------------------------------------------------------------- */

/* Sets up the accumulation of attention by the kernel, if eviction is by attention. */
static void count_attention(const bq_layer_run *p, const bq_segment *g, size_t thread,
                            bq_attend_job *attend) {
  const bq_session *s = p->s;
  const uint32_t groups = bq_eviction_groups(&s->options);
  if (!groups || p->w->kind->window || s->sequence.n_texts) return;
  attend->attention_sums =
      g->s->eviction.by_query + (thread * BQ_KV_BLOCK + g->position % BQ_KV_BLOCK) * groups;
  attend->attention_sums_stride = groups;
}

/* First position in the window of the session's options, for a layer that has no window in the
 * model; 0: all positions are visible. */
static uint32_t window_begin(const bq_session *s, const bq_layer_kind *kind, uint32_t position) {
  return kind->window ? 0 : bq_window_start(bq_sliding_window(&s->options), position);
}

/* The attention job of the query heads of KV head `h` for all tokens of a segment. The caller sets
 * row0 and row1. */
static bq_attend_job job_of(const bq_layer_run *p, const bq_segment *g, uint32_t h,
                            size_t thread) {
  const bq_session *s = p->s;
  const bq_config *c = &s->model->config;
  const bq_layer_kind *kind = p->w->kind;
  const size_t dim = kind->head_dim, group = c->heads / kind->kv_heads;
  const size_t stride = kind->cols[BQ_BUFFER_Q], at = g->at * stride + h * group * dim;
  const uint32_t visible_from = window_begin(s, kind, g->position);
  bq_attend_job attend = {
      .kv = bq_cache_view(&g->s->kv, p->w->kv, h),
      .q = p->j->buffer[BQ_BUFFER_Q] + at,
      .y = p->j->buffer[BQ_BUFFER_MIX] + at,
      .stride = stride,
      .heads = group,
      .position = first_slot(p, g),
      .first = visible_from ? visible_from : g->first,
      .scale = c->attn_scale > 0 ? c->attn_scale : 1.0f / bq_sqrtf((float)dim),
      .window = kind->window,
      .full = c->bidirectional ? g->position + g->tokens : 0,
      .softcap = c->attn_softcap,
      .slopes = s->model->slopes ? s->model->slopes + h * group : NULL,
      .sinks = c->attn_sinks ? bq_norm_weight(&p->w->module[BQ_ATTN_SINKS]) + h * group : NULL,
      .biases = s->model->biases ? s->model->biases + h * group : NULL,
      .bias_stride = c->heads,
      .bias_buckets = s->model->bias_bucket,
      .scratch = s->scratch.attend + thread * s->scratch.attend_bytes};
  if (visible_from && s->options.sinks) bq_sinks_attend(p, g, h, visible_from, &attend);
  count_attention(p, g, thread, &attend);
  return attend;
}

/* Computes attention for rows [from, to) of a segment. Rows are (token, query head) pairs, ordered
 * by KV head, then token, so that rows with the same keys and values follow each other. */
static void attend_segment(const bq_layer_run *p, const bq_segment *g, size_t from, size_t to,
                           size_t thread) {
  const bq_session *s = p->s;
  const bq_layer_kind *kind = p->w->kind;
  const size_t rows = s->model->config.heads / kind->kv_heads * g->tokens;
  for (uint32_t h = 0; h < kind->kv_heads; h++) {
    const size_t first = h * rows;
    if (to <= first || from >= first + rows) continue;
    bq_attend_job attend = job_of(p, g, h, thread);
    attend.row0 = from > first ? from - first : 0;
    attend.row1 = to - first < rows ? to - first : rows;
    s->model->kernels->attend[s->options.kv_type](&attend);
  }
}

/* Computes attention for rows [from, to) of the micro-batch, segment by segment. */
static void attend_rows(const bq_layer_run *p, size_t from, size_t to, size_t thread) {
  const bq_micro_batch *j = p->j;
  const size_t heads = p->s->model->config.heads;
  for (bq_segment g = {0}; g.at < j->tokens; g.at += g.tokens) {
    g = segment_at(j, g.at);
    const size_t first = g.at * heads, end = first + g.tokens * heads;
    if (from < end && to > first)
      attend_segment(p, &g, from > first ? from - first : 0, (to < end ? to : end) - first,
                     thread);
  }
}

/* --- one token, shared by threads ------------------------------------------------------------- */

enum {
  SHARED_POSITIONS = 512, /* for fewer positions the two additional barriers cost more */
  SHARED_BLOCKS = 4       /* blocks of scores that a thread claims at once, at least */
};

bool bq_threads_share_attention(const bq_micro_batch *j, const bq_layer_kind *kind,
                                size_t threads) {
  const size_t heads = j->s->model->config.heads, rounds = (heads + threads - 1) / threads;
  const size_t slots = rounds * threads; /* heads that threads could compute meanwhile */
  if (!j->s->scratch.attend_shared_bytes || 4 * slots < 5 * heads) return false;
  const bq_segment g = segment_at(j, 0);
  const uint32_t visible_from = window_begin(j->s, kind, g.position);
  if (visible_from && j->s->options.sinks) return false;
  const uint32_t evicted = kind->window ? 0 : g.s->kv.evicted;
  const uint32_t n = g.position + 1 - evicted - (visible_from ? visible_from : g.first);
  return (kind->window ? bq_min32(n, kind->window) : n) >= SHARED_POSITIONS;
}

/* Number of units of a pass for rows that are computed together; for WEIGHTS, for each row. */
static size_t units_of(const bq_layer_run *p, bq_attend_pass pass) {
  if (pass == BQ_ATTEND_WEIGHTS) return 1;
  if (pass == BQ_ATTEND_VALUES) return bq_kv_dims(p->w->kind->head_dim) / 8;
  const bq_segment g = segment_at(p->j, 0);
  const bq_attend_job job = job_of(p, &g, 0, 0);
  return bq_kv_up(bq_row_end(&job, 0) - bq_row_base(&job, 0), BQ_KV_SCALED);
}

/* Computes the units [from, to) of a pass. They are counted over KV heads and, in each, over groups
 * of BQ_ATTEND_ROWS query heads, which are computed together. */
static void attend_units(const bq_layer_run *p, bq_attend_pass pass, size_t units, size_t from,
                         size_t to, size_t thread) {
  const bq_session *s = p->s;
  const bq_layer_kind *kind = p->w->kind;
  const bq_segment g = segment_at(p->j, 0);
  const size_t group = s->model->config.heads / kind->kv_heads;
  size_t first = 0;
  for (uint32_t h = 0; h < kind->kv_heads && first < to; h++)
    for (size_t row = 0, n; row < group && first < to; row += BQ_ATTEND_ROWS, first += n) {
      const size_t end = row + BQ_ATTEND_ROWS < group ? row + BQ_ATTEND_ROWS : group;
      n = pass == BQ_ATTEND_WEIGHTS ? end - row : units;
      if (first + n <= from) continue;
      bq_attend_job attend = job_of(p, &g, h, thread);
      attend.row0 = row;
      attend.row1 = end;
      const bq_attend_part part = {
          .pass = pass,
          .from = from > first ? from - first : 0,
          .to = to - first < n ? to - first : n,
          .shared = s->scratch.attend_shared + (h * group + row) * s->scratch.attend_shared_bytes};
      attend.part = &part;
      s->model->kernels->attend[BQ_KV_I8](&attend);
    }
}

bq_stage bq_attend(const bq_layer_run *p, bq_attend_pass pass, size_t thread, size_t threads) {
  const bq_session *s = p->s;
  if (BQ_HAS_THREADS && pass) {
    const size_t kv_heads = p->w->kind->kv_heads, heads = s->model->config.heads;
    const size_t calls = kv_heads * bq_kv_up(heads / kv_heads, BQ_ATTEND_ROWS);
    const size_t units = units_of(p, pass);
    const size_t total = pass == BQ_ATTEND_WEIGHTS ? heads : calls * units;
    const size_t grain = pass == BQ_ATTEND_SCORES ? SHARED_BLOCKS : 1;
    for (bq_share share = bq_share_of(s, thread, threads, total, grain); bq_share_next(&share);)
      attend_units(p, pass, units, share.from, share.to, thread);
    return BQ_STAGE_ATTEND;
  }
  const size_t total = (size_t)s->model->config.heads * p->j->tokens;
  /* With one token each thread gets its complete share at once, so that queries with the same keys
   * are computed together. */
  const size_t grain = p->j->tokens == 1 ? (total + threads - 1) / threads : 1;
  for (bq_share share = bq_share_of(s, thread, threads, total, grain); bq_share_next(&share);)
    attend_rows(p, share.from, share.to, thread);
  return BQ_STAGE_ATTEND;
}
