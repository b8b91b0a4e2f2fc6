/* The STORE and ATTEND steps of a layer: queries and keys are normed and rotated, keys and values
 * stored in the cache, and queries attend to it. */
#ifndef BQ_ATTENTION_H
#define BQ_ATTENTION_H

#include "session/micro_batch.h"

/* A thread's share of each step. They return the stage that ends with it. */
bq_stage bq_store_kv(const bq_layer_run *p, const bq_layer_step *step, size_t thread,
                     size_t threads);
bq_stage bq_attend(const bq_layer_run *p, bq_attend_pass pass, size_t thread, size_t threads);
/* Whether threads share the attention of each query head: one token sees many positions, and with
 * whole heads for each thread a fifth of their time or more would be idle. */
bool bq_threads_share_attention(const bq_micro_batch *j, const bq_layer_kind *kind, size_t threads);

#endif
