/* The LM head: computes logits from hidden states, after the final norm. */
#ifndef BQ_HEAD_H
#define BQ_HEAD_H

#include "session/linear.h"

/* Computes logits of the rows of bq_output_rows. `head`: the head, or a page of its rows from row
 * row0 on. */
void bq_forward_head(bq_session *s, const bq_matrix *head, uint32_t row0);

/* Parts of it, for spread.c. */
bq_micro_batch bq_head_batch(const bq_session *s, const bq_matrix *head, uint32_t row0);
bq_linear bq_head_linear(const bq_micro_batch *j, size_t thread);
const bq_phases *bq_head_phases(const void *arg, uint32_t layer, size_t threads);
bq_stage bq_head_phase(const void *arg, uint32_t layer, uint32_t phase, size_t thread,
                       size_t threads);

#endif
