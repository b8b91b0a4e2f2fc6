/* Rounds matrices to blocks of 4 bits and fewer so that what they give on a calibration text errs
 * least: scales and minima are searched for the weighted squared error, errors are made good by
 * later weights (GPTQ), then all of it is gone through again, block by block, as long as the error
 * falls. Blocks are ordinary ones. All in f32 but what is said, one operation after the other per
 * row: the same bits everywhere. */
#ifndef BQ_ROUND_H
#define BQ_ROUND_H

#include "quant/encode.h"
#include "core/status.h"
#include "core/type.h"

typedef struct bq_round_by {
  const float *moments;  /* [cols][cols], ended: moments.h. NULL: all weights count the same */
  const float *feedback; /* [cols][cols]; NULL: no error is made good */
  uint32_t sweeps;       /* through all blocks, behind that; 0: none */
} bq_round_by;

/* What rounding did to what a matrix gives: the sum of (v - w)^T H (v - w) over its rows, and of
 * w^T H w. Without moments H is 1 on its diagonal. */
typedef struct bq_round_errors {
  double error, of;
} bq_round_errors;

/* Floats of work space for any number of rows. */
size_t bq_round_floats(size_t cols);

/* w [rows][cols] -> `out`, of which q is [rows][cols], scale and min [rows][blocks of a row].
 * UNSUPPORTED: the type has no blocks of at most 4 bits, or their q are odd. FORMAT: a weight that
 * is not finite, or that f16 can't hold (offset = its index, or that of its block). */
bq_status bq_round(bq_type type, const float *w, size_t rows, size_t cols, const bq_round_by *by,
                   float *work, bq_rounded *out, bq_round_errors *errors, bq_error *err);

#endif
