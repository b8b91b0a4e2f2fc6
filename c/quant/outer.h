/* Accumulates outer products: the basis of second moments (moments.h) and drift (drift.h). */
#ifndef BQ_OUTER_H
#define BQ_OUTER_H

#include <stdbool.h>
#include <stddef.h>

/* to [cols][cols]: to[i][j] += (a[t][i] - less[t][i]) * x[t][j], token by token for each element;
 * a, less, x [tokens][cols]; less may be NULL. `lower`: elements above the diagonal are undefined.
 * Rows of `to` are divided: computes part `part` of `parts`; threads may compute different parts at
 * once. */
void bq_outer_add(float *to, size_t cols, const float *a, const float *less, const float *x,
                  size_t tokens, bool lower, size_t part, size_t parts);

#endif
