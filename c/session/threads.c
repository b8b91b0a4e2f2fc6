/* Runs a job as one parallel run with barriers between phases if the host has barriers; otherwise
 * as one run per phase. */
#include "session/threads.h"

typedef struct progress {
  bq_session *s;
  const bq_job *job;
  uint32_t layer; /* the first layer; without barriers, the layer of the run */
  uint32_t phase;  /* the phase of a run without barriers */
  bool more;
  bq_stage ended; /* stage of the phase that thread 0 finished last */
} progress;

/* Number of threads that compute. A run may have more threads than the session has scratch for; the
 * others only take part in barriers. */
static size_t workers_of(const bq_session *s, size_t threads) {
  return threads < s->options.parallel.threads ? threads : s->options.parallel.threads;
}

/* Runs all phases of a job on one thread. Thread 0 determines whether another layer follows while
 * other threads are still busy; all read the result after the barrier. */
static void run_all(void *arg, size_t thread, size_t threads) {
  progress *p = arg;
  const bq_parallel *parallel = &p->s->options.parallel;
  const bq_job *job = p->job;
  const size_t workers = workers_of(p->s, threads);
  for (uint32_t layer = p->layer;; layer = bq_next_layer(p->s, layer + 1)) {
    const bq_phases *phases = job->phases(job->arg, layer, workers);
    bq_assert(phases->n > 0); /* `next` is called after the last phase */
    for (size_t i = 0; i < phases->n; i++) {
      const bool last = i + 1 == phases->n;
      bq_stage stage = BQ_STAGE_HOST;
      if (thread < workers) stage = job->fn(job->arg, layer, phases->list[i], thread, workers);
      if (last && thread == 0) p->more = job->next && job->next(p->s);
      /* Without another layer, the end of the run replaces the last barrier. */
      const bool wait = threads > 1 && (!last || job->next);
      if (wait) parallel->barrier(parallel->ctx, thread, threads);
      if (thread == 0 && (wait || threads == 1)) bq_mark(p->s, stage, layer);
      else if (thread == 0) p->ended = stage;
    }
    if (!job->next || !p->more) return;
  }
}

/* The next range, in units of `grain`. */
static bool next_grains(bq_share *share) {
  const bq_parallel *parallel = &share->s->options.parallel;
  const size_t grains = (share->n + share->grain - 1) / share->grain;
  if (share->threads > 1 && parallel->claim)
    return parallel->claim(parallel->ctx, share->thread, share->threads, grains, &share->from,
                          &share->to);
  if (share->taken) return false;
  share->taken = true;
  share->from = grains * share->thread / share->threads;
  share->to = grains * (share->thread + 1) / share->threads;
  return share->from < share->to;
}

bool bq_share_next(bq_share *share) {
  if (!next_grains(share)) return false;
  share->from *= share->grain;
  share->to *= share->grain;
  if (share->to > share->n) share->to = share->n;
  bq_assert(share->from < share->to);
  return true;
}

static void run_one(void *arg, size_t thread, size_t threads) {
  progress *p = arg;
  const size_t workers = workers_of(p->s, threads);
  if (thread >= workers) return;
  bq_stage stage = p->job->fn(p->job->arg, p->layer, p->phase, thread, workers);
  if (thread == 0) p->ended = stage;
}

static void run_layer(progress *p) {
  const bq_parallel *parallel = &p->s->options.parallel;
  const bq_phases *phases = p->job->phases(p->job->arg, p->layer, parallel->threads);
  for (size_t i = 0; i < phases->n; i++) {
    p->phase = phases->list[i];
    parallel->run(parallel->ctx, run_one, p);
    bq_mark(p->s, p->ended, p->layer);
  }
}

void bq_job_run(bq_session *s, const bq_job *job) {
  const bq_parallel *parallel = &s->options.parallel;
  progress p = {s, job, s->batch.layer, 0, false, BQ_STAGE_HOST};
  if (parallel->threads == 1) {
    run_all(&p, 0, 1);
  } else if (parallel->barrier) {
    parallel->run(parallel->ctx, run_all, &p);
    if (p.ended != BQ_STAGE_HOST) bq_mark(s, p.ended, p.layer);
  } else {
    do {
      p.layer = s->batch.layer;
      run_layer(&p);
    } while (job->next && job->next(s));
  }
}
