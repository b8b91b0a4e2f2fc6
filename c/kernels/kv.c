/* KV cache and attention, the parts that don't depend on the instruction set: sizes of the cache
 * and of scratch, copies, unpacking, and integer sums. */
#include "kernels/kv.h"

#include <string.h>

#include "core/type.h"

enum { MAX_POSITIONS = 1 << 28, MAX_HEAD_DIM = 1 << 20 }; /* no product overflows 64 bits */

uint64_t bq_kv_bytes(bq_kv_type type, uint64_t positions, uint64_t head_dim) {
  if (positions > MAX_POSITIONS || head_dim > MAX_HEAD_DIM) return UINT64_MAX;
  if (bq_kv_bits(type) > 8) return (2 * positions * head_dim * bq_kv_element(type) + 15) / 16 * 16;
  const uint64_t dims = (head_dim + 7) / 8 * 8, k_blocks = (head_dim + 31) / 32;
  const uint64_t groups = (positions + 7) / 8, blocks = (positions + 31) / 32;
  if (bq_kv_bits(type) < 8) {
    const size_t span = bq_kv_span(type);
    return k_blocks * (groups * bq_packed_key_bytes(span) + blocks * bq_packed_value_bytes(span)) +
           blocks * 32 * sizeof(float);
  }
  return groups * (16 * k_blocks + 8 * dims) + blocks * 32 * (sizeof(float) + dims);
}

/* Number of blocks of an i8 cache of `positions` positions, and bytes of the table of their
 * addresses. */
static uint64_t unpacked_blocks(uint64_t positions) {
  return (positions + BQ_KV_BLOCK - 1) / BQ_KV_BLOCK;
}
static uint64_t unpacked_table(uint64_t positions) {
  return (unpacked_blocks(positions) * sizeof(uint8_t *) + 15) / 16 * 16;
}

/* Bytes of scratch for the scores of one row, and its weights as 16-bit numbers with their
 * scales. */
static uint64_t score_bytes(uint64_t positions) {
  const uint64_t p = (positions + 31) / 32 * 32;
  return p * (sizeof(float) + 2) + p / 8;
}

/* Scratch holds for each row its scores, its weights and its query, the latter two as 16-bit
 * numbers with their scales. f16 also needs a block of 32 widened positions, which i8 uses for
 * sums. i4 and i2 also need the visible positions of the head as i8. */
uint64_t bq_attend_scratch(bq_kv_type type, uint64_t positions, uint64_t head_dim) {
  if (positions > MAX_POSITIONS || head_dim > MAX_HEAD_DIM) return UINT64_MAX;
  uint64_t unpacked = 0;
  if (bq_kv_bits(type) < 8)
    unpacked = unpacked_table(positions) +
               unpacked_blocks(positions) * bq_kv_bytes(BQ_KV_I8, BQ_KV_BLOCK, head_dim);
  const uint64_t d = (head_dim + 31) / 32 * 32;
  const uint64_t row = score_bytes(positions) + d * 2 + d / 4;
  return unpacked + BQ_ATTEND_ROWS * row + BQ_KV_SCALED * d * sizeof(float);
}

/* A row's shared memory holds a vector for the sum of exponentials, then scores and weights. */
uint64_t bq_attend_shared(uint64_t positions) {
  if (positions > MAX_POSITIONS) return UINT64_MAX;
  return (16 + score_bytes(positions) + 15) / 16 * 16;
}

/* Positions are renumbered so that the first visible block is block 0. Results depend only on
 * distances and on positions modulo BQ_KV_BLOCK, so they are the same to the bit. */
void bq_attend_unpacked(const bq_attend_job *job, bq_kv_type type, bq_kv_unpack_fn *unpack,
                        void (*attend)(const bq_attend_job *job)) {
  const size_t base = bq_row_base(job, job->row0), end = bq_row_end(job, job->row1 - 1);
  const size_t before = base - bq_kv_in_block(base), blocks = (size_t)unpacked_blocks(end - before);
  const size_t bytes = (size_t)bq_kv_bytes(BQ_KV_I8, BQ_KV_BLOCK, job->kv.head_dim);
  uint8_t **table = job->scratch;
  uint8_t *data = (uint8_t *)job->scratch + unpacked_table(end - before);
  bq_attend_job shifted = *job;
  shifted.kv = (bq_kv_view){table, 0, job->kv.head_dim};
  shifted.position -= before;
  shifted.first = job->first > before ? job->first - before : 0;
  shifted.full = job->full ? job->full - before : 0;
  shifted.scratch = data + blocks * bytes;
  shifted.attention_sums = job->attention_sums ? job->attention_sums + before / BQ_KV_SCALED : NULL;
  for (size_t b = 0; b < blocks; b++) table[b] = data + b * bytes;
  for (size_t at = base; at < end; at += BQ_KV_SCALED)
    unpack(&job->kv, bq_kv_span(type), at, &shifted.kv, at - before);
  attend(&shifted);
}

/* A block consists of sections: keys, scales, and values (of 8 dims each for i8). In a section, the
 * data of each 32 positions is contiguous. */
void bq_kv_copy(bq_kv_type type, const bq_kv_view *kv, size_t from, size_t to) {
  const size_t dim = kv->head_dim, blocks = bq_kv_up(dim, BQ_KV_SCALED), span = bq_kv_span(type);
  const size_t floats = BQ_KV_SCALED * sizeof(float);
  size_t keys = BQ_KV_SCALED * dim * bq_kv_element(type), scales = 0, values = keys, runs = 1;
  if (type == BQ_KV_I8) {
    keys = 4 * bq_kv_group_bytes(dim), scales = floats, values = BQ_KV_TILE;
    runs = bq_kv_dims(dim) / 8;
  } else if (bq_kv_bits(type) < 8) {
    keys = 4 * blocks * bq_packed_key_bytes(span), scales = floats;
    values = blocks * bq_packed_value_bytes(span);
  }
  const uint8_t *source = bq_kv_block(kv, from);
  uint8_t *target = bq_kv_block(kv, to);
  from = bq_kv_in_block(from) / BQ_KV_SCALED, to = bq_kv_in_block(to) / BQ_KV_SCALED;
  for (size_t i = 0, at = 0; i < 2 + runs; i++) {
    const size_t bytes = i == 0 ? keys : i == 1 ? scales : values;
    memcpy(target + at + to * bytes, source + at + from * bytes, bytes);
    at += BQ_KV_TILES * bytes;
  }
}

void bq_attend_add_sums(const bq_attend_job *job, size_t row, const float *weights, float factor) {
  size_t at = bq_row_base(job, row);
  if (!job->attention_sums) return;
  uint32_t *attention_sums =
      job->attention_sums + row / job->heads * job->attention_sums_stride + at / BQ_KV_SCALED;
  for (const size_t end = bq_row_end(job, row); at < end; attention_sums++) {
    float lane[4] = {0, 0, 0, 0};
    do lane[at++ % 4] += *weights++;
    while (at < end && at % BQ_KV_SCALED);
    const float part = ((lane[0] + lane[1]) + (lane[2] + lane[3])) * factor * 65536.0f;
    *attention_sums += !(part > 0.0f) ? 0 : part < 65536.0f ? (uint32_t)part : 65536u;
  }
}
