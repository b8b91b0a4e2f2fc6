/* The clustered LM head: computes the logits of the best clusters of rows only (model/clusters.h);
 * those of all other tokens are -infinity. It computes one position at a time, because each
 * position has other clusters. */
#ifndef BQ_SESSION_CLUSTERS_H
#define BQ_SESSION_CLUSTERS_H

#include "session/session.h"

/* Computes the logits of the one row of bq_output_rows. STATE: the model has no clusters. */
bq_status bq_clustered_head(bq_session *s, bq_error *err);

#endif
