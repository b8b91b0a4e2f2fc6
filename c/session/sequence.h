/* The token sequence of a session: changes of it, and what they invalidate. Maintains
 * bq_session.sequence and the requests in bq_session.outputs. Besides the functions below, it
 * implements of bq.h: bq_session_sync, append, draft, results, pool, set_key, skip, clusters. */
#ifndef BQ_SEQUENCE_H
#define BQ_SEQUENCE_H

#include "session/session.h"

/* Discards everything that was computed: the open batch, the KV cache, accumulated attention. */
void bq_sequence_discard(bq_session *s);
/* The sequence's tokens from position `at` on are of the second type; 0: none is. Discards what was
 * computed with another. */
void bq_sequence_second(bq_session *s, uint32_t at);
/* Discards draft tokens and what was computed of them. */
void bq_draft_discard(bq_session *s);
/* Schedules the last token for recomputation, because its output is missing. */
void bq_sequence_recompute_last(bq_session *s);
/* Returns ARGUMENT unless `how` is a way to pool that can be requested. LABELS becomes the pooling
 * before them, and *labels is whether it was requested. */
bq_status bq_pooling_check(const bq_config *config, bq_pooling *how, bool *labels, bq_error *err);

#endif
