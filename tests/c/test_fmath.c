/* exp, erf, tanh, log, pow, sin and cos of core/fmath against libm, and their bits against a
 * committed hash, which is the same for every compiler and machine. `test_fmath --all` checks
 * bq_expf, bq_erff and bq_tanhf of every float. */
#include <math.h>

#include "check.h"
#include "core/fmath.h"
#include "random.h"

/* The error in units of the last place of the float nearest to `expected`. */
static double ulps(float actual, double expected) {
  return fabs(actual - expected) / ldexp(1, ilogb(expected) - 23);
}

static void check_expf(float x) {
  float actual = bq_expf(x);
  double expected = exp((double)x);
  if (isnan(x))
    CHECK(isnan(actual));
  else if (x < BQ_EXP_MIN)
    CHECK(actual == 0.0f);
  else if (expected >= 0x1.ffffffp127)
    CHECK(isinf(actual));
  else if (!CHECK(ulps(actual, expected) < 1.5))
    printf("  exp(%a): expected %a, found %a\n", x, expected, actual);
}

static void test_expf(void) {
  for (uint32_t u = 0; u < 0x43000000; u += 997) {
    check_expf(bq_float_of(u));
    check_expf(-bq_float_of(u));
  }
  const float edges[] = {0,          -0.0f,    1,      -87.33f,   -87.330006f, 88.72283f,
                         88.722839f, 88.7229f, 89,     1e30f,     INFINITY,    -INFINITY,
                         NAN,        -104,     -1e30f, 0x1p-149f, -0x1p-149f};
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) check_expf(edges[i]);
  CHECK(bq_expf(0.0f) == 1.0f);
  CHECK(bq_expf(-0.0f) == 1.0f);
}

static void test_expf_monotonic(void) {
  float previous = 0.0f;
  for (int i = -90 * 4096; i < 90 * 4096; i++) {
    float e = bq_expf((float)i / 4096);
    CHECK(e >= previous);
    previous = e;
  }
}

/* Checks an odd function with limits of 1 and -1. */
static void check_sigmoid(float x, float actual, double expected, const char *name) {
  bool valid = isnan(x) ? isnan(actual) : signbit(actual) == signbit(x);
  if (fabsf(x) >= FLT_MIN) valid &= ulps(actual, expected) < 1.5;
  if (!CHECK(valid)) printf("  %s(%a): expected %a, found %a\n", name, x, expected, actual);
}

static void check_erff_tanhf(float x) {
  check_sigmoid(x, bq_erff(x), erf((double)x), "erf");
  check_sigmoid(x, bq_tanhf(x), tanh((double)x), "tanh");
}

static void test_erff_tanhf(void) {
  for (uint32_t u = 0; u < 0x43000000; u += 997) {
    check_erff_tanhf(bq_float_of(u));
    check_erff_tanhf(-bq_float_of(u));
  }
  for (uint32_t u = 0; u < 64; u++) {
    check_erff_tanhf(bq_float_of(bq_bits_of(BQ_ERF_MIDDLE) - 32 + u));
    check_erff_tanhf(-bq_float_of(bq_bits_of(BQ_ERF_MAX) - 32 + u));
    check_erff_tanhf(bq_float_of(bq_bits_of(BQ_TANH_MIDDLE) - 32 + u));
  }
  const float edges[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 0x1p-149f, -0x1p-149f};
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) check_erff_tanhf(edges[i]);
}

static void test_every_float(void) {
  uint32_t u = 0;
  do {
    check_expf(bq_float_of(u));
    check_erff_tanhf(bq_float_of(u));
  } while (++u != 0 && check_state.failures == 0);
}

static void test_log_exp_pow(void) {
  uint64_t seed = 5;
  for (int i = 0; i < 100000; i++) {
    double x = exp(40.0 * random_float(&seed)), y = 2.0 * random_float(&seed);
    CHECK(fabs(bq_log(x) - log(x)) <= 1e-15 * fabs(log(x)) + 2e-16);
    double e = y * log(x), expected = pow(x, y);
    CHECK(fabs(bq_pow(x, y) - expected) <= expected * (1e-15 * fabs(e) + 4e-16));
    CHECK(fabs(bq_exp(e) - exp(e)) <= 4e-16 * exp(e));
  }
  CHECK(bq_log(1.0) == 0.0);
  CHECK(bq_exp(0.0) == 1.0);
}

static void test_sincos(void) {
  uint64_t seed = 7;
  double s, c;
  for (int i = 0; i < 200000; i++) {
    double x = ldexp(random_float(&seed), (int)(random_bits(&seed) % 40) - 15);
    bq_sincos(x, &s, &c);
    CHECK(fabs(s - sin(x)) <= 3e-16);
    CHECK(fabs(c - cos(x)) <= 3e-16);
  }
  for (uint32_t n = 0; n < 1u << 24; n += 4099) { /* Integers, the positions of RoPE. */
    bq_sincos(n, &s, &c);
    CHECK(fabs(s - sin(n)) <= 3e-16);
    CHECK(fabs(c - cos(n)) <= 3e-16);
  }
  bq_sincos(0.0, &s, &c);
  CHECK(s == 0.0 && c == 1.0);
  bq_sincos(INFINITY, &s, &c); /* Defined, although meaningless. */
  CHECK(s == 0.0 && c == 1.0);
}

static void test_rope_table(void) {
  float cs[128];
  const uint32_t positions[] = {0, 1, 2, 100, 2047, 131071, 16777215};
  const float thetas[] = {10000.0f, 500000.0f, 1000000.0f};
  for (size_t p = 0; p < 7; p++)
    for (size_t t = 0; t < 3; t++)
      for (uint32_t dim = 2; dim <= 128; dim += 2) {
        bq_rope_table(cs, positions[p], dim, thetas[t], NULL, 1.0f);
        for (uint32_t i = 0; i < dim / 2; i++) {
          double angle = positions[p] * pow(thetas[t], -2.0 * i / dim);
          double tolerance = 4e-15 * angle + 6e-8;
          CHECK(fabs(cs[2 * i] - cos(angle)) <= tolerance);
          CHECK(fabs(cs[2 * i + 1] - sin(angle)) <= tolerance);
        }
      }
}

static void test_same_bits(void) {
  uint64_t seed = 3, h = HASH_START;
  for (int i = 0; i < 100000; i++) {
    float x = 100.0f * random_float(&seed), e = bq_expf(x);
    h = hash_bytes(h, &e, sizeof e);
    const float sigmoids[] = {bq_erff(0.1f * x), bq_tanhf(0.1f * x)};
    h = hash_bytes(h, sigmoids, sizeof sigmoids);
  }
  for (uint32_t position = 0; position < 5000; position += 7) {
    float cs[64];
    bq_rope_table(cs, position, 64, position % 2 ? 10000.0f : 500000.0f, NULL, 1.0f);
    h = hash_bytes(h, cs, sizeof cs);
  }
  if (!CHECK(h == 0x0fd21f0ca1038546)) printf("  hash 0x%016" PRIx64 "\n", h);
}

int main(int argc, char **argv) {
  RUN(test_expf);
  RUN(test_expf_monotonic);
  RUN(test_erff_tanhf);
  RUN(test_log_exp_pow);
  RUN(test_sincos);
  RUN(test_rope_table);
  RUN(test_same_bits);
  if (argc > 1 && strcmp(argv[1], "--all") == 0) RUN(test_every_float);
  return check_summary();
}
