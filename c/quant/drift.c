#include "quant/drift.h"

#include <stdbool.h>
#include <string.h>

#include "quant/lanes.h"
#include "quant/outer.h"

enum { ROWS = BQ_LANES };
typedef bq_lanes lanes;

void bq_drift_add(float *drift, size_t cols, const float *y, const float *x, size_t tokens,
                  size_t part, size_t parts) {
  bq_outer_add(drift, cols, y, x, x, tokens, false, part, parts);
}

/* Columns of a triangle that are processed together; dependencies among them are processed
 * first. */
enum { COLUMNS_AT_ONCE = 4 };

/* u[j] = d[j] + sum over k > j of v[j][k] * d[k], for rows a...a + n - 1 of v; each sum in rising
 * k. */
static void multiply_triangle(const float *v, size_t cols, size_t a, size_t n, const lanes *d,
                              lanes *u) {
  lanes sum[COLUMNS_AT_ONCE];
  for (size_t j = 0; j < n; j++) {
    const float *row = v + (a + j) * cols;
    LANES sum[j][l] = d[a + j][l];
    for (size_t k = a + j + 1; k < a + n; k++) LANES sum[j][l] += row[k] * d[k][l];
  }
  const float *row = v + a * cols;
  for (size_t k = a + n; n == COLUMNS_AT_ONCE && k < cols; k++)
    for (size_t j = 0; j < COLUMNS_AT_ONCE; j++) LANES sum[j][l] += row[j * cols + k] * d[k][l];
  for (size_t j = 0; j < n; j++) LANES u[a + j][l] = sum[j][l];
}

/* w += d H^-1, where H^-1 = V^T D^-1 V (bq_feedback_factor): u = d V^T D^-1, w += u V. */
static void add_times_inverse(const lanes *d, size_t cols, const float *feedback, lanes *u,
                              lanes *w) {
  for (size_t a = 0, n; a < cols; a += n) {
    n = cols - a < COLUMNS_AT_ONCE ? cols - a : COLUMNS_AT_ONCE;
    multiply_triangle(feedback, cols, a, n, d, u);
    for (size_t j = a; j < a + n; j++) {
      const float own = feedback[j * cols + j];
      LANES u[j][l] /= own;
      LANES w[j][l] += u[j][l];
      bq_lanes_accumulate(feedback, cols, j, 1, (const lanes *)u + j, j + 1, a + n, w + j + 1);
    }
    bq_lanes_accumulate(feedback, cols, a, n, (const lanes *)u + a, a + n, cols, w + a + n);
  }
}

size_t bq_drift_floats(size_t cols) { return 3 * ROWS * cols; }

void bq_drift_correct(float *w, size_t rows, size_t cols, const float *drift, const float *feedback,
                      float *work) {
  lanes *at = (lanes *)(void *)work, *d = at + cols, *u = d + cols;
  for (size_t row = 0; row < rows; row += ROWS) {
    const size_t n = rows - row < ROWS ? rows - row : ROWS;
    for (size_t i = 0; i < cols; i++)
      LANES at[i][l] = w[((size_t)l < n ? row + (size_t)l : row) * cols + i];
    memset(d, 0, cols * sizeof *d);
    bq_lanes_accumulate(drift, cols, 0, cols, (const lanes *)at, 0, cols, d);
    add_times_inverse(d, cols, feedback, u, at);
    for (size_t l = 0; l < n; l++)
      for (size_t i = 0; i < cols; i++) w[(row + l) * cols + i] = at[i][l];
  }
}
