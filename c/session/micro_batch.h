/* A micro-batch: the rows that one work unit computes, with the buffers that a layer's steps read
 * and write. Rows are tokens. This header has no .c file. */
#ifndef BQ_MICRO_BATCH_H
#define BQ_MICRO_BATCH_H

#include "session/session.h"

typedef struct bq_micro_batch {
  const bq_session *s;  /* the owner of the forward batch */
  uint32_t batch_at;    /* its first row in the forward batch */
  uint32_t tokens;
  float *buffer[BQ_BUFFERS]; /* [tokens][columns of the layer's kind] */
  const bq_matrix *head; /* the head, or a page of its rows, from row0 on; NULL: a layer */
  uint32_t row0;
  float *results;        /* output of the head: [tokens][outputs.cols] */
} bq_micro_batch;

/* A micro-batch at one layer. */
typedef struct bq_layer_run {
  const bq_micro_batch *j;
  const bq_session *s;
  const bq_layer *w;
  uint32_t layer;
} bq_layer_run;

/* The weight of a norm. */
static inline const float *bq_norm_weight(const bq_weights *m) {
  return (const float *)(const void *)m->w.data;
}
/* Whether every thread prepares a step's input for itself. This is so for one token, because it
 * takes less time than a barrier. */
static inline bool bq_each_thread_prepares(const bq_micro_batch *j) { return j->tokens == 1; }

#endif
