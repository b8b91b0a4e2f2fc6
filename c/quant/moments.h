/* Second moments of a matmul's inputs: H = sum of x x^T over inputs x, the Hessian of the squared
 * output error. Rounding a row w of the matrix to v adds (v - w)^T H (v - w) to the squared error
 * of the outputs, so H says which weights matter, and how later weights can compensate the error of
 * earlier ones. */
#ifndef BQ_MOMENTS_H
#define BQ_MOMENTS_H

#include <stddef.h>

#include "core/status.h"

/* Computes h [cols][cols] += x^T x, for x [tokens][cols]; each element accumulates token by token.
 * Writes only the lower triangle, h[i][j] with j <= i. Computes part `part` of `parts`; threads may
 * compute different parts at once. */
void bq_moments_add(float *h, size_t cols, const float *x, size_t tokens, size_t part,
                    size_t parts);

/* Call once after the last bq_moments_add: fills in the upper triangle and adds `share` of the
 * diagonal's mean to the diagonal (damping). Returns FORMAT if there was no input, only zeros, or
 * an input that was not finite. */
bq_status bq_moments_end(float *h, size_t cols, float share, bq_error *err);

/* The inverse-Hessian factor by which later weights compensate rounding errors (GPTQ). Let H = M D
 * M^T, M upper triangular with ones on its diagonal, and V the inverse of M. When w[j] becomes
 * v[j], all k > j become w[k] -= (w[j] - v[j]) V[j][k]. feedback [cols][cols]: row j has V[j][k]
 * for k > j and D on the diagonal, the cost of an error of w[j] after the best compensation.
 * `work`: cols * (cols + 1) f64. Returns FORMAT if H is not positive definite. */
bq_status bq_feedback_factor(const float *h, size_t cols, double *work, float *feedback,
                             bq_error *err);

#endif
