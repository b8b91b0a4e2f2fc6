#include "session/recurrence.h"

#include <string.h>

#include "core/assert.h"
#include "core/minmax.h"

/* Layers with a state before this one. */
static uint32_t states_before(const bq_config *c, uint32_t layer) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < layer; i++) n += bq_config_convolves(c, i);
  return n;
}

bq_recurrence bq_recurrence_lay_out(bq_arena *arena, const bq_config *c, uint32_t context) {
  bq_recurrence r = {0};
  if (!bq_config_recurrent(c)) return r;
  r.layer_floats = (size_t)(c->conv_size - 1) * c->hidden; /* at most 15 * 65,536 */
  const uint64_t floats = (uint64_t)states_before(c, c->layers) * r.layer_floats;
  r.floats = (size_t)floats;
  r.next = bq_arena_take(arena, floats, sizeof *r.next);
  for (int i = 0; i < BQ_RECENT_SNAPSHOTS; i++)
    r.recent[i] = bq_arena_take(arena, floats, sizeof *r.recent[i]);
  r.blocks = bq_arena_take(arena, context / BQ_KV_BLOCK * floats, sizeof *r.blocks);
  return r;
}

void bq_recurrence_clear(bq_recurrence *r) {
  for (int i = 0; i < BQ_RECENT_SNAPSHOTS; i++) r->recent_position[i] = BQ_NO_SNAPSHOT;
  r->n_blocks = 0;
}

void bq_recurrence_copy(bq_recurrence *to, const bq_recurrence *from) {
  const size_t bytes = from->floats * sizeof *from->next;
  if (!bytes) return;
  for (int i = 0; i < BQ_RECENT_SNAPSHOTS; i++) {
    to->recent_position[i] = from->recent_position[i];
    memcpy(to->recent[i], from->recent[i], bytes);
  }
  to->n_blocks = from->n_blocks;
  memcpy(to->blocks, from->blocks, from->n_blocks * bytes);
}

uint32_t bq_recurrence_floor(const bq_recurrence *r, uint32_t n) {
  if (!r->floats) return n;
  uint32_t best = bq_min32(n / BQ_KV_BLOCK, r->n_blocks) * BQ_KV_BLOCK;
  for (int i = 0; i < BQ_RECENT_SNAPSHOTS; i++) {
    const uint32_t at = r->recent_position[i];
    if (at != BQ_NO_SNAPSHOT && at <= n && at > best) best = at;
  }
  return best;
}

float *bq_recurrence_find(const bq_recurrence *r, uint32_t n) {
  if (n == 0) return NULL;
  if (n % BQ_KV_BLOCK == 0 && n / BQ_KV_BLOCK <= r->n_blocks)
    return r->blocks + (n / BQ_KV_BLOCK - 1) * r->floats;
  for (int i = 0; i < BQ_RECENT_SNAPSHOTS; i++)
    if (r->recent_position[i] == n) return r->recent[i];
  return NULL;
}

void bq_recurrence_cut(bq_recurrence *r, uint32_t n) {
  for (int i = 0; i < BQ_RECENT_SNAPSHOTS; i++)
    if (r->recent_position[i] > n) r->recent_position[i] = BQ_NO_SNAPSHOT;
  r->n_blocks = bq_min32(r->n_blocks, n / BQ_KV_BLOCK);
}

void bq_recurrence_open(bq_recurrence *r, uint32_t start) {
  const size_t bytes = r->floats * sizeof *r->next;
  if (!bytes) return;
  const float *from = bq_recurrence_find(r, start);
  bq_assert(from || start == 0);
  if (from) memcpy(r->next, from, bytes);
  else memset(r->next, 0, bytes);
}

void bq_recurrence_close(bq_recurrence *r, uint32_t end) {
  const size_t bytes = r->floats * sizeof *r->next;
  if (!bytes) return;
  float *oldest = r->recent[1];
  r->recent[1] = r->recent[0];
  r->recent_position[1] = r->recent_position[0];
  r->recent[0] = r->next;
  r->recent_position[0] = end;
  r->next = oldest;
  if (end % BQ_KV_BLOCK) return;
  bq_assert(r->n_blocks + 1 == end / BQ_KV_BLOCK);
  memcpy(r->blocks + r->n_blocks * r->floats, r->recent[0], bytes);
  r->n_blocks++;
}

void bq_recurrence_fill(bq_recurrence *r, uint32_t computed) {
  bq_recurrence_clear(r);
  if (!r->floats) return;
  r->n_blocks = computed / BQ_KV_BLOCK;
  if (computed % BQ_KV_BLOCK) r->recent_position[0] = computed;
}

float *bq_recurrence_state(const bq_recurrence *r, const bq_config *c, uint32_t layer) {
  return r->next + states_before(c, layer) * r->layer_floats;
}

void bq_convolve(const bq_config *c, const float *taps, float *state, const float *in, float *out,
                 size_t tokens, size_t from, size_t to) {
  const size_t hidden = c->hidden, past = c->conv_size - 1;
  for (size_t t = 0; t < tokens; t++) {
    const float *gate_in = in + t * 3 * hidden, *gate_out = gate_in + hidden;
    const float *x = gate_out + hidden;
    float *y = out + t * hidden;
    for (size_t i = from; i < to; i++) {
      const float *tap = taps + i * (past + 1), v = gate_in[i] * x[i];
      float sum = 0;
      for (size_t k = 0; k < past; k++) sum += tap[k] * state[k * hidden + i];
      for (size_t k = 0; k + 1 < past; k++) state[k * hidden + i] = state[(k + 1) * hidden + i];
      state[(past - 1) * hidden + i] = v;
      y[i] = gate_out[i] * (sum + tap[past] * v);
    }
  }
}
