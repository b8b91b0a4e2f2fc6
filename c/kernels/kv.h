/* Layout of a KV-cache block: the positions of the keys and values of one KV head in memory.
 *
 * f32, f16: keys [BQ_KV_BLOCK][head_dim], then values [BQ_KV_BLOCK][head_dim].
 *
 * i8: eight rows are interleaved, four bytes each, as in weight tiles, so that SIMD computes the
 * dot products of eight rows at once. `dims` is head_dim rounded up to 8.
 *   keys    [BQ_KV_BLOCK / 8] groups of 8 positions, each
 *             [head_dim / 32, rounded up][8] f16 scales, then [dims / 4][8 positions][4 dims]
 *   scales  [BQ_KV_BLOCK] f32, of the values
 *   values  [dims / 8][BQ_KV_TILES] tiles of 8 dims x 32 positions: [8][8 dims][4 positions]
 *
 * i4, i2: 32 dims of a position, the last ones padded, take `span` bytes: 16 or 8. Byte d holds the
 * codes c (kernels.h, kv_store) of the dims d, d + span, ..., from its lowest bits on.
 *   keys    [BQ_KV_BLOCK / 8] groups of 8 positions, each [head_dim / 32, rounded up] of
 *             [8] f16 scales, [8] u8 steps, [8] i8 leasts, [span / 4][8 positions][4 bytes]
 *   scales  [BQ_KV_BLOCK] f32, of the values
 *   values  [BQ_KV_TILES][head_dim / 32, rounded up] of
 *             [32] u8 steps, [32] i8 leasts, [span / 8][8][8 bytes][4 positions] */
#ifndef BQ_KERNELS_KV_H
#define BQ_KERNELS_KV_H

#include <string.h>

#include "core/half.h"
#include "kernels/kernels.h"

enum {
  BQ_KV_SCALED = 32,                         /* dims that share a key's scale; positions whose
                                                weights share one */
  BQ_KV_TILE = 8 * BQ_KV_SCALED,             /* bytes of a tile of values */
  BQ_KV_TILES = BQ_KV_BLOCK / BQ_KV_SCALED   /* tiles of the same dims in a block */
};
_Static_assert(BQ_KV_BLOCK % BQ_KV_SCALED == 0, "weights are scaled within a block");

static inline size_t bq_kv_up(size_t n, size_t unit) { return (n + unit - 1) / unit; }
static inline size_t bq_kv_dims(size_t head_dim) { return bq_kv_up(head_dim, 8) * 8; }

/* bq_kv_block: address of the head's part of the block that holds a position. bq_kv_in_block: index
 * of the position in that block. */
static inline uint8_t *bq_kv_block(const bq_kv_view *kv, size_t position) {
  return kv->blocks[position / BQ_KV_BLOCK] + kv->offset;
}
static inline size_t bq_kv_in_block(size_t position) { return position % BQ_KV_BLOCK; }

/* Bits of a number in a cache. */
static inline size_t bq_kv_bits(bq_kv_type type) {
#define BQ_X(table, NAME, name, bits, ...) bits,
  static const uint8_t bits[] = {BQ_KV_TYPES(BQ_X, )};
#undef BQ_X
  return bits[type];
}

/* --- f32, f16 ------------------------------------------------------------------------------- */

static inline size_t bq_kv_element(bq_kv_type type) { return bq_kv_bits(type) / 8; }

/* Address of the key or value of a position. Those of the next positions of the block follow. */
static inline uint8_t *bq_kv_key(const bq_kv_view *kv, bq_kv_type type, size_t position) {
  return bq_kv_block(kv, position) + bq_kv_in_block(position) * kv->head_dim * bq_kv_element(type);
}
static inline uint8_t *bq_kv_value(const bq_kv_view *kv, bq_kv_type type, size_t position) {
  return bq_kv_key(kv, type, position) + BQ_KV_BLOCK * (size_t)kv->head_dim * bq_kv_element(type);
}

/* --- i8 --------------------------------------------------------------------------------------- */

static inline size_t bq_kv_group_bytes(size_t head_dim) { /* bytes of 8 keys */
  return bq_kv_up(head_dim, BQ_KV_SCALED) * 16 + 8 * bq_kv_dims(head_dim);
}

/* Address of the group of 8 keys that contains a position. The block's next group follows. */
static inline uint8_t *bq_kv_group(const bq_kv_view *kv, size_t position) {
  return bq_kv_block(kv, position) + bq_kv_in_block(position) / 8 * bq_kv_group_bytes(kv->head_dim);
}

/* Address of the scale of a position's value. Those of the next positions of the block follow. */
static inline float *bq_kv_scale(const bq_kv_view *kv, size_t position) {
  uint8_t *scales = bq_kv_block(kv, position) + BQ_KV_BLOCK / 8 * bq_kv_group_bytes(kv->head_dim);
  return (float *)(void *)scales + bq_kv_in_block(position);
}

/* Address of the tile of dims 8 * octet...8 * octet + 7, for the 32 positions that include a
 * position. The tiles of the block's next positions follow. */
static inline uint8_t *bq_kv_tile(const bq_kv_view *kv, size_t position, size_t octet) {
  const size_t place = bq_kv_in_block(position);
  uint8_t *tiles = (uint8_t *)(bq_kv_scale(kv, position - place) + BQ_KV_BLOCK);
  return tiles + (octet * BQ_KV_TILES + place / BQ_KV_SCALED) * BQ_KV_TILE;
}

/* --- i4, i2 ----------------------------------------------------------------------------------- */

/* Bytes of 32 dims of a position. */
static inline size_t bq_kv_span(bq_kv_type type) { return 4 * bq_kv_bits(type); }
/* Bytes of 8 keys x 32 dims, and of 32 values x 32 dims. */
static inline size_t bq_packed_key_bytes(size_t span) { return 16 + 8 + 8 + 8 * span; }
static inline size_t bq_packed_value_bytes(size_t span) { return 32 + 32 + 32 * span; }

/* Address of the packed dims 32 * block...32 * block + 31 of the group of 8 keys that contains a
 * position. The next dims follow. bq_packed_values: of the 32 values that include a position. */
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

/* Unpacks the 32 positions of an i4 or i2 cache from `at` on, a multiple of 32, to an i8 cache,
 * from position `to` on. */
typedef void bq_kv_unpack_fn(const bq_kv_view *packed, size_t span, size_t at, const bq_kv_view *kv,
                             size_t to);
/* Attention over an i4 or i2 cache: unpacks the visible positions into i8 blocks in the scratch,
 * then calls the i8 `attend`. */
void bq_attend_unpacked(const bq_attend_job *job, bq_kv_type type, bq_kv_unpack_fn *unpack,
                        void (*attend)(const bq_attend_job *job));

/* Adds a row's weights times `factor` to job->attention_sums, if the job has them. `weights` begin
 * at bq_row_base. */
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

/* The positions that a row attends to: [from, end). Neither decreases from one row to the next. */
static inline size_t bq_row_from(const bq_attend_job *job, size_t row) {
  const size_t n = bq_row_position(job, row) + 1;
  const size_t from = job->window && n > job->window ? n - job->window : 0;
  return from > job->first ? from : job->first;
}
static inline size_t bq_row_end(const bq_attend_job *job, size_t row) {
  const size_t p = bq_row_position(job, row);
  if (!job->full) return p + 1;
  return job->window && job->window < job->full - p ? p + job->window : job->full;
}
/* The bias of a row's score of position j; the job must have biases. */
static inline float bq_row_bias(const bq_attend_job *job, size_t row, size_t j) {
  const size_t p = bq_row_position(job, row), far = BQ_BIAS_FAR;
  const size_t at = j + far < p ? 0 : j > p + far ? 2 * far : j + far - p;
  return job->biases[job->bias_buckets[at] * job->bias_stride + row % job->heads];
}
/* The sink of a row; -infinity without sinks. */
static inline float bq_row_sink(const bq_attend_job *job, size_t row) {
  return job->sinks ? job->sinks[row % job->heads] : bq_float_of(0xff800000u);
}
/* Position of a row's first score: bq_row_from rounded down to a multiple of BQ_KV_SCALED. So the
 * positions that share a weight scale or a lane don't depend on where the window begins. */
static inline size_t bq_row_base(const bq_attend_job *job, size_t row) {
  return bq_row_from(job, row) / BQ_KV_SCALED * BQ_KV_SCALED;
}

#endif
