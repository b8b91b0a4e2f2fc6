/* The inner loops of layers with a matrix as state (recurrent_layers.h), compiled for speed (HOT in
 * emscripten.mk), for sizes that are multiples of BQ_STATE_LANES: those of all published models.
 * recurrent_layers.c has the same sums for other sizes. Columns and channels are independent of
 * each other, and the sum of each is over rows or taps in order, so that vectors do not change the
 * bits. */
#ifndef BQ_STATE_UPDATE_H
#define BQ_STATE_UPDATE_H

#include <stddef.h>

enum { BQ_STATE_LANES = 4 };

/* sum = (decay * s)^T k; s: [rows][cols]. */
void bq_state_multiply(const float *s, size_t rows, size_t cols, float decay, const float *k,
                       float *sum);
/* to = decay * from + k v^T, out = to^T q; `from` may be `to`. */
void bq_state_update(const float *from, float *to, size_t rows, size_t cols, float decay,
                     const float *q, const float *k, const float *v, float *out);

/* Computes n channels of a convolution of 4 taps for one row, in place, and updates its state.
 * taps: [n][4]; state: three rows, `stride` floats from one to the next. */
void bq_convolve_4(const float *taps, float *state, size_t stride, float *row, size_t n);

/* x = x * (1 / (1 + exp(-x))). The kernel silu_mul divides x instead, which gives other bits. */
void bq_swish(float *x, size_t n);

#endif
