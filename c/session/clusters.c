/* The head by clusters (model/clusters.h): first how well each cluster's mean meets the state, then
 * the rows of the best. Logits of all others are -infinity. Of one position at a time, since each
 * has clusters of its own. */
#include "session/clusters.h"

#include "core/fmath.h"
#include "core/minmax.h"
#include "session/batch.h"
#include "session/matmul.h"
#include "session/ops.h"
#include "session/threads.h"

enum { MEET, CHOOSE, COMPUTE };

typedef struct job {
  const bq_session *s;
  const float *x; /* [hidden]: the state */
  float *logits;  /* [vocab]; how well means meet it, until clusters are chosen */
  uint32_t most;  /* clusters that are computed */
} job;

/* Each thread makes its own in MEET, and finds it in COMPUTE. */
static bq_batch batch_of(const job *j, size_t thread) {
  const bq_session *s = j->s;
  const size_t hidden = s->model->config.hidden;
  const float *x = s->model->ln_f_w ? s->scratch.norm + thread * hidden : j->x;
  return (bq_batch){x, hidden, s->scratch.panel + thread * s->scratch.panel_bytes, 1};
}

static void meet(const job *j, size_t thread, size_t threads) {
  const bq_session *s = j->s;
  const bq_model *m = s->model;
  const size_t hidden = m->config.hidden;
  const bq_matrix *means = &m->clusters->means;
  const bq_batch batch = batch_of(j, thread);
  if (m->ln_f_w)
    bq_apply_norm(s, j->x, m->ln_f_w, m->ln_f_b, hidden, s->scratch.norm + thread * hidden);
  if (m->head.ops->quantized)
    bq_matmul_quantize(s, batch.x, hidden, 0, 1, thread, (uint8_t *)(uintptr_t)batch.panel);
  for (bq_share share = bq_share_of(s, thread, threads, means->rows, BQ_TILE_ROWS);
       bq_share_next(&share);)
    means->ops->matmul(means, &batch, share.from, share.to, j->logits, 0);
}

/* By the best logit that may be expected: of 32 numbers it lies two deviations above their mean,
 * and theirs is the state's length times the spread of weights. */
static void choose(const job *j) {
  const bq_session *s = j->s;
  const bq_clusters *c = s->model->clusters;
  const uint32_t n = c->n;
  const float *x = batch_of(j, 0).x;
  float squares = 0;
  for (uint32_t i = 0; i < s->model->config.hidden; i++) squares += x[i] * x[i];
  const float twice = 2 * bq_sqrtf(squares);
  for (uint32_t i = 0; i < n; i++)
    s->outputs.candidates[i] = (bq_candidate){j->logits[i] + twice * c->spread[i], i};
  bq_candidates_select(s->outputs.candidates, n, j->most);
  const float none = bq_float_of(0xff800000u); /* -infinity */
  for (uint32_t i = 0; i < s->model->config.vocab; i++) j->logits[i] = none;
}

static void compute(const job *j, uint32_t cluster, const bq_batch *batch, size_t thread) {
  const bq_model *m = j->s->model;
  const bq_clusters *c = m->clusters;
  const uint32_t from = cluster * BQ_CLUSTER_ROWS;
  const uint32_t n = bq_min32(c->rows.rows - from, BQ_CLUSTER_ROWS);
  const bq_layout layout = bq_type_compute_layout(c->rows.type);
  bq_matrix some = c->rows;
  some.data += bq_type_bytes(some.type, layout, from, some.cols);
  some.rows = n;
  float y[BQ_CLUSTER_ROWS];
  bq_matmul(j->s, &some, batch, 0, n, thread, y, 0);
  for (uint32_t i = 0; m->head_b && i < n; i++) y[i] += m->head_b[c->token[from + i]];
  bq_scale_logits(&m->config, y, n);
  for (uint32_t i = 0; i < n; i++) j->logits[c->token[from + i]] = y[i];
}

static bq_stage run_part(const void *arg, uint32_t layer, uint32_t part, size_t thread,
                         size_t threads) {
  const job *j = arg;
  (void)layer;
  if (part == MEET) meet(j, thread, threads);
  if (part == CHOOSE && thread == 0) choose(j);
  if (part != COMPUTE) return BQ_STAGE_HEAD;
  const bq_batch batch = batch_of(j, thread);
  for (bq_share share = bq_share_of(j->s, thread, threads, j->most, 1); bq_share_next(&share);)
    for (size_t i = share.from; i < share.to; i++)
      compute(j, j->s->outputs.candidates[i].id, &batch, thread);
  return BQ_STAGE_HEAD;
}

static const bq_phases *parts_of(const void *arg, uint32_t layer) {
  (void)arg, (void)layer;
  static const bq_phases parts = {{MEET, CHOOSE, COMPUTE}, 3};
  return &parts;
}


bq_status bq_clustered_head(bq_session *s, bq_error *err) {
  const bq_model *m = s->model;
  if (!m->clusters)
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "the head was not brought into clusters");
  const bq_output_slice rows = bq_output_rows(s);
  const job j = {.s = s,
                 .x = s->batch.x + (size_t)rows.first * m->config.hidden,
                 .logits = rows.results,
                 .most = bq_clusters_share(m->clusters->n, s->options.head)};
  bq_job_run(s, &(bq_job){run_part, parts_of, &j, NULL});
  return BQ_OK;
}
