/* Scalar attention and KV cache: the formulas of kernels.h, written as plainly as possible. This is
 * the reference that other tables are tested against. */
#include <float.h>
#include <string.h>

#include "core/fmath.h"
#include "kernels/attend.h"
#include "kernels/kv.h"

/* --- softmax -------------------------------------------------------------------------------- */

static float sum_lanes(const float lane[4]) { return (lane[0] + lane[1]) + (lane[2] + lane[3]); }

static float max_of(const float *x, size_t n) {
  float max = x[0];
  for (size_t i = 1; i < n; i++) max = max < x[i] ? x[i] : max;
  return max;
}

/* x[i] = exp(x[i] - max); returns their sum, which includes exp(sink - max). */
static float exponentials(float *x, size_t n, float sink) {
  const float score = max_of(x, n), max = score < sink ? sink : score;
  float lane[4] = {bq_expf(sink - max), 0, 0, 0};
  for (size_t i = 0; i < n; i++) lane[i % 4] += x[i] = bq_expf(x[i] - max);
  return sum_lanes(lane);
}

static void softmax(float *x, size_t n, float sink) {
  float inv = 1.0f / exponentials(x, n, sink);
  for (size_t i = 0; i < n; i++) x[i] *= inv;
}

/* --- scores --------------------------------------------------------------------------------- */

/* Applies softcap, ALiBi and biases to the scores of [from, end), and sets those of [base, from),
 * which the row doesn't attend to, to -infinity. */
static void adjust_scores(const bq_attend_job *job, size_t row, float *scores) {
  const size_t base = bq_row_base(job, row), from = bq_row_from(job, row);
  const size_t end = bq_row_end(job, row), p = bq_row_position(job, row);
  for (size_t j = base; j < from; j++) scores[j - base] = bq_float_of(0xff800000u);
  for (size_t j = from; j < end; j++) {
    float *s = &scores[j - base];
    if (job->softcap > 0.0f) *s = bq_tanhf(*s / job->softcap) * job->softcap;
    const int32_t distance = (int32_t)j - (int32_t)p;
    if (job->slopes)
      *s += job->slopes[row % job->heads] * (float)(distance > 0 ? -distance : distance);
    if (job->biases) *s += bq_row_bias(job, row, j);
  }
}

/* --- f32, f16 ------------------------------------------------------------------------------- */

static float load(bq_kv_type type, const uint8_t *p, size_t i) {
  if (type == BQ_KV_F32) return ((const float *)(const void *)p)[i];
  return bq_f16_to_f32(((const uint16_t *)(const void *)p)[i]);
}

static void attend_row(bq_kv_type type, const bq_attend_job *job, size_t row) {
  const size_t base = bq_row_base(job, row), from = bq_row_from(job, row);
  const size_t end = bq_row_end(job, row), dim = job->kv.head_dim;
  const float *q = bq_row_query(job, row);
  float *y = bq_row_result(job, row), *scores = job->scratch;
  for (size_t j = from; j < end; j++) {
    const uint8_t *k = bq_kv_key(&job->kv, type, j);
    float lane[4] = {0, 0, 0, 0};
    for (size_t d = 0; d < dim; d++) lane[d % 4] += q[d] * load(type, k, d);
    scores[j - base] = sum_lanes(lane) * job->scale;
  }
  adjust_scores(job, row, scores);
  softmax(scores, end - base, bq_row_sink(job, row));
  bq_attend_add_sums(job, row, scores, 1.0f);
  for (size_t d = 0; d < dim; d++) y[d] = 0.0f;
  for (size_t j = from; j < end; j++) {
    const uint8_t *v = bq_kv_value(&job->kv, type, j);
    for (size_t d = 0; d < dim; d++) y[d] += scores[j - base] * load(type, v, d);
  }
}

#define ATTEND_FLOATS(table, NAME, name, ...)                                                  \
  void bq_scalar_attend_##name(const bq_attend_job *job) {                                     \
    for (size_t row = job->row0; row < job->row1; row++) attend_row(BQ_KV_##NAME, job, row);   \
  }
BQ_KV_LIST(ATTEND_FLOATS, BQ_SKIP_TYPE, BQ_SKIP_TYPE, )

void bq_scalar_kv_store_f32(const bq_kv_view *kv, size_t position, size_t tokens, const float *k,
                            const float *v, size_t stride) {
  const size_t bytes = kv->head_dim * sizeof(float);
  for (size_t t = 0; t < tokens; t++) {
    memcpy(bq_kv_key(kv, BQ_KV_F32, position + t), k + t * stride, bytes);
    memcpy(bq_kv_value(kv, BQ_KV_F32, position + t), v + t * stride, bytes);
  }
}

void bq_scalar_kv_store_f16(const bq_kv_view *kv, size_t position, size_t tokens, const float *k,
                            const float *v, size_t stride) {
  for (size_t t = 0; t < tokens; t++) {
    uint16_t *key = (uint16_t *)(void *)bq_kv_key(kv, BQ_KV_F16, position + t);
    uint16_t *value = (uint16_t *)(void *)bq_kv_value(kv, BQ_KV_F16, position + t);
    for (size_t d = 0; d < kv->head_dim; d++) {
      key[d] = bq_f32_to_f16(k[t * stride + d]);
      value[d] = bq_f32_to_f16(v[t * stride + d]);
    }
  }
}

/* --- i8 --------------------------------------------------------------------------------------- */

typedef struct block {
  float scale;
  int8_t q[BQ_KV_SCALED];
} block;

static float max_magnitude(const float *x, size_t n) {
  float m = 0.0f;
  for (size_t i = 0; i < n; i++) {
    float size = bq_float_of(bq_bits_of(x[i]) & 0x7fffffffu);
    m = m < size ? size : m;
  }
  return m;
}

static int8_t round_to(float least, float v) {
  v = least < v ? v : least; /* NaN becomes `least` */
  v = v < 127.0f ? v : 127.0f;
  return (int8_t)(int32_t)(bq_bits_of(v + 0x1.8p23f) - 0x4b400000u);
}

/* Quantizes n <= 32 numbers, and pads them with zeros. `least` is -127 for queries, 0 for softmax
 * weights. */
static void quantize_block(const float *x, size_t n, float least, block *b) {
  const float m = max_magnitude(x, n);
  memset(b, 0, sizeof *b);
  if (!(m >= 0x1p-100f)) return;
  b->scale = m / 127.0f;
  for (size_t i = 0; i < n; i++) b->q[i] = round_to(least, x[i] * (127.0f / m));
}

static size_t block_size(size_t n, size_t at) {
  return n - at < BQ_KV_SCALED ? n - at : BQ_KV_SCALED;
}

/* The unscaled score of query q and the key of position j: the sum over the key's blocks. */
static float score(const bq_kv_view *kv, size_t j, const block *q) {
  const uint8_t *group = bq_kv_group(kv, j);
  const uint16_t *scales = (const uint16_t *)(const void *)group;
  const size_t blocks = bq_kv_up(kv->head_dim, BQ_KV_SCALED);
  const int8_t *k = (const int8_t *)(group + blocks * 16);
  float acc = 0.0f;
  for (size_t b = 0; b < blocks; b++) {
    const size_t at = b * BQ_KV_SCALED;
    int32_t dot = 0;
    for (size_t i = 0, d = at; i < block_size(kv->head_dim, at); i++, d++)
      dot += q[b].q[i] * k[(d / 4 * 8 + j % 8) * 4 + d % 4];
    acc += ((float)dot * q[b].scale) * bq_f16_to_f32(scales[b * 8 + j % 8]);
  }
  return acc;
}

/* y[d] += the values of the 32 positions from `at` on, weighted by w; d is in [first, last). */
static void add_values(const bq_kv_view *kv, size_t at, const block *w, size_t first, size_t last,
                       float *y) {
  for (size_t d = first; d < last; d++) {
    const int8_t *v = (const int8_t *)bq_kv_tile(kv, at, d / 8);
    int32_t dot = 0;
    for (size_t j = 0; j < BQ_KV_SCALED; j++)
      dot += w->q[j] * v[(j / 4 * 8 + d % 8) * 4 + j % 4];
    y[d] += (float)dot * w->scale;
  }
}

/* Scores of the positions [from, end), with a query that is quantized into `blocks`. */
static void score_positions(const bq_attend_job *job, size_t row, size_t from, size_t end,
                            block *blocks, float *scores) {
  const float *q = bq_row_query(job, row);
  const size_t base = bq_row_base(job, row), dim = job->kv.head_dim;
  for (size_t d = 0; d < dim; d += BQ_KV_SCALED)
    quantize_block(q + d, block_size(dim, d), -127.0f, &blocks[d / BQ_KV_SCALED]);
  for (size_t j = from; j < end; j++) scores[j - base] = score(&job->kv, j, blocks) * job->scale;
}

/* Turns scores into exponentials times the values' scales. Returns 1 / sum of the exponentials. */
static float weigh_positions(const bq_attend_job *job, size_t row, float *scores) {
  const size_t base = bq_row_base(job, row), end = bq_row_end(job, row);
  adjust_scores(job, row, scores);
  const float inv = 1.0f / exponentials(scores, end - base, bq_row_sink(job, row));
  bq_attend_add_sums(job, row, scores, inv);
  for (size_t j = bq_row_from(job, row); j < end; j++)
    scores[j - base] *= *bq_kv_scale(&job->kv, j);
  return inv;
}

/* The dims [first, last) of a row's result. */
static void sum_values(const bq_attend_job *job, size_t row, const float *weights, float inv,
                       size_t first, size_t last) {
  const size_t base = bq_row_base(job, row), end = bq_row_end(job, row);
  float *y = bq_row_result(job, row);
  for (size_t d = first; d < last; d++) y[d] = 0.0f;
  for (size_t j = base; j < end; j += BQ_KV_SCALED) {
    block quantized;
    quantize_block(weights + (j - base), block_size(end, j), 0.0f, &quantized);
    add_values(&job->kv, j, &quantized, first, last, y);
  }
  for (size_t d = first; d < last; d++) y[d] *= inv;
}

static void attend_row_i8(const bq_attend_job *job, size_t row) {
  const size_t positions = bq_row_end(job, row) - bq_row_base(job, row);
  float *scores = job->scratch;
  block *blocks = (block *)(void *)(scores + bq_kv_up(positions, BQ_KV_SCALED) * BQ_KV_SCALED);
  score_positions(job, row, bq_row_from(job, row), bq_row_end(job, row), blocks, scores);
  const float inv = weigh_positions(job, row, scores);
  sum_values(job, row, scores, inv, 0, job->kv.head_dim);
}

/* Computes a part of a pass of a row. The row's shared memory holds 1 / sum of its exponentials,
 * then its scores. */
static void attend_row_part(const bq_attend_job *job, size_t row) {
  const bq_attend_part *part = job->part;
  const size_t i = row - job->row0, base = bq_row_base(job, row), from = bq_row_from(job, row);
  const size_t end = bq_row_end(job, row), dim = job->kv.head_dim;
  uint8_t *shared = (uint8_t *)part->shared + i * (size_t)bq_attend_shared(end - base);
  float *inv = (float *)(void *)shared;
  float *scores = inv + 4;
  if (part->pass == BQ_ATTEND_SCORES) {
    const size_t first = base + part->from * BQ_KV_SCALED, last = base + part->to * BQ_KV_SCALED;
    score_positions(job, row, first < from ? from : first, last < end ? last : end, job->scratch,
                    scores);
  } else if (part->pass == BQ_ATTEND_WEIGHTS) {
    if (i >= part->from && i < part->to) *inv = weigh_positions(job, row, scores);
  } else {
    sum_values(job, row, scores, *inv, 8 * part->from, 8 * part->to < dim ? 8 * part->to : dim);
  }
}

void bq_scalar_attend_i8(const bq_attend_job *job) {
  for (size_t row = job->row0; row < job->row1; row++)
    if (job->part) attend_row_part(job, row);
    else attend_row_i8(job, row);
}

/* 1 / scale, or 0 for a scale of 0, which makes all q 0. */
static float inverse(float scale) { return scale > 0.0f ? 1.0f / scale : 0.0f; }

static void store_key(const bq_kv_view *kv, size_t j, const float *x) {
  const size_t dim = kv->head_dim, blocks = bq_kv_up(dim, BQ_KV_SCALED);
  uint8_t *group = bq_kv_group(kv, j), *k = group + blocks * 16;
  for (size_t b = 0; b < blocks; b++) {
    const size_t from = b * BQ_KV_SCALED, size = block_size(dim, from);
    float scale = max_magnitude(x + from, size) / 127.0f;
    uint16_t h = bq_f32_to_f16(scale < 65504.0f ? scale : 65504.0f);
    memcpy(group + (b * 8 + j % 8) * 2, &h, 2);
    const float inv = inverse(bq_f16_to_f32(h));
    for (size_t d = from; d < from + BQ_KV_SCALED && d < bq_kv_dims(dim); d++) {
      int8_t q = inv > 0.0f && d < dim ? round_to(-127.0f, x[d] * inv) : 0;
      k[(d / 4 * 8 + j % 8) * 4 + d % 4] = (uint8_t)q;
    }
  }
}

static void store_value(const bq_kv_view *kv, size_t j, const float *x) {
  const size_t dim = kv->head_dim;
  float m = max_magnitude(x, dim);
  m = m < FLT_MAX ? m : FLT_MAX;
  const float scale = m >= 0x1p-100f ? m / 127.0f : 0.0f, inv = inverse(scale);
  *bq_kv_scale(kv, j) = scale;
  for (size_t d = 0; d < dim; d++) {
    uint8_t *tile = bq_kv_tile(kv, j, d / 8);
    int8_t q = inv > 0.0f ? round_to(-127.0f, x[d] * inv) : 0;
    tile[(j % BQ_KV_SCALED / 4 * 8 + d % 8) * 4 + j % 4] = (uint8_t)q;
  }
}

void bq_scalar_kv_store_i8(const bq_kv_view *kv, size_t position, size_t tokens, const float *k,
                           const float *v, size_t stride) {
  for (size_t t = 0; t < tokens; t++) {
    store_key(kv, position + t, k + t * stride);
    store_value(kv, position + t, v + t * stride);
  }
}

/* --- i4, i2 ----------------------------------------------------------------------------------- */

typedef struct packed {
  int step, least;
  uint8_t c[BQ_KV_SCALED];
} packed;

/* Quantizes x to i8 as kv_store does, then to the levels 0...top. */
static packed pack(bq_kv_type type, const float *x, size_t n, float inv) {
  const int top = type == BQ_KV_I4 ? 15 : 3, parts = type == BQ_KV_I4 ? 15 : 4;
  int q[BQ_KV_SCALED] = {0}, low = 127, high = -127;
  for (size_t i = 0; i < n && inv > 0.0f; i++) q[i] = round_to(-127.0f, x[i] * inv);
  for (size_t i = 0; i < BQ_KV_SCALED; i++) {
    low = q[i] < low ? q[i] : low;
    high = q[i] > high ? q[i] : high;
  }
  packed p = {.step = (high - low + parts - 1) / parts};
  /* 256 is added, and 128 afterwards, so that the division rounds down for negative numbers too. */
  p.least = low + 128 - (top * p.step - (high - low) + 1 + 256) / 2;
  p.least = p.least < 127 - top * p.step ? p.least : 127 - top * p.step;
  p.least = p.least < -128 ? -128 : p.least;
  for (size_t i = 0; i < BQ_KV_SCALED && p.step; i++) {
    const int c = (q[i] - p.least + p.step / 2) / p.step;
    p.c[i] = (uint8_t)(c < top ? c : top);
  }
  return p;
}

/* Byte d of a packed span: the codes of dims d, d + span, ... */
static uint8_t byte_of(const packed *p, size_t span, size_t d) {
  size_t byte = 0;
  for (size_t i = 0; d + i * span < BQ_KV_SCALED; i++)
    byte |= (size_t)p->c[d + i * span] << i * span / 4;
  return (uint8_t)byte;
}

static void pack_key(const bq_kv_view *kv, bq_kv_type type, size_t j, const float *x) {
  const size_t dim = kv->head_dim, span = bq_kv_span(type);
  for (size_t from = 0; from < dim; from += BQ_KV_SCALED) {
    uint8_t *keys = bq_packed_keys(kv, span, j, from / BQ_KV_SCALED);
    const size_t size = block_size(dim, from);
    float scale = max_magnitude(x + from, size) / 127.0f;
    uint16_t h = bq_f32_to_f16(scale < 65504.0f ? scale : 65504.0f);
    const packed p = pack(type, x + from, size, inverse(bq_f16_to_f32(h)));
    memcpy(keys + j % 8 * 2, &h, 2);
    keys[16 + j % 8] = (uint8_t)p.step;
    keys[24 + j % 8] = (uint8_t)p.least;
    for (size_t d = 0; d < span; d++)
      keys[32 + (d / 4 * 8 + j % 8) * 4 + d % 4] = byte_of(&p, span, d);
  }
}

static void pack_value(const bq_kv_view *kv, bq_kv_type type, size_t j, const float *x) {
  const size_t dim = kv->head_dim, place = j % BQ_KV_SCALED, span = bq_kv_span(type);
  float m = max_magnitude(x, dim);
  m = m < FLT_MAX ? m : FLT_MAX;
  const float scale = m >= 0x1p-100f ? m / 127.0f : 0.0f, inv = inverse(scale);
  *bq_packed_scale(kv, span, j) = scale;
  for (size_t from = 0; from < dim; from += BQ_KV_SCALED) {
    uint8_t *values = bq_packed_values(kv, span, j, from / BQ_KV_SCALED);
    const packed p = pack(type, x + from, block_size(dim, from), inv);
    values[place] = (uint8_t)p.step;
    values[BQ_KV_SCALED + place] = (uint8_t)p.least;
    for (size_t d = 0; d < span; d++)
      values[64 + ((d / 8 * 8 + place / 4) * 8 + d % 8) * 4 + place % 4] = byte_of(&p, span, d);
  }
}

static void store_packed(const bq_kv_view *kv, bq_kv_type type, size_t position, size_t tokens,
                         const float *k, const float *v, size_t stride) {
  for (size_t t = 0; t < tokens; t++) {
    pack_key(kv, type, position + t, k + t * stride);
    pack_value(kv, type, position + t, v + t * stride);
  }
}

/* The i8 value of dim d of 32. `byte` is byte d % span of its packed span. */
static uint8_t unpack_number(uint8_t byte, size_t span, size_t d, uint8_t step, uint8_t least) {
  const size_t bits = span / 4;
  return (uint8_t)(least + step * (byte >> d / span * bits & ((1u << bits) - 1)));
}

static void unpack_positions(const bq_kv_view *packed, size_t span, size_t at, const bq_kv_view *kv,
                             size_t to) {
  const size_t dims = bq_kv_dims(kv->head_dim), blocks = bq_kv_up(dims, BQ_KV_SCALED);
  for (size_t j = 0; j < BQ_KV_SCALED; j++) {
    uint8_t *group = bq_kv_group(kv, to + j);
    *bq_kv_scale(kv, to + j) = *bq_packed_scale(packed, span, at + j);
    for (size_t dim = 0; dim < dims; dim++) {
      const size_t b = dim / BQ_KV_SCALED, d = dim % BQ_KV_SCALED, p = j % 8, i = d % span;
      const uint8_t *keys = bq_packed_keys(packed, span, at + j, b);
      const uint8_t *values = bq_packed_values(packed, span, at, b);
      memcpy(group + (b * 8 + p) * 2, keys + p * 2, 2);
      group[blocks * 16 + (dim / 4 * 8 + p) * 4 + dim % 4] = unpack_number(
          keys[32 + (i / 4 * 8 + p) * 4 + i % 4], span, d, keys[16 + p], keys[24 + p]);
      bq_kv_tile(kv, to, dim / 8)[(j / 4 * 8 + dim % 8) * 4 + j % 4] =
          unpack_number(values[64 + ((i / 8 * 8 + j / 4) * 8 + i % 8) * 4 + j % 4], span, d,
                        values[j], values[32 + j]);
    }
  }
}

#define PACKED(table, NAME, name, ...)                                                         \
  void bq_scalar_attend_##name(const bq_attend_job *job) {                                     \
    bq_attend_unpacked(job, BQ_KV_##NAME, unpack_positions, bq_scalar_attend_i8);              \
  }                                                                                            \
  void bq_scalar_kv_store_##name(const bq_kv_view *kv, size_t position, size_t tokens,         \
                                 const float *k, const float *v, size_t stride) {              \
    store_packed(kv, BQ_KV_##NAME, position, tokens, k, v, stride);                            \
  }
BQ_KV_PACKED_TYPES(PACKED, )
