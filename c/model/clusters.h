/* The head once more, its rows in clusters of those that are alike, so that a step can compute the
 * rows of a few clusters alone: those whose means meet its state best. */
#ifndef BQ_CLUSTERS_H
#define BQ_CLUSTERS_H

#include "kernels/kernels.h"
#include "model/config.h"
#include "types.h"

enum { BQ_CLUSTER_ROWS = 32 }; /* the last has fewer, if need be */

typedef struct bq_candidate {
  float value;
  uint32_t id;
} bq_candidate;

/* Before means: higher value, then lower id. NaN never comes before anything. */
static inline bool bq_candidate_before(bq_candidate a, bq_candidate b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

typedef struct bq_clusters {
  uint32_t n;
  bq_matrix means; /* [n][hidden], f16 */
  bq_matrix rows;  /* [vocab][hidden]: the head's, to the bit, cluster by cluster */
  uint32_t *token; /* [vocab]: whose row each of them is */
  float *spread;   /* [n]: how far a weight is from its mean, the root of the mean of squares */
} bq_clusters;

static inline uint32_t bq_clusters_of(const bq_config *c) {
  return (c->vocab + BQ_CLUSTER_ROWS - 1) / BQ_CLUSTER_ROWS;
}
/* Of these a step computes this share: one at least. */
static inline uint32_t bq_clusters_share(uint32_t n, float share) {
  const uint32_t some = (uint32_t)(share * (float)n);
  return some < 1 ? 1 : some < n ? some : n;
}

/* Bytes of the block that bq_model_cluster takes; UINT64_MAX: more than can be addressed. */
uint64_t bq_clusters_bytes(const bq_config *c, bq_type head);

/* The first `most` of n come to the front, in any order. */
void bq_candidates_select(bq_candidate *c, uint32_t n, uint32_t most);

#endif
