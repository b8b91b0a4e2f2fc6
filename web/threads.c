/* Parallel regions over threads that JavaScript started (web/threads.h). Where memory isn't shared
 * this is one thread and a plain call.
 *
 * A region is published by one word, `go`: a count of regions with the number of threads in its low
 * bits, so that a thread which wakes late never takes part in a region that it isn't counted in.
 * Each thread then counts the parts that it has done in a word of its own, and waits for those of
 * the others: a write takes a good 100 ns to reach another core, and so there is one per wait.
 *
 * A waiter spins for a while, since the next region is usually microseconds away, then sleeps in
 * memory.atomic.wait32. Sleepers are counted, so nobody is woken who isn't asleep: a sleeper counts
 * itself before it looks at the word for the last time, a waker changes the word before it looks at
 * the count (all of them sequentially consistent), so one of the two sees the other. */
#include "threads.h"

#include <stdatomic.h>

#include "border.h"
#include "trace.h"

enum {
  STEP = 64,       /* `go` counts regions in steps of this */
  LEAVE = 63,      /* this many threads: go home */
  LINE = 64,       /* bytes that cores pass on as one */
  MOST_LEFT = 65535
};

_Static_assert(BQW_THREADS < LEAVE, "threads and LEAVE share the low bits of a word");

/* A count that only rises (and may wrap around). */
typedef struct word {
  _Atomic uint32_t value;
  _Atomic uint32_t sleepers;
} word;

/* What a thread has done: parts of all regions, and the milliseconds that it slept in them. */
typedef struct progress {
  _Alignas(LINE) word done;
  double slept;
} progress;

/* What is left of a thread's share of a part: its units from...to - 1. One word, so that its owner
 * can take from the front and others from the back: the part's number << 32 | from << 16 | to.
 * While the number is that of an earlier part, nothing of the share has been taken yet. */
typedef struct share {
  _Alignas(LINE) _Atomic uint64_t left;
} share;

static struct {
  /* Regions so far * STEP + threads of the current one; in a cache line with what describes it. */
  _Alignas(LINE) word go;
  void (*fn)(void *arg, size_t thread, size_t threads);
  void *arg;
  uint32_t begun; /* `done` of all threads when the region begins */
  uint32_t threads, spins;
  uint32_t used; /* of these threads by the next region */
  /* Changes so far * STEP + `used`: who isn't needed waits for the next change, and so is not woken
   * by each region. */
  _Alignas(LINE) word use;
  _Atomic uint32_t failed;
  progress each[BQW_THREADS];
  share shares[BQW_THREADS];
  _Alignas(LINE) struct { /* the caller's: milliseconds */
    double whole, slept; /* of late: in regions; all threads' sleep at their beginning */
    double until, pause; /* alone until then; for so long, the last time */
    uint32_t regions;    /* done alone */
    bool allowed;
  } alone;
} team = {.threads = 1, .used = 1};

static bool reached(word *w, uint32_t count) {
  return (int32_t)(atomic_load(&w->value) - count) >= 0;
}

/* Returns when *w is `count` or more: the milliseconds that it slept, by the host's clock. Both are
 * less than 2^31 apart, since no thread goes on without the others. */
#ifdef __wasm_atomics__
static double await(word *w, uint32_t count) {
  for (uint32_t i = team.spins; i > 0; i--)
    if (reached(w, count)) return 0;
  const double since = bqw_now();
  atomic_fetch_add(&w->sleepers, 1);
  for (uint32_t seen; (int32_t)((seen = atomic_load(&w->value)) - count) < 0;)
    __builtin_wasm_memory_atomic_wait32((int *)&w->value, (int)seen, -1);
  atomic_fetch_sub(&w->sleepers, 1);
  return bqw_now() - since;
}

/* Returns when *w is no longer `seen`, which may be of any time ago. */
static void await_change(word *w, uint32_t seen) {
  for (uint32_t i = team.spins; i > 0; i--)
    if (atomic_load(&w->value) != seen) return;
  atomic_fetch_add(&w->sleepers, 1);
  while (atomic_load(&w->value) == seen)
    __builtin_wasm_memory_atomic_wait32((int *)&w->value, (int)seen, -1);
  atomic_fetch_sub(&w->sleepers, 1);
}

static void wake(word *w) {
  if (atomic_load(&w->sleepers)) __builtin_wasm_memory_atomic_notify((int *)&w->value, BQW_THREADS);
}
#else
static double await(word *w, uint32_t count) { return (void)w, (void)count, 0; }
static void await_change(word *w, uint32_t seen) {
  (void)w, (void)seen;
}
static void wake(word *w) { (void)w; }
#endif

/* This thread has done its part. */
static uint32_t finish(size_t thread) {
  word *own = &team.each[thread].done;
  const uint32_t count = atomic_load(&own->value) + 1;
  atomic_store(&own->value, count);
  wake(own);
  return count;
}

static void await_others(size_t thread, size_t threads, uint32_t count) {
  for (size_t i = 0; i < threads; i++)
    if (i != thread && !reached(&team.each[i].done, count)) {
      const double slept = await(&team.each[i].done, count);
      if (slept > 0) team.each[thread].slept += slept;
    }
}

/* Where other programs keep cores busy, all threads wait for the one without a core, and several
 * are slower than one. It shows in the share of the time that they sleep, looked at after 20 ms of
 * regions: from a quarter on, the caller takes the next 100 ms alone; then twice as long each time,
 * up to 1.6 s, until they sleep less. */
enum { LOOK = 20, PAUSE = 100, LONGEST_PAUSE = 1600 };

static void look(double now, uint32_t n) {
  double all = 0;
  for (uint32_t i = 0; i < n; i++) all += team.each[i].slept;
  const double slept = all - team.alone.slept;
  const double twice = team.alone.pause * 2, whole = team.alone.whole * n;
  const double longer = twice < PAUSE ? PAUSE : twice < LONGEST_PAUSE ? twice : LONGEST_PAUSE;
  team.alone.pause = slept * 4 < whole ? 0 : longer;
  team.alone.until = team.alone.allowed ? now + team.alone.pause : 0;
  team.alone.slept = all;
  team.alone.whole = 0;
}

static void run(void *ctx, void (*fn)(void *arg, size_t thread, size_t threads), void *arg) {
  (void)ctx;
  const uint32_t n = team.used;
  const double since = n > 1 ? bqw_now() : 0;
  if (n <= 1 || since < team.alone.until) {
    team.alone.regions += n > 1;
    fn(arg, 0, 1);
    return;
  }
  /* A thread that trapped would be waited for without end. */
  if (atomic_load(&team.failed)) __builtin_trap();
  team.fn = fn;
  team.arg = arg;
  team.begun = atomic_load(&team.each[0].done.value);
  atomic_store(&team.go.value, (atomic_load(&team.go.value) / STEP + 1) * STEP + n);
  wake(&team.go);
  fn(arg, 0, n);
  await_others(0, n, finish(0));
  if (atomic_load(&team.failed)) __builtin_trap(); /* what it computed is not there */
  const double now = bqw_now();
  team.alone.whole += now - since;
  if (team.alone.whole > LOOK) look(now, n);
}

/* Every thread of a region comes here as often. A thread that trapped never comes again, so from
 * then on nobody waits. */
static void barrier(void *ctx, size_t thread, size_t threads) {
  (void)ctx;
  const uint32_t count = finish(thread);
  if (!atomic_load(&team.failed)) await_others(thread, threads, count);
}

/* All of a share but an eighth at first, since each piece begins with a wait for memory; then half
 * of what is left at a time. */
static size_t some_of(size_t left, size_t size) {
  const size_t eighth = size / 8 + (size < 8);
  return left > eighth ? left - eighth : (left + 1) / 2;
}

/* Some of what is left: a thread's own things from the front, and when there are no more those of
 * others from the back, who are slower or were interrupted. */
static bool take(void *ctx, size_t thread, size_t threads, size_t n, size_t *from, size_t *to) {
  (void)ctx;
  /* A share's number is 0 before its first part. */
  const uint64_t part = (uint32_t)(atomic_load(&team.each[thread].done.value) + 1);
  const size_t unit = n / MOST_LEFT + 1, units = (n + unit - 1) / unit;
  for (size_t i = 0; i < threads; i++) {
    const size_t owner = (thread + i) % threads;
    const size_t first = units * owner / threads, size = units * (owner + 1) / threads - first;
    _Atomic uint64_t *left = &team.shares[owner].left;
    for (uint64_t seen = atomic_load(left);;) {
      const bool begun = (uint32_t)(seen >> 32) == (uint32_t)part;
      size_t a = begun ? seen >> 16 & MOST_LEFT : 0, b = begun ? seen & MOST_LEFT : size;
      if (a >= b) break;
      const size_t some = some_of(b - a, size);
      const size_t at = first + (i == 0 ? a : b - some);
      if (i == 0) a += some;
      else b -= some;
      if (!atomic_compare_exchange_weak(left, &seen, part << 32 | (uint64_t)a << 16 | b)) continue;
      *from = at * unit;
      *to = (at + some) * unit < n ? (at + some) * unit : n;
      return true;
    }
  }
  return false;
}

bq_parallel bqw_parallel(void) { return (bq_parallel){NULL, run, team.threads, barrier, take}; }

/* Set before a region with so many is published: whoever reads an older number sees the change. */
static void use(uint32_t threads) {
  if (threads == team.used) return;
  if (threads < LEAVE) team.used = threads;
  atomic_store(&team.use.value, (atomic_load(&team.use.value) / STEP + 1) * STEP + threads);
  wake(&team.use);
}

BQW(void) bqw_thread_main(uint32_t index) {
  for (uint32_t seen = 0;;) {
    for (uint32_t used; index >= (used = atomic_load(&team.use.value)) % STEP;)
      await_change(&team.use, used);
    await_change(&team.go, seen);
    seen = atomic_load(&team.go.value);
    const uint32_t threads = seen % STEP;
    if (threads == LEAVE) return;
    if (index >= threads) continue;
    /* Different after regions in which this thread had no part. Only then: a write would take the
     * line from the core of the caller, which waits on it. */
    _Atomic uint32_t *done = &team.each[index].done.value;
    if (atomic_load(done) != team.begun) atomic_store(done, team.begun);
    team.fn(team.arg, index, threads);
    finish(index);
  }
}

BQW(void) bqw_thread_failed(uint32_t index) {
  atomic_store(&team.failed, 1);
  atomic_fetch_add(&team.each[index].done.value, 1u << 30); /* whatever others wait for */
  wake(&team.each[index].done);
}

BQW(uint32_t) bqw_threads(uint32_t threads, uint32_t spins, uint32_t alone) {
  if (threads < 1 || threads > BQW_THREADS) return BQ_ARGUMENT;
#ifdef __wasm_atomics__
  team.threads = threads;
  use(threads);
  team.spins = spins;
  team.alone.allowed = alone;
  team.alone.until = 0;
#else
  (void)spins, (void)alone;
#endif
  return BQ_OK;
}

BQW(void) bqw_threads_use(uint32_t threads) {
  use(threads < 1 ? 1 : threads < team.threads ? threads : team.threads);
}

BQW(uint32_t) bqw_threads_alone(void) { return team.alone.regions; }

BQW(void) bqw_threads_leave(void) {
  use(LEAVE);
  team.threads = team.used = 1;
  atomic_store(&team.go.value, atomic_load(&team.go.value) / STEP * STEP + LEAVE);
  wake(&team.go);
}
