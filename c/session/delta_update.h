/* The inner loop of a gated delta net (recurrent_layers.h), compiled for speed: HOT in
 * emscripten.mk. */
#ifndef BQ_DELTA_UPDATE_H
#define BQ_DELTA_UPDATE_H

#include "model/config.h"

/* One row of one value head: the state s [key_dim][value_dim] moves on, out = s^T q.
 * delta: scratch of value_dim floats. */
void bq_delta_update(const bq_config *c, float *s, float decay, float beta, const float *q,
                     const float *k, const float *v, float *delta, float *out);

#endif
