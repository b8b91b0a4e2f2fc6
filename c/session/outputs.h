/* Outputs other than the head's, hidden states and pooled vectors, and access to all outputs.
 * Implements of bq.h: bq_session_output, vector, logits, stats_get. */
#ifndef BQ_OUTPUTS_H
#define BQ_OUTPUTS_H

#include "session/session.h"

/* The logits of the sequence's last token, [vocab]; NULL if they are not computed. */
float *bq_last_logits(const bq_session *s);
/* Computes the hidden states after the final norm of the rows of bq_output_rows. */
void bq_hidden_outputs(bq_session *s);
/* Adds the rows of the batch to the pooled vector of each member or text. */
void bq_pool_outputs(bq_session *s);

#endif
