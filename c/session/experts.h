/* The ROUTE, EXPERTS and COMBINE steps of a mixture of experts. All tokens of an expert are
 * computed together, so that its matrices are read once per micro-batch; a token's result depends
 * on nothing but itself, because its experts are added in the order of their numbers. */
#ifndef BQ_EXPERTS_H
#define BQ_EXPERTS_H

#include "session/session.h"

/* Takes the expert assignments of a micro-batch of `batch` tokens from a session's arena. */
bq_expert_routing *bq_expert_routing_lay_out(bq_arena *arena, const bq_config *c,
                                             const bq_kernels *kernels, uint32_t batch);
/* A thread's share of a step over the micro-batch; `prepare`: of preparing its input only. Returns
 * the stage that ends with it. */
bq_stage bq_forward_experts(const bq_session *s, const bq_layer *w, const bq_layer_step *step,
                            bool prepare, float *const *buffer, uint32_t tokens, size_t thread,
                            size_t threads);

#endif
