/* Rows of weights side by side, columns one after the other, so that one load of a matrix serves
 * all of them; and what their columns add to each other. */
#ifndef BQ_LANES_H
#define BQ_LANES_H

#include <stddef.h>
#include <string.h>

enum { BQ_LANES = 8 };
typedef float bq_lanes[BQ_LANES];
#define LANES for (int l = 0; l < BQ_LANES; l++)

/* The columns of a matrix stay one after the other: compilers rather take four of them at once, for
 * which all lanes have to be turned. */
#ifdef __clang__
#define BQ_NO_VECTORIZE _Pragma("clang loop vectorize(disable)")
#else
#define BQ_NO_VECTORIZE
#endif

/* to[k - from] += sum over j of m[a + j][k] * d[j], for k from...end - 1: the sum of each k goes
 * from j to j, four of them at once, so that rows of m are read from end to end. */
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
