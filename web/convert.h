/* What bq4-convert.wasm has beside border.h: rounding by calibration. js/quantize/border.js is the
 * same as data. Numbers, statuses and handles as there. */
#ifndef BQW_CONVERT_H
#define BQW_CONVERT_H

#include "border.h"

/* What rounding by moments did to what a matrix gives: added to. See c/quant/round.h. */
typedef struct bqw_round_errors { /* 40 bytes */
  double error, of;          /* 0: of its products */
  double sum, squares, most; /* 16: of |weight - what it became| */
} bqw_round_errors;

/* From now on what goes into the product of `module` (c/model/program.h) in `layer` is looked at,
 * each pointer being NULL where it isn't wanted: `moments` [cols][cols] are added to, zeroed
 * before; `rows` [tokens][cols] are written; or, where there is a `drift` [cols][cols] to be added
 * to, they are what the input was, and are used up (c/quant/drift.h). All NULL: only *cols is told,
 * the columns of that module; 0: the layer has no such product of its own, or 256 are looked at. */
uint32_t bqw_inputs_watch(uint32_t session, uint32_t layer, uint32_t module, float *moments,
                          float *rows, float *drift, uint32_t *cols);
/* Ends what bqw_inputs_watch began, in all sessions. */
void bqw_inputs_end(uint32_t session);
/* Computes one layer alone, over what its window has there: x [tokens][hidden] of all of the
 * timeline's tokens, in place. "Layer" `layers`: x becomes the embedding. The timeline is then as
 * after bqw_session_sync, with nothing computed. `module`: it is computed as far as that one's
 * product, for what watches it, and x is of no use then; a number that no module has: all of it.
 * ARGUMENT: it is longer than a window. */
uint32_t bqw_layer_run(uint32_t session, uint32_t layer, uint32_t module, float *x);

/* Where the weights of a matrix lie, in rows of floats: of a layer's module, or in "layer" `layers`
 * of the embedding (module 0) or the head (1). Whoever changes them computes with another model.
 * out: [2], its address and its type. UNSUPPORTED: it has none, or they are no floats. */
uint32_t bqw_weights(uint32_t session, uint32_t layer, uint32_t module, uint32_t *out);

/* c/quant/moments.h. work: cols * (cols + 1) f64; feedback may be NULL: only the moments end. */
uint32_t bqw_moments_end(float *moments, uint32_t cols, float share, double *work,
                         float *feedback);
/* Floats that bqw_drift_make_good needs as `work`. */
double bqw_drift_floats(uint32_t cols);
/* c/quant/drift.h: w [rows][cols] becomes what makes good what layers before it have changed. */
void bqw_drift_make_good(float *w, uint32_t rows, uint32_t cols, const float *drift,
                         const float *feedback, float *work);
/* Floats that bqw_round needs as `work` for so many rows. */
double bqw_round_floats(uint32_t type, uint32_t rows, uint32_t cols);
/* f32 [rows][cols] -> blocks, by moments and feedback (each may be NULL). */
uint32_t bqw_round(uint32_t type, uint32_t layout, const float *src, uint32_t rows, uint32_t cols,
                   const float *moments, const float *feedback, uint32_t sweeps, float *work,
                   uint8_t *dst, bqw_round_errors *errors);

#endif
