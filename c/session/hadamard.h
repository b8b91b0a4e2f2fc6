/* Hadamard rotation of queries and keys before the keys are quantized. It distributes the values of
 * a few large dimensions over all dimensions, so that keys can be stored in few bits. Rotating both
 * leaves their dot products unchanged. */
#ifndef BQ_HADAMARD_H
#define BQ_HADAMARD_H

#include "session/micro_batch.h"

/* Rotates n rows of a head, `stride` floats apart, if the layer's keys are rotated. `key`: whether
 * they are keys; the scale is applied to queries. */
void bq_hadamard_heads(const bq_layer_run *p, float *x, size_t stride, size_t n, bool key);

#endif
