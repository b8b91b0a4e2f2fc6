/* Session options: defaults, checks, and the sizes that follow from them alone. */
#ifndef BQ_OPTIONS_H
#define BQ_OPTIONS_H

#include "bq.h"

enum { BQ_FORKS_MAX = 1024, BQ_SINKS_MAX = 32, BQ_CONTEXT_MAX = 1 << 24 };

/* Resolves options: copies `in` (NULL: all defaults) to `out`, fills in defaults and checks the
 * options against the model. ARGUMENT: an option is out of range. All functions below require
 * resolved options. */
bq_status bq_session_options_resolve(const bq_config *config, const bq_session_options *in,
                                     bq_session_options *out, bq_error *err);

/* The sliding window of layers that have no window in the model; 0: none, or eviction is by
 * attention. */
static inline uint32_t bq_sliding_window(const bq_session_options *o) {
  return o->evict ? 0 : o->kv_window;
}
/* First position visible to `position` under a sliding window (0 = no window), rounded down to a
 * block boundary so that all queries of a block attend to the same span. */
static inline uint32_t bq_window_start(uint32_t window, uint32_t position) {
  if (!window || position < window) return 0;
  return (position + 1 - window) / BQ_KV_BLOCK * BQ_KV_BLOCK;
}
/* Maximum number of positions in the blocks that a token attends to, the block of sinks included.
 */
static inline uint64_t bq_window_span(uint32_t window) {
  return ((uint64_t)window + 2 * BQ_KV_BLOCK - 2) / BQ_KV_BLOCK * BQ_KV_BLOCK + BQ_KV_BLOCK;
}
/* Number of attention sinks that are re-rotated to the positions directly before a window. With
 * eviction by attention, sinks are not moved. */
static inline uint32_t bq_moved_sinks(const bq_session_options *o) {
  return o->evict ? 0 : o->sinks;
}
/* Number of groups of 32 cache slots for eviction by attention; 0: it is off. */
static inline uint32_t bq_eviction_groups(const bq_session_options *o) {
  return o->evict ? (o->kv_window + BQ_KV_BLOCK) / 32 : 0;
}
/* Maximum distance between a query and a key, after sinks are moved. */
static inline uint32_t bq_attention_span(const bq_session_options *o) {
  if (o->evict) return o->context;
  const uint64_t span = (uint64_t)o->kv_window + BQ_KV_BLOCK + o->sinks;
  return o->kv_window && span < o->context ? (uint32_t)span : o->context;
}
/* Panel rows of a token: i16 activations take two (matmul.h). */
static inline size_t bq_panel_rows(const bq_session_options *o) {
  return o->activations == BQ_ACTIVATIONS_I16 ? 2 : 1;
}
/* Maximum number of texts in one forward batch (texts.c). */
static inline uint32_t bq_max_texts(const bq_session_options *o) {
  return (o->prefill_window + 31) / 32;
}

#endif
