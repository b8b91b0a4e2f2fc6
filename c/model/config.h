/* What a model is: one structure for every architecture, filled from a file's CONF section.
 * Later architectures add fields; zero means what the ones before did. */
#ifndef BQ_CONFIG_H
#define BQ_CONFIG_H

#include "core/cursor.h"
#include "core/status.h"

typedef enum bq_norm { BQ_NORM_RMS = 0, BQ_NORM_LAYER = 1 } bq_norm;
typedef enum bq_position { BQ_POSITION_ROPE = 0, BQ_POSITION_LEARNED = 1 } bq_position;
typedef enum bq_activation { BQ_SILU = 0, BQ_GELU = 1, BQ_RELU = 2 } bq_activation;
typedef enum bq_rope_pairs { BQ_ROPE_HALF = 0, BQ_ROPE_ADJACENT = 1 } bq_rope_pairs;

typedef struct bq_config {
  uint32_t arch;
  uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, context;
  bq_norm norm;
  float norm_eps;
  bq_position position;
  float rope_theta;
  bq_rope_pairs rope_pairs;
  uint32_t rope_dim;
  bq_activation activation;
  bool gated, tied;
  uint32_t tokens, merges; /* of the TOKN section */
} bq_config;

/* Reads and checks a CONF payload (docs/FORMAT.md, "CONF keys"): every value in its range and
 * fitting the others, so that no product of two of them overflows 64 bits later.
 * FORMAT, UNSUPPORTED. */
bq_status bq_config_read(const uint8_t *payload, size_t bytes, uint64_t file_offset,
                         bq_config *out, bq_error *err);

#endif
