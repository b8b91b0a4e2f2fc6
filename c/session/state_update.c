#include "session/state_update.h"

#include <string.h>

#include "core/fmath.h"

/* The iterations of the loop that follows are independent, although `from` and `to` may be equal.
 * Without this, compilers check for overlap, and compute equal ones without vectors. */
#ifdef __clang__
/* Builds for tests and fuzzers, with sanitizers or little optimization, have no vectors. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define INDEPENDENT \
  _Pragma("clang loop vectorize(assume_safety) interleave(disable) unroll(disable)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Returns n, a multiple of the lanes of a vector, in a form that shows it: so compilers add no loop
 * for a remainder. */
static size_t round_to_lanes(size_t n) { return n & ~(size_t)(BQ_STATE_LANES - 1); }

/* Four rows are computed together, so that sums over rows are loaded and stored once for them. */

void bq_state_multiply(const float *s, size_t rows, size_t cols, float decay, const float *k,
                       float *sum) {
  const size_t n = round_to_lanes(cols);
  memset(sum, 0, cols * sizeof *sum);
  for (size_t i = 0; i < rows; i += 4, s += 4 * cols) {
    const float k0 = k[i], k1 = k[i + 1], k2 = k[i + 2], k3 = k[i + 3];
    const float *s1 = s + cols, *s2 = s1 + cols, *s3 = s2 + cols;
    INDEPENDENT
    for (size_t j = 0; j < n; j++)
      sum[j] = sum[j] + s[j] * decay * k0 + s1[j] * decay * k1 + s2[j] * decay * k2 +
               s3[j] * decay * k3;
  }
}

void bq_state_update(const float *from, float *to, size_t rows, size_t cols, float decay,
                     const float *q, const float *k, const float *v, float *out) {
  const size_t n = round_to_lanes(cols);
  memset(out, 0, cols * sizeof *out);
  for (size_t i = 0; i < rows; i += 4, from += 4 * cols, to += 4 * cols) {
    const float k0 = k[i], k1 = k[i + 1], k2 = k[i + 2], k3 = k[i + 3];
    const float q0 = q[i], q1 = q[i + 1], q2 = q[i + 2], q3 = q[i + 3];
    INDEPENDENT
    for (size_t j = 0; j < n; j++) {
      const float s0 = from[j] * decay + k0 * v[j];
      const float s1 = from[cols + j] * decay + k1 * v[j];
      const float s2 = from[2 * cols + j] * decay + k2 * v[j];
      const float s3 = from[3 * cols + j] * decay + k3 * v[j];
      to[j] = s0;
      to[cols + j] = s1;
      to[2 * cols + j] = s2;
      to[3 * cols + j] = s3;
      out[j] = out[j] + s0 * q0 + s1 * q1 + s2 * q2 + s3 * q3;
    }
  }
}

void bq_convolve_4(const float *taps, float *state, size_t stride, float *row, size_t n) {
  float *middle = state + stride, *newest = middle + stride;
  n = round_to_lanes(n);
  INDEPENDENT
  for (size_t i = 0; i < n; i++) {
    const float *tap = taps + 4 * i, x = row[i];
    /* From 0, which makes a sum of -0 to 0. */
    const float sum = 0.0f + tap[0] * state[i] + tap[1] * middle[i] + tap[2] * newest[i];
    state[i] = middle[i];
    middle[i] = newest[i];
    newest[i] = x;
    row[i] = sum + tap[3] * x;
  }
}

void bq_swish(float *x, size_t n) {
  n = round_to_lanes(n);
  INDEPENDENT
  for (size_t i = 0; i < n; i++) x[i] *= 1.0f / (1.0f + bq_expf(-x[i]));
}
