/* Matmuls with quantized weights, for the session's type of activations. With i16 activations a
 * token has two panel rows: its activations as i8, and the residual of this quantization, again as
 * i8 with scales of its own. The two products are added. Implements of bq.h: bq_spread_scratch,
 * bq_spread_multiply. */
#ifndef BQ_MATMUL_H
#define BQ_MATMUL_H

#include "session/session.h"

/* Number of floats of scratch per thread; `widest`: columns of the widest input. */
uint64_t bq_matmul_scratch(const bq_session_options *o, uint64_t widest);
/* Quantizes tokens [from, to) of x [tokens][cols] to their part of the panel; `from` must be a
 * multiple of BQ_PANEL_TOKENS. Uses the scratch of `thread`. */
void bq_matmul_quantize(const bq_session *s, const float *x, size_t cols, size_t from, size_t to,
                        size_t thread, uint8_t *panel);
/* Computes rows [row0, row1) of W x. Parameters as w->ops->matmul, which it calls directly for
 * float weights. */
void bq_matmul(const bq_session *s, const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1,
               size_t thread, float *y, size_t y_stride);

#endif
