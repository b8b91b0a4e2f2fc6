/* Constrains generated text to a grammar: which tokens may come next.
 *
 * The matcher's position in a grammar is a set of NFA states, each with the frames of the calls it
 * is in (one stack each; equal stacks share frames). Each set that occurs becomes a DFA state with
 * a table of transitions by byte, so that a byte costs a look-up, except for the first time: a
 * deterministic automaton that is built on demand.
 *
 * A mask depends on what the next token may be, not on the whole text: how often a call has been
 * repeated matters only as far as the longest token can tell. So masks are kept for canonical
 * states, which have the smallest counts with the same future (bq_dfa_state.common), and repetition
 * costs no new masks. Near the end of a string's allowed length this holds for short tokens only,
 * so their mask is kept and long tokens are checked each time.
 *
 * All memory is one block. Full tables are emptied and rebuilt from the current position; NOMEM
 * means that even this is too large: calls nested too deep, or too many alternatives at once. */
#ifndef BQ_MATCHER_H
#define BQ_MATCHER_H

#include "grammar/grammar.h"
#include "grammar/vocabulary.h"

typedef struct bq_matcher bq_matcher;

/* Creates a matcher at its grammar's beginning, or measures it (an arena without memory: *out is
 * not set). Grammar and vocabulary must outlive it. */
void bq_matcher_create(const bq_grammar *g, const bq_vocabulary *v, bq_arena *arena,
                       bq_matcher **out);

/* Goes back to the beginning; cached states and masks stay. NOMEM. */
bq_status bq_matcher_begin(bq_matcher *m, bq_error *err);

/* Whether the text may end here, and whether it may continue. */
bool bq_matcher_complete(const bq_matcher *m);
bool bq_matcher_continues(const bq_matcher *m);

/* *mask = tokens that may come next, in the format of bq_sample_options, valid until the next call.
 * NOMEM. */
bq_status bq_matcher_mask(bq_matcher *m, const uint32_t **mask, bq_error *err);

/* Accepts a token. ARGUMENT: it may not come next (nothing changes); NOMEM. */
bq_status bq_matcher_accept(bq_matcher *m, uint32_t id, bq_error *err);
/* Remembers the position, and goes back to it. */
void bq_matcher_mark(bq_matcher *m);
void bq_matcher_return(bq_matcher *m);

/* The bytes that must come next whatever is chosen, at most `capacity`. NOMEM. */
bq_status bq_matcher_forced(bq_matcher *m, uint8_t *out, size_t capacity, size_t *n, bq_error *err);
/* Whether a longer token may come `n` bytes before the end of the bytes that bq_matcher_forced
 * found last: one that begins with these n bytes. NOMEM. */
bq_status bq_matcher_extends(bq_matcher *m, const uint8_t *tail, size_t n, bool *extends,
                             bq_error *err);

/* Minimum bytes to end the text, or more if items of a list must be unique; UINT32_MAX: too many.
 */
uint32_t bq_matcher_least(const bq_matcher *m);
/* These bytes. ARGUMENT: more than `capacity`; NOMEM. */
bq_status bq_matcher_shortest(bq_matcher *m, uint8_t *out, size_t capacity, size_t *n,
                              bq_error *err);

#endif
