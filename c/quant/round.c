#include "quant/round.h"

#include <string.h>

#include "core/blocks.h"
#include "quant/encoder.h"
#include "quant/lanes.h"

enum { ROWS = BQ_LANES, BLOCK = 64 }; /* rows of a strip; maximum weights of a block */
typedef bq_lanes lanes;

/* Starts of the search. CUTS: shares of a block's range that are cut off at the bottom and at the
 * top. SIZES: divisors of a symmetric block's largest weight. FITS: number of times that each start
 * is rounded and fitted. */
enum { CUTS = 6, SIZES = 25, FITS = 2 };
static const float cuts[CUTS] = {0.0f, 0.03f, 0.06f, 0.1f, 0.15f, 0.21f};

_Static_assert((int)ROWS == (int)BQ_SEARCH_BLOCKS, "the encoder searches as many at once");
/* Adding and subtracting MAGIC rounds |x| < 2^22 to the nearest integer. */
#define MAGIC 0x1.8p23f
#define MIN_SCALE 0x1p-24f

/* The properties of a type that rounding needs. */
typedef struct form {
  size_t block;
  float low, high;
  bool minimum, f16_scales; /* has a minimum; scales are f16 */
} form;

/* Up to ROWS rows, column by column. */
typedef struct strip {
  form f;
  size_t cols, blocks;
  lanes *w;     /* [cols]: original weights */
  lanes *t;     /* [cols]: weights with the compensation of earlier errors */
  lanes *q;     /* [cols]: integers */
  lanes *g;     /* [cols]: gradient (v - w)^T H */
  lanes *scale, *min; /* [blocks] */
} strip;

static float round_even(float x) { return (x + MAGIC) - MAGIC; }
static float clip(float x, float low, float high) {
  x = x > low ? x : low;
  return x < high ? x : high;
}
static float as_f16(float x) { return bq_f16_to_f32(bq_f32_to_f16(x)); }

/* Rounds a scale to a number that the file can store; never 0. */
static float storable_scale(const form *f, float s) {
  if (f->f16_scales) s = as_f16(s);
  const float least = f->f16_scales ? MIN_SCALE : 0x1p-100f;
  return s >= least || s <= -least ? s : least;
}
static float storable_min(const form *f, float m) {
  return !f->minimum ? 0.0f : f->f16_scales ? as_f16(m) : m;
}

static float nearest(const form *f, float x, float min, float inverse) {
  return round_even(clip((x - min) * inverse, f->low, f->high));
}

/* --- one block: scale and minimum ------------------------------------------------------------- */

typedef struct block_fit {
  lanes scale, min, error;
} block_fit;

/* Weighted sums over a block, for a least-squares line. */
typedef struct line_sums {
  lanes w, q, x, qq, qx;
} line_sums;

/* Computes the sums for fit_line. Not inlined, so that compilers vectorize over the lanes, which is
 * three times as fast. */
static __attribute__((noinline)) void sum_line(const form *f, const lanes *x, const lanes *weight,
                                               size_t n, const lanes scale, const lanes min,
                                               line_sums *out) {
  line_sums s = {.w = {0}};
  lanes inverse;
  LANES inverse[l] = 1.0f / scale[l];
  for (size_t i = 0; i < n; i++) {
    lanes q, wq;
    LANES q[l] = nearest(f, x[i][l], min[l], inverse[l]);
    LANES wq[l] = weight[i][l] * q[l];
    LANES s.w[l] += weight[i][l];
    LANES s.q[l] += wq[l];
    LANES s.x[l] += weight[i][l] * x[i][l];
    LANES s.qq[l] += wq[l] * q[l];
    LANES s.qx[l] += wq[l] * x[i][l];
  }
  *out = s;
}

/* Fits x = scale * q + min by weighted least squares. Blocks whose q are all equal keep their
 * line. */
static void fit_line(const form *f, const lanes *x, const lanes *weight, size_t n, lanes scale,
                     lanes min) {
  line_sums s;
  sum_line(f, x, weight, n, scale, min, &s);
  LANES {
    if (!f->minimum) {
      if (s.qq[l] > 0.0f) scale[l] = s.qx[l] / s.qq[l];
      continue;
    }
    const float mean = s.q[l] / s.w[l], variance = s.qq[l] - s.q[l] * mean;
    const float covariance = s.qx[l] - s.x[l] * mean;
    if (!(variance > 0.0f)) continue;
    scale[l] = covariance / variance;
    min[l] = (s.x[l] - scale[l] * s.q[l]) / s.w[l];
  }
}

/* Stores the line in `best` if its error, with scale and min as the file stores them, is
 * smaller. */
static void keep_better(const form *f, const lanes *x, const lanes *weight, size_t n,
                        const lanes scale, const lanes min, block_fit *best) {
  lanes s, m, inverse, error = {0};
  LANES {
    s[l] = storable_scale(f, scale[l]);
    m[l] = storable_min(f, min[l]);
    inverse[l] = 1.0f / s[l];
  }
  for (size_t i = 0; i < n; i++) LANES {
      const float diff = nearest(f, x[i][l], m[l], inverse[l]) * s[l] + m[l] - x[i][l];
      error[l] += weight[i][l] * (diff * diff);
    }
  LANES {
    const bool better = error[l] < best->error[l];
    best->scale[l] = better ? s[l] : best->scale[l];
    best->min[l] = better ? m[l] : best->min[l];
    best->error[l] = better ? error[l] : best->error[l];
  }
}

static void try_start(const form *f, const lanes *x, const lanes *weight, size_t n, lanes scale,
                      lanes min, block_fit *best) {
  LANES scale[l] = storable_scale(f, scale[l]);
  keep_better(f, x, weight, n, scale, min, best);
  for (int i = 0; i < FITS; i++) {
    fit_line(f, x, weight, n, scale, min);
    LANES scale[l] = storable_scale(f, scale[l]);
  }
  keep_better(f, x, weight, n, scale, min, best);
}

/* Finds the line of the encoder (quant/encoder.h), which gives all weights the same weight. The
 * search starts with it, so that its result is never worse. */
static void start_as_encoder(const form *f, const lanes *x, size_t n, lanes scale, lanes min) {
  float rows[ROWS][BQ_SEARCH_WEIGHTS];
  const float *w[ROWS];
  memset(rows, 0, sizeof rows);
  for (int l = 0; l < ROWS; l++) {
    w[l] = rows[l];
    for (size_t i = 0; i < n; i++) rows[l][i] = x[i][l];
  }
  bq_scalar_encoder.search_scales(w, n, f->high, scale, min);
  LANES {
    const float top = min[l] + scale[l] * f->high;
    min[l] = storable_min(f, min[l]);
    scale[l] = (top - min[l]) / f->high;
  }
}

/* Searches scale and minimum of one block of each row: x weighted by `weight`. */
static void search_block_scales(const form *f, const lanes *x, const lanes *weight, size_t n,
                                lanes scale, lanes min) {
  block_fit best;
  lanes low, high, s, m = {0};
  LANES best.error[l] = 0x1p126f;
  LANES best.scale[l] = storable_scale(f, 0.0f);
  LANES low[l] = high[l] = x[0][l];
  LANES best.min[l] = storable_min(f, x[0][l]);
  for (size_t i = 1; i < n; i++) LANES {
      low[l] = x[i][l] < low[l] ? x[i][l] : low[l];
      high[l] = x[i][l] > high[l] ? x[i][l] : high[l];
    }
  if (f->minimum) {
    if (n <= BQ_SEARCH_WEIGHTS) {
      start_as_encoder(f, x, n, s, m);
      try_start(f, x, weight, n, s, m, &best);
    }
    for (int a = 0; a < CUTS; a++)
      for (int b = 0; b < CUTS; b++) {
        LANES s[l] = (high[l] - low[l]) * (1.0f - cuts[a] - cuts[b]) / f->high;
        LANES m[l] = low[l] + (high[l] - low[l]) * cuts[a];
        try_start(f, x, weight, n, s, m, &best);
      }
  } else {
    LANES high[l] = high[l] > -low[l] ? high[l] : -low[l];
    LANES s[l] = high[l] / f->high; /* as the encoder does */
    try_start(f, x, weight, n, s, m, &best);
    for (int i = 0; i < 2 * SIZES; i++) {
      const float size = (0.55f + 0.03f * (float)(i / 2)) * (f->high == 1.0f ? 2.0f : -f->low);
      LANES s[l] = (i % 2 ? -high[l] : high[l]) / size;
      try_start(f, x, weight, n, s, m, &best);
    }
  }
  memcpy(scale, best.scale, sizeof best.scale);
  memcpy(min, best.min, sizeof best.min);
}

/* --- error compensation ------------------------------------------------------------ */

static size_t block_at(const strip *s, size_t b, size_t *n) {
  const size_t a = b * s->f.block;
  *n = s->cols - a < s->f.block ? s->cols - a : s->f.block;
  return a;
}

/* Rounds column by column; later columns compensate each error. */
static void round_columns(strip *s, const bq_round_by *by) {
  lanes weight[BLOCK], error[BLOCK], inverse;
  for (size_t b = 0, n; b < s->blocks; b++) {
    const size_t a = block_at(s, b, &n);
    for (size_t i = 0; i < n; i++) {
      const size_t at = (a + i) * s->cols + a + i;
      const float importance = by->feedback  ? by->feedback[at]
                               : by->moments ? by->moments[at]
                                             : 1.0f;
      LANES weight[i][l] = importance;
    }
    search_block_scales(&s->f, s->t + a, weight, n, s->scale[b], s->min[b]);
    LANES inverse[l] = 1.0f / s->scale[b][l];
    for (size_t i = 0; i < n; i++) {
      LANES {
        const float q = nearest(&s->f, s->t[a + i][l], s->min[b][l], inverse[l]);
        s->q[a + i][l] = q;
        error[i][l] = q * s->scale[b][l] + s->min[b][l] - s->t[a + i][l];
      }
      if (by->feedback)
        bq_lanes_accumulate(by->feedback, s->cols, a + i, 1, error + i, a + i + 1, a + n,
                            s->t + a + i + 1);
    }
    if (by->feedback)
      bq_lanes_accumulate(by->feedback, s->cols, a, n, error, a + n, s->cols, s->t + a + n);
  }
}

/* --- coordinate descent ----------------------------------------------------------------------- */

static float value_at(const strip *s, size_t i, int l) {
  const size_t b = i / s->f.block;
  return s->q[i][l] * s->scale[b][l] + s->min[b][l];
}

/* g = (v - w)^T H. H is symmetric, so its rows are its columns. Reuses `t` for v - w. */
static void make_gradient(strip *s, const float *h) {
  memset(s->g, 0, s->cols * sizeof *s->g);
  for (size_t i = 0; i < s->cols; i++) LANES s->t[i][l] = value_at(s, i, l) - s->w[i][l];
  for (size_t b = 0, n; b < s->blocks; b++) {
    const size_t a = block_at(s, b, &n);
    bq_lanes_accumulate(h, s->cols, a, n, (const lanes *)(s->t + a), 0, s->cols, s->g);
  }
}

/* Fits scale and minimum of block b for fixed integers; `d` receives the change of the weights. */
static void refit(strip *s, const float *h, size_t b, size_t a, size_t n, lanes *d) {
  lanes hq[BLOCK], gq = {0}, g1 = {0}, qq = {0}, q1 = {0}, ds, dm, change = {0};
  float sum_h = 0;
  memset(hq, 0, sizeof hq);
  bq_lanes_accumulate(h, s->cols, a, n, s->q + a, a, a + n, hq);
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++) sum_h += h[(a + i) * s->cols + a + j];
  for (size_t i = 0; i < n; i++) LANES {
      gq[l] += s->g[a + i][l] * s->q[a + i][l];
      g1[l] += s->g[a + i][l];
      qq[l] += hq[i][l] * s->q[a + i][l];
      q1[l] += hq[i][l];
    }
  LANES {
    const float det = qq[l] * sum_h - q1[l] * q1[l];
    ds[l] = dm[l] = 0.0f;
    if (s->f.minimum && det > 1e-6f * qq[l] * sum_h) {
      ds[l] = (q1[l] * g1[l] - sum_h * gq[l]) / det;
      dm[l] = (q1[l] * gq[l] - qq[l] * g1[l]) / det;
    } else if (!s->f.minimum && qq[l] > 0.0f) {
      ds[l] = -gq[l] / qq[l];
    }
    ds[l] = storable_scale(&s->f, s->scale[b][l] + ds[l]) - s->scale[b][l];
    dm[l] = storable_min(&s->f, s->min[b][l] + dm[l]) - s->min[b][l];
    change[l] = 2.0f * (ds[l] * gq[l] + dm[l] * g1[l]) +
                (ds[l] * ds[l] * qq[l] + 2.0f * ds[l] * dm[l] * q1[l] + dm[l] * dm[l] * sum_h);
    if (!(change[l] < 0.0f)) ds[l] = dm[l] = 0.0f;
    s->scale[b][l] += ds[l];
    s->min[b][l] += dm[l];
  }
  for (size_t i = 0; i < n; i++) LANES d[i][l] = ds[l] * s->q[a + i][l] + dm[l];
  bq_lanes_accumulate(h, s->cols, a, n, d, a, a + n, s->g + a);
}

/* Coordinate descent within a block: moves each weight to the level with the smallest error, while
 * all others are fixed. Adds the changes to `d`. */
static void improve(strip *s, const float *h, size_t b, size_t a, size_t n, lanes *d) {
  lanes inverse;
  LANES inverse[l] = 1.0f / s->scale[b][l];
  for (size_t i = 0; i < n; i++) {
    const float own = 1.0f / h[(a + i) * s->cols + a + i];
    lanes step;
    LANES {
      const float scale = s->scale[b][l], min = s->min[b][l], q = s->q[a + i][l];
      const float wanted = q * scale + min - s->g[a + i][l] * own;
      const float rounded = nearest(&s->f, wanted, min, inverse[l]);
      step[l] = (rounded - q) * scale;
      s->q[a + i][l] = rounded;
      d[i][l] += step[l];
    }
    bq_lanes_accumulate(h, s->cols, a + i, 1, (const lanes *)&step, a, a + n, s->g + a);
  }
}

static void sweep(strip *s, const float *h) {
  lanes d[BLOCK];
  for (size_t b = 0, n; b < s->blocks; b++) {
    const size_t a = block_at(s, b, &n);
    refit(s, h, b, a, n, d);
    improve(s, h, b, a, n, d);
    bq_lanes_accumulate(h, s->cols, a, n, (const lanes *)d, 0, a, s->g);
    bq_lanes_accumulate(h, s->cols, a, n, (const lanes *)d, a + n, s->cols, s->g + a + n);
  }
}

/* --- strips ----------------------------------------------------------------------------------- */

size_t bq_round_floats(size_t cols) { return ROWS * (4 * cols + 2 * (cols + 1)); }

static strip lay_out_strip(form f, size_t cols, float *work) {
  const size_t blocks = (cols + f.block - 1) / f.block;
  lanes *at = (lanes *)(void *)work;
  return (strip){f, cols, blocks, at, at + cols, at + 2 * cols, at + 3 * cols, at + 4 * cols,
                 at + 4 * cols + blocks};
}

/* Adds the errors of the first n rows. Overwrites `g` and `t`. */
static void add_errors(strip *s, const float *h, size_t n, bq_round_errors *errors) {
  for (size_t l = 0; l < n; l++)
    for (size_t i = 0; i < s->cols; i++) {
      const double w = (double)s->w[i][l], diff = (double)value_at(s, i, (int)l) - w;
      errors->error += diff * (h ? (double)s->g[i][l] : diff);
      if (!h) errors->of += w * w;
    }
  if (!h) return;
  memset(s->g, 0, s->cols * sizeof *s->g);
  for (size_t b = 0, m; b < s->blocks; b++) {
    const size_t a = block_at(s, b, &m);
    bq_lanes_accumulate(h, s->cols, a, m, (const lanes *)(s->w + a), 0, s->cols, s->g);
  }
  for (size_t l = 0; l < n; l++)
    for (size_t i = 0; i < s->cols; i++)
      errors->of += (double)s->w[i][l] * (double)s->g[i][l];
}

static void store_row(const strip *s, int l, size_t row, bq_rounded *out) {
  for (size_t i = 0; i < s->cols; i++) out->q[row * s->cols + i] = (int8_t)s->q[i][l];
  for (size_t b = 0; b < s->blocks; b++) {
    out->scale[row * s->blocks + b] = s->scale[b][l];
    out->min[row * s->blocks + b] = s->min[b][l];
  }
}

static bool finite_block(const strip *s, size_t b, int l) {
  return bq_is_finite(s->scale[b][l]) && bq_is_finite(s->min[b][l]);
}

static bool find_form(bq_type type, form *f) {
  const bq_type_facts *facts = bq_type_get(type);
  if (!facts || !facts->encoded || facts->bits > 4 || facts->block > BLOCK) return false;
  const bool minimum = facts->min_bytes > 0, ternary = facts->bits == BQ_TERNARY;
  if (facts->bits == 2 && !minimum) return false; /* levels are odd */
  *f = (form){facts->block, minimum ? 0.0f : ternary ? -1.0f : -8.0f,
              minimum ? (float)((1u << facts->bits) - 1) : ternary ? 1.0f : 7.0f, minimum,
              facts->scale_bytes == 2};
  return true;
}

bq_status bq_round(bq_type type, const float *w, size_t rows, size_t cols, const bq_round_by *by,
                   float *work, bq_rounded *out, bq_round_errors *errors, bq_error *err) {
  form f;
  if (!find_form(type, &f))
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET,
                   "only blocks of at most 4 bits are searched, and none of odd q");
  for (size_t i = 0; i < rows * cols; i++)
    if (!bq_is_finite(w[i]))
      return bq_fail(err, BQ_FORMAT, i, "weight %l is NaN or infinite", (uint64_t)i);
  strip s = lay_out_strip(f, cols, work);
  for (size_t row = 0; row < rows; row += ROWS) {
    const size_t n = rows - row < ROWS ? rows - row : ROWS;
    for (size_t i = 0; i < cols; i++)
      LANES s.w[i][l] = s.t[i][l] = w[((size_t)l < n ? row + (size_t)l : row) * cols + i];
    round_columns(&s, by);
    if (by->moments) make_gradient(&s, by->moments);
    for (uint32_t i = 0; by->moments && i < by->sweeps; i++) sweep(&s, by->moments);
    for (size_t l = 0; l < n; l++) {
      for (size_t b = 0; b < s.blocks; b++)
        if (!finite_block(&s, b, (int)l))
          return bq_fail(err, BQ_FORMAT, (row + l) * cols + b * f.block,
                         "weights are too large for type %s", bq_type_get(type)->name);
      store_row(&s, (int)l, row + l, out);
    }
    add_errors(&s, by->moments, n, errors);
  }
  return BQ_OK;
}
