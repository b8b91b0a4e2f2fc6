#include "session/recurrence.h"

#include <string.h>

#include "core/assert.h"
#include "core/minmax.h"
#include "session/recurrent_layers.h"

/* Number of recurrent layers before this one. */
static uint32_t states_before(const bq_config *c, uint32_t layer) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < layer; i++) n += bq_config_recurs(c, i);
  return n;
}

/* Maximum number of snapshots after complete blocks. */
static uint32_t block_snapshots(uint64_t floats, uint32_t context) {
  const uint64_t fitting = BQ_SNAPSHOTS_BYTES / (floats * sizeof(float) + 1);
  return bq_min32((uint32_t)bq_max64(fitting, 2), context / BQ_KV_BLOCK);
}

bq_recurrence bq_recurrence_lay_out(bq_arena *arena, const bq_config *c, uint32_t context) {
  bq_recurrence r = {0};
  if (!bq_config_recurrent(c)) return r;
  const uint64_t layer = bq_state_floats(c), floats = states_before(c, c->layers) * layer;
  if (floats > SIZE_MAX / sizeof(float)) arena->overflow = true;
  r.layer_floats = (size_t)layer;
  r.floats = (size_t)floats;
  r.n_held = BQ_SNAPSHOTS_RECENT + block_snapshots(floats, context);
  r.next = bq_arena_take(arena, floats, sizeof *r.next);
  r.held = bq_arena_take(arena, r.n_held, sizeof *r.held);
  for (uint32_t i = 0; i < r.n_held; i++) {
    float *states = bq_arena_take(arena, floats, sizeof *states);
    if (r.held) r.held[i] = (bq_snapshot){states, BQ_NO_SNAPSHOT};
  }
  return r;
}

void bq_recurrence_clear(bq_recurrence *r) {
  for (uint32_t i = 0; i < r->n_held; i++) r->held[i].position = BQ_NO_SNAPSHOT;
}

void bq_recurrence_copy(bq_recurrence *to, const bq_recurrence *from) {
  for (uint32_t i = 0; i < from->n_held; i++) {
    to->held[i].position = from->held[i].position;
    if (from->held[i].position != BQ_NO_SNAPSHOT)
      memcpy(to->held[i].states, from->held[i].states, from->floats * sizeof *from->next);
  }
}

uint32_t bq_recurrence_floor(const bq_recurrence *r, uint32_t n) {
  if (!r->floats) return n;
  uint32_t best = 0;
  for (uint32_t i = 0; i < r->n_held; i++) {
    const uint32_t at = r->held[i].position;
    if (at != BQ_NO_SNAPSHOT && at <= n && at > best) best = at;
  }
  return best;
}

float *bq_recurrence_find(const bq_recurrence *r, uint32_t n) {
  for (uint32_t i = 0; i < r->n_held; i++)
    if (n > 0 && r->held[i].position == n) return r->held[i].states;
  return NULL;
}

void bq_recurrence_truncate(bq_recurrence *r, uint32_t n) {
  for (uint32_t i = 0; i < r->n_held; i++)
    if (r->held[i].position > n) r->held[i].position = BQ_NO_SNAPSHOT;
}

void bq_recurrence_open(bq_recurrence *r, const bq_config *c, const bq_layer_set *skipped,
                        uint32_t start) {
  if (!r->floats) return;
  const float *from = bq_recurrence_find(r, start);
  bq_assert(from || start == 0);
  r->start = from ? from : r->next;
  if (!from) memset(r->next, 0, r->floats * sizeof *r->next);
  for (uint32_t i = 0; from && i < c->layers; i++) {
    if (!bq_config_recurs(c, i)) continue;
    const size_t n = bq_layer_set_has(skipped, i) ? r->layer_floats : (size_t)bq_state_past(c);
    memcpy(bq_recurrence_state(r, c, i), bq_recurrence_start(r, c, i), n * sizeof *from);
  }
}

/* The entry for the next snapshot after a complete block: a free one, or the oldest. NULL: the
 * context is shorter than a block. */
static bq_snapshot *block_slot(bq_recurrence *r) {
  bq_snapshot *best = NULL;
  for (uint32_t i = BQ_SNAPSHOTS_RECENT; i < r->n_held; i++) {
    bq_snapshot *s = &r->held[i];
    if (s->position == BQ_NO_SNAPSHOT) return s;
    if (!best || s->position < best->position) best = s;
  }
  return best;
}

void bq_recurrence_close(bq_recurrence *r, uint32_t end) {
  if (!r->floats) return;
  float *oldest = r->held[BQ_SNAPSHOT_BEFORE].states;
  r->held[BQ_SNAPSHOT_BEFORE] = r->held[BQ_SNAPSHOT_LAST];
  r->held[BQ_SNAPSHOT_LAST] = (bq_snapshot){r->next, end};
  r->next = oldest;
  bq_snapshot *slot = end % BQ_KV_BLOCK == 0 ? block_slot(r) : NULL;
  if (!slot) return;
  memcpy(slot->states, r->held[BQ_SNAPSHOT_LAST].states, r->floats * sizeof *r->next);
  slot->position = end;
}

uint32_t bq_recurrence_saved_block(const bq_recurrence *r, uint32_t computed) {
  if (!r->floats || computed == 0) return 0;
  const uint32_t block = (computed - 1) / BQ_KV_BLOCK * BQ_KV_BLOCK;
  return bq_recurrence_find(r, block) ? block : 0;
}

void bq_recurrence_fill(bq_recurrence *r, uint32_t block, uint32_t computed) {
  bq_recurrence_clear(r);
  if (!r->floats) return;
  if (computed) r->held[BQ_SNAPSHOT_LAST].position = computed;
  if (block) block_slot(r)->position = block;
}

float *bq_recurrence_state(const bq_recurrence *r, const bq_config *c, uint32_t layer) {
  return r->next + states_before(c, layer) * r->layer_floats;
}

const float *bq_recurrence_start(const bq_recurrence *r, const bq_config *c, uint32_t layer) {
  return r->start + states_before(c, layer) * r->layer_floats;
}
