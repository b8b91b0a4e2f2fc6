/* The ROUTE, EXPERTS and COMBINE steps of a mixture of experts. All tokens of an expert are
 * computed together, so that its matrices are read once per micro-batch. The results of a token's
 * experts are added in the order of their numbers, so they don't depend on other tokens. */
#ifndef BQ_EXPERTS_H
#define BQ_EXPERTS_H

#include "session/session.h"

/* Allocates the expert assignments of a micro-batch of `batch` tokens from a session's arena. */
bq_expert_routing *bq_expert_routing_lay_out(bq_arena *arena, const bq_config *c,
                                             const bq_kernels *kernels, uint32_t batch);
/* Computes a thread's share of a step over the micro-batch or, if `prepare`, of the preparation of
 * its input. Returns the stage that ends with it. */
bq_stage bq_forward_experts(const bq_session *s, const bq_layer *w, const bq_layer_step *step,
                            bool prepare, float *const *buffer, uint32_t tokens, size_t thread,
                            size_t threads);

#endif
