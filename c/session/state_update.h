/* The inner loops of layers with a matrix as state (recurrent_layers.h), compiled for speed (HOT in
 * emscripten.mk). Columns are independent of each other; the sum of each is over rows in order. */
#ifndef BQ_STATE_UPDATE_H
#define BQ_STATE_UPDATE_H

#include "model/config.h"

/* Computes one row of a value head of a delta net: updates the state s [key_dim][value_dim], then
 * out = s^T q. delta: scratch, [value_dim]. */
void bq_delta_update(const bq_config *c, float *s, float decay, float beta, const float *q,
                     const float *k, const float *v, float *delta, float *out);

/* Computes one row of a head of Mamba-2: s = decay * s + k v^T, out = s^T q. */
void bq_mamba_update(const bq_config *c, float *s, float decay, const float *q, const float *k,
                     const float *v, float *out);

#endif
