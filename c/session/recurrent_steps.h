/* The CONVOLVE, DELTA, MAMBA and GATE steps of a layer: recurrences in place of attention or in
 * addition to it, and gates of attention's output. The mathematics is in recurrent_layers.h. */
#ifndef BQ_RECURRENT_STEPS_H
#define BQ_RECURRENT_STEPS_H

#include "session/micro_batch.h"

/* Compute a thread's share of a step. They return the stage that ends with it. */
bq_stage bq_convolve_step(const bq_layer_run *p, const bq_layer_step *step, size_t thread,
                          size_t threads);
bq_stage bq_delta_step(const bq_layer_run *p, const bq_layer_step *step, size_t thread,
                       size_t threads);
bq_stage bq_mamba_step(const bq_layer_run *p, const bq_layer_step *step, size_t thread,
                       size_t threads);
bq_stage bq_gate_step(const bq_layer_run *p, size_t thread, size_t threads);

#endif
