#include "session/dense.h"

#include <string.h>

#include "core/fmath.h"
#include "session/linear.h"
#include "session/ops.h"
#include "session/threads.h"

/* One layer, for one vector. */
typedef struct dense_layer {
  bq_micro_batch batch;
  const bq_weights *weights;
  const float *in;
  float *out;
} dense_layer;

static bq_stage phase(const void *arg, uint32_t layer, uint32_t part, size_t thread,
                      size_t threads) {
  (void)part;
  const dense_layer *d = arg;
  const bq_matrix *w = &d->weights->w;
  const bq_layer_run run = {&d->batch, d->batch.s, NULL, layer};
  const bq_linear l = {
      .thread = thread,
      .x = d->in,
      .cols = w->cols,
      .list = {{.w = w, .bias = d->weights->b, .y = d->out, .stride = w->rows}},
      .n = 1,
      .stage = BQ_STAGE_HEAD};
  return bq_linear_multiply(&run, &l, thread, threads);
}

static const bq_phases *phases(const void *arg, uint32_t layer, size_t threads) {
  (void)arg, (void)layer, (void)threads;
  static const bq_phases single_phase = {{0}, 1};
  return &single_phase;
}

static void multiply(bq_session *s, const bq_weights *weights, const float *in, float *out) {
  const dense_layer d = {{.s = s, .tokens = 1}, weights, in, out};
  bq_job_run(s, &(bq_job){phase, phases, &d, NULL});
}

static void activate(const bq_session *s, float *x, size_t n) {
  const bq_kernels *k = s->model->kernels;
  switch (s->model->config.dense_activation) {
  case BQ_DENSE_LINEAR: break;
  case BQ_DENSE_TANH:
    for (size_t i = 0; i < n; i++) x[i] = bq_tanhf(x[i]);
    break;
  case BQ_DENSE_GELU_ERF: k->gelu_erf_mul(x, NULL, n); break;
  case BQ_DENSE_RELU: k->relu_mul(x, NULL, n); break;
  }
}

void bq_dense_layers(bq_session *s, const float *pooled, float *inner, float *out) {
  const bq_model *m = s->model;
  const bq_config *c = &m->config;
  if (c->dense1) {
    float *y = c->dense2 ? inner : out;
    multiply(s, &m->dense1, pooled, y);
    activate(s, y, c->dense1);
    if (m->dense_norm_w) bq_apply_norm(s, y, m->dense_norm_w, m->dense_norm_b, c->dense1, y);
    pooled = y;
  }
  if (c->dense2) multiply(s, &m->dense2, pooled, out);
}
