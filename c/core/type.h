/* The weight types that a file may store: their layouts and sizes, and the type that the engine
 * computes with. Encoders, kernels, the loader and tests all iterate over this list. Byte layouts
 * are drawn in docs/FORMAT.md. */
#ifndef BQ_TYPE_H
#define BQ_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One row per type. An id is a position in this list and is stored in files: append only.
 *
 * FLOAT(NAME, name, bytes of a weight)
 *   The engine computes with the type itself.
 * TILED(NAME, name, weights that share a scale, bits per weight, bytes of a scale, of a minimum)
 *   A *compute type*: the engine computes with it in tiles. The weight is q * scale with signed q
 *   or, if there is a minimum, q * scale + minimum with unsigned q. Bytes of a scale: 4 for f32, 2
 *   for f16, 0 for none, 1 for a sub-block scale: a signed byte, multiplied by an f16 that 256
 *   weights (a super-block) share. 7 bits are stored in bytes below 128; 2 bits without a minimum
 *   stand for -3, -1, 1 and 3. Two values are markers: 1 (BQ_TERNARY) is stored in 2 bits, which
 *   stand for -1, 0 and 1; 5 (BQ_CODES) is stored in 4 bits, which are codes: indices of the type's
 *   table of 16 weights (core/codes.h).
 * RARE(the same)
 *   A compute type that few files need; its kernels are shipped in a module of their own.
 * IMPORTED(the same)
 *   A rare compute type that only storage types are converted to; there is no encoder.
 * STORED(NAME, name, weights per block, bytes per block, offset of the scale in a block,
 *        bytes of a scale, bytes of the minimum after it, COMPUTE)
 *   A *storage type*, row-major only, which the loader converts to the compute type COMPUTE. If its
 *   blocks have the size of COMPUTE's, they hold the same numbers in another order (bq_row_shape);
 *   otherwise core/import.c converts them.
 * NAMED(NAME, name, weights per block, bytes per block)
 *   A reserved id; this version can't read the type. */
#define BQ_TYPE_LIST(FLOAT, TILED, RARE, IMPORTED, STORED, NAMED) \
  FLOAT(F32, f32, 4)                                        \
  FLOAT(F16, f16, 2)                                        \
  FLOAT(BF16, bf16, 2)                                      \
  RARE(BQ4_16, bq4_16, 16, 4, 4, 0)                        \
  TILED(BQ4_32, bq4_32, 32, 4, 4, 0)                        \
  RARE(BQ4_64, bq4_64, 64, 4, 4, 0)                        \
  TILED(BQ4H_32, bq4h_32, 32, 4, 2, 0)                      \
  TILED(BQ4A_32, bq4a_32, 32, 4, 2, 2)                      \
  TILED(BQ8_32, bq8_32, 32, 8, 2, 0)                        \
  NAMED(Q2S_64, q2s_64, 64, 20)                             \
  NAMED(Q2A_64, q2a_64, 64, 20)                             \
  NAMED(Q3A_64, q3a_64, 64, 28)                             \
  NAMED(Q4A_64, q4a_64, 64, 36)                             \
  NAMED(TERN_64, tern_64, 64, 18)                           \
  STORED(Q4_0, q4_0, 32, 18, 0, 2, 0, BQ4H_32)              \
  STORED(Q4_1, q4_1, 32, 20, 0, 2, 2, BQ4A_32)              \
  STORED(Q8_0, q8_0, 32, 34, 0, 2, 0, BQ8_32)               \
  STORED(Q5_0, q5_0, 32, 22, 0, 2, 0, BQ8_32)               \
  STORED(Q5_1, q5_1, 32, 24, 0, 2, 2, BQ7A_32)              \
  STORED(Q2_K, q2_k, 256, 84, 80, 2, 2, BQ4KA_16)           \
  STORED(Q3_K, q3_k, 256, 110, 108, 2, 0, BQ4K_16)          \
  STORED(Q4_K, q4_k, 256, 144, 0, 2, 2, BQ4KA_32)           \
  STORED(Q5_K, q5_k, 256, 176, 0, 2, 2, BQ7KA_32)           \
  STORED(Q6_K, q6_k, 256, 210, 208, 2, 0, BQ7K_16)          \
  STORED(IQ4_NL, iq4_nl, 32, 18, 0, 2, 0, BQ8_32)           \
  IMPORTED(BQ4K_16, bq4k_16, 16, 4, 1, 0)                   \
  IMPORTED(BQ4KA_16, bq4ka_16, 16, 4, 1, 1)                 \
  IMPORTED(BQ4KA_32, bq4ka_32, 32, 4, 1, 1)                 \
  IMPORTED(BQ7A_32, bq7a_32, 32, 7, 2, 2)                   \
  IMPORTED(BQ7KA_32, bq7ka_32, 32, 7, 1, 1)                 \
  IMPORTED(BQ7K_16, bq7k_16, 16, 7, 1, 0)                   \
  STORED(IQ4_XS, iq4_xs, 256, 136, 0, 2, 0, BQ8K_32)        \
  IMPORTED(BQ8K_32, bq8k_32, 32, 8, 1, 0)                       \
  RARE(BQ3A_64, bq3a_64, 64, 3, 2, 2)                             \
  RARE(BQ2A_64, bq2a_64, 64, 2, 2, 2)                             \
  RARE(BQ2_64, bq2_64, 64, 2, 2, 0)                               \
  RARE(BQT_64, bqt_64, 64, 1, 2, 0)                               \
  IMPORTED(BQC2K_16, bqc2k_16, 16, 5, 1, 0)                       \
  IMPORTED(BQC3K_16, bqc3k_16, 16, 5, 1, 0)                       \
  IMPORTED(BQC3SK_16, bqc3sk_16, 16, 5, 1, 0)                     \
  IMPORTED(BQF4_16, bqf4_16, 16, 5, 2, 0)

#define BQ_TERNARY 1
#define BQ_CODES 5

#define BQ_SKIP_TYPE(...)
#define BQ_SOME_TYPES(FLOAT, TILED, RARE, IMPORTED, STORED) \
  BQ_TYPE_LIST(FLOAT, TILED, RARE, IMPORTED, STORED, BQ_SKIP_TYPE)
/* Parts of the list, applied to X. TILED: all tiled compute types. ENCODED: those with an encoder.
 * USUAL: those whose kernels are in every module. RARE: those whose kernels are only in
 * bq4-*-rare.wasm. */
#define BQ_FLOAT_TYPES(X) BQ_SOME_TYPES(X, BQ_SKIP_TYPE, BQ_SKIP_TYPE, BQ_SKIP_TYPE, BQ_SKIP_TYPE)
#define BQ_TILED_TYPES(X) BQ_SOME_TYPES(BQ_SKIP_TYPE, X, X, X, BQ_SKIP_TYPE)
#define BQ_ENCODED_TYPES(X) BQ_SOME_TYPES(BQ_SKIP_TYPE, X, X, BQ_SKIP_TYPE, BQ_SKIP_TYPE)
#define BQ_USUAL_TYPES(X) \
  BQ_SOME_TYPES(BQ_SKIP_TYPE, X, BQ_SKIP_TYPE, BQ_SKIP_TYPE, BQ_SKIP_TYPE)
#define BQ_RARE_TYPES(X) BQ_SOME_TYPES(BQ_SKIP_TYPE, BQ_SKIP_TYPE, X, X, BQ_SKIP_TYPE)
#define BQ_STORED_TYPES(X) BQ_SOME_TYPES(BQ_SKIP_TYPE, BQ_SKIP_TYPE, BQ_SKIP_TYPE, BQ_SKIP_TYPE, X)

typedef enum bq_type {
#define BQ_X(NAME, ...) BQ_TYPE_##NAME,
  BQ_TYPE_LIST(BQ_X, BQ_X, BQ_X, BQ_X, BQ_X, BQ_X)
#undef BQ_X
  BQ_TYPE_COUNT,
  BQ_TYPE_NONE = BQ_TYPE_COUNT
} bq_type;

typedef enum bq_layout {
  BQ_ROWS = 0,  /* rows one after the other, each padded to whole blocks */
  BQ_TILED = 1, /* groups of 8 rows, each a run of tiles along k; rows padded to 8 */
  BQ_FLAT = 2   /* v1 only: one run of blocks over the flattened tensor, rows may share a block */
} bq_layout;

typedef struct bq_type_facts {
  const char *name;
  bq_type run;          /* the compute type; BQ_TYPE_NONE: the type can't be read */
  uint32_t block;       /* weights per block */
  uint32_t block_bytes; /* bytes of a row-major block */
  uint32_t bits;        /* bits per weight; 0 for storage types that an import function unpacks */
  uint32_t sub_block;   /* weights per sub-block; 0: the type has no sub-blocks */
  uint32_t scale_at;    /* offset of the scale in a row-major block; the minimum follows it */
  uint32_t scale_bytes; /* 4: f32; 2: f16; 0: none */
  uint32_t min_bytes;   /* the same for the minimum */
  uint32_t tile_step;   /* k covered by one tile; 0: the type is never tiled */
  uint32_t tile_bytes;  /* bytes of one tile (8 rows x tile_step) */
  bool encoded;         /* bq_encode supports it */
  bool rare;            /* its kernels are in bq4-*-rare.wasm */
} bq_type_facts;

#define BQ_TILE_ROWS 8u
/* Bits that a weight takes in a block. */
#define BQ_BLOCK_BITS(bits) \
  ((bits) == 7 ? 8 : (bits) == BQ_TERNARY ? 2 : (bits) == BQ_CODES ? 4 : (bits))
/* Weights of a super-block, which share one f16 that their sub-block scales multiply. */
#define BQ_SUPER_BLOCK 256u

/* Returns the facts of a type; NULL for an unknown id. */
const bq_type_facts *bq_type_get(uint32_t id);

/* Whether the engine computes with the type itself. */
static inline bool bq_type_runs(bq_type type) { return bq_type_get(type)->run == type; }
static inline bool bq_type_is_float(bq_type type) { return bq_type_get(type)->block == 1; }

/* Bytes of a rows x cols matrix; UINT64_MAX on overflow or for a layout that the type lacks. The
 * compute layout is BQ_TILED where the type has one, else BQ_ROWS. */
uint64_t bq_type_bytes(bq_type type, bq_layout layout, uint64_t rows, uint64_t cols);
bq_layout bq_type_compute_layout(bq_type type);

#endif
