/* Eviction by accumulated attention (H2O): when the cache is full, the groups of 32 positions that
 * received the least attention leave it, half of the newest and the sinks excepted. Maintains
 * bq_session.eviction and bq_kv_cache.evicted. Does nothing unless options.evict asks for it. */
#ifndef BQ_EVICT_H
#define BQ_EVICT_H

#include "session/session.h"

/* Forgets all accumulated attention. The cache must be empty. */
void bq_eviction_reset(bq_session *s);
/* Prepares for a saved state whose first `scored` positions are accumulated; the caller then fills
 * in `totals` and `by_query`. */
void bq_eviction_resume(bq_session *s, uint32_t scored);
/* Before a chunk of `tokens` tokens at `start`: evicts if the cache is full, and clears the chunk's
 * sums. Returns NOMEM, with nothing changed, if shared blocks can't be copied. */
bq_status bq_eviction_begin(bq_session *s, uint32_t start, uint32_t tokens, bq_error *err);
/* After the chunk: adds up the threads' sums. */
void bq_eviction_end(bq_session *s);

#endif
