/* Transcendental functions of the forward pass, made only of + - * / sqrt and integer operations:
 * libm differs between platforms, these functions give the same bits everywhere. The order of every
 * expression is part of the definition; the SIMD kernels repeat bq_expf, bq_erff and bq_tanhf step
 * by step. */
#ifndef BQ_FMATH_H
#define BQ_FMATH_H

#include <float.h>
#include <stdint.h>

#include "core/half.h"

#if FLT_EVAL_METHOD != 0
#error "bq4 needs floats that are computed as floats: compile for SSE2, not for x87"
#endif

/* Compiles to an instruction with -fno-math-errno; IEEE 754 requires it to be correctly rounded. */
static inline float bq_sqrtf(float x) { return __builtin_sqrtf(x); }

/* exp(x) = 2^n p(r): n = round(x / ln 2), r = x - n ln 2 in two steps, p a minimax polynomial
 * (relative error 3e-9). The error is at most 1.5 units in the last place. The result is 0 below
 * BQ_EXP_MIN, so that it is never subnormal, and infinity from 88.73 on. */
#define BQ_EXP_MIN -87.33f
#define BQ_EXP_MAX 89.0f
#define BQ_EXP_LOG2E 0x1.715476p+0f
#define BQ_EXP_ROUND 0x1.8p23f    /* x + this has round(x) in its low bits */
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
  float c = x < BQ_EXP_MIN ? BQ_EXP_MIN : x; /* NaN passes both comparisons */
  c = BQ_EXP_MAX < c ? BQ_EXP_MAX : c;
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
  return x < BQ_EXP_MIN ? 0.0f : e;
}

/* y[i] = exp(x[i] / temperature - max), 0 if that is NaN; n is a multiple of 8. Returns sum + y[0]
 * + y[1] and so on, added in this order. y may be x. */
double bq_softmax_weights(float *y, const float *x, size_t n, float temperature, float max,
                          double sum);
/* The largest of n values, n a multiple of 8. NaNs are ignored; -infinity if all are NaN. */
float bq_largest(const float *x, size_t n);

/* The error function of t = |x|, with the sign of x. t < 15/16: t + t p(t^2); else 1 - exp(q(t)),
 * where q approximates log(erfc). p and q are minimax polynomials. The error is at most 1.5 units
 * in the last place; -0 stays -0. */
#define BQ_ERF_MIDDLE 0x1.ep-1f
#define BQ_ERF_MAX 4.0f /* the result is 1 from here on */
#define BQ_ERF_P0 0x1.06eba8p-3f
#define BQ_ERF_P1 -0x1.812742p-2f
#define BQ_ERF_P2 0x1.ce2df4p-4f
#define BQ_ERF_P3 -0x1.b80cb4p-6f
#define BQ_ERF_P4 0x1.54b5e4p-8f
#define BQ_ERF_P5 -0x1.a99ef6p-11f
#define BQ_ERF_P6 0x1.5ac332p-14f
#define BQ_ERF_Q0 -0x1.d4b2a4p-13f
#define BQ_ERF_Q1 -0x1.20a7dcp+0f
#define BQ_ERF_Q2 -0x1.4655dap-1f
#define BQ_ERF_Q3 -0x1.a904d6p-4f
#define BQ_ERF_Q4 0x1.6ad9e6p-6f
#define BQ_ERF_Q5 -0x1.8c40d4p-9f
#define BQ_ERF_Q6 0x1.96a428p-13f

static inline float bq_erff(float x) {
  uint32_t sign = bq_bits_of(x) & 0x80000000u;
  float t = bq_float_of(bq_bits_of(x) ^ sign), y;
  if (t < BQ_ERF_MIDDLE) {
    float s = t * t;
    float p = BQ_ERF_P6 * s + BQ_ERF_P5;
    p = p * s + BQ_ERF_P4;
    p = p * s + BQ_ERF_P3;
    p = p * s + BQ_ERF_P2;
    p = p * s + BQ_ERF_P1;
    p = p * s + BQ_ERF_P0;
    y = t + t * p;
  } else {
    float c = BQ_ERF_MAX < t ? BQ_ERF_MAX : t; /* NaN passes */
    float q = BQ_ERF_Q6 * c + BQ_ERF_Q5;
    q = q * c + BQ_ERF_Q4;
    q = q * c + BQ_ERF_Q3;
    q = q * c + BQ_ERF_Q2;
    q = q * c + BQ_ERF_Q1;
    q = q * c + BQ_ERF_Q0;
    y = 1.0f - bq_expf(q);
  }
  return bq_float_of(bq_bits_of(y) | sign);
}

/* tanh of t = |x|, with the sign of x. t < 5/8: t + t s p(s), s = t^2, p a minimax polynomial; else
 * 1 - 2 / (exp(2 t) + 1). The error is at most 1.5 units in the last place; -0 stays -0. */
#define BQ_TANH_MIDDLE 0x1.4p-1f
#define BQ_TANH_C0 -0x1.555532p-2f
#define BQ_TANH_C1 0x1.110726p-3f
#define BQ_TANH_C2 -0x1.b83c58p-5f
#define BQ_TANH_C3 0x1.522692p-6f
#define BQ_TANH_C4 -0x1.75e1a8p-8f

static inline float bq_tanhf(float x) {
  uint32_t sign = bq_bits_of(x) & 0x80000000u;
  float t = bq_float_of(bq_bits_of(x) ^ sign), y;
  if (t < BQ_TANH_MIDDLE) {
    float s = t * t;
    float p = BQ_TANH_C4 * s + BQ_TANH_C3;
    p = p * s + BQ_TANH_C2;
    p = p * s + BQ_TANH_C1;
    p = p * s + BQ_TANH_C0;
    y = t + t * (s * p);
  } else {
    y = 1.0f - 2.0f / (bq_expf(2.0f * t) + 1.0f);
  }
  return bq_float_of(bq_bits_of(y) | sign);
}

/* Logarithm and exponential in f64. Relative error below 1e-15 |log(result)| + 2e-16, for finite x
 * > 0 and results in the normal range. */
double bq_log(double x);
double bq_exp(double x);
double bq_pow(double x, double y); /* x > 0 */

/* Sine and cosine. Absolute error below 3e-16 for |x| <= 2^24. */
void bq_sincos(double x, double *sine, double *cosine);

/* Rotary angles (RoPE) of one position: cs[i] = scale * (cos, sin) of position * theta^(-2i /
 * rope_dim) / factors[i], for i in [0, rope_dim / 2), computed in f64 and rounded once. factors
 * NULL: all 1. */
void bq_rope_table(float *cs, uint32_t position, uint32_t rope_dim, float theta,
                   const float *factors, float scale);

#endif
