/* Four lanes at a time: helpers for the files compiled with -msimd128. Every function gives the
 * bits of its scalar counterpart. */
#ifndef BQ_KERNELS_SIMD_H
#define BQ_KERNELS_SIMD_H

#include <wasm_simd128.h>

#include "core/fmath.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

/* The compiler may no longer know where v came from. Constants then stay in a register instead of
 * being made anew (three instructions) at each use, and sums keep the order they are written in,
 * without which the compiler computes all products first and spills them. */
INLINE v128_t simd_keep(v128_t v) {
#if __clang_major__ > 20 /* clang 19 takes no vectors here; no bit depends on it */
  __asm__("" : "+r"(v));
#endif
  return v;
}

INLINE v128_t simd_zero(void) { return wasm_i32x4_const_splat(0); }

/* The first n (0...4) floats of p, then zeros. */
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

/* Floats i...i+3 of n, zeros behind the end; and their counterpart. */
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

/* What simd_exp needs; made once before a loop. */
typedef struct simd_exp_constants {
  v128_t least, most, log2e, round, ln2_hi, ln2_lo, c2, c3, c4, c5, c6, one, bias;
} simd_exp_constants;

#define KEEP_F32(x) simd_keep(wasm_f32x4_const_splat(x))
#define KEEP_I32(x) simd_keep(wasm_i32x4_const_splat((int32_t)(x)))

INLINE simd_exp_constants simd_exp_prepare(void) {
  return (simd_exp_constants){
      KEEP_F32(BQ_EXP_LEAST), KEEP_F32(BQ_EXP_MOST),   KEEP_F32(BQ_EXP_LOG2E),
      KEEP_F32(BQ_EXP_ROUND), KEEP_F32(BQ_EXP_LN2_HI), KEEP_F32(BQ_EXP_LN2_LO),
      KEEP_F32(BQ_EXP_C2),    KEEP_F32(BQ_EXP_C3),     KEEP_F32(BQ_EXP_C4),
      KEEP_F32(BQ_EXP_C5),    KEEP_F32(BQ_EXP_C6),     KEEP_F32(1.0f),
      KEEP_I32(BQ_EXP_BIAS)};
}

/* bq_expf of each lane, step by step. */
INLINE v128_t simd_exp(v128_t x, const simd_exp_constants *k) {
  v128_t c = wasm_f32x4_pmin(wasm_f32x4_pmax(x, k->least), k->most);
  v128_t shifted = wasm_f32x4_add(wasm_f32x4_mul(c, k->log2e), k->round);
  v128_t n = wasm_f32x4_sub(shifted, k->round);
  v128_t r =
      wasm_f32x4_sub(wasm_f32x4_sub(c, wasm_f32x4_mul(n, k->ln2_hi)), wasm_f32x4_mul(n, k->ln2_lo));
  v128_t p = wasm_f32x4_add(wasm_f32x4_mul(k->c6, r), k->c5);
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), k->c4);
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), k->c3);
  p = wasm_f32x4_add(wasm_f32x4_mul(p, r), k->c2);
  p = wasm_f32x4_add(wasm_f32x4_add(wasm_f32x4_mul(p, wasm_f32x4_mul(r, r)), r), k->one);
  v128_t fields = wasm_i32x4_sub(shifted, k->bias), half = wasm_u32x4_shr(fields, 1);
  v128_t e = wasm_f32x4_mul(wasm_f32x4_mul(p, wasm_i32x4_shl(half, 23)),
                            wasm_i32x4_shl(wasm_i32x4_sub(fields, half), 23));
  return wasm_v128_andnot(e, wasm_f32x4_lt(x, k->least));
}

/* f16 to f32: shifted into place with the sign (kept by the mask), then the exponent mended by a
 * multiplication, as bq_f16_to_f32 does. */
typedef struct simd_f16_constants {
  v128_t mask, size, largest, infinity, unit;
} simd_f16_constants;

INLINE simd_f16_constants simd_f16_prepare(void) {
  return (simd_f16_constants){KEEP_I32(0x8fffe000), KEEP_I32(0x0fffe000), KEEP_I32(0x0f7fffff),
                              KEEP_I32(0x7f800000), KEEP_F32(0x1p112f)};
}

/* Four f16 at p that are neither infinite nor NaN: weights and their scales. */
INLINE v128_t simd_load_f16_finite(const void *p, const simd_f16_constants *k) {
  v128_t h = wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13);
  return wasm_f32x4_mul(wasm_v128_and(h, k->mask), k->unit);
}

/* Any four f16 at p: a KV cache may hold infinities. */
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
