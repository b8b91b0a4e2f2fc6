/* Rounds matrices to types of at most 4 bits so that the output error on a calibration text is
 * small. Scales and minimums are searched for the smallest weighted squared error; later weights
 * compensate the errors of earlier ones (GPTQ); then coordinate descent improves integers and
 * scales block by block. The result has ordinary blocks. All arithmetic is f32, except where noted,
 * in a fixed order per row, so it gives the same bits everywhere. */
#ifndef BQ_ROUND_H
#define BQ_ROUND_H

#include "quant/encode.h"
#include "core/status.h"
#include "core/type.h"

/* The data and options of rounding. */
typedef struct bq_round_by {
  const float *moments;  /* [cols][cols], from bq_moments_end. NULL: all weights have equal weight
                            */
  const float *feedback; /* [cols][cols], from bq_feedback_factor; NULL: no compensation */
  uint32_t sweeps;       /* passes of coordinate descent over all blocks; 0: none */
} bq_round_by;

/* The output error of rounding w to v. Without moments, H is the identity. */
typedef struct bq_round_errors {
  double error; /* sum over rows of (v - w)^T H (v - w) */
  double of;    /* sum over rows of w^T H w, for comparison */
} bq_round_errors;

/* Number of floats of work space of bq_round, for any number of rows. */
size_t bq_round_floats(size_t cols);

/* Rounds w [rows][cols] to `out`, whose arrays the caller provides: q [rows][cols], scale and min
 * [rows][blocks of a row]. Adds to *errors, which the caller initializes. Returns UNSUPPORTED if
 * the type has more than 4 bits or odd levels, and FORMAT for a weight that is not finite or that
 * f16 can't hold (offset = its index, or that of its block). */
bq_status bq_round(bq_type type, const float *w, size_t rows, size_t cols, const bq_round_by *by,
                   float *work, bq_rounded *out, bq_round_errors *errors, bq_error *err);

#endif
