#include "quant/outer.h"

#include <string.h>

/* The sums are computed in blocks of WIDE x SIDE elements and TOKENS tokens. The inputs of a block
 * are packed first, because rows of x are pages apart and few of them fit in the same cache sets.
 * ROWS x LANES sums are in registers; with fewer, additions would wait for each other. */
enum { WIDE = 32, SIDE = 16, TOKENS = 128, ROWS = 4, LANES = 8 };

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* Packs columns 0...n - 1 of x as [tokens][width]; columns from n on are undefined. The size of the
 * first memcpy is a constant, so that it is inlined. */
static inline void pack(const float *x, size_t cols, size_t n, size_t width, size_t tokens,
                        float *to) {
  if (n == width)
    for (size_t t = 0; t < tokens; t++) memcpy(to + t * width, x + t * cols, width * sizeof *to);
  else
    for (size_t t = 0; t < tokens; t++) memcpy(to + t * width, x + t * cols, n * sizeof *to);
}

static void subtract(float *from, const float *b, size_t cols, size_t n, size_t tokens) {
  for (size_t t = 0; t < tokens; t++)
    for (size_t i = 0; i < n; i++) from[t * WIDE + i] -= b[t * cols + i];
}

/* to[r][l] += a[t][r] * x[t][l] for ROWS x LANES elements. */
static void add_block(float *to, size_t cols, const float *a, const float *x, size_t tokens) {
  float sum[ROWS][LANES];
  for (size_t r = 0; r < ROWS; r++) memcpy(sum[r], to + r * cols, sizeof sum[r]);
  for (size_t t = 0; t < tokens; t++, a += WIDE, x += SIDE)
    for (size_t r = 0; r < ROWS; r++)
      for (size_t l = 0; l < LANES; l++) sum[r][l] += a[r] * x[l];
  for (size_t r = 0; r < ROWS; r++) memcpy(to + r * cols, sum[r], sizeof sum[r]);
}

/* The same for a block at the matrix's edge. */
static __attribute__((noinline)) void add_edge(float *to, size_t cols, size_t rows, size_t n,
                                               const float *a, const float *x, size_t tokens) {
  float sum[ROWS * LANES] = {0};
  for (size_t r = 0; r < rows; r++) memcpy(sum + r * LANES, to + r * cols, n * sizeof *sum);
  add_block(sum, LANES, a, x, tokens);
  for (size_t r = 0; r < rows; r++) memcpy(to + r * cols, sum + r * LANES, n * sizeof *sum);
}

/* to [rows][n] += a^T x, in a matrix of `cols` columns. */
static void add_corner(float *to, size_t cols, size_t rows, size_t n, const float *a,
                       const float *x, size_t tokens) {
  for (size_t i = 0; i < rows; i += ROWS)
    for (size_t j = 0; j < n; j += LANES) {
      float *block = to + i * cols + j;
      if (rows - i >= ROWS && n - j >= LANES) add_block(block, cols, a + i, x + j, tokens);
      else
        add_edge(block, cols, min_size(rows - i, ROWS), min_size(n - j, LANES), a + i, x + j,
                 tokens);
    }
}

void bq_outer_add(float *to, size_t cols, const float *a, const float *b, const float *x,
                  size_t tokens, bool lower, size_t part, size_t parts) {
  float left[TOKENS * WIDE] = {0}, right[TOKENS * SIDE] = {0};
  for (size_t t = 0; t < tokens; t += TOKENS) {
    const size_t n = min_size(tokens - t, TOKENS), row = t * cols;
    for (size_t i = part * WIDE; i < cols; i += parts * WIDE) {
      const size_t rows = min_size(cols - i, WIDE), end = lower ? i + rows : cols;
      pack(a + row + i, cols, rows, WIDE, n, left);
      if (b) subtract(left, b + row + i, cols, rows, n);
      for (size_t j = 0; j < end; j += SIDE) {
        const size_t columns = min_size(cols - j, SIDE);
        pack(x + row + j, cols, columns, SIDE, n, right);
        add_corner(to + i * cols + j, cols, rows, columns, left, right, n);
      }
    }
  }
}
