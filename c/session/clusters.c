#include "session/clusters.h"

#include "core/fmath.h"
#include "core/minmax.h"
#include "session/batch.h"
#include "session/matmul.h"
#include "session/ops.h"
#include "session/threads.h"

enum { SCORE, CHOOSE, COMPUTE };

typedef struct job {
  const bq_session *s;
  const float *x; /* [hidden]: the hidden state */
  float *logits;  /* [vocab]; scores of the cluster means, until clusters are chosen */
  uint32_t n_clusters; /* number of clusters to compute */
} job;

/* The normed and quantized hidden state. Each thread prepares it for itself in SCORE and uses it
 * again in COMPUTE. */
static bq_batch batch_of(const job *j, size_t thread) {
  const bq_session *s = j->s;
  const size_t hidden = s->model->config.hidden;
  const float *x = s->model->ln_f_w ? s->scratch.norm + thread * hidden : j->x;
  return (bq_batch){x, hidden, s->scratch.panel + thread * s->scratch.panel_bytes, 1};
}

static void score_means(const job *j, size_t thread, size_t threads) {
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

/* Chooses the clusters with the highest expected maximum of their logits. The maximum of 32
 * normally distributed numbers is about two deviations above the mean, and the deviation of the
 * logits is the length of the state times the deviation of the weights. */
static void choose_clusters(const job *j) {
  const bq_session *s = j->s;
  const bq_clusters *c = s->model->clusters;
  const uint32_t n = c->n;
  const float *x = batch_of(j, 0).x;
  float squares = 0;
  for (uint32_t i = 0; i < s->model->config.hidden; i++) squares += x[i] * x[i];
  const float twice = 2 * bq_sqrtf(squares);
  for (uint32_t i = 0; i < n; i++)
    s->outputs.candidates[i] = (bq_candidate){j->logits[i] + twice * c->deviation[i], i};
  bq_candidates_select(s->outputs.candidates, n, j->n_clusters);
  const float none = bq_float_of(0xff800000u); /* -infinity */
  for (uint32_t i = 0; i < s->model->config.vocab; i++) j->logits[i] = none;
}

static void compute_cluster(const job *j, uint32_t cluster, const bq_batch *batch, size_t thread) {
  const bq_model *m = j->s->model;
  const bq_clusters *c = m->clusters;
  const uint32_t from = cluster * BQ_CLUSTER_ROWS;
  const uint32_t n = bq_min32(c->rows.rows - from, BQ_CLUSTER_ROWS);
  const bq_layout layout = bq_type_compute_layout(c->rows.type);
  bq_matrix part = c->rows;
  part.data += bq_type_bytes(part.type, layout, from, part.cols);
  part.rows = n;
  float y[BQ_CLUSTER_ROWS];
  bq_matmul(j->s, &part, batch, 0, n, thread, y, 0);
  for (uint32_t i = 0; m->head_b && i < n; i++) y[i] += m->head_b[c->token[from + i]];
  bq_scale_logits(&m->config, y, n);
  for (uint32_t i = 0; i < n; i++) j->logits[c->token[from + i]] = y[i];
}

static bq_stage run_phase(const void *arg, uint32_t layer, uint32_t phase, size_t thread,
                          size_t threads) {
  const job *j = arg;
  (void)layer;
  if (phase == SCORE) score_means(j, thread, threads);
  if (phase == CHOOSE && thread == 0) choose_clusters(j);
  if (phase != COMPUTE) return BQ_STAGE_HEAD;
  const bq_batch batch = batch_of(j, thread);
  bq_share share = bq_share_of(j->s, thread, threads, j->n_clusters, 1);
  while (bq_share_next(&share))
    for (size_t i = share.from; i < share.to; i++)
      compute_cluster(j, j->s->outputs.candidates[i].id, &batch, thread);
  return BQ_STAGE_HEAD;
}

static const bq_phases *phases_of(const void *arg, uint32_t layer, size_t threads) {
  (void)arg, (void)layer, (void)threads;
  static const bq_phases phases = {{SCORE, CHOOSE, COMPUTE}, 3};
  return &phases;
}


bq_status bq_clustered_head(bq_session *s, bq_error *err) {
  const bq_model *m = s->model;
  if (!m->clusters)
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET,
                   "the head has no clusters: call bq_model_cluster first");
  const bq_output_range rows = bq_output_rows(s);
  const job j = {.s = s,
                 .x = s->batch.x + (size_t)rows.first * m->config.hidden,
                 .logits = rows.results,
                 .n_clusters = bq_clusters_share(m->clusters->n, s->options.head)};
  bq_job_run(s, &(bq_job){run_phase, phases_of, &j, NULL});
  return BQ_OK;
}
