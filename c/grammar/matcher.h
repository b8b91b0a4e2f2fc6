/* Constrains generated text to a grammar: computes which tokens are allowed next.
 *
 * The matcher's position in a grammar is a set of NFA states, each with a stack of frames for the
 * calls that it is in; equal stacks share frames. Each set that occurs becomes a DFA state with a
 * table of transitions by byte. The automaton is thus built on demand: after the first time, a byte
 * takes one look-up.
 *
 * A mask depends on the possible next tokens, not on the whole text. The number of repetitions of a
 * call affects it only within the length of the longest token. So masks are cached for canonical
 * states, which have the smallest counts with the same future (bq_dfa_state.common), and repetition
 * needs no new masks. Near the maximum length of a string this is true for short tokens only: their
 * mask is cached, and long tokens are checked each time.
 *
 * All memory is one block. Full tables are emptied and rebuilt from the current position. NOMEM
 * means that even the current position is too large: calls are nested too deep, or there are too
 * many alternatives at once. */
#ifndef BQ_MATCHER_H
#define BQ_MATCHER_H

#include "grammar/grammar.h"
#include "grammar/vocabulary.h"

typedef struct bq_matcher bq_matcher;

/* Creates a matcher at its grammar's beginning. With an arena without memory it only measures, and
 * *out is not set. Grammar and vocabulary must outlive the matcher. */
void bq_matcher_create(const bq_grammar *g, const bq_vocabulary *v, bq_arena *arena,
                       bq_matcher **out);

/* Returns to the beginning; cached states and masks stay. NOMEM. */
bq_status bq_matcher_begin(bq_matcher *m, bq_error *err);

/* Whether the text may end here, and whether it may continue. */
bool bq_matcher_complete(const bq_matcher *m);
bool bq_matcher_continues(const bq_matcher *m);

/* *mask = set of the tokens that are allowed next, in the format of bq_sample_options.mask; valid
 * until the next call. NOMEM. */
bq_status bq_matcher_mask(bq_matcher *m, const uint32_t **mask, bq_error *err);

/* Advances by a token. ARGUMENT: it is not allowed next (nothing changes); NOMEM. */
bq_status bq_matcher_accept(bq_matcher *m, uint32_t id, bq_error *err);
/* Stores the position (mark), and returns to it. */
void bq_matcher_mark(bq_matcher *m);
void bq_matcher_return(bq_matcher *m);

/* Writes the bytes that the grammar forces next, at most `capacity`. NOMEM. */
bq_status bq_matcher_forced(bq_matcher *m, uint8_t *out, size_t capacity, size_t *n, bq_error *err);
/* *extends = whether an allowed token begins with `tail`, the last `n` of the bytes that
 * bq_matcher_forced returned last, and continues after them. NOMEM. */
bq_status bq_matcher_extends(bq_matcher *m, const uint8_t *tail, size_t n, bool *extends,
                             bq_error *err);

/* Minimum bytes to end the text, or an upper bound of it if items of a list must be unique;
 * UINT32_MAX: too many. */
uint32_t bq_matcher_least(const bq_matcher *m);
/* Writes the shortest bytes that end the text. ARGUMENT: more than `capacity`; NOMEM. */
bq_status bq_matcher_shortest(bq_matcher *m, uint8_t *out, size_t capacity, size_t *n,
                              bq_error *err);

#endif
