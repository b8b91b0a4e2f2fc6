/* Tensor parallelism over instances that share no memory: other hosts compute rows of a work unit's
 * matmuls. A work unit is computed phase by phase on one thread and stops before such a matmul; the
 * host collects the rows and runs the work unit again. Implements of bq.h: bq_session_spread,
 * spread_done. */
#ifndef BQ_SPREAD_H
#define BQ_SPREAD_H

#include "session/session.h"

/* Computes a work unit (a layer for `tokens` rows, or the head) from s->batch.phase on. Returns
 * false if the rows of a matmul are needed; when they are in place, the same call continues the
 * work unit. */
bool bq_spread_run(bq_session *s, uint32_t tokens);

#endif
