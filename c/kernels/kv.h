/* Where keys and values lie in the cache of one KV head.
 *
 * f32, f16: keys [capacity][head_dim], then values [capacity][head_dim].
 *
 * i8: rows in the lanes of a vector, as in the tiles of weights, so that a dot with four bytes of
 * each of eight rows is a dot of two vectors. `dims` is head_dim rounded up to 8.
 *   keys    [capacity / 8] groups of 8 positions, each
 *             [head_dim / 32][8] f16 scales, then [dims / 4][8 positions][4 dims]
 *   scales  [capacity] f32, of the values
 *   values  [capacity / 256] runs, the last one shorter, of
 *             [dims / 8][8] tiles of 8 dims x 32 positions: [8][8 dims][4 positions]
 * with all divisions rounded up. */
#ifndef BQ_KERNELS_KV_H
#define BQ_KERNELS_KV_H

#include <string.h>

#include "kernels/kernels.h"

enum {
  BQ_KV_BLOCK = 32,     /* dims that share a key's scale, positions that share a weight scale */
  BQ_KV_TILE = 8 * 32,  /* bytes of a tile of values */
  BQ_KV_RUN = 8,        /* tiles of the same dims that lie together: all values are read in order, few in few pages */
  BQ_ATTEND_ROWS = 4    /* queries that are taken together */
};

static inline size_t bq_kv_up(size_t n, size_t unit) { return (n + unit - 1) / unit; }
static inline size_t bq_kv_dims(size_t head_dim) { return bq_kv_up(head_dim, 8) * 8; }

/* --- f32, f16 ------------------------------------------------------------------------------- */

static inline size_t bq_kv_element(bq_kv_type type) { return type == BQ_KV_F32 ? 4 : 2; }

static inline uint8_t *bq_kv_values(const bq_kv_view *kv, bq_kv_type type) {
  return kv->data + (size_t)kv->capacity * kv->head_dim * bq_kv_element(type);
}

/* --- i8 --------------------------------------------------------------------------------------- */

static inline size_t bq_kv_group(size_t head_dim) { /* bytes of 8 keys */
  return bq_kv_up(head_dim, BQ_KV_BLOCK) * 16 + 8 * bq_kv_dims(head_dim);
}

static inline float *bq_kv_scales(const bq_kv_view *kv) {
  return (float *)(void *)(kv->data + bq_kv_up(kv->capacity, 8) * bq_kv_group(kv->head_dim));
}

static inline size_t bq_kv_tile_row(size_t head_dim) { /* bytes of the values of 32 positions */
  return bq_kv_dims(head_dim) / 8 * BQ_KV_TILE;
}

/* Blocks in the run of `block`, the first of it: there are fewer in the last one. */
static inline size_t bq_kv_run(const bq_kv_view *kv, size_t block) {
  const size_t left = bq_kv_up(kv->capacity, BQ_KV_BLOCK) - block;
  return left < BQ_KV_RUN ? left : BQ_KV_RUN;
}

/* The tile of positions 32 * block...32 * block + 31 and dims 8 * group...8 * group + 7. */
static inline uint8_t *bq_kv_tile(const bq_kv_view *kv, size_t block, size_t group) {
  const size_t blocks = bq_kv_up(kv->capacity, BQ_KV_BLOCK), in_run = block % BQ_KV_RUN;
  const size_t run = bq_kv_run(kv, block - in_run);
  return (uint8_t *)(bq_kv_scales(kv) + blocks * BQ_KV_BLOCK) +
         (block - in_run) * bq_kv_tile_row(kv->head_dim) + (group * run + in_run) * BQ_KV_TILE;
}

/* --- rows of a job ------------------------------------------------------------------------------ */

static inline const float *bq_row_query(const bq_attend_job *job, size_t row) {
  return job->q + row / job->heads * job->stride + row % job->heads * job->kv.head_dim;
}
static inline float *bq_row_result(const bq_attend_job *job, size_t row) {
  return job->y + row / job->heads * job->stride + row % job->heads * job->kv.head_dim;
}
static inline size_t bq_row_positions(const bq_attend_job *job, size_t row) {
  return job->position + row / job->heads + 1;
}

#endif
