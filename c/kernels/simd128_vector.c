/* Norms, activation functions and rotary embeddings, four lanes at a time. */
#ifdef __wasm_simd128__

#include "kernels/simd.h"
#include "kernels/simd128.h"

/* --- norms ---------------------------------------------------------------------------------- */

/* Sum of (x - mean)^2. Lanes after the end stay zero, which changes no sum (they start at +0). */
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
  size_t i = 0;
  for (; i + 4 <= n; i += 4) sum = wasm_f32x4_add(sum, wasm_v128_load(x + i));
  if (i < n) sum = wasm_f32x4_add(sum, simd_load_part(x + i, n - i));
  return simd_sum(sum);
}

void bq_simd128_rmsnorm(const float *x, const float *w, float eps, size_t n, float *y) {
  v128_t inv =
      wasm_f32x4_splat(1.0f / bq_sqrtf(sum_of_squares(x, simd_zero(), n) / (float)n + eps));
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    v128_t v = wasm_f32x4_mul(wasm_v128_load(x + i), inv);
    wasm_v128_store(y + i, w ? wasm_f32x4_mul(v, wasm_v128_load(w + i)) : v);
  }
  for (; i < n; i++) {
    float v = x[i] * wasm_f32x4_extract_lane(inv, 0);
    y[i] = w ? v * w[i] : v;
  }
}

void bq_simd128_layernorm(const float *x, const float *w, const float *b, float eps, size_t n,
                          float *y) {
  v128_t mean = wasm_f32x4_splat(sum_of(x, n) / (float)n);
  v128_t inv = wasm_f32x4_splat(1.0f / bq_sqrtf(sum_of_squares(x, mean, n) / (float)n + eps));
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    v128_t d = wasm_f32x4_sub(wasm_v128_load(x + i), mean);
    v128_t v = wasm_f32x4_mul(wasm_f32x4_mul(d, inv), wasm_v128_load(w + i));
    wasm_v128_store(y + i, b ? wasm_f32x4_add(v, wasm_v128_load(b + i)) : v);
  }
  for (; i < n; i++) {
    float v = ((x[i] - wasm_f32x4_extract_lane(mean, 0)) * wasm_f32x4_extract_lane(inv, 0)) * w[i];
    y[i] = b ? v + b[i] : v;
  }
}

void bq_simd128_add(float *y, const float *x, size_t n) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4)
    wasm_v128_store(y + i, wasm_f32x4_add(wasm_v128_load(y + i), wasm_v128_load(x + i)));
  for (; i < n; i++) y[i] += x[i];
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

INLINE v128_t gelu_erf(v128_t g, const simd_exp_constants *k) {
  v128_t e = simd_erf(wasm_f32x4_mul(wasm_f32x4_const_splat(0.70710678f), g), k);
  return wasm_f32x4_mul(wasm_f32x4_mul(wasm_f32x4_const_splat(0.5f), g),
                        wasm_f32x4_add(k->one, e));
}

INLINE v128_t relu(v128_t g, const simd_exp_constants *k) {
  (void)k;
  return wasm_f32x4_pmax(simd_zero(), g); /* NaN becomes 0 */
}

/* The last n % 4 elements are computed by the scalar kernel, so that the loop has no other branch.
 */
#define ACTIVATION_SLOT(name)                                            \
  void bq_simd128_##name##_mul(float *gate, const float *up, size_t n) { \
    const simd_exp_constants k = simd_exp_prepare();                     \
    size_t i = 0;                                                        \
    for (; i + 4 <= n; i += 4) {                                         \
      v128_t v = name(wasm_v128_load(gate + i), &k);                     \
      if (up) v = wasm_f32x4_mul(v, wasm_v128_load(up + i));             \
      wasm_v128_store(gate + i, v);                                      \
    }                                                                    \
    bq_scalar_##name##_mul(gate + i, up ? up + i : NULL, n - i);         \
  }

ACTIVATION_SLOT(silu)
ACTIVATION_SLOT(gelu)
ACTIVATION_SLOT(gelu_erf)
ACTIVATION_SLOT(relu)

/* --- rotary positions ------------------------------------------------------------------------- */

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

#else
typedef int no_simd128; /* a translation unit must declare something */
#endif
