/* A small random model built in memory, without a file: for tests of everything above the loader.
 * Header-only; each test program includes it once. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include <stdlib.h>

#include "check.h"
#include "core/quant.h"
#include "model/model.h"

typedef struct tiny_model {
  bq_model model;
  bq_layer layers[4];
  void *owned[256];
  size_t n_owned;
  uint32_t random;
} tiny_model;

static void *tiny_aligned(size_t bytes) {
  return aligned_alloc(BQ_ALIGN, (bytes + BQ_ALIGN) / BQ_ALIGN * BQ_ALIGN);
}

static void *tiny_take(tiny_model *t, size_t bytes) {
  return t->owned[t->n_owned++] = tiny_aligned(bytes);
}

/* Uniform in [-scale, scale). */
static float tiny_random(tiny_model *t, float scale) {
  t->random = t->random * 1664525u + 1013904223u;
  return ((float)(t->random >> 8) * 0x1p-23f - 1) * scale;
}

static float *tiny_vector(tiny_model *t, size_t n, float center, float spread) {
  float *v = tiny_take(t, n * sizeof *v);
  for (size_t i = 0; i < n; i++) v[i] = center + tiny_random(t, spread);
  return v;
}

static bq_matrix tiny_matrix(tiny_model *t, bq_type type, uint32_t rows, uint32_t cols) {
  float *f = tiny_vector(t, (size_t)rows * cols, 0, 1.5f / (float)cols + 0.15f);
  bq_layout layout = bq_type_run_layout(type);
  uint8_t *data = tiny_take(t, (size_t)bq_type_bytes(type, layout, rows, cols));
  if (bq_quantize(type, layout, f, rows, cols, data, NULL) != BQ_OK) abort();
  return (bq_matrix){data, rows, cols, type, &t->model.kernels->matrix[type]};
}

/* `config` needs layers (<= 4), hidden, heads, ffn, vocab, context; the rest has defaults.
 * Biases everywhere when `biases`. */
static void tiny_create(tiny_model *t, bq_config config, bq_type type, const bq_kernels *kernels,
                        bool biases) {
  memset(t, 0, sizeof *t);
  bq_config *c = &t->model.config;
  *c = config;
  if (!c->kv_heads) c->kv_heads = c->heads;
  if (!c->head_dim) c->head_dim = c->hidden / c->heads;
  if (!c->rope_dim) c->rope_dim = c->head_dim;
  if (c->rope_theta == 0) c->rope_theta = 10000;
  if (c->norm_eps == 0) c->norm_eps = 1e-5f;
  t->random = 7;
  t->model.kernels = kernels;
  t->model.layers = t->layers;
  t->model.ready = BQ_READY_ALL(c->layers);
  const uint32_t d = c->hidden, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
#define TINY_BIAS(n) (biases ? tiny_vector(t, n, 0, 0.2f) : NULL)
  t->model.wte = tiny_matrix(t, type, c->vocab, d);
  if (c->position == BQ_POSITION_LEARNED) t->model.wpe = tiny_matrix(t, type, c->context, d);
  for (uint32_t i = 0; i < c->layers; i++) {
    bq_layer *l = &t->layers[i];
    *l = (bq_layer){
        .ln1_w = tiny_vector(t, d, 1, 0.3f), .ln1_b = c->norm == BQ_NORM_LAYER ? tiny_vector(t, d, 0, 0.1f) : NULL,
        .ln2_w = tiny_vector(t, d, 1, 0.3f), .ln2_b = c->norm == BQ_NORM_LAYER ? tiny_vector(t, d, 0, 0.1f) : NULL,
        .q = tiny_matrix(t, type, q, d), .k = tiny_matrix(t, type, kv, d),
        .v = tiny_matrix(t, type, kv, d), .o = tiny_matrix(t, type, d, q),
        .up = tiny_matrix(t, type, c->ffn, d), .down = tiny_matrix(t, type, d, c->ffn),
        .q_b = TINY_BIAS(q), .k_b = TINY_BIAS(kv), .v_b = TINY_BIAS(kv), .o_b = TINY_BIAS(d),
        .gate_b = TINY_BIAS(c->ffn), .up_b = TINY_BIAS(c->ffn), .down_b = TINY_BIAS(d)};
    if (c->gated) l->gate = tiny_matrix(t, type, c->ffn, d);
  }
  t->model.ln_f_w = tiny_vector(t, d, 1, 0.3f);
  t->model.ln_f_b = c->norm == BQ_NORM_LAYER ? tiny_vector(t, d, 0, 0.1f) : NULL;
  t->model.head = c->tied ? t->model.wte : tiny_matrix(t, type, c->vocab, d);
  t->model.head_b = TINY_BIAS(c->vocab);
#undef TINY_BIAS
}

static void tiny_free(tiny_model *t) {
  for (size_t i = 0; i < t->n_owned; i++) free(t->owned[i]);
}

#endif
