/* The chain of filters, in the order that bq_sample_options (bq.h) gives, and one draw. Candidates
 * are ordered by value, ties by the lower id, and sums run in that order in f64, so a seed gives
 * the same tokens everywhere.
 *
 * Random numbers: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
 * generators", OOPSLA 2014); a draw is the top 53 bits of one output, as a fraction. */
#include "session/sampler.h"

#include <float.h>
#include <string.h>

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

static bool comes_after(bq_candidate a, bq_candidate b) { return bq_candidate_before(b, a); }

typedef bool order(bq_candidate a, bq_candidate b);

/* Sifts c[i] down in a heap of n, whose root is the first by the order `first`. */
static void sift_down(order *first, bq_candidate *c, size_t n, size_t i) {
  bq_candidate moving = c[i];
  for (size_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && first(c[child + 1], c[child])) child++;
    if (!first(c[child], moving)) break;
    c[i] = c[child];
  }
  c[i] = moving;
}

/* Makes the candidates a heap. pop moves the root to the position directly after the heap. */
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

/* Whether a logit may be picked: it is neither banned (-infinity) nor NaN. */
static bool is_allowed(float logit) { return logit >= -FLT_MAX; }

static const uint32_t BANNED = 0xff800000u; /* the bits of -infinity */

/* Copies the logits and changes the copy: mask, bias, penalty. The copy is in the second half of
 * the scratch. Candidates are collected from it by rising id, so they overwrite only logits that
 * have been read. */
static float *change_logits(const float *logits, uint32_t vocab, const uint32_t *recent,
                            size_t n_recent, const bq_sample_options *o, bq_candidate *scratch) {
  uint32_t *penalized = (uint32_t *)scratch; /* a bit for each token */
  float *changed = (float *)scratch + vocab;
  memcpy(changed, logits, vocab * sizeof *changed);
  for (uint32_t id = 0; o->mask && id < vocab; id++) { /* no branches: bits are random */
    const uint32_t keep = 0 - (o->mask[id / 32] >> id % 32 & 1);
    changed[id] = bq_float_of((bq_bits_of(changed[id]) & keep) | (BANNED & ~keep));
  }
  for (size_t i = 0; i < o->n_bias; i++) changed[o->bias[i].id] += o->bias[i].bias;
  memset(penalized, 0, (vocab + 31) / 32 * sizeof *penalized);
  for (size_t i = 0; i < n_recent; i++) { /* each token once, however often it occurs */
    const uint32_t id = recent[i], bit = 1u << id % 32;
    if (penalized[id / 32] & bit || !is_allowed(changed[id])) continue;
    penalized[id / 32] |= bit;
    const float x = changed[id];
    const float lower = x > 0 ? x / o->repeat_penalty : x * o->repeat_penalty;
    changed[id] = is_allowed(lower) ? lower : -FLT_MAX; /* a penalty doesn't ban a token */
  }
  return changed;
}

/* The logits from which a token is picked, and the temperature. */
typedef struct distribution {
  const float *logits; /* [vocab], changed */
  uint32_t vocab;
  float temperature;
  float max; /* the largest logit / temperature */
} distribution;

enum { RUN = 256 }; /* number of logits that are processed at once */

/* Logits of RUN tokens from i on; those after the end of the vocabulary are banned. */
static const float *run_at(const distribution *d, uint32_t i, float padded[RUN]) {
  if (d->vocab - i >= RUN) return d->logits + i;
  for (uint32_t j = 0; j < RUN; j++)
    padded[j] = j < d->vocab - i ? d->logits[i + j] : bq_float_of(BANNED);
  return padded;
}

static float max_logit(const distribution *d) {
  float max = bq_float_of(BANNED), padded[RUN];
  for (uint32_t i = 0; i < d->vocab; i += RUN) {
    const float next = bq_largest(run_at(d, i, padded), RUN);
    if (next > max) max = next;
  }
  return max;
}

/* The lowest id with this logit, which must occur. */
static uint32_t find_logit(const float *logits, float logit) {
  uint32_t id = 0;
  while (!(logits[id] == logit)) id++;
  return id;
}

static bool has_more_than(const distribution *d, uint32_t k) {
  uint32_t n = 0;
  for (uint32_t id = 0; id < d->vocab && n <= k; id++) n += is_allowed(d->logits[id]);
  return n > k;
}

/* A logit below which the weight of tokens is less than exp(log), in spite of rounding. */
static float min_logit(const distribution *d, float log) {
  const float min_weight = (d->max + (log - 0.01f)) * d->temperature;
  return min_weight / d->temperature - d->max <= log ? min_weight : -FLT_MAX;
}

/* Collects the tokens with a weight of at least `min_weight`, by rising id, and returns their
 * number. The weight of a token is exp(logit / temperature - max). *total (may be NULL): the sum of
 * all weights, in the order of ids. */
static uint32_t collect(const distribution *d, float min_weight, bq_candidate *c, double *total) {
  const float min_collected = min_logit(d, (float)bq_log((double)min_weight) - 1e-4f);
  const float min_needed = total ? min_logit(d, BQ_EXP_MIN - 0.1f) : min_collected;
  float padded[RUN], weights[RUN];
  double sum = 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->vocab; i += RUN) {
    const float *run = run_at(d, i, padded);
    const float max = bq_largest(run, RUN);
    if (max < min_needed) continue;
    sum = bq_softmax_weights(weights, run, RUN, d->temperature, d->max, sum);
    for (uint32_t j = 0; max >= min_collected && j < RUN; j++)
      if (weights[j] >= min_weight) c[n++] = (bq_candidate){weights[j], i + j};
  }
  if (total) *total = sum;
  return n;
}

/* For temperature alone: draws one of all tokens, in the order of ids. */
static uint32_t pick_from_all(const distribution *d, bq_rng *rng) {
  float padded[RUN], weights[RUN];
  double left;
  uint32_t last = 0;
  collect(d, 2, NULL, &left);
  left *= draw(rng);
  for (uint32_t i = 0; i < d->vocab; i += RUN) {
    bq_softmax_weights(weights, run_at(d, i, padded), RUN, d->temperature, d->max, 0);
    for (uint32_t j = 0; j < RUN; j++) {
      if (!(weights[j] > 0)) continue;
      last = i + j;
      left -= (double)weights[j];
      if (left < 0) return last;
    }
  }
  return last;
}

/* Writes the best k tokens to c[0...k-1], best first, with their weights; returns the sum of the
 * weights. A heap has the best k tokens so far; few later tokens are better than its worst. */
static double collect_best(const distribution *d, uint32_t k, bq_candidate *c) {
  float run[RUN];
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->vocab; i += RUN) {
    const float *logits = run_at(d, i, run);
    if (n == k && !(bq_largest(logits, RUN) / d->temperature > c[0].value)) continue;
    for (uint32_t j = 0; j < RUN; j++) {
      /* Logits are divided before they are compared, because rounded quotients may be equal. */
      const bq_candidate next = {logits[j] / d->temperature, i + j};
      if (n < k) {
        if (!is_allowed(logits[j])) continue;
        c[n++] = next;
        if (n == k) heapify(comes_after, c, k);
      } else if (next.value > c[0].value) { /* of equal values, the lower id is already there */
        c[0] = next;
        sift_down(comes_after, c, k, 0);
      }
    }
  }
  for (size_t left = k; left;) pop(comes_after, c, &left);
  double total = 0;
  for (uint32_t i = 0; i < k; i += RUN) {
    const uint32_t end = bq_min32(RUN, k - i);
    for (uint32_t j = 0; j < RUN; j++) run[j] = j < end ? c[i + j].value : bq_float_of(BANNED);
    total = bq_softmax_weights(run, run, RUN, 1, d->max, total);
    for (uint32_t j = 0; j < end; j++) c[i + j].value = run[j];
  }
  return total;
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

/* For top-p and min-p: collects all tokens that they may keep, then pops the best ones until their
 * sum is enough, and draws one of these. */
static uint32_t pick_by_weight(const distribution *d, const bq_sample_options *o, bq_candidate *c,
                               bq_rng *rng) {
  const double top_p = (double)o->top_p;
  const bool share = top_p < 1; /* top_p 1 keeps all tokens, although sums are rounded */
  /* Tokens with a weight below `unneeded` times the total are together at most half of the share
   * that top-p excludes. The other half is larger than the rounding error of sums: 2^-53 for each
   * of up to 2^24 tokens. The total is at least 1, the best token's weight. */
  const double unneeded = share ? (1 - top_p) / 2 / d->vocab : 0;
  float min_weight = 0x1p-126f; /* the smallest weight except 0 */
  if (min_weight < (float)unneeded) min_weight = (float)unneeded;
  if (min_weight < o->min_p) min_weight = o->min_p;
  double total = 0, sum = 0;
  const uint32_t n = collect(d, min_weight, c, share ? &total : NULL);
  size_t heap = 0;
  for (uint32_t i = 0; i < n; i++) {
    c[heap] = c[i];
    heap += (double)c[i].value >= unneeded * total;
  }
  /* pop stores the best token here, and the next ones before it */
  bq_candidate *last = c + heap - 1;
  size_t kept = 0;
  heapify(bq_candidate_before, c, heap);
  while (heap && !(share && sum >= top_p * total)) {
    sum += (double)pop(bq_candidate_before, c, &heap).value;
    kept++;
  }
  return pick(last, kept, -1, sum, rng);
}

/* For top-k: top-p and min-p are applied to the best k tokens. */
static uint32_t pick_from_best(const distribution *d, const bq_sample_options *o, bq_candidate *c,
                               bq_rng *rng) {
  const double top_p = o->top_p < 1 ? (double)o->top_p : 2; /* 2: everything */
  const double enough = top_p * collect_best(d, o->top_k, c);
  double sum = 0;
  uint32_t kept = 0;
  for (; kept < o->top_k && sum < enough; kept++) {
    if (kept && c[kept].value < o->min_p) break; /* relative to the best, whose weight is 1 */
    sum += (double)c[kept].value;
  }
  return pick(c, kept, 1, sum, rng);
}

uint32_t bq_sample(const float *logits, uint32_t vocab, const uint32_t *recent, size_t n_recent,
                   const bq_sample_options *o, bq_rng *rng, bq_candidate *c) {
  if (!(o->repeat_penalty > 0 && o->repeat_penalty != 1)) n_recent = 0;
  if (o->mask || o->n_bias || n_recent)
    logits = change_logits(logits, vocab, recent, n_recent, o, c);
  distribution d = {logits, vocab, o->temperature, 0};
  const float max = max_logit(&d);
  if (!is_allowed(max)) return BQ_TOKEN_NONE;
  const uint32_t best = find_logit(logits, max);
  if (!(o->temperature > 0)) return best;
  if (o->top_k == 1 || o->top_p == 0) { /* greedy at every temperature, but with a draw */
    draw(rng);
    return best;
  }

  d.max = max / o->temperature;
  /* The temperature is so low, or a logit so high, that the quotient is infinite. */
  if (!(d.max >= -FLT_MAX && d.max <= FLT_MAX)) return best;
  if (o->top_k && has_more_than(&d, o->top_k)) return pick_from_best(&d, o, c, rng);
  if (!o->top_k && !(o->top_p < 1) && !(o->min_p > 0)) return pick_from_all(&d, rng);
  return pick_by_weight(&d, o, c, rng);
}

/* --- the last token of a session -------------------------------------------------------------- */

/* Whether 0 <= x <= max; false for NaN. */
static bool is_within(float x, float max) { return x >= 0 && x <= max; }

static bq_status check_sampling(const bq_sample_options *o, uint32_t vocab, bq_error *err) {
  const char *bad_option = !is_within(o->temperature, __builtin_inff()) ? "temperature"
                           : !is_within(o->top_p, 1)                    ? "top_p"
                           : !is_within(o->min_p, 1)                    ? "min_p"
                           : !is_within(o->repeat_penalty, FLT_MAX)     ? "repeat_penalty"
                                                                        : NULL;
  if (bad_option)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "%s is out of its range", bad_option);
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
