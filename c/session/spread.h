/* Tensor parallelism over instances that share no memory: other hosts compute rows of a slice's
 * matmuls. A slice is computed phase by phase on one thread and stops before such a matmul; the
 * host collects the rows and runs the slice again. Implements of bq.h: bq_session_spread,
 * spread_done. */
#ifndef BQ_SPREAD_H
#define BQ_SPREAD_H

#include "session/session.h"

/* Computes a slice (a layer for `tokens` rows, or the head) from s->batch.phase on. Returns false
 * if the rows of a matmul are needed; when they are in place, the same call continues the slice. */
bool bq_spread_run(bq_session *s, uint32_t tokens);

#endif
