/* The approximate head: logits of the best clusters of rows only (model/clusters.h), those of all
 * other tokens are -infinity. One position at a time, since each has clusters of its own. */
#ifndef BQ_SESSION_CLUSTERS_H
#define BQ_SESSION_CLUSTERS_H

#include "session/session.h"

/* The one row of bq_output_rows -> logits. Returns STATE if the model has no clusters. */
bq_status bq_clustered_head(bq_session *s, bq_error *err);

#endif
