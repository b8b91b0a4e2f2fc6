/* Time and work of a session's stages, accumulated per layer. */
#include "trace.h"

#include <string.h>

#include "model/model.h"
#include "session/batch.h"
#include "session/session.h"
#include "session/work.h"

typedef struct trace {
  const bq_session *s;
  double last; /* time of the previous mark, milliseconds */
  bqw_stage rows[]; /* [layers][BQ_STAGE_COUNT] */
} trace;

static size_t row_count(const bq_session *s) {
  const size_t layers = s->model->config.layers;
  return (layers ? layers : 1) * BQ_STAGE_COUNT;
}

/* The work of the stage that has just ended. If a run computes all layers at once (threads.c), the
 * session may already be at a later layer or past the last one. All rows of its batch are one
 * micro-batch then, and batch.row is 0 again. */
static bq_work work_of(const bq_session *s, bq_stage stage, uint32_t layer) {
  if (stage == BQ_STAGE_EMBED) return bq_session_work(s, stage, 0, 0, s->batch.rows);
  /* A head that is computed in pages counts its work once. */
  if (stage == BQ_STAGE_HEAD)
    return s->batch.head_unit ? (bq_work){0} : bq_session_work(s, stage, 0, 0, bq_output_rows(s).n);
  const bool of_layer = stage >= BQ_STAGE_NORM && stage <= BQ_STAGE_DOWN;
  if (!of_layer || s->part.owner != s) return (bq_work){0};
  const uint32_t left = s->batch.rows - s->batch.row;
  return bq_batch_work(s, stage, layer, s->batch.row,
                      left < s->options.batch ? left : s->options.batch);
}

static void mark(void *ctx, bq_stage stage, uint32_t layer) {
  trace *t = ctx;
  const double time = bqw_now();
  const bool of_layer = stage >= BQ_STAGE_NORM && stage <= BQ_STAGE_DOWN &&
                        layer < t->s->model->config.layers;
  bqw_stage *row = &t->rows[(of_layer ? layer : 0) * (size_t)BQ_STAGE_COUNT + stage];
  const bq_work work = work_of(t->s, stage, layer);
  row->ms += time - t->last;
  row->calls++;
  row->weight_bytes += (double)work.weight_bytes;
  row->kv_bytes += (double)work.kv_bytes;
  row->macs += (double)work.macs;
  t->last = time;
}

bqw_stage *bqw_trace_begin(bq_session *s, bq_allocator a) {
  const size_t bytes = row_count(s) * sizeof(bqw_stage);
  trace *t = s->options.trace.ctx;
  if (!t) t = a.alloc(a.ctx, sizeof *t + bytes);
  if (!t) return NULL;
  memset(t->rows, 0, bytes);
  t->s = s;
  t->last = bqw_now();
  s->options.trace = (bq_trace){t, mark};
  return t->rows;
}

bqw_stage *bqw_trace_rows(const bq_session *s) {
  trace *t = s->options.trace.ctx;
  return t ? t->rows : NULL;
}

void bqw_trace_end(bq_session *s, bq_allocator a) {
  if (s->options.trace.ctx) a.free(a.ctx, s->options.trace.ctx);
  s->options.trace = (bq_trace){0};
}

void bqw_trace_resume(const bq_session *s) {
  trace *t = s->options.trace.ctx;
  if (t) t->last = bqw_now();
}
