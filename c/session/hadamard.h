/* Hadamard rotation of queries and keys before the keys are quantized: it spreads the values of a
 * few large dimensions over all of them, so that few bits hold keys well. A rotation of both leaves
 * their dot products unchanged. */
#ifndef BQ_HADAMARD_H
#define BQ_HADAMARD_H

#include "session/micro_batch.h"

/* Rotates n rows of a head, `stride` floats apart, if the layer's keys are rotated; `key`: they are
 * keys, else queries, which take the scale. */
void bq_hadamard_heads(const bq_layer_run *p, float *x, size_t stride, size_t n, bool key);

#endif
