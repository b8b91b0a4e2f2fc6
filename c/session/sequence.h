/* The token sequence of a session: its changes, and the results that they invalidate. Maintains
 * bq_session.sequence and the requests in bq_session.outputs. Implements of bq.h: bq_session_sync,
 * append, draft, results, pool, set_key, skip, clusters. */
#ifndef BQ_SEQUENCE_H
#define BQ_SEQUENCE_H

#include "session/session.h"

/* Discards all results: the open batch, the KV cache, accumulated attention. */
void bq_sequence_discard(bq_session *s);
/* Sets the position from which on the sequence's tokens have the second token type; 0: none has.
 * Discards results that were computed with another position. */
void bq_sequence_second(bq_session *s, uint32_t at);
/* Discards draft tokens and their results. */
void bq_draft_discard(bq_session *s);
/* Schedules the last token for recomputation, because its output is missing. */
void bq_sequence_recompute_last(bq_session *s);
/* Checks that a pooling can be requested of the model. *labels: whether it is BQ_POOL_LABELS, which
 * is replaced by the pooling before the labels. ARGUMENT. */
bq_status bq_pooling_check(const bq_config *config, bq_pooling *how, bool *labels, bq_error *err);

#endif
