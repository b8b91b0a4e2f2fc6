/* Runs: computes forward batches work unit by work unit until the caller's sessions have all of
 * their positions and outputs. Implements of bq.h: bq_session_run, bq_session_run_with. */
#include <string.h>

#include "model/ready.h"
#include "session/batch.h"
#include "session/clusters.h"
#include "session/embed.h"
#include "session/forward.h"
#include "session/head.h"
#include "session/outputs.h"
#include "session/page.h"
#include "session/spread.h"
#include "session/work.h"

static bq_status wait_for_rows(bq_error *err) {
  return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "waiting for matmul rows from other workers");
}

/* Computes a work unit of the head: a micro-batch of outputs, over the head or, if it is paged,
 * over one page of it. */
static bq_status run_head(bq_session *s, bool *done, bq_error *err) {
  bq_matrix part = {0};
  uint32_t row0 = 0;
  const bool hidden = s->options.hidden;
  if (s->outputs.pooling) {
    bq_pool_outputs(s);
    s->run.work_units++;
    *done = true;
    return BQ_OK;
  }
  bq_status status = hidden ? BQ_OK : bq_paged_head(s, &part, &row0, err);
  if (status != BQ_OK) return status;
  bq_batch_gather(s);
  const bq_output_range rows = bq_output_rows(s);
  const bool last_part = hidden || row0 + part.rows == s->model->head.rows;
  if (bq_head_is_clustered(s)) status = bq_clustered_head(s, err);
  else if (hidden) bq_hidden_outputs(s);
  else if (!BQ_CAN_SPREAD || !s->options.spread) bq_forward_head(s, &part, row0);
  else if (!bq_spread_run(s, rows.n)) return wait_for_rows(err);
  if (status != BQ_OK) return status;
  if (last_part && !hidden)
    bq_work_add(&s->run.work, bq_session_work(s, BQ_STAGE_HEAD, 0, 0, rows.n));
  const bool last_rows =
      rows.first + rows.n == (s->batch.gathered ? s->batch.gathered : s->part.length);
  s->batch.head_at = last_rows ? 0 : s->batch.head_at + rows.n;
  s->batch.head_unit += last_rows;
  s->run.work_units++;
  *done = last_part && last_rows;
  if (*done) bq_batch_scatter(s);
  return BQ_OK;
}

static bq_status run_embed(bq_session *s, bq_error *err) {
  if (s->batch.embedded == s->batch.rows) return BQ_OK;
  bq_status status = bq_forward_embed(s, err);
  if (status != BQ_OK) return status;
  bq_work_add(&s->run.work, bq_session_work(s, BQ_STAGE_EMBED, 0, 0, s->batch.rows));
  bq_mark(s, BQ_STAGE_EMBED, 0);
  return BQ_OK;
}

/* Returns whether the run is to end, between two work units. */
static bool should_stop(bq_session *s) {
  const bq_stop *stop = &s->options.stop;
  s->run.stopped =
      s->run.work_units == s->run.end || (stop->is_requested && stop->is_requested(stop->ctx));
  return s->run.stopped;
}

/* Advances the batch after a work unit: a layer over a micro-batch. */
static void end_layer(bq_session *s) {
  const uint32_t rows = bq_micro_batch_rows(s);
  bq_work_add(&s->run.work, bq_batch_work(s, BQ_STAGE_COUNT, s->batch.layer, s->batch.row, rows));
  s->batch.row += rows;
  if (s->batch.row == s->batch.rows) {
    s->batch.row = 0;
    s->batch.layer = bq_next_layer(s, s->batch.layer + 1);
  }
  s->run.work_units++;
}

/* Advances to the next layer within the parallel region, as long as its weights are in memory. */
static bool next_layer(bq_session *s) {
  end_layer(s);
  return s->batch.layer < s->model->config.layers &&
         s->model->ready >= BQ_READY_LAYER(s->batch.layer) && bq_paged_layer(s, NULL) == BQ_OK &&
         !should_stop(s);
}

/* Computes at least one work unit of the batch: a layer over a micro-batch, or the head. */
static bq_status run_work_units(bq_session *s, bq_error *err) {
  const uint32_t layers = s->model->config.layers, ready = s->model->ready;
  bq_status status = run_embed(s, err);
  if (status != BQ_OK) return status;
  const bool has_outputs = bq_batch_has_outputs(s);
  if (s->batch.layer < layers) {
    if (ready < BQ_READY_LAYER(s->batch.layer))
      return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "layer %u has not arrived yet",
                     s->batch.layer);
    status = bq_paged_layer(s, err);
    if (status != BQ_OK) return status;
    if (BQ_CAN_SPREAD && s->options.spread) {
      if (!bq_spread_run(s, bq_micro_batch_rows(s))) return wait_for_rows(err);
      end_layer(s);
    } else if (s->batch.rows <= s->options.batch) {
      bq_forward_layers(s, s->batch.rows, next_layer);
    } else {
      bq_forward_layers(s, bq_micro_batch_rows(s), NULL);
      end_layer(s);
    }
    /* Outputs are work units of their own. */
    if (s->batch.layer < layers || has_outputs) return BQ_OK;
  } else if (has_outputs) {
    if (ready < BQ_READY_ALL(layers))
      return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "the head has not arrived yet");
    bool done = false;
    status = run_head(s, &done, err);
    if (status != BQ_OK || !done) return status;
  }
  bq_batch_close(s);
  return BQ_OK;
}

/* --- sessions of a batch ---------------------------------------------------------------------- */

/* Number of output rows that a session needs in the first member's buffer. */
static uint32_t output_rows_of(const bq_session *s) {
  return s->outputs.pooling ? 0 : s->sequence.n_tokens + s->sequence.n_draft - s->outputs.from;
}

/* Checks that the sessions can share a batch: the buffers of the first are large enough, and all
 * have the same model and options of computation. */
static bq_status check_others(const bq_session *s, bq_session *const *others, size_t n,
                              bq_error *err) {
  uint64_t rows = bq_tokens_pending(s), output_rows = output_rows_of(s);
  for (size_t i = 0; i < n; i++) {
    const bq_session *other = others[i];
    const bq_session_options *a = &s->options, *b = &other->options;
    for (size_t j = 0; j <= i; j++)
      if (other == (j == i ? s : others[j]))
        return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "session %l is listed twice", (uint64_t)i);
    if (other->model != s->model || a->kv_type != b->kv_type || a->activations != b->activations ||
        a->hidden != b->hidden || a->kv_window != b->kv_window || a->sinks != b->sinks ||
        a->evict != b->evict || (a->evict && a->parallel.threads != b->parallel.threads) ||
        b->context > a->context || !s->outputs.pooling != !other->outputs.pooling ||
        s->lora.matrices != other->lora.matrices || a->head != b->head ||
        s->outputs.approximate != other->outputs.approximate ||
        memcmp(&s->skipped, &other->skipped, sizeof s->skipped) != 0)
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "session %l is of another model, KV type, KV window, type of activations or "
                     "kind of results, skips other layers, or has another share of the head, "
                     "another adapter or a larger context than the first",
                     (uint64_t)i);
    if (other->sequence.n_tokens == 0)
      return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "session %l has no tokens to run", (uint64_t)i);
    if (bq_tokens_pending(other) > bq_rows_until_boundary(other) ||
        bq_tokens_pending(s) > bq_rows_until_boundary(s))
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "session %l, or the first, goes on past the end of a block of %u positions, "
                     "where eviction or a recurrent layer ends a batch",
                     (uint64_t)i, (uint32_t)BQ_KV_BLOCK);
    rows += bq_tokens_pending(other);
    output_rows += bq_tokens_pending(other) ? output_rows_of(other) : 0;
  }
  if (rows > s->options.prefill_window || output_rows > s->options.rows ||
      bq_tokens_pending(s) == 0)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "%l tokens with %l results in one pass: the first session was made for 1 to %u "
                   "and %u, and has %u of its own to run",
                   rows, output_rows, s->options.prefill_window, s->options.rows,
                   bq_tokens_pending(s));
  return BQ_OK;
}

static bool all_done(const bq_session *s, bq_session *const *others, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (bq_tokens_pending(others[i])) return false;
  return bq_tokens_pending(s) == 0;
}

bq_status bq_session_run_with(bq_session *s, bq_session *const *others, size_t n, size_t work_units,
                              bq_error *err) {
  if (s->sequence.n_tokens == 0 && (n || !s->sequence.n_texts))
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "the session has no tokens to run");
  bq_status status = n ? check_others(s, others, n, err) : BQ_OK;
  if (status) return status;
  bq_mark(s, BQ_STAGE_HOST, 0);
  s->run.end = work_units ? s->run.work_units + work_units : UINT64_MAX;
  s->run.stopped = false;
  while (!all_done(s, others, n)) {
    if (!bq_batch_matches(s, others, n)) status = bq_batch_open(s, others, n, err);
    if (!status) status = run_work_units(s, err);
    if (status != BQ_OK) return status;
    if (!all_done(s, others, n) && (s->run.stopped || should_stop(s))) return BQ_MORE;
  }
  return BQ_OK;
}

bq_status bq_session_run(bq_session *s, size_t work_units, bq_error *err) {
  return bq_session_run_with(s, NULL, 0, work_units, err);
}
