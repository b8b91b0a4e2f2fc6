/* Sums of outer products, which second moments and drifts are. */
#ifndef BQ_OUTER_H
#define BQ_OUTER_H

#include <stddef.h>
#include <string.h>

/* Sums of SIDE x SIDE elements, of so many tokens at once, whose numbers are brought together
 * first: rows of a matrix are some pages apart, and few of these fit the same sets of a cache. */
enum { BQ_OUTER_SIDE = 16, BQ_OUTER_TOKENS = 32 };
typedef float bq_outer_row[BQ_OUTER_SIDE];

/* Columns at...at + SIDE - 1 of x, zeros behind the last. */
static inline void bq_outer_pack(const float *x, size_t cols, size_t at, size_t tokens,
                                 bq_outer_row *to) {
  const size_t n = cols - at < BQ_OUTER_SIDE ? cols - at : BQ_OUTER_SIDE;
  for (size_t t = 0; t < tokens; t++) {
    memset(to[t], 0, sizeof to[t]);
    memcpy(to[t], x + t * cols + at, n * sizeof *x);
  }
}

static inline void bq_outer_row_add(float *h, size_t n, const bq_outer_row *a, size_t i,
                                    const bq_outer_row *x, size_t tokens) {
  bq_outer_row sum = {0};
  memcpy(sum, h, n * sizeof *h);
  for (size_t t = 0; t < tokens; t++) {
    const float own = a[t][i];
    for (int l = 0; l < BQ_OUTER_SIDE; l++) sum[l] += own * x[t][l];
  }
  memcpy(h, sum, n * sizeof *h);
}

/* to[i][j] += a[t][i] * x[t][j], token by token for each element; a, x [tokens][cols]. `lower`:
 * what is above the diagonal may be anything. */
static inline void bq_add_outer(float *to, size_t cols, const float *a, const float *x,
                                size_t tokens, _Bool lower) {
  enum { SIDE = BQ_OUTER_SIDE };
  bq_outer_row left[BQ_OUTER_TOKENS], right[BQ_OUTER_TOKENS];
  for (size_t t = 0; t < tokens; t += BQ_OUTER_TOKENS) {
    const size_t n = tokens - t < BQ_OUTER_TOKENS ? tokens - t : BQ_OUTER_TOKENS;
    for (size_t i = 0; i < cols; i += SIDE) {
      bq_outer_pack(a + t * cols, cols, i, n, left);
      for (size_t j = 0; j < (lower ? i + 1 : cols); j += SIDE) {
        bq_outer_pack(x + t * cols, cols, j, n, right);
        for (size_t k = 0; k < SIDE && i + k < cols; k++)
          bq_outer_row_add(to + (i + k) * cols + j, cols - j < SIDE ? cols - j : SIDE,
                           (const bq_outer_row *)left, k, (const bq_outer_row *)right, n);
      }
    }
  }
}

#endif
