/* The inner loops of the encoders. c/kernels has them for other instruction sets: with the same
 * bits, so that every build writes the same files. */
#ifndef BQ_ENCODER_H
#define BQ_ENCODER_H

#include <stddef.h>
#include <stdint.h>

/* Blocks that are searched at once, and the most weights of each. */
enum { BQ_SEARCH_BLOCKS = 8, BQ_SEARCH_WEIGHTS = 64 };

/* What encoding did to weights: of |w - what it became|. */
typedef struct bq_encode_errors {
  double sum, squares, most;
} bq_encode_errors;

/* How the weights of a block become integers, and back: w = q * scale + min. */
typedef struct bq_block_range {
  float scale, min;
  float inverse;   /* 1 / scale, or 0 */
  float low, high; /* of q, integers */
} bq_block_range;

typedef struct bq_encoder {
  /* The largest magnitude's bits; those of NaN and infinities are above all others. */
  uint32_t (*largest)(const float *w, size_t n);
  /* From `n` (1...BQ_SEARCH_WEIGHTS) finite weights of each block, which can be read up to the next
   * multiple of 4: the scale and the minimum of w = q * scale + min, q from 0 to `top`, that err
   * least (docs/FORMAT.md §1, "Encoder"), before they are rounded to f16. A block whose weights are
   * all the same has scale 0. */
  void (*search)(const float *const w[BQ_SEARCH_BLOCKS], size_t n, float top,
                 float scale[BQ_SEARCH_BLOCKS], float min[BQ_SEARCH_BLOCKS]);
  /* q = (w - min) * inverse, clipped, halves away from zero; n is a multiple of 16. Adds errors,
   * summed up in f32 as the kernels do, unless `errors` is NULL. */
  void (*round)(const float *w, size_t n, const bq_block_range *range, int8_t *q,
                bq_encode_errors *errors);
} bq_encoder;

extern const bq_encoder bq_scalar_encoder;

/* --- the search, for who writes it with vectors ----------------------------------------------- */

/* Added and taken off again it rounds |x| < 2^22 to the nearest integer. */
#define BQ_SEARCH_ROUND 0x1.8p23f
/* Blocks that reach over less keep their least and largest weight: TOP / range might be infinite.
 */
#define BQ_SEARCH_MIN_RANGE 1e-30f

/* Shares of the range of 15 steps (of fewer: as many steps) that are cut off below and above before
 * a first rounding; the best of them is then rounded and fitted anew. Chosen on weights of
 * stories260K and normal ones: each adds more than any other would. */
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
