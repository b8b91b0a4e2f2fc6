/* Attention is summed over all layers and heads, because positions are evicted from all layers at
 * once. The sums are integers.
 *
 * After every BQ_KV_BLOCK positions, BQ_KV_BLOCK positions are evicted, and the remaining ones move
 * to the front, their bytes unchanged. The slot of a position is then the number of earlier
 * positions that are still in the cache. A batch ends where positions are evicted. Until then
 * attention is stored per query, so that a position can be recomputed. */
#include "session/evict.h"

#include <string.h>

#include "core/minmax.h"
#include "kernels/kv.h"

static uint32_t groups_of(const bq_session *s) { return bq_eviction_groups(&s->options); }

static uint32_t *by_query_of(const bq_session *s, size_t thread, uint32_t position) {
  return s->eviction.by_query + (thread * BQ_KV_BLOCK + position % BQ_KV_BLOCK) * groups_of(s);
}

void bq_eviction_reset(bq_session *s) {
  if (!s->options.evict) return; /* `scored` and `evicted` are always 0 then */
  s->eviction.scored = s->kv.evicted = 0;
  memset(s->eviction.totals, 0, groups_of(s) * sizeof *s->eviction.totals);
}

void bq_eviction_resume(bq_session *s, uint32_t scored) {
  s->eviction.scored = scored;
  s->kv.evicted = scored > s->options.kv_window ? scored - s->options.kv_window : 0;
}

/* Adds the attention of a complete block of queries to the totals. */
static void add_to_totals(bq_session *s) {
  const uint32_t n = groups_of(s);
  for (uint32_t p = s->eviction.scored; p < s->eviction.scored + BQ_KV_BLOCK; p++)
    for (uint32_t i = 0; i < n; i++) s->eviction.totals[i] += by_query_of(s, 0, p)[i];
  s->eviction.scored += BQ_KV_BLOCK;
}

/* Chooses the groups that stay: writes their numbers to `kept`, in order, and compacts `totals`
 * likewise. */
static void choose_groups(bq_session *s) {
  const uint32_t sinks = (s->options.sinks + BQ_KV_SCALED - 1) / BQ_KV_SCALED;
  /* The newest half of the window is never evicted. */
  const uint32_t newest = s->options.kv_window / 2 / BQ_KV_SCALED;
  uint32_t n = groups_of(s);
  for (uint32_t i = 0; i < n; i++) s->eviction.kept[i] = i;
  for (uint32_t i = 0; i < BQ_KV_BLOCK / BQ_KV_SCALED; i++) {
    uint32_t min_group = sinks;
    for (uint32_t at = sinks; at < groups_of(s) - newest - i; at++)
      if (s->eviction.totals[at] < s->eviction.totals[min_group]) min_group = at;
    n--;
    memmove(s->eviction.kept + min_group, s->eviction.kept + min_group + 1,
            (n - min_group) * sizeof *s->eviction.kept);
    memmove(s->eviction.totals + min_group, s->eviction.totals + min_group + 1,
            (n - min_group) * sizeof *s->eviction.totals);
  }
  memset(s->eviction.totals + n, 0, BQ_KV_BLOCK / BQ_KV_SCALED * sizeof *s->eviction.totals);
}

/* Whether positions are evicted from a layer: it has a KV cache and no sliding window. */
static bool evicts(const bq_config *c, uint32_t layer) {
  return !bq_config_window(c, layer) && bq_config_stores(c, layer);
}

static void compact_slots(bq_session *s) {
  const bq_config *c = &s->model->config;
  const uint32_t n = s->options.kv_window / BQ_KV_SCALED;
  for (uint32_t layer = 0; layer < c->layers; layer++)
    for (uint32_t h = 0; h < bq_config_kv_heads(c, true) && evicts(c, layer); h++) {
      const bq_kv_view kv = bq_cache_view(&s->kv, layer, h);
      for (uint32_t i = 0; i < n; i++)
        if (s->eviction.kept[i] != i)
          bq_kv_copy(s->options.kv_type, &kv, s->eviction.kept[i] * BQ_KV_SCALED, i * BQ_KV_SCALED);
    }
  s->kv.evicted += BQ_KV_BLOCK;
}

bq_status bq_eviction_begin(bq_session *s, uint32_t start, uint32_t tokens, bq_error *err) {
  if (!s->options.evict || s->sequence.n_texts) return BQ_OK;
  if (start == s->eviction.scored + BQ_KV_BLOCK) {
    const bool full = start > s->options.kv_window;
    bq_status status = full ? bq_cache_own_all(&s->kv, err) : BQ_OK;
    if (status) return status;
    add_to_totals(s);
    if (full) choose_groups(s);
    if (full) compact_slots(s);
  }
  for (size_t t = 0; t < s->options.parallel.threads; t++)
    memset(by_query_of(s, t, start), 0,
           (size_t)tokens * groups_of(s) * sizeof *s->eviction.by_query);
  return BQ_OK;
}

void bq_eviction_end(bq_session *s) {
  if (!s->options.evict || s->sequence.n_texts) return;
  const size_t n = (size_t)s->part.length * groups_of(s);
  uint32_t *sums = by_query_of(s, 0, s->part.start);
  for (size_t t = 1; t < s->options.parallel.threads; t++)
    for (size_t i = 0; i < n; i++) sums[i] += by_query_of(s, t, s->part.start)[i];
}
