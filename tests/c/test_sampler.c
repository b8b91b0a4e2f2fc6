/* The sampler on fixed logits: exact choices, the order of the chain, ties, and the distribution. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "session/session.h"

enum { V = 8 };
static const float logits[V] = {0.5f, 2.0f, -1.0f, 2.0f, 1.5f, -3.0f, 0.0f, 1.0f};
static bq_candidate scratch[4096];

static uint32_t sample(const bq_sample_options *o, bq_rng *rng) {
  return bq_sample(logits, V, NULL, 0, o, rng, scratch);
}

static void test_greedy_ties_go_to_the_lowest_id(void) {
  bq_rng rng = bq_rng_seed(1);
  CHECK_EQ(sample(&(bq_sample_options){0}, &rng), 1);
  CHECK_EQ(rng.state, 1); /* greedy draws nothing */
}

/* Whatever the number of logits, wherever the largest is, beside NaNs, infinities and zeros of both signs. */
static void test_greedy_is_the_first_of_the_largest(void) {
  static float l[100];
  bq_rng rng = bq_rng_seed(1);
  uint32_t seed = 3;
  for (uint32_t n = 1; n <= 100; n++)
    for (int times = 0; times < 20; times++) {
      uint32_t best = 0;
      for (uint32_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        static const float odd[] = {NAN, -INFINITY, 0.0f, -0.0f, 1, 2, 2, 3};
        l[i] = odd[seed >> 29];
        if (l[i] > l[best]) best = i; /* NaN: neither before nor behind */
      }
      CHECK_EQ(bq_sample(l, n, NULL, 0, &(bq_sample_options){0}, &rng, scratch), best);
    }
}

static void test_top_k_1_is_greedy(void) {
  bq_rng rng = bq_rng_seed(7);
  for (int i = 0; i < 100; i++)
    CHECK_EQ(sample(&(bq_sample_options){.temperature = 5, .top_k = 1}, &rng), 1);
}

/* SplitMix64's published first outputs for seed 0 fix the generator. */
static void test_rng_is_splitmix64(void) {
  static const uint64_t known[] = {0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u, 0x06c45d188009454fu};
  static const float flat[2] = {0, 0};
  bq_rng rng = bq_rng_seed(0);
  for (int i = 0; i < 3; i++) {
    double u = (double)(known[i] >> 11) * 0x1p-53;
    uint32_t got = bq_sample(flat, 2, NULL, 0, &(bq_sample_options){.temperature = 1}, &rng, scratch);
    CHECK_EQ(got, u < 0.5 ? 0u : 1u);
    CHECK_EQ(rng.state, (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u);
  }
}

/* Reference: the same chain written the slow way over a sorted array. */
typedef struct pair { double w; uint32_t id; } pair;
static int by_weight(const void *a, const void *b) {
  const pair *x = a, *y = b;
  if (x->w != y->w) return x->w > y->w ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

static size_t reference(const float *l, size_t n, const bq_sample_options *o, pair *p) {
  double total = 0, kept = 0, max = -INFINITY;
  for (size_t i = 0; i < n; i++) max = fmax(max, (double)l[i] / (double)o->temperature);
  for (size_t i = 0; i < n; i++)
    p[i] = (pair){exp((double)l[i] / (double)o->temperature - max), (uint32_t)i};
  qsort(p, n, sizeof *p, by_weight);
  if (o->top_k && o->top_k < n) n = o->top_k;
  for (size_t i = 0; i < n; i++) total += p[i].w;
  size_t take = 0;
  while (take < n) {
    if (o->top_p > 0 && o->top_p < 1 && kept >= (double)o->top_p * total) break;
    if (take && p[take].w < (double)o->min_p) break;
    kept += p[take++].w;
  }
  for (size_t i = 0; i < take; i++) p[i].w /= kept;
  return take;
}

/* Chi-square against the reference's probabilities; bound: far tail for the degrees of freedom. */
static void check_distribution(const float *l, size_t n, bq_sample_options o, uint64_t seed) {
  pair p[64];
  enum { DRAWS = 20000 };
  size_t take = reference(l, n, &o, p);
  int counts[64] = {0};
  bq_rng rng = bq_rng_seed(seed);
  for (int i = 0; i < DRAWS; i++) {
    uint32_t id = bq_sample(l, (uint32_t)n, NULL, 0, &o, &rng, scratch);
    size_t at = 0;
    while (at < take && p[at].id != id) at++;
    if (at == take) {
      CHECK(!"an id outside the reference's set was drawn");
      return;
    }
    counts[at]++;
  }
  double chi = 0;
  for (size_t i = 0; i < take; i++) {
    double expected = p[i].w * DRAWS;
    chi += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  double df = (double)take - 1;
  CHECK(chi <= df + 5 * sqrt(2 * df + 1) + 5);
}

static void test_distributions(void) {
  float l[40];
  uint32_t x = 12345;
  for (int i = 0; i < 40; i++) {
    x = x * 1664525u + 1013904223u;
    l[i] = (float)(x >> 8) * 0x1p-22f - 2;
  }
  l[7] = l[31]; /* a tie */
  const bq_sample_options chains[] = {
      {.temperature = 1},
      {.temperature = 0.7f},
      {.temperature = 1, .top_k = 5},
      {.temperature = 1, .top_p = 0.8f},
      {.temperature = 1.3f, .top_k = 20, .top_p = 0.9f},
      {.temperature = 1, .min_p = 0.2f},
      {.temperature = 1, .top_k = 30, .top_p = 0.95f, .min_p = 0.1f},
      {.temperature = 2, .top_k = 1000, .top_p = 1},
  };
  for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
    check_distribution(l, 40, chains[i], 100 + i);
}

static void test_top_p_keeps_the_token_that_crosses(void) {
  /* weights 8 : 4 : 2 : 1 … top_p 0.5 keeps the first alone, 0.6 the first two */
  float l[5];
  for (int i = 0; i < 5; i++) l[i] = (float)(log(2.0) * (4 - i));
  pair p[8];
  CHECK_EQ(reference(l, 5, &(bq_sample_options){.temperature = 1, .top_p = 0.5f}, p), 1);
  bq_rng rng = bq_rng_seed(3);
  int second = 0;
  for (int i = 0; i < 400; i++) {
    CHECK_EQ(bq_sample(l, 5, NULL, 0, &(bq_sample_options){.temperature = 1, .top_p = 0.5f}, &rng, scratch), 0);
    uint32_t id = bq_sample(l, 5, NULL, 0, &(bq_sample_options){.temperature = 1, .top_p = 0.6f}, &rng, scratch);
    CHECK(id < 2);
    second += id == 1;
  }
  CHECK(second > 50);
}

static void test_repetition_penalty(void) {
  const uint32_t recent[] = {1, 1, 3, 5};
  bq_rng rng = bq_rng_seed(0);
  bq_sample_options o = {.repeat_penalty = 2};
  /* 2.0 / 2 = 1.0 for ids 1 and 3 (once, though id 1 occurs twice), so 1.5 wins */
  CHECK_EQ(bq_sample(logits, V, recent, 4, &o, &rng, scratch), 4);
  o.repeat_penalty = 1.2f; /* 2 / 1.2 = 1.67 still wins; punished twice it would not */
  CHECK_EQ(bq_sample(logits, V, recent, 4, &o, &rng, scratch), 1);
  const float negative[2] = {-1.0f, -1.5f};
  const uint32_t first[] = {0};
  o.repeat_penalty = 2; /* negative logits are multiplied */
  CHECK_EQ(bq_sample(negative, 2, first, 1, &o, &rng, scratch), 1);
}

static void test_a_seed_gives_the_same_tokens(void) {
  /* from a separate script of the chain in Python doubles */
  static const uint32_t known[] = {4, 1, 1, 1, 1, 4, 1, 4, 1, 3, 1, 3};
  bq_rng rng = bq_rng_seed(42);
  bq_sample_options o = {.temperature = 0.8f, .top_k = 6, .top_p = 0.9f};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) CHECK_EQ(sample(&o, &rng), known[i]);
}

static void test_one_token_vocabulary(void) {
  bq_rng rng = bq_rng_seed(9);
  CHECK_EQ(bq_sample(logits, 1, NULL, 0, &(bq_sample_options){.temperature = 1, .top_p = 0.1f}, &rng, scratch), 0);
  CHECK_EQ(bq_sample(logits, 1, NULL, 0, &(bq_sample_options){.temperature = 1}, &rng, scratch), 0);
}

int main(void) {
  RUN(test_greedy_ties_go_to_the_lowest_id);
  RUN(test_greedy_is_the_first_of_the_largest);
  RUN(test_top_k_1_is_greedy);
  RUN(test_rng_is_splitmix64);
  RUN(test_distributions);
  RUN(test_top_p_keeps_the_token_that_crosses);
  RUN(test_repetition_penalty);
  RUN(test_a_seed_gives_the_same_tokens);
  RUN(test_one_token_vocabulary);
  return check_summary();
}
