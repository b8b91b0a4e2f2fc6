/* Measures the gain of a second thread for reading memory: a plain read of N MB by one thread and
 * by two, in turn. One JSON line per size: medians in GB/s and the median of the pairs' ratios.
 *
 *   make -f emscripten.mk bench-kernels
 *   build/native/bench-read [rounds, 41] [MB, else several]  */
#define _POSIX_C_SOURCE 200112L /* clock_gettime, pthread_barrier_t */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plain_read.h"

enum { MAX_ROUNDS = 999 };

static const uint64_t *data;
static size_t words; /* 0: the second thread ends */
static pthread_barrier_t begin, end;
static volatile uint64_t sinks[2];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *second(void *arg) {
  (void)arg;
  for (;;) {
    pthread_barrier_wait(&begin);
    if (!words) return NULL;
    sinks[1] = plain_read(data + words / 2, words / 2, sinks[1]);
    pthread_barrier_wait(&end);
  }
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *list, int n) {
  qsort(list, (size_t)n, sizeof *list, by_size);
  return list[n / 2];
}

int main(int argc, char **argv) {
  size_t sizes[] = {25, 76, 150},
         count = sizeof sizes / sizeof *sizes; /* of a 135M model in BQ4H: 76 */
  static double one[MAX_ROUNDS], two[MAX_ROUNDS], ratio[MAX_ROUNDS];
  const int rounds = argc > 1 ? atoi(argv[1]) : 41;
  const int megabytes = argc > 2 ? atoi(argv[2]) : 0;
  pthread_t thread;
  if (megabytes < 0 || megabytes > 4000) return 1;
  if (megabytes) sizes[0] = (size_t)megabytes, count = 1;
  if (rounds < 1 || rounds > MAX_ROUNDS) return 1;
  pthread_barrier_init(&begin, NULL, 2);
  pthread_barrier_init(&end, NULL, 2);
  if (pthread_create(&thread, NULL, second, NULL)) return 1;
  for (size_t i = 0; i < count; i++) {
    const size_t bytes = sizes[i] << 20;
    uint64_t *p = aligned_alloc(64, bytes);
    if (!p) return 1;
    memset(p, 1, bytes);
    data = p;
    words = bytes / 8;
    for (int r = 0; r < rounds; r++) {
      double start = now();
      sinks[0] = plain_read(p, words, sinks[0]);
      one[r] = now() - start;
      start = now();
      pthread_barrier_wait(&begin);
      sinks[0] = plain_read(p, words / 2, sinks[0]);
      pthread_barrier_wait(&end);
      two[r] = now() - start;
      ratio[r] = one[r] / two[r];
    }
    printf(
        "{\"bench\": \"read\", \"MB\": %zu, \"GB_per_s\": %.2f, \"of_two\": %.2f, \"ratio\": "
        "%.3f}\n",
        sizes[i], (double)bytes / median(one, rounds) * 1e-9,
        (double)bytes / median(two, rounds) * 1e-9, median(ratio, rounds));
    free(p);
  }
  words = 0;
  pthread_barrier_wait(&begin);
  pthread_join(thread, NULL);
  return 0;
}
