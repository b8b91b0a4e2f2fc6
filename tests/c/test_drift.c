/* Correction of weights for a drift of their inputs (c/quant/drift.h), compared with plain sums in
 * f64. */
#include <stdlib.h>

#include "check.h"
#include "quant/drift.h"
#include "quant/moments.h"
#include "random.h"

enum { ROWS = 11, COLS = 60, TOKENS = 203 };
static float w[ROWS * COLS], y[TOKENS * COLS], x[TOKENS * COLS];
static float moments[COLS * COLS], feedback[COLS * COLS], drift[COLS * COLS];
static double factors[COLS * (COLS + 1)];

/* Neighbouring inputs are correlated, some are large; x is y after a change in earlier layers. */
static void make_inputs(void) {
  uint64_t state = 3;
  for (int i = 0; i < ROWS * COLS; i++) w[i] = random_float(&state);
  for (int t = 0; t < TOKENS; t++) {
    const float shift = random_float(&state);
    for (int i = 0; i < COLS; i++) {
      const float before = i ? y[t * COLS + i - 1] : 0;
      y[t * COLS + i] = (0.8f * before + random_float(&state)) * (i % 17 == 3 ? 6.0f : 1.0f);
    }
    for (int i = 0; i < COLS; i++)
      x[t * COLS + i] = 0.9f * y[t * COLS + i] + 0.1f * y[t * COLS + (i + 1) % COLS] +
                        0.05f * shift + 0.02f * random_float(&state);
  }
  bq_moments_add(moments, COLS, x, TOKENS, 0, 1);
  CHECK_EQ(bq_moments_end(moments, COLS, 0.001f, NULL), BQ_OK);
  CHECK_EQ(bq_feedback_factor(moments, COLS, factors, feedback, NULL), BQ_OK);
  bq_drift_add(drift, COLS, y, x, TOKENS, 0, 1);
}

static void correct(float *v, size_t rows) {
  float *work = malloc(bq_drift_floats(COLS) * sizeof *work);
  bq_drift_correct(v, rows, COLS, drift, feedback, work);
  free(work);
}

static void test_drift(void) {
  for (int i = 0; i < COLS; i++)
    for (int j = 0; j < COLS; j++) {
      double sum = 0;
      for (int t = 0; t < TOKENS; t++)
        sum += ((double)y[t * COLS + i] - (double)x[t * COLS + i]) * (double)x[t * COLS + j];
      const double off = sum - (double)drift[i * COLS + j];
      CHECK(off < 1e-2 && off > -1e-2);
    }
}

static void test_tokens_in_parts(void) {
  static float parts[COLS * COLS];
  memset(parts, 0, sizeof parts);
  for (size_t t = 0; t < TOKENS; t += 50)
    bq_drift_add(parts, COLS, y + t * COLS, x + t * COLS, TOKENS - t < 50 ? TOKENS - t : 50, 0, 1);
  CHECK_MEM(parts, drift, sizeof parts);
}

/* The sums are the same with any number of threads, in any order. */
static void test_rows_in_parts(void) {
  for (size_t n = 2; n < 6; n++) {
    static float parts[COLS * COLS];
    memset(parts, 0, sizeof parts);
    for (size_t i = n; i-- > 0;) bq_drift_add(parts, COLS, y, x, TOKENS, i, n);
    CHECK_MEM(parts, drift, sizeof parts);
  }
}

/* The corrected weights v have the least error: (v - w) H = w D, in f64. */
static void test_least_error(void) {
  static float v[ROWS * COLS];
  memcpy(v, w, sizeof v);
  correct(v, ROWS);
  for (int r = 0; r < ROWS; r++)
    for (int j = 0; j < COLS; j++) {
      double left = 0, right = 0, size = 0;
      for (int i = 0; i < COLS; i++) {
        const double change = (double)v[r * COLS + i] - (double)w[r * COLS + i];
        left += change * (double)moments[i * COLS + j];
        right += (double)w[r * COLS + i] * (double)drift[i * COLS + j];
        size += change * change;
      }
      const double off = left - right, limit = 1e-3 * (double)moments[j * COLS + j] * (size + 1e-3);
      CHECK(off < limit && off > -limit);
    }
}

/* The sum of |v x - w y|^2 over all rows and tokens. */
static double error_of(const float *v) {
  double all = 0;
  for (int r = 0; r < ROWS; r++)
    for (int t = 0; t < TOKENS; t++) {
      double sum = 0;
      for (int i = 0; i < COLS; i++)
        sum += (double)v[r * COLS + i] * (double)x[t * COLS + i] -
               (double)w[r * COLS + i] * (double)y[t * COLS + i];
      all += sum * sum;
    }
  return all;
}

static void test_correction_reduces_the_error(void) {
  static float v[ROWS * COLS];
  memcpy(v, w, sizeof v);
  correct(v, ROWS);
  CHECK(error_of(v) < 0.1 * error_of(w));
}

static void test_rows_are_independent(void) {
  static float all[ROWS * COLS], one[COLS];
  memcpy(all, w, sizeof all);
  correct(all, ROWS);
  for (int r = 0; r < ROWS; r++) {
    memcpy(one, w + r * COLS, sizeof one);
    correct(one, 1);
    CHECK_MEM(one, all + r * COLS, sizeof one);
  }
}

int main(void) {
  make_inputs();
  RUN(test_drift);
  RUN(test_tokens_in_parts);
  RUN(test_rows_in_parts);
  RUN(test_least_error);
  RUN(test_correction_reduces_the_error);
  RUN(test_rows_are_independent);
  return check_summary();
}
