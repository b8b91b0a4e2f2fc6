/* LoRA adapters: y += B (A x * scale) after the bias. They are computed in f32 for all types of
 * weights, by the matmul of f32 weights, so that the order of each sum doesn't depend on how the
 * work is divided. Implements of bq.h: bq_session_set_adapter. */
#ifndef BQ_ADAPTER_H
#define BQ_ADAPTER_H

#include "session/session.h"

/* The adapter's matrices of a module in a layer; NULL if the module isn't adapted. The session must
 * have an adapter. */
const bq_lora *bq_lora_of(const bq_session *s, uint32_t layer, uint32_t module);
/* Computes down = A x * scale, for x [tokens][cols] and down [tokens][s->lora.stride]. */
void bq_lora_down(const bq_session *s, const bq_lora *lora, const float *x, size_t cols,
                  size_t tokens, float *down);
/* Adds rows [row0, row1) of B down to y, for one token. */
void bq_lora_up(const bq_session *s, const bq_lora *lora, const float *down, size_t row0,
                size_t row1, float *y);

#endif
