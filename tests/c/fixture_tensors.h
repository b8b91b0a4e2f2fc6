/* The tensors of a configuration, in execution order, with random weights. Included by fixture.c
 * only. */
#ifndef FIXTURE_TENSORS_H
#define FIXTURE_TENSORS_H

#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "core/dequantize.h"
#include "fixture.h"
#include "quant/encode.h"

/* Ends the program if an allocation has failed. */
static void *check_allocation(void *p) {
  if (p) return p;
  fprintf(stderr, "fixture: out of memory\n");
  exit(1);
}

/* Ends the program after an error. */
static void check_status(bq_status status, const bq_error *err, const char *what) {
  if (status == BQ_OK) return;
  fprintf(stderr, "fixture: %s: %s: %s\n", what, bq_status_name(status), err->detail);
  exit(1);
}

/* --- weights -------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* An approximately normal number with standard deviation 1: the sum of 12 uniform numbers. */
static float random_weight(uint64_t *state) {
  float sum = -6.0f;
  for (int i = 0; i < 12; i++) sum += (float)(next_random(state) >> 40) * 0x1p-24f;
  return sum;
}

static float inverse_root(float n) {
  float x = 1.0f;
  for (int i = 0; i < 60; i++) x = 0.5f * (x + n / x); /* Newton's method, without libm */
  return 1.0f / x;
}

typedef struct builder {
  const fixture_spec *spec;
  fixture *out;
  uint64_t random;
} builder;

static size_t weights_of(const fixture_tensor *t) {
  return (size_t)t->dims[0] * (t->ndims == 2 ? t->dims[1] : 1);
}

/* The block size in v1 for n weights; 0: no block size divides n. */
static uint32_t v1_block(const fixture_spec *spec, size_t n) {
  uint32_t expected = spec->block ? spec->block : 32;
  return n % expected == 0 ? expected : n % 16 == 0 ? 16 : 0;
}

static void choose_encoding(const fixture_spec *spec, fixture_tensor *t, bool embedding) {
  if (spec->version == 1) {
    uint32_t block = v1_block(spec, weights_of(t));
    t->type = block == 16   ? BQ_TYPE_BQ4_16
              : block == 32 ? BQ_TYPE_BQ4_32
              : block == 64 ? BQ_TYPE_BQ4_64
                            : BQ_TYPE_F32;
    t->layout = block ? BQ_FLAT : BQ_ROWS;
    return;
  }
  t->type = t->ndims == 1 ? spec->vector_type : embedding ? spec->embed_type : spec->type;
  t->layout = spec->layout == BQ_TILED && t->ndims == 2 ? bq_type_compute_layout(t->type) : BQ_ROWS;
}

/* Encodes `input` to `stored`, and decodes that to `values`. For a type without an encoder: creates
 * random blocks in `stored`, and decodes them to `values` and `input`. */
static void encode(builder *m, fixture_tensor *t, size_t rows, size_t cols, float scale) {
  const bq_type_facts *facts = bq_type_get(t->type);
  bq_error err = {0};
  if (facts->encoded) {
    check_status(bq_quantize(t->type, t->layout, t->input, rows, cols, t->stored, &err), &err,
                 t->name);
  } else {
    const size_t bytes = (size_t)bq_type_bytes(t->type, BQ_ROWS, rows, cols);
    uint8_t *blocks = check_allocation(malloc(bytes));
    random_blocks(facts, blocks, bytes / facts->block_bytes, scale, &m->random);
    if (t->layout == BQ_TILED) tile_blocks(t->type, blocks, rows, cols, t->stored);
    else memcpy(t->stored, blocks, bytes);
    free(blocks);
  }
  check_status(bq_dequantize(t->type, t->layout, t->stored, rows, cols, t->values, &err), &err,
               t->name);
  if (!facts->encoded) memcpy(t->input, t->values, rows * cols * sizeof *t->values);
}

static void add_tensor(builder *m, const char *name, int layer, const char *part, uint32_t rows,
                       uint32_t cols) {
  fixture *f = m->out;
  f->tensors = check_allocation(realloc(f->tensors, (f->n_tensors + 1) * sizeof *f->tensors));
  fixture_tensor *t = &f->tensors[f->n_tensors++];
  *t = (fixture_tensor){.ndims = cols ? 2 : 1, .dims = {rows, cols}};
  if (layer < 0) snprintf(t->name, sizeof t->name, "%s.%s", name, part);
  else snprintf(t->name, sizeof t->name, "h.%d.%s.%s", layer, name, part);
  choose_encoding(m->spec, t, layer < 0);

  size_t n = weights_of(t);
  bool norm = !cols && strcmp(part, "weight") == 0;
  float size = norm || !cols ? 0.1f : inverse_root((float)cols);
  t->input = check_allocation(malloc(n * sizeof(float)));
  t->values = check_allocation(malloc(n * sizeof(float)));
  for (size_t i = 0; i < n; i++)
    t->input[i] = random_weight(&m->random) * size + (norm ? 1.0f : 0.0f);
  size_t r = cols ? rows : 1, c = cols ? cols : rows;
  uint64_t bytes = bq_type_bytes(t->type, t->layout, r, c);
  t->stored = check_allocation(malloc((size_t)bytes));
  encode(m, t, r, c, size / 8);
  bool extra = m->spec->version == 1 && t->layout != BQ_FLAT;
  t->bytes = extra ? 0 : bytes;
}

static void add_vector(builder *m, const char *name, int layer, const char *part, uint32_t n) {
  add_tensor(m, name, layer, part, n, 0);
}

/* Adds a matrix and, if the spec has biases, its bias. */
static void add_linear(builder *m, const char *name, int layer, uint32_t rows, uint32_t cols) {
  add_tensor(m, name, layer, "weight", rows, cols);
  if (m->spec->biases) add_vector(m, name, layer, "bias", rows);
}

static void add_norm_of(builder *m, const char *name, int layer, uint32_t n) {
  add_vector(m, name, layer, "weight", n);
  if (m->spec->biases && m->spec->config.norm == BQ_NORM_LAYER)
    add_vector(m, name, layer, "bias", n);
}

static void add_norm(builder *m, const char *name, int layer) {
  add_norm_of(m, name, layer, m->spec->config.hidden);
}

/* --- tensors -------------------------------------------------------------------------------- */

static void add_attention(builder *m, int i) {
  const bq_config *c = &m->spec->config;
  uint32_t q_dim = c->heads * c->head_dim, kv_dim = c->kv_heads * c->head_dim;
  /* Each head is normalized with the same weights. */
  const bool each = c->qk_norm == BQ_QK_HEADS || c->qk_norm == BQ_QK_ROTATED;
  if (m->spec->fused) {
    add_linear(m, "attn.qkv", i, q_dim + 2 * kv_dim, c->hidden);
  } else {
    add_linear(m, "attn.q", i, (c->attn_gate == BQ_ATTN_GATE_DIMS ? 2 : 1) * q_dim, c->hidden);
    add_linear(m, "attn.k", i, kv_dim, c->hidden);
    add_linear(m, "attn.v", i, kv_dim, c->hidden);
  }
  if (c->attn_gate == BQ_ATTN_GATE_HEADS) add_linear(m, "attn.gate", i, c->heads, c->hidden);
  if (c->qk_norm) add_norm_of(m, "attn.q_norm", i, each ? c->head_dim : q_dim);
  if (c->qk_norm) add_norm_of(m, "attn.k_norm", i, each ? c->head_dim : kv_dim);
  if (c->attn_sinks) add_tensor(m, "attn.sinks", i, "weight", c->heads, 0);
  if (c->sub_norms) add_norm_of(m, "attn.sub_norm", i, q_dim);
  add_linear(m, "attn.o", i, c->hidden, q_dim);
}

/* Adds a matrix without a bias. */
static void add_matrix(builder *m, const char *name, int layer, uint32_t rows, uint32_t cols) {
  add_tensor(m, name, layer, "weight", rows, cols);
}

static void add_convolution(builder *m, int i) {
  const bq_config *c = &m->spec->config;
  add_linear(m, "conv.in", i, 3 * c->hidden, c->hidden);
  add_vector(m, "conv.taps", i, "weight", c->hidden * c->conv_size);
  add_linear(m, "conv.out", i, c->hidden, c->hidden);
}

static void add_delta(builder *m, int i) {
  const bq_config *c = &m->spec->config;
  const uint32_t values = c->state_value_heads * c->state_value_dim;
  const uint32_t channels = 2 * c->state_key_heads * c->state_key_dim + values;
  add_matrix(m, "delta.in", i, channels, c->hidden);
  add_matrix(m, "delta.z", i, values, c->hidden);
  add_matrix(m, "delta.a", i, c->state_value_heads, c->hidden);
  add_matrix(m, "delta.b", i, c->state_value_heads, c->hidden);
  add_vector(m, "delta.taps", i, "weight", channels * c->conv_size);
  add_vector(m, "delta.dt", i, "weight", c->state_value_heads);
  add_vector(m, "delta.decay", i, "weight", c->state_value_heads);
  add_vector(m, "delta.norm", i, "weight", c->state_value_dim);
  add_matrix(m, "delta.out", i, c->hidden, values);
}

static void add_mamba(builder *m, int i) {
  const bq_config *c = &m->spec->config;
  const uint32_t values = c->state_value_heads * c->state_value_dim;
  const uint32_t channels = 2 * c->state_key_heads * c->state_key_dim + values;
  add_linear(m, "mamba.in", i, values + channels + c->state_value_heads, c->hidden);
  add_vector(m, "mamba.taps", i, "weight", channels * c->conv_size);
  add_vector(m, "mamba.bias", i, "weight", channels);
  add_vector(m, "mamba.dt", i, "weight", c->state_value_heads);
  add_vector(m, "mamba.decay", i, "weight", c->state_value_heads);
  add_vector(m, "mamba.skip", i, "weight", c->state_value_heads);
  if (c->mamba != BQ_MAMBA_GATE) add_vector(m, "mamba.norm", i, "weight", values);
  add_linear(m, "mamba.out", i, c->hidden, values);
}

/* Adds the operations of layer i that combine positions: attention, recurrence, or both. */
static void add_mixer(builder *m, int i) {
  const bq_config *c = &m->spec->config;
  const bool recurs = bq_layer_set_has(&c->conv_layers, (uint32_t)i);
  if (!recurs || c->attn_beside) add_attention(m, i);
  if (!recurs) return;
  (c->mamba ? add_mamba : c->state_value_heads ? add_delta : add_convolution)(m, i);
}

static void add_stacked(builder *m, const char *name, int layer, uint32_t rows, uint32_t cols) {
  const uint32_t experts = m->spec->config.experts;
  add_tensor(m, name, layer, "weight", experts * rows, cols);
  m->out->tensors[m->out->n_tensors - 1].stacked = experts;
}

static void add_experts(builder *m, int i) {
  const bq_config *c = &m->spec->config;
  add_linear(m, "mlp.router", i, c->experts, c->hidden);
  if (c->gated) add_stacked(m, "mlp.experts.gate", i, c->expert_ffn, c->hidden);
  add_stacked(m, "mlp.experts.up", i, c->expert_ffn, c->hidden);
  add_stacked(m, "mlp.experts.down", i, c->hidden, c->expert_ffn);
}

static void add_mlp(builder *m, int i) {
  const bq_config *c = &m->spec->config;
  if (m->spec->fused && c->gated) {
    add_linear(m, "mlp.gate_up", i, 2 * c->ffn, c->hidden);
  } else {
    if (c->gated) add_linear(m, "mlp.gate", i, c->ffn, c->hidden);
    add_linear(m, "mlp.up", i, c->ffn, c->hidden);
  }
  if (c->sub_norms) add_norm_of(m, "mlp.sub_norm", i, c->ffn);
  add_linear(m, "mlp.down", i, c->hidden, c->ffn);
}

static void add_embeddings(builder *m) {
  const bq_config *c = &m->spec->config;
  add_tensor(m, "wte", -1, "weight", c->vocab, c->hidden);
  if (c->position == BQ_POSITION_LEARNED)
    add_tensor(m, "wpe", -1, "weight", c->context, c->hidden);
  if (c->token_types) add_tensor(m, "wtt", -1, "weight", c->token_types, c->hidden);
  if (c->embed_norm) add_norm(m, "ln_0", -1);
  if (m->spec->factors) add_vector(m, "rope", -1, "factors", c->rope_dim / 2);
  if (m->spec->factors && c->local_theta > 0)
    add_vector(m, "rope", -1, "local_factors", c->rope_dim / 2);
}

static void add_tensors(builder *m) {
  const bq_config *c = &m->spec->config;
  const bool before = c->norm_place == BQ_NORM_PRE || c->norm_place == BQ_NORM_SANDWICH;
  const bool after = c->norm_place != BQ_NORM_PRE;
  add_embeddings(m);
  for (int i = 0; i < (int)c->layers; i++) {
    if (before) add_norm(m, "ln1", i);
    add_mixer(m, i);
    if (after) add_norm(m, "ln1_post", i);
    if (before && c->block != BQ_BLOCK_SHARED) add_norm(m, "ln2", i);
    const bool dense = !c->experts || bq_layer_set_has(&c->dense_layers, (uint32_t)i);
    (dense ? add_mlp : add_experts)(m, i);
    if (after) add_norm(m, "ln2_post", i);
  }
  if (c->norm_place != BQ_NORM_POST) add_norm(m, "ln_f", -1);
  if (c->no_head) return;
  if (!c->tied) add_tensor(m, "lm_head", -1, "weight", c->vocab, c->hidden);
  if (m->spec->biases) add_vector(m, "lm_head", -1, "bias", c->vocab);
}

#endif
