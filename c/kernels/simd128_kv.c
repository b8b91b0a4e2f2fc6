/* SIMD attention and KV store for f32, f16 and sub-8-bit caches, plus softmax, softcap and ALiBi.
 * Compiled for size (emscripten.mk). */
#ifdef __wasm_simd128__

#include "kernels/attend.h"
#include "kernels/simd.h"

/* --- i4, i2 ----------------------------------------------------------------------------------- */

/* Computes 16 values: even bytes of c times `even`, odd bytes times `odd`, plus `least`. Products
 * of bytes are at most 255. Positions that were never stored may give larger ones; the mask keeps
 * these within their byte. */
INLINE v128_t unpacked(v128_t c, v128_t even, v128_t odd, v128_t least) {
  const v128_t low = wasm_i16x8_const_splat(0xff);
  v128_t e = wasm_v128_and(wasm_i16x8_mul(wasm_v128_and(c, low), even), low);
  v128_t o = wasm_i16x8_mul(wasm_v128_andnot(c, low), odd);
  return wasm_i8x16_add(wasm_v128_or(e, o), least);
}

/* Unpacks 16 bytes into n vectors of 16 values, `far` bytes apart; each is for the dims `span`
 * after the previous one. */
static void unpack_bytes(const uint8_t *from, size_t span, v128_t step, v128_t least, size_t n,
                         size_t far, uint8_t *to) {
  v128_t c = wasm_v128_load(from), even = wasm_v128_and(step, wasm_i16x8_const_splat(0xff));
  v128_t odd = wasm_u16x8_shr(step, 8);
  const v128_t mask = wasm_i8x16_splat(span == 16 ? 15 : 3);
  for (size_t i = 0; i < n; i++, to += far) {
    wasm_v128_store(to, unpacked(wasm_v128_and(c, mask), even, odd, least));
    c = wasm_u8x16_shr(c, (uint32_t)span / 4);
  }
}

/* Number of the indices first, first + span, ... that are below `all`. */
INLINE size_t count_of_units(size_t all, size_t span, size_t first) {
  return all > first ? bq_kv_up(all - first, span) : 0;
}

/* Repeats each of the four bytes at p four times. */
INLINE v128_t repeat_four_times(const uint8_t *p) {
  v128_t v = wasm_v128_load32_zero(p);
  return wasm_i8x16_shuffle(v, v, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
}

/* Unpacks `quads` (at most 8) groups of 4 dims. */
static void unpack_keys(const uint8_t *from, size_t span, size_t quads, uint8_t *to) {
  KEEP_LOOP for (size_t half = 0; half < 2; half++) {
    const v128_t step = repeat_four_times(from + 16 + 4 * half),
                 least = repeat_four_times(from + 24 + 4 * half);
    KEEP_LOOP for (size_t j = 0; j < span / 4; j++) {
      const size_t at = 32 * j + 16 * half;
      unpack_bytes(from + 32 + at, span, step, least, count_of_units(quads, span / 4, j), 8 * span,
                   to + at);
    }
  }
}

/* Unpacks `octets` (at most 4) groups of 8 dims; their tiles are `apart` bytes apart. */
static void unpack_values(const uint8_t *from, size_t span, size_t octets, size_t apart,
                          uint8_t *to) {
  for (size_t quad = 0; quad < 8; quad++) {
    const v128_t step = wasm_v128_load32_splat(from + 4 * quad);
    const v128_t least = wasm_v128_load32_splat(from + 32 + 4 * quad);
    KEEP_LOOP for (size_t i = 0; i < span / 4; i++) {
      const size_t at = 32 * quad + i % 2 * 16;
      unpack_bytes(from + 64 + i / 2 * BQ_KV_TILE + at, span, step, least,
                   count_of_units(octets, span / 8, i / 2), span / 8 * apart,
                   to + i / 2 * apart + at);
    }
  }
}

void bq_simd128_kv_unpack(const bq_kv_view *packed, size_t span, size_t at, const bq_kv_view *kv,
                          size_t to) {
  const size_t dims = bq_kv_dims(kv->head_dim), blocks = bq_kv_up(dims, BQ_KV_SCALED);
  for (size_t b = 0; b < blocks; b++) {
    const size_t rest = dims - b * BQ_KV_SCALED, left = rest < BQ_KV_SCALED ? rest : BQ_KV_SCALED;
    for (size_t g = 0; g < BQ_KV_SCALED; g += 8) {
      const uint8_t *keys = bq_packed_keys(packed, span, at + g, b);
      uint8_t *group = bq_kv_group(kv, to + g);
      memcpy(group + 16 * b, keys, 16);
      unpack_keys(keys, span, left / 4, group + 16 * blocks + 256 * b);
    }
    unpack_values(bq_packed_values(packed, span, at, b), span, left / 8,
                  BQ_KV_TILES * BQ_KV_TILE, bq_kv_tile(kv, to, 4 * b));
  }
  memcpy(bq_kv_scale(kv, to), bq_packed_scale(packed, span, at), BQ_KV_SCALED * sizeof(float));
}

BQ_KV_PACKED_TYPES(BQ_ATTEND_PACKED, simd128)

/* --- softmax -------------------------------------------------------------------------------- */

float bq_simd128_exponentials(float *x, size_t n, float sink) {
  const simd_exp_constants k = simd_exp_prepare();
  const float hidden = bq_float_of(0xff800000u), score = simd_largest(x, n); /* -infinity */
  const v128_t max = wasm_f32x4_splat(score < sink ? sink : score);
  v128_t sum = wasm_f32x4_sub(wasm_f32x4_make(sink, hidden, hidden, hidden), max);
  sum = simd_exp_below_0(sum, &k);
  for (; n % BQ_KV_SCALED; n++) x[n] = hidden;
  KEEP_LOOP for (size_t i = 0; i < n; i += 4) {
    v128_t e = simd_exp_below_0(wasm_f32x4_sub(wasm_v128_load(x + i), max), &k);
    wasm_v128_store(x + i, e);
    sum = wasm_f32x4_add(sum, e);
  }
  return simd_sum(sum);
}

static void softmax(float *x, size_t n, float sink) {
  const v128_t inv = wasm_f32x4_splat(1.0f / bq_simd128_exponentials(x, n, sink));
  for (size_t i = 0; i < n; i += 4)
    wasm_v128_store(x + i, wasm_f32x4_mul(wasm_v128_load(x + i), inv));
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

/* scores[i] += slope * -|first + i| */
static void slope_scores(float slope, int32_t first, float *scores, size_t n) {
  const v128_t s = wasm_f32x4_splat(slope);
  v128_t at = wasm_i32x4_add(wasm_i32x4_splat(first), wasm_i32x4_const(0, 1, 2, 3));
  for (size_t i = 0; i < n; i += 4, at = wasm_i32x4_add(at, wasm_i32x4_const_splat(4))) {
    v128_t distance = wasm_i32x4_min(at, wasm_i32x4_neg(at));
    v128_t x = wasm_f32x4_mul(s, wasm_f32x4_convert_i32x4(distance));
    wasm_v128_store(scores + i, wasm_f32x4_add(wasm_v128_load(scores + i), x));
  }
}

void bq_simd128_adjust_scores(const bq_attend_job *job, size_t row, float *scores) {
  const size_t base = bq_row_base(job, row), hidden = bq_row_from(job, row) - base;
  const size_t n = bq_row_end(job, row) - base;
  if (job->softcap > 0.0f) cap_scores(job->softcap, scores, n);
  if (job->slopes)
    slope_scores(job->slopes[row % job->heads],
                 (int32_t)base - (int32_t)bq_row_position(job, row), scores, n);
  for (size_t i = 0; job->biases && i < n; i++) scores[i] += bq_row_bias(job, row, base + i);
  for (size_t i = 0; i < hidden; i++) scores[i] = bq_float_of(0xff800000u); /* -infinity */
}

/* --- f32, f16: blocks of positions, which stay in the cache for all rows ---------------------- */

/* scores[j] = dot(q, k[j]) * scale for N (4 or 1) positions, each in four lanes of its own. */
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

/* y[0...4N-1] += sum over positions of scores[j] * v[j], in N accumulators that stay in registers.
 */
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

/* n numbers of a cache as floats; f16 are widened into `wide`. */
static const float *floats_of(bq_kv_type type, const uint8_t *p, size_t n, float *wide) {
  if (type == BQ_KV_F32) return (const float *)(const void *)p;
  const simd_f16_constants c = simd_f16_prepare();
  const uint16_t *h = (const uint16_t *)(const void *)p;
  for (size_t i = 0; i < n; i += 4) wasm_v128_store(wide + i, simd_load_f16(h + i, &c));
  return wide;
}

/* Number of the 32 positions from `at` on that are before the row's end. */
static size_t visible_positions(const bq_attend_job *job, size_t row, size_t at) {
  const size_t end = bq_row_end(job, row);
  return end <= at ? 0 : end - at < BQ_KV_SCALED ? end - at : BQ_KV_SCALED;
}

/* y += the weighted values v of the 32 positions from `at` on that are visible to the row. */
static void mix_visible(const bq_attend_job *job, size_t row, size_t at, const float *scores,
                        const float *v) {
  const size_t dim = job->kv.head_dim, from = bq_row_from(job, row);
  const size_t n = visible_positions(job, row, at);
  const size_t skip = from > at ? from - at : 0;
  if (skip < n)
    mix_block(scores + skip, n - skip, v + skip * dim, dim, bq_row_result(job, row));
}

/* Computes `rows` (at most BQ_ATTEND_ROWS) rows from `row` on. */
static void attend_rows_of_floats(bq_kv_type type, const bq_attend_job *job, size_t row,
                                  size_t rows) {
  const bq_kv_view *kv = &job->kv;
  const size_t dim = kv->head_dim, last = row + rows - 1;
  const size_t base = bq_row_base(job, row), end = bq_row_end(job, last);
  const size_t stride = bq_kv_up(end - base, BQ_KV_SCALED) * BQ_KV_SCALED;
  float *scores = job->scratch, *wide = scores + rows * stride;
  for (size_t at = base; at < end; at += BQ_KV_SCALED) {
    const float *k =
        floats_of(type, bq_kv_key(kv, type, at), visible_positions(job, last, at) * dim, wide);
    for (size_t r = 0; r < rows; r++)
      score_block(bq_row_query(job, row + r), k, visible_positions(job, row + r, at), dim,
                  job->scale, scores + r * stride + (at - base));
  }
  for (size_t r = 0; r < rows; r++) {
    const size_t own = bq_row_base(job, row + r);
    float *x = scores + r * stride + (own - base);
    bq_simd128_adjust_scores(job, row + r, x);
    softmax(x, bq_row_end(job, row + r) - own, bq_row_sink(job, row + r));
    bq_attend_add_sums(job, row + r, x, 1.0f);
    memset(bq_row_result(job, row + r), 0, dim * sizeof(float));
  }
  for (size_t at = base; at < end; at += BQ_KV_SCALED) {
    const float *v =
        floats_of(type, bq_kv_value(kv, type, at), visible_positions(job, last, at) * dim, wide);
    for (size_t r = 0; r < rows; r++)
      mix_visible(job, row + r, at, scores + r * stride + (at - base), v);
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

#else
typedef int no_simd128; /* a translation unit must declare something */
#endif
