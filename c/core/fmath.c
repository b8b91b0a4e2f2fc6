#include "core/fmath.h"

static uint64_t bits_of(double f) {
  uint64_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static double double_of(uint64_t u) {
  double f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* Rounds to the nearest integer, ties to even; |x| < 2^51. */
static double round_even(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* c[0] + c[1] x + ... + c[n-1] x^(n-1) */
static double horner(const double *c, int n, double x) {
  double sum = c[n - 1];
  for (int i = n - 2; i >= 0; i--) sum = sum * x + c[i];
  return sum;
}

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const double LN2_HI = 0x1.62e42fefap-1, LN2_LO = 0x1.cf79abc9e3b3ap-40;

/* log(2^e m) = e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)): |s| < 0.172,
 * so that the series can end with s^23 / 23. */
double bq_log(double x) {
  static const double c[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                             1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
  uint64_t u = bits_of(x);
  int e = (int)(u >> 52) - 1023;
  double m = double_of((u & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    e++;
  }
  double s = (m - 1.0) / (m + 1.0), s2 = s * s, n = e;
  return n * LN2_HI + (2.0 * s + (2.0 * s * (s2 * horner(c, COUNT(c), s2)) + n * LN2_LO));
}

/* As bq_expf, with the Taylor series up to r^14 / 14!, |r| < 0.35. */
double bq_exp(double x) {
  static const double c[] = {1.0 / 2,           1.0 / 6,        1.0 / 24,         1.0 / 120,
                             1.0 / 720,         1.0 / 5040,     1.0 / 40320,      1.0 / 362880,
                             1.0 / 3628800,     1.0 / 39916800, 1.0 / 479001600., 1.0 / 6227020800.,
                             1.0 / 87178291200.};
  x = x > -700.0 ? x : -700.0;
  x = x < 700.0 ? x : 700.0;
  double n = round_even(x * 0x1.71547652b82fep+0);
  double r = (x - n * LN2_HI) - n * LN2_LO;
  double p = 1.0 + (r + r * r * horner(c, COUNT(c), r));
  return p * double_of((uint64_t)(1023 + (int64_t)n) << 52);
}

double bq_pow(double x, double y) { return bq_exp(y * bq_log(x)); }

/* x = n pi/2 + r with pi/2 in three parts (28 + 28 + 53 bits): n times each of the first two is
 * exact up to n = 2^25. Then the Taylor series, |r| <= pi/4. */
void bq_sincos(double x, double *sine, double *cosine) {
  static const double cs[] = {
      -1.0 / 6,        1.0 / 120,         -1.0 / 5040,           1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800., -1.0 / 1307674368000., 1.0 / 355687428096000.};
  static const double cc[] = {
      1.0 / 24,         -1.0 / 720,          1.0 / 40320,           -1.0 / 3628800,
      1.0 / 479001600., -1.0 / 87178291200., 1.0 / 20922789888000., -1.0 / 6402373705728000.};
  if (!(x > -0x1p50 && x < 0x1p50)) x = 0.0; /* beyond that an angle has no precision left */
  double n = round_even(x * 0x1.45f306dc9c883p-1);
  double r = ((x - n * 0x1.921fb54p+0) - n * 0x1.10b461p-30) - n * 0x1.a62633145c06ep-58;
  double r2 = r * r;
  double s = r + r * (r2 * horner(cs, COUNT(cs), r2));
  double c = 1.0 - (0.5 * r2 - r2 * (r2 * horner(cc, COUNT(cc), r2)));
  switch ((int64_t)n & 3) {
  case 0:
    *sine = s;
    *cosine = c;
    break;
  case 1:
    *sine = c;
    *cosine = -s;
    break;
  case 2:
    *sine = -s;
    *cosine = -c;
    break;
  default:
    *sine = -c;
    *cosine = s;
    break;
  }
}

void bq_rope_table(float *cs, uint32_t position, uint32_t rope_dim, float theta,
                   const float *factors, float scale) {
  double log_theta = bq_log((double)theta);
  for (uint32_t i = 0; i < rope_dim / 2; i++) {
    double s, c;
    double angle = (double)position * bq_exp(-2.0 * i / rope_dim * log_theta);
    if (factors) angle /= (double)factors[i];
    bq_sincos(angle, &s, &c);
    cs[2 * i] = (float)(c * (double)scale);
    cs[2 * i + 1] = (float)(s * (double)scale);
  }
}

/* The loops of the sampler: compiled for speed, and by compilers that vectorize (emscripten.mk). */

double bq_softmax_weights(float *y, const float *x, size_t n, float temperature, float max,
                          double sum) {
  enum { LANES = 4 };
  /* Exponentials are independent; they are computed while an addition waits for the previous
   * one. */
  for (size_t i = 0; i < n; i += LANES) {
    float e[LANES];
    for (size_t j = 0; j < LANES; j++) e[j] = bq_expf(x[i + j] / temperature - max);
    for (size_t j = 0; j < LANES; j++) e[j] = e[j] > 0 ? e[j] : 0; /* 0 for NaN */
    for (size_t j = 0; j < LANES; j++) sum += (double)(y[i + j] = e[j]);
  }
  return sum;
}

float bq_largest(const float *x, size_t n) {
  enum { LANES = 8 };
  float largest[LANES];
  for (size_t j = 0; j < LANES; j++) largest[j] = bq_float_of(0xff800000u); /* -infinity */
  for (size_t i = 0; i < n; i += LANES)
    for (size_t j = 0; j < LANES; j++) largest[j] = x[i + j] > largest[j] ? x[i + j] : largest[j];
  for (size_t j = 1; j < LANES; j++) largest[0] = largest[j] > largest[0] ? largest[j] : largest[0];
  return largest[0];
}
