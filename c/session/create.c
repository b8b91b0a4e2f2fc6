#include "session/create.h"

#include <string.h>

#include "core/minmax.h"
#include "session/adapter.h"
#include "session/batch.h"
#include "session/evict.h"
#include "session/experts.h"
#include "session/matmul.h"
#include "session/sequence.h"
#include "session/sinks.h"

/* Maximum number of positions in the scratch of one attention call, over layers with and without a
 * sliding window in the model. */
static uint64_t max_attended(const bq_config *c, const bq_session_options *o) {
  const uint64_t own = c->window ? (uint64_t)c->window + o->prefill_window + 2 * BQ_KV_BLOCK : 0;
  const uint64_t others = o->kv_window ? bq_window_span(o->kv_window) : o->context;
  return bq_max64(others, bq_min64(own, o->context));
}

/* Lays out all memory of a session except its KV pool, in the same order for planning and for
 * creation. */
static bq_session *lay_out_session(bq_arena *arena, const bq_config *c, const bq_kernels *kernels,
                                   const bq_session_options *o) {
  bq_session session = {0}, *s = &session, *placed = bq_arena_take(arena, 1, sizeof *placed);
  const uint64_t threads = o->parallel.threads, rows = threads > o->batch ? threads : o->batch;
  uint64_t widest = 0;
  for (uint32_t i = 0; i < BQ_BUFFERS; i++) {
    const uint32_t cols = bq_buffer_cols(c, (bq_buffer)i);
    /* This buffer is not an input of a matmul. */
    if (cols > widest && i != BQ_BUFFER_LAYER_EMBEDS) widest = cols;
  }
  if (widest > SIZE_MAX / 8) arena->overflow = true;

  s->sequence.tokens = bq_arena_take(arena, o->context, sizeof *s->sequence.tokens);
  s->batch.members = bq_arena_take(arena, o->prefill_window, sizeof *s->batch.members);
  s->sequence.texts = bq_arena_take(arena, bq_max_texts(o) + 1, sizeof *s->sequence.texts);
  s->batch.x = bq_arena_take(arena, (uint64_t)o->prefill_window * c->hidden, sizeof(float));
  if (c->layer_embed) {
    s->batch.start = bq_arena_take(arena, (uint64_t)o->prefill_window * c->hidden, sizeof(float));
    s->batch.layer_embeds = bq_arena_take(
        arena, (uint64_t)o->prefill_window * bq_buffer_cols(c, BQ_BUFFER_LAYER_EMBEDS),
        sizeof(float));
  }
  for (uint32_t i = 0; i < bq_rope_tables(c); i++) {
    const uint64_t floats = (uint64_t)o->prefill_window * bq_config_rope_dim(c, i);
    s->batch.rope[i] = bq_arena_take(arena, floats, sizeof(float));
    if (bq_moved_sinks(o)) s->sink_cache.rope[i] = bq_arena_take(arena, floats, sizeof(float));
  }
  s->kv = bq_cache_lay_out(arena, c, o);
  s->recurrence = bq_recurrence_lay_out(arena, c, o->context);
  s->sink_cache.kv =
      bq_arena_take(arena,
                    (uint64_t)c->layers * bq_config_max_kv_heads(c) * 2 * bq_moved_sinks(o) *
                        bq_config_max_head_dim(c),
                    sizeof(float));
  const uint64_t parts = bq_eviction_groups(o);
  s->eviction.totals = bq_arena_take(arena, parts, sizeof *s->eviction.totals);
  s->eviction.by_query =
      bq_arena_take(arena, threads * BQ_KV_BLOCK * parts, sizeof *s->eviction.by_query);
  s->eviction.kept = bq_arena_take(arena, parts, sizeof *s->eviction.kept);
  s->outputs.cols = o->hidden ? c->hidden : c->vocab;
  s->outputs.rows = bq_arena_take(arena, (uint64_t)o->rows * s->outputs.cols, sizeof(float));
  s->outputs.pooled = bq_arena_take(arena, c->hidden, sizeof(float));
  if (bq_config_dense_layers(c)) {
    s->outputs.inner = bq_arena_take(arena, c->dense1, sizeof(float));
    s->outputs.dense_out = bq_arena_take(
        arena, (uint64_t)bq_max_texts(o) * bq_config_vector_cols(c), sizeof(float));
    if (c->dense1 > widest) widest = c->dense1;
  }
  s->outputs.candidates =
      bq_arena_take(arena, o->hidden ? 0 : c->vocab, sizeof *s->outputs.candidates);

  bq_scratch *w = &s->scratch;
  w->norm = bq_arena_take(arena, rows * bq_config_max_normed_cols(c), sizeof(float));
  w->panel_bytes =
      (kernels->panel_bytes((size_t)widest, bq_panel_rows(o)) + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN;
  /* The size of a panel of many tokens is computed in 64 bits, where it can't overflow. */
  const uint64_t panel_rows = o->batch * (uint64_t)bq_panel_rows(o);
  const uint64_t groups = (panel_rows + BQ_PANEL_TOKENS - 1) / BQ_PANEL_TOKENS;
  const uint64_t group = kernels->panel_bytes((size_t)widest, BQ_PANEL_TOKENS);
  const uint64_t shared = groups * group, own = threads * w->panel_bytes;
  w->panel = bq_arena_take(arena, shared > own ? shared : own, 1);
  const uint64_t product = bq_matmul_scratch(o, widest);
  w->matmul_floats = (size_t)product;
  w->matmul = bq_arena_take(arena, threads * product, sizeof *w->matmul);
  for (uint32_t i = BQ_BUFFER_LAYER_EMBEDS + 1; i < BQ_BUFFERS; i++)
    w->buffer[i] = bq_arena_take(arena,
                                 o->batch * (uint64_t)bq_buffer_rows(c, (bq_buffer)i) *
                                     bq_buffer_cols(c, (bq_buffer)i),
                                 sizeof(float));
  if (c->experts) w->routes = bq_expert_routing_lay_out(arena, c, kernels, o->batch);
  bq_arena measured = {0};
  bq_sink_block_lay_out(&measured, &s->kv, o);
  const uint64_t attend =
      measured.used + bq_attend_scratch(o->kv_type, max_attended(c, o), bq_config_max_head_dim(c));
  w->attend_bytes = (size_t)(attend + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN;
  w->attend = bq_arena_take(arena, threads, attend > SIZE_MAX / 2 ? UINT64_MAX : w->attend_bytes);
  if (BQ_HAS_THREADS && threads > 1 && o->kv_type == BQ_KV_I8)
    w->attend_shared_bytes = (size_t)bq_attend_shared(max_attended(c, o));
  w->attend_shared = bq_arena_take(arena, c->heads, w->attend_shared_bytes);

  if (placed) *placed = session;
  return placed;
}

/* Bytes of a session without its KV pool; UINT64_MAX: more than the machine can address. */
static uint64_t own_bytes(const bq_config *c, const bq_kernels *kernels,
                          const bq_session_options *o) {
  bq_arena arena = {0};
  lay_out_session(&arena, c, kernels, o);
  return arena.overflow ? UINT64_MAX : arena.used;
}

uint64_t bq_session_memory(const bq_config *config, const bq_kernels *kernels,
                           const bq_session_options *options, uint64_t *kv_bytes) {
  bq_session_options o;
  if (bq_session_options_resolve(config, options, &o, NULL) != BQ_OK) return UINT64_MAX;
  const uint64_t own = own_bytes(config, kernels, &o), pool = bq_kv_pool_bytes(config, &o);
  const uint64_t sessions = (uint64_t)o.forks + 1, limit = SIZE_MAX - 2 * BQ_ALIGN;
  if (kv_bytes) *kv_bytes = bq_cache_bytes(config, &o);
  if (pool > limit || own > limit) return UINT64_MAX;
  return sessions * bq_heap_cost((size_t)own) + bq_heap_cost((size_t)pool);
}

/* Creates a session without tokens and without a KV pool. */
static bq_status create(const bq_model *model, const bq_session_options *o, bq_allocator allocator,
                        bq_session **out, bq_error *err) {
  const uint64_t bytes = own_bytes(&model->config, model->kernels, o);
  void *memory = bytes <= SIZE_MAX ? allocator.alloc(allocator.ctx, (size_t)bytes) : NULL;
  if (!memory)
    return bq_fail(err, BQ_NO_SESSION, BQ_NO_OFFSET,
                   "a session of context %u needs %l bytes: the plan has no room for another one; "
                   "raise `sessions` or `forks`, or close one",
                   o->context, bytes);
  bq_arena arena = {memory, (size_t)bytes, 0, false};
  bq_session *s = lay_out_session(&arena, &model->config, model->kernels, o);
  s->model = model;
  s->allocator = allocator;
  s->options = *o;
  bq_recurrence_clear(&s->recurrence);
  /* Layers without keys and values of their own never write their sinks, which are saved as
   * well. */
  memset(s->sink_cache.kv, 0, bq_sinks_floats(s) * sizeof *s->sink_cache.kv);
  *out = s;
  return BQ_OK;
}

bq_status bq_session_create(const bq_model *model, const bq_session_options *options,
                            bq_allocator allocator, bq_session **out, bq_error *err) {
  bq_session_options o;
  bq_session *s;
  bq_kv_pool *pool;
  bq_status status = bq_session_options_resolve(&model->config, options, &o, err);
  if (model->pages) o.spread = 0;
  if (!status) status = create(model, &o, allocator, &s, err);
  if (status) return status;
  status = bq_kv_pool_create(&model->config, &o, allocator, &pool, err);
  if (status) {
    allocator.free(allocator.ctx, s);
    return status;
  }
  bq_cache_join(&s->kv, pool);
  bq_eviction_reset(s);
  *out = s;
  return BQ_OK;
}

/* Copies the accumulated attention of the positions that a fork shares. */
static void copy_attention(bq_session *s, const bq_session *from) {
  const size_t parts = bq_eviction_groups(&s->options);
  s->eviction.scored = from->eviction.scored;
  s->kv.evicted = from->kv.evicted;
  if (!parts) return;
  memcpy(s->eviction.totals, from->eviction.totals, parts * sizeof *s->eviction.totals);
  memcpy(s->eviction.by_query, from->eviction.by_query,
         BQ_KV_BLOCK * parts * sizeof *s->eviction.by_query);
}

bq_status bq_session_fork(const bq_session *from, bq_session **out, bq_error *err) {
  bq_session *s;
  bq_session_options o = from->options;
  o.trace = (bq_trace){0};
  bq_status status = create(from->model, &o, from->allocator, &s, err);
  if (status) return status;
  bq_cache_join(&s->kv, from->kv.pool);
  status = bq_session_set_adapter(s, from->lora.matrices, from->key, err);
  if (status) {
    bq_session_free(s);
    return status;
  }
  bq_cache_share(&s->kv, &from->kv);
  copy_attention(s, from);
  bq_recurrence_copy(&s->recurrence, &from->recurrence);
  s->sequence.computed = bq_recurrence_floor(&s->recurrence, bq_sequence_complete(from));
  bq_cache_truncate(&s->kv, s->sequence.computed);
  bq_recurrence_truncate(&s->recurrence, s->sequence.computed);
  memcpy(s->sink_cache.kv, from->sink_cache.kv, bq_sinks_floats(s) * sizeof *s->sink_cache.kv);
  s->skipped = from->skipped;
  s->outputs.approximate = from->outputs.approximate;
  s->sequence.n_tokens = from->sequence.n_tokens;
  s->outputs.from = from->outputs.from;
  s->outputs.ready = from->outputs.ready && !from->sequence.n_texts &&
                     s->sequence.computed == s->sequence.n_tokens;
  s->outputs.pooling = from->outputs.pooling;
  s->outputs.normalize = from->outputs.normalize;
  s->outputs.dense = from->outputs.dense;
  s->sequence.second = from->sequence.second;
  memcpy(s->sequence.tokens, from->sequence.tokens,
         from->sequence.n_tokens * sizeof *s->sequence.tokens);
  memcpy(s->outputs.rows, from->outputs.rows,
         (size_t)o.rows * s->outputs.cols * sizeof *s->outputs.rows);
  memcpy(s->outputs.pooled, from->outputs.pooled,
         s->model->config.hidden * sizeof *s->outputs.pooled);
  if (s->outputs.dense_out)
    memcpy(s->outputs.dense_out, from->outputs.dense_out,
           bq_config_vector_cols(&s->model->config) * sizeof *s->outputs.dense_out);
  *out = s;
  return BQ_OK;
}

void bq_session_free(bq_session *s) {
  if (!s) return;
  bq_batch_drop(s);
  bq_cache_leave(&s->kv);
  s->allocator.free(s->allocator.ctx, s->lora.down);
  s->allocator.free(s->allocator.ctx, s);
}
