/* Attention sinks: the first tokens of a sequence stay visible to every sliding window. Their keys
 * are stored, rotated to their own positions, and re-rotated for each window to the positions
 * directly before it. Maintains bq_session.sink_cache.kv. */
#ifndef BQ_SINKS_H
#define BQ_SINKS_H

#include "session/micro_batch.h"

/* Consecutive tokens of a micro-batch that belong to one text of a session and have the same first
 * visible position. */
typedef struct bq_segment {
  const bq_session *s;
  uint32_t at, tokens; /* index of the first token in the micro-batch, and number of tokens */
  uint32_t first;      /* cache position of the beginning of the text */
  uint32_t position;   /* cache position of the first token */
} bq_segment;

/* A thread's attention scratch for sinks; the kernels' scratch follows it. */
typedef struct bq_sink_block {
  uint8_t **table; /* addresses of the blocks that are attended to */
  uint8_t *block;  /* a head's part of the first of them, with the sinks at its end */
  float *keys;     /* keys of the sinks: [sinks][head_dim] */
} bq_sink_block;
bq_sink_block bq_sink_block_lay_out(bq_arena *arena, const bq_kv_cache *kv,
                                    const bq_session_options *o);
/* Stores the keys and values of the sinks in a segment. */
void bq_sinks_store(const bq_layer_run *p, const bq_segment *g, uint32_t head, const float *k,
                    const float *v, size_t stride);
/* Changes `attend` so that it uses a block table with a synthetic block of sinks, followed by the
 * window's blocks from position `from` on. The sinks are re-rotated to the positions directly
 * before the window. (Their original block may have been freed.) */
void bq_sinks_attend(const bq_layer_run *p, const bq_segment *g, uint32_t head, uint32_t from,
                     bq_attend_job *attend);

#endif
