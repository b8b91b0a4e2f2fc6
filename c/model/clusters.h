/* Clustered LM head: a second copy of the head whose rows are grouped in clusters of similar rows
 * (an IVF index). A step then computes only the clusters whose means have the highest scores for
 * its hidden state, which approximates the head. */
#ifndef BQ_CLUSTERS_H
#define BQ_CLUSTERS_H

#include "kernels/kernels.h"
#include "model/config.h"
#include "types.h"

enum { BQ_CLUSTER_ROWS = 32 }; /* rows of a cluster; the last one may have fewer */

typedef struct bq_candidate {
  float value;
  uint32_t id;
} bq_candidate;

/* Order of candidates: higher value first, then lower id. NaN comes last. */
static inline bool bq_candidate_before(bq_candidate a, bq_candidate b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

typedef struct bq_clusters {
  uint32_t n;
  bq_matrix means; /* [n][hidden], f16 */
  bq_matrix rows;  /* [vocab][hidden]: the rows of the head, unchanged, cluster by cluster */
  uint32_t *token; /* [vocab]: token of each row */
  float *deviation;   /* [n]: standard deviation of the weights of a cluster from its mean */
} bq_clusters;

/* Number of clusters of a model. */
static inline uint32_t bq_clusters_of(const bq_config *c) {
  return (c->vocab + BQ_CLUSTER_ROWS - 1) / BQ_CLUSTER_ROWS;
}
/* Number of clusters, of n, that a step computes for a share of the head; at least one. */
static inline uint32_t bq_clusters_share(uint32_t n, float share) {
  const uint32_t count = (uint32_t)(share * (float)n);
  return count < 1 ? 1 : count < n ? count : n;
}

/* Bytes of the block that bq_model_cluster allocates; UINT64_MAX if they can't be addressed. */
uint64_t bq_clusters_bytes(const bq_config *c, bq_type head);

/* Moves the best `count` of n candidates to the front, in any order. */
void bq_candidates_select(bq_candidate *c, uint32_t n, uint32_t count);

#endif
