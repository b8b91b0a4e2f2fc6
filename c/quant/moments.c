#include "quant/moments.h"

#include <stdbool.h>

#include "core/blocks.h"
#include "quant/outer.h"

void bq_moments_add(float *h, size_t cols, const float *x, size_t tokens, size_t part,
                    size_t parts) {
  bq_outer_add(h, cols, x, NULL, x, tokens, true, part, parts);
}

bq_status bq_moments_end(float *h, size_t cols, float share, bq_error *err) {
  double sum = 0;
  for (size_t i = 0; i < cols; i++) sum += (double)h[i * cols + i];
  const float damping = (float)(sum / (double)cols) * share;
  if (!(damping > 0.0f) || !bq_is_finite(damping))
    return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET,
                   "what goes into a product is zero or not finite on the calibration text");
  for (size_t i = 0; i < cols; i++) {
    h[i * cols + i] += damping;
    for (size_t j = 0; j < i; j++) h[j * cols + i] = h[i * cols + j];
  }
  return BQ_OK;
}

/* Number of rows that are added to another row at once. Each element accumulates row by row. */
enum { ROWS_AT_ONCE = 4 };

/* a += f[0] * b[0] + f[1] * b[1] + ..., of m rows that are `stride` apart. */
static void add_rows(double *restrict a, const double *restrict b, ptrdiff_t stride,
                     const double *f, size_t m, size_t n) {
  if (m < ROWS_AT_ONCE) {
    for (; m > 0; m--, b += stride, f++)
      for (size_t i = 0; i < n; i++) a[i] += *f * b[i];
    return;
  }
  const double *b1 = b + stride, *b2 = b1 + stride, *b3 = b2 + stride;
  for (size_t i = 0; i < n; i++)
    a[i] = (((a[i] + f[0] * b[i]) + f[1] * b1[i]) + f[2] * b2[i]) + f[3] * b3[i];
}

/* Eliminates rows j, j - 1, ... (m of them) from row i; its first i + 1 elements remain. */
static void eliminate(double *a, size_t n, size_t i, size_t j, size_t m) {
  double f[ROWS_AT_ONCE];
  for (size_t t = 0; t < m; t++) {
    const double *row = a + (j - t) * n;
    f[t] = -(row[i] / row[j - t]);
  }
  add_rows(a + i * n, a + j * n, -(ptrdiff_t)n, f, m, i + 1);
}

/* Factors the lower triangle of H: row j becomes row j of M^T without its ones, and the diagonal
 * becomes D. Works from the last column on. */
static bool factor_moments(double *a, size_t n) {
  for (size_t end = n, m; end > 0; end -= m) {
    m = end < ROWS_AT_ONCE ? end : ROWS_AT_ONCE;
    for (size_t j = end; j-- > end - m;) { /* first among the m rows themselves */
      if (!(a[j * n + j] > 0.0)) return false;
      for (size_t i = end - m; i < j; i++) eliminate(a, n, i, j, 1);
    }
    for (size_t i = 0; i < end - m; i++) eliminate(a, n, i, end - 1, m);
    for (size_t j = end - m; j < end; j++)
      for (size_t i = 0; i < j; i++) a[j * n + i] /= a[j * n + j];
  }
  return true;
}

/* Inverts a lower triangle whose diagonal is implicitly 1. */
static void invert_triangle(double *a, size_t n, double *row) {
  for (size_t k = 0; k < n; k++) {
    double *out = a + k * n;
    for (size_t l = 0; l < k; l++) {
      row[l] = -out[l];
      out[l] = 0.0;
    }
    for (size_t l = 0, m; l < k; l += m) {
      m = k - l < ROWS_AT_ONCE ? k - l : ROWS_AT_ONCE;
      add_rows(out, a + l * n, (ptrdiff_t)n, row + l, m, l);
      for (size_t t = l; t < l + m; t++) {
        add_rows(out + l, a + t * n + l, 0, row + t, 1, t - l);
        out[t] += row[t];
      }
    }
  }
}

bq_status bq_feedback_factor(const float *h, size_t cols, double *work, float *feedback,
                             bq_error *err) {
  for (size_t i = 0; i < cols; i++)
    for (size_t j = 0; j <= i; j++) work[i * cols + j] = (double)h[i * cols + j];
  if (!factor_moments(work, cols))
    return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET,
                   "second moments of the calibration text can't be inverted: it is too short");
  invert_triangle(work, cols, work + cols * cols);
  for (size_t i = 0; i < cols; i++)
    for (size_t j = 0; j < cols; j++)
      feedback[i * cols + j] = j >= i ? (float)work[j * cols + i] : 0.0f;
  return BQ_OK;
}
