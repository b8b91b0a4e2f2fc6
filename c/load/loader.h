/* The state of a loader (bq.h, "load"). Loading has two phases. First the bytes of the prefix are
 * collected in one block (with a manifest there are none). Then the model's block is laid out, and
 * the file's data arrives from front to back: each byte is copied or converted to its destination.
 *
 * Blocks of memory, all from the caller's allocator, sized by block.h:
 *   the loader itself | manifest and prefix | model: structs, weights, tokenizer, staging */
#ifndef BQ_LOADER_H
#define BQ_LOADER_H

#include "core/hash.h"
#include "load/conversion.h"
#include "load/page_units.h"
#include "format/prefix.h"

/* A tensor of the file and its destination in the model. */
typedef struct bq_load {
  uint64_t offset, bytes; /* in the file */
  uint8_t *dst;           /* NULL: paged, not stored */
  const uint8_t *name;
  uint32_t slot, rows, cols;
  uint16_t name_bytes;
  uint8_t type, layout; /* as stored */
} bq_load;

/* Pointers into the model's block, and facts about its weights. */
typedef struct bq_model_block {
  bq_model *model;
  bq_load *loads; /* in file order */
  uint32_t n_loads;
  uint64_t *stage_end; /* [layers + 2]: file offset of the end of the weights of a stage */
  uint8_t *staging;    /* [staging_bytes] */
  size_t staging_bytes;
  uint8_t *spare; /* scratch of bq_convert */
  uint8_t *saved; /* [staging_bytes]: staged bytes at the start of the current chunk; NULL without
                     chunks */
  void *tokenizer_memory;
  uint64_t weight_bytes;  /* of all weights in the compute layout, paged ones included */
  uint64_t token_weights; /* weights that every token is multiplied with */
  uint64_t types;         /* compute types of the matrices: bit t for bq_type t */
  bq_type head;           /* compute type of the head */
  bool key_bias;          /* a layer's keys have a bias */
  bq_paging paging;       /* without model_bytes; zeros when nothing is paged */
} bq_model_block;

typedef enum bq_loader_phase {
  BQ_LOADING_PREFIX,
  BQ_LOADING_DATA,
  BQ_LOADED,
  BQ_LOAD_FAILED
} bq_loader_phase;

/* The loader's state at the start of a chunk, to which bq_verify_rewind returns. The staged bytes
 * are in block.saved. */
typedef struct bq_load_mark {
  uint32_t current;
  size_t staged;
  bq_sha256_state file_hash;
} bq_load_mark;

struct bq_loader {
  bq_allocator allocator;
  const bq_kernels *kernels;
  bq_loader_phase phase;
  bq_loader_phase failed_in; /* the phase before BQ_LOAD_FAILED */
  bq_error error;            /* after BQ_LOAD_FAILED */
  bool has_integrity;
  uint8_t integrity[BQ_SHA256_BYTES]; /* expected SHA-256 (docs/FORMAT.md, HASH) */
  size_t offered; /* bytes that the last want offered for direct writing */

  uint64_t file_bytes; /* as passed by the caller; 0: unknown */
  uint8_t *manifest;   /* start of the prefix block */
  size_t manifest_bytes;
  uint8_t *bytes; /* the file's first `have` bytes, `capacity` at most */
  size_t capacity, have;
  uint64_t need; /* bytes of the file that are known to be needed for the prefix */
  bq_prefix prefix;
  bq_residency residency;

  uint8_t *memory; /* the model's block; NULL: not allocated yet */
  bq_model_block block;
  uint64_t at;              /* file offset of the next byte */
  uint64_t end;             /* file offset of the end of the needed bytes */
  uint64_t verified;        /* all bytes before this offset are in place and verified */
  uint32_t current;         /* index of the load that `at` is in or before; n_loads: none is left */
  bq_conversion conversion; /* of the current load */
  uint64_t checked;         /* bytes of the current load that have been checked (COPY) */
  size_t staged;            /* bytes in staging (other kinds) */
  union {
    bq_xxh64_state xxh64;
    bq_sha256_state sha256;
  } hash;                /* of the current chunk, up to `at` */
  bool hashes_file;      /* `integrity` is the SHA-256 of the whole file, not of the prefix */
  bq_sha256_state file_hash; /* of the bytes before `at` */
  bq_load_mark mark;     /* state at `verified` */
  bq_error fault;        /* a bad value in bytes that aren't verified yet; status OK: none */
};

#endif
