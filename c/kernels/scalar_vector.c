/* Scalar norms, activations, rotary positions, attention: the canonical orders of kernels.h. */
#include <string.h>

#include "core/fmath.h"
#include "kernels/scalar.h"

/* --- sums ----------------------------------------------------------------------------------- */

static float sum_lanes(const float lane[4]) { return (lane[0] + lane[1]) + (lane[2] + lane[3]); }

static float sum(const float *x, size_t n) {
  float lane[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < n; i++) lane[i % 4] += x[i];
  return sum_lanes(lane);
}

static float sum_of_squares(const float *x, float mean, size_t n) {
  float lane[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < n; i++) lane[i % 4] += (x[i] - mean) * (x[i] - mean);
  return sum_lanes(lane);
}

/* --- norms ---------------------------------------------------------------------------------- */

void bq_scalar_rmsnorm(const float *x, const float *w, float eps, size_t n, float *y) {
  float inv = 1.0f / bq_sqrtf(sum_of_squares(x, 0.0f, n) / (float)n + eps);
  for (size_t i = 0; i < n; i++) y[i] = (x[i] * inv) * w[i];
}

void bq_scalar_layernorm(const float *x, const float *w, const float *b, float eps, size_t n,
                         float *y) {
  float mean = sum(x, n) / (float)n;
  float inv = 1.0f / bq_sqrtf(sum_of_squares(x, mean, n) / (float)n + eps);
  for (size_t i = 0; i < n; i++) {
    float v = ((x[i] - mean) * inv) * w[i];
    y[i] = b ? v + b[i] : v;
  }
}

void bq_scalar_add(float *y, const float *x, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] += x[i];
}

/* --- activations ------------------------------------------------------------------------------ */

static float silu(float g) { return g / (1.0f + bq_expf(-g)); }

static float gelu(float g) {
  float u = 0.7978845608f * (g + 0.044715f * ((g * g) * g));
  return g / (1.0f + bq_expf(-2.0f * u));
}

static float relu(float g) { return g > 0.0f ? g : 0.0f; }

#define ACTIVATION_SLOT(name)                                           \
  void bq_scalar_##name##_mul(float *gate, const float *up, size_t n) { \
    for (size_t i = 0; i < n; i++) {                                    \
      float v = name(gate[i]);                                          \
      gate[i] = up ? v * up[i] : v;                                     \
    }                                                                   \
  }

ACTIVATION_SLOT(silu)
ACTIVATION_SLOT(gelu)
ACTIVATION_SLOT(relu)

/* --- attention -------------------------------------------------------------------------------- */

void bq_scalar_rope(float *x, const float *cs, size_t dim, bool adjacent) {
  for (size_t i = 0; i < dim / 2; i++) {
    float *a = adjacent ? x + 2 * i : x + i, *b = adjacent ? a + 1 : a + dim / 2;
    float c = cs[2 * i], s = cs[2 * i + 1], old_a = *a, old_b = *b;
    *a = old_a * c - old_b * s;
    *b = old_a * s + old_b * c;
  }
}

void bq_scalar_softmax(float *x, size_t n) {
  float max = x[0];
  for (size_t i = 1; i < n; i++) max = max < x[i] ? x[i] : max;
  for (size_t i = 0; i < n; i++) x[i] = bq_expf(x[i] - max);
  float inv = 1.0f / sum(x, n);
  for (size_t i = 0; i < n; i++) x[i] *= inv;
}

static float load_f32(const void *p, size_t i) { return ((const float *)p)[i]; }
static float load_f16(const void *p, size_t i) { return bq_f16_to_f32(((const uint16_t *)p)[i]); }

#define ATTEND_SLOT(name, load)                                                                    \
  void bq_scalar_attend_##name(const float *q, const bq_kv_view *kv, size_t positions,             \
                               size_t head_dim, float scale, float *scores, float *y) {            \
    for (size_t j = 0; j < positions; j++) {                                                       \
      float lane[4] = {0, 0, 0, 0};                                                                \
      for (size_t d = 0; d < head_dim; d++) lane[d % 4] += q[d] * load(kv->k, j * kv->stride + d); \
      scores[j] = sum_lanes(lane) * scale;                                                         \
    }                                                                                              \
    bq_scalar_softmax(scores, positions);                                                          \
    for (size_t d = 0; d < head_dim; d++) y[d] = 0.0f;                                             \
    for (size_t j = 0; j < positions; j++)                                                         \
      for (size_t d = 0; d < head_dim; d++) y[d] += scores[j] * load(kv->v, j * kv->stride + d);   \
  }

ATTEND_SLOT(f32, load_f32)
ATTEND_SLOT(f16, load_f16)

void bq_scalar_kv_store_f32(const float *x, size_t n, void *row) { memcpy(row, x, n * sizeof *x); }

void bq_scalar_kv_store_f16(const float *x, size_t n, void *row) {
  uint16_t *h = row;
  for (size_t i = 0; i < n; i++) h[i] = bq_f32_to_f16(x[i]);
}
