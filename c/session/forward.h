/* Computes a layer of the transformer over a micro-batch. A layer is a program of steps
 * (model/program.h), derived from the configuration. For a Llama-like model with pre-norm these
 * are, in order:
 *
 *   MATMUL   q, k, v = norm(x) Wq, norm(x) Wk, norm(x) Wv     (linear.c)
 *   STORE    q, k = rope(q), rope(k);  cache <- k, v          (attention.c)
 *   ATTEND   a = softmax(q cache_k / sqrt(head_dim)) cache_v  (attention.c)
 *   MATMUL   x += a Wo                                        (linear.c, epilogue: residual)
 *   MATMUL   g = silu(norm(x) Wgate) * (norm(x) Wup)          (linear.c, epilogue: activation)
 *   MATMUL   x += g Wdown                                     (linear.c, epilogue: residual)
 *
 * Other models norm whole rows in between (NORM, ADD) or have experts in place of the last two
 * steps (experts.c). There is a barrier for all threads between two phases of a step
 * (threads.h). */
#ifndef BQ_FORWARD_H
#define BQ_FORWARD_H

#include "session/micro_batch.h"
#include "session/threads.h"

/* Computes layer s->batch.layer for `tokens` rows from s->batch.row on, then further layers as long
 * as `next` returns true (NULL: one layer only). */
void bq_forward_layers(bq_session *s, uint32_t tokens, bq_advance_fn *next);

/* Parts of it, for spread.c: the micro-batch of a layer, the layer's phases, and a thread's share
 * of a phase. */
bq_micro_batch bq_layer_batch(const bq_session *s, uint32_t tokens);
const bq_phases *bq_layer_phases(const void *arg, uint32_t layer, size_t threads);
bq_stage bq_layer_phase(const void *arg, uint32_t layer, uint32_t phase, size_t thread,
                        size_t threads);

#endif
