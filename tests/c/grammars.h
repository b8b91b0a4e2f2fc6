/* Compiled grammars built in C, for tests; the product gets them from js/text/grammar.
 *
 *   grammars d = {0};
 *   uint32_t rule = grammars_rule(&d, 0);            // the next state is its first one
 *   grammars_edge(&d, state of the rule, 'a', 'z', next);
 *   const uint8_t *bytes = grammars_write(&d, root, &n);
 *
 * `least` of a state, the length of its shortest text, is given by the test. */
#ifndef GRAMMARS_H
#define GRAMMARS_H

#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"

enum { GRAMMARS_MAX = 64 };

typedef struct grammars {
  uint32_t n_rules, n_states;
  bq_rule rules[GRAMMARS_MAX];
  uint32_t least[GRAMMARS_MAX], flags[GRAMMARS_MAX];
  uint32_t n_edges[GRAMMARS_MAX], n_calls[GRAMMARS_MAX];
  bq_edge edges[GRAMMARS_MAX][8];
  bq_call calls[GRAMMARS_MAX][8];
} grammars;

static inline uint32_t grammars_state(grammars *d, uint32_t least, uint32_t flags) {
  if (d->n_states == GRAMMARS_MAX) abort();
  d->least[d->n_states] = least;
  d->flags[d->n_states] = flags;
  return d->n_states++;
}

/* Adds a rule whose first state is the state that is added next. */
static inline uint32_t grammars_rule(grammars *d, bool plain) {
  d->rules[d->n_rules] = (bq_rule){d->n_states, plain};
  return d->n_rules++;
}

static inline void grammars_edge(grammars *d, uint32_t from, uint8_t low, uint8_t high,
                                 uint32_t to) {
  d->edges[from][d->n_edges[from]++] = (bq_edge){(uint32_t)(low | high << 8), to};
}

static inline void grammars_call(grammars *d, uint32_t from, uint32_t rule, uint32_t min,
                                 uint32_t max, uint32_t to) {
  d->calls[from][d->n_calls[from]++] = (bq_call){rule, min, max, to};
}

/* Adds an edge whose byte begins a character, in a rule of limited length. */
static inline void grammars_begin(grammars *d, uint32_t from, uint8_t low, uint8_t high,
                                  uint32_t to) {
  grammars_edge(d, from, low, high, to);
  d->edges[from][d->n_edges[from] - 1].range |= BQ_EDGE_BEGINS;
}

/* Writes the binary form of the grammars. The caller frees it. */
static inline uint8_t *grammars_write(const grammars *d, uint32_t root, size_t *n) {
  uint32_t edges = 0, calls = 0;
  for (uint32_t i = 0; i < d->n_states; i++) {
    edges += d->n_edges[i];
    calls += d->n_calls[i];
  }
  *n = 32 + 8 * (size_t)d->n_rules + 16 * (size_t)d->n_states + 8 * (size_t)edges +
       16 * (size_t)calls;
  uint32_t *bytes = malloc(*n), *at = bytes;
  if (!bytes) abort();
  const uint32_t head[] = {
      BQ_GRAMMAR_MAGIC, BQ_GRAMMAR_VERSION, d->n_rules, d->n_states, edges, calls, root, 0};
  memcpy(at, head, sizeof head);
  at += 8;
  memcpy(at, d->rules, d->n_rules * sizeof *d->rules);
  at += 2 * d->n_rules;
  edges = calls = 0;
  for (uint32_t i = 0; i < d->n_states; i++, at += 4) {
    const uint32_t state[] = {edges += d->n_edges[i], calls += d->n_calls[i], d->least[i],
                              d->flags[i]};
    memcpy(at, state, sizeof state);
  }
  for (uint32_t i = 0; i < d->n_states; at += 2 * d->n_edges[i++])
    memcpy(at, d->edges[i], d->n_edges[i] * sizeof(bq_edge));
  for (uint32_t i = 0; i < d->n_states; at += 4 * d->n_calls[i++])
    memcpy(at, d->calls[i], d->n_calls[i] * sizeof(bq_call));
  return (uint8_t *)bytes;
}

#endif
