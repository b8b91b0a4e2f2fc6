#include "session/sinks.h"

#include <string.h>

#include "core/minmax.h"
#include "session/hadamard.h"

/* The sinks of one head in one layer: [2][sinks][head_dim]. */
static float *sinks_at(const bq_session *s, uint32_t layer, uint32_t head) {
  const uint32_t heads = bq_config_max_kv_heads(&s->model->config);
  return s->sink_cache.kv + ((size_t)layer * heads + head) * bq_sink_floats(s);
}

bq_sink_block bq_sink_block_lay_out(bq_arena *arena, const bq_kv_cache *kv,
                                    const bq_session_options *o) {
  const uint64_t dim = bq_config_max_head_dim(kv->config);
  if (!bq_moved_sinks(o)) return (bq_sink_block){0};
  bq_sink_block area = {0};
  area.table = bq_arena_take(arena, bq_window_span(o->kv_window) / BQ_KV_BLOCK,
                             sizeof *area.table);
  area.block = bq_arena_take(arena, bq_max64(kv->head_bytes[0], kv->head_bytes[1]), 1);
  area.keys = bq_arena_take(arena, o->sinks * dim, sizeof *area.keys);
  return area;
}

void bq_sinks_store(const bq_layer_run *p, const bq_segment *g, uint32_t head, const float *k,
                    const float *v, size_t stride) {
  const size_t dim = p->w->kind->head_dim, n = bq_moved_sinks(&g->s->options);
  float *keys = sinks_at(g->s, p->layer, head), *values = keys + n * dim;
  for (size_t t = 0; t < g->tokens && g->position + t < n; t++) {
    memcpy(keys + (g->position + t) * dim, k + t * stride, dim * sizeof *k);
    memcpy(values + (g->position + t) * dim, v + t * stride, dim * sizeof *v);
  }
}

void bq_sinks_attend(const bq_layer_run *p, const bq_segment *g, uint32_t head, uint32_t from,
                     bq_attend_job *attend) {
  const bq_session *s = p->s;
  const bq_config *c = &s->model->config;
  const uint32_t n = s->options.sinks, end = g->position + g->tokens;
  const size_t dim = p->w->kind->head_dim, rotated = p->w->kind->rope_dim;
  const size_t first = BQ_KV_BLOCK - n;
  bq_arena arena = {attend->scratch, s->scratch.attend_bytes, 0, false};
  const bq_sink_block area = bq_sink_block_lay_out(&arena, &s->kv, &s->options);
  const float *keys = sinks_at(g->s, p->w->kv, head);
  const uint32_t table = p->w->kind->rope;
  memcpy(area.keys, keys, n * dim * sizeof *keys);
  for (uint32_t i = 0; i < n && table != BQ_NO_ROPE; i++)
    s->model->kernels->rope(
        area.keys + i * dim,
        s->sink_cache.rope[table] + (p->j->batch_at + g->at) * rotated, rotated,
        c->rope_pairs == BQ_ROPE_ADJACENT);
  bq_hadamard_heads(p, area.keys, dim, n, true);
  area.table[0] = area.block;
  bq_assert(end - from + BQ_KV_BLOCK <= bq_window_span(s->options.kv_window));
  for (uint32_t at = from, i = 1; at < end; at += BQ_KV_BLOCK, i++)
    area.table[i] = attend->kv.blocks[at / BQ_KV_BLOCK] + attend->kv.offset;
  attend->kv = (bq_kv_view){area.table, 0, dim};
  s->model->kernels->kv_store[s->options.kv_type](&attend->kv, first, n, area.keys,
                                                  keys + n * dim, dim);
  attend->position -= from - BQ_KV_BLOCK;
  attend->first = first;
  attend->scratch = (uint8_t *)attend->scratch + arena.used;
}
