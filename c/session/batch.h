/* Forward batches: the rows that are computed together, their sessions, and which of them have
 * outputs. Maintains bq_session.batch and bq_session.part. The computation of a batch is in
 * forward.h, its schedule in run.c. */
#ifndef BQ_BATCH_H
#define BQ_BATCH_H

#include "session/session.h"

/* The session and position of a row. */
typedef struct bq_row {
  bq_session *s;
  uint32_t first;     /* index of its text's first token in the session's tokens and cache */
  uint32_t position;  /* relative to `first` */
  uint32_t second;    /* as bq_text.second */
  uint32_t remaining; /* number of rows of the same text from this one on */
} bq_row;
bq_row bq_row_at(const bq_session *s, uint32_t row);

/* Number of tokens that a session has to compute: of its sequence, or of its texts. */
uint32_t bq_tokens_pending(const bq_session *s);
/* Number of tokens until the end of a block of positions, if a batch must end there because
 * positions are evicted by attention or recurrent layers take a snapshot; otherwise UINT32_MAX. */
uint32_t bq_rows_until_boundary(const bq_session *s);
/* Rows of the open batch, or of the next one. */
uint32_t bq_batch_rows(const bq_session *s);
/* Rows of the next micro-batch of the open batch. */
uint32_t bq_micro_batch_rows(const bq_session *s);

/* Opens a batch with the next part of `s` and all pending tokens of `others`, without computing
 * anything. WANT_DATA: the embedding has not arrived; NOMEM: the KV cache is used up. */
bq_status bq_batch_open(bq_session *s, bq_session *const *others, size_t n, bq_error *err);
/* Whether the open batch has exactly `s` and these others as members. */
bool bq_batch_matches(const bq_session *s, bq_session *const *others, size_t n);
/* Closes a completed batch: its positions count as computed. */
void bq_batch_close(bq_session *s);
/* Abandons the batch that contains the session's part, if there is one. */
void bq_batch_drop(bq_session *s);
/* Abandons it only if it has several members: a change of one member invalidates the batch. */
void bq_batch_split(bq_session *s);

/* Whether the open batch, or the next one, has outputs. */
bool bq_batch_has_outputs(const bq_session *s);
/* Rows of the next work unit of the head: the first and the number; results: address for the
 * outputs. */
typedef struct bq_output_range {
  uint32_t first, n;
  float *results;
} bq_output_range;
bq_output_range bq_output_rows(const bq_session *s);
/* Moves the hidden states that have outputs to the front of x (several members only). */
void bq_batch_gather(bq_session *s);
/* Copies the outputs of the other members from the first member's buffer to their own buffers. */
void bq_batch_scatter(const bq_session *s);

#endif
