/* f16 and bf16 against a reference in double arithmetic that shares no code with core/half.h.
 * `test_half --all` narrows every one of the 2^32 floats (minutes); without it, all midpoints
 * between neighbours and the floats next to them. */
#include <math.h>

#include "check.h"
#include "core/half.h"

typedef struct format {
  int mantissa_bits, min_exponent; /* of normal numbers */
  int max_exponent;
} format;

static const format F16 = {10, -14, 15}, BF16 = {7, -126, 127};

/* The value of a pattern, by definition. */
static double value_of(format f, uint32_t h) {
  int e = (int)(h >> f.mantissa_bits & ((1u << (15 - f.mantissa_bits)) - 1));
  double m = h & ((1u << f.mantissa_bits) - 1), unit = ldexp(1, f.mantissa_bits);
  double v;
  if (e == f.max_exponent - f.min_exponent + 2)
    v = m != 0 ? NAN : INFINITY;
  else if (e == 0)
    v = ldexp(m, f.min_exponent - f.mantissa_bits);
  else
    v = ldexp(m + unit, e - 1 + f.min_exponent - f.mantissa_bits);
  return h & 0x8000 ? -v : v;
}

/* The pattern nearest to x (not NaN), ties to even. */
static uint32_t nearest(format f, double x) {
  uint32_t sign = signbit(x) ? 0x8000 : 0;
  double a = fabs(x);
  uint32_t infinity = (uint32_t)(f.max_exponent - f.min_exponent + 2) << f.mantissa_bits;
  if (isinf(a)) return sign | infinity;
  int e = a > 0 ? ilogb(a) : f.min_exponent;
  if (e < f.min_exponent) e = f.min_exponent;
  double units = rint(ldexp(a, f.mantissa_bits - e)), unit = ldexp(1, f.mantissa_bits);
  if (units >= 2 * unit) {
    units = unit;
    e++;
  }
  if (e > f.max_exponent) return sign | infinity;
  if (units < unit) return sign | (uint32_t)units; /* subnormal or zero */
  return sign | (uint32_t)(e - f.min_exponent + 1) << f.mantissa_bits | (uint32_t)(units - unit);
}

static uint32_t narrow(format f, float x) {
  return f.mantissa_bits == 10 ? bq_f32_to_f16(x) : bq_f32_to_bf16(x);
}

static float widen(format f, uint32_t h) {
  return f.mantissa_bits == 10 ? bq_f16_to_f32((uint16_t)h) : bq_bf16_to_f32((uint16_t)h);
}

static void check_narrow(format f, float x) {
  if (isnan(x)) {
    uint32_t h = narrow(f, x);
    CHECK(isnan(value_of(f, h)));
    CHECK_EQ(h >> 15, bq_bits_of(x) >> 31);
  } else {
    CHECK_EQ(narrow(f, x), nearest(f, x));
  }
}

static void check_widen_all(format f) {
  for (uint32_t h = 0; h < 65536; h++) {
    double expected = value_of(f, h);
    float actual = widen(f, h);
    if (isnan(expected)) {
      CHECK(isnan(actual));
      uint32_t payload = h & ((1u << f.mantissa_bits) - 1);
      CHECK_EQ(bq_bits_of(actual) & 0x7fffff, payload << (23 - f.mantissa_bits));
      CHECK_EQ(bq_bits_of(actual) >> 31, h >> 15);
    } else {
      CHECK((double)actual == expected && !signbit(actual) == !signbit(expected));
      CHECK_EQ(narrow(f, actual), h);
    }
  }
}

static void check_midpoints(format f) {
  uint32_t infinity = nearest(f, INFINITY);
  for (uint32_t h = 0; h < infinity; h++) {
    /* The midpoint to the next pattern; after the largest number, to the next multiple of its
     * unit. */
    double value = value_of(f, h);
    double next_value = h + 1 < infinity ? value_of(f, h + 1) : 2 * value - value_of(f, h - 1);
    float middle = (float)((value + next_value) / 2);
    for (int sign = 0; sign < 2; sign++) {
      float m = sign ? -middle : middle;
      check_narrow(f, m);
      check_narrow(f, nextafterf(m, INFINITY));
      check_narrow(f, nextafterf(m, -INFINITY));
    }
  }
}

static void test_f16_widen(void) { check_widen_all(F16); }
static void test_bf16_widen(void) { check_widen_all(BF16); }
static void test_f16_midpoints(void) { check_midpoints(F16); }
static void test_bf16_midpoints(void) { check_midpoints(BF16); }

static void test_extremes(void) {
  CHECK_EQ(bq_f32_to_f16(65519.996f), 0x7bff);
  CHECK_EQ(bq_f32_to_f16(65520.0f), 0x7c00);
  CHECK_EQ(bq_f32_to_f16(-1e30f), 0xfc00);
  CHECK_EQ(bq_f32_to_f16(INFINITY), 0x7c00);
  CHECK_EQ(bq_f32_to_f16(0x1p-25f), 0); /* A tie is rounded to even. */
  CHECK_EQ(bq_f32_to_f16(0x1.000002p-25f), 1);
  CHECK_EQ(bq_f32_to_f16(-0.0f), 0x8000);
  CHECK_EQ(bq_f32_to_bf16(0x1.fffffep127f), 0x7f80);
  /* A NaN whose payload would be shifted out, or rounded up into the sign. */
  const uint32_t nans[] = {0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7fc00000, 0x7f80ffff};
  for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
    check_narrow(F16, bq_float_of(nans[i]));
    check_narrow(BF16, bq_float_of(nans[i]));
  }
}

static void test_every_float(void) {
  uint32_t u = 0;
  do {
    check_narrow(F16, bq_float_of(u));
    check_narrow(BF16, bq_float_of(u));
    if ((u & 0x0fffffff) == 0) fprintf(stderr, "%u of 16\n", u >> 28);
  } while (++u != 0 && check_state.failures == 0);
}

int main(int argc, char **argv) {
  RUN(test_f16_widen);
  RUN(test_bf16_widen);
  RUN(test_f16_midpoints);
  RUN(test_bf16_midpoints);
  RUN(test_extremes);
  if (argc > 1 && strcmp(argv[1], "--all") == 0) RUN(test_every_float);
  return check_summary();
}
