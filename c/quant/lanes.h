/* Lanes: a group of BQ_LANES rows of weights, stored column by column, so that all rows use one
 * load of a matrix of moments; and the product of such a group with a matrix. */
#ifndef BQ_LANES_H
#define BQ_LANES_H

#include <stddef.h>
#include <string.h>

enum { BQ_LANES = 8 };
typedef float bq_lanes[BQ_LANES];
#define LANES for (int l = 0; l < BQ_LANES; l++)

/* Prevents clang from vectorizing over columns, which would transpose all lanes. */
#ifdef __clang__
#define BQ_NO_VECTORIZE _Pragma("clang loop vectorize(disable)")
#else
#define BQ_NO_VECTORIZE
#endif

/* to[k - from] += sum over j of m[a + j][k] * d[j], for j < n and k in [from, end). Each sum runs
 * in rising j; four rows of m are read at once, so that they are read from end to end. */
static inline void bq_lanes_accumulate(const float *m, size_t cols, size_t a, size_t n,
                                       const bq_lanes *d, size_t from, size_t end, bq_lanes *to) {
  const float *row = m + a * cols;
  size_t j = 0;
  for (; j + 4 <= n; j += 4, row += 4 * cols) {
    const float *r1 = row + cols, *r2 = r1 + cols, *r3 = r2 + cols;
    bq_lanes own[4];
    memcpy(own, d + j, sizeof own);
    BQ_NO_VECTORIZE
    for (size_t k = from; k < end; k++) {
      bq_lanes sum;
      memcpy(sum, to[k - from], sizeof sum);
      LANES sum[l] += row[k] * own[0][l];
      LANES sum[l] += r1[k] * own[1][l];
      LANES sum[l] += r2[k] * own[2][l];
      LANES sum[l] += r3[k] * own[3][l];
      memcpy(to[k - from], sum, sizeof sum);
    }
  }
  for (; j < n; j++, row += cols) {
    bq_lanes own;
    memcpy(own, d[j], sizeof own);
    BQ_NO_VECTORIZE
    for (size_t k = from; k < end; k++) {
      bq_lanes sum;
      memcpy(sum, to[k - from], sizeof sum);
      LANES sum[l] += row[k] * own[l];
      memcpy(to[k - from], sum, sizeof sum);
    }
  }
}

#endif
