/* A second copy of the head whose rows are grouped in clusters of similar ones (an IVF index), so
 * that a step can compute only the clusters whose means score best against its hidden state: an
 * approximate head. */
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

static inline uint32_t bq_clusters_of(const bq_config *c) {
  return (c->vocab + BQ_CLUSTER_ROWS - 1) / BQ_CLUSTER_ROWS;
}
/* How many of n clusters a step computes for a share of the head: at least one. */
static inline uint32_t bq_clusters_share(uint32_t n, float share) {
  const uint32_t some = (uint32_t)(share * (float)n);
  return some < 1 ? 1 : some < n ? some : n;
}

/* Bytes of the block that bq_model_cluster allocates; UINT64_MAX if they can't be addressed. */
uint64_t bq_clusters_bytes(const bq_config *c, bq_type head);

/* Moves the best `most` of n candidates to the front, in any order. */
void bq_candidates_select(bq_candidate *c, uint32_t n, uint32_t most);

#endif
