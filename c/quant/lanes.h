/* Rows of weights side by side, columns one after the other, so that one load of a matrix serves
 * all of them; and what their columns add to each other. */
#ifndef BQ_LANES_H
#define BQ_LANES_H

#include <stddef.h>

enum { BQ_LANES = 8 };
typedef float bq_lanes[BQ_LANES];
#define LANES for (int l = 0; l < BQ_LANES; l++)

/* to[k - from] += sum over j of m[a + j][k] * d[j], for k from...end - 1: the sum of each k goes
 * from j to j, four of them at once, so that rows of m are read from end to end. */
static inline void bq_lanes_spread(const float *m, size_t cols, size_t a, size_t n,
                                   const bq_lanes *d, size_t from, size_t end, bq_lanes *to) {
  const float *row = m + a * cols;
  size_t j = 0;
  for (; j + 4 <= n; j += 4, row += 4 * cols) {
    const float *r1 = row + cols, *r2 = r1 + cols, *r3 = r2 + cols;
    for (size_t k = from; k < end; k++) LANES {
        float sum = to[k - from][l] + row[k] * d[j][l];
        sum += r1[k] * d[j + 1][l];
        sum += r2[k] * d[j + 2][l];
        to[k - from][l] = sum + r3[k] * d[j + 3][l];
      }
  }
  for (; j < n; j++, row += cols)
    for (size_t k = from; k < end; k++) LANES to[k - from][l] += row[k] * d[j][l];
}

#endif
