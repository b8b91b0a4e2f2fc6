/* A compiled grammar: rules over bytes, in the format that js/text/grammar writes. The format is
 * not in docs/FORMAT.md, because it is never stored in a file.
 *
 *   u32 magic, version, rules, states, edges, calls, root, slack
 *   rule   u32 start, flags
 *   state  u32 end of its edges, u32 end of its calls, u32 least, flags
 *   edge   u32 low byte | high byte << 8, u32 target
 *   call   u32 rule, minimum, maximum repetitions, u32 next
 *
 * A rule is a nondeterministic automaton. From a state, the next step is an edge that contains the
 * next byte, or a call, which matches a rule a number of times in a row and then continues at
 * `next`. The rule ends in an accepting state. A call without a rule matches the empty text.
 * `least` is the minimum number of bytes from a state to the end of its rule. The format omits
 * states that can't reach the end.
 *
 * A length-limited rule counts its characters, by the edges that begin one. It is called once; the
 * call's minimum and maximum are numbers of characters. The rule may end when the minimum is
 * reached. Edges are closed if too many characters would be needed from their target to the end.
 * The path with the fewest bytes has the fewest characters; if `least` is more than 0 it can be
 * extended byte by byte.
 *
 * Items of a list, or names of an object, may have to be unique, which an automaton can't express.
 * States whose only byte begins or ends a list or an item have marks, which unique.h uses. The text
 * is JSON then; each item is a string with one spelling, and can be extended without limit. `slack`
 * is the maximum number of bytes, in addition to `least`, that uniqueness may require. */
#ifndef BQ_GRAMMAR_H
#define BQ_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

#define BQ_GRAMMAR_MAGIC 0x52475142u /* "BQGR" */
#define BQ_GRAMMAR_VERSION 3u
#define BQ_GRAMMAR_NONE UINT32_MAX
/* Maximum number of rules, of states, of edges and of calls, and maximum of `least`. */
#define BQ_GRAMMAR_LIMIT (1u << 22)

enum {
  BQ_GRAMMAR_PLAIN = 1,
  BQ_GRAMMAR_LENGTH = 2, /* its length is limited */
  BQ_STATE_ACCEPTS = 1,
  BQ_STATE_LIST = 2,  /* its [ or { begins a list of unique items */
  BQ_STATE_OPEN = 4,  /* its " begins an item */
  BQ_STATE_CLOSE = 8, /* its " ends an item */
  BQ_STATE_SHUT = 16, /* its ] or } ends the list */
  BQ_STATE_MARKS = 30,
  BQ_EDGE_BEGINS = 1 << 16 /* in `range`: the byte begins a character that is counted */
};

typedef struct bq_rule {
  uint32_t start;
  uint32_t flags; /* BQ_GRAMMAR_PLAIN: matches any plain character (vocabulary.h), maybe others too;
                     BQ_GRAMMAR_LENGTH */
} bq_rule;

typedef struct bq_state {
  uint32_t edges, calls; /* end of its edges and of its calls; they begin at the end of those of the
                            previous state */
  uint32_t least;
  uint32_t flags; /* above 8 bits: bq_lacks */
} bq_state;

typedef struct bq_edge {
  uint32_t range, target;
} bq_edge;

typedef struct bq_call {
  uint32_t rule, min, max, next; /* max NONE: unlimited */
} bq_call;

typedef struct bq_grammar {
  const bq_rule *rules;
  const bq_state *states;
  const bq_edge *edges;
  const bq_call *calls;
  uint32_t n_rules, n_states, n_edges, n_calls, root, slack;
  uint32_t lacks;         /* maximum bq_lacks of all states */
  bool lists;             /* some state has marks */
  uint32_t n_classes;     /* number of byte classes: sets of bytes that no edge distinguishes */
  uint8_t class_of[256];  /* rising with the byte */
} bq_grammar;

static inline uint32_t bq_edge_low(bq_edge e) { return e.range & 255; }
static inline uint32_t bq_edge_high(bq_edge e) { return e.range >> 8 & 255; }
/* Minimum characters from a state to the end of a length-limited rule, not counting the character
 * that has begun. */
static inline uint32_t bq_lacks(const bq_state *s) { return s->flags >> 8; }
static inline uint32_t bq_edges_begin(const bq_grammar *g, uint32_t state) {
  return state ? g->states[state - 1].edges : 0;
}
static inline uint32_t bq_calls_begin(const bq_grammar *g, uint32_t state) {
  return state ? g->states[state - 1].calls : 0;
}

/* Reads and checks a grammar. The bytes (4-byte aligned) are used in place and must outlive the
 * grammar. FORMAT, TRUNCATED. */
bq_status bq_grammar_read(const uint8_t *bytes, size_t n, bq_grammar *out, bq_error *err);

#endif
