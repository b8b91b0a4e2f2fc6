/* Rates of state updates alone: one JSON line per shape.
 *
 *   make -f emscripten.mk bench-kernels
 *   build/native/bench-state [rounds, 7]
 *   node_modules/.bin/node build/bench-kernels/state.js [rounds]
 *
 * One pass updates the states of all layers and heads, from the snapshot of the token before to the
 * states of the next one, as one token does, so that they come from memory as they do there.
 * Medians are printed. `us` is one pass; `read_us` reads the same bytes and does nothing else. Each
 * weight of a state counts as read and written once.
 */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plain_read.h"
#include "session/state_update.h"

enum { MAX_ROUNDS = 99, MAX_DIM = 128 };

typedef struct shape {
  const char *name;
  bool mamba;
  uint32_t layers, heads, key, value;
} shape;

static const shape shapes[] = {
    {"delta net, 18 x 16 heads of 128 x 128", false, 18, 16, 128, 128},
    {"Mamba-2, 28 x 48 heads of 128 x 32", true, 28, 48, 128, 32},
    {"Mamba-2, 36 x 24 heads of 128 x 64", true, 36, 24, 128, 64},
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, z = *(const double *)b;
  return (x > z) - (x < z);
}

static void pass(const shape *s, const float *from, float *to) {
  static float q[MAX_DIM], k[MAX_DIM], v[MAX_DIM], delta[MAX_DIM], out[MAX_DIM];
  const size_t floats = (size_t)s->key * s->value;
  for (uint32_t i = 0; i < MAX_DIM; i++) q[i] = k[i] = v[i] = 0.01f * (float)(i % 7);
  for (size_t i = 0; i < (size_t)s->layers * s->heads; i++) {
    const float *old = from + i * floats;
    float *state = to + i * floats;
    if (s->mamba) {
      bq_state_update(old, state, s->key, s->value, 0.9f, q, k, v, out);
      continue;
    }
    memcpy(state, old, floats * sizeof *state);
    bq_state_multiply(state, s->key, s->value, 0.9f, k, delta);
    bq_state_update(state, state, s->key, s->value, 0.9f, q, k, delta, out);
  }
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 7;
  if (rounds < 1 || rounds > MAX_ROUNDS) return 1;
  uint64_t sink = 0;
  for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
    const shape *s = &shapes[n];
    const size_t floats = (size_t)s->layers * s->heads * s->key * s->value;
    float *states = calloc(floats, sizeof *states), *next = calloc(floats, sizeof *next);
    double seconds[MAX_ROUNDS], reads[MAX_ROUNDS];
    if (!states || !next) return 1;
    for (int round = -1; round < rounds; round++) { /* the first warms up */
      const double start = now();
      pass(s, round % 2 ? states : next, round % 2 ? next : states);
      const double middle = now();
      sink = plain_read(states, floats / 2, sink);
      if (round < 0) continue;
      seconds[round] = middle - start;
      reads[round] = now() - middle;
    }
    qsort(seconds, (size_t)rounds, sizeof *seconds, by_size);
    qsort(reads, (size_t)rounds, sizeof *reads, by_size);
    const double us = seconds[rounds / 2] * 1e6, bytes = 2.0 * 4.0 * (double)floats;
    printf("{\"bench\": \"state\", \"shape\": \"%s\", \"megabytes\": %.1f, \"us\": %.0f, "
           "\"read_us\": %.0f, \"gb_per_s\": %.2f}\n",
           s->name, (double)floats * 4e-6, us, reads[rounds / 2] * 1e6, bytes / us * 1e-3);
    free(states);
    free(next);
  }
  return sink == 1; /* so that reads are not left out */
}
