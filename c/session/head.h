/* The LM head: hidden states after the final norm -> logits. */
#ifndef BQ_HEAD_H
#define BQ_HEAD_H

#include "session/linear.h"

/* Logits of the rows of bq_output_rows, from row row0 of the head on; `head`: the head, or a page
 * of its rows. */
void bq_forward_head(bq_session *s, const bq_matrix *head, uint32_t row0);

/* The pieces, for spread.c. */
bq_micro_batch bq_head_batch(const bq_session *s, const bq_matrix *head, uint32_t row0);
bq_linear bq_head_linear(const bq_micro_batch *j, size_t thread);
const bq_phases *bq_head_phases(const void *arg, uint32_t layer, size_t threads);
bq_stage bq_head_phase(const void *arg, uint32_t layer, uint32_t phase, size_t thread,
                       size_t threads);

#endif
