/* Forward batches: which rows are computed together, of which sessions, and which of them have
 * outputs. Maintains bq_session.batch and bq_session.chunk. What a batch computes is in forward.h,
 * when it runs in run.c. */
#ifndef BQ_BATCH_H
#define BQ_BATCH_H

#include "session/session.h"

/* The session and position of a row. */
typedef struct bq_row {
  bq_session *s;
  uint32_t first;     /* where its text begins in the session's tokens and cache */
  uint32_t position;  /* relative to `first` */
  uint32_t second;    /* as bq_text.second */
  uint32_t remaining; /* rows of the same text from here on, this one included */
} bq_row;
bq_row bq_row_at(const bq_session *s, uint32_t row);

/* Tokens that a session has to compute: of its sequence, or of its texts. */
uint32_t bq_chunk_pending(const bq_session *s);
/* Tokens until the end of a block of positions, if it ends a chunk: attention evicts positions
 * there, or recurrent layers take a snapshot of their states; else UINT32_MAX. */
uint32_t bq_rows_until_boundary(const bq_session *s);
/* Rows of the open batch, or of the one that comes next. */
uint32_t bq_batch_rows(const bq_session *s);
/* Rows of the next micro-batch of the open batch. */
uint32_t bq_micro_batch_rows(const bq_session *s);

/* Opens a batch with the next chunk of `s` and all pending tokens of `others`; nothing is computed
 * yet. Returns WANT_DATA if the embedding has not arrived, NOMEM if the KV cache is used up. */
bq_status bq_batch_open(bq_session *s, bq_session *const *others, size_t n, bq_error *err);
/* Whether the open batch is that of `s` and these others. */
bool bq_batch_matches(const bq_session *s, bq_session *const *others, size_t n);
/* Closes a completed batch: its positions count as computed. */
void bq_batch_close(bq_session *s);
/* Abandons the batch that the session's chunk is in, if there is one. */
void bq_batch_drop(bq_session *s);
/* The same if other sessions are in it: a change of one member invalidates what all share. */
void bq_batch_split(bq_session *s);

/* Whether the open batch, or the one that comes next, has outputs. */
bool bq_batch_has_outputs(const bq_session *s);
/* Rows of the next slice of the head, and where the output of the first of them goes. */
typedef struct bq_output_slice {
  uint32_t first, n;
  float *results;
} bq_output_slice;
bq_output_slice bq_output_rows(const bq_session *s);
/* Moves the hidden states that have outputs to the front of x (several members only). */
void bq_batch_gather(bq_session *s);
/* Copies the outputs of the other members, computed into the first one's buffer, to them. */
void bq_batch_scatter(const bq_session *s);

#endif
