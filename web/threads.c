/* Parallel regions over threads that JavaScript started (web/threads.h). Without shared memory
 * there is one thread, and a region is a plain call.
 *
 * The calling thread publishes a region by writing one word, `go`: the number of regions so far,
 * with the number of threads in its low bits. A thread that wakes late can thus tell that it does
 * not belong to the current region. Each thread counts its finished phases in a word of its own and
 * waits for the words of the others. A write takes over 100 ns to reach another core, so a wait
 * needs only one write per thread.
 *
 * A waiting thread first spins, since the next region usually follows within microseconds, then
 * sleeps in memory.atomic.wait32. Each word has a count of its sleepers, so that notify is called
 * only if a thread sleeps. No wake-up is lost: a sleeper increments the count before it checks the
 * word for the last time, and a waker changes the word before it reads the count. All these
 * accesses are sequentially consistent, so one of the two threads notices the other. */
#include "threads.h"

#include <stdatomic.h>

#include "border.h"
#include "trace.h"

enum {
  STEP = 64,       /* unit of the counts in `go` and `used_changes` */
  LEAVE = 63,      /* in place of a number of threads: all other threads return */
  LINE = 64,       /* bytes of a cache line */
  MAX_UNITS = 65535 /* units of a phase: a share's bounds have 16 bits */
};

_Static_assert(BQW_THREADS < LEAVE, "threads and LEAVE share the low bits of a word");

/* A count that only increases (and may wrap around), and the number of threads that sleep on it. */
typedef struct counter {
  _Atomic uint32_t value;
  _Atomic uint32_t sleepers;
} counter;

/* Progress of a thread: finished phases of all regions, and milliseconds that it slept in them. */
typedef struct progress {
  _Alignas(LINE) counter done;
  double slept;
} progress;

/* The remaining units [from, to) of a thread's share of a phase. They are in one word, so that the
 * owner can claim units from the front while others claim from the back (work stealing):
 * phase number << 32 | from << 16 | to. If the number is that of an earlier phase, no unit of the
 * current share has been claimed yet. */
typedef struct share {
  _Alignas(LINE) _Atomic uint64_t left;
} share;

static struct {
  /* Number of regions * STEP + threads of the current one; in a cache line with the region's
   * description. */
  _Alignas(LINE) counter go;
  void (*fn)(void *arg, size_t thread, size_t threads);
  void *arg;
  uint32_t done_before; /* `done` of all threads at the beginning of the region */
  uint32_t threads, spins;
  uint32_t used; /* number of threads in the next region */
  /* Number of changes * STEP + `used`: unused threads wait for the next change, so that regions
   * don't wake them. */
  _Alignas(LINE) counter used_changes;
  _Atomic uint32_t failed;
  progress each[BQW_THREADS];
  share shares[BQW_THREADS];
  /* Used by the calling thread only. Times are in milliseconds. */
  _Alignas(LINE) struct {
    double elapsed;      /* time in regions since the last check_sleep */
    double slept;        /* sum of `slept` of all threads at the last check_sleep */
    double until, pause; /* end, and length, of the period in which the caller computes alone */
    uint32_t regions;    /* number of regions computed alone */
    bool allowed;
  } alone;
} team = {.threads = 1, .used = 1};

static bool has_reached(counter *w, uint32_t count) {
  return (int32_t)(atomic_load(&w->value) - count) >= 0;
}

/* Waits until *w is at least `count`; returns the milliseconds slept, by the host's clock. The two
 * numbers differ by less than 2^31, since no thread continues without the others. */
#ifdef __wasm_atomics__
static double await(counter *w, uint32_t count) {
  for (uint32_t i = team.spins; i > 0; i--)
    if (has_reached(w, count)) return 0;
  const double since = bqw_now();
  atomic_fetch_add(&w->sleepers, 1);
  for (uint32_t seen; (int32_t)((seen = atomic_load(&w->value)) - count) < 0;)
    __builtin_wasm_memory_atomic_wait32((int *)&w->value, (int)seen, -1);
  atomic_fetch_sub(&w->sleepers, 1);
  return bqw_now() - since;
}

/* Waits until *w differs from `seen`, however old that is. */
static void await_change(counter *w, uint32_t seen) {
  for (uint32_t i = team.spins; i > 0; i--)
    if (atomic_load(&w->value) != seen) return;
  atomic_fetch_add(&w->sleepers, 1);
  while (atomic_load(&w->value) == seen)
    __builtin_wasm_memory_atomic_wait32((int *)&w->value, (int)seen, -1);
  atomic_fetch_sub(&w->sleepers, 1);
}

static void wake(counter *w) {
  if (atomic_load(&w->sleepers)) __builtin_wasm_memory_atomic_notify((int *)&w->value, BQW_THREADS);
}
#else
static double await(counter *w, uint32_t count) { return (void)w, (void)count, 0; }
static void await_change(counter *w, uint32_t seen) {
  (void)w, (void)seen;
}
static void wake(counter *w) { (void)w; }
#endif

/* Counts a phase of this thread as finished and wakes the threads that wait for it. Returns the new
 * count. */
static uint32_t finish(size_t thread) {
  counter *own = &team.each[thread].done;
  const uint32_t count = atomic_load(&own->value) + 1;
  atomic_store(&own->value, count);
  wake(own);
  return count;
}

static void await_others(size_t thread, size_t threads, uint32_t count) {
  for (size_t i = 0; i < threads; i++)
    if (i != thread && !has_reached(&team.each[i].done, count)) {
      const double slept = await(&team.each[i].done, count);
      if (slept > 0) team.each[thread].slept += slept;
    }
}

/* If other programs keep cores busy, all threads wait for a thread without a core, and several
 * threads are slower than one. This is detected by the time that threads sleep, which is checked
 * after every CHECK_INTERVAL ms of regions. If it is a quarter of the time or more, the caller
 * computes alone for PAUSE ms, then twice as long each time, up to LONGEST_PAUSE, until threads
 * sleep less. */
enum { CHECK_INTERVAL = 20, PAUSE = 100, LONGEST_PAUSE = 1600 }; /* milliseconds */

static void check_sleep(double now, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += team.each[i].slept;
  const double slept = sum - team.alone.slept;
  const double twice = team.alone.pause * 2, elapsed = team.alone.elapsed * n;
  const double longer = twice < PAUSE ? PAUSE : twice < LONGEST_PAUSE ? twice : LONGEST_PAUSE;
  team.alone.pause = slept * 4 < elapsed ? 0 : longer;
  team.alone.until = team.alone.allowed ? now + team.alone.pause : 0;
  team.alone.slept = sum;
  team.alone.elapsed = 0;
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
  /* Without the trap, this thread would wait forever for the failed one. */
  if (atomic_load(&team.failed)) __builtin_trap();
  team.fn = fn;
  team.arg = arg;
  team.done_before = atomic_load(&team.each[0].done.value);
  atomic_store(&team.go.value, (atomic_load(&team.go.value) / STEP + 1) * STEP + n);
  wake(&team.go);
  fn(arg, 0, n);
  await_others(0, n, finish(0));
  if (atomic_load(&team.failed)) __builtin_trap(); /* results of the failed thread are missing */
  const double now = bqw_now();
  team.alone.elapsed += now - since;
  if (team.alone.elapsed > CHECK_INTERVAL) check_sleep(now, n);
}

/* Waits until all threads of the region have finished the phase. All call it equally often, except
 * a thread that trapped: after a trap no thread waits. */
static void barrier(void *ctx, size_t thread, size_t threads) {
  (void)ctx;
  const uint32_t count = finish(thread);
  if (!atomic_load(&team.failed)) await_others(thread, threads, count);
}

/* Number of units to claim at once: first seven eighths of a share, because each piece begins with
 * a memory stall; then half of the remainder. */
static size_t count_to_claim(size_t left, size_t size) {
  const size_t eighth = size / 8 + (size < 8);
  return left > eighth ? left - eighth : (left + 1) / 2;
}

/* Claims units of the current phase: from the front of the thread's own share or, if no unit is
 * left there, from the back of others' shares, whose threads are slower or were interrupted. */
static bool claim(void *ctx, size_t thread, size_t threads, size_t n, size_t *from, size_t *to) {
  (void)ctx;
  /* Phase numbers begin with 1: the words of shares are 0 at first. */
  const uint64_t phase = (uint32_t)(atomic_load(&team.each[thread].done.value) + 1);
  const size_t unit = n / MAX_UNITS + 1, units = (n + unit - 1) / unit;
  for (size_t i = 0; i < threads; i++) {
    const size_t owner = (thread + i) % threads;
    const size_t first = units * owner / threads, size = units * (owner + 1) / threads - first;
    _Atomic uint64_t *left = &team.shares[owner].left;
    for (uint64_t seen = atomic_load(left);;) {
      const bool begun = (uint32_t)(seen >> 32) == (uint32_t)phase;
      size_t a = begun ? seen >> 16 & MAX_UNITS : 0, b = begun ? seen & MAX_UNITS : size;
      if (a >= b) break;
      const size_t count = count_to_claim(b - a, size);
      const size_t at = first + (i == 0 ? a : b - count);
      if (i == 0) a += count;
      else b -= count;
      if (!atomic_compare_exchange_weak(left, &seen, phase << 32 | (uint64_t)a << 16 | b)) continue;
      *from = at * unit;
      *to = (at + count) * unit < n ? (at + count) * unit : n;
      return true;
    }
  }
  return false;
}

bq_parallel bqw_parallel(void) { return (bq_parallel){NULL, run, team.threads, barrier, claim}; }

/* Sets the number of threads that take part in regions, or LEAVE, before the next region is
 * published. A thread that still sees the old number notices the change of the word. */
static void set_used_threads(uint32_t threads) {
  if (threads == team.used) return;
  if (threads < LEAVE) team.used = threads;
  const uint32_t changes = atomic_load(&team.used_changes.value) / STEP;
  atomic_store(&team.used_changes.value, (changes + 1) * STEP + threads);
  wake(&team.used_changes);
}

BQW(void) bqw_thread_main(uint32_t index) {
  for (uint32_t seen = 0;;) {
    for (uint32_t used; index >= (used = atomic_load(&team.used_changes.value)) % STEP;)
      await_change(&team.used_changes, used);
    await_change(&team.go, seen);
    seen = atomic_load(&team.go.value);
    const uint32_t threads = seen % STEP;
    if (threads == LEAVE) return;
    if (index >= threads) continue;
    /* The count is behind after regions without this thread. Only then it is written, because a
     * write takes the cache line away from the caller's core, which polls it. */
    _Atomic uint32_t *done = &team.each[index].done.value;
    if (atomic_load(done) != team.done_before) atomic_store(done, team.done_before);
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
  set_used_threads(threads);
  team.spins = spins;
  team.alone.allowed = alone;
  team.alone.until = 0;
#else
  (void)spins, (void)alone;
#endif
  return BQ_OK;
}

BQW(void) bqw_threads_use(uint32_t threads) {
  set_used_threads(threads < 1 ? 1 : threads < team.threads ? threads : team.threads);
}

BQW(uint32_t) bqw_threads_alone(void) { return team.alone.regions; }

BQW(void) bqw_threads_leave(void) {
  set_used_threads(LEAVE);
  team.threads = team.used = 1;
  atomic_store(&team.go.value, atomic_load(&team.go.value) / STEP * STEP + LEAVE);
  wake(&team.go);
}
