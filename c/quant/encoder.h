/* The inner loops of the encoders, as a table per instruction set. All tables give the same bits,
 * so that every build writes the same files. The scalar table is in c/quant, the SIMD table in
 * c/kernels. */
#ifndef BQ_ENCODER_H
#define BQ_ENCODER_H

#include <stddef.h>
#include <stdint.h>

/* Number of blocks that are searched at once, and maximum number of weights of each. */
enum { BQ_SEARCH_BLOCKS = 8, BQ_SEARCH_WEIGHTS = 64 };

/* Errors of encoded weights, |w - decoded w|: their sum, the sum of their squares, and their
 * maximum. */
typedef struct bq_encode_errors {
  double sum, squares, max;
} bq_encode_errors;

/* The mapping between the weights of a block and integers: w = q * scale + min. */
typedef struct bq_block_range {
  float scale, min;
  float inverse;   /* 1 / scale, or 0 */
  float low, high; /* bounds of q, integers */
} bq_block_range;

typedef struct bq_encoder {
  /* The bits of the largest magnitude; those of NaN and infinities are above all others. */
  uint32_t (*max_magnitude_bits)(const float *w, size_t n);
  /* Searches the scale and minimum of w = q * scale + min, q from 0 to `top`, with the least
   * squared error (docs/FORMAT.md §1, "Encoder"), before they are rounded to f16. Each block has
   * `n` (1...BQ_SEARCH_WEIGHTS) finite weights, which can be read up to the next multiple of 4. A
   * block of equal weights gets scale 0. */
  void (*search_scales)(const float *const w[BQ_SEARCH_BLOCKS], size_t n, float top,
                 float scale[BQ_SEARCH_BLOCKS], float min[BQ_SEARCH_BLOCKS]);
  /* q = (w - min) * inverse, clipped to low...high, halves away from zero; n is a multiple of 16.
   * Adds the errors, accumulated in f32 lanes as in the kernels, unless `errors` is NULL. */
  void (*round_block)(const float *w, size_t n, const bq_block_range *range, int8_t *q,
                bq_encode_errors *errors);
} bq_encoder;

extern const bq_encoder bq_scalar_encoder;

/* --- constants of the search, which every encoder uses ---------------------------------------- */

/* Adding and subtracting this rounds |x| < 2^22 to the nearest integer. */
#define BQ_SEARCH_ROUND 0x1.8p23f
/* Range below which a block isn't searched, because top / range might be infinite: the range from
 * its smallest to its largest weight is used. */
#define BQ_SEARCH_MIN_RANGE 1e-30f

/* Candidates of the search: shares of the range, in units for 15 steps, that are cut off at the
 * bottom and at the top before rounding. The best candidate is then rounded and fitted again. They
 * were chosen greedily on the weights of stories260K and on normally distributed ones. */
enum { BQ_SEARCH_CUTS = 8, BQ_SEARCH_REFINEMENTS = 2 };
typedef struct bq_search_cut {
  float low, high;
} bq_search_cut;
extern const bq_search_cut bq_search_cuts[BQ_SEARCH_CUTS];
static inline bq_search_cut bq_search_cut_of(int i, float top) {
  const float more = 15.0f / top;
  return (bq_search_cut){bq_search_cuts[i].low * more, bq_search_cuts[i].high * more};
}

#endif
