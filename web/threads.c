/* Parallel regions over threads that JavaScript started (web/threads.h). Where memory isn't shared
 * this is one thread and a plain call.
 *
 * A region is published by one word, `go`: a count of regions with the number of slices in its low
 * bits, so that a thread which wakes late never takes part in a region that it isn't counted in.
 * Whoever waits spins for a while, since the next region is usually microseconds away, then sleeps in
 * memory.atomic.wait32. Sleepers are counted, so nobody is woken who isn't asleep: a sleeper counts
 * itself before it looks at the word for the last time, a waker changes the word before it looks at
 * the count (all of them sequentially consistent), so one of the two sees the other. */
#include "threads.h"

#include <stdatomic.h>

#include "border.h"

enum {
  SLICES = 64,     /* `go` counts regions in steps of this */
  LEAVE = 63,      /* this many slices: go home */
  LINE = 64        /* bytes that cores pass on as one */
};

_Static_assert(BQW_THREADS < LEAVE, "slices and LEAVE share the low bits of a word");

typedef struct word {
  _Alignas(LINE) _Atomic uint32_t value;
  _Atomic uint32_t sleepers;
} word;

static struct {
  word go;      /* regions so far * SLICES + slices of the current one */
  word running; /* threads besides the caller that are still at it */
  word phase;   /* barriers passed so far */
  _Atomic uint32_t arrived; /* slices that wait at the barrier */
  void (*fn)(void *arg, size_t slice, size_t slices);
  void *arg;
  uint32_t threads, spins;
  _Atomic uint32_t failed;
} team = {.threads = 1};

#ifdef __wasm_atomics__
/* Returns when *w is no longer `old`. */
static void await(word *w, uint32_t old) {
  for (uint32_t i = 0; i < team.spins; i++)
    if (atomic_load(&w->value) != old) return;
  atomic_fetch_add(&w->sleepers, 1);
  while (atomic_load(&w->value) == old)
    __builtin_wasm_memory_atomic_wait32((int *)&w->value, (int)old, -1);
  atomic_fetch_sub(&w->sleepers, 1);
}

static void wake(word *w) {
  if (atomic_load(&w->sleepers)) __builtin_wasm_memory_atomic_notify((int *)&w->value, BQW_THREADS);
}
#else
static void await(word *w, uint32_t old) { (void)w, (void)old; }
static void wake(word *w) { (void)w; }
#endif

static void run(void *ctx, void (*fn)(void *arg, size_t slice, size_t slices), void *arg) {
  (void)ctx;
  const uint32_t n = team.threads;
  if (n <= 1) {
    fn(arg, 0, 1);
    return;
  }
  if (atomic_load(&team.failed)) __builtin_trap(); /* who broke earlier would be waited for without end */
  team.fn = fn;
  team.arg = arg;
  atomic_store(&team.running.value, n - 1);
  atomic_store(&team.go.value, (atomic_load(&team.go.value) / SLICES + 1) * SLICES + n);
  wake(&team.go);
  fn(arg, 0, n);
  for (uint32_t left; (left = atomic_load(&team.running.value)) != 0;) await(&team.running, left);
  if (atomic_load(&team.failed)) __builtin_trap(); /* what it computed is not there */
}

/* Every slice of a region comes here as often. A thread that broke never comes again, so from then on
 * nobody waits. (It sets `failed` before it ends the phase, and whoever waits has read the phase first.) */
static void barrier(void *ctx) {
  (void)ctx;
  const uint32_t n = team.threads, phase = atomic_load(&team.phase.value);
  if (n <= 1 || atomic_load(&team.failed)) return;
  if (atomic_fetch_add(&team.arrived, 1) + 1 < n) {
    await(&team.phase, phase);
    return;
  }
  atomic_store(&team.arrived, 0);
  atomic_store(&team.phase.value, phase + 1);
  wake(&team.phase);
}

bq_parallel bqw_parallel(void) { return (bq_parallel){NULL, run, team.threads, barrier}; }

static void finished(void) {
  atomic_fetch_sub(&team.running.value, 1);
  wake(&team.running);
}

BQW(void) bqw_thread_main(uint32_t index) {
  for (uint32_t seen = 0;;) {
    await(&team.go, seen);
    seen = atomic_load(&team.go.value);
    const uint32_t slices = seen % SLICES;
    if (slices == LEAVE) return;
    if (index >= slices) continue;
    team.fn(team.arg, index, slices);
    finished();
  }
}

BQW(void) bqw_thread_failed(void) {
  atomic_store(&team.failed, 1);
  atomic_fetch_add(&team.phase.value, 1);
  wake(&team.phase);
  finished();
}

BQW(uint32_t) bqw_threads(uint32_t threads, uint32_t spins) {
  if (threads < 1 || threads > BQW_THREADS) return BQ_ARGUMENT;
#ifdef __wasm_atomics__
  team.threads = threads;
  team.spins = spins;
#else
  (void)spins;
#endif
  return BQ_OK;
}

BQW(void) bqw_threads_leave(void) {
  team.threads = 1;
  atomic_store(&team.go.value, atomic_load(&team.go.value) / SLICES * SLICES + LEAVE);
  wake(&team.go);
}
