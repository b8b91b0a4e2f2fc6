/* Sampling: picks the next token from logits. Implements of bq.h: bq_session_sample, bq_rng_seed.
 */
#ifndef BQ_SAMPLER_H
#define BQ_SAMPLER_H

#include "session/session.h"

/* Picks a token; BQ_TOKEN_NONE if all tokens are banned. Tokens with a logit of -infinity or NaN
 * are banned; a logit of +infinity is always picked. `recent`: the last n_recent tokens of the
 * text. `candidates`: scratch, [vocab]; not used by greedy sampling without mask, bias and penalty.
 * options->hook is not called. */
uint32_t bq_sample(const float *logits, uint32_t vocab, const uint32_t *recent, size_t n_recent,
                   const bq_sample_options *options, bq_rng *rng, bq_candidate *candidates);

#endif
