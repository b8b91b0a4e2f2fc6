/* Where keys and values lie in a block of the cache of one KV head.
 *
 * f32, f16: keys [BQ_KV_BLOCK][head_dim], then values [BQ_KV_BLOCK][head_dim].
 *
 * i8: rows in the lanes of a vector, as in the tiles of weights, so that a dot with four bytes of
 * each of eight rows is a dot of two vectors. `dims` is head_dim rounded up to 8.
 *   keys    [BQ_KV_BLOCK / 8] groups of 8 positions, each
 *             [head_dim / 32, rounded up][8] f16 scales, then [dims / 4][8 positions][4 dims]
 *   scales  [BQ_KV_BLOCK] f32, of the values
 *   values  [dims / 8][BQ_KV_TILES] tiles of 8 dims x 32 positions: [8][8 dims][4 positions]
 *
 * i4, i2: 32 dims at a time, the last of them padded, in `span` bytes of a position: 16 or 8. Byte
 * d has c of the dims d, d + span, ..., from its lowest bits on.
 *   keys    [BQ_KV_BLOCK / 8] groups of 8 positions, each [head_dim / 32, rounded up] of
 *             [8] f16 scales, [8] u8 steps, [8] i8 leasts, [span / 4][8 positions][4 bytes]
 *   scales  [BQ_KV_BLOCK] f32, of the values
 *   values  [BQ_KV_TILES][head_dim / 32, rounded up] of
 *             [32] u8 steps, [32] i8 leasts, [span / 8][8][8 bytes][4 positions] */
#ifndef BQ_KERNELS_KV_H
#define BQ_KERNELS_KV_H

#include <string.h>

#include "kernels/kernels.h"

enum {
  BQ_KV_SCALED = 32,                         /* dims that share a key's scale, positions that
                                                share one of weights */
  BQ_KV_TILE = 8 * BQ_KV_SCALED,             /* bytes of a tile of values */
  BQ_KV_TILES = BQ_KV_BLOCK / BQ_KV_SCALED,  /* tiles of the same dims in a block */
  BQ_ATTEND_ROWS = 4                         /* queries that are taken together */
};
_Static_assert(BQ_KV_BLOCK % BQ_KV_SCALED == 0, "weights are scaled within a block");

static inline size_t bq_kv_up(size_t n, size_t unit) { return (n + unit - 1) / unit; }
static inline size_t bq_kv_dims(size_t head_dim) { return bq_kv_up(head_dim, 8) * 8; }

/* The head's share of the block that holds a position, and its place there. */
static inline uint8_t *bq_kv_block(const bq_kv_view *kv, size_t position) {
  return kv->blocks[position / BQ_KV_BLOCK] + kv->offset;
}
static inline size_t bq_kv_in_block(size_t position) { return position % BQ_KV_BLOCK; }

/* --- f32, f16 ------------------------------------------------------------------------------- */

static inline size_t bq_kv_element(bq_kv_type type) { return type == BQ_KV_F32 ? 4 : 2; }

/* Key and value of a position; those of the positions behind it in its block follow. */
static inline uint8_t *bq_kv_key(const bq_kv_view *kv, bq_kv_type type, size_t position) {
  return bq_kv_block(kv, position) + bq_kv_in_block(position) * kv->head_dim * bq_kv_element(type);
}
static inline uint8_t *bq_kv_value(const bq_kv_view *kv, bq_kv_type type, size_t position) {
  return bq_kv_key(kv, type, position) + BQ_KV_BLOCK * (size_t)kv->head_dim * bq_kv_element(type);
}

/* --- i8 --------------------------------------------------------------------------------------- */

static inline size_t bq_kv_group_bytes(size_t head_dim) { /* of 8 keys */
  return bq_kv_up(head_dim, BQ_KV_SCALED) * 16 + 8 * bq_kv_dims(head_dim);
}

/* The group of 8 keys that a position belongs to; the next one of the block follows. */
static inline uint8_t *bq_kv_group(const bq_kv_view *kv, size_t position) {
  return bq_kv_block(kv, position) + bq_kv_in_block(position) / 8 * bq_kv_group_bytes(kv->head_dim);
}

/* The scale of a position's value; those of the positions behind it in its block follow. */
static inline float *bq_kv_scale(const bq_kv_view *kv, size_t position) {
  uint8_t *scales = bq_kv_block(kv, position) + BQ_KV_BLOCK / 8 * bq_kv_group_bytes(kv->head_dim);
  return (float *)(void *)scales + bq_kv_in_block(position);
}

/* The tile of the 32 positions that a position belongs to and of dims 8 * octet...8 * octet + 7;
 * those of the next positions of the block follow. */
static inline uint8_t *bq_kv_tile(const bq_kv_view *kv, size_t position, size_t octet) {
  const size_t place = bq_kv_in_block(position);
  uint8_t *tiles = (uint8_t *)(bq_kv_scale(kv, position - place) + BQ_KV_BLOCK);
  return tiles + (octet * BQ_KV_TILES + place / BQ_KV_SCALED) * BQ_KV_TILE;
}

/* --- i4, i2 ----------------------------------------------------------------------------------- */

/* Bytes that a position takes of 32 dims. */
static inline size_t bq_kv_span(bq_kv_type type) { return type == BQ_KV_I4 ? 16 : 8; }
/* Bytes of 8 keys x 32 dims, of the values of 32 positions x 32 dims. */
static inline size_t bq_packed_key_bytes(size_t span) { return 16 + 8 + 8 + 8 * span; }
static inline size_t bq_packed_value_bytes(size_t span) { return 32 + 32 + 32 * span; }

/* What 8 keys have of dims 32 * block...32 * block + 31; the next dims follow. */
static inline uint8_t *bq_packed_keys(const bq_kv_view *kv, size_t span, size_t position,
                                      size_t block) {
  const size_t blocks = bq_kv_up(kv->head_dim, BQ_KV_SCALED);
  return bq_kv_block(kv, position) +
         (bq_kv_in_block(position) / 8 * blocks + block) * bq_packed_key_bytes(span);
}
static inline float *bq_packed_scale(const bq_kv_view *kv, size_t span, size_t position) {
  const size_t blocks = bq_kv_up(kv->head_dim, BQ_KV_SCALED);
  const size_t keys = BQ_KV_BLOCK / 8 * blocks * bq_packed_key_bytes(span);
  return (float *)(void *)(bq_kv_block(kv, position) + keys) + bq_kv_in_block(position);
}
static inline uint8_t *bq_packed_values(const bq_kv_view *kv, size_t span, size_t position,
                                        size_t block) {
  const size_t place = bq_kv_in_block(position), blocks = bq_kv_up(kv->head_dim, BQ_KV_SCALED);
  uint8_t *values = (uint8_t *)(bq_packed_scale(kv, span, position - place) + BQ_KV_BLOCK);
  return values + (place / BQ_KV_SCALED * blocks + block) * bq_packed_value_bytes(span);
}

/* 32 positions of a packed cache, from `at`, a multiple of 32, to those of an i8 one from `to`. */
typedef void bq_kv_unpack_fn(const bq_kv_view *packed, size_t span, size_t at, const bq_kv_view *kv,
                             size_t to);
/* Over an i4 or i2 cache: what is in sight, unpacked in the scratch, by an attention over i8. */
void bq_attend_unpacked(const bq_attend_job *job, bq_kv_type type, bq_kv_unpack_fn *unpack,
                        void (*attend)(const bq_attend_job *job));

/* What a row's weights, from its base on, times `factor` add to the attention_sums, if there is one. */
void bq_attend_add_sums(const bq_attend_job *job, size_t row, const float *weights, float factor);

/* --- rows of a job ---------------------------------------------------------------------------- */

static inline const float *bq_row_query(const bq_attend_job *job, size_t row) {
  return job->q + row / job->heads * job->stride + row % job->heads * job->kv.head_dim;
}
static inline float *bq_row_result(const bq_attend_job *job, size_t row) {
  return job->y + row / job->heads * job->stride + row % job->heads * job->kv.head_dim;
}
static inline size_t bq_row_position(const bq_attend_job *job, size_t row) {
  return job->position + row / job->heads;
}

/* The positions that it sees: from...end - 1. Neither falls from one row to the next. */
static inline size_t bq_row_from(const bq_attend_job *job, size_t row) {
  const size_t n = bq_row_position(job, row) + 1;
  const size_t from = job->window && n > job->window ? n - job->window : 0;
  return from > job->first ? from : job->first;
}
static inline size_t bq_row_end(const bq_attend_job *job, size_t row) {
  return job->full ? job->full : bq_row_position(job, row) + 1;
}
/* Where its scores begin: `from` rounded down, so that what shares a scale of weights and what
 * shares a lane of sums does so wherever the window begins. */
static inline size_t bq_row_base(const bq_attend_job *job, size_t row) {
  return bq_row_from(job, row) / BQ_KV_SCALED * BQ_KV_SCALED;
}

#endif
