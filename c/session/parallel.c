/* A job's parts, shared out to threads: one run with barriers where the host has them, else one run
 * per part. */
#include "session/session.h"

typedef struct parts {
  bq_session *s;
  bq_part_fn *fn;
  void *arg;
  const uint8_t *list;
  size_t n;
  bq_next_fn *next;
  uint32_t layer; /* the first one */
  bool more;
  bq_stage ended; /* of the part that slice 0 did last */
} parts;

/* Slice 0 decides whether there's more while others are still busy, all look behind the barrier. */
static void run_all(void *arg, size_t slice, size_t slices) {
  parts *p = arg;
  const bq_parallel *parallel = &p->s->options.parallel;
  for (uint32_t layer = p->layer;; layer++) {
    for (size_t i = 0; i < p->n; i++) {
      const bool last = i + 1 == p->n;
      bq_stage stage = p->fn(p->arg, layer, p->list[i], slice, slices);
      if (last && slice == 0) p->more = p->next && p->next(p->s);
      /* Without another layer the last wait is the run's own end. */
      const bool wait = slices > 1 && (!last || p->next);
      if (wait) parallel->barrier(parallel->ctx, slice, slices);
      if (slice == 0 && (wait || slices == 1)) bq_mark(p->s, stage, layer);
      else if (slice == 0) p->ended = stage;
    }
    if (!p->next || !p->more) return;
  }
}

/* The next run, in grains. */
static bool next_grains(bq_share *share) {
  const bq_parallel *parallel = &share->s->options.parallel;
  const size_t grains = (share->n + share->grain - 1) / share->grain;
  if (share->slices > 1 && parallel->take)
    return parallel->take(parallel->ctx, share->slice, share->slices, grains, &share->from,
                          &share->to);
  if (share->given) return false;
  share->given = true;
  share->from = grains * share->slice / share->slices;
  share->to = grains * (share->slice + 1) / share->slices;
  return share->from < share->to;
}

bool bq_share_next(bq_share *share) {
  if (!next_grains(share)) return false;
  share->from *= share->grain;
  share->to *= share->grain;
  if (share->to > share->n) share->to = share->n;
  return true;
}

static void run_one(void *arg, size_t slice, size_t slices) {
  parts *p = arg;
  bq_stage stage = p->fn(p->arg, p->layer, p->list[0], slice, slices);
  if (slice == 0) p->ended = stage;
}

void bq_run_parts(bq_session *s, bq_part_fn *fn, void *arg, const uint8_t *list, size_t n,
                  bq_next_fn *next) {
  const bq_parallel *parallel = &s->options.parallel;
  parts p = {s, fn, arg, list, n, next, s->layer, false, BQ_STAGE_HOST};
  if (parallel->threads == 1) {
    run_all(&p, 0, 1);
  } else if (parallel->barrier) {
    parallel->run(parallel->ctx, run_all, &p);
    if (p.ended != BQ_STAGE_HOST) bq_mark(s, p.ended, p.layer);
  } else {
    do {
      p.layer = s->layer;
      for (p.list = list; p.list < list + n; p.list++) {
        parallel->run(parallel->ctx, run_one, &p);
        bq_mark(s, p.ended, p.layer);
      }
    } while (next && next(s));
  }
}
