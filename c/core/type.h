/* Facts about weight types: what a file may store, in which layout, in how many
 * bytes. One row per type; the functions that compute with them live in kernels/.
 * Byte layouts are drawn in docs/FORMAT.md. */
#ifndef BQ_TYPE_H
#define BQ_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ids are stored in files: append only.
 * X(NAME, "name", weights per block, bytes per row-major block, k-step of a tile
 *   or 0 when never tiled, bytes of a tile of 8 rows x one k-step, this engine computes with it) */
#define BQ_TYPE_LIST(X)                    \
  X(F32, "f32", 1, 4, 0, 0, 1)             \
  X(F16, "f16", 1, 2, 0, 0, 1)             \
  X(BF16, "bf16", 1, 2, 0, 0, 1)           \
  X(BQ4_16, "bq4_16", 16, 12, 32, 192, 1)  \
  X(BQ4_32, "bq4_32", 32, 20, 32, 160, 1)  \
  X(BQ4_64, "bq4_64", 64, 36, 64, 288, 1)  \
  X(BQ4H_32, "bq4h_32", 32, 18, 32, 144, 1) \
  X(BQ4A_32, "bq4a_32", 32, 20, 0, 0, 0)   \
  X(BQ8_32, "bq8_32", 32, 34, 32, 272, 1)  \
  X(Q2S_64, "q2s_64", 64, 20, 0, 0, 0)     \
  X(Q2A_64, "q2a_64", 64, 20, 0, 0, 0)     \
  X(Q3A_64, "q3a_64", 64, 28, 0, 0, 0)     \
  X(Q4A_64, "q4a_64", 64, 36, 0, 0, 0)     \
  X(TERN_64, "tern_64", 64, 18, 0, 0, 0)

typedef enum bq_type {
#define BQ_X(name, text, block, bytes, step, tile, runs) BQ_TYPE_##name,
  BQ_TYPE_LIST(BQ_X)
#undef BQ_X
      BQ_TYPE_COUNT
} bq_type;

typedef enum bq_layout {
  BQ_ROWS = 0,  /* rows one after the other; each row padded to whole blocks */
  BQ_TILED = 1, /* groups of 8 rows, each a run of tiles along k; rows padded to 8 */
  BQ_FLAT = 2   /* v1 only: one run of blocks over the flattened tensor, rows may share a block */
} bq_layout;

typedef struct bq_type_facts {
  const char *name;
  uint32_t block;       /* weights per block */
  uint32_t block_bytes; /* bytes of a row-major block */
  uint32_t tile_step;   /* k covered by one tile; 0: this type is never tiled */
  uint32_t tile_bytes;  /* bytes of one tile (8 rows x tile_step) */
  bool runs;            /* this engine computes with it */
} bq_type_facts;

#define BQ_TILE_ROWS 8u

/* NULL for ids this engine doesn't know. */
const bq_type_facts *bq_type_get(uint32_t id);

/* Bytes of a rows x cols matrix; UINT64_MAX on overflow or a layout the type lacks.
 * The layout that the engine computes with is BQ_TILED where the type has one, else BQ_ROWS. */
uint64_t bq_type_bytes(bq_type type, bq_layout layout, uint64_t rows, uint64_t cols);
bq_layout bq_type_run_layout(bq_type type);

#endif
