/* The sampler on fixed logits: exact choices, the order of filters, ties, and distributions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/fmath.h"
#include "random.h"
#include "session/sampler.h"

enum { V = 8 };
static const float logits[V] = {0.5f, 2.0f, -1.0f, 2.0f, 1.5f, -3.0f, 0.0f, 1.0f};
static bq_candidate *scratch; /* [4096] */

static uint32_t sample(const bq_sample_options *o, bq_rng *rng) {
  return bq_sample(logits, V, NULL, 0, o, rng, scratch);
}

static void test_greedy_ties_select_the_lowest_token(void) {
  bq_rng rng = bq_rng_seed(1);
  CHECK_EQ(sample(&(bq_sample_options){0}, &rng), 1);
  CHECK_EQ(rng.state, 1); /* Greedy sampling uses no random number. */
}

/* Compares with a loop over single values: the maximum at any place, with ties and NaN. */
static void test_greedy_choice_of_large_vocabularies(void) {
  static float large_logits[700];
  uint64_t seed = 9;
  for (uint32_t vocab = 1; vocab < sizeof large_logits / sizeof *large_logits;
       vocab += 1 + vocab / 8)
    for (int i = 0; i < 20; i++) {
      uint32_t best = BQ_TOKEN_NONE;
      for (uint32_t j = 0; j < vocab; j++)
        large_logits[j] =
            random_bits(&seed) % 50 ? (float)(random_bits(&seed) % (8u << i)) - 20 : NAN;
      if (i % 3 == 0) large_logits[0] = i % 2 ? NAN : -INFINITY;
      for (uint32_t j = 0; j < vocab; j++)
        if (large_logits[j] > (best == BQ_TOKEN_NONE ? -INFINITY : large_logits[best])) best = j;
      CHECK_EQ(bq_sample(large_logits, vocab, NULL, 0, &(bq_sample_options){0}, NULL, NULL), best);
    }
}

static void test_top_k_1_is_greedy(void) {
  bq_rng rng = bq_rng_seed(7);
  for (int i = 0; i < 100; i++)
    CHECK_EQ(sample(&(bq_sample_options){.temperature = 5, .top_k = 1, .top_p = 1}, &rng), 1);
}

/* The generator has the published first outputs of SplitMix64 for seed 0. */
static void test_rng_is_splitmix64(void) {
  static const uint64_t expected[] = {0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u,
                                      0x06c45d188009454fu};
  static const float flat[2] = {0, 0};
  bq_rng rng = bq_rng_seed(0);
  for (int i = 0; i < 3; i++) {
    double u = (double)(expected[i] >> 11) * 0x1p-53;
    uint32_t actual = bq_sample(flat, 2, NULL, 0,
                                &(bq_sample_options){.temperature = 1, .top_p = 1}, &rng, scratch);
    CHECK_EQ(actual, u < 0.5 ? 0u : 1u);
    CHECK_EQ(rng.state, (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u);
  }
}

/* A reference: the same chain of filters over a sorted array. */
typedef struct pair { double w; uint32_t id; } pair;
static int compare_weights(const void *a, const void *b) {
  const pair *x = a, *y = b;
  if (x->w != y->w) return x->w > y->w ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

static size_t sorted_chain(const float *l, size_t n, const bq_sample_options *o, pair *p) {
  double total = 0, kept_weight = 0, max = -INFINITY;
  for (size_t i = 0; i < n; i++) max = fmax(max, (double)l[i] / (double)o->temperature);
  for (size_t i = 0; i < n; i++)
    p[i] = (pair){exp((double)l[i] / (double)o->temperature - max), (uint32_t)i};
  qsort(p, n, sizeof *p, compare_weights);
  if (o->top_k && o->top_k < n) n = o->top_k;
  for (size_t i = 0; i < n; i++) total += p[i].w;
  size_t n_kept = 0;
  while (n_kept < n) {
    if (n_kept && o->top_p < 1 && kept_weight >= (double)o->top_p * total) break;
    if (n_kept && p[n_kept].w < (double)o->min_p) break;
    kept_weight += p[n_kept++].w;
  }
  for (size_t i = 0; i < n_kept; i++) p[i].w /= kept_weight;
  return n_kept;
}

/* A chi-square test against the probabilities of the reference; the bound is far in the tail for
 * the degrees of freedom. */
static void check_distribution(const float *l, size_t n, bq_sample_options o, uint64_t seed) {
  pair p[64];
  enum { DRAWS = 20000 };
  size_t n_kept = sorted_chain(l, n, &o, p);
  int counts[64] = {0};
  bq_rng rng = bq_rng_seed(seed);
  for (int i = 0; i < DRAWS; i++) {
    uint32_t id = bq_sample(l, (uint32_t)n, NULL, 0, &o, &rng, scratch);
    size_t at = 0;
    while (at < n_kept && p[at].id != id) at++;
    if (at == n_kept) {
      CHECK(!"expected a token that the reference keeps, found another one");
      return;
    }
    counts[at]++;
  }
  double chi = 0;
  for (size_t i = 0; i < n_kept; i++) {
    double expected = p[i].w * DRAWS;
    chi += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  double df = (double)n_kept - 1;
  CHECK(chi <= df + 5 * sqrt(2 * df + 1) + 5);
}

static int compare_values(const void *a, const void *b) {
  const bq_candidate *x = a, *y = b;
  return bq_candidate_before(*x, *y) ? -1 : 1;
}

/* The chain over a sorted array of all candidates: selects the same token for the same seed, to the
 * last bit of every sum. `total` is summed in the order of tokens; with top-k, from the best on. */
static uint32_t pick_of_sorted(const float *l, uint32_t n, const bq_sample_options *o, bq_rng *rng,
                               bq_candidate *c) {
  double total = 0, sum = 0;
  float max = -INFINITY;
  for (uint32_t i = 0; i < n; i++) {
    c[i] = (bq_candidate){l[i] / o->temperature, i};
    if (c[i].value > max) max = c[i].value;
  }
  const bool top_k = o->top_k && o->top_k < n;
  if (top_k) {
    qsort(c, n, sizeof *c, compare_values);
    n = o->top_k;
  }
  for (uint32_t i = 0; i < n; i++) {
    c[i].value = bq_expf(c[i].value - max);
    total += (double)c[i].value;
  }
  if (!top_k) qsort(c, n, sizeof *c, compare_values);
  uint32_t kept_weight = 0;
  for (; kept_weight < n && (o->top_p >= 1 || sum < (double)o->top_p * total); kept_weight++) {
    if (kept_weight && c[kept_weight].value < o->min_p) break;
    sum += (double)c[kept_weight].value;
  }
  rng->state += 0x9e3779b97f4a7c15u;
  uint64_t z = rng->state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  double remainder = (double)((z ^ (z >> 31)) >> 11) * 0x1p-53 * sum;
  uint32_t i = 0;
  for (; i + 1 < kept_weight; i++)
    if ((remainder -= (double)c[i].value) < 0) break;
  return c[i].id;
}

/* Filters read a few candidates if few can be selected. Here they read up to all of them, also with
 * adjusted logits in the scratch memory. */
static void test_filters_over_many_tokens(void) {
  static uint32_t mask[3000 / 32 + 1];
  memset(mask, 0xff, sizeof mask);
  static float large_logits[3000];
  static bq_candidate sorted[3000];
  static const float spreads[] = {0, 1e-6f, 0.1f, 2, 9, 60, 400};
  static const float shares[] = {1e-30f, 0.1f, 0.5f, 0.9f, 0.999f, 0.99999994f, 1};
  uint64_t seed = 3;
  for (uint32_t i = 0; i < 3000; i++) {
    const uint32_t n = 1 + random_bits(&seed) % (i % 3 ? 3000u : 20u);
    const float spread = spreads[random_bits(&seed) % 7];
    const uint32_t steps = random_bits(&seed) % 2 ? 9 : 1 << 20; /* 9 steps cause many ties. */
    for (uint32_t j = 0; j < n; j++)
      large_logits[j] = spread * ((float)(random_bits(&seed) % steps) / (float)steps);
    const bq_sample_options o = {.temperature = random_bits(&seed) % 2 ? 1 : 0.7f,
                                 .top_k = i % 4 ? 0 : 1 + random_bits(&seed) % n,
                                 .mask = i % 5 ? NULL : mask,
                                 .top_p = shares[random_bits(&seed) % 7],
                                 .min_p = random_bits(&seed) % 2 ? shares[random_bits(&seed) % 7]
                                                                  : 0};
    if (o.top_k == 1) continue;
    if (!o.top_k && o.top_p >= 1 && !(o.min_p > 0)) continue; /* drawn in the order of tokens */
    bq_rng rng = bq_rng_seed(i), reference_rng = rng;
    const uint32_t expected = pick_of_sorted(large_logits, n, &o, &reference_rng, sorted);
    CHECK_EQ(bq_sample(large_logits, n, NULL, 0, &o, &rng, scratch), expected);
  }
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
      {.temperature = 1, .top_p = 1},
      {.temperature = 0.7f, .top_p = 1},
      {.temperature = 1, .top_k = 5, .top_p = 1},
      {.temperature = 1, .top_p = 0.8f},
      {.temperature = 1.3f, .top_k = 20, .top_p = 0.9f},
      {.temperature = 1, .min_p = 0.2f, .top_p = 1},
      {.temperature = 1, .top_k = 30, .top_p = 0.95f, .min_p = 0.1f},
      {.temperature = 2, .top_k = 1000, .top_p = 1},
      {.temperature = 2, .top_p = 0},
      {.temperature = 2, .top_p = 1e-30f, .min_p = 0.5f},
      {.temperature = 2, .top_k = 9, .top_p = 0},
      {.temperature = INFINITY, .top_k = 12, .top_p = 1},
  };
  for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
    check_distribution(l, 40, chains[i], 100 + i);
}

static void test_top_p_keeps_the_token_that_crosses(void) {
  /* Weights 8 : 4 : 2 : 1 …: top_p 0.5 keeps the first only, 0.6 the first two. */
  float l[5];
  for (int i = 0; i < 5; i++) l[i] = (float)(log(2.0) * (4 - i));
  pair p[8];
  CHECK_EQ(sorted_chain(l, 5, &(bq_sample_options){.temperature = 1, .top_p = 0.5f}, p), 1);
  bq_rng rng = bq_rng_seed(3);
  int second_token = 0;
  for (int i = 0; i < 400; i++) {
    CHECK_EQ(bq_sample(l, 5, NULL, 0, &(bq_sample_options){.temperature = 1, .top_p = 0.5f}, &rng,
                       scratch),
             0);
    uint32_t id = bq_sample(l, 5, NULL, 0, &(bq_sample_options){.temperature = 1, .top_p = 0.6f},
                            &rng, scratch);
    CHECK(id < 2);
    second_token += id == 1;
  }
  CHECK(second_token > 50);
}

static void test_repetition_penalty(void) {
  const uint32_t recent[] = {1, 1, 3, 5};
  bq_rng rng = bq_rng_seed(0);
  bq_sample_options o = {.repeat_penalty = 2};
  /* 2.0 / 2 = 1.0 for tokens 1 and 3 (once, though token 1 occurs twice), so 1.5 is the maximum. */
  CHECK_EQ(bq_sample(logits, V, recent, 4, &o, &rng, scratch), 4);
  o.repeat_penalty = 1.2f; /* 2 / 1.2 = 1.67 is the maximum; penalized twice, it is not. */
  CHECK_EQ(bq_sample(logits, V, recent, 4, &o, &rng, scratch), 1);
  const float negative[2] = {-1.0f, -1.5f};
  const uint32_t recent_token[] = {0};
  o.repeat_penalty = 2; /* negative logits are multiplied */
  CHECK_EQ(bq_sample(negative, 2, recent_token, 1, &o, &rng, scratch), 1);
}

/* Every token of a window as long as the text is penalized once, also if it occurs many times, and
 * with a mask. */
static void test_repetition_penalty_of_long_windows(void) {
  enum { VOCAB = 700, RECENT = 5000 };
  static float original[VOCAB], adjusted[VOCAB];
  static uint32_t recent[RECENT];
  uint32_t mask[(VOCAB + 31) / 32];
  uint64_t seed = 5;
  for (uint32_t round = 0; round < 60; round++) {
    const uint32_t distinct = 1 + (uint32_t)random_bits(&seed) % VOCAB;
    const size_t n = (size_t)(random_bits(&seed) % (RECENT + 1));
    bool recently_used[VOCAB] = {false};
    for (size_t i = 0; i < sizeof mask / sizeof *mask; i++)
      mask[i] = round % 2 ? (uint32_t)random_bits(&seed) : UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
      recent[i] = (uint32_t)random_bits(&seed) % distinct;
      recently_used[recent[i]] = true;
    }
    bq_sample_options o = {.temperature = (float)(round % 3),
                           .top_k = round % 5 ? 40 : 0,
                           .top_p = 0.95f,
                           .repeat_penalty = 1.7f,
                           .mask = mask};
    for (uint32_t i = 0; i < VOCAB; i++) {
      original[i] = adjusted[i] = 4 * random_float(&seed);
      if (recently_used[i]) adjusted[i] = original[i] > 0 ? original[i] / 1.7f : original[i] * 1.7f;
    }
    bq_rng a = bq_rng_seed(round), b = a;
    const uint32_t actual = bq_sample(original, VOCAB, recent, n, &o, &a, scratch);
    o.repeat_penalty = 1;
    CHECK_EQ(actual, bq_sample(adjusted, VOCAB, NULL, 0, &o, &b, scratch));
  }
}

/* The strictest filters keep the most probable token, with any other options. */
static void test_filters_that_keep_the_most_probable_token(void) {
  const bq_sample_options chains[] = {
      {.temperature = 1.5f, .top_p = 0},
      {.temperature = 1.5f, .top_k = 40, .top_p = 0},
      {.temperature = INFINITY, .top_p = 0},
      {.temperature = INFINITY, .top_k = 1, .top_p = 1},
      {.temperature = 1e30f, .top_k = 40, .top_p = 0, .min_p = 1},
      {.temperature = 100, .top_k = 3, .top_p = 0x1p-149f},
      {.temperature = 100, .top_p = 0x1p-149f},
      {.temperature = 100, .top_k = 1, .top_p = 1},
      {.temperature = 1e-45f, .top_p = 1},
      {.temperature = 0, .top_p = 0},
  };
  for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
    for (uint64_t seed = 0; seed < 50; seed++) {
      bq_rng rng = bq_rng_seed(seed);
      CHECK_EQ(sample(&chains[i], &rng), 1);
    }
  for (uint64_t seed = 0; seed < 50;
       seed++) { /* Tokens as probable as the most probable one are kept. */
    bq_rng rng = bq_rng_seed(seed);
    const uint32_t id =
        sample(&(bq_sample_options){.temperature = 9, .top_p = 1, .min_p = 1}, &rng);
    CHECK(id == 1 || id == 3);
  }
}

static void test_tokens_of_a_seed(void) {
  /* Computed by a separate Python script of the chain, in f64. */
  static const uint32_t expected[] = {4, 1, 1, 1, 1, 4, 1, 4, 1, 3, 1, 3};
  bq_rng rng = bq_rng_seed(42);
  bq_sample_options o = {.temperature = 0.8f, .top_k = 6, .top_p = 0.9f};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    CHECK_EQ(sample(&o, &rng), expected[i]);
}

static void test_one_token_vocabulary(void) {
  bq_rng rng = bq_rng_seed(9);
  CHECK_EQ(bq_sample(logits, 1, NULL, 0, &(bq_sample_options){.temperature = 1, .top_p = 0.1f},
                     &rng, scratch),
           0);
  CHECK_EQ(bq_sample(logits, 1, NULL, 0, &(bq_sample_options){.temperature = 1, .top_p = 1}, &rng,
                     scratch),
           0);
}

/* --- mask, bias, NaN -------------------------------------------------------------------------- */

enum { MAX_VOCAB = 500 };

/* Sets the bits of allowed tokens, and the bits after the end of the vocabulary, which the sampler
 * ignores. */
static void make_mask(uint32_t *mask, uint32_t vocab, const bool *allowed) {
  for (uint32_t i = 0; i < (vocab + 31) / 32 * 32; i++) {
    if (i % 32 == 0) mask[i / 32] = 0;
    mask[i / 32] |= (uint32_t)(i >= vocab || allowed[i]) << i % 32;
  }
}

static void test_mask(void) {
  bool allowed[V] = {true, false, true, true, false, true, true, true};
  uint32_t mask[1];
  make_mask(mask, V, allowed);
  bq_sample_options o = {.mask = mask};
  CHECK_EQ(sample(&o, NULL), 3);
  allowed[3] = false;
  make_mask(mask, V, allowed);
  CHECK_EQ(sample(&o, NULL), 7);
  o.repeat_penalty = 1000; /* a recent token that is masked, and one that is allowed */
  CHECK_EQ(bq_sample(logits, V, (uint32_t[]){3, 7}, 2, &o, NULL, scratch), 0);
  memset(allowed, 0, sizeof allowed);
  make_mask(mask, V, allowed);
  for (int i = 0; i < 4; i++) {
    bq_rng rng = bq_rng_seed(1);
    o = (bq_sample_options){
        .mask = mask, .temperature = (float)(i % 2), .top_k = (uint32_t)i / 2, .top_p = 1};
    CHECK_EQ(sample(&o, &rng), BQ_TOKEN_NONE);
    CHECK_EQ(rng.state, 1);
  }
}

static void test_bias(void) {
  bq_logit_bias bias[] = {{7, 1.5f}, {1, -1.0f}, {3, -0.5f}, {7, 1.0f}};
  bq_sample_options o = {.bias = bias, .n_bias = 1};
  CHECK_EQ(sample(&o, NULL), 7); /* 2.5 */
  o.n_bias = 0;
  CHECK_EQ(sample(&o, NULL), 1);
  o.n_bias = 3;
  bias[0].bias = 0.75f;
  CHECK_EQ(sample(&o, NULL), 7); /* 1.75, more than 1.0 and 1.5 */
  bias[0].bias = -0.6f;
  CHECK_EQ(sample(&o, NULL), 3); /* 1.5; token 3 is the lower one of the tie */
  o.n_bias = 4;                  /* Both biases of token 7 are added: 1 - 0.6 + 1. */
  CHECK_EQ(sample(&o, NULL), 3);
  bias[3].bias = 1.2f;
  CHECK_EQ(sample(&o, NULL), 7);
  for (uint32_t id = 0; id < V; id++) { /* All other tokens have a bias of -infinity. */
    bq_logit_bias biases[V];
    for (uint32_t i = 0; i < V; i++) biases[i] = (bq_logit_bias){i, i == id ? -1e30f : -INFINITY};
    bq_rng rng = bq_rng_seed(id);
    o = (bq_sample_options){
        .bias = biases, .n_bias = V, .temperature = (float)(id % 3), .top_p = id % 2 ? 0.9f : 1};
    CHECK_EQ(sample(&o, &rng), id);
    biases[id].bias = -INFINITY;
    CHECK_EQ(sample(&o, &rng), BQ_TOKEN_NONE);
  }
}

/* A mask and a bias select the same tokens as logits that are adjusted by them: -infinity and the
 * sum. */
static void test_mask_and_bias_equal_changed_logits(void) {
  static float original[MAX_VOCAB], adjusted[MAX_VOCAB];
  static bool allowed[MAX_VOCAB];
  uint32_t mask[(MAX_VOCAB + 31) / 32], recent[40];
  bq_logit_bias bias[30];
  uint64_t seed = 77;
  for (uint32_t round = 0; round < 400; round++) {
    const uint32_t vocab = 1 + (uint32_t)random_bits(&seed) % MAX_VOCAB, sparse = round % 4;
    for (uint32_t i = 0; i < vocab; i++) {
      original[i] = 4 * random_float(&seed);
      allowed[i] = sparse == 0 || random_bits(&seed) % (sparse * 30) == 0;
    }
    make_mask(mask, vocab, allowed);
    memcpy(adjusted, original, sizeof original);
    for (size_t i = 0; i < 30; i++) {
      bias[i] = (bq_logit_bias){(uint32_t)random_bits(&seed) % vocab,
                                i % 5 ? 3 * random_float(&seed) : -INFINITY};
      adjusted[bias[i].id] += bias[i].bias;
    }
    for (uint32_t i = 0; i < vocab; i++)
      if (!allowed[i]) adjusted[i] = -INFINITY;
    for (size_t i = 0; i < 40; i++) recent[i] = (uint32_t)random_bits(&seed) % vocab;
    bq_sample_options o = {.temperature = (float)(round % 3),
                           .top_k = round % 5 * 4,
                           .top_p = round % 7 ? 1 : 0.9f,
                           .repeat_penalty = round % 2 ? 1.3f : 0};
    bq_rng a = bq_rng_seed(round), b = a;
    uint32_t expected = bq_sample(adjusted, vocab, recent, 40, &o, &a, scratch);
    o.mask = mask;
    o.bias = bias;
    o.n_bias = 30;
    CHECK_EQ(bq_sample(original, vocab, recent, 40, &o, &b, scratch), expected);
    CHECK_EQ(a.state, b.state);
    CHECK(expected == BQ_TOKEN_NONE || adjusted[expected] > -INFINITY);
  }
}

/* Logits overflow if they are divided by such a temperature; sampling is greedy. */
static void test_lowest_temperatures(void) {
  const float negative[] = {-3, -2, -2, -5};
  const float temperatures[] = {0x1p-127f, 1e-39f, 1e-45f};
  for (size_t i = 0; i < sizeof temperatures / sizeof *temperatures; i++)
    for (uint32_t top_k = 0; top_k < 4; top_k += 3) {
      bq_rng rng = bq_rng_seed(i);
      bq_sample_options o = {.temperature = temperatures[i], .top_k = top_k, .top_p = 1};
      CHECK_EQ(sample(&o, &rng), 1);
      CHECK_EQ(bq_sample(negative, 4, NULL, 0, &o, &rng, scratch), 1);
    }
}

static void test_nan_and_infinite_logits(void) {
  const float with_nan[] = {NAN, -INFINITY, 1, NAN, 2, -INFINITY};
  const float without_numbers[] = {NAN, -INFINITY, NAN};
  const float with_infinities[] = {5, NAN, INFINITY, INFINITY, -INFINITY};
  const bq_sample_options chains[] = {{0},
                                      {.temperature = 1, .top_p = 1},
                                      {.temperature = 1, .top_k = 3, .top_p = 1},
                                      {.temperature = 1, .top_p = 0.99f},
                                      {.repeat_penalty = 2},
                                      {.temperature = INFINITY, .top_p = 1},
                                      {.temperature = 1e-45f, .top_p = 1}};
  for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
    for (uint32_t round = 0; round < 50; round++) {
      bq_rng rng = bq_rng_seed(round);
      uint32_t id = bq_sample(with_nan, 6, (uint32_t[]){0, 1}, 2, &chains[i], &rng, scratch);
      CHECK(id == 2 || id == 4);
      CHECK_EQ(bq_sample(without_numbers, 3, NULL, 0, &chains[i], &rng, scratch), BQ_TOKEN_NONE);
      CHECK_EQ(bq_sample(with_infinities, 5, NULL, 0, &chains[i], &rng, scratch), 2);
    }
}

int main(void) {
  scratch = malloc(4096 * sizeof *scratch);
  if (!scratch) return 1;
  RUN(test_greedy_ties_select_the_lowest_token);
  RUN(test_greedy_choice_of_large_vocabularies);
  RUN(test_top_k_1_is_greedy);
  RUN(test_rng_is_splitmix64);
  RUN(test_filters_over_many_tokens);
  RUN(test_distributions);
  RUN(test_top_p_keeps_the_token_that_crosses);
  RUN(test_repetition_penalty);
  RUN(test_repetition_penalty_of_long_windows);
  RUN(test_filters_that_keep_the_most_probable_token);
  RUN(test_tokens_of_a_seed);
  RUN(test_one_token_vocabulary);
  RUN(test_mask);
  RUN(test_bias);
  RUN(test_mask_and_bias_equal_changed_logits);
  RUN(test_lowest_temperatures);
  RUN(test_nan_and_infinite_logits);
  free(scratch);
  return check_summary();
}
