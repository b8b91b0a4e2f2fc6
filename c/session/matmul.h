/* Matmuls with quantized weights, by the session's type of activations. With i16 activations a
 * token is two panel rows: its activations as i8, and the residual of that, again as i8 with scales
 * of its own; the two products are added. Implements of bq.h: bq_spread_scratch,
 * bq_spread_multiply. */
#ifndef BQ_MATMUL_H
#define BQ_MATMUL_H

#include "session/session.h"

/* Floats of scratch per thread; `widest`: columns of the widest input. */
uint64_t bq_matmul_scratch(const bq_session_options *o, uint64_t widest);
/* Quantizes tokens [from, to) of x [tokens][cols] into their part of the panel; `from` is a
 * multiple of BQ_PANEL_TOKENS. Uses the scratch of `thread`. */
void bq_matmul_quantize(const bq_session *s, const float *x, size_t cols, size_t from, size_t to,
                        size_t thread, uint8_t *panel);
/* Rows [row0, row1) of W x, as w->ops->matmul; for float weights it is that. */
void bq_matmul(const bq_session *s, const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1,
               size_t thread, float *y, size_t y_stride);

#endif
