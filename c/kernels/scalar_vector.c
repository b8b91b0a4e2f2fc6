/* Scalar norms, activations, rotary positions: the canonical orders of kernels.h. */
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
  for (size_t i = 0; i < n; i++) y[i] = w ? (x[i] * inv) * w[i] : x[i] * inv;
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

static float gelu_erf(float g) { return (0.5f * g) * (1.0f + bq_erff(0.70710678f * g)); }

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
ACTIVATION_SLOT(gelu_erf)
ACTIVATION_SLOT(relu)

/* --- rotary positions ------------------------------------------------------------------------- */

void bq_scalar_rope(float *x, const float *cs, size_t dim, bool adjacent) {
  for (size_t i = 0; i < dim / 2; i++) {
    float *a = adjacent ? x + 2 * i : x + i, *b = adjacent ? a + 1 : a + dim / 2;
    float c = cs[2 * i], s = cs[2 * i + 1], old_a = *a, old_b = *b;
    *a = old_a * c - old_b * s;
    *b = old_a * s + old_b * c;
  }
}
