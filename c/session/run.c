/* Passes: which rows are computed next, slice by slice, until a caller's sessions have all of their
 * positions computed. What a slice computes is in forward.c. */
#include <string.h>

#include "core/minmax.h"
#include "model/ready.h"
#include "session/session.h"

static uint32_t pending(const bq_session *s) {
  if (s->n_texts) return s->has_results ? 0 : s->texts[s->n_texts].row;
  return bq_session_pending(s);
}

/* Rows up to the end of a block, which ends a window where something leaves the cache by attention
 * there, or where layers keep states, of which a snapshot is taken there. */
static uint32_t rows_to_boundary(const bq_session *s) {
  if ((!s->options.evict && !s->recurrence.floats) || s->n_texts) return UINT32_MAX;
  return BQ_KV_BLOCK - s->computed % BQ_KV_BLOCK;
}

/* Rows of its next window. */
static uint32_t window_rows(const bq_session *s) {
  return bq_min32(bq_min32(s->options.window, pending(s)), rows_to_boundary(s));
}

uint32_t bq_pass_rows(const bq_session *s) {
  return s->pass == s ? s->rows : window_rows(s);
}

static void add_work(bq_session *s, bq_work w) {
  s->work.weight_bytes += w.weight_bytes;
  s->work.kv_bytes += w.kv_bytes;
  s->work.macs += w.macs;
}

/* --- a pass and its members ------------------------------------------------------------------- */

void bq_pass_drop(bq_session *s) {
  bq_session *pass = s->pass;
  if (!pass) return;
  for (uint32_t i = 0; i < pass->n_members; i++) pass->members[i].s->pass = NULL;
  pass->n_members = pass->rows = 0;
}

void bq_pass_part(bq_session *s) {
  if (s->pass && s->pass->n_members > 1) bq_pass_drop(s);
}

bq_row bq_row_at(const bq_session *s, uint32_t row) {
  if (s->n_texts) return bq_text_row(s, row);
  uint32_t i = s->n_members;
  while (s->members[--i].row > row) continue;
  bq_session *of = s->members[i].s;
  const uint32_t at = row - s->members[i].row;
  return (bq_row){of, 0, of->win_start + at, of->win_len - at};
}

/* Opens a window of `len` tokens for one more member. */
static bq_status join(bq_session *s, bq_session *member, uint32_t len, bq_error *err) {
  const uint32_t start = member->computed;
  const uint32_t end = member->n_texts ? member->texts[member->n_texts].first : start + len;
  bq_assert(len > 0 && s->rows + len <= s->options.window);
  bq_assert(end <= member->options.context);
  bq_pass_drop(member);
  bq_status status = bq_evict_open(member, start, len, err);
  if (!status) status = bq_cache_open(&member->kv, start, end, err);
  if (status) return status;
  bq_recurrence_open(&member->recurrence, start);
  member->pass = s;
  member->win_start = start;
  member->win_len = len;
  s->members[s->n_members++] = (bq_member){member, s->rows};
  s->rows += len;
  return BQ_OK;
}

bq_status bq_pass_open(bq_session *s, bq_session *const *others, size_t n, bq_error *err) {
  if (s->model->ready < BQ_READY_EMBEDDING)
    return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "the embedding has not arrived yet");
  bq_pass_drop(s);
  s->n_members = s->rows = 0;
  s->layer = bq_session_layer(s, 0);
  s->batch_at = s->embedded = s->gathered = s->head_unit = s->head_at = s->part = 0;
  s->spread = BQ_SPREAD_NONE;
  bq_status status = join(s, s, window_rows(s), err);
  for (size_t i = 0; i < n && !status; i++)
    if (pending(others[i])) status = join(s, others[i], pending(others[i]), err);
  if (status) bq_pass_drop(s);
  return status;
}

/* Whether the pass under way is that of these. */
static bool under_way(const bq_session *s, bq_session *const *others, size_t n) {
  if (s->pass != s) return false;
  uint32_t members = 1;
  for (size_t i = 0; i < n; i++) {
    if (!pending(others[i])) continue;
    if (members == s->n_members || s->members[members].s != others[i]) return false;
    members++;
  }
  return members == s->n_members;
}

static void end_pass(bq_session *s) {
  for (uint32_t i = 0; i < s->n_members; i++) {
    bq_session *member = s->members[i].s;
    bq_evict_close(member);
    if (!member->n_texts) {
      member->computed = member->win_start + member->win_len;
      bq_recurrence_close(&member->recurrence, member->computed);
    }
    member->has_results = member->computed == member->n_tokens + member->n_draft;
  }
  bq_pass_drop(s);
}

/* --- results -------------------------------------------------------------------------------- */

/* Of a member's window: the first position with a result. */
static uint32_t first_result(const bq_session *s) {
  return s->from > s->win_start ? s->from : s->win_start;
}

static uint32_t window_end(const bq_session *s) { return s->win_start + s->win_len; }

bool bq_head_follows(const bq_session *s) {
  if (s->pass != s) return s->computed + window_rows(s) > s->from;
  /* Others are computed to their ends. */
  return s->n_members > 1 || window_end(s) > s->from;
}

/* The results of several members are computed one behind the other, as if they were the first's. */
bq_rows bq_head_rows(const bq_session *s) {
  const uint32_t first = s->gathered ? 0 : first_result(s) - s->win_start;
  const uint32_t end = s->gathered ? s->gathered : s->win_len, at = first + s->head_at;
  const uint32_t most = bq_session_clustered(s) ? 1 : s->options.batch;
  return (bq_rows){at, bq_min32(most, end - at),
                   bq_result_at(s, first_result(s) + s->head_at)};
}

/* Moves the hidden states that have results to the front. */
static void gather(bq_session *s) {
  const size_t hidden = s->model->config.hidden;
  if (s->n_members == 1 || s->gathered) return;
  for (uint32_t i = 0; i < s->n_members; i++) {
    const bq_session *member = s->members[i].s;
    const uint32_t first = first_result(member), n = window_end(member) - first;
    const uint32_t row = s->members[i].row + first - member->win_start;
    memmove(s->x + s->gathered * hidden, s->x + row * hidden, n * hidden * sizeof *s->x);
    s->gathered += n;
  }
}

/* Gives the others' results to them. */
static void scatter(const bq_session *s) {
  const float *from = bq_result_at(s, first_result(s));
  for (uint32_t i = 0; i < s->n_members; i++) {
    const bq_session *member = s->members[i].s;
    const uint32_t first = first_result(member);
    const size_t n = (size_t)(window_end(member) - first) * s->result_cols;
    bq_assert(first < window_end(member) &&
              window_end(member) - member->from <= member->options.rows);
    if (i > 0) memcpy(bq_result_at(member, first), from, n * sizeof *from);
    from += n;
  }
}

static bq_status want_rows(bq_error *err) {
  return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "rows of a product are to be computed");
}

/* A batch of results: of the head, or of one part of it when it is paged. */
static bq_status run_head(bq_session *s, bool *done, bq_error *err) {
  bq_matrix part = {0};
  uint32_t row0 = 0;
  const bool hidden = s->options.hidden;
  if (s->pooling) {
    bq_forward_pool(s);
    s->slices++;
    *done = true;
    return BQ_OK;
  }
  bq_status status = hidden ? BQ_OK : bq_page_head(s, &part, &row0, err);
  if (status != BQ_OK) return status;
  gather(s);
  const bq_rows rows = bq_head_rows(s);
  const bool last_part = hidden || row0 + part.rows == s->model->head.rows;
  if (bq_session_clustered(s)) status = bq_forward_clusters(s, err);
  else if (hidden) bq_forward_hidden(s);
  else if (!BQ_CAN_SPREAD || !s->options.spread) bq_forward_head(s, &part, row0);
  else if (!bq_forward_spread(s, rows.n)) return want_rows(err);
  if (status != BQ_OK) return status;
  if (last_part && !hidden) add_work(s, bq_session_work(s, BQ_STAGE_HEAD, 0, 0, rows.n));
  const bool last_rows = rows.first + rows.n == (s->gathered ? s->gathered : s->win_len);
  s->head_at = last_rows ? 0 : s->head_at + rows.n;
  s->head_unit += last_rows;
  s->slices++;
  *done = last_part && last_rows;
  if (*done) scatter(s);
  return BQ_OK;
}

/* --- slices --------------------------------------------------------------------------------- */

static bq_status embed(bq_session *s, bq_error *err) {
  if (s->embedded == s->rows) return BQ_OK;
  bq_status status = bq_forward_embed(s, err);
  if (status != BQ_OK) return status;
  add_work(s, bq_session_work(s, BQ_STAGE_EMBED, 0, 0, s->rows));
  bq_mark(s, BQ_STAGE_EMBED, 0);
  return BQ_OK;
}

/* Rows of the next slice, unless it is the head. */
static uint32_t batch_rows(const bq_session *s) {
  return bq_min32(s->options.batch, s->rows - s->batch_at);
}

/* Between two slices of a run: whether to end it. */
static bool stopped(bq_session *s) {
  const bq_stop *stop = &s->options.stop;
  s->run_stopped = s->slices == s->run_end || (stop->asked && stop->asked(stop->ctx));
  return s->run_stopped;
}

/* A slice is done: a layer, over a batch. */
static void end_layer(bq_session *s) {
  const uint32_t rows = batch_rows(s);
  add_work(s, bq_pass_work(s, BQ_STAGE_COUNT, s->layer, s->batch_at, rows));
  s->batch_at += rows;
  if (s->batch_at == s->rows) {
    s->batch_at = 0;
    s->layer = bq_session_layer(s, s->layer + 1);
  }
  s->slices++;
}

/* Layers of one batch follow each other without leaving the parallel region, as far as they are
 * there. */
static bool next_layer(bq_session *s) {
  end_layer(s);
  return s->layer < s->model->config.layers && s->model->ready >= BQ_READY_LAYER(s->layer) &&
         bq_page_layer(s, NULL) == BQ_OK && !stopped(s);
}

/* At least one slice of the pass: a layer over a batch, or the head. */
static bq_status run_slices(bq_session *s, bq_error *err) {
  const uint32_t layers = s->model->config.layers, ready = s->model->ready;
  bq_status status = embed(s, err);
  if (status != BQ_OK) return status;
  const bool results = bq_head_follows(s);
  if (s->layer < layers) {
    if (ready < BQ_READY_LAYER(s->layer))
      return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "layer %u has not arrived yet", s->layer);
    status = bq_page_layer(s, err);
    if (status != BQ_OK) return status;
    if (BQ_CAN_SPREAD && s->options.spread) {
      if (!bq_forward_spread(s, batch_rows(s))) return want_rows(err);
      end_layer(s);
    } else if (s->rows <= s->options.batch) {
      bq_forward_layers(s, s->rows, next_layer);
    } else {
      bq_forward_layers(s, batch_rows(s), NULL);
      end_layer(s);
    }
    /* Results are slices of their own, in passes that have any. */
    if (s->layer < layers || results) return BQ_OK;
  } else if (results) {
    if (ready < BQ_READY_ALL(layers))
      return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "the head has not arrived yet");
    bool done;
    status = run_head(s, &done, err);
    if (status != BQ_OK || !done) return status;
  }
  end_pass(s);
  return BQ_OK;
}

/* --- products that others compute a part of --------------------------------------------------- */

static bool spread_wanted(const bq_session *s) {
  return BQ_CAN_SPREAD && s->pass == s && s->spread == BQ_SPREAD_WANTED;
}

bool bq_session_spread(const bq_session *s, uint32_t part, uint32_t parts, bq_spread *out) {
  return spread_wanted(s) && part < parts &&
         bq_forward_spread_part(s, batch_rows(s), part, parts, out);
}

void bq_session_spread_done(bq_session *s) {
  if (spread_wanted(s)) s->spread = BQ_SPREAD_THERE;
}

/* --- runs ------------------------------------------------------------------------------------- */

/* Rows of the first's results that it takes. */
static uint32_t results_of(const bq_session *s) {
  return s->pooling ? 0 : s->n_tokens + s->n_draft - s->from;
}

/* What the first's buffers must have room for, and what its kernels compute for all. */
static bq_status check_others(const bq_session *s, bq_session *const *others, size_t n,
                              bq_error *err) {
  uint64_t rows = pending(s), results = results_of(s);
  for (size_t i = 0; i < n; i++) {
    const bq_session *other = others[i];
    const bq_session_options *a = &s->options, *b = &other->options;
    for (size_t j = 0; j <= i; j++)
      if (other == (j == i ? s : others[j]))
        return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "session %l is there twice", (uint64_t)i);
    if (other->model != s->model || a->kv_type != b->kv_type || a->activations != b->activations ||
        a->hidden != b->hidden || a->kv_window != b->kv_window || a->sinks != b->sinks ||
        a->evict != b->evict || (a->evict && a->parallel.threads != b->parallel.threads) ||
        b->context > a->context || !s->pooling != !other->pooling ||
        s->adapter != other->adapter || a->head != b->head || s->clusters != other->clusters ||
        memcmp(&s->skipped, &other->skipped, sizeof s->skipped) != 0)
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "session %l is of another model, KV type, KV window, type of activations or "
                     "kind of results, skips other layers, or has another share of the head, "
                     "another adapter or a larger context than the first",
                     (uint64_t)i);
    if (other->n_tokens == 0)
      return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "session %l has no tokens to run", (uint64_t)i);
    if (pending(other) > rows_to_boundary(other) || pending(s) > rows_to_boundary(s))
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "session %l, or the first, goes on past the end of a block of %u positions, "
                     "where eviction or a recurrent layer ends a pass",
                     (uint64_t)i, (uint32_t)BQ_KV_BLOCK);
    rows += pending(other);
    results += pending(other) ? results_of(other) : 0;
  }
  if (rows > s->options.window || results > s->options.rows || pending(s) == 0)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "%l tokens with %l results in one pass: the first session was made for 1 to %u "
                   "and %u, and has %u of its own to run",
                   rows, results, s->options.window, s->options.rows, pending(s));
  return BQ_OK;
}

static bool all_done(const bq_session *s, bq_session *const *others, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (pending(others[i])) return false;
  return pending(s) == 0;
}

bq_status bq_session_run_with(bq_session *s, bq_session *const *others, size_t n, size_t slices,
                              bq_error *err) {
  if (s->n_tokens == 0 && (n || !s->n_texts))
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "the session has no tokens to run");
  bq_status status = n ? check_others(s, others, n, err) : BQ_OK;
  if (status) return status;
  bq_mark(s, BQ_STAGE_HOST, 0);
  s->run_end = slices ? s->slices + slices : UINT64_MAX;
  s->run_stopped = false;
  while (!all_done(s, others, n)) {
    if (!under_way(s, others, n)) status = bq_pass_open(s, others, n, err);
    if (!status) status = run_slices(s, err);
    if (status != BQ_OK) return status;
    if (!all_done(s, others, n) && (s->run_stopped || stopped(s))) return BQ_MORE;
  }
  return BQ_OK;
}

bq_status bq_session_run(bq_session *s, size_t slices, bq_error *err) {
  return bq_session_run_with(s, NULL, 0, slices, err);
}
