/* The inside of a matcher: threads, frames, places and the steps between them. */
#ifndef BQ_DFA_H
#define BQ_DFA_H

#include "grammar/grammar.h"
#include "grammar/unique.h"
#include "grammar/vocabulary.h"

typedef struct bq_matcher bq_matcher;

/* Sizes of tables: frames at once, threads of all places, places at most, bytes of the table of
 * steps, masks kept, and threads that one step may look at. Slots are powers of two, at least twice
 * what they hold. */
enum {
  BQ_MAX_FRAMES = 1 << 15,
  BQ_MAX_NFA_STATES = 1 << 15,
  BQ_MAX_DFA_STATES = 1 << 13,
  BQ_TRANSITION_BYTES = 1 << 20,
  BQ_MAX_MASKS = 48,
  BQ_MAX_WORK = 1 << 12,
};

#define BQ_DFA_DEAD 0u        /* the place that nothing leads on from */
#define BQ_TRANSITION_UNKNOWN 0xffffu   /* a step not yet made */
#define BQ_TABLE_FULL UINT32_MAX   /* instead of a place: a table is full */
#define BQ_BOTTOM_FRAME 0u         /* the frame below all */

/* How far a future is looked at: as many bytes as any token has, or a near one (vocabulary.h). */
enum { BQ_REACH_ALL, BQ_REACH_NEAR, BQ_REACHES };

typedef struct bq_frame {
  uint32_t below, call, count; /* `count` times the call's rule has been taken whole */
  uint32_t common[BQ_REACHES]; /* the frame with the least counts of the same future; NONE:
                                  unknown */
  uint32_t least;              /* bytes to the end of the text from the end of this call's rule */
} bq_frame;

typedef struct bq_nfa_state {
  uint32_t state, frame;
} bq_nfa_state;

typedef struct bq_dfa_state {
  uint32_t first, n; /* its threads, in order */
  uint32_t hash;
  uint32_t common[BQ_REACHES]; /* the place that has its mask; NONE: unknown */
  uint32_t mask[BQ_REACHES];   /* a common place's mask among those kept; NONE */
  uint8_t marks;               /* of its threads' states */
  bool complete;
} bq_dfa_state;

struct bq_matcher {
  const bq_grammar *g;
  const bq_vocabulary *v;
  bq_frame *frames;        /* [BQ_MAX_FRAMES] those below come before */
  bq_nfa_state *threads;      /* [BQ_MAX_NFA_STATES] */
  bq_dfa_state *places; /* [max_dfa_states] */
  uint16_t *steps;         /* [max_dfa_states][classes] */
  uint32_t *frame_slots;   /* [2 * BQ_MAX_FRAMES] indices; 0: empty */
  uint32_t *dfa_slots;   /* [2 * BQ_MAX_DFA_STATES] */
  bq_nfa_state *work;         /* [BQ_MAX_WORK] threads of the step being made */
  bq_nfa_state *kept;         /* [BQ_MAX_WORK] of these, those that take a byte or end the text */
  uint32_t *seen;          /* [2 * BQ_MAX_WORK] the step, and 1 + an index into its work */
  uint32_t *path;          /* [longest token + 1] places, in a walk */
  uint32_t *masks;         /* [BQ_MAX_MASKS + 1][words] the last one is nobody's */
  uint32_t *mask_of;       /* [BQ_MAX_MASKS] whose they are: BQ_REACHES * place + reach */
  bq_unique_node *items;   /* [BQ_UNIQUE_NODES] of the lists that the text is in */
  bq_unique_node *marked_items; /* [BQ_UNIQUE_NODES] */
  bq_unique *lists;        /* [longest token + 1] beside path */
  uint32_t max_dfa_states, n_frames, n_nfa_states, n_dfa_states, n_work, n_kept, next_mask;
  uint32_t step; /* counts steps of `seen`, in units of 2 * BQ_MAX_WORK */
  uint32_t start, here, marked, ahead; /* places: of the beginning, the text, one to go back to,
                                          behind what is forced */
  bq_unique now, marked_now, ahead_now; /* lists at these places */
  bool overflow;           /* a step looked at more threads than there is room for */
};

/* Where the place behind a byte is written: BQ_TRANSITION_UNKNOWN until somebody asked. */
static inline uint16_t *bq_dfa_transition(const bq_matcher *m, uint32_t place, uint8_t byte) {
  return m->steps + (size_t)place * m->g->n_classes + m->g->class_of[byte];
}
/* Whether a thread may go over an edge: in a rule of limited length only while its end can be
 * reached. */
bool bq_edge_is_open(const bq_matcher *m, bq_nfa_state t, bq_edge e);
/* Place behind a byte: BQ_DFA_DEAD, BQ_TABLE_FULL. */
uint32_t bq_dfa_step(bq_matcher *m, uint32_t place, uint8_t byte);
/* The place with the same future as far as that. BQ_TABLE_FULL. */
uint32_t bq_dfa_canonical(bq_matcher *m, uint32_t place, unsigned reach);
/* Empties all tables but for these four. False: they alone are too much. */
bool bq_dfa_compact(bq_matcher *m);
/* Makes the place of the grammar's beginning. False: too much. */
bool bq_dfa_begin(bq_matcher *m);
/* Bytes to the end of the text; behind an edge: NONE where it may not be gone over. */
uint32_t bq_min_bytes_to_end(const bq_matcher *m, bq_nfa_state t);
uint32_t bq_min_bytes_after_edge(const bq_matcher *m, bq_nfa_state t, bq_edge e);

#endif
