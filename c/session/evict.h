/* Eviction by accumulated attention (H2O). When the cache is full, the groups of 32 positions that
 * received the least attention are evicted, except the newest half of the window and the sinks.
 * Maintains bq_session.eviction and bq_kv_cache.evicted. The functions do nothing unless
 * options.evict is BQ_EVICT_ATTENTION. */
#ifndef BQ_EVICT_H
#define BQ_EVICT_H

#include "session/session.h"

/* Resets all accumulated attention. The cache must be empty. */
void bq_eviction_reset(bq_session *s);
/* Prepares for a saved state whose first `scored` positions are accumulated; the caller then fills
 * in `totals` and `by_query`. */
void bq_eviction_resume(bq_session *s, uint32_t scored);
/* Must be called before a batch of `tokens` tokens at `start`: evicts positions if the cache is
 * full, and clears the batch's sums. NOMEM: shared blocks can't be copied; nothing is changed. */
bq_status bq_eviction_begin(bq_session *s, uint32_t start, uint32_t tokens, bq_error *err);
/* Must be called after the batch: adds up the sums of all threads. */
void bq_eviction_end(bq_session *s);

#endif
