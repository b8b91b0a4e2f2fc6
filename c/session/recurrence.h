/* States of layers that keep no keys and values: short convolutions (LFM2). Such a layer knows the
 * positions before the next one by a state of fixed size, its last inputs:
 *
 *   state of a layer   f32 [conv_size - 1][hidden], oldest first; zeros before the first position
 *   snapshot           the states of all such layers after one number of positions
 *
 * A state can't be cut as a KV cache can: the state after 700 positions does not follow from the one
 * after 900. So a session keeps snapshots after every whole block of BQ_KV_BLOCK positions, after
 * all positions that are computed, and where the last pass began (one token back while decoding).
 * To go back is to go to the nearest snapshot and to compute the rest again, at most
 * BQ_KV_BLOCK - 1 positions. Passes therefore end at multiples of BQ_KV_BLOCK (run.c).
 *
 * Memory is the session's own; a fork copies it. Without such layers everything here is empty, and
 * every number of positions counts as held. */
#ifndef BQ_RECURRENCE_H
#define BQ_RECURRENCE_H

#include "bq.h"

enum { BQ_RECENT_SNAPSHOTS = 2 };

typedef struct bq_recurrence {
  size_t floats;    /* of a snapshot; 0: no layer has a state */
  size_t layer_floats; /* of one layer in it */
  float *next;      /* [floats]: the pass under way, each layer after the rows it has computed */
  float *recent[BQ_RECENT_SNAPSHOTS]; /* after all computed positions; where the last pass began */
  uint32_t recent_position[BQ_RECENT_SNAPSHOTS]; /* BQ_NO_SNAPSHOT: not held */
  float *blocks;    /* [context / BQ_KV_BLOCK][floats]: i is after (i + 1) * BQ_KV_BLOCK positions */
  uint32_t n_blocks; /* so many are held, the first ones */
} bq_recurrence;

#define BQ_NO_SNAPSHOT UINT32_MAX

bq_recurrence bq_recurrence_lay_out(bq_arena *arena, const bq_config *config, uint32_t context);
/* Forgets all snapshots: of a new session, and of one that computes from its start. */
void bq_recurrence_clear(bq_recurrence *r);
void bq_recurrence_copy(bq_recurrence *to, const bq_recurrence *from);

/* The largest number of positions, at most n, whose snapshot is held; 0 always is. */
uint32_t bq_recurrence_floor(const bq_recurrence *r, uint32_t n);
/* The snapshot after n positions; NULL: not held, or n is 0. */
float *bq_recurrence_find(const bq_recurrence *r, uint32_t n);
/* Forgets snapshots after more than n positions. */
void bq_recurrence_cut(bq_recurrence *r, uint32_t n);

/* A pass begins at, or ends with, so many positions. The snapshot at its beginning is held. */
void bq_recurrence_open(bq_recurrence *r, uint32_t start);
void bq_recurrence_close(bq_recurrence *r, uint32_t end);
/* Makes room for what was saved of so many positions: whole blocks, and one after all of them. */
void bq_recurrence_fill(bq_recurrence *r, uint32_t computed);

/* Floats that are saved of so many positions: whole blocks, then what is after all of them. */
static inline uint64_t bq_recurrence_saved(const bq_recurrence *r, uint32_t computed) {
  return ((uint64_t)computed / BQ_KV_BLOCK + (computed % BQ_KV_BLOCK > 0)) * r->floats;
}

/* The state of a layer in the pass under way. */
float *bq_recurrence_state(const bq_recurrence *r, const bq_config *config, uint32_t layer);

/* Channels from...to - 1 of `tokens` rows that follow each other:
 *
 *   v = in[0] * in[2];  out = in[1] * (taps[0] * v of K - 1 rows ago + ... + taps[K - 1] * v)
 *
 * in: [tokens][3][hidden]; taps: [hidden][K]; out: [tokens][hidden]. The state is read and moved
 * on. Every sum is added up in the order of its taps, so the bits do not depend on how rows are
 * cut into passes, or channels into shares. */
void bq_convolve(const bq_config *config, const float *taps, float *state, const float *in,
                 float *out, size_t tokens, size_t from, size_t to);

#endif
