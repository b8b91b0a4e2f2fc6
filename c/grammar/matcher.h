/* A text that is being generated, held to a grammar.
 *
 * Where a text is in a grammar is a set of *threads*: a state, and the frames of the calls it is in
 * (one stack per thread; frames with the same ones below them are one frame). Sets are numbered as
 * they are met, as *places*, with a table of which place follows by which byte, so that a byte is a
 * look-up but for the first time: a deterministic automaton, made as far as it is needed.
 *
 * A mask depends on what the next token may be, not on all of a text: how often a call has been
 * taken counts in it only as far as the longest token can tell. So masks are kept for places whose
 * counts are the least with that future (bq_dfa_state.common), and repeating something costs no
 * new ones. Near the end of what may be repeated in a string that holds of short tokens alone, so
 * masks of these are kept, and long tokens are looked at each time.
 *
 * All memory is one block. What is full is emptied and begun anew from where the text is; what does
 * not even fit then is NOMEM: calls too deep, or too many ways open at once. */
#ifndef BQ_MATCHER_H
#define BQ_MATCHER_H

#include "grammar/grammar.h"
#include "grammar/vocabulary.h"

typedef struct bq_matcher bq_matcher;

/* Makes one at its grammar's beginning, or measures (an arena without memory: *out is not set).
 * Grammar and vocabulary outlive it. */
void bq_matcher_create(const bq_grammar *g, const bq_vocabulary *v, bq_arena *arena,
                       bq_matcher **out);

/* Back to the beginning; what has been learned of the grammar stays. NOMEM. */
bq_status bq_matcher_begin(bq_matcher *m, bq_error *err);

/* Whether the text may end here; whether it may go on. */
bool bq_matcher_complete(const bq_matcher *m);
bool bq_matcher_continues(const bq_matcher *m);

/* *mask = which tokens may come next, as bq_sample_options has it, valid until the next call.
 * NOMEM. */
bq_status bq_matcher_mask(bq_matcher *m, const uint32_t **mask, bq_error *err);

/* Takes a token. ARGUMENT: it may not come next (the text is as before); NOMEM. */
bq_status bq_matcher_accept(bq_matcher *m, uint32_t id, bq_error *err);
/* Remembers where the text is, and goes back there. */
void bq_matcher_mark(bq_matcher *m);
void bq_matcher_return(bq_matcher *m);

/* The bytes that come next whatever is chosen, at most `capacity`. NOMEM. */
bq_status bq_matcher_forced(bq_matcher *m, uint8_t *out, size_t capacity, size_t *n, bq_error *err);
/* Whether a token may come `n` bytes before the end of what bq_matcher_forced found last that has
 * these bytes and more. NOMEM. */
bq_status bq_matcher_extends(bq_matcher *m, const uint8_t *tail, size_t n, bool *extends,
                             bq_error *err);

/* How many bytes end the text soonest, or more where items of a list must differ; UINT32_MAX: too
 * many to say. */
uint32_t bq_matcher_least(const bq_matcher *m);
/* These bytes. ARGUMENT: more than `capacity`; NOMEM. */
bq_status bq_matcher_shortest(bq_matcher *m, uint8_t *out, size_t capacity, size_t *n,
                              bq_error *err);

#endif
