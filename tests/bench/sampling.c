/* Measures the time to pick a token, by active filters.
 *
 *   make -f emscripten.mk bench-kernels
 *   node_modules/.bin/node build/bench-kernels/sampling.js [ROUNDS]
 *   build/native/bench-sampling [ROUNDS]
 *
 * Vocabularies have the sizes of SmolLM2 and Gemma 3. Logits are normally distributed with a
 * standard deviation of 3, with a few high ones, as those of a model with a likely next token.
 * Prints milliseconds, the minimum of ROUNDS (200) interleaved rounds. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "session/sampler.h"

enum { MAX_VOCAB = 262144, RECENT = 32768 };
static float logits[MAX_VOCAB];
static uint32_t recent[RECENT], mask[MAX_VOCAB / 32];

static const struct {
  const char *name;
  bq_sample_options options;
  size_t recent; /* tokens that a penalty is for */
} chains[] = {
    {"greedy", {.top_p = 1}, 0},
    {"temperature", {.temperature = 0.8f, .top_p = 1}, 0},
    {"top-k 40", {.temperature = 0.8f, .top_p = 1, .top_k = 40}, 0},
    {"top-p 0.95", {.temperature = 0.8f, .top_p = 0.95f}, 0},
    {"top-p 0.95, flat", {.temperature = 3, .top_p = 0.95f}, 0},
    {"min-p 0.05", {.temperature = 0.8f, .top_p = 1, .min_p = 0.05f}, 0},
    {"top-p and penalty of 2,048 tokens",
     {.temperature = 0.8f, .top_p = 0.95f, .repeat_penalty = 1.1f},
     2048},
    {"penalty of 32,768 tokens", {.repeat_penalty = 1.1f}, RECENT},
    {"top-p and mask", {.temperature = 0.8f, .top_p = 0.95f, .mask = mask}, 0},
};
enum { CHAINS = sizeof chains / sizeof *chains };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static void measure(uint32_t vocab, int rounds, bq_candidate *scratch) {
  uint32_t seed = 1, sum = 0;
  double least[CHAINS];
  for (uint32_t i = 0; i < vocab; i++) {
    float normal = -6;
    for (int j = 0; j < 12; j++) normal += (float)next(&seed) * 0x1p-24f;
    logits[i] = 3 * normal + (i % 4999 == 7 ? 12 : 0);
  }
  for (uint32_t i = 0; i < vocab / 32; i++) mask[i] = i % 2 ? 0 : next(&seed);
  for (int i = 0; i < RECENT; i++) recent[i] = next(&seed) % vocab;
  for (int i = 0; i < CHAINS; i++) least[i] = 1e9;
  bq_rng rng = bq_rng_seed(1);
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < CHAINS; i++) {
      const double from = now();
      sum += bq_sample(logits, vocab, recent, chains[i].recent, &chains[i].options, &rng,
                       scratch);
      const double took = now() - from;
      if (took < least[i]) least[i] = took;
    }
  for (int i = 0; i < CHAINS; i++) printf("| %u | %s | %.3f |\n", vocab, chains[i].name, least[i]);
  if (!sum) puts("only token 0 was picked");
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 200;
  puts("| vocabulary | filters | ms |\n|---|---|---|");
  bq_candidate *scratch = malloc(MAX_VOCAB * sizeof *scratch);
  if (!scratch) return 1;
  measure(49152, rounds, scratch);
  measure(MAX_VOCAB, rounds / 4 + 1, scratch);
  free(scratch);
  return 0;
}
