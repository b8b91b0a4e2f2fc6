/* Jobs: phases that all threads of a session compute together, separated by barriers; and the
 * division of the work of a phase among threads. */
#ifndef BQ_THREADS_H
#define BQ_THREADS_H

#include "session/session.h"

/* Advances to the next layer. Called by thread 0 only; returns true if another layer follows. Other
 * threads may still be in an earlier layer, so they must not read s->batch.layer. */
typedef bool bq_advance_fn(bq_session *s);

/* A job. fn(arg, layer, phase, thread, threads) computes a thread's share of a phase and returns
 * the trace stage that ends with it. phases(arg, layer, threads) returns the phases of a layer. A
 * phase begins when all threads have finished the previous one. After the last phase thread 0 calls
 * `next`; if it returns true, the job continues with the phases of another layer. */
typedef struct bq_job {
  bq_stage (*fn)(const void *arg, uint32_t layer, uint32_t phase, size_t thread, size_t threads);
  const bq_phases *(*phases)(const void *arg, uint32_t layer, size_t threads);
  const void *arg;
  bq_advance_fn *next; /* NULL: one layer only */
} bq_job;
/* Runs a job, from layer s->batch.layer on, on all threads of the session. */
void bq_job_run(bq_session *s, const bq_job *job);

/* A thread's share of the n items of a phase. bq_share_next returns it in ranges [from, to) that
 * begin at multiples of `grain`; each item is given to exactly one thread. All threads must pass
 * the same n and grain.
 *
 *   for (bq_share share = bq_share_of(s, thread, threads, n, 1); bq_share_next(&share);) ... */
typedef struct bq_share {
  const bq_session *s;
  size_t thread, threads, n, grain;
  size_t from, to;
  bool taken; /* with equal shares: the thread's only range has been returned */
} bq_share;
static inline bq_share bq_share_of(const bq_session *s, size_t thread, size_t threads, size_t n,
                                   size_t grain) {
  return (bq_share){s, thread, threads, n, grain, 0, 0, false};
}
/* Advances to the next range; returns false if there are no more. */
bool bq_share_next(bq_share *share);

#endif
