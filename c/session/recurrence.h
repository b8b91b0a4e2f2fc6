/* States of recurrent layers: short convolutions (LFM2), gated delta nets (Qwen3.5), Mamba-2
 * (Granite 4, Falcon-H1). Such a layer knows the positions before the next one by a state of fixed
 * size, which recurrent_layers.h draws. A *snapshot* is the states of all such layers after one
 * number of positions.
 *
 * A state can't be truncated as a KV cache can: the state after 700 positions does not follow from
 * the one after 900. So a session keeps snapshots after whole blocks of BQ_KV_BLOCK positions, the
 * newest of them as far as there is room, one after all positions that are computed, and one where
 * the last batch began (one token back while decoding). To go back is to go to the nearest snapshot
 * before and to compute the rest again. Chunks therefore end at multiples of BQ_KV_BLOCK (batch.c).
 *
 * Memory is the session's own; a fork copies it. Without such layers everything here is empty, and
 * every number of positions counts as held. */
#ifndef BQ_RECURRENCE_H
#define BQ_RECURRENCE_H

#include "bq.h"

#define BQ_NO_SNAPSHOT UINT32_MAX
/* Bytes of the snapshots after whole blocks together, at most; two at least. */
#define BQ_SNAPSHOTS_BYTES (32u << 20)

typedef struct bq_snapshot {
  float *states;     /* [floats] */
  uint32_t position; /* after so many positions; BQ_NO_SNAPSHOT: it is not held */
} bq_snapshot;

/* The snapshots that every session has, before those of whole blocks. */
enum { BQ_SNAPSHOT_LAST, BQ_SNAPSHOT_BEFORE, BQ_SNAPSHOTS_RECENT };

typedef struct bq_recurrence {
  size_t floats;       /* of a snapshot; 0: no layer has a state */
  size_t layer_floats; /* of one layer in it */
  float *next;         /* [floats]: of the open batch, each layer after the rows it has computed */
  bq_snapshot *held;   /* [n_held]: after all computed positions, where the last batch began, then
                        * after whole blocks in no order */
  uint32_t n_held;
} bq_recurrence;

bq_recurrence bq_recurrence_lay_out(bq_arena *arena, const bq_config *config, uint32_t context);
/* Discards all snapshots: of a new session, and of one that computes from its start. */
void bq_recurrence_clear(bq_recurrence *r);
void bq_recurrence_copy(bq_recurrence *to, const bq_recurrence *from);

/* The largest number of positions, at most n, whose snapshot is held; 0 always is. */
uint32_t bq_recurrence_floor(const bq_recurrence *r, uint32_t n);
/* The snapshot after n positions; NULL: not held, or n is 0. */
float *bq_recurrence_find(const bq_recurrence *r, uint32_t n);
/* Discards snapshots after more than n positions. */
void bq_recurrence_truncate(bq_recurrence *r, uint32_t n);

/* A forward batch begins at, or ends with, so many positions. The snapshot at its beginning is
 * held. */
void bq_recurrence_open(bq_recurrence *r, uint32_t start);
void bq_recurrence_close(bq_recurrence *r, uint32_t end);

/* The snapshot that is saved beside the one after `computed` positions: the one at a block
 * boundary from which the last position can be computed again; 0 without such a snapshot. */
uint32_t bq_recurrence_saved_block(const bq_recurrence *r, uint32_t computed);
/* Makes room for these two, in an empty session. */
void bq_recurrence_fill(bq_recurrence *r, uint32_t block, uint32_t computed);

/* The state of a layer in the batch under way. */
float *bq_recurrence_state(const bq_recurrence *r, const bq_config *config, uint32_t layer);

#endif
