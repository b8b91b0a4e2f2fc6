/* Attention and KV cache with plain SIMD, four f32 or eight 16-bit lanes at a time. */
#ifdef __wasm_simd128__

#include <float.h>

#include "kernels/attend.h"

/* Keys and values are taken as 16-bit lanes of two bytes. The even ones are shifted up, so that
 * they count 256 times, the odd ones down with their sign; numbers that meet these are shifted up
 * instead. So all products count 256 times (at most 32 * 256 * 127 * 127: fits in 32 bits), which
 * the scales take back exactly. 32 numbers are 8 pairs (q[0], q[2]), then 8 (q[1] << 8, q[3] <<
 * 8). */
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

INLINE int32_t key_offset(v128_t low, v128_t high) {
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

/* --- softmax -------------------------------------------------------------------------------- */

static void softmax(float *x, size_t n) {
  const simd_exp_constants k = simd_exp_prepare();
  const float max = simd_largest(x, n);
  v128_t sum = simd_zero();
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    v128_t e = simd_exp_below_0(wasm_f32x4_sub(wasm_v128_load(x + i), wasm_f32x4_splat(max)), &k);
    wasm_v128_store(x + i, e);
    sum = wasm_f32x4_add(sum, e);
  }
  for (size_t j = i; j < n; j++) x[j] = bq_expf(x[j] - max);
  sum = wasm_f32x4_add(sum, simd_load_part(x + i, n - i));
  v128_t inv = wasm_f32x4_splat(1.0f / simd_sum(sum));
  for (i = 0; i + 4 <= n; i += 4)
    wasm_v128_store(x + i, wasm_f32x4_mul(wasm_v128_load(x + i), inv));
  for (; i < n; i++) x[i] *= wasm_f32x4_extract_lane(inv, 0);
}

/* --- scores --------------------------------------------------------------------------------- */

static void cap_scores(float cap, float *scores, size_t n) {
  const simd_exp_constants k = simd_exp_prepare();
  const v128_t c = wasm_f32x4_splat(cap);
  KEEP_LOOP for (size_t i = 0; i < n; i += 4) {
    v128_t t = simd_tanh(wasm_f32x4_div(wasm_v128_load(scores + i), c), &k);
    wasm_v128_store(scores + i, wasm_f32x4_mul(t, c));
  }
}

/* scores[i] += slope * (first + i) */
static void slope_scores(float slope, int32_t first, float *scores, size_t n) {
  const v128_t s = wasm_f32x4_splat(slope);
  v128_t at = wasm_i32x4_add(wasm_i32x4_splat(first), wasm_i32x4_const(0, 1, 2, 3));
  for (size_t i = 0; i < n; i += 4, at = wasm_i32x4_add(at, wasm_i32x4_const_splat(4))) {
    v128_t x = wasm_f32x4_mul(s, wasm_f32x4_convert_i32x4(at));
    wasm_v128_store(scores + i, wasm_f32x4_add(wasm_v128_load(scores + i), x));
  }
}

void bq_simd128_bend(const bq_attend_job *job, size_t row, float *scores) {
  const size_t base = bq_row_base(job, row), unseen = bq_row_from(job, row) - base;
  const size_t n = bq_row_end(job, row) - base;
  if (job->softcap > 0.0f) cap_scores(job->softcap, scores, n);
  if (job->slopes)
    slope_scores(job->slopes[row % job->heads],
                 (int32_t)base - (int32_t)bq_row_position(job, row), scores, n);
  for (size_t i = 0; i < unseen; i++) scores[i] = bq_float_of(0xff800000u); /* -infinity */
}

/* --- f32, f16: blocks of positions, which stay in the cache for all rows ---------------------- */

/* scores[j] = dot(q, k[j]) * scale for N (4 or 1) positions, each with its own four lanes. */
INLINE void score(int N, const float *q, const float *k, size_t dim, float scale, float *scores) {
  v128_t sum[4] = {simd_zero(), simd_zero(), simd_zero(), simd_zero()};
  for (size_t d = 0; d < dim; d += 4) {
    v128_t x = wasm_v128_load(q + d);
    UNROLL for (int i = 0; i < N; i++)
      sum[i] = wasm_f32x4_add(sum[i], wasm_f32x4_mul(x, wasm_v128_load(k + i * dim + d)));
  }
  if (N == 4) {
    v128_t dots = simd_sum_4(sum[0], sum[1], sum[2], sum[3]);
    wasm_v128_store(scores, wasm_f32x4_mul(dots, wasm_f32x4_splat(scale)));
  } else {
    scores[0] = simd_sum(sum[0]) * scale;
  }
}

static void score_block(const float *q, const float *k, size_t positions, size_t dim, float scale,
                        float *scores) {
  size_t j = 0;
  for (; j + 4 <= positions; j += 4) score(4, q, k + j * dim, dim, scale, scores + j);
  for (; j < positions; j++) score(1, q, k + j * dim, dim, scale, scores + j);
}

/* y[0...4N-1] += sum over positions of scores[j] * v[j], N accumulators that stay in registers. */
INLINE void mix(int N, const float *scores, size_t positions, const float *v, size_t dim,
                float *y) {
  v128_t sum[8];
  UNROLL for (int i = 0; i < N; i++) sum[i] = wasm_v128_load(y + 4 * i);
  for (size_t j = 0; j < positions; j++, v += dim) {
    v128_t s = wasm_v128_load32_splat(scores + j);
    UNROLL for (int i = 0; i < N; i++)
      sum[i] = wasm_f32x4_add(sum[i], wasm_f32x4_mul(s, wasm_v128_load(v + 4 * i)));
  }
  UNROLL for (int i = 0; i < N; i++) wasm_v128_store(y + 4 * i, sum[i]);
}

static void mix_block(const float *scores, size_t positions, const float *v, size_t dim, float *y) {
  size_t d = 0;
  for (; d + 32 <= dim; d += 32) mix(8, scores, positions, v + d, dim, y + d);
  for (; d + 16 <= dim; d += 16) mix(4, scores, positions, v + d, dim, y + d);
  for (; d < dim; d += 4) mix(1, scores, positions, v + d, dim, y + d);
}

/* n numbers of a cache as floats; f16 are widened to `wide`. */
static const float *floats_of(bq_kv_type type, const uint8_t *p, size_t n, float *wide) {
  if (type == BQ_KV_F32) return (const float *)(const void *)p;
  const simd_f16_constants c = simd_f16_prepare();
  const uint16_t *h = (const uint16_t *)(const void *)p;
  for (size_t i = 0; i < n; i += 4) wasm_v128_store(wide + i, simd_load_f16(h + i, &c));
  return wide;
}

/* Positions of the 32 from `at` on that come before the row's end. */
static size_t seen(const bq_attend_job *job, size_t row, size_t at) {
  const size_t end = bq_row_end(job, row);
  return end <= at ? 0 : end - at < BQ_KV_SCALED ? end - at : BQ_KV_SCALED;
}

/* y += the values v of the 32 positions from `at` on that the row sees. */
static void mix_seen(const bq_attend_job *job, size_t row, size_t at, const float *scores,
                     const float *v) {
  const size_t dim = job->kv.head_dim, from = bq_row_from(job, row), n = seen(job, row, at);
  const size_t skip = from > at ? from - at : 0;
  if (skip < n)
    mix_block(scores + skip, n - skip, v + skip * dim, dim, bq_row_result(job, row));
}

/* `rows` (at most BQ_ATTEND_ROWS) from `row` on. */
static void attend_rows_of_floats(bq_kv_type type, const bq_attend_job *job, size_t row,
                                  size_t rows) {
  const bq_kv_view *kv = &job->kv;
  const size_t dim = kv->head_dim, last = row + rows - 1;
  const size_t base = bq_row_base(job, row), end = bq_row_end(job, last);
  const size_t stride = bq_kv_up(end - base, BQ_KV_SCALED) * BQ_KV_SCALED;
  float *scores = job->scratch, *wide = scores + rows * stride;
  for (size_t at = base; at < end; at += BQ_KV_SCALED) {
    const float *k = floats_of(type, bq_kv_key(kv, type, at), seen(job, last, at) * dim, wide);
    for (size_t r = 0; r < rows; r++)
      score_block(bq_row_query(job, row + r), k, seen(job, row + r, at), dim, job->scale,
                  scores + r * stride + (at - base));
  }
  for (size_t r = 0; r < rows; r++) {
    const size_t own = bq_row_base(job, row + r);
    bq_simd128_bend(job, row + r, scores + r * stride + (own - base));
    softmax(scores + r * stride + (own - base), bq_row_end(job, row + r) - own);
    memset(bq_row_result(job, row + r), 0, dim * sizeof(float));
  }
  for (size_t at = base; at < end; at += BQ_KV_SCALED) {
    const float *v = floats_of(type, bq_kv_value(kv, type, at), seen(job, last, at) * dim, wide);
    for (size_t r = 0; r < rows; r++)
      mix_seen(job, row + r, at, scores + r * stride + (at - base), v);
  }
}

static void attend_floats(bq_kv_type type, const bq_attend_job *job) {
  for (size_t row = job->row0, rows; row < job->row1; row += rows) {
    rows = job->row1 - row < BQ_ATTEND_ROWS ? job->row1 - row : BQ_ATTEND_ROWS;
    attend_rows_of_floats(type, job, row, rows);
  }
}

void bq_simd128_attend_f32(const bq_attend_job *job) {
  if (job->kv.head_dim % 4) bq_scalar_attend_f32(job);
  else attend_floats(BQ_KV_F32, job);
}
void bq_simd128_attend_f16(const bq_attend_job *job) {
  if (job->kv.head_dim % 4) bq_scalar_attend_f16(job);
  else attend_floats(BQ_KV_F16, job);
}

/* --- storing ---------------------------------------------------------------------------------- */

static void narrow(const float *x, size_t n, uint16_t *h) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    wasm_v128_store(h + i, wasm_u16x8_narrow_i32x4(simd_to_f16(wasm_v128_load(x + i)),
                                                   simd_to_f16(wasm_v128_load(x + i + 4))));
  for (; i < n; i++) h[i] = bq_f32_to_f16(x[i]);
}

void bq_simd128_kv_store_f16(const bq_kv_view *kv, size_t position, size_t tokens, const float *k,
                             const float *v, size_t stride) {
  for (size_t t = 0; t < tokens; t++) {
    narrow(k + t * stride, kv->head_dim,
           (uint16_t *)(void *)bq_kv_key(kv, BQ_KV_F16, position + t));
    narrow(v + t * stride, kv->head_dim,
           (uint16_t *)(void *)bq_kv_value(kv, BQ_KV_F16, position + t));
  }
}

/* Floats d...d+31 of n, zeros behind the end. */
INLINE void load_block(const float *x, size_t d, size_t n, v128_t block[8]) {
  UNROLL for (int i = 0; i < 8; i++)
    block[i] = d + 4 * i < n ? simd_load(x, d + 4 * i, n) : simd_zero();
}

/* As kv_store rounds: times 1 / scale, a scale of 0 makes all 0. */
INLINE void round_block(const v128_t x[8], float scale, int8_t q[32]) {
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
    float scale = wasm_f32x4_extract_lane(largest_size(block), 0) / 127.0f;
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
    m = wasm_f32x4_pmax(m, largest_size(block));
  }
  float most = wasm_f32x4_extract_lane(m, 0);
  most = most < FLT_MAX ? most : FLT_MAX;
  const float scale = most >= 0x1p-100f ? most / 127.0f : 0.0f;
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
