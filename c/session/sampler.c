/* The chain of filters, in this order: mask, bias, repetition penalty, temperature, top-k, top-p,
 * min-p, one draw. Candidates are ordered by value, ties by the lower id, and sums run in that
 * order in f64, so a seed gives the same tokens everywhere.
 *
 * Random numbers: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
 * OOPSLA 2014); a draw is the top 53 bits of one output, as a fraction. */
#include "session/sampler.h"

#include <float.h>

#include "core/fmath.h"
#include "core/minmax.h"
#include "session/outputs.h"

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

bq_rng bq_rng_seed(uint64_t seed) { return (bq_rng){seed}; }

static double draw(bq_rng *rng) {
  rng->state += 0x9e3779b97f4a7c15u;
  return (double)(mix(rng->state) >> 11) * 0x1p-53;
}

static bool after(bq_candidate a, bq_candidate b) { return bq_candidate_before(b, a); }

typedef bool order(bq_candidate a, bq_candidate b);

/* Sifts c[i] down in a heap of n whose root comes first in `first`. */
static void sift_down(order *first, bq_candidate *c, size_t n, size_t i) {
  bq_candidate moving = c[i];
  for (size_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && first(c[child + 1], c[child])) child++;
    if (!first(c[child], moving)) break;
    c[i] = c[child];
  }
  c[i] = moving;
}

/* Makes the candidates a heap. Popping moves the root to right after the heap's end. */
static void heapify(order *first, bq_candidate *c, size_t n) {
  for (size_t i = n / 2; i-- > 0;) sift_down(first, c, n, i);
}

static bq_candidate pop(order *first, bq_candidate *c, size_t *n) {
  bq_candidate root = c[0];
  c[0] = c[--*n];
  if (*n) sift_down(first, c, *n, 0);
  c[*n] = root;
  return root;
}

/* c[0...k-1] = the best k of n, best first. Few of the others come before the worst of the best k.
 */
static void keep_best(bq_candidate *c, size_t n, size_t k) {
  heapify(after, c, k);
  for (size_t i = k; i < n; i++) {
    if (!(c[i].value > c[0].value)) continue; /* ids rise, so equal values come after */
    c[0] = c[i];
    sift_down(after, c, k, 0);
  }
  while (k) pop(after, c, &k);
}

/* Whether a logit may be picked: it is neither banned (-infinity) nor NaN. */
static bool possible(float logit) { return logit >= -FLT_MAX; }

/* Collects all tokens, ids rising; returns false if some may not be picked. */
static bool collect_all(const float *logits, uint32_t vocab, bq_candidate *c) {
  uint32_t impossible = 0;
  for (uint32_t id = 0; id < vocab; id++) {
    c[id] = (bq_candidate){logits[id], id};
    impossible |= !possible(logits[id]);
  }
  return !impossible;
}

/* Collects the tokens that may be picked, ids rising; returns how many. */
static uint32_t collect(const float *logits, uint32_t vocab, const uint32_t *mask,
                        bq_candidate *c) {
  if (!mask && collect_all(logits, vocab, c)) return vocab;
  uint32_t n = 0;
  for (uint32_t id = 0; id < vocab; id++) {
    c[n] = (bq_candidate){logits[id], id};
    n += possible(logits[id]) && (!mask || mask[id / 32] >> id % 32 & 1);
  }
  return n;
}

/* Marks a candidate's id while penalties are applied. Vocabularies are smaller (config.c). */
static const uint32_t PENALIZED = 1u << 31;

static uint32_t id_of(const bq_candidate *c) {
  return c->id & ~PENALIZED;
}

/* Finds the candidate of a token among n whose ids rise; NULL if it isn't one. */
static bq_candidate *find(bq_candidate *c, uint32_t n, uint32_t id) {
  if (id < n && id_of(&c[id]) == id) return &c[id]; /* no id before it is missing */
  uint32_t low = 0, high = n < id ? n : id; /* an id is never at an index above itself */
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (id_of(&c[middle]) < id)
      low = middle + 1;
    else high = middle;
  }
  return low < n && id_of(&c[low]) == id ? &c[low] : NULL;
}

/* Returns how many candidates remain. */
static uint32_t add_bias(bq_candidate *c, uint32_t n, const bq_logit_bias *bias, size_t n_bias) {
  for (size_t i = 0; i < n_bias; i++) {
    bq_candidate *of = find(c, n, bias[i].id);
    if (of) of->value += bias[i].bias;
  }
  uint32_t left = 0;
  for (uint32_t i = 0; i < n; i++) {
    c[left] = c[i];
    left += possible(c[i].value);
  }
  return left;
}

/* Penalizes each recent token once, however often it occurs. */
static void penalize(bq_candidate *c, uint32_t n, const uint32_t *recent, size_t n_recent,
                     float penalty) {
  for (size_t i = 0; i < n_recent; i++) {
    bq_candidate *of = find(c, n, recent[i]);
    if (!of || (of->id & PENALIZED)) continue;
    of->value = of->value > 0 ? of->value / penalty : of->value * penalty;
    of->id |= PENALIZED;
  }
  for (uint32_t i = 0; i < n; i++) c[i].id = id_of(&c[i]);
}

/* The index of the largest value; among equal ones the lowest id. */
static uint32_t greedy(const bq_candidate *c, uint32_t n) {
  uint32_t best = 0;
  float max = c[0].value;
  for (uint32_t i = 1; i < n; i++)
    if (c[i].value > max) {
      best = i;
      max = c[i].value;
    }
  return best;
}

/* Greedy sampling without candidates; BQ_TOKEN_NONE if no token may be picked. Few logits beat the
 * best so far, so whole runs are compared first, which compilers vectorize. */
static uint32_t greedy_over_logits(const float *logits, uint32_t vocab) {
  enum { RUN = 64 };
  uint32_t best = 0, i = 0;
  while (best < vocab && !possible(logits[best])) best++;
  if (best == vocab) return BQ_TOKEN_NONE;
  for (; i + RUN <= vocab; i += RUN) {
    const float most = logits[best];
    uint32_t better = 0;
    for (uint32_t j = 0; j < RUN; j++) better |= logits[i + j] > most;
    for (uint32_t j = 0; better && j < RUN; j++)
      if (logits[i + j] > logits[best]) best = i + j;
  }
  for (; i < vocab; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

enum { BINADES = 128 }; /* exponents of weights, which are 0 or 2^-126 to 1 */

/* The weights of candidates: their sum, and the sum of those in each binade. */
typedef struct weights {
  double total, of_binade[BINADES];
} weights;

static uint32_t binade_of(float weight) { return bq_bits_of(weight) >> 23; }

/* Replaces values by weights exp(v / temperature - max); returns their sum. `w`: NULL, or gets the
 * sums. */
static double weigh(bq_candidate *c, size_t n, float temperature, float max, weights *w) {
  enum { RUN = 256 };
  float x[RUN];
  double sum = 0;
  for (size_t i = 0; i < n; i += RUN) {
    const size_t run = n - i < RUN ? n - i : RUN;
    for (size_t j = 0; j < run; j++) x[j] = c[i + j].value;
    bq_softmax_weights(x, run, temperature, max);
    for (size_t j = 0; j < run; j++) {
      c[i + j].value = x[j];
      sum += (double)x[j];
    }
    for (size_t j = 0; w && j < run; j++) w->of_binade[binade_of(x[j])] += (double)x[j];
  }
  if (w) w->total = sum;
  return sum;
}

/* The least binade such that top-p chooses among the candidates from there on. */
static uint32_t least_binade(const weights *w, double top_p) {
  /* More than the sums can be off: 2^-53 for each of up to 2^24 candidates. */
  const double enough = top_p * w->total * (1 + 1e-8);
  double sum = 0;
  uint32_t binade = BINADES;
  while (binade > 0 && sum < enough) sum += w->of_binade[--binade];
  return binade;
}

/* Moves the candidates that weigh at least `least` and are in binade `binade` or above to the
 * front; returns how many. */
static size_t keep_heavy(bq_candidate *c, size_t n, float least, uint32_t binade) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    c[kept] = c[i];
    kept += c[i].value >= least && binade_of(c[i].value) >= binade;
  }
  return kept;
}

/* Draws one of n candidates whose weights sum to `sum`, from c[0] on in steps of `step` (1 or -1).
 */
static uint32_t pick(const bq_candidate *c, size_t n, ptrdiff_t step, double sum, bq_rng *rng) {
  double left = draw(rng) * sum;
  for (size_t i = 0; i + 1 < n; i++, c += step) {
    left -= (double)c->value;
    if (left < 0) break;
  }
  return c->id;
}

/* Top-k, top-p and min-p among n candidates. Candidate i, best first, is at first[step * i];
 * without top-k only after it was popped. */
static uint32_t pick_among_best(bq_candidate *c, uint32_t n, const bq_sample_options *o, float max,
                                bq_rng *rng) {
  const bool top_k = o->top_k && o->top_k < n;
  /* 2: everything, since sums are rounded */
  const double top_p = o->top_p < 1 ? (double)o->top_p : 2;
  size_t limit = n;
  double total = 0, sum = 0;
  if (top_k) {
    limit = o->top_k;
    /* before candidates are compared: rounded quotients may tie */
    for (uint32_t i = 0; i < n; i++) c[i].value = c[i].value / o->temperature;
    keep_best(c, n, limit);
    total = weigh(c, limit, 1, max, NULL);
  } else {
    weights w = {0};
    total = weigh(c, n, o->temperature, max, &w);
    limit = keep_heavy(c, n, o->min_p, top_p < 1 ? least_binade(&w, top_p) : 0);
    heapify(bq_candidate_before, c, limit);
  }
  bq_candidate *first = top_k ? c : c + limit - 1;
  const ptrdiff_t step = top_k ? 1 : -1;
  size_t heap = limit;
  size_t kept = 0;
  for (; kept < limit && sum < top_p * total; kept++) {
    float weight = top_k ? c[kept].value : pop(bq_candidate_before, c, &heap).value;
    if (kept && weight < o->min_p) break; /* relative to the best, whose weight is 1 */
    sum += (double)weight;
  }
  return pick(first, kept, step, sum, rng);
}

uint32_t bq_sample(const float *logits, uint32_t vocab, const uint32_t *recent, size_t n_recent,
                   const bq_sample_options *o, bq_rng *rng, bq_candidate *c) {
  const bool penalty = o->repeat_penalty > 0 && o->repeat_penalty != 1;
  const bool cold = !(o->temperature > 0);
  if (cold && !penalty && !o->mask && !o->n_bias) return greedy_over_logits(logits, vocab);
  uint32_t n = collect(logits, vocab, o->mask, c);
  if (o->n_bias) n = add_bias(c, n, o->bias, o->n_bias);
  if (!n) return BQ_TOKEN_NONE;
  if (penalty) penalize(c, n, recent, n_recent, o->repeat_penalty);
  const uint32_t best = greedy(c, n), best_id = c[best].id;
  if (cold) return best_id;
  if (o->top_k == 1 || o->top_p == 0) { /* whatever the temperature */
    draw(rng);
    return best_id;
  }

  const float max = c[best].value / o->temperature;
  /* The temperature is so low, or a logit so high, that differences can't be weighted. */
  if (!(max >= -FLT_MAX && max <= FLT_MAX)) return best_id;
  if (!o->top_k && !(o->top_p < 1) && !(o->min_p > 0))
    return pick(c, n, 1, weigh(c, n, o->temperature, max, NULL), rng);
  return pick_among_best(c, n, o, max, rng);
}

/* --- the last token of a session ----------------------------------------------------------------
 */

/* Whether 0 <= x <= most; false for NaN. */
static bool within(float x, float most) { return x >= 0 && x <= most; }

static bq_status check_sampling(const bq_sample_options *o, uint32_t vocab, bq_error *err) {
  const char *wrong = !within(o->temperature, __builtin_inff()) ? "temperature"
                      : !within(o->top_p, 1)                    ? "top_p"
                      : !within(o->min_p, 1)                    ? "min_p"
                      : !within(o->repeat_penalty, FLT_MAX)     ? "repeat_penalty"
                                                                : NULL;
  if (wrong) return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "%s is out of its range", wrong);
  for (size_t i = 0; i < o->n_bias; i++)
    if (o->bias[i].id >= vocab)
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "there is no token %u to be biased, the vocabulary has %u", o->bias[i].id,
                     vocab);
  return BQ_OK;
}

bq_status bq_session_sample(bq_session *s, const bq_sample_options *options, bq_rng *rng,
                            uint32_t *token, bq_error *err) {
  float *logits = bq_last_logits(s);
  if (!logits)
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "no logits to sample from: run the session first");
  const bq_sample_options o = options ? *options : (bq_sample_options){0};
  const uint32_t vocab = s->model->config.vocab;
  bq_status status = check_sampling(&o, vocab, err);
  if (status != BQ_OK) return status;
  bq_mark(s, BQ_STAGE_HOST, 0);
  if (o.hook.change) o.hook.change(o.hook.ctx, logits, vocab);
  uint32_t last = bq_min32(o.repeat_last, s->sequence.n_tokens);
  uint32_t picked = bq_sample(logits, vocab, s->sequence.tokens + s->sequence.n_tokens - last, last,
                              &o, rng, s->outputs.candidates);
  bq_mark(s, BQ_STAGE_SAMPLE, 0);
  if (picked == BQ_TOKEN_NONE)
    return bq_fail(err, BQ_NO_TOKEN, BQ_NO_OFFSET,
                   "none of %u tokens may be picked: %s", vocab,
                   o.mask || o.n_bias || o.hook.change ? "mask, bias or hook forbid them all"
                                                       : "no logit is a number");
  *token = picked;
  return BQ_OK;
}
