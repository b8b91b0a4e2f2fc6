/* The transcendental functions of the forward pass, made of + - * / sqrt and integer
 * operations alone: libm differs between platforms, these give the same bits on all.
 * The order of every expression is part of the definition; the SIMD kernels repeat
 * bq_expf step by step. */
#ifndef BQ_FMATH_H
#define BQ_FMATH_H

#include <float.h>
#include <stdint.h>

#include "core/half.h"

#if FLT_EVAL_METHOD != 0
#error "bq4 needs floats that are computed as floats: compile for SSE2, not for x87"
#endif

/* An instruction wherever -fno-math-errno is given; IEEE 754 rounds it correctly. */
static inline float bq_sqrtf(float x) { return __builtin_sqrtf(x); }

/* exp(x) = 2^n p(r): n = round(x / ln 2), r = x - n ln 2 in two steps, p a minimax polynomial
 * (relative error 3e-9). Within 1.5 units in the last place; 0 below BQ_EXP_LEAST, so that no
 * subnormal comes out; infinity from 88.73 on. */
#define BQ_EXP_LEAST -87.33f
#define BQ_EXP_MOST 89.0f
#define BQ_EXP_LOG2E 0x1.715476p+0f
#define BQ_EXP_ROUND 0x1.8p23f    /* x + this: an integer in the low bits */
#define BQ_EXP_LN2_HI 0x1.62ep-1f /* few bits: n * hi is exact */
#define BQ_EXP_LN2_LO 0x1.0bfbe8p-15f
#define BQ_EXP_C2 0x1.fffffcp-2f
#define BQ_EXP_C3 0x1.555492p-3f
#define BQ_EXP_C4 0x1.5558f2p-5f
#define BQ_EXP_C5 0x1.1239e2p-7f
#define BQ_EXP_C6 0x1.6a2434p-10f
/* bits(n + ROUND) - BIAS = n + 254: the sum of two exponent fields whose powers multiply to 2^n. */
#define BQ_EXP_BIAS (0x4b400000u - 254u)

static inline float bq_expf(float x) {
  float c = x < BQ_EXP_LEAST ? BQ_EXP_LEAST : x; /* NaN passes both comparisons */
  c = BQ_EXP_MOST < c ? BQ_EXP_MOST : c;
  float shifted = c * BQ_EXP_LOG2E + BQ_EXP_ROUND;
  float n = shifted - BQ_EXP_ROUND;
  float r = (c - n * BQ_EXP_LN2_HI) - n * BQ_EXP_LN2_LO;
  float p = BQ_EXP_C6 * r + BQ_EXP_C5;
  p = p * r + BQ_EXP_C4;
  p = p * r + BQ_EXP_C3;
  p = p * r + BQ_EXP_C2;
  p = (p * (r * r) + r) + 1.0f;
  uint32_t fields = bq_bits_of(shifted) - BQ_EXP_BIAS, half = fields >> 1;
  float e = (p * bq_float_of(half << 23)) * bq_float_of((fields - half) << 23);
  return x < BQ_EXP_LEAST ? 0.0f : e;
}

/* Relative error below 1e-15 |log(result)| + 2e-16; x > 0 and finite, result in double's normal
 * range. */
double bq_log(double x);
double bq_exp(double x);
double bq_pow(double x, double y); /* x > 0 */

/* Absolute error below 3e-16 for |x| <= 2^24. */
void bq_sincos(double x, double *sine, double *cosine);

/* Rotary angles of one position: cs[i] = (cos, sin) of position * theta^(-2i / rope_dim),
 * i in [0, rope_dim / 2), computed in double and rounded once. */
void bq_rope_table(float *cs, uint32_t position, uint32_t rope_dim, float theta);

#endif
