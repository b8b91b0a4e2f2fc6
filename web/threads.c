/* Parallel regions over threads that JavaScript started (web/threads.h). Without shared memory
 * there is one thread, and a region is a plain call.
 *
 * A region is published by one word, `go`: a count of regions with the number of threads in its low
 * bits, so that a thread which wakes late never takes part in a region that it doesn't belong to.
 * Each thread then counts the phases it has finished in a word of its own, and waits for those of
 * the others: a write takes over 100 ns to reach another core, so there is only one per wait.
 *
 * A waiting thread spins for a while, since the next region is usually microseconds away, then
 * sleeps in memory.atomic.wait32. Sleepers are counted, so that only sleeping threads are woken: a
 * sleeper counts itself before it checks the word for the last time, a waker changes the word
 * before it reads the count (all sequentially consistent), so one of the two sees the other. */
#include "threads.h"

#include <stdatomic.h>

#include "border.h"
#include "trace.h"

enum {
  STEP = 64,       /* `go` counts regions in steps of this */
  LEAVE = 63,      /* this many threads: terminate */
  LINE = 64,       /* bytes of a cache line */
  MOST_LEFT = 65535
};

_Static_assert(BQW_THREADS < LEAVE, "threads and LEAVE share the low bits of a word");

/* A count that only rises (and may wrap around). */
typedef struct word {
  _Atomic uint32_t value;
  _Atomic uint32_t sleepers;
} word;

/* Progress of a thread: finished phases of all regions, and milliseconds that it slept in them. */
typedef struct progress {
  _Alignas(LINE) word done;
  double slept;
} progress;

/* The remainder of a thread's share of a phase: units [from, to). One word, so that its owner can
 * take from the front and others from the back (work stealing): the phase's number << 32 | from <<
 * 16 | to. While the number is that of an earlier phase, nothing of the share has been taken. */
typedef struct share {
  _Alignas(LINE) _Atomic uint64_t left;
} share;

static struct {
  /* Number of regions * STEP + threads of the current one; in a cache line with the region's
   * description. */
  _Alignas(LINE) word go;
  void (*fn)(void *arg, size_t thread, size_t threads);
  void *arg;
  uint32_t begun; /* `done` of all threads at the beginning of the region */
  uint32_t threads, spins;
  uint32_t used; /* number of threads in the next region */
  /* Number of changes * STEP + `used`: unused threads wait for the next change, so that regions
   * don't wake them. */
  _Alignas(LINE) word use;
  _Atomic uint32_t failed;
  progress each[BQW_THREADS];
  share shares[BQW_THREADS];
  _Alignas(LINE) struct { /* used by the caller; milliseconds */
    double whole, slept; /* recent time in regions; sleep of all threads at its beginning */
    double until, pause; /* end, and length, of the period in which the caller computes alone */
    uint32_t regions;    /* regions computed alone */
    bool allowed;
  } alone;
} team = {.threads = 1, .used = 1};

static bool reached(word *w, uint32_t count) {
  return (int32_t)(atomic_load(&w->value) - count) >= 0;
}

/* Waits until *w is `count` or more; returns the milliseconds slept, by the host's clock. The two
 * are less than 2^31 apart, since no thread goes on without the others. */
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

/* Waits until *w differs from `seen`, however old that is. */
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

/* Reports that this thread has finished its phase. */
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

/* If other programs keep cores busy, all threads wait for the one without a core, and several
 * threads are slower than one. The share of time that threads sleep shows it, checked after 20 ms
 * of regions: from a quarter on, the caller computes alone for the next 100 ms, then twice as long
 * each time, up to 1.6 s, until threads sleep less. */
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
  /* otherwise the trapped thread would be waited for forever */
  if (atomic_load(&team.failed)) __builtin_trap();
  team.fn = fn;
  team.arg = arg;
  team.begun = atomic_load(&team.each[0].done.value);
  atomic_store(&team.go.value, (atomic_load(&team.go.value) / STEP + 1) * STEP + n);
  wake(&team.go);
  fn(arg, 0, n);
  await_others(0, n, finish(0));
  if (atomic_load(&team.failed)) __builtin_trap(); /* its results are missing */
  const double now = bqw_now();
  team.alone.whole += now - since;
  if (team.alone.whole > LOOK) look(now, n);
}

/* Every thread of a region calls this equally often. A thread that trapped never does, so after a
 * trap no thread waits. */
static void barrier(void *ctx, size_t thread, size_t threads) {
  (void)ctx;
  const uint32_t count = finish(thread);
  if (!atomic_load(&team.failed)) await_others(thread, threads, count);
}

/* Units taken at once: at first all of a share but an eighth, since each piece begins with a memory
 * stall; then half of the remainder. */
static size_t some_of(size_t left, size_t size) {
  const size_t eighth = size / 8 + (size < 8);
  return left > eighth ? left - eighth : (left + 1) / 2;
}

/* Takes units: from the front of the thread's own share or, if that is used up, from the back of
 * others' shares, whose threads are slower or were interrupted. */
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

/* Set before a region of so many threads is published: a thread that reads the old number sees the
 * change. */
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
    /* It differs after regions without this thread. Written only then: a write would take the cache
     * line from the caller's core, which waits on it. */
    _Atomic uint32_t *done = &team.each[index].done.value;
    if (atomic_load(done) != team.begun) atomic_store(done, team.begun);
    team.fn(team.arg, index, threads);
    finish(index);
  }
}

BQW(void) bqw_thread_failed(uint32_t index) {
  atomic_store(&team.failed, 1);
  atomic_fetch_add(&team.each[index].done.value, 1u << 30); /* releases every waiting thread */
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
