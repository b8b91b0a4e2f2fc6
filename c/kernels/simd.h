/* Helpers over vectors of four lanes, for the files compiled with -msimd128. Every function gives
 * the bits of its scalar counterpart. */
#ifndef BQ_KERNELS_SIMD_H
#define BQ_KERNELS_SIMD_H

#include <wasm_simd128.h>

#include "core/fmath.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")
#define KEEP_LOOP _Pragma("clang loop unroll(disable) vectorize(disable)")

/* Returns the pointer through an empty asm that the compiler can't see through, so that constants
 * are loaded from memory and stay in registers. Known constants would be rebuilt (three
 * instructions) at each use. */
INLINE const void *simd_hide(const void *constants) {
  __asm__("" : "+r"(constants) : : "memory");
  return constants;
}

/* Declares an array of uint32_t for simd_hide. Modules of rare types have no static data; there the
 * array is on the stack. */
#ifdef BQ_RARE_MODULE
INLINE uint32_t simd_opaque(uint32_t v) {
  __asm__("" : "+r"(v));
  return v;
}
#define SIMD_CONSTANTS(name, ...)                                    \
  uint32_t name[sizeof((uint32_t[]){__VA_ARGS__}) / 4];              \
  UNROLL for (size_t simd_i = 0; simd_i < sizeof name / 4; simd_i++) \
    name[simd_i] = simd_opaque(((const uint32_t[]){__VA_ARGS__})[simd_i])
#else
#define SIMD_CONSTANTS(name, ...) static const uint32_t name[] = {__VA_ARGS__}
#endif

/* Forces *v to be computed at this point. Otherwise the compiler finishes each sum of a kernel
 * before it starts the next one, and V8, which keeps that order, spills the values that the sums
 * share. */
INLINE void simd_pin(v128_t *v) { __asm__ volatile("" : "+r"(*v)); }

INLINE v128_t simd_zero(void) { return wasm_i32x4_const_splat(0); }

/* Loads the first n (0...4) floats of p, padded with zeros. */
INLINE v128_t simd_load_part(const float *p, size_t n) {
  float part[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < n; i++) part[i] = p[i];
  return wasm_v128_load(part);
}

INLINE void simd_store_part(float *p, v128_t v, size_t n) {
  float part[4];
  wasm_v128_store(part, v);
  for (size_t i = 0; i < n; i++) p[i] = part[i];
}

/* Load and store of the floats i...i+3 of n; floats after the end read as zeros and are not
 * written. */
INLINE v128_t simd_load(const float *p, size_t i, size_t n) {
  return n - i >= 4 ? wasm_v128_load(p + i) : simd_load_part(p + i, n - i);
}
INLINE void simd_store(float *p, v128_t v, size_t i, size_t n) {
  if (n - i >= 4) wasm_v128_store(p + i, v);
  else simd_store_part(p + i, v, n - i);
}

/* (l0 + l1) + (l2 + l3) of each of four vectors. */
INLINE v128_t simd_sum_4(v128_t a, v128_t b, v128_t c, v128_t d) {
  v128_t ab =
      wasm_f32x4_add(wasm_i32x4_shuffle(a, b, 0, 4, 2, 6), wasm_i32x4_shuffle(a, b, 1, 5, 3, 7));
  v128_t cd =
      wasm_f32x4_add(wasm_i32x4_shuffle(c, d, 0, 4, 2, 6), wasm_i32x4_shuffle(c, d, 1, 5, 3, 7));
  return wasm_f32x4_add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5),
                        wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7));
}

INLINE float simd_sum(v128_t v) {
  return (wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1)) +
         (wasm_f32x4_extract_lane(v, 2) + wasm_f32x4_extract_lane(v, 3));
}

INLINE int32_t simd_sum_i32(v128_t v) {
  return (wasm_i32x4_extract_lane(v, 0) + wasm_i32x4_extract_lane(v, 1)) +
         (wasm_i32x4_extract_lane(v, 2) + wasm_i32x4_extract_lane(v, 3));
}

/* The maximum of n >= 1 floats. It is computed in four independent vectors, to hide the latency. */
INLINE float simd_largest(const float *x, size_t n) {
  v128_t m[4];
  size_t i = 0;
  UNROLL for (int j = 0; j < 4; j++) m[j] = wasm_f32x4_splat(x[0]);
  for (; i + 16 <= n; i += 16)
    UNROLL for (int j = 0; j < 4; j++) m[j] = wasm_f32x4_pmax(m[j], wasm_v128_load(x + i + 4 * j));
  m[0] = wasm_f32x4_pmax(wasm_f32x4_pmax(m[0], m[1]), wasm_f32x4_pmax(m[2], m[3]));
  float max = wasm_f32x4_extract_lane(m[0], 0), lane[4];
  wasm_v128_store(lane, m[0]);
  for (size_t j = 1; j < 4; j++) max = max < lane[j] ? lane[j] : max;
  for (; i < n; i++) max = max < x[i] ? x[i] : max;
  return max;
}

/* Constants of simd_exp, loaded once before a loop. */
typedef struct simd_exp_constants {
  v128_t least, most, log2e, round, ln2_hi, ln2_lo, c2, c3, c4, c5, c6, one, bias;
} simd_exp_constants;

INLINE simd_exp_constants simd_exp_prepare(void) {
  static const float constants[] = {
      BQ_EXP_MIN, BQ_EXP_MAX, BQ_EXP_LOG2E, BQ_EXP_ROUND, BQ_EXP_LN2_HI, BQ_EXP_LN2_LO,
      BQ_EXP_C2,    BQ_EXP_C3,   BQ_EXP_C4,    BQ_EXP_C5,    BQ_EXP_C6,     1.0f};
  static const uint32_t bias = BQ_EXP_BIAS;
  const float *c = simd_hide(constants);
  return (simd_exp_constants){
      wasm_v128_load32_splat(c),      wasm_v128_load32_splat(c + 1),
      wasm_v128_load32_splat(c + 2),  wasm_v128_load32_splat(c + 3),
      wasm_v128_load32_splat(c + 4),  wasm_v128_load32_splat(c + 5),
      wasm_v128_load32_splat(c + 6),  wasm_v128_load32_splat(c + 7),
      wasm_v128_load32_splat(c + 8),  wasm_v128_load32_splat(c + 9),
      wasm_v128_load32_splat(c + 10), wasm_v128_load32_splat(c + 11),
      wasm_v128_load32_splat(simd_hide(&bias))};
}

/* exp(x - n ln 2), where `shifted` holds n as simd_exp rounds it: the polynomial of bq_expf. */
INLINE v128_t simd_exp_rest(v128_t x, v128_t shifted, const simd_exp_constants *k) {
  v128_t n = wasm_f32x4_sub(shifted, k->round);
  v128_t r =
      wasm_f32x4_sub(wasm_f32x4_sub(x, wasm_f32x4_mul(n, k->ln2_hi)), wasm_f32x4_mul(n, k->ln2_lo));
  v128_t p = wasm_f32x4_add(wasm_f32x4_mul(k->c6, r), k->c5);
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), k->c4);
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), k->c3);
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), k->c2);
  return wasm_f32x4_add(wasm_f32x4_add(wasm_f32x4_mul(p, wasm_f32x4_mul(r, r)), r), k->one);
}

/* bq_expf of each lane, step by step. */
INLINE v128_t simd_exp(v128_t x, const simd_exp_constants *k) {
  v128_t c = wasm_f32x4_pmin(wasm_f32x4_pmax(x, k->least), k->most);
  v128_t shifted = wasm_f32x4_add(wasm_f32x4_mul(c, k->log2e), k->round);
  v128_t p = simd_exp_rest(c, shifted, k);
  v128_t fields = wasm_i32x4_sub(shifted, k->bias), half = wasm_u32x4_shr(fields, 1);
  v128_t e = wasm_f32x4_mul(wasm_f32x4_mul(p, wasm_i32x4_shl(half, 23)),
                            wasm_i32x4_shl(wasm_i32x4_sub(fields, half), 23));
  return wasm_v128_andnot(e, wasm_f32x4_lt(x, k->least));
}

/* simd_exp of lanes that are at most 0, or NaN. No clamping is needed, because the results of too
 * small values are masked, and one factor suffices, because the power of 2 is at least 2^-126. */
INLINE v128_t simd_exp_below_0(v128_t x, const simd_exp_constants *k) {
  v128_t shifted = wasm_f32x4_add(wasm_f32x4_mul(x, k->log2e), k->round);
  v128_t p = simd_exp_rest(x, shifted, k);
  /* The low bits of `shifted` are n. 2^n is its lowest nine bits in the exponent field, added to 1.
   */
  v128_t power = wasm_i32x4_add(wasm_i32x4_shl(shifted, 23), k->one);
  return wasm_v128_andnot(wasm_f32x4_mul(p, power), wasm_f32x4_lt(x, k->least));
}

/* One step of Horner's rule: p x + c. */
INLINE v128_t simd_horner(v128_t p, v128_t x, float c) {
  return wasm_f32x4_add(wasm_f32x4_mul(p, x), wasm_f32x4_splat(c));
}

/* bq_erff of each lane: computes both branches, then selects. */
INLINE v128_t simd_erf(v128_t x, const simd_exp_constants *k) {
  v128_t sign = wasm_v128_and(x, wasm_i32x4_const_splat((int32_t)0x80000000));
  v128_t t = wasm_v128_xor(x, sign), s = wasm_f32x4_mul(t, t);
  v128_t p = simd_horner(wasm_f32x4_const_splat(BQ_ERF_P6), s, BQ_ERF_P5);
  p = simd_horner(p, s, BQ_ERF_P4);
  p = simd_horner(p, s, BQ_ERF_P3);
  p = simd_horner(p, s, BQ_ERF_P2);
  p = simd_horner(p, s, BQ_ERF_P1);
  p = simd_horner(p, s, BQ_ERF_P0);
  v128_t near = wasm_f32x4_add(t, wasm_f32x4_mul(t, p));
  v128_t c = wasm_f32x4_pmin(t, wasm_f32x4_const_splat(BQ_ERF_MAX));
  v128_t q = simd_horner(wasm_f32x4_const_splat(BQ_ERF_Q6), c, BQ_ERF_Q5);
  q = simd_horner(q, c, BQ_ERF_Q4);
  q = simd_horner(q, c, BQ_ERF_Q3);
  q = simd_horner(q, c, BQ_ERF_Q2);
  q = simd_horner(q, c, BQ_ERF_Q1);
  q = simd_horner(q, c, BQ_ERF_Q0);
  v128_t far = wasm_f32x4_sub(k->one, simd_exp(q, k));
  v128_t small = wasm_f32x4_lt(t, wasm_f32x4_const_splat(BQ_ERF_MIDDLE));
  return wasm_v128_or(wasm_v128_bitselect(near, far, small), sign);
}

/* bq_tanhf of each lane: computes both branches, then selects. */
INLINE v128_t simd_tanh(v128_t x, const simd_exp_constants *k) {
  v128_t sign = wasm_v128_and(x, wasm_i32x4_const_splat((int32_t)0x80000000));
  v128_t t = wasm_v128_xor(x, sign), s = wasm_f32x4_mul(t, t);
  v128_t p = simd_horner(wasm_f32x4_const_splat(BQ_TANH_C4), s, BQ_TANH_C3);
  p = simd_horner(p, s, BQ_TANH_C2);
  p = simd_horner(p, s, BQ_TANH_C1);
  p = simd_horner(p, s, BQ_TANH_C0);
  v128_t near = wasm_f32x4_add(t, wasm_f32x4_mul(t, wasm_f32x4_mul(s, p)));
  v128_t two = wasm_f32x4_const_splat(2.0f);
  v128_t e = wasm_f32x4_add(simd_exp(wasm_f32x4_mul(two, t), k), k->one);
  v128_t far = wasm_f32x4_sub(k->one, wasm_f32x4_div(two, e));
  v128_t small = wasm_f32x4_lt(t, wasm_f32x4_const_splat(BQ_TANH_MIDDLE));
  return wasm_v128_or(wasm_v128_bitselect(near, far, small), sign);
}

/* f16 to f32, as bq_f16_to_f32: the bits are shifted into place with the sign (kept by the mask),
 * then a multiplication corrects the exponent. */
typedef struct simd_f16_constants {
  v128_t mask, size, largest, infinity, unit;
} simd_f16_constants;

INLINE simd_f16_constants simd_f16_prepare(void) {
  SIMD_CONSTANTS(constants, 0x8fffe000u, 0x0fffe000u, 0x0f7fffffu, 0x7f800000u,
                 0x77800000u /* 2^112 */);
  const uint32_t *c = simd_hide(constants);
  return (simd_f16_constants){wasm_v128_load32_splat(c), wasm_v128_load32_splat(c + 1),
                              wasm_v128_load32_splat(c + 2), wasm_v128_load32_splat(c + 3),
                              wasm_v128_load32_splat(c + 4)};
}

/* Widens four finite f16 at p: weights and their scales. */
INLINE v128_t simd_load_f16_finite(const void *p, const simd_f16_constants *k) {
  v128_t h = wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13);
  return wasm_f32x4_mul(wasm_v128_and(h, k->mask), k->unit);
}

/* Widens any four f16 at p: a KV cache may hold infinities. */
INLINE v128_t simd_load_f16(const void *p, const simd_f16_constants *k) {
  v128_t h = wasm_v128_and(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13), k->mask);
  v128_t special = wasm_i32x4_gt(wasm_v128_and(h, k->size), k->largest);
  return wasm_v128_or(wasm_f32x4_mul(h, k->unit), wasm_v128_and(special, k->infinity));
}

INLINE v128_t simd_load_bf16(const void *p) { return wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16); }

/* bq_f32_to_f16 of each lane, in the low halves of 32-bit lanes. */
INLINE v128_t simd_to_f16(v128_t f) {
  v128_t sign = wasm_v128_and(wasm_u32x4_shr(f, 16), wasm_i32x4_const_splat(0x8000));
  v128_t u = wasm_v128_and(f, wasm_i32x4_const_splat(0x7fffffff));
  v128_t top = wasm_u32x4_shr(u, 13);
  v128_t nan = wasm_v128_or(wasm_v128_and(top, wasm_i32x4_const_splat(0x3ff)),
                            wasm_i32x4_const_splat(0x7e00));
  v128_t small = wasm_i32x4_sub(wasm_f32x4_add(u, wasm_f32x4_const_splat(0.5f)),
                                wasm_i32x4_const_splat(0x3f000000));
  v128_t odd = wasm_v128_and(top, wasm_i32x4_const_splat(1));
  v128_t h = wasm_i32x4_add(u, wasm_i32x4_add(odd, wasm_i32x4_const_splat(0xfff - 0x38000000)));
  h = wasm_u32x4_shr(h, 13);
  h = wasm_v128_bitselect(small, h, wasm_i32x4_lt(u, wasm_i32x4_const_splat(0x38800000)));
  h = wasm_v128_bitselect(wasm_i32x4_const_splat(0x7c00), h,
                          wasm_i32x4_gt(u, wasm_i32x4_const_splat(0x477fffff)));
  h = wasm_v128_bitselect(nan, h, wasm_i32x4_gt(u, wasm_i32x4_const_splat(0x7f800000)));
  return wasm_v128_or(h, sign);
}

#endif
