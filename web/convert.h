/* What the modules for converters (bq4-convert.wasm, and -threads) have beside border.h: rounding
 * by calibration. js/quantize/abi.js is the same as data. Numbers, statuses and handles as
 * there. */
#ifndef BQW_CONVERT_H
#define BQW_CONVERT_H

#include "border.h"

/* What rounding by moments did to what a matrix gives: added to. See c/quant/round.h. */
typedef struct bqw_round_errors { /* 40 bytes */
  double error, of;          /* 0: of its products */
  double sum, squares, max; /* 16: of |weight - what it became| */
} bqw_round_errors;

/* Where the input of `module` (c/model/program.h) lies in a layer, to be computed as far as that or
 * from there on: web/layers.h says what a cut is. out: [3], the step, the columns of that input (0:
 * the layer has no such product of its own, and the cut is its end), and how many floats a token
 * carries there. */
uint32_t bqw_layer_cut(uint32_t session, uint32_t layer, uint32_t module, uint32_t *out);
/* Computes a layer by itself, over what its window has there, from cut `from` to cut `to`: `before`
 * and `after` [tokens][carried], of all of the timeline's tokens, and the input at `to`
 * [tokens][cols], which may be NULL. "Layer" `layers`: `after` becomes the embedding. The timeline
 * is then as after bqw_session_sync, with nothing computed. ARGUMENT: it is longer than a window,
 * or there are no such cuts. WANT_DATA: rows of the embedding have to be read (bqw_session_pages,
 * then the same call once more), or the layer's weights. */
uint32_t bqw_layer_part(uint32_t session, uint32_t layer, uint32_t from, uint32_t to,
                        const float *before, float *after, float *input);
/* What to read so that the layer's weights are there; bytes of 0: nothing. It is done when
 * bqw_page_done is told. */
uint32_t bqw_layer_page(uint32_t session, uint32_t layer, bqw_page *out);
/* By all threads: c/quant/moments.h and, unless it is NULL, drift.h. x: [tokens][cols]; whole: what
 * they were before anything was rounded. */
void bqw_inputs_add(float *moments, float *drift, uint32_t cols, const float *x,
                    const float *whole, uint32_t tokens);

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
