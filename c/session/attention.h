/* The STORE and ATTEND steps of a layer. STORE norms and rotates queries and keys, and stores keys
 * and values in the cache. ATTEND computes the attention of the queries to the cache. */
#ifndef BQ_ATTENTION_H
#define BQ_ATTENTION_H

#include "session/micro_batch.h"

/* Compute a thread's share of a step. They return the stage that ends with it. */
bq_stage bq_store_kv(const bq_layer_run *p, const bq_layer_step *step, size_t thread,
                     size_t threads);
bq_stage bq_attend(const bq_layer_run *p, bq_attend_pass pass, size_t thread, size_t threads);
/* Whether threads share the attention of each query head. This is so if one token attends to many
 * positions, and if threads would be idle for a fifth of the time or more with complete heads for
 * each. */
bool bq_threads_share_attention(const bq_micro_batch *j, const bq_layer_kind *kind, size_t threads);

#endif
