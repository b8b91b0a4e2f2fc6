/* Sums of outer products, which second moments and drifts are. */
#ifndef BQ_OUTER_H
#define BQ_OUTER_H

#include <stdbool.h>
#include <stddef.h>

/* to [cols][cols]: to[i][j] += (a[t][i] - less[t][i]) * x[t][j], token by token for each element;
 * a, less, x [tokens][cols], less may be NULL. `lower`: what is above the diagonal may be anything.
 * Rows of `to` are shared out: this is part `part` of `parts`, which threads may do at once. */
void bq_outer_add(float *to, size_t cols, const float *a, const float *less, const float *x,
                  size_t tokens, bool lower, size_t part, size_t parts);

#endif
