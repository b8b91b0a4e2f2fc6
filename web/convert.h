/* Functions of the converter's modules (bq4-convert.wasm and bq4-convert-threads.wasm) in addition
 * to border.h: rounding by calibration. js/quantize/abi.js has the same list as data. Numbers,
 * statuses and handles are as in border.h. */
#ifndef BQW_CONVERT_H
#define BQW_CONVERT_H

#include "border.h"

/* Errors of rounding, accumulated (c/quant/round.h). */
typedef struct bqw_round_errors { /* 40 bytes */
  double error, of;          /* 0: squared error of the matmul's outputs; squares of the outputs */
  double sum, squares, max; /* 16: of |weight - rounded weight| */
} bqw_round_errors;

/* Returns the cut at the input of `module` (c/model/program.h) in a layer; web/layers.h defines
 * cuts. out: [3]: the step; the columns of that input (0: the layer has no such matmul, and the cut
 * is the end of the layer); the floats that are carried per token there. */
uint32_t bqw_layer_cut(uint32_t session, uint32_t layer, uint32_t module, uint32_t *out);
/* Computes one layer, over all tokens of the sequence, from cut `from` to cut `to`: `before` and
 * `after` are [tokens][carried], `input` is the input at `to`, [tokens][cols], or NULL. With layer
 * = number of layers, writes the embedding to `after`. Afterwards the session is as after
 * bqw_session_sync: nothing of the sequence is computed. ARGUMENT: the sequence is longer than a
 * prefill window, or there are no such cuts. WANT_DATA: the layer's weights, or rows of the
 * embedding, have to be read (bqw_session_pages); then call again. */
uint32_t bqw_layer_part(uint32_t session, uint32_t layer, uint32_t from, uint32_t to,
                        const float *before, float *after, float *input);
/* Returns the read that brings a paged layer's weights into memory; bytes 0: none is needed. Report
 * it with bqw_page_done. */
uint32_t bqw_layer_page(uint32_t session, uint32_t layer, bqw_page *out);
/* Accumulates second moments and, unless `drift` is NULL, drift, on all threads (c/quant/moments.h,
 * drift.h). x: [tokens][cols]; original: the same inputs in the original model. */
void bqw_inputs_add(float *moments, float *drift, uint32_t cols, const float *x,
                    const float *original, uint32_t tokens);

/* Returns the address of a float matrix's weights, row by row: of a layer's module or, with layer =
 * number of layers, of the embedding (module 0) or the head (1). Writing through this pointer
 * changes the weights in place. out: [2], address and type. UNSUPPORTED: there is no such matrix,
 * or it isn't float. */
uint32_t bqw_weights(uint32_t session, uint32_t layer, uint32_t module, uint32_t *out);

/* bq_moments_end and, unless `feedback` is NULL, bq_feedback_factor (c/quant/moments.h). work: f64
 * [cols * (cols + 1)]. */
uint32_t bqw_moments_end(float *moments, uint32_t cols, float share, double *work,
                         float *feedback);
/* Number of floats of `work` for bqw_drift_make_good. */
double bqw_drift_floats(uint32_t cols);
/* bq_drift_correct (c/quant/drift.h): corrects w [rows][cols] for the changes of earlier layers. */
void bqw_drift_make_good(float *w, uint32_t rows, uint32_t cols, const float *drift,
                         const float *feedback, float *work);
/* Number of floats of `work` for bqw_round with this shape; -1: unknown type. */
double bqw_round_floats(uint32_t type, uint32_t rows, uint32_t cols);
/* Rounds f32 [rows][cols] to blocks (c/quant/round.h), by moments and feedback (each may be NULL),
 * and adds to *errors. */
uint32_t bqw_round(uint32_t type, uint32_t layout, const float *src, uint32_t rows, uint32_t cols,
                   const float *moments, const float *feedback, uint32_t sweeps, float *work,
                   uint8_t *dst, bqw_round_errors *errors);

#endif
