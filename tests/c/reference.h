/* A plain implementation of a LLaMA model in double precision, token by token. The including test
 * provides attention with its rotations and its attention span (`attend`). */
#ifndef BQ_TEST_REFERENCE_H
#define BQ_TEST_REFERENCE_H

#include <math.h>

#include "tiny_model.h"

enum { MAX_DIM = 64, MAX_POSITIONS = 900 };

typedef struct vectors {
  double k[MAX_POSITIONS][MAX_DIM], v[MAX_POSITIONS][MAX_DIM]; /* of all heads; not rotated */
} vectors;

static double weight(const bq_matrix *m, uint32_t row, uint32_t col) {
  static float values[512];
  m->ops->row(m, row, values);
  return (double)values[col];
}

/* y = W x. */
static void multiply(const bq_weights *w, const double *x, double *y) {
  static float row[512];
  for (uint32_t r = 0; r < w->w.rows; r++) {
    w->w.ops->row(&w->w, r, row);
    y[r] = 0;
    for (uint32_t i = 0; i < w->w.cols; i++) y[r] += (double)row[i] * x[i];
  }
}

static void norm(const bq_weights *w, const double *x, uint32_t n, double eps, double *y) {
  const float *factors = (const float *)(const void *)w->w.data;
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += x[i] * x[i];
  for (uint32_t i = 0; i < n; i++) y[i] = x[i] / sqrt(sum / n + eps) * (double)factors[i];
}

/* Rotates pairs of dims i and i + dim / 2. */
static void rotate(const double *x, double position, uint32_t dim, double *y) {
  for (uint32_t i = 0; i < dim / 2; i++) {
    const double angle = position * pow(10000, -2.0 * i / dim), c = cos(angle), s = sin(angle);
    y[i] = x[i] * c - x[i + dim / 2] * s;
    y[i + dim / 2] = x[i + dim / 2] * c + x[i] * s;
  }
}

/* Attention of one head of the token at position p; its KV head begins at dim `at`. */
typedef void attend_fn(const vectors *kv, const double *q, uint32_t p, uint32_t at, uint32_t dim,
                       double *y);

static void reference_layer(const tiny_model *t, uint32_t layer, uint32_t p, vectors *kv,
                            attend_fn *attend, double *x) {
  const bq_config *c = &t->model.config;
  const bq_weights *w = t->layers[layer].module;
  static double y[512], q[512], mix[512], gate[512], up[512];
  norm(&w[BQ_LN1], x, c->hidden, (double)c->norm_eps, y);
  multiply(&w[BQ_Q], y, q);
  multiply(&w[BQ_K], y, kv->k[p]);
  multiply(&w[BQ_V], y, kv->v[p]);
  for (uint32_t h = 0; h < c->heads; h++)
    attend(kv, q + h * c->head_dim, p, h / (c->heads / c->kv_heads) * c->head_dim,
           c->head_dim, mix + h * c->head_dim);
  multiply(&w[BQ_O], mix, y);
  for (uint32_t i = 0; i < c->hidden; i++) x[i] += y[i];
  norm(&w[BQ_LN2], x, c->hidden, (double)c->norm_eps, y);
  multiply(&w[BQ_GATE], y, gate);
  multiply(&w[BQ_UP], y, up);
  for (uint32_t i = 0; i < c->ffn; i++) gate[i] *= up[i] / (1 + exp(-gate[i]));
  multiply(&w[BQ_DOWN], gate, y);
  for (uint32_t i = 0; i < c->hidden; i++) x[i] += y[i];
}

/* Computes the logits of the hidden state after the last layer. */
static void reference_logits(const bq_model *m, const double *x, double *logits) {
  const bq_config *c = &m->config;
  const bq_weights last = {.w = {.data = (const uint8_t *)(const void *)m->ln_f_w}};
  double y[512];
  norm(&last, x, c->hidden, (double)c->norm_eps, y);
  for (uint32_t v = 0; v < c->vocab; v++) {
    logits[v] = 0;
    for (uint32_t i = 0; i < c->hidden; i++) logits[v] += weight(&m->head, v, i) * y[i];
  }
}

/* Computes all layers and the logits for the token at position p; kv is [layers]. */
static void reference_token(const tiny_model *t, uint32_t token, uint32_t p, vectors *kv,
                            attend_fn *attend, double *logits) {
  const bq_config *c = &t->model.config;
  double x[512];
  for (uint32_t i = 0; i < c->hidden; i++) x[i] = weight(&t->model.wte, token, i);
  for (uint32_t i = 0; i < c->layers; i++) reference_layer(t, i, p, &kv[i], attend, x);
  reference_logits(&t->model, x, logits);
}

#endif
