/* What changed in the inputs of a product, made good by its weights (c/quant/drift.h), against
 * plain sums in f64. */
#include <stdlib.h>

#include "check.h"
#include "quant/drift.h"
#include "quant/moments.h"
#include "random.h"

enum { ROWS = 11, COLS = 60, TOKENS = 203 };
static float w[ROWS * COLS], y[TOKENS * COLS], x[TOKENS * COLS];
static float moments[COLS * COLS], feedback[COLS * COLS], drift[COLS * COLS];
static double factors[COLS * (COLS + 1)];

/* Neighbours are alike, some are large; x is y where something in front of it changed. */
static void make_inputs(void) {
  uint64_t state = 3;
  for (int i = 0; i < ROWS * COLS; i++) w[i] = random_float(&state);
  for (int t = 0; t < TOKENS; t++) {
    const float lost = random_float(&state);
    for (int i = 0; i < COLS; i++) {
      const float before = i ? y[t * COLS + i - 1] : 0;
      y[t * COLS + i] = (0.8f * before + random_float(&state)) * (i % 17 == 3 ? 6.0f : 1.0f);
    }
    for (int i = 0; i < COLS; i++)
      x[t * COLS + i] = 0.9f * y[t * COLS + i] + 0.1f * y[t * COLS + (i + 1) % COLS] +
                        0.05f * lost + 0.02f * random_float(&state);
  }
  bq_moments_add(moments, COLS, x, TOKENS, 0, 1);
  CHECK_EQ(bq_moments_end(moments, COLS, 0.001f, NULL), BQ_OK);
  CHECK_EQ(bq_feedback_factor(moments, COLS, factors, feedback, NULL), BQ_OK);
  bq_drift_add(drift, COLS, y, x, TOKENS, 0, 1);
}

static void make_good(float *v, size_t rows) {
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

/* Whoever of so many does which rows: the same sums. */
static void test_rows_in_parts(void) {
  for (size_t n = 2; n < 6; n++) {
    static float parts[COLS * COLS];
    memset(parts, 0, sizeof parts);
    for (size_t i = n; i-- > 0;) bq_drift_add(parts, COLS, y, x, TOKENS, i, n);
    CHECK_MEM(parts, drift, sizeof parts);
  }
}

/* (v - w) H = w D, in f64. */
static void test_least_error(void) {
  static float v[ROWS * COLS];
  memcpy(v, w, sizeof v);
  make_good(v, ROWS);
  for (int r = 0; r < ROWS; r++)
    for (int j = 0; j < COLS; j++) {
      double left = 0, right = 0, size = 0;
      for (int i = 0; i < COLS; i++) {
        const double change = (double)v[r * COLS + i] - (double)w[r * COLS + i];
        left += change * (double)moments[i * COLS + j];
        right += (double)w[r * COLS + i] * (double)drift[i * COLS + j];
        size += change * change;
      }
      const double off = left - right, most = 1e-3 * (double)moments[j * COLS + j] * (size + 1e-3);
      CHECK(off < most && off > -most);
    }
}

/* |v x - w y|^2, of all rows and tokens. */
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

static void test_makes_good(void) {
  static float v[ROWS * COLS];
  memcpy(v, w, sizeof v);
  make_good(v, ROWS);
  CHECK(error_of(v) < 0.1 * error_of(w));
}

static void test_rows_are_apart(void) {
  static float all[ROWS * COLS], one[COLS];
  memcpy(all, w, sizeof all);
  make_good(all, ROWS);
  for (int r = 0; r < ROWS; r++) {
    memcpy(one, w + r * COLS, sizeof one);
    make_good(one, 1);
    CHECK_MEM(one, all + r * COLS, sizeof one);
  }
}

int main(void) {
  make_inputs();
  RUN(test_drift);
  RUN(test_tokens_in_parts);
  RUN(test_rows_in_parts);
  RUN(test_least_error);
  RUN(test_makes_good);
  RUN(test_rows_are_apart);
  return check_summary();
}
