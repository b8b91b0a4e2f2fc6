/* Norms, activations, rotary positions and attention, four lanes at a time. */
#ifdef __wasm_simd128__

#include <string.h>

#include "kernels/simd.h"
#include "kernels/simd128.h"

/* --- norms ---------------------------------------------------------------------------------- */

/* sum of (x - mean)^2; lanes behind the end stay zero, which changes no lane (they start at +0). */
INLINE float sum_of_squares(const float *x, v128_t mean, size_t n) {
  v128_t sum = simd_zero();
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    v128_t d = wasm_f32x4_sub(wasm_v128_load(x + i), mean);
    sum = wasm_f32x4_add(sum, wasm_f32x4_mul(d, d));
  }
  if (i < n) {
    float part[4] = {0, 0, 0, 0};
    for (size_t j = i; j < n; j++) part[j - i] = x[j] - wasm_f32x4_extract_lane(mean, 0);
    v128_t d = wasm_v128_load(part);
    sum = wasm_f32x4_add(sum, wasm_f32x4_mul(d, d));
  }
  return simd_sum(sum);
}

INLINE float sum_of(const float *x, size_t n) {
  v128_t sum = simd_zero();
  for (size_t i = 0; i < n; i += 4) sum = wasm_f32x4_add(sum, simd_load(x, i, n));
  return simd_sum(sum);
}

void bq_simd128_rmsnorm(const float *x, const float *w, float eps, size_t n, float *y) {
  v128_t inv =
      wasm_f32x4_splat(1.0f / bq_sqrtf(sum_of_squares(x, simd_zero(), n) / (float)n + eps));
  for (size_t i = 0; i < n; i += 4)
    simd_store(y, wasm_f32x4_mul(wasm_f32x4_mul(simd_load(x, i, n), inv), simd_load(w, i, n)), i,
               n);
}

void bq_simd128_layernorm(const float *x, const float *w, const float *b, float eps, size_t n,
                          float *y) {
  v128_t mean = wasm_f32x4_splat(sum_of(x, n) / (float)n);
  v128_t inv = wasm_f32x4_splat(1.0f / bq_sqrtf(sum_of_squares(x, mean, n) / (float)n + eps));
  for (size_t i = 0; i < n; i += 4) {
    v128_t d = wasm_f32x4_sub(simd_load(x, i, n), mean);
    v128_t v = wasm_f32x4_mul(wasm_f32x4_mul(d, inv), simd_load(w, i, n));
    simd_store(y, b ? wasm_f32x4_add(v, simd_load(b, i, n)) : v, i, n);
  }
}

void bq_simd128_add(float *y, const float *x, size_t n) {
  for (size_t i = 0; i < n; i += 4)
    simd_store(y, wasm_f32x4_add(simd_load(y, i, n), simd_load(x, i, n)), i, n);
}

/* --- activations ------------------------------------------------------------------------------ */

/* g / (1 + exp(e)) */
INLINE v128_t gate_by(v128_t g, v128_t e, const simd_exp_constants *k) {
  return wasm_f32x4_div(g, wasm_f32x4_add(k->one, simd_exp(e, k)));
}

INLINE v128_t silu(v128_t g, const simd_exp_constants *k) {
  return gate_by(g, wasm_f32x4_neg(g), k);
}

INLINE v128_t gelu(v128_t g, const simd_exp_constants *k) {
  v128_t cube = wasm_f32x4_mul(wasm_f32x4_mul(g, g), g);
  v128_t u = wasm_f32x4_add(g, wasm_f32x4_mul(wasm_f32x4_const_splat(0.044715f), cube));
  u = wasm_f32x4_mul(wasm_f32x4_const_splat(0.7978845608f), u);
  return gate_by(g, wasm_f32x4_mul(wasm_f32x4_const_splat(-2.0f), u), k);
}

INLINE v128_t relu(v128_t g, const simd_exp_constants *k) {
  (void)k;
  return wasm_f32x4_pmax(simd_zero(), g); /* NaN becomes 0 */
}

#define ACTIVATION_SLOT(name)                                            \
  void bq_simd128_##name##_mul(float *gate, const float *up, size_t n) { \
    const simd_exp_constants k = simd_exp_prepare();                     \
    for (size_t i = 0; i < n; i += 4) {                                  \
      v128_t v = name(simd_load(gate, i, n), &k);                        \
      if (up) v = wasm_f32x4_mul(v, simd_load(up, i, n));                \
      simd_store(gate, v, i, n);                                         \
    }                                                                    \
  }

ACTIVATION_SLOT(silu)
ACTIVATION_SLOT(gelu)
ACTIVATION_SLOT(relu)

/* --- attention -------------------------------------------------------------------------------- */

void bq_simd128_rope(float *x, const float *cs, size_t dim, bool adjacent) {
  if (dim % 8) {
    bq_scalar_rope(x, cs, dim, adjacent);
    return;
  }
  for (size_t i = 0; i < dim / 2; i += 4) { /* four pairs */
    v128_t cs0 = wasm_v128_load(cs + 2 * i), cs1 = wasm_v128_load(cs + 2 * i + 4);
    v128_t c = wasm_i32x4_shuffle(cs0, cs1, 0, 2, 4, 6),
           s = wasm_i32x4_shuffle(cs0, cs1, 1, 3, 5, 7);
    float *p = adjacent ? x + 2 * i : x + i, *q = adjacent ? p + 4 : p + dim / 2;
    v128_t a = wasm_v128_load(p), b = wasm_v128_load(q);
    if (adjacent) {
      v128_t pairs0 = a, pairs1 = b;
      a = wasm_i32x4_shuffle(pairs0, pairs1, 0, 2, 4, 6);
      b = wasm_i32x4_shuffle(pairs0, pairs1, 1, 3, 5, 7);
    }
    v128_t new_a = wasm_f32x4_sub(wasm_f32x4_mul(a, c), wasm_f32x4_mul(b, s));
    v128_t new_b = wasm_f32x4_add(wasm_f32x4_mul(a, s), wasm_f32x4_mul(b, c));
    if (adjacent) {
      wasm_v128_store(p, wasm_i32x4_shuffle(new_a, new_b, 0, 4, 1, 5));
      wasm_v128_store(q, wasm_i32x4_shuffle(new_a, new_b, 2, 6, 3, 7));
    } else {
      wasm_v128_store(p, new_a);
      wasm_v128_store(q, new_b);
    }
  }
}

INLINE float largest(const float *x, size_t n) {
  v128_t m = wasm_f32x4_splat(x[0]);
  size_t i = 0;
  for (; i + 4 <= n; i += 4) m = wasm_f32x4_pmax(m, wasm_v128_load(x + i));
  float max = wasm_f32x4_extract_lane(m, 0), lane[4];
  wasm_v128_store(lane, m);
  for (size_t j = 1; j < 4; j++) max = max < lane[j] ? lane[j] : max;
  for (; i < n; i++) max = max < x[i] ? x[i] : max;
  return max;
}

void bq_simd128_softmax(float *x, size_t n) {
  const simd_exp_constants k = simd_exp_prepare();
  const float max = largest(x, n);
  v128_t sum = simd_zero();
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    v128_t e = simd_exp(wasm_f32x4_sub(wasm_v128_load(x + i), wasm_f32x4_splat(max)), &k);
    wasm_v128_store(x + i, e);
    sum = wasm_f32x4_add(sum, e);
  }
  for (size_t j = i; j < n; j++) x[j] = bq_expf(x[j] - max);
  sum = wasm_f32x4_add(sum, simd_load_part(x + i, n - i));
  v128_t inv = wasm_f32x4_splat(1.0f / simd_sum(sum));
  for (size_t j = 0; j < n; j += 4) simd_store(x, wasm_f32x4_mul(simd_load(x, j, n), inv), j, n);
}

/* Four cached elements as f32. */
INLINE v128_t load_kv(bq_kv_type type, const void *p, size_t i, const simd_f16_constants *c) {
  if (type == BQ_KV_F32) return wasm_v128_load((const float *)p + i);
  return simd_load_f16((const uint16_t *)p + i, c);
}

/* scores[j] = dot(q, k[j]) * scale for N (4 or 1) positions, each with its own four lanes. */
INLINE void score(bq_kv_type type, int N, const float *q, const void *k, size_t from, size_t stride,
                  size_t head_dim, float scale, float *scores) {
  const simd_f16_constants c = simd_f16_prepare();
  v128_t sum[4] = {simd_zero(), simd_zero(), simd_zero(), simd_zero()};
  for (size_t d = 0; d < head_dim; d += 4) {
    v128_t x = wasm_v128_load(q + d);
    UNROLL for (int i = 0; i < N; i++) {
      v128_t product = wasm_f32x4_mul(x, load_kv(type, k, from + i * stride + d, &c));
      sum[i] = wasm_f32x4_add(sum[i], product);
    }
  }
  if (N == 4) {
    v128_t dots = simd_sum_4(sum[0], sum[1], sum[2], sum[3]);
    wasm_v128_store(scores, wasm_f32x4_mul(dots, wasm_f32x4_splat(scale)));
  } else {
    scores[0] = simd_sum(sum[0]) * scale;
  }
}

/* y[0...4N-1] = sum over positions of scores[j] * v[j], N accumulators that never leave their
 * registers. */
INLINE void mix(bq_kv_type type, int N, const float *scores, size_t positions, const void *v,
                size_t from, size_t stride, float *y) {
  const simd_f16_constants c = simd_f16_prepare();
  v128_t sum[8];
  UNROLL for (int i = 0; i < N; i++)
    sum[i] = simd_zero();
  for (size_t j = 0; j < positions; j++, from += stride) {
    v128_t s = wasm_v128_load32_splat(scores + j);
    UNROLL for (int i = 0; i < N; i++)
      sum[i] = wasm_f32x4_add(sum[i], wasm_f32x4_mul(s, load_kv(type, v, from + 4 * i, &c)));
  }
  UNROLL for (int i = 0; i < N; i++)
    wasm_v128_store(y + 4 * i, sum[i]);
}

INLINE void attend(bq_kv_type type, const float *q, const bq_kv_view *kv, size_t positions,
                   size_t head_dim, float scale, float *scores, float *y) {
  size_t j = 0, d = 0;
  for (; j + 4 <= positions; j += 4)
    score(type, 4, q, kv->k, j * kv->stride, kv->stride, head_dim, scale, scores + j);
  for (; j < positions; j++)
    score(type, 1, q, kv->k, j * kv->stride, kv->stride, head_dim, scale, scores + j);
  bq_simd128_softmax(scores, positions);
  for (; d + 32 <= head_dim; d += 32) mix(type, 8, scores, positions, kv->v, d, kv->stride, y + d);
  for (; d + 16 <= head_dim; d += 16) mix(type, 4, scores, positions, kv->v, d, kv->stride, y + d);
  for (; d < head_dim; d += 4) mix(type, 1, scores, positions, kv->v, d, kv->stride, y + d);
}

#define ATTEND_SLOT(name, type)                                                              \
  void bq_simd128_attend_##name(const float *q, const bq_kv_view *kv, size_t positions,      \
                                size_t head_dim, float scale, float *scores, float *y) {     \
    if (head_dim % 4) bq_scalar_attend_##name(q, kv, positions, head_dim, scale, scores, y); \
    else attend(type, q, kv, positions, head_dim, scale, scores, y);                         \
  }

ATTEND_SLOT(f32, BQ_KV_F32)
ATTEND_SLOT(f16, BQ_KV_F16)

void bq_simd128_kv_store_f16(const float *x, size_t n, void *row) {
  uint16_t *h = row;
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    wasm_v128_store(h + i, wasm_u16x8_narrow_i32x4(simd_to_f16(wasm_v128_load(x + i)),
                                                   simd_to_f16(wasm_v128_load(x + i + 4))));
  bq_scalar_kv_store_f16(x + i, n - i, h + i);
}

#else
typedef int no_simd128; /* a translation unit must declare something */
#endif
