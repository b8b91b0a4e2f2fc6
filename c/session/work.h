/* Counts the bytes and multiply-accumulates of a work unit from shapes. Rates and utilization can
 * be computed from them and measured times, and tests can count work without a clock. Implements of
 * bq.h: bq_session_work. */
#ifndef BQ_WORK_H
#define BQ_WORK_H

#include "session/session.h"

/* The work of one step of a layer's program over `tokens` tokens from `position` on. */
bq_work bq_step_work(const bq_session *s, const bq_layer *layer, const bq_layer_step *step,
                     uint32_t position, uint32_t tokens);
/* The work of `rows` rows of a forward batch, from `row` on, in one stage of a layer;
 * BQ_STAGE_COUNT: in all stages. Weights are counted once. */
bq_work bq_batch_work(const bq_session *s, bq_stage stage, uint32_t layer, uint32_t row,
                      uint32_t rows);
/* *sum += work */
static inline void bq_work_add(bq_work *sum, bq_work work) {
  sum->weight_bytes += work.weight_bytes;
  sum->kv_bytes += work.kv_bytes;
  sum->macs += work.macs;
}

#endif
