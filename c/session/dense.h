/* The dense layers after the pooling: of a classifier (one logit for each label), or of an
 * embedding model. */
#ifndef BQ_DENSE_H
#define BQ_DENSE_H

#include "session/session.h"

/* Computes out [bq_config_vector_cols] = dense2(norm(activation(dense1(pooled [hidden])))), without
 * the layers that the model lacks. Uses only the threads and the scratch of `s`. inner:
 * [dense1]. */
void bq_dense_layers(bq_session *s, const float *pooled, float *inner, float *out);

#endif
