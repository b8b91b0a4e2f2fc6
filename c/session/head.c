#include "session/head.h"

#include "session/batch.h"
#include "session/threads.h"

bq_linear bq_head_linear(const bq_micro_batch *j, size_t thread) {
  const bq_session *s = j->s;
  const bq_model *m = s->model;
  const size_t hidden = m->config.hidden;
  const float *bias = m->head_b ? m->head_b + j->row0 : NULL;
  float *y = j->results + j->row0;
  return (bq_linear){.thread = thread,
                  .x = s->batch.x + j->batch_at * hidden,
                  .cols = hidden,
                  .normed = m->ln_f_w != NULL,
                  .norm_w = m->ln_f_w,
                  .norm_b = m->ln_f_b,
                  .list = {{.w = j->head, .bias = bias, .y = y, .stride = s->outputs.cols}},
                  .n = 1,
                  .logits = true,
                  .stage = BQ_STAGE_HEAD};
}

bq_stage bq_head_phase(const void *arg, uint32_t layer, uint32_t part, size_t thread,
                       size_t threads) {
  const bq_micro_batch *j = arg;
  const bq_layer_run p = {j, j->s, NULL, layer};
  const bq_linear l = bq_head_linear(j, thread);
  if (part != BQ_PREPARE) return bq_linear_multiply(&p, &l, thread, threads);
  bq_linear_prepare(j, &l, thread, threads);
  return BQ_STAGE_NORM;
}

const bq_phases *bq_head_phases(const void *arg, uint32_t layer, size_t threads) {
  (void)layer, (void)threads;
  static const bq_phases single_phase = {{0}, 1}, batch = {{BQ_PREPARE, 0}, 2};
  return bq_each_thread_prepares(arg) ? &single_phase : &batch;
}

bq_micro_batch bq_head_batch(const bq_session *s, const bq_matrix *head, uint32_t row0) {
  const bq_output_range rows = bq_output_rows(s);
  return (bq_micro_batch){.s = s,
                          .batch_at = rows.first,
                          .tokens = rows.n,
                          .head = head,
                          .row0 = row0,
                          .results = rows.results};
}

void bq_forward_head(bq_session *s, const bq_matrix *head, uint32_t row0) {
  const bq_micro_batch j = bq_head_batch(s, head, row0);
  bq_job_run(s, &(bq_job){bq_head_phase, bq_head_phases, &j, NULL});
}
