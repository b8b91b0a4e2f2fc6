/* Rounding by second moments (c/quant): its errors against sums in f64, and its encoded bytes.
 * tests/js/quantize.test.mjs compares it with another implementation. */
#include <stdlib.h>

#include "check.h"
#include "quant/encode.h"
#include "core/dequantize.h"
#include "quant/moments.h"
#include "quant/round.h"
#include "random.h"

enum { ROWS = 19, COLS = 84, TOKENS = 203, BLOCKS = 8 };
static float w[ROWS * COLS], x[TOKENS * COLS], moments[COLS * COLS], feedback[COLS * COLS];
static double work[COLS * (COLS + 1)];

/* Inputs that correlate with their neighbors, some of them large. */
static void fill_inputs(void) {
  uint64_t state = 7;
  for (int i = 0; i < ROWS * COLS; i++) w[i] = 0.1f * (random_float(&state) + random_float(&state));
  for (int t = 0; t < TOKENS; t++)
    for (int i = 0; i < COLS; i++) {
      const float noise = random_float(&state), previous = i ? x[t * COLS + i - 1] : 0;
      const float size = i % 17 == 3 ? 6.0f : i % 17 == 4 ? 1.0f / 6.0f : 1.0f;
      x[t * COLS + i] = (0.8f * previous + noise) * size;
    }
}

static void compute_moments(float share) {
  memset(moments, 0, sizeof moments);
  bq_moments_add(moments, COLS, x, TOKENS, 0, 1);
  CHECK_EQ(bq_moments_end(moments, COLS, share, NULL), BQ_OK);
  CHECK_EQ(bq_feedback_factor(moments, COLS, work, feedback, NULL), BQ_OK);
}

typedef struct rounding {
  int8_t q[ROWS * COLS];
  float scale[ROWS * BLOCKS], min[ROWS * BLOCKS], v[ROWS * COLS];
  double error, weighted; /* weighted by the moments; by their diagonal */
} rounding;

/* Computes (v - w)^T H (v - w), with H and with the diagonal of H, in f64. */
static void compute_errors(rounding *o) {
  o->error = o->weighted = 0;
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < COLS; i++) {
      const double a = (double)o->v[r * COLS + i] - (double)w[r * COLS + i];
      for (int j = 0; j < COLS; j++)
        o->error += a * (double)moments[i * COLS + j] *
                    ((double)o->v[r * COLS + j] - (double)w[r * COLS + j]);
      o->weighted += a * a * (double)moments[i * COLS + i];
    }
}

static void round_by(bq_type type, const float *with_feedback, uint32_t sweeps, rounding *o,
                     bq_round_errors *errors) {
  static uint8_t bytes[ROWS * COLS * 2];
  float *floats = malloc(bq_round_floats(COLS) * sizeof *floats);
  bq_rounded rounded = {o->q, o->scale, o->min};
  *errors = (bq_round_errors){0};
  CHECK_EQ(bq_round(type, w, ROWS, COLS, &(bq_round_by){moments, with_feedback, sweeps}, floats,
                    &rounded, errors, NULL),
           BQ_OK);
  free(floats);
  if (!bq_type_get(type)->min_bytes) rounded.min = NULL; /* minima are not read */
  CHECK_EQ(bq_encode_rounded(type, BQ_TILED, &rounded, ROWS, COLS, bytes, NULL), BQ_OK);
  CHECK_EQ(bq_dequantize(type, BQ_TILED, bytes, ROWS, COLS, o->v, NULL), BQ_OK);
  const uint32_t block = bq_type_get(type)->block, blocks = (COLS + block - 1) / block;
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < COLS; i++) {
      const size_t b = (size_t)r * blocks + (size_t)i / block;
      const float product = (float)o->q[r * COLS + i] * o->scale[b];
      CHECK(o->v[r * COLS + i] == product + o->min[b]);
    }
  compute_errors(o);
}

static const bq_type TYPES[] = {BQ_TYPE_BQ4A_32, BQ_TYPE_BQ4H_32, BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_16,
                                BQ_TYPE_BQ4_64,  BQ_TYPE_BQ3A_64, BQ_TYPE_BQ2A_64, BQ_TYPE_BQT_64};

/* Feedback and sweeps each reduce the error; the reported error is the actual one. */
static void test_each_step_reduces_errors(void) {
  static rounding quantized, without_feedback, with_feedback, with_sweeps;
  static uint8_t bytes[ROWS * COLS * 2];
  bq_round_errors errors;
  compute_moments(0.01f);
  for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
    CHECK_EQ(bq_quantize(TYPES[t], BQ_ROWS, w, ROWS, COLS, bytes, NULL), BQ_OK);
    CHECK_EQ(bq_dequantize(TYPES[t], BQ_ROWS, bytes, ROWS, COLS, quantized.v, NULL), BQ_OK);
    compute_errors(&quantized);
    round_by(TYPES[t], NULL, 0, &without_feedback, &errors);
    CHECK(without_feedback.weighted <= quantized.weighted);
    round_by(TYPES[t], feedback, 0, &with_feedback, &errors);
    CHECK(with_feedback.error < 0.8 * without_feedback.error);
    round_by(TYPES[t], feedback, 4, &with_sweeps, &errors);
    CHECK(with_sweeps.error < 0.97 * with_feedback.error);
    CHECK(errors.error < 1.001 * with_sweeps.error && errors.error > 0.999 * with_sweeps.error);
    CHECK(errors.of > 20 * errors.error);
    for (uint32_t sweeps = 1, i = 0; i < 3;
         i++, sweeps++) { /* Another sweep never increases the error. */
      round_by(TYPES[t], NULL, sweeps, &with_feedback, &errors);
      CHECK(with_feedback.error <= without_feedback.error * (1 + 1e-5));
      without_feedback = with_feedback;
    }
  }
}

/* The rounding of a row does not depend on the other rows. */
static void test_rows_are_independent(void) {
  static rounding all_rows;
  bq_round_errors errors;
  compute_moments(0.01f);
  round_by(BQ_TYPE_BQ4A_32, feedback, 2, &all_rows, &errors);
  float *floats = malloc(bq_round_floats(COLS) * sizeof *floats);
  for (int r = 0; r < ROWS; r++) {
    int8_t q[COLS];
    float scale[BLOCKS], min[BLOCKS];
    bq_rounded rounded = {q, scale, min};
    CHECK_EQ(bq_round(BQ_TYPE_BQ4A_32, w + r * COLS, 1, COLS, &(bq_round_by){moments, feedback, 2},
                      floats, &rounded, &errors, NULL),
             BQ_OK);
    CHECK_MEM(q, all_rows.q + r * COLS, sizeof q);
    CHECK_MEM(scale, all_rows.scale + r * 3, 3 * sizeof *scale);
  }
  free(floats);
}

/* `feedback` has V and D with V H V^T = D. */
static void test_feedback_factor(void) {
  compute_moments(0.01f);
  double error = 0; /* of V H V^T = D, relative to the diagonal of H */
  for (int a = 0; a < COLS; a++)
    for (int b = 0; b < COLS; b++) {
      double sum = 0;
      for (int i = a; i < COLS; i++)
        for (int j = b; j < COLS; j++)
          sum += (i == a ? 1.0 : (double)feedback[a * COLS + i]) * (double)moments[i * COLS + j] *
                 (j == b ? 1.0 : (double)feedback[b * COLS + j]);
      sum -= a == b ? (double)feedback[a * COLS + a] : 0;
      const double difference = (sum < 0 ? -sum : sum) / (double)moments[a * COLS + a];
      error = difference > error ? difference : error;
    }
  CHECK(error < 1e-3);
}

static void test_moments_in_parts(void) {
  static float parts[COLS * COLS];
  compute_moments(0.01f);
  memset(parts, 0, sizeof parts);
  for (int t = 0; t < TOKENS; t += 50)
    for (size_t part = 0; part < 3; part++) /* for any assignment of rows */
      bq_moments_add(parts, COLS, x + t * COLS, (size_t)(TOKENS - t < 50 ? TOKENS - t : 50), part,
                     3);
  CHECK_EQ(bq_moments_end(parts, COLS, 0.01f, NULL), BQ_OK);
  for (int i = 0; i < COLS * COLS; i++) { /* compared with sums token by token */
    double sum = 0;
    for (int t = 0; t < TOKENS; t++)
      sum += (double)x[t * COLS + i / COLS] * (double)x[t * COLS + i % COLS];
    CHECK(parts[i] == moments[i]);
    if (i / COLS != i % COLS)
      CHECK(sum - (double)parts[i] < 1e-2 && (double)parts[i] - sum < 1e-2);
  }
}

static void test_refused_inputs(void) {
  bq_error err = {0};
  static float zeros[COLS * COLS];
  CHECK_EQ(bq_moments_end(zeros, COLS, 0.01f, &err), BQ_FORMAT);
  memset(zeros, 0, sizeof zeros);
  zeros[0] = __builtin_inff();
  CHECK_EQ(bq_moments_end(zeros, COLS, 0.01f, &err), BQ_FORMAT);
  zeros[0] = 1.0f;
  CHECK_EQ(bq_feedback_factor(zeros, COLS, work, feedback, &err), BQ_FORMAT);
  compute_moments(0.01f);
  static rounding o;
  bq_rounded rounded = {o.q, o.scale, o.min};
  bq_round_errors errors = {0};
  float *floats = malloc(bq_round_floats(COLS) * sizeof *floats);
  const bq_round_by by = {moments, feedback, 1};
  CHECK_EQ(bq_round(BQ_TYPE_F16, w, ROWS, COLS, &by, floats, &rounded, &errors, &err),
           BQ_UNSUPPORTED);
  CHECK_EQ(bq_round(BQ_TYPE_BQ8_32, w, ROWS, COLS, &by, floats, &rounded, &errors, &err),
           BQ_UNSUPPORTED);
  const float original = w[100];
  w[100] = __builtin_nanf("");
  CHECK_EQ(bq_round(BQ_TYPE_BQ4A_32, w, ROWS, COLS, &by, floats, &rounded, &errors, &err),
           BQ_FORMAT);
  CHECK_EQ(err.offset, 100);
  w[100] = 1e9f;
  CHECK_EQ(bq_round(BQ_TYPE_BQ4A_32, w, ROWS, COLS, &by, floats, &rounded, &errors, &err),
           BQ_FORMAT);
  w[100] = original;
  free(floats);
}

int main(void) {
  fill_inputs();
  RUN(test_each_step_reduces_errors);
  RUN(test_rows_are_independent);
  RUN(test_feedback_factor);
  RUN(test_moments_in_parts);
  RUN(test_refused_inputs);
  return check_summary();
}
