/* Second moments of what goes into a product: H = sum of x x^T over inputs x. Rounding a row w of
 * the matrix to v adds (v - w)^T H (v - w) to the squared error of what it gives, so H says which
 * weights matter, and how the error of one can be made good by others. */
#ifndef BQ_MOMENTS_H
#define BQ_MOMENTS_H

#include <stddef.h>

#include "core/status.h"

/* h [cols][cols] += x^T x, of `tokens` rows of x; each element adds up token by token. Only the
 * lower triangle, h[i][j], j <= i: above it may be anything. This is part `part` of `parts`, which
 * threads may do at once. */
void bq_moments_add(float *h, size_t cols, const float *x, size_t tokens, size_t part,
                    size_t parts);

/* Once all is added: the upper triangle too, and `share` of the mean of the diagonal on top of it,
 * so that inputs never seen count for a little. FORMAT: no input, or none but zeros, or one that
 * was not finite. */
bq_status bq_moments_end(float *h, size_t cols, float share, bq_error *err);

/* How the error of a weight is made good by those behind it (GPTQ). With H = M D M^T, M upper
 * triangular with ones on its diagonal, and V the inverse of M: when w[j] becomes v[j], all k > j
 * become w[k] -= (w[j] - v[j]) V[j][k]. feedback [cols][cols]: row j has V[j][k], k > j; D is on
 * the diagonal: what an error of w[j] costs that those behind it make good as well as they can.
 * `work`: cols * (cols + 1) f64. FORMAT: H is not positive definite. */
bq_status bq_feedback_factor(const float *h, size_t cols, double *work, float *feedback,
                           bq_error *err);

#endif
