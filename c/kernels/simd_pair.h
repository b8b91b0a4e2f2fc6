/* Matmul of a single pair: two tokens, or one token with 16-bit activations (session/matmul.c), the
 * most frequent case of decode. As for one token (simd_tiles.h), several groups of 8 rows are
 * computed at once. With one group, each dot product would wait for the previous one, and a CPU's
 * out-of-order window ends before the next block. In larger batches, other pairs fill that time.
 *
 * The including file defines
 *   void dot_pair(bq_tile_shape s, int part, const uint8_t *const *w, const uint8_t *q,
 *                 const constants *c, v128_t sum[PAIR_GROUPS][2][2]);
 * sum[g][t][h] += products of token t with rows 4h...4h+3 of group g, whose weights are at w[g]; q
 * is the pair's panel block. Sub-4-bit types have no such kernel: they are too rare for the
 * code. */
#ifndef BQ_KERNELS_SIMD_PAIR_H
#define BQ_KERNELS_SIMD_PAIR_H

enum { PAIR_GROUPS = 2 }; /* their sums take half of the registers */

INLINE void dot_pair(bq_tile_shape s, int part, const uint8_t *const *w, const uint8_t *q,
                     const constants *c, v128_t sum[PAIR_GROUPS][2][2]);

INLINE bool is_single_pair(bq_tile_shape s, size_t tokens) { return tokens == 2 && !bq_is_sub4(s); }

/* Adds the products of 32 k of each tile, or of `part` of them, with the pair. */
INLINE void add_pair(bq_tile_shape s, int part, const uint8_t *const *tile, uint32_t k,
                     const uint8_t *q, const super_scales *super, const matmul_constants *c,
                     v128_t acc[PAIR_GROUPS][2][2]) {
  v128_t sum[PAIR_GROUPS][2][2];
  uint8_t looked_up[PAIR_GROUPS][TILE_BYTES_32];
  const uint8_t *w[PAIR_GROUPS], *sums = q + 2 * PANEL_Q + 8;
  UNROLL for (int g = 0; g < PAIR_GROUPS; g++)
    w[g] = weights_at(s, part, tile[g], k, c, looked_up[g]);
  UNROLL for (int t = 0; t < 2; t++) {
    const v128_t from = start(s, part, 2, sums + 4 * t);
    UNROLL for (int g = 0; g < PAIR_GROUPS; g++) sum[g][t][0] = sum[g][t][1] = from;
  }
  dot_pair(s, part, w, q, &c->dot, sum);
  UNROLL for (int g = 0; g < PAIR_GROUPS; g++) {
    const super_scales n = block_scales_at(s, tile[g], k + (part == HIGH ? 16 : 0), &super[g], c);
    UNROLL for (int t = 0; t < 2; t++)
      add_token(s, part, sums + 4 * t, sum[g][t], &n, c, acc[g][t]);
  }
}

/* to[g][t] = PAIR_GROUPS groups of 8 rows, whose tiles are `gap` bytes apart, times a pair. */
INLINE void gemm_pair(bq_tile_shape s, const uint8_t *tiles, size_t gap, size_t cols,
                      const uint8_t *panel, bq_type type, v128_t (*to)[2][2]) {
  const matmul_constants c = load_matmul_constants(s, type);
  v128_t acc[PAIR_GROUPS][2][2];
  super_scales n[PAIR_GROUPS];
  memset(acc, 0, sizeof acc);
  for (size_t left = row_blocks(s, cols); left; tiles += bq_tile_size(s)) {
    const uint8_t *const tile[] = {tiles, tiles + gap};
    const size_t blocks = left < s.step / 32 ? left : s.step / 32;
    if (s.scale_bytes == 1)
      UNROLL for (int g = 0; g < PAIR_GROUPS; g++) load_super_scales(s, tile[g], &c, &n[g]);
    KEEP_LOOP for (uint32_t k = 0; k < blocks * 32; k += 32, panel += 2 * PANEL_TOKEN) {
      add_pair(s, s.block == 16 ? LOW : ALL, tile, k, panel, n, &c, acc);
      if (s.block == 16) add_pair(s, HIGH, tile, k, panel, n, &c, acc);
    }
    left -= blocks;
  }
  memcpy(to, acc, sizeof acc);
}

/* The groups that are computed at once are half of the rows apart, because hardware prefetches only
 * long streams. If the number of groups is odd, the last one is computed twice at once. */
static __attribute__((noinline)) void matmul_pair(gemm_pair_fn *gemm, size_t group,
                                                  const bq_matrix *m, const bq_batch *a,
                                                  size_t row0, size_t row1, float *y,
                                                  size_t y_stride) {
  v128_t acc[PAIR_GROUPS][2][2];
  const size_t run = (row1 - row0) / BQ_TILE_ROWS / PAIR_GROUPS * BQ_TILE_ROWS;
  for (size_t row = row0, gap = run; row < row1; row += BQ_TILE_ROWS) {
    if (row == row0 + run) row += (PAIR_GROUPS - 1) * run, gap = 0;
    if (row == row1) return;
    gemm(m->data + row / BQ_TILE_ROWS * group, gap / BQ_TILE_ROWS * group, m->cols, a->panel,
         m->type, acc);
    store_tokens(y + row, y_stride, a->tokens, acc[0], row1 - row);
    if (gap) store_tokens(y + row + gap, y_stride, a->tokens, acc[1], row1 - row - gap);
  }
}

#define PAIR_OF(name) gemm_pair_##name
#define PAIR_FN(name, ...)                                                                      \
  static __attribute__((noinline)) void gemm_pair_##name(                                       \
      const uint8_t *tiles, size_t gap, size_t cols, const uint8_t *panel,                      \
      bq_type type, v128_t(*to)[2][2]) {                                                        \
    if (is_single_pair(BQ_TILE_SHAPE(__VA_ARGS__), 2))                                          \
      gemm_pair(BQ_TILE_SHAPE(__VA_ARGS__), tiles, gap, cols, panel, type, to);                 \
  }

#endif
