/* The inside of a loader. Two phases: the prefix is gathered in one block (with a manifest
 * there is nothing to gather); then the model's block is laid out, and the file's data is walked
 * from front to back, each byte going where it belongs.
 *
 * Blocks of memory, all from the caller's allocator, sized by the functions below:
 *   the loader itself | manifest and prefix | model: structs, weights, tokenizer, staging */
#ifndef BQ_LOADER_H
#define BQ_LOADER_H

#include "core/hash.h"
#include "load/conversion.h"
#include "load/page_units.h"
#include "format/prefix.h"

/* A tensor of the file and its place in the model. */
typedef struct bq_load {
  uint64_t offset, bytes; /* in the file */
  uint8_t *dst;           /* NULL: paged, not kept */
  const uint8_t *name;
  uint32_t slot, rows, cols;
  uint16_t name_bytes;
  uint8_t type, layout; /* as stored */
} bq_load;

/* Everything in the model's block. */
typedef struct bq_model_block {
  bq_model *model;
  bq_load *loads; /* in file order */
  uint32_t n_loads;
  uint64_t *stage_end; /* [layers + 2]: file offset where what a stage needs has ended */
  uint8_t *staging;    /* [staging_bytes] */
  size_t staging_bytes;
  uint8_t *spare; /* work space of bq_convert */
  uint8_t *saved; /* [staging_bytes] what was staged where the current chunk begins; NULL
                   * where there are no chunks */
  void *tokenizer_memory;
  uint64_t weight_bytes;  /* of all weights as the engine holds them, paged ones included */
  uint64_t token_weights; /* weights that every token is multiplied with */
  uint64_t types;         /* of matrices: bit t is set where one is of bq_type t in the end */
  bq_type head;           /* the head's */
  bool key_bias;          /* a layer's keys have a bias */
  bq_paging paging;       /* without model_bytes; zeros when nothing is paged */
} bq_model_block;

typedef enum bq_loader_phase {
  BQ_LOADING_PREFIX,
  BQ_LOADING_DATA,
  BQ_LOADED,
  BQ_LOAD_FAILED
} bq_loader_phase;

/* The loader's state where a chunk begins, to go back to; the staged bytes are in block.saved. */
typedef struct bq_load_mark {
  uint32_t current;
  size_t staged;
  bq_sha256_state whole;
} bq_load_mark;

struct bq_loader {
  bq_allocator allocator;
  const bq_kernels *kernels;
  bq_loader_phase phase;
  bq_loader_phase failed_in; /* the phase before BQ_LOAD_FAILED */
  bq_error error;            /* why it failed */
  bool authentic;            /* only a file with this integrity is taken (docs/FORMAT.md, HASH) */
  uint8_t integrity[BQ_SHA256_BYTES];
  size_t offered; /* bytes that may be written where the last want said */

  uint64_t file_bytes; /* as the caller says; 0: unknown */
  uint8_t *manifest;   /* start of the prefix block */
  size_t manifest_bytes;
  uint8_t *bytes; /* the file's first `have` bytes, `capacity` at most */
  size_t capacity, have;
  uint64_t need; /* of the prefix, as far as is known */
  bq_prefix prefix;
  bq_residency residency;

  uint8_t *memory; /* of the model's block; NULL: not yet */
  bq_model_block block;
  uint64_t at;              /* file offset of the byte that comes next */
  uint64_t end;             /* of what is needed of the file */
  uint64_t verified;        /* bytes before are in place and good */
  uint32_t current;         /* the load that `at` is in or before; n_loads: behind the last */
  bq_conversion conversion; /* of the current load */
  uint64_t checked;         /* bytes of the current load that have been looked at (COPY) */
  size_t staged;            /* bytes in staging (not COPY) */
  union {
    bq_xxh64_state xxh64;
    bq_sha256_state sha256;
  } hash;                /* of the chunk that `at` is in, as far as it has arrived */
  bool hash_whole;       /* `integrity` is that of all the file's bytes */
  bq_sha256_state whole; /* of the bytes before `at` */
  bq_load_mark mark;     /* where `verified` is */
  bq_error fault;        /* a bad value in bytes that are not verified yet; status OK: none */
};

#endif
