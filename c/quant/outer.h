/* Accumulates outer products: the basis of second moments (moments.h) and drift (drift.h). */
#ifndef BQ_OUTER_H
#define BQ_OUTER_H

#include <stdbool.h>
#include <stddef.h>

/* Computes to[i][j] += (a[t][i] - b[t][i]) * x[t][j], token by token for each element. Shapes: to
 * [cols][cols]; a, b, x [tokens][cols]. b may be NULL (zeros). `lower`: elements above the diagonal
 * are left undefined. Rows of `to` are divided among threads: computes part `part` of `parts`;
 * different parts may be computed at the same time. */
void bq_outer_add(float *to, size_t cols, const float *a, const float *b, const float *x,
                  size_t tokens, bool lower, size_t part, size_t parts);

#endif
