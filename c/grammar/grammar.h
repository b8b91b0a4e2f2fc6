/* A compiled grammar: rules over bytes, as js/text/grammar writes them. docs/FORMAT.md does not
 * cover it: a grammar lives as long as a request.
 *
 *   u32 magic, version, rules, states, edges, calls, root, slack
 *   rule   u32 start, flags
 *   state  u32 behind its last edge, u32 behind its last call, u32 least, flags
 *   edge   u32 low byte | high byte << 8, u32 target
 *   call   u32 rule, least times, most times, u32 next
 *
 * A rule is an automaton: a state goes on over an edge that has the next byte, or through a call,
 * which takes a rule so many times in a row and then is at `next`; it ends where it accepts. A call
 * of no rule takes nothing. Several ways may be open at once. `least` is how few bytes lead from a
 * state to the end of its rule; states without such a way are not written.
 *
 * A rule of limited length counts its characters, by the edges that begin one. A call takes it
 * once: its `least` and `most` are numbers of characters. The rule ends when enough have come, and
 * a state from which more lead to its end than may still come is left out. The way of the fewest
 * bytes has the fewest characters; where `least` is more than 0 it can be made longer, a byte at a
 * time.
 *
 * Items of a list, or names of an object, may have to differ, which no automaton can say: marks on
 * states whose only byte begins or ends a list or an item of one say where to look (unique.h). The
 * text is JSON then; each item is a string, has one spelling, and goes on without end: `slack` is
 * how many bytes more than `least` their difference may take. */
#ifndef BQ_GRAMMAR_H
#define BQ_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

#define BQ_GRAMMAR_MAGIC 0x52475142u /* "BQGR" */
#define BQ_GRAMMAR_VERSION 3u
#define BQ_GRAMMAR_NONE UINT32_MAX
/* Most rules, states, edges and calls each; least ways longer than this are as long as this. */
#define BQ_GRAMMAR_LIMIT (1u << 22)

enum {
  BQ_GRAMMAR_PLAIN = 1,
  BQ_GRAMMAR_LENGTH = 2, /* its length is limited */
  BQ_STATE_ACCEPTS = 1,
  BQ_STATE_LIST = 2,  /* its [ or { begins a list whose items differ */
  BQ_STATE_OPEN = 4,  /* its " begins an item */
  BQ_STATE_CLOSE = 8, /* its " ends one */
  BQ_STATE_SHUT = 16, /* its ] or } ends the list */
  BQ_STATE_MARKS = 30,
  BQ_EDGE_BEGINS = 1 << 16 /* in `range`: the byte begins a character that is counted */
};

typedef struct bq_rule {
  uint32_t start;
  uint32_t flags; /* BQ_GRAMMAR_PLAIN: takes any one plain character (vocabulary.h), if not these
                     alone; LENGTH */
} bq_rule;

typedef struct bq_state {
  uint32_t edges, calls; /* behind its last; those of the state before end where its own begin */
  uint32_t least;
  uint32_t flags; /* above 8 bits: bq_lacks */
} bq_state;

typedef struct bq_edge {
  uint32_t range, target;
} bq_edge;

typedef struct bq_call {
  uint32_t rule, min, max, next; /* max NONE: no limit */
} bq_call;

typedef struct bq_grammar {
  const bq_rule *rules;
  const bq_state *states;
  const bq_edge *edges;
  const bq_call *calls;
  uint32_t n_rules, n_states, n_edges, n_calls, root, slack;
  uint32_t lacks;         /* bq_lacks of all states, at most */
  bool lists;             /* some state has a mark */
  uint32_t n_classes;     /* bytes that no edge tells apart are of one class */
  uint8_t class_of[256];  /* rising with the byte */
} bq_grammar;

static inline uint32_t bq_edge_low(bq_edge e) { return e.range & 255; }
static inline uint32_t bq_edge_high(bq_edge e) { return e.range >> 8 & 255; }
/* How few characters lead to the end of a rule of limited length, behind the one that was begun. */
static inline uint32_t bq_lacks(const bq_state *s) { return s->flags >> 8; }
static inline uint32_t bq_edges_begin(const bq_grammar *g, uint32_t state) {
  return state ? g->states[state - 1].edges : 0;
}
static inline uint32_t bq_calls_begin(const bq_grammar *g, uint32_t state) {
  return state ? g->states[state - 1].calls : 0;
}

/* Checks every number; the bytes (4-byte aligned) are used in place and outlive the grammar.
 * FORMAT, TRUNCATED. */
bq_status bq_grammar_read(const uint8_t *bytes, size_t n, bq_grammar *out, bq_error *err);

#endif
