/* i8 attention and KV-cache stores of the simd128 table. */
#ifdef __wasm_simd128__

#include <float.h>

#include "kernels/attend.h"

/* Keys and values are read as 16-bit lanes of two bytes. Even bytes are shifted up, which
 * multiplies them by 256. Odd bytes are shifted down with their sign, and their factors are shifted
 * up instead. So all products have the factor 256 (their sum is at most 32 * 256 * 127 * 127, which
 * fits 32 bits), and the scales divide by it exactly. 32 numbers are stored as 8 pairs (q[0],
 * q[2]), then 8 pairs (q[1] << 8, q[3] << 8). */
enum { KEY_BYTES = 64, VALUE_BYTES = 64 };
#define UNIT 256.0f

#include "kernels/simd_attend.h"

INLINE void put_values(uint8_t *p, v128_t low, v128_t high) {
  const v128_t odd = wasm_i16x8_const_splat((int16_t)0xff00);
  wasm_v128_store(p, wasm_i16x8_shr(wasm_i16x8_shl(low, 8), 8));
  wasm_v128_store(p + 16, wasm_i16x8_shr(wasm_i16x8_shl(high, 8), 8));
  wasm_v128_store(p + 32, wasm_v128_and(low, odd));
  wasm_v128_store(p + 48, wasm_v128_and(high, odd));
}

INLINE void put_keys(uint8_t *p, v128_t low, v128_t high) { put_values(p, low, high); }

INLINE int32_t key_initial_sum(v128_t low, v128_t high) {
  (void)low, (void)high;
  return 0;
}

INLINE void dot_values(int H, v128_t w0, v128_t w1, const uint8_t *quad,
                       v128_t sum[BQ_ATTEND_ROWS][2]) {
  v128_t even0 = wasm_i16x8_shl(w0, 8), odd0 = wasm_i16x8_shr(w0, 8);
  v128_t even1 = wasm_i16x8_shl(w1, 8), odd1 = wasm_i16x8_shr(w1, 8);
  UNROLL for (int h = 0; h < H; h++) {
    v128_t even = wasm_v128_load32_splat(quad + VALUE_BYTES * h);
    v128_t odd = wasm_v128_load32_splat(quad + VALUE_BYTES * h + 32);
    v128_t s0 = wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, even), wasm_i32x4_dot_i16x8(odd0, odd));
    v128_t s1 = wasm_i32x4_add(wasm_i32x4_dot_i16x8(even1, even), wasm_i32x4_dot_i16x8(odd1, odd));
    sum[h][0] = wasm_i32x4_add(sum[h][0], s0);
    sum[h][1] = wasm_i32x4_add(sum[h][1], s1);
    simd_pin(&sum[h][0]);
    simd_pin(&sum[h][1]);
  }
}

INLINE void dot_keys(int H, v128_t w0, v128_t w1, const uint8_t *quad,
                     v128_t sum[BQ_ATTEND_ROWS][2]) {
  dot_values(H, w0, w1, quad, sum);
}

void bq_simd128_attend_i8(const bq_attend_job *job) { attend_i8(job); }

/* --- storing ---------------------------------------------------------------------------------- */

/* Rounds as kv_store specifies: x times 1 / scale; a scale of 0 makes all q 0. Not inlined, to keep
 * the code small. */
static __attribute__((noinline)) void round_block(const v128_t x[8], float scale, int8_t q[32]) {
  v128_t inv = wasm_f32x4_splat(1.0f / scale), least = wasm_f32x4_const_splat(-127.0f);
  v128_t keep = scale > 0.0f ? wasm_i32x4_const_splat(-1) : simd_zero();
  wasm_v128_store(q, wasm_v128_and(keep, round_sixteen(x, inv, least)));
  wasm_v128_store(q + 16, wasm_v128_and(keep, round_sixteen(x + 4, inv, least)));
}

static void store_key(const bq_kv_view *kv, size_t j, const float *x) {
  const size_t dim = kv->head_dim, dims = bq_kv_dims(dim), blocks = bq_kv_up(dim, BQ_KV_SCALED);
  uint8_t *group = bq_kv_group(kv, j), *k = group + blocks * 16 + j % 8 * 4;
  for (size_t b = 0; b < blocks; b++) {
    v128_t block[8];
    int8_t q[BQ_KV_SCALED];
    load_block(x, b * BQ_KV_SCALED, dim, block);
    float scale = wasm_f32x4_extract_lane(max_magnitude(block), 0) / 127.0f;
    uint16_t h = bq_f32_to_f16(scale < 65504.0f ? scale : 65504.0f);
    memcpy(group + (b * 8 + j % 8) * 2, &h, 2);
    round_block(block, bq_f16_to_f32(h), q);
    for (size_t d = b * BQ_KV_SCALED, i = 0; i < BQ_KV_SCALED && d + i < dims; i += 4)
      memcpy(k + (d + i) * 8, q + i, 4);
  }
}

static void store_value(const bq_kv_view *kv, size_t j, const float *x) {
  const size_t dim = kv->head_dim;
  v128_t m = simd_zero(), block[8];
  for (size_t d = 0; d < dim; d += BQ_KV_SCALED) {
    load_block(x, d, dim, block);
    m = wasm_f32x4_pmax(m, max_magnitude(block));
  }
  float max = wasm_f32x4_extract_lane(m, 0);
  max = max < FLT_MAX ? max : FLT_MAX;
  const float scale = max >= 0x1p-100f ? max / 127.0f : 0.0f;
  *bq_kv_scale(kv, j) = scale;
  uint8_t *tiles = bq_kv_tile(kv, j, 0) + j % BQ_KV_SCALED / 4 * 32 + j % 4;
  for (size_t d = 0; d < dim; d += BQ_KV_SCALED) {
    int8_t q[BQ_KV_SCALED];
    load_block(x, d, dim, block);
    round_block(block, scale, q);
    for (size_t i = 0; i < BQ_KV_SCALED && d + i < dim; i++)
      tiles[(d + i) / 8 * (BQ_KV_TILES * BQ_KV_TILE) + i % 8 * 4] = (uint8_t)q[i];
  }
}

void bq_simd128_kv_store_i8(const bq_kv_view *kv, size_t position, size_t tokens, const float *k,
                            const float *v, size_t stride) {
  for (size_t t = 0; t < tokens; t++) {
    store_key(kv, position + t, k + t * stride);
    store_value(kv, position + t, v + t * stride);
  }
}

#else
typedef int no_simd128; /* a translation unit must declare something */
#endif
