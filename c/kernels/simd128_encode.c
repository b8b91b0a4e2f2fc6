/* The SIMD encoder (quant/encoder.h): eight blocks are searched at a time, in two vectors. */
#ifdef __wasm_simd128__

#include "core/half.h"
#include "kernels/simd.h"
#include "kernels/simd128.h"

static uint32_t max_magnitude_bits(const float *w, size_t n) {
  const v128_t size = wasm_u32x4_const_splat(0x7fffffff);
  v128_t most[2] = {simd_zero(), simd_zero()};
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    UNROLL for (int j = 0; j < 2; j++) most[j] =
        wasm_u32x4_max(most[j], wasm_v128_and(wasm_v128_load(w + i + 4 * j), size));
  uint32_t lane[4], left = 0;
  wasm_v128_store(lane, wasm_u32x4_max(most[0], most[1]));
  for (; i < n; i++) {
    const uint32_t bits = bq_bits_of(w[i]) & 0x7fffffffu;
    left = bits > left ? bits : left;
  }
  for (int j = 0; j < 4; j++) left = lane[j] > left ? lane[j] : left;
  return left;
}

/* --- search ----------------------------------------------------------------------------------- */

typedef float lanes[BQ_SEARCH_BLOCKS];

typedef struct pair {
  v128_t v[2];
} pair;

#define HALVES UNROLL for (int h = 0; h < 2; h++)

typedef struct fit {
  pair step, least, gain;
} fit;

INLINE pair load(const float *p) { return (pair){{wasm_v128_load(p), wasm_v128_load(p + 4)}}; }
INLINE pair splat(float x) { return (pair){{wasm_f32x4_splat(x), wasm_f32x4_splat(x)}}; }
INLINE void store(float *p, pair x) {
  HALVES wasm_v128_store(p + 4 * h, x.v[h]);
}

INLINE void try_line(const lanes y[], size_t n, v128_t top, pair least, pair inverse_step,
                     const pair *sum_y, fit *best) {
  pair sum = splat(0), squares = sum, products = sum;
  const v128_t zero = wasm_f32x4_splat(0), round = wasm_f32x4_splat(BQ_SEARCH_ROUND);
  for (size_t i = 0; i < n; i++) {
    const pair at = load(y[i]);
    HALVES {
      v128_t q = wasm_f32x4_mul(wasm_f32x4_sub(at.v[h], least.v[h]), inverse_step.v[h]);
      q = wasm_f32x4_pmin(top, wasm_f32x4_pmax(zero, q));
      q = wasm_f32x4_sub(wasm_f32x4_add(q, round), round);
      sum.v[h] = wasm_f32x4_add(sum.v[h], q);
      squares.v[h] = wasm_f32x4_add(squares.v[h], wasm_f32x4_mul(q, q));
      products.v[h] = wasm_f32x4_add(products.v[h], wasm_f32x4_mul(q, at.v[h]));
    }
  }
  const v128_t share = wasm_f32x4_splat(1.0f / (float)n), one = wasm_f32x4_splat(1);
  HALVES {
    const v128_t s = sum.v[h], sy = sum_y->v[h];
    v128_t variance = wasm_f32x4_sub(squares.v[h], wasm_f32x4_mul(wasm_f32x4_mul(s, s), share));
    variance = wasm_v128_bitselect(variance, one, wasm_f32x4_gt(variance, zero));
    const v128_t covariance =
        wasm_f32x4_sub(products.v[h], wasm_f32x4_mul(wasm_f32x4_mul(s, sy), share));
    const v128_t step = wasm_f32x4_div(covariance, variance);
    const v128_t gain = wasm_f32x4_mul(covariance, step);
    const v128_t better = wasm_f32x4_gt(gain, best->gain.v[h]);
    const v128_t start = wasm_f32x4_mul(wasm_f32x4_sub(sy, wasm_f32x4_mul(step, s)), share);
    best->step.v[h] = wasm_v128_bitselect(step, best->step.v[h], better);
    best->least.v[h] = wasm_v128_bitselect(start, best->least.v[h], better);
    best->gain.v[h] = wasm_v128_bitselect(gain, best->gain.v[h], better);
  }
}

INLINE void search_line(const lanes y[], size_t n, float top, fit *best) {
  pair sum_y = splat(0);
  for (size_t i = 0; i < n; i++) {
    const pair at = load(y[i]);
    HALVES sum_y.v[h] = wasm_f32x4_add(sum_y.v[h], at.v[h]);
  }
  for (int i = 0; i < BQ_SEARCH_CUTS + BQ_SEARCH_REFINEMENTS; i++) {
    pair least = best->least, inverse = best->step;
    if (i < BQ_SEARCH_CUTS) {
      const bq_search_cut cut = bq_search_cut_of(i, top);
      least = splat(top * cut.low);
      inverse = splat(1.0f - cut.low - cut.high);
    }
    HALVES inverse.v[h] = wasm_f32x4_div(wasm_f32x4_splat(1), inverse.v[h]);
    try_line(y, n, wasm_f32x4_splat(top), least, inverse, &sum_y, best);
  }
}

/* Stores weights i...i+3 of four blocks: the transpose of four loads. */
INLINE void store_transposed(const float *const w[4], size_t i, float *y) {
  const v128_t a = wasm_v128_load(w[0] + i), b = wasm_v128_load(w[1] + i),
               c = wasm_v128_load(w[2] + i), d = wasm_v128_load(w[3] + i);
  const v128_t ab = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), cd = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5),
               ef = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7), gh = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
  wasm_v128_store(y, wasm_i64x2_shuffle(ab, cd, 0, 2));
  wasm_v128_store(y + BQ_SEARCH_BLOCKS, wasm_i64x2_shuffle(ab, cd, 1, 3));
  wasm_v128_store(y + 2 * BQ_SEARCH_BLOCKS, wasm_i64x2_shuffle(ef, gh, 0, 2));
  wasm_v128_store(y + 3 * BQ_SEARCH_BLOCKS, wasm_i64x2_shuffle(ef, gh, 1, 3));
}

static void search_ranges(const float *const w[BQ_SEARCH_BLOCKS], size_t n, float most,
                          float scale[BQ_SEARCH_BLOCKS], float min[BQ_SEARCH_BLOCKS]) {
  lanes y[BQ_SEARCH_WEIGHTS];
  for (size_t i = 0; i < n; i += 4) {
    store_transposed(w, i, y[i]);
    store_transposed(w + 4, i, y[i] + 4);
  }
  pair low = load(y[0]), high = low, factor, unit;
  for (size_t i = 1; i < n; i++) {
    const pair at = load(y[i]);
    HALVES {
      low.v[h] = wasm_f32x4_pmin(low.v[h], at.v[h]);
      high.v[h] = wasm_f32x4_pmax(high.v[h], at.v[h]);
    }
  }
  const v128_t top = wasm_f32x4_splat(most);
  HALVES {
    const v128_t range = wasm_f32x4_sub(high.v[h], low.v[h]);
    unit.v[h] = wasm_f32x4_div(range, top);
    factor.v[h] = wasm_v128_and(wasm_f32x4_div(top, range),
                                wasm_f32x4_gt(range, wasm_f32x4_splat(BQ_SEARCH_MIN_RANGE)));
  }
  for (size_t i = 0; i < n; i++) {
    pair at = load(y[i]);
    HALVES at.v[h] = wasm_f32x4_mul(wasm_f32x4_sub(at.v[h], low.v[h]), factor.v[h]);
    store(y[i], at);
  }
  fit best = {splat(1), splat(0), splat(0)};
  search_line((const lanes *)y, n, most, &best);
  HALVES {
    low.v[h] = wasm_f32x4_add(low.v[h], wasm_f32x4_mul(best.least.v[h], unit.v[h]));
    unit.v[h] = wasm_f32x4_mul(best.step.v[h], unit.v[h]);
  }
  store(min, low);
  store(scale, unit);
}

/* --- rounding --------------------------------------------------------------------------------- */

/* Rounds x to integers, halves away from zero, as floats. */
INLINE v128_t rounded(v128_t x, v128_t low, v128_t high) {
  const v128_t half = wasm_f32x4_const_splat(0.5f), one = wasm_f32x4_const_splat(1.0f);
  x = wasm_f32x4_pmin(high, wasm_f32x4_pmax(low, x));
  const v128_t whole = wasm_f32x4_trunc(x), left = wasm_f32x4_sub(x, whole);
  const v128_t up = wasm_v128_and(wasm_f32x4_ge(left, half), one);
  const v128_t down = wasm_v128_and(wasm_f32x4_le(left, wasm_f32x4_neg(half)), one);
  return wasm_f32x4_sub(wasm_f32x4_add(whole, up), down);
}

/* Converts integers that are floats to i32. */
INLINE v128_t integers(v128_t q) {
  const v128_t round = wasm_f32x4_const_splat(BQ_SEARCH_ROUND);
  return wasm_i32x4_sub(wasm_f32x4_add(q, round), round);
}

INLINE void add_errors(bq_encode_errors *errors, v128_t sum, v128_t squares, v128_t most) {
  float lane[4];
  wasm_v128_store(lane, most);
  errors->sum += simd_sum(sum);
  errors->squares += simd_sum(squares);
  for (int i = 0; i < 4; i++) errors->max = lane[i] > errors->max ? lane[i] : errors->max;
}

static void round_block(const float *w, size_t n, const bq_block_range *range, int8_t *q,
                        bq_encode_errors *errors) {
  const v128_t scale = wasm_f32x4_splat(range->scale), min = wasm_f32x4_splat(range->min),
               inverse = wasm_f32x4_splat(range->inverse), low = wasm_f32x4_splat(range->low),
               high = wasm_f32x4_splat(range->high);
  v128_t sum = simd_zero(), squares = sum, most = sum;
  for (size_t i = 0; i < n; i += 16) {
    v128_t four[4];
    UNROLL for (int j = 0; j < 4; j++) {
      const v128_t at = wasm_v128_load(w + i + 4 * j);
      const v128_t x = rounded(wasm_f32x4_mul(wasm_f32x4_sub(at, min), inverse), low, high);
      const v128_t back = wasm_f32x4_add(wasm_f32x4_mul(x, scale), min);
      const v128_t error = wasm_f32x4_abs(wasm_f32x4_sub(at, back));
      sum = wasm_f32x4_add(sum, error);
      squares = wasm_f32x4_add(squares, wasm_f32x4_mul(error, error));
      most = wasm_f32x4_pmax(most, error);
      four[j] = integers(x);
    }
    wasm_v128_store(q + i, wasm_i8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4(four[0], four[1]),
                                                   wasm_i16x8_narrow_i32x4(four[2], four[3])));
  }
  if (errors) add_errors(errors, sum, squares, most);
}

const bq_encoder bq_simd128_encoder = {max_magnitude_bits, search_ranges, round_block};

#else
typedef int no_simd128; /* a translation unit must declare something */
#endif
