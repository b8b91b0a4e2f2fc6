/* The description of a model file: the prefix of a v2 file, or the manifest that the host made for
 * a foreign container (docs/FORMAT.md §2 and §4). bq_prefix_read (read.h) fills it in from bytes
 * alone. Its pointers point into these bytes, which must live as long. */
#ifndef BQ_PREFIX_H
#define BQ_PREFIX_H

#include "format/section.h"
#include "model/bind.h"

#define BQ_PLAN_MAX (16u << 20)    /* size limits of the plan and of the prefix, bytes */
#define BQ_PREFIX_MAX (256u << 20)
#define BQ_FILE_MAX (UINT64_C(1) << 53) /* offsets stay exact in a double */
#define BQ_CHUNK (1u << 20)             /* bytes that share a hash */

typedef struct bq_prefix_input {
  const uint8_t *bytes; /* the file's first n bytes; not read with a manifest */
  size_t n;
  uint64_t file_bytes;     /* 0: unknown */
  const uint8_t *manifest; /* NULL: a v2 file, which describes itself */
  size_t manifest_bytes;
} bq_prefix_input;

typedef enum bq_hash_kind { BQ_HASH_NONE = 0, BQ_HASH_XXH64 = 1, BQ_HASH_SHA256 = 2 } bq_hash_kind;

typedef struct bq_prefix {
  bool foreign;        /* described by a manifest: tensors are at any offset, bytes between them
                          are ignored */
  uint64_t file_bytes; /* 0: unknown */
  uint64_t prefix_bytes;        /* of the file; foreign: 0 */
  uint64_t data_end;            /* file offset where the last tensor ends */
  uint8_t id[BQ_FILE_ID_BYTES]; /* of the file; zeros: it has none */
  bq_config config;
  bq_sections sections;
  bq_section directory; /* TENS */
  bq_section extra;     /* XTRA of a manifest; bytes 0: none */
  uint32_t n_tensors;   /* number of tensors in TENS and XTRA */
  uint32_t n_listed;    /* number of tensors in TENS, whose data is in the file */
  bq_hash_kind hash_kind;
  const uint8_t *hashes; /* hashes of the chunks of data, in order; 8 or 32 bytes each */
} bq_prefix;

#endif
