/* The automaton of a matcher: NFA states, call frames, and the DFA states that are built from them
 * on demand. */
#ifndef BQ_DFA_H
#define BQ_DFA_H

#include "grammar/grammar.h"
#include "grammar/unique.h"
#include "grammar/vocabulary.h"

typedef struct bq_matcher bq_matcher;

/* Sizes of tables: frames; NFA states of all DFA states; DFA states; bytes of the transition table;
 * masks; NFA states that one step may visit. Hash tables have a power of two of slots, at least
 * twice the number of their entries. */
enum {
  BQ_MAX_FRAMES = 1 << 15,
  BQ_MAX_NFA_STATES = 1 << 15,
  BQ_MAX_DFA_STATES = 1 << 13,
  BQ_TRANSITION_BYTES = 1 << 20,
  BQ_MAX_MASKS = 48,
  BQ_MAX_WORK = 1 << 12,
};

#define BQ_DFA_DEAD 0u        /* the DFA state without successors */
#define BQ_TRANSITION_UNKNOWN 0xffffu   /* a transition that isn't computed yet */
#define BQ_TABLE_FULL UINT32_MAX   /* in place of a state: a table is full */
#define BQ_BOTTOM_FRAME 0u         /* the frame below all others */

/* Number of bytes for which two states must have the same future to share a mask: the length of the
 * longest token, or of the longest near token (vocabulary.h). */
enum { BQ_REACH_ALL, BQ_REACH_NEAR, BQ_REACHES };

typedef struct bq_frame {
  uint32_t below, call, count; /* the call's rule has been matched `count` times */
  uint32_t common[BQ_REACHES]; /* the equivalent frame with the smallest counts; NONE: unknown */
  uint32_t least;              /* minimum bytes from the end of this call's rule to the end of the
                                  text */
} bq_frame;

typedef struct bq_nfa_state {
  uint32_t state, frame;
} bq_nfa_state;

typedef struct bq_dfa_state {
  uint32_t first, n; /* its NFA states, in order */
  uint32_t hash;
  uint32_t common[BQ_REACHES]; /* the canonical DFA state, which has the same mask; NONE: unknown */
  uint32_t mask[BQ_REACHES];   /* of a canonical state: index of its cached mask; NONE */
  uint8_t marks;               /* of its NFA states' grammar states */
  bool complete;
} bq_dfa_state;

struct bq_matcher {
  const bq_grammar *g;
  const bq_vocabulary *v;
  bq_frame *frames;        /* [BQ_MAX_FRAMES]; a frame is after the frames below it */
  bq_nfa_state *nfa_states;   /* [BQ_MAX_NFA_STATES] */
  bq_dfa_state *dfa_states;   /* [max_dfa_states] */
  uint16_t *steps;         /* transitions, [max_dfa_states][classes] */
  uint32_t *frame_slots;   /* [2 * BQ_MAX_FRAMES] indices; 0: empty */
  uint32_t *dfa_slots;   /* [2 * BQ_MAX_DFA_STATES] */
  bq_nfa_state *work;         /* [BQ_MAX_WORK]: NFA states of the current step */
  bq_nfa_state *kept;         /* [BQ_MAX_WORK]: those of them that accept a byte or end the text */
  uint32_t *visited;       /* [2 * BQ_MAX_WORK]: hash table of the step's states: step + 1 + index
                              */
  uint32_t *path;          /* [longest token + 1]: DFA states along a walk */
  uint32_t *masks;         /* [BQ_MAX_MASKS + 1][words]; the last one is scratch */
  uint32_t *mask_of;       /* [BQ_MAX_MASKS]: owner of each: BQ_REACHES * state + reach */
  bq_unique_node *items;   /* [BQ_UNIQUE_NODES]: items of the open lists */
  bq_unique_node *marked_items; /* [BQ_UNIQUE_NODES] */
  bq_unique *lists;        /* [longest token + 1]: lists along `path` */
  uint32_t max_dfa_states, n_frames, n_nfa_states, n_dfa_states, n_work, n_kept, next_mask;
  uint32_t step; /* number of the current step, in units of 2 * BQ_MAX_WORK */
  uint32_t start, current, marked, ahead; /* DFA states: at the grammar's beginning, of the text so
                                          far, of the mark, after the forced bytes */
  bq_unique now, marked_now, ahead_now; /* open lists at current, marked and ahead */
  bool overflow;           /* a step visited more than BQ_MAX_WORK states */
};

/* The transition of a byte; BQ_TRANSITION_UNKNOWN until it is computed. */
static inline uint16_t *bq_dfa_transition(const bq_matcher *m, uint32_t state, uint8_t byte) {
  return m->steps + (size_t)state * m->g->n_classes + m->g->class_of[byte];
}
/* Whether an edge of an NFA state may be followed. In a length-limited rule this requires that the
 * rule's end remains reachable. */
bool bq_edge_is_open(const bq_matcher *m, bq_nfa_state t, bq_edge e);
/* Returns the DFA state after a byte; BQ_DFA_DEAD: the byte is not allowed; BQ_TABLE_FULL. */
uint32_t bq_dfa_step(bq_matcher *m, uint32_t state, uint8_t byte);
/* Returns the canonical DFA state with the same future within `reach`; BQ_TABLE_FULL. */
uint32_t bq_dfa_canonical(bq_matcher *m, uint32_t state, unsigned reach);
/* Empties all tables except for the four DFA states in use. Returns false if these alone are too
 * large. */
bool bq_dfa_compact(bq_matcher *m);
/* Creates the DFA state of the grammar's beginning. Returns false if it is too large. */
bool bq_dfa_begin(bq_matcher *m);
/* Minimum bytes from a state to the end of the text; or from the state after an edge, NONE if the
 * edge is not open. */
uint32_t bq_min_bytes_to_end(const bq_matcher *m, bq_nfa_state t);
uint32_t bq_min_bytes_after_edge(const bq_matcher *m, bq_nfa_state t, bq_edge e);

#endif
