#include "session/session.h"

#include <float.h>
#include <string.h>

#include "core/minmax.h"
#include "model/ready.h"

/* What is seen, and how far. */
static bq_status check_window(const bq_config *config, bq_session_options *o, bq_error *err) {
  const bool moves = o->kv_window && !o->evict && config->position != BQ_POSITION_LEARNED;
  const uint64_t far = moves ? (uint64_t)o->kv_window + BQ_KV_BLOCK + o->sinks : o->context;
  if (o->kv_window && config->bidirectional)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "an encoder sees its text as a whole: no KV window");
  if (o->sinks > BQ_SINKS_MAX || (o->sinks && !o->kv_window))
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "%u sinks with a KV window of %u: at most %u", o->sinks, o->kv_window,
                   o->kv_window ? (uint32_t)BQ_SINKS_MAX : 0);
  if ((unsigned)o->evict >= BQ_EVICT_COUNT)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "unknown way to evict %u", (uint32_t)o->evict);
  if (o->evict && (!o->kv_window || o->kv_window % BQ_KV_BLOCK))
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "a KV window of %u: to evict by attention it is to be a multiple of %u",
                   o->kv_window, BQ_KV_BLOCK);
  if (o->context > config->context && (far > config->context || o->context > BQ_CONTEXT_MAX))
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "context %u is larger than the model's own, %u, and than a KV window of %u lets "
                   "it be",
                   o->context, config->context, o->kv_window);
  if (o->kv_window < o->context) return BQ_OK;
  o->kv_window = o->sinks = 0; /* of everything */
  o->evict = BQ_EVICT_OLDEST;
  return BQ_OK;
}

bq_status bq_session_options_resolve(const bq_config *config, const bq_session_options *in,
                                     bq_session_options *out, bq_error *err) {
  bq_session_options o = in ? *in : (bq_session_options){0};
  if (o.context == 0) o.context = config->context;
  bq_status status = check_window(config, &o, err);
  if (status) return status;
  if ((unsigned)o.kv_type >= BQ_KV_COUNT)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "unknown KV cache type %u",
                   (uint32_t)o.kv_type);
  if ((unsigned)o.activations >= BQ_ACTIVATIONS_COUNT)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "unknown type of activations %u",
                   (uint32_t)o.activations);
  o.window = bq_min32(o.window ? o.window : 256, o.kv_window ? o.kv_window : o.context);
  o.batch = bq_min32(o.batch ? o.batch : 32, o.window);
  /* Where tokens see those after them, all of a layer's keys are needed before its attention. */
  if (config->bidirectional) o.window = o.batch = o.context;
  o.hidden = o.hidden || config->no_head;
  if (!(o.head >= 0 && o.head < 1))
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "a share of the head is from 0 (all of it) to less than 1");
  if (o.hidden) o.head = 0;
  o.rows = bq_min32(o.rows ? o.rows : 1, o.context);
  o.fork_positions = bq_min32(o.fork_positions ? o.fork_positions : o.context, o.context);
  if (o.forks > BQ_FORKS_MAX)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "%u forks are more than %u", o.forks,
                   (uint32_t)BQ_FORKS_MAX);
  if (!o.parallel.run || o.parallel.threads == 0) o.parallel = (bq_parallel){.threads = 1};
  if (o.parallel.threads > 1) o.spread = 0;
  *out = o;
  return BQ_OK;
}

bq_sight bq_sight_lay_out(bq_arena *arena, const bq_kv_cache *kv, const bq_session_options *o) {
  const uint64_t dim = kv->config->head_dim;
  if (!bq_moved_sinks(o)) return (bq_sight){0};
  bq_sight sight = {0};
  sight.table = bq_arena_take(arena, bq_kv_window_most(o->kv_window) / BQ_KV_BLOCK,
                              sizeof *sight.table);
  sight.block = bq_arena_take(arena, kv->head_bytes, 1);
  sight.keys = bq_arena_take(arena, o->sinks * dim, sizeof *sight.keys);
  return sight;
}

/* Positions that a run of attention has in its scratch at most: of layers with a window of their
 * own, and of others. */
static uint64_t attended(const bq_config *c, const bq_session_options *o) {
  const uint64_t own = c->window ? (uint64_t)c->window + o->window + 2 * BQ_KV_BLOCK : 0;
  const uint64_t others = o->kv_window ? bq_kv_window_most(o->kv_window) : o->context;
  return bq_max64(others, bq_min64(own, o->context));
}

/* Hands out everything a session owns, in one order for planning and for creation. */
static bq_session *lay_out(bq_arena *arena, const bq_config *c, const bq_kernels *kernels,
                           const bq_session_options *o) {
  bq_session session = {0}, *s = &session, *home = bq_arena_take(arena, 1, sizeof *home);
  const uint64_t threads = o->parallel.threads, rows = threads > o->batch ? threads : o->batch;
  uint64_t widest = 0;
  for (uint32_t i = 0; i < BQ_BUFFERS; i++) {
    const uint32_t cols = bq_buffer_cols(c, (bq_buffer)i);
    if (cols > widest) widest = cols;
  }
  if (widest > SIZE_MAX / 8) arena->overflow = true;

  s->tokens = bq_arena_take(arena, o->context, sizeof *s->tokens);
  s->members = bq_arena_take(arena, o->window, sizeof *s->members);
  s->texts = bq_arena_take(arena, bq_texts_most(o) + 1, sizeof *s->texts);
  s->x = bq_arena_take(arena, (uint64_t)o->window * c->hidden, sizeof(float));
  for (uint32_t i = 0; i < bq_rope_tables(c); i++) {
    s->rope[i] = bq_arena_take(arena, (uint64_t)o->window * c->rope_dim, sizeof(float));
    if (bq_moved_sinks(o))
      s->sink_rope[i] = bq_arena_take(arena, (uint64_t)o->window * c->rope_dim, sizeof(float));
  }
  s->kv = bq_cache_lay_out(arena, c, o);
  s->recurrence = bq_recurrence_lay_out(arena, c, o->context);
  s->sinks = bq_arena_take(arena, (uint64_t)c->layers * c->kv_heads * 2 * bq_moved_sinks(o) *
                                      c->head_dim, sizeof(float));
  const uint64_t parts = bq_evict_parts(o);
  s->attended = bq_arena_take(arena, parts, sizeof *s->attended);
  s->attention_sums = bq_arena_take(arena, threads * BQ_KV_BLOCK * parts, sizeof *s->attention_sums);
  s->kept = bq_arena_take(arena, parts, sizeof *s->kept);
  s->result_cols = o->hidden ? c->hidden : c->vocab;
  s->results = bq_arena_take(arena, (uint64_t)o->rows * s->result_cols, sizeof(float));
  s->pooled = bq_arena_take(arena, c->hidden, sizeof(float));
  s->candidates = bq_arena_take(arena, o->hidden ? 0 : c->vocab, sizeof *s->candidates);

  bq_scratch *w = &s->scratch;
  w->norm = bq_arena_take(arena, rows * c->hidden, sizeof(float));
  w->panel_bytes =
      (kernels->panel_bytes((size_t)widest, bq_panel_rows(o)) + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN;
  /* What a panel of many tokens takes is counted here, where sums can't wrap. */
  const uint64_t panel_rows = o->batch * (uint64_t)bq_panel_rows(o);
  const uint64_t groups = (panel_rows + BQ_PANEL_TOKENS - 1) / BQ_PANEL_TOKENS;
  const uint64_t group = kernels->panel_bytes((size_t)widest, BQ_PANEL_TOKENS);
  const uint64_t shared = groups * group, own = threads * w->panel_bytes;
  w->panel = bq_arena_take(arena, shared > own ? shared : own, 1);
  const uint64_t product = bq_product_scratch(o, widest);
  w->product_floats = (size_t)product;
  w->product = bq_arena_take(arena, threads * product, sizeof *w->product);
  for (uint32_t i = BQ_BUFFER_X + 1; i < BQ_BUFFERS; i++)
    w->buffer[i] = bq_arena_take(arena,
                                 o->batch * (uint64_t)bq_buffer_rows(c, (bq_buffer)i) *
                                     bq_buffer_cols(c, (bq_buffer)i),
                                 sizeof(float));
  if (c->experts) w->routes = bq_routes_lay_out(arena, c, kernels, o->batch);
  bq_arena sight = {0};
  bq_sight_lay_out(&sight, &s->kv, o);
  const uint64_t attend =
      sight.used + bq_attend_scratch(o->kv_type, attended(c, o), c->head_dim);
  w->attend_bytes = (size_t)(attend + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN;
  w->attend = bq_arena_take(arena, threads, attend > SIZE_MAX / 2 ? UINT64_MAX : w->attend_bytes);

  if (home) *home = session;
  return home;
}

/* Of a session without the blocks of its cache; UINT64_MAX: more than can be addressed. */
static uint64_t own_bytes(const bq_config *c, const bq_kernels *kernels,
                          const bq_session_options *o) {
  bq_arena arena = {0};
  lay_out(&arena, c, kernels, o);
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

/* One without tokens and without a cache. */
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
  bq_session *s = lay_out(&arena, &model->config, model->kernels, o);
  s->model = model;
  s->allocator = allocator;
  s->options = *o;
  bq_recurrence_clear(&s->recurrence);
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
  bq_evict_reset(s);
  *out = s;
  return BQ_OK;
}

/* What the positions that a fork shares were attended to. */
static void copy_attention(bq_session *s, const bq_session *from) {
  const size_t parts = bq_evict_parts(&s->options);
  s->scored = from->scored;
  s->kv.gone = from->kv.gone;
  if (!parts) return;
  memcpy(s->attended, from->attended, parts * sizeof *s->attended);
  memcpy(s->attention_sums, from->attention_sums, BQ_KV_BLOCK * parts * sizeof *s->attention_sums);
}

bq_status bq_session_fork(const bq_session *from, bq_session **out, bq_error *err) {
  bq_session *s;
  bq_session_options o = from->options;
  o.trace = (bq_trace){0};
  bq_status status = create(from->model, &o, from->allocator, &s, err);
  if (status) return status;
  bq_cache_join(&s->kv, from->kv.pool);
  status = bq_session_set_adapter(s, from->adapter, from->key, err);
  if (status) {
    bq_session_free(s);
    return status;
  }
  bq_cache_share(&s->kv, &from->kv);
  copy_attention(s, from);
  memcpy(s->sinks, from->sinks, bq_sinks_floats(s) * sizeof *s->sinks);
  s->skipped = from->skipped;
  s->clusters = from->clusters;
  s->n_tokens = from->n_tokens;
  bq_recurrence_copy(&s->recurrence, &from->recurrence);
  s->computed = bq_recurrence_floor(&s->recurrence, bq_session_complete(from));
  bq_cache_cut(&s->kv, s->computed);
  bq_recurrence_cut(&s->recurrence, s->computed);
  s->from = from->from;
  s->has_results = from->has_results && !from->n_texts && s->computed == s->n_tokens;
  s->pooling = from->pooling;
  s->normalize = from->normalize;
  memcpy(s->tokens, from->tokens, from->n_tokens * sizeof *s->tokens);
  memcpy(s->results, from->results, (size_t)o.rows * s->result_cols * sizeof *s->results);
  memcpy(s->pooled, from->pooled, s->model->config.hidden * sizeof *s->pooled);
  *out = s;
  return BQ_OK;
}

void bq_session_free(bq_session *s) {
  if (!s) return;
  bq_pass_drop(s);
  bq_cache_leave(&s->kv);
  s->allocator.free(s->allocator.ctx, s->low);
  s->allocator.free(s->allocator.ctx, s);
}

static bq_status check_tokens(const bq_session *s, const uint32_t *tokens, size_t n, size_t total,
                              bq_error *err) {
  if (total > s->options.context)
    return bq_fail(err, BQ_CONTEXT_FULL, BQ_NO_OFFSET,
                   "%l tokens do not fit in the context of %u", (uint64_t)total,
                   s->options.context);
  uint32_t vocab = s->model->config.vocab;
  for (size_t i = 0; i < n; i++)
    if (tokens[i] >= vocab)
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "token %u at position %l is outside the vocabulary of %u", tokens[i],
                     (uint64_t)(total - n + i), vocab);
  return BQ_OK;
}

/* The timeline's last token has a result to come, no other one. Where tokens see those after them,
 * nothing that was computed holds any longer. */
static void end_timeline(bq_session *s) {
  s->from = s->n_tokens - 1;
  s->head_unit = s->head_at = 0;
  s->has_results = false;
  s->pooling = BQ_POOL_NONE;
  s->restored = 0;
  bq_pass_part(s);
  if (s->n_texts) bq_pass_drop(s);
  s->n_texts = 0;
  if (s->model->config.bidirectional) bq_session_clear(s);
}

void bq_session_clear(bq_session *s) {
  bq_pass_drop(s);
  s->computed = 0;
  bq_recurrence_clear(&s->recurrence);
  bq_cache_cut(&s->kv, 0);
  bq_evict_reset(s);
}

/* From this position on everything will be computed again. */
static void compute_from(bq_session *s, uint32_t position) {
  if (s->model->config.bidirectional) position = 0;
  if (s->computed <= position) return;
  bq_pass_drop(s);
  position = bq_recurrence_floor(&s->recurrence, position);
  /* The blocks that this position sees may have been given back as a window moved on, and what is
   * evicted can't be brought back: then the timeline is computed from its start. */
  if (position < s->scored || !bq_cache_holds(&s->kv, position)) {
    bq_session_clear(s);
    return;
  }
  s->computed = position;
  bq_recurrence_cut(&s->recurrence, position);
  bq_cache_cut(&s->kv, position);
}

void bq_draft_forget(bq_session *s) {
  if (s->n_draft == 0) return;
  s->n_draft = 0;
  if (s->pass && s->win_start + s->win_len > s->n_tokens) bq_pass_drop(s);
  if (s->recurrence.floats) compute_from(s, s->n_tokens);
  s->computed = bq_session_complete(s);
}

/* What was computed no longer holds. */
static void forget(bq_session *s) {
  bq_draft_forget(s);
  s->has_results = false;
  s->restored = 0;
  bq_session_clear(s);
}

void bq_session_set_key(bq_session *s, uint64_t key) {
  if (key == s->key) return;
  forget(s);
  s->key = key;
}

bq_status bq_session_skip(bq_session *s, const uint32_t *layers, size_t n, bq_error *err) {
  bq_layer_set set = {0};
  for (size_t i = 0; i < n; i++) {
    if (layers[i] >= s->model->config.layers)
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "there is no layer %u to be left out, the model has %u", layers[i],
                     s->model->config.layers);
    set.bits[layers[i] / 32] |= 1u << layers[i] % 32;
  }
  if (memcmp(&set, &s->skipped, sizeof set) != 0) forget(s);
  s->skipped = set;
  return BQ_OK;
}

void bq_session_restart(bq_session *s) {
  if (s->n_tokens == 0) return;
  bq_draft_forget(s);
  end_timeline(s);
  compute_from(s, s->from);
}

bq_status bq_session_sync(bq_session *s, const uint32_t *tokens, size_t n, size_t *kept,
                          bq_error *err) {
  if (n == 0) return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "no tokens to sync to");
  bq_status status = check_tokens(s, tokens, n, n, err);
  if (status != BQ_OK) return status;

  bq_draft_forget(s);
  uint32_t same = 0, limit = bq_min32(s->n_tokens, (uint32_t)n);
  while (same < limit && s->tokens[same] == tokens[same]) same++;

  bool unchanged = same == n && n == s->n_tokens;
  memcpy(s->tokens + same, tokens + same, (n - same) * sizeof *tokens);
  s->n_tokens = (uint32_t)n;
  compute_from(s, same);
  /* A window under way survives only if the new timeline still holds all of it. */
  if (s->pass && same < s->win_start + s->win_len) bq_pass_drop(s);
  if (!unchanged) end_timeline(s);
  if (!s->has_results) compute_from(s, s->from);
  bq_cache_cut(&s->kv, s->pass ? s->win_start + s->win_len : s->computed);
  if (kept) *kept = s->computed;
  return BQ_OK;
}

bq_status bq_session_append(bq_session *s, uint32_t token, bq_error *err) {
  bq_status status = check_tokens(s, &token, 1, (size_t)s->n_tokens + 1, err);
  if (status != BQ_OK) return status;
  if (s->n_draft && s->has_results && s->tokens[s->n_tokens] == token) {
    s->n_tokens++;
    s->n_draft--;
    return BQ_OK;
  }
  bq_draft_forget(s);
  s->tokens[s->n_tokens++] = token;
  end_timeline(s);
  return BQ_OK;
}

/* Guesses that a run can give the logits of. They take no block of the cache that the timeline has
 * not taken, so that none is missing elsewhere. */
static uint32_t draft_room(const bq_session *s) {
  const uint32_t left = s->options.context - s->n_tokens;
  const uint32_t in_block = (BQ_KV_BLOCK - s->n_tokens % BQ_KV_BLOCK) % BQ_KV_BLOCK;
  if (bq_session_pending(s) == 0 || s->n_tokens - s->from != 1 || bq_results_hidden(s) ||
      s->model->config.bidirectional)
    return 0;
  return bq_min32(bq_min32(left, in_block), s->options.rows - 1);
}

bq_status bq_session_draft(bq_session *s, const uint32_t *tokens, size_t n, size_t *taken,
                           bq_error *err) {
  if (s->n_texts) return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "the session has no timeline");
  bq_draft_forget(s);
  const uint32_t room = s->n_tokens ? draft_room(s) : 0;
  if (n > room) n = room;
  bq_status status = check_tokens(s, tokens, n, s->n_tokens + n, err);
  if (status != BQ_OK) return status;
  memcpy(s->tokens + s->n_tokens, tokens, n * sizeof *tokens);
  s->n_draft = (uint32_t)n;
  if (n) bq_pass_part(s);
  *taken = n;
  return BQ_OK;
}

/* Results from this position on, or a vector of them. */
static void ask_for(bq_session *s, uint32_t from, bq_pooling pooling, bool normalize) {
  const bool same = s->from == from && s->pooling == pooling && s->normalize == normalize;
  if (s->has_results && same) return;
  s->from = from;
  s->pooling = pooling;
  s->normalize = normalize;
  s->head_unit = s->head_at = 0;
  s->has_results = false;
  bq_pass_part(s);
  compute_from(s, from);
}

bq_status bq_session_results(bq_session *s, uint32_t from, bq_error *err) {
  if (from >= s->n_tokens || s->n_tokens - from > s->options.rows)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "results from position %u on, of %u tokens: the session was made for 1 to %u",
                   from, s->n_tokens, s->options.rows);
  bq_draft_forget(s);
  ask_for(s, from, BQ_POOL_NONE, false);
  return BQ_OK;
}

bq_status bq_pooling_check(bq_pooling how, bq_error *err) {
  if (how == BQ_POOL_MEAN || how == BQ_POOL_CLS || how == BQ_POOL_LAST) return BQ_OK;
  return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "unknown pooling %u", (uint32_t)how);
}

bq_status bq_session_pool(bq_session *s, bq_pooling how, bool normalize, bq_error *err) {
  bq_status status = bq_pooling_check(how, err);
  if (status) return status;
  if (s->n_tokens == 0)
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "the session has no tokens to pool");
  bq_draft_forget(s);
  ask_for(s, how == BQ_POOL_LAST ? s->n_tokens - 1 : 0, how, normalize);
  return BQ_OK;
}

const float *bq_session_result(const bq_session *s, uint32_t position) {
  if (!s->has_results || s->pooling || position < s->from || position >= s->n_tokens)
    return NULL;
  return bq_result_at(s, position);
}

static float *last_logits(const bq_session *s) {
  if (!s->has_results || bq_results_hidden(s)) return NULL;
  return bq_result_at(s, s->n_tokens - 1);
}

const float *bq_session_vector(const bq_session *s, size_t text) {
  if (!s->has_results || !s->pooling || text >= (s->n_texts ? s->n_texts : 1)) return NULL;
  return s->n_texts ? s->x + (size_t)s->texts[text].row * s->model->config.hidden : s->pooled;
}

const float *bq_session_logits(const bq_session *s) { return last_logits(s); }

bq_session_stats bq_session_stats_get(const bq_session *s) {
  return (bq_session_stats){s->n_tokens, bq_session_complete(s), s->slices, s->work,
                            bq_pass_rows(s)};
}

/* False for NaN. */
static bool within(float x, float most) { return x >= 0 && x <= most; }

static bq_status check_sampling(const bq_sample_options *o, uint32_t vocab, bq_error *err) {
  const char *wrong = !within(o->temperature, __builtin_inff()) ? "temperature"
                      : !within(o->top_p, 1)                    ? "top_p"
                      : !within(o->min_p, 1)                    ? "min_p"
                      : !within(o->repeat_penalty, FLT_MAX)     ? "repeat_penalty"
                                                                : NULL;
  if (wrong) return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "%s is out of its range", wrong);
  for (size_t i = 0; i < o->n_bias; i++)
    if (o->bias[i].id >= vocab)
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "there is no token %u to be biased, the vocabulary has %u", o->bias[i].id,
                     vocab);
  return BQ_OK;
}

bq_status bq_session_sample(bq_session *s, const bq_sample_options *options, bq_rng *rng,
                            uint32_t *token, bq_error *err) {
  float *logits = last_logits(s);
  if (!logits)
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "no logits to sample from: run the session first");
  const bq_sample_options o = options ? *options : (bq_sample_options){0};
  const uint32_t vocab = s->model->config.vocab;
  bq_status status = check_sampling(&o, vocab, err);
  if (status != BQ_OK) return status;
  bq_mark(s, BQ_STAGE_HOST, 0);
  if (o.hook.change) o.hook.change(o.hook.ctx, logits, vocab);
  uint32_t last = bq_min32(o.repeat_last, s->n_tokens);
  uint32_t picked = bq_sample(logits, vocab, s->tokens + s->n_tokens - last, last, &o, rng,
                              s->candidates);
  bq_mark(s, BQ_STAGE_SAMPLE, 0);
  if (picked == BQ_TOKEN_NONE)
    return bq_fail(err, BQ_NO_TOKEN, BQ_NO_OFFSET,
                   "none of %u tokens may be picked: %s", vocab,
                   o.mask || o.n_bias || o.hook.change ? "mask, bias or hook forbid them all"
                                                       : "no logit is a number");
  *token = picked;
  return BQ_OK;
}
