/* A small random model in memory, without a file, for tests of everything that uses a loaded model.
 * Header-only; each test program includes it once. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include <stdlib.h>

#include "blocks.h"
#include "bq.h"
#include "check.h"
#include "core/dequantize.h"
#include "quant/encode.h"
#include "model/model.h"

typedef struct tiny_model {
  bq_model model;
  bq_layer layers[4];
  bq_layer_kind kinds[BQ_KINDS];
  void *owned[256];
  size_t n_owned;
  uint32_t random;
} tiny_model;

static void *tiny_aligned(size_t bytes) {
  return aligned_alloc(BQ_ALIGN, (bytes + BQ_ALIGN) / BQ_ALIGN * BQ_ALIGN);
}

static inline void *tiny_alloc(void *ctx, size_t bytes) {
  (void)ctx;
  return tiny_aligned(bytes);
}
static inline void tiny_release(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

/* Creates a session with memory of malloc(); ends the program if that fails. */
static inline bq_session *tiny_session(const tiny_model *t, bq_session_options o) {
  bq_session *s = NULL;
  const bq_allocator allocator = {NULL, tiny_alloc, tiny_release};
  if (!CHECK_EQ(bq_session_create(&t->model, &o, allocator, &s, NULL), BQ_OK)) abort();
  return s;
}

static void *tiny_allocate(tiny_model *t, size_t bytes) {
  return t->owned[t->n_owned++] = tiny_aligned(bytes);
}

/* A random number, uniform in [-scale, scale). */
static float tiny_random(tiny_model *t, float scale) {
  t->random = t->random * 1664525u + 1013904223u;
  return ((float)(t->random >> 8) * 0x1p-23f - 1) * scale;
}

static float *tiny_vector(tiny_model *t, size_t n, float center, float spread) {
  float *v = tiny_allocate(t, n * sizeof *v);
  for (size_t i = 0; i < n; i++) v[i] = center + tiny_random(t, spread);
  return v;
}

/* Random weights of a type without an encoder. */
static void tiny_blocks(tiny_model *t, bq_type type, uint32_t rows, uint32_t cols, uint8_t *tiles) {
  const size_t bytes = (size_t)bq_type_bytes(type, BQ_ROWS, rows, cols);
  uint8_t *blocks = tiny_aligned(bytes);
  uint64_t seed = t->random;
  random_blocks(bq_type_get(type), blocks, bytes / bq_type_get(type)->block_bytes, 0x1p-12f, &seed);
  tile_blocks(type, blocks, rows, cols, tiles);
  free(blocks);
}

static bq_matrix tiny_matrix(tiny_model *t, bq_type type, uint32_t rows, uint32_t cols) {
  float *f = tiny_vector(t, (size_t)rows * cols, 0, 1.5f / (float)cols + 0.15f);
  bq_layout layout = bq_type_compute_layout(type);
  uint8_t *data = tiny_allocate(t, (size_t)bq_type_bytes(type, layout, rows, cols));
  if (!bq_type_get(type)->encoded) tiny_blocks(t, type, rows, cols, data);
  else if (bq_quantize(type, layout, f, rows, cols, data, NULL) != BQ_OK) abort();
  return (bq_matrix){data, rows, cols, type, &t->model.kernels->matrix[type]};
}

static bq_weights tiny_linear(tiny_model *t, bq_type type, uint32_t rows, uint32_t cols,
                              bool bias) {
  return (bq_weights){.w = tiny_matrix(t, type, rows, cols),
                      .b = bias ? tiny_vector(t, rows, 0, 0.2f) : NULL};
}

static bq_weights tiny_norm(tiny_model *t, uint32_t n) {
  const float *w = tiny_vector(t, n, 1, 0.3f);
  return (bq_weights){
      .w = {.data = (const uint8_t *)(const void *)w, .rows = 1, .cols = n},
      .b = t->model.config.norm == BQ_NORM_LAYER ? tiny_vector(t, n, 0, 0.1f) : NULL};
}

/* Norms of some configurations only. */
static void tiny_optional_norms(tiny_model *t, const bq_layer_kind *kind, bq_weights *m) {
  const bq_config *c = &t->model.config;
  const bool per_head = c->qk_norm == BQ_QK_HEADS || c->qk_norm == BQ_QK_ROTATED;
  if (bq_layer_kind_has(kind, BQ_LN1_POST)) m[BQ_LN1_POST] = tiny_norm(t, c->hidden);
  if (bq_layer_kind_has(kind, BQ_LN2_POST)) m[BQ_LN2_POST] = tiny_norm(t, c->hidden);
  if (c->sub_norms) {
    m[BQ_O_NORM] = tiny_norm(t, kind->cols[BQ_BUFFER_MIX]);
    m[BQ_DOWN_NORM] = tiny_norm(t, kind->cols[BQ_BUFFER_UP]);
  }
  if (!bq_layer_kind_has(kind, BQ_Q_NORM)) return;
  m[BQ_Q_NORM] = tiny_norm(t, kind->head_dim * (per_head ? 1 : c->heads));
  m[BQ_K_NORM] = tiny_norm(t, kind->head_dim * (per_head ? 1 : kind->kv_heads));
}

static bq_weights tiny_values(tiny_model *t, uint32_t n, float center, float spread);

/* Per-layer embeddings of a layer, and its factor. */
static void tiny_layer_embedding(tiny_model *t, bq_type type, bq_weights *m) {
  const bq_config *c = &t->model.config;
  if (c->layer_scale) m[BQ_LAYER_SCALE] = tiny_values(t, 1, 0.9f, 0.2f);
  if (!c->layer_embed) return;
  m[BQ_EMBED_PROJECT] = tiny_linear(t, type, c->layer_embed, c->hidden, false);
  m[BQ_EMBED_GATE] = tiny_linear(t, type, c->layer_embed, c->hidden, false);
  m[BQ_EMBED_OUT] = tiny_linear(t, type, c->hidden, c->layer_embed, false);
  m[BQ_EMBED_POST] = tiny_norm(t, c->hidden);
}

static void tiny_experts(tiny_model *t, bq_type type, bq_weights *m) {
  const bq_config *c = &t->model.config;
  m[BQ_ROUTER] = tiny_linear(t, BQ_TYPE_F32, c->experts, c->hidden, false);
  m[BQ_EXPERT_GATE] = tiny_linear(t, type, c->experts * c->expert_ffn, c->hidden, false);
  m[BQ_EXPERT_UP] = tiny_linear(t, type, c->experts * c->expert_ffn, c->hidden, false);
  m[BQ_EXPERT_DOWN] = tiny_linear(t, type, c->experts * c->hidden, c->expert_ffn, false);
  if (!c->shared_ffn) return;
  m[BQ_SHARED_SWITCH] = tiny_linear(t, BQ_TYPE_F32, 1, c->hidden, false);
  m[BQ_SHARED_GATE] = tiny_linear(t, type, c->shared_ffn, c->hidden, false);
  m[BQ_SHARED_UP] = tiny_linear(t, type, c->shared_ffn, c->hidden, false);
  m[BQ_SHARED_DOWN] = tiny_linear(t, type, c->hidden, c->shared_ffn, false);
}

static bq_weights tiny_values(tiny_model *t, uint32_t n, float center, float spread) {
  const float *v = tiny_vector(t, n, center, spread);
  return (bq_weights){.w = {.data = (const uint8_t *)(const void *)v, .rows = 1, .cols = n}};
}

static void tiny_convolution(tiny_model *t, bq_type type, bq_weights *m) {
  const bq_config *c = &t->model.config;
  m[BQ_CONV_IN] = tiny_linear(t, type, 3 * c->hidden, c->hidden, false);
  m[BQ_CONV_OUT] = tiny_linear(t, type, c->hidden, c->hidden, false);
  m[BQ_CONV_TAPS] = tiny_values(t, c->hidden * c->conv_size, 0, 1);
}

static void tiny_delta_net(tiny_model *t, bq_type type, bq_weights *m) {
  const bq_config *c = &t->model.config;
  const uint32_t heads = c->state_value_heads, values = heads * c->state_value_dim;
  const uint32_t channels = bq_config_channels(c);
  m[BQ_DELTA_QKV] = tiny_linear(t, type, channels, c->hidden, false);
  m[BQ_DELTA_Z] = tiny_linear(t, type, values, c->hidden, false);
  m[BQ_DELTA_A] = tiny_linear(t, BQ_TYPE_F32, heads, c->hidden, false);
  m[BQ_DELTA_B] = tiny_linear(t, BQ_TYPE_F32, heads, c->hidden, false);
  m[BQ_DELTA_OUT] = tiny_linear(t, type, c->hidden, values, false);
  m[BQ_DELTA_TAPS] = tiny_values(t, channels * c->conv_size, 0, 1);
  m[BQ_DELTA_DT] = tiny_values(t, heads, 0, 1);
  m[BQ_DELTA_DECAY] = tiny_values(t, heads, -0.2f, 0.1f);
  m[BQ_DELTA_NORM] = tiny_values(t, c->state_value_dim, 1, 0.3f);
}

static void tiny_mamba_layer(tiny_model *t, bq_type type, bq_weights *m) {
  const bq_config *c = &t->model.config;
  const uint32_t heads = c->state_value_heads, values = heads * c->state_value_dim;
  const uint32_t channels = bq_config_channels(c);
  m[BQ_MAMBA_IN] = tiny_linear(t, type, values + channels + heads, c->hidden, false);
  m[BQ_MAMBA_OUT] = tiny_linear(t, type, c->hidden, values, false);
  m[BQ_MAMBA_TAPS] = tiny_values(t, channels * c->conv_size, 0, 1);
  m[BQ_MAMBA_BIAS] = tiny_values(t, channels, 0, 0.3f);
  m[BQ_MAMBA_DT] = tiny_values(t, heads, 0, 1);
  m[BQ_MAMBA_DECAY] = tiny_values(t, heads, -0.2f, 0.1f);
  m[BQ_MAMBA_SKIP] = tiny_values(t, heads, 1, 0.3f);
  m[BQ_MAMBA_NORM] = tiny_values(t, values, 1, 0.3f);
}

static void tiny_optional_embeddings(tiny_model *t, bq_type type) {
  bq_model *m = &t->model;
  const bq_config *c = &m->config;
  if (c->token_types) m->wtt = tiny_matrix(t, type, c->token_types, c->hidden);
  if (c->embed_norm) m->ln_0_w = tiny_vector(t, c->hidden, 1, 0.3f);
  for (uint32_t i = 0; i < bq_rope_tables(c) && c->local_theta > 0; i++)
    m->rope[i] = tiny_vector(t, bq_config_rope_dim(c, i) / 2, 2, 1);
  if (!c->layer_embed) return;
  if (bq_config_layer_embeds(c))
    m->layer_embeds = tiny_matrix(t, type, c->vocab, bq_config_layer_embeds(c));
  m->embed_norm_w = tiny_vector(t, c->layer_embed, 1, 0.3f);
}

/* `config` needs layers (<= 4), hidden, heads, ffn, vocab, context; the other fields have defaults.
 * `biases`: whether all linear layers have biases. */
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
  t->model.kinds = t->kinds;
  if (c->position == BQ_POSITION_ALIBI)
    t->model.slopes = tiny_allocate(t, c->heads * sizeof(float));
  bq_model_program(&t->model);
  t->model.ready = BQ_READY_ALL(c->layers);
  const uint32_t d = c->hidden;
  t->model.wte = tiny_matrix(t, type, c->vocab, d);
  if (c->position == BQ_POSITION_LEARNED) t->model.wpe = tiny_matrix(t, type, c->context, d);
  for (uint32_t i = 0; i < c->layers; i++) {
    bq_weights *m = t->layers[i].module;
    const uint32_t *cols = t->layers[i].kind->cols;
    const uint32_t q = cols[BQ_BUFFER_Q], kv = cols[BQ_BUFFER_K], ffn = cols[BQ_BUFFER_UP];
    m[BQ_LN1] = tiny_norm(t, d);
    m[BQ_LN2] = tiny_norm(t, d);
    m[BQ_Q] = tiny_linear(t, type, c->attn_gate == BQ_ATTN_GATE_DIMS ? 2 * q : q, d, biases);
    if (c->attn_sinks) m[BQ_ATTN_SINKS] = tiny_values(t, c->heads, 0.5f, 2);
    if (c->attn_gate == BQ_ATTN_GATE_HEADS)
      m[BQ_ATTN_GATE] = tiny_linear(t, type, c->heads, d, biases);
    m[BQ_K] = tiny_linear(t, type, kv, d, biases);
    m[BQ_V] = tiny_linear(t, type, kv, d, biases);
    m[BQ_O] = tiny_linear(t, type, d, q, biases);
    m[BQ_UP] = tiny_linear(t, type, ffn, d, biases);
    m[BQ_DOWN] = tiny_linear(t, type, d, ffn, biases);
    if (c->gated) m[BQ_GATE] = tiny_linear(t, type, ffn, d, biases);
    tiny_layer_embedding(t, type, m);
    tiny_optional_norms(t, t->layers[i].kind, m);
    if (c->experts) tiny_experts(t, type, m);
    if (bq_config_recurs(c, i))
      (c->mamba               ? tiny_mamba_layer
       : c->state_value_heads ? tiny_delta_net
                              : tiny_convolution)(t, type, m);
  }
  tiny_optional_embeddings(t, type);
  if (c->norm_place != BQ_NORM_POST) t->model.ln_f_w = tiny_vector(t, d, 1, 0.3f);
  t->model.ln_f_b = c->norm == BQ_NORM_LAYER ? tiny_vector(t, d, 0, 0.1f) : NULL;
  t->model.head = c->tied ? t->model.wte : tiny_matrix(t, type, c->vocab, d);
  t->model.head_b = biases ? tiny_vector(t, c->vocab, 0, 0.2f) : NULL;
  if (c->bias_buckets) t->model.biases = tiny_vector(t, (size_t)c->bias_buckets * c->heads, 0, 1);
  if (c->dense1) {
    t->model.dense1 = tiny_linear(t, type, c->dense1, d, biases);
    if (c->norm == BQ_NORM_LAYER) t->model.dense_norm_w = tiny_vector(t, c->dense1, 1, 0.3f);
  }
  if (c->dense2)
    t->model.dense2 = tiny_linear(t, type, c->dense2, c->dense1 ? c->dense1 : d, biases);
  if (c->rope_original) t->model.rope_long = tiny_vector(t, c->rope_dim / 2, 2, 1);
}

static inline void tiny_free(tiny_model *t) {
  for (size_t i = 0; i < t->n_owned; i++) free(t->owned[i]);
}

#endif
