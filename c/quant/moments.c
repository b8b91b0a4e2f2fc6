#include "quant/moments.h"

#include <stdbool.h>

#include "core/blocks.h"
#include "quant/outer.h"

void bq_moments_add(float *h, size_t cols, const float *x, size_t tokens) {
  bq_add_outer(h, cols, x, x, tokens, true);
}

bq_status bq_moments_end(float *h, size_t cols, float share, bq_error *err) {
  double sum = 0;
  for (size_t i = 0; i < cols; i++) sum += (double)h[i * cols + i];
  const float more = (float)(sum / (double)cols) * share;
  if (!(more > 0.0f) || !bq_is_finite(more))
    return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET,
                   "what goes into a product is zero or not finite on the calibration text");
  for (size_t i = 0; i < cols; i++) {
    h[i * cols + i] += more;
    for (size_t j = 0; j < i; j++) h[j * cols + i] = h[i * cols + j];
  }
  return BQ_OK;
}

/* a += f * b */
static void add_row(double *restrict a, const double *restrict b, double f, size_t n) {
  for (size_t i = 0; i < n; i++) a[i] += f * b[i];
}

/* Lower triangle of H -> row j of M^T, ones left out, and D on the diagonal. From the last column
 * on, each is taken out of those before it. */
static bool factor(double *a, size_t n) {
  for (size_t j = n; j-- > 0;) {
    double *row = a + j * n;
    const double d = row[j];
    if (!(d > 0.0)) return false;
    for (size_t i = 0; i < j; i++) add_row(a + i * n, row, -(row[i] / d), i + 1);
    for (size_t i = 0; i < j; i++) row[i] /= d;
  }
  return true;
}

/* The inverse of a lower triangle with ones on its diagonal, which is not looked at. */
static void invert(double *a, size_t n, double *row) {
  for (size_t k = 0; k < n; k++) {
    double *out = a + k * n;
    for (size_t l = 0; l < k; l++) {
      row[l] = out[l];
      out[l] = 0.0;
    }
    for (size_t l = 0; l < k; l++) {
      add_row(out, a + l * n, -row[l], l);
      out[l] -= row[l];
    }
  }
}

bq_status bq_feedback_make(const float *h, size_t cols, double *work, float *feedback,
                           bq_error *err) {
  for (size_t i = 0; i < cols; i++)
    for (size_t j = 0; j <= i; j++) work[i * cols + j] = (double)h[i * cols + j];
  if (!factor(work, cols))
    return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET,
                   "second moments of the calibration text can't be inverted: it is too short");
  invert(work, cols, work + cols * cols);
  for (size_t i = 0; i < cols; i++)
    for (size_t j = 0; j < cols; j++)
      feedback[i * cols + j] = j >= i ? (float)work[j * cols + i] : 0.0f;
  return BQ_OK;
}
