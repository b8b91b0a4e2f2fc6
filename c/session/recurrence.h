/* States of recurrent layers: short convolutions (LFM2), gated delta nets (Qwen3.5), Mamba-2
 * (Granite 4, Falcon-H1). In place of keys and values, such a layer has a state of fixed size,
 * whose layout is in recurrent_layers.h. A *snapshot* is a copy of the states of all such layers
 * after a number of positions.
 *
 * A state can't be truncated as a KV cache can: the state after 700 positions does not follow from
 * the one after 900. So a session has these snapshots: the newest ones after complete blocks of
 * BQ_KV_BLOCK positions, as many as fit; one after all computed positions; and one at the beginning
 * of the last batch (one token back while decoding). To go back to a position, the session returns
 * to the nearest earlier snapshot and recomputes the rest. Chunks therefore end at multiples of
 * BQ_KV_BLOCK (batch.c).
 *
 * Each session has its own snapshots; a fork copies them. Without such layers all of this is empty,
 * and there counts as a snapshot after every number of positions. */
#ifndef BQ_RECURRENCE_H
#define BQ_RECURRENCE_H

#include "bq.h"
#include "model/config.h"

#define BQ_NO_SNAPSHOT UINT32_MAX
/* Maximum bytes of all snapshots after complete blocks; there are always at least two of them. */
#define BQ_SNAPSHOTS_BYTES (32u << 20)

typedef struct bq_snapshot {
  float *states;     /* [floats] */
  uint32_t position; /* number of positions before it; BQ_NO_SNAPSHOT: the entry is free */
} bq_snapshot;

/* Indices of the two recent snapshots: after all computed positions, and at the beginning of the
 * last batch. Those after complete blocks follow. */
enum { BQ_SNAPSHOT_LAST, BQ_SNAPSHOT_BEFORE, BQ_SNAPSHOTS_RECENT };

typedef struct bq_recurrence {
  size_t floats;       /* of a snapshot; 0: no layer has a state */
  size_t layer_floats; /* of one layer in a snapshot */
  float *next;         /* [floats]: states in the open batch, per layer after its computed rows */
  const float *start;  /* [floats]: the snapshot at the beginning of the open batch; `next` if it
                          begins at position 0 */
  bq_snapshot *held;   /* [n_held]: the two recent ones, then those after complete blocks in no
                          particular order */
  uint32_t n_held;
} bq_recurrence;

bq_recurrence bq_recurrence_lay_out(bq_arena *arena, const bq_config *config, uint32_t context);
/* Discards all snapshots, for a new session or one that is recomputed from its start. */
void bq_recurrence_clear(bq_recurrence *r);
void bq_recurrence_copy(bq_recurrence *to, const bq_recurrence *from);

/* The largest number of positions, at most n, with a snapshot, or 0. */
uint32_t bq_recurrence_floor(const bq_recurrence *r, uint32_t n);
/* The snapshot after n positions; NULL if it does not exist or n is 0. */
float *bq_recurrence_find(const bq_recurrence *r, uint32_t n);
/* Discards snapshots after more than n positions. */
void bq_recurrence_truncate(bq_recurrence *r, uint32_t n);

/* Called at the beginning of a forward batch, after `start` positions, whose snapshot must exist;
 * and at its end, after `end` positions, which makes a snapshot. The matrices of states, nearly all
 * of their bytes, are not copied: the first row of a batch reads them from the snapshot and writes
 * them to `next`, in all layers but the skipped ones. */
void bq_recurrence_open(bq_recurrence *r, const bq_config *config, const bq_layer_set *skipped,
                        uint32_t start);
void bq_recurrence_close(bq_recurrence *r, uint32_t end);

/* Position of the snapshot that is saved in addition to the one after `computed` positions: the one
 * at a block boundary from which the last position can be recomputed; 0 if none exists. */
uint32_t bq_recurrence_saved_block(const bq_recurrence *r, uint32_t computed);
/* Creates the entries of these two snapshots in an empty session; the caller then fills in their
 * states. */
void bq_recurrence_fill(bq_recurrence *r, uint32_t block, uint32_t computed);

/* The state of a layer in the open batch; and the one at its beginning, in which only matrices may
 * be read. */
float *bq_recurrence_state(const bq_recurrence *r, const bq_config *config, uint32_t layer);
const float *bq_recurrence_start(const bq_recurrence *r, const bq_config *config, uint32_t layer);

#endif
