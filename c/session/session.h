/* The state of a session, and the files of this directory that maintain its parts.
 *
 * A session computes in *forward batches*. A batch computes the rows of a prefill window layer by
 * layer, in micro-batches of options.batch rows, so that a layer's weights are used for the
 * complete window before the next layer is needed:
 *
 *   for each window of the sequence:   x[rows] = embedding
 *     for each layer, micro-batch:     x[rows] = layer(x[rows])            <- one work unit
 *   for the last window:               logits = head(norm(x[last]))        <- one work unit
 *
 * Decode is a window of one token. A run can stop between any two work units: when the caller's
 * limit is reached, or when weights have not arrived. A forward batch may have parts of several
 * sessions, its *members* (continuous batching); the first member owns it, and its buffers and
 * options are used. Or the rows are *texts* of one session, packed sequences that don't attend to
 * each other. The result of every operation for a token is independent of the other rows of the
 * batch. So any division into windows, micro-batches and members gives the same bits as computing
 * token by token.
 *
 * The struct is divided by concern; each part is maintained by one file. There is one header per .c
 * file, and a file includes only files below it:
 *
 *   run  texts  save  create             entry points
 *   spread  page  work                   other hosts, weights read on demand, counting work
 *   forward  head  clusters  embed       a layer, the head, embeddings
 *   linear  attention  recurrent_steps  experts   the steps of a layer
 *   dense                                layers after the pooling
 *   matmul  adapter  sinks  hadamard     parts of the steps
 *   ops  threads  sampler  outputs
 *   sequence                             tokens and the state of their computation
 *   batch                                forward batches
 *   evict  cache  options                KV cache
 *   recurrence                           states of recurrent layers
 *
 * This header has no .c file. */
#ifndef BQ_SESSION_H
#define BQ_SESSION_H

#include "bq.h"
#include "core/assert.h"
#include "core/hash.h"
#include "model/clusters.h"
#include "model/model.h"
#include "session/cache.h"
#include "session/recurrence.h"

/* The expert assignments of a micro-batch: (token, expert) pairs, sorted by expert, then token.
 * Each token has config.experts_used (`used`) experts. */
typedef struct bq_expert_routing {
  uint32_t *expert; /* [tokens][used]: numbers of the experts, rising */
  float *weight;    /* [tokens][used] */
  uint32_t *pair;   /* [tokens][used]: index in the sorted pairs */
  uint32_t *token;  /* [pairs] */
  uint32_t *first;  /* [experts + 1]: index of the first pair of each expert */
  uint32_t *active; /* [experts + 1]: number of experts with tokens, then their numbers */
  uint8_t *panel;   /* quantized rows of pairs; those of an expert begin at pair * panel_bytes */
  size_t panel_bytes;
} bq_expert_routing;

/* Scratch of one micro-batch; rows are tokens. Several tokens share `norm` and `panel`; for one
 * token each thread prepares its own, at norm + thread * hidden and panel + thread * panel_bytes.
 */
typedef struct bq_scratch {
  float *norm;    /* [micro-batch or threads][bq_config_max_normed_cols] */
  uint8_t *panel; /* quantized activations, for the widest matmul input */
  size_t panel_bytes; /* of one token */
  float *matmul;       /* [threads][matmul_floats]: bq_matmul_scratch */
  size_t matmul_floats;
  float *buffer[BQ_BUFFERS]; /* [micro-batch][bq_buffer_cols]; X is batch.x */
  uint8_t *attend; /* [threads][attend_bytes] */
  size_t attend_bytes;
  uint8_t *attend_shared; /* [query heads][attend_shared_bytes]: scores and weights of one token */
  size_t attend_shared_bytes; /* 0: threads never share the attention of a token */
  bq_expert_routing *routes; /* NULL in models without experts */
} bq_scratch;

/* The state of the spread matmul that a work unit has stopped at. */
typedef enum bq_spread_state {
  BQ_SPREAD_NONE = 0,
  BQ_SPREAD_WANTED,
  BQ_SPREAD_DONE
} bq_spread_state;

/* Whether the build has tensor parallelism. Builds with threads don't: their threads share
 * memory. */
#ifdef BQ_NO_SPREAD
enum { BQ_CAN_SPREAD = 0 };
#else
enum { BQ_CAN_SPREAD = 1 };
#endif

enum { BQ_STATE_HEAD = 128, BQ_STATE_HASH = 8 }; /* bytes, save.c */

/* A session in a forward batch. */
typedef struct bq_batch_member {
  bq_session *s;
  uint32_t row; /* row of its part's first token in the batch */
} bq_batch_member;

/* One of the texts of a session (packed sequences). */
typedef struct bq_text {
  uint32_t row;   /* row of its first token in the batch */
  uint32_t first; /* index of that token in `tokens` and in the cache */
  uint32_t second; /* position, relative to `first`, of the first token of the second type; 0: all
                      are of the first */
} bq_text;

/* The token sequence, and how much of it is computed. */
typedef struct bq_sequence {
  uint32_t *tokens;   /* [context] */
  uint32_t n_tokens;
  uint32_t n_draft;   /* number of draft tokens after them in `tokens` (bq_session_draft) */
  uint32_t computed;  /* positions that every layer has computed; <= n_tokens + n_draft */
  bq_text *texts;     /* [n_texts + 1]: several texts in place of the sequence (texts.c); the last
                         entry is the end of the last text */
  uint32_t n_texts;   /* 0: the session holds a sequence */
  uint32_t second;    /* of the sequence: as bq_text.second */
} bq_sequence;

/* The part of a session that is in a forward batch: a prefill window, or one token in decode. */
typedef struct bq_batch_part {
  bq_session *owner;      /* the owner of the forward batch; NULL: no batch is open */
  uint32_t start, length; /* positions [start, start + length) */
} bq_batch_part;

/* The forward batch of a session, valid while its part.owner is the session itself. */
typedef struct bq_forward_batch {
  bq_batch_member *members; /* [options.prefill_window]; n_members are in use, the first is this
                               session */
  uint32_t n_members;
  uint32_t rows;      /* of all members together, at most options.prefill_window */
  uint32_t embedded;  /* rows of x that are embedded; < rows: embedding rows have to be read */
  uint32_t layer;     /* the layer to compute next; == layers: the head is next */
  uint32_t row;       /* the first row of the next micro-batch in that layer */
  uint32_t gathered;  /* with several members: number of rows with outputs, after they have been
                         moved to the front of x; 0: not moved yet */
  uint32_t head_unit; /* number of completed pages of the head; 0 unless the head is paged */
  uint32_t head_at;   /* number of rows with outputs that the head's current page has computed */
  uint32_t phase;     /* the next phase of a work unit with spread matmuls */
  bq_spread_state spread;
  float *x;     /* [options.prefill_window][hidden]: hidden states between layers */
  float *start; /* [options.prefill_window][hidden]: x before the first layer; NULL without
                   layer_embed */
  float *layer_embeds; /* [options.prefill_window][layers * layer_embed]: rows of the table,
                          scaled */
  float *rope[BQ_ROPE_TABLES]; /* [options.prefill_window][rope_dim / 2][2]: bq_rope_table of each
                                  row */
} bq_forward_batch;

/* Outputs: logits, hidden states or pooled vectors, and the requests for them. */
typedef struct bq_outputs {
  uint32_t from;      /* positions from here to the end of the sequence have outputs */
  bool ready;         /* the outputs are computed */
  bq_pooling pooling; /* not BQ_POOL_NONE: the output is one pooled vector; no head is computed */
  bool normalize;     /* the pooled vector gets length 1 */
  bool dense;         /* the dense layers after the pooling are computed */
  bool approximate;   /* only a share of the head is computed (bq_session_clusters) */
  uint32_t cols;      /* hidden if outputs are hidden states, else vocab */
  float *rows;        /* [options.rows][cols] */
  float *pooled;      /* [hidden] */
  float *inner;       /* [dense1]: between the dense layers; NULL without them, like `dense_out` */
  float *dense_out;   /* [texts][bq_config_vector_cols] */
  bq_candidate *candidates; /* [vocab]: the sampler's; NULL if outputs are hidden states */
} bq_outputs;

/* Work units of a run, and their work. */
typedef struct bq_run_state {
  uint64_t work_units; /* computed since the session was created */
  uint64_t end;        /* the current run ends at this number of work units */
  bool stopped;        /* the current run is to end */
  bq_work work;        /* of all work units */
} bq_run_state;

/* Progress of restoring a saved session (save.c). */
typedef struct bq_restore_state {
  uint64_t bytes;      /* received so far; 0: no session is being restored */
  bq_xxh64_state hash; /* of the received bytes */
  uint8_t ends[BQ_STATE_HEAD + BQ_STATE_HASH]; /* the head and the hash of the state */
} bq_restore_state;

/* Attention sinks: the sequence's first positions, which stay visible to every window. */
typedef struct bq_sink_cache {
  float *kv; /* [layers][kv_heads][2][options.sinks][head_dim], the maximum kv_heads and head_dim of
                all layers: keys, rotated to their own positions, and values */
  float *rope[BQ_ROPE_TABLES]; /* as bq_forward_batch.rope: the rotation from there to the positions
                                  directly before the window of a row */
} bq_sink_cache;

/* Eviction by accumulated attention (evict.c), in groups of 32 cache slots. */
typedef struct bq_eviction {
  uint32_t scored;    /* number of queries whose attention `totals` includes, a multiple of
                         BQ_KV_BLOCK */
  uint64_t *totals;   /* [groups] */
  uint32_t *by_query; /* [threads][BQ_KV_BLOCK][groups]: attention of the queries from `scored` on
                         (bq_attend_job); between batches thread 0 has the sums of all threads */
  uint32_t *kept;     /* [groups]: scratch, the groups that are not evicted */
} bq_eviction;

/* The LoRA adapter in use. */
typedef struct bq_lora_state {
  const bq_lora *matrices; /* [layers][BQ_ADAPTED_COUNT], the caller's; NULL: no adapter */
  float *down;   /* [micro-batch or threads][stride]: A x of a step, as scratch.norm; a memory block
                    of its own */
  size_t stride; /* maximum sum of the ranks of a step's adapted matrices */
} bq_lora_state;

struct bq_session {
  const bq_model *model;
  bq_allocator allocator;
  bq_session_options options; /* with defaults filled in */
  uint64_t key;               /* bq_session_set_key */
  bq_layer_set skipped;       /* bq_session_skip */
  bq_sequence sequence;
  bq_batch_part part;
  bq_forward_batch batch;
  bq_outputs outputs;
  bq_run_state run;
  bq_restore_state restore;
  bq_sink_cache sink_cache;
  bq_eviction eviction;
  bq_lora_state lora;
  bq_kv_cache kv;
  bq_recurrence recurrence;
  bq_scratch scratch;
};

/* The first layer from `layer` on that isn't skipped; config.layers: all are skipped. */
static inline uint32_t bq_next_layer(const bq_session *s, uint32_t layer) {
  while (layer < s->model->config.layers && bq_layer_set_has(&s->skipped, layer)) layer++;
  return layer;
}
/* Number of positions of the sequence, without drafts, that every layer has computed. */
static inline uint32_t bq_sequence_complete(const bq_session *s) {
  return s->sequence.computed < s->sequence.n_tokens ? s->sequence.computed : s->sequence.n_tokens;
}
/* Number of positions of the sequence, including drafts, that have to be computed. */
static inline uint32_t bq_sequence_pending(const bq_session *s) {
  return s->sequence.n_tokens + s->sequence.n_draft - s->sequence.computed;
}
/* Whether outputs are hidden states or pooled vectors, so that no head is computed. */
static inline bool bq_outputs_hidden_states(const bq_session *s) {
  return s->options.hidden || s->outputs.pooling;
}
/* Whether logits are computed for a share of the head only (clusters.h). */
static inline bool bq_head_is_clustered(const bq_session *s) {
  return s->outputs.approximate && !bq_outputs_hidden_states(s);
}
/* The output row of a position, which must be outputs.from or later. */
static inline float *bq_output_at(const bq_session *s, uint32_t position) {
  bq_assert(position >= s->outputs.from && position - s->outputs.from < s->options.rows);
  return s->outputs.rows + (size_t)(position - s->outputs.from) * s->outputs.cols;
}
/* Number of floats of the sinks of one head in one layer, and of all heads in all layers. */
static inline size_t bq_sink_floats(const bq_session *s) {
  return 2 * (size_t)bq_moved_sinks(&s->options) * bq_config_max_head_dim(&s->model->config);
}
static inline size_t bq_sinks_floats(const bq_session *s) {
  const bq_config *c = &s->model->config;
  return (size_t)c->layers * bq_config_max_kv_heads(c) * bq_sink_floats(s);
}
/* Reports the end of a stage to the host's trace. */
static inline void bq_mark(const bq_session *s, bq_stage stage, uint32_t layer) {
  if (s->options.trace.mark) s->options.trace.mark(s->options.trace.ctx, stage, layer);
}

#endif
