/* The scalar encoder (encoder.h). It defines the bits that all encoders give. */
#include "quant/encoder.h"

#include "core/half.h"

static uint32_t max_magnitude_bits(const float *w, size_t n) {
  uint32_t max = 0;
  for (size_t i = 0; i < n; i++) {
    const uint32_t size = bq_bits_of(w[i]) & 0x7fffffffu;
    max = size > max ? size : max;
  }
  return max;
}

/* --- the search ------------------------------------------------------------------------------- */

typedef float lanes[BQ_SEARCH_BLOCKS];
#define LANES for (int b = 0; b < BQ_SEARCH_BLOCKS; b++)

const bq_search_cut bq_search_cuts[BQ_SEARCH_CUTS] = {
    {0.015f, 0.015f}, {0.03f, 0}, {0, 0.03f}, {0, 0},
    {0.045f, 0},      {0, 0.045f}, {0.015f, 0}, {0, 0.015f}};

/* The best line y = q * step + least so far; gain: the variance that it explains. */
typedef struct fit {
  lanes step, least, gain;
} fit;

/* Rounds y to q = (y - least) / step, fits a line through (q, y) by least squares, and keeps it in
 * `best` if it explains more of the variance. */
static void try_line(const lanes y[], size_t n, float top, const lanes least,
                     const lanes inverse_step, const lanes sum_y, fit *best) {
  lanes sum = {0}, squares = {0}, products = {0};
  for (size_t i = 0; i < n; i++) LANES {
      float q = (y[i][b] - least[b]) * inverse_step[b];
      q = q > 0.0f ? q : 0.0f;
      q = q < top ? q : top;
      q = (q + BQ_SEARCH_ROUND) - BQ_SEARCH_ROUND;
      sum[b] += q;
      squares[b] += q * q;
      products[b] += q * y[i][b];
    }
  const float share = 1.0f / (float)n;
  LANES {
    const float variance = squares[b] - sum[b] * sum[b] * share;
    const float covariance = products[b] - sum[b] * sum_y[b] * share;
    const float step = covariance / (variance > 0.0f ? variance : 1.0f);
    const float gain = covariance * step;
    const int better = gain > best->gain[b];
    best->step[b] = better ? step : best->step[b];
    best->least[b] = better ? (sum_y[b] - step * sum[b]) * share : best->least[b];
    best->gain[b] = better ? gain : best->gain[b];
  }
}

/* Tries all cuts, then rounds and fits the best line again. y is from 0 to `top`. */
static void search_line(const lanes y[], size_t n, float top, fit *best) {
  lanes sum_y = {0}, least, inverse_step;
  for (size_t i = 0; i < n; i++) LANES sum_y[b] += y[i][b];
  for (int i = 0; i < BQ_SEARCH_CUTS; i++) {
    const bq_search_cut cut = bq_search_cut_of(i, top);
    LANES least[b] = top * cut.low;
    LANES inverse_step[b] = 1.0f / (1.0f - cut.low - cut.high);
    try_line(y, n, top, least, inverse_step, sum_y, best);
  }
  for (int i = 0; i < BQ_SEARCH_REFINEMENTS; i++) {
    LANES least[b] = best->least[b];
    LANES inverse_step[b] = 1.0f / best->step[b];
    try_line(y, n, top, least, inverse_step, sum_y, best);
  }
}

static void search_ranges(const float *const w[BQ_SEARCH_BLOCKS], size_t n, float top,
                          float scale[BQ_SEARCH_BLOCKS], float min[BQ_SEARCH_BLOCKS]) {
  lanes y[BQ_SEARCH_WEIGHTS], high, factor;
  LANES min[b] = high[b] = w[b][0];
  for (size_t i = 1; i < n; i++) LANES {
      min[b] = w[b][i] < min[b] ? w[b][i] : min[b];
      high[b] = w[b][i] > high[b] ? w[b][i] : high[b];
    }
  fit best;
  LANES {
    const float range = high[b] - min[b];
    scale[b] = range / top;
    factor[b] = range > BQ_SEARCH_MIN_RANGE ? top / range : 0.0f;
    best.step[b] = 1.0f;
    best.least[b] = best.gain[b] = 0.0f;
  }
  for (size_t i = 0; i < n; i++) LANES y[i][b] = (w[b][i] - min[b]) * factor[b];
  search_line(y, n, top, &best);
  LANES min[b] = min[b] + best.least[b] * scale[b];
  LANES scale[b] = best.step[b] * scale[b];
}

/* --- rounding --------------------------------------------------------------------------------- */

/* Rounds halves away from zero, as C's roundf. */
static int8_t round_one(float w, const bq_block_range *range) {
  float x = (w - range->min) * range->inverse;
  x = x > range->low ? x : range->low;
  x = x < range->high ? x : range->high;
  const int integer = (int)x;
  const float fraction = x - (float)integer; /* exact */
  return (int8_t)(integer + (fraction >= 0.5f) - (fraction <= -0.5f));
}

static void round_block(const float *w, size_t n, const bq_block_range *range, int8_t *q,
                        bq_encode_errors *errors) {
  float sum[4] = {0}, squares[4] = {0};
  for (size_t i = 0; i < n; i++) {
    q[i] = round_one(w[i], range);
    if (!errors) continue;
    const float error = w[i] - ((float)q[i] * range->scale + range->min);
    const float e = error < 0 ? -error : error;
    sum[i % 4] += e;
    squares[i % 4] += e * e;
    errors->max = e > errors->max ? e : errors->max;
  }
  if (!errors) return;
  errors->sum += (sum[0] + sum[1]) + (sum[2] + sum[3]);
  errors->squares += (squares[0] + squares[1]) + (squares[2] + squares[3]);
}

const bq_encoder bq_scalar_encoder = {max_magnitude_bits, search_ranges, round_block};
