/* The token sequence of a session: changes of it, and what they invalidate. Maintains
 * bq_session.sequence and the requests in bq_session.outputs. Besides the functions below, it
 * implements of bq.h: bq_session_sync, append, draft, results, pool, set_key, skip, clusters. */
#ifndef BQ_SEQUENCE_H
#define BQ_SEQUENCE_H

#include "session/session.h"

/* Discards everything that was computed: the open batch, the KV cache, accumulated attention. */
void bq_sequence_discard(bq_session *s);
/* Discards draft tokens and what was computed of them. */
void bq_draft_discard(bq_session *s);
/* Schedules the last token for recomputation, because its output is missing. */
void bq_sequence_recompute_last(bq_session *s);
/* Returns ARGUMENT unless `how` is a way to pool that can be requested. */
bq_status bq_pooling_check(bq_pooling how, bq_error *err);

#endif
