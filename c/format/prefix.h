/* The prefix of a file: everything before the data, as a pure function of its bytes.
 *
 * bq_prefix_read looks at the first n bytes of a file and either says how many it needs, or what is
 * wrong with them, or describes the file. Nothing is allocated; pointers in the result point into
 * the bytes that were given. Both versions end up in one structure: sections (v1: those of its
 * companion) and a directory of tensors, which is walked with bq_directory_next. */
#ifndef BQ_PREFIX_H
#define BQ_PREFIX_H

#include "format/section.h"
#include "model/bind.h"

#define BQ_PLAN_MAX (16u << 20)
#define BQ_PREFIX_MAX (256u << 20)
#define BQ_FILE_MAX (UINT64_C(1) << 53) /* offsets stay exact in a double */
#define BQ_CHUNK (1u << 20)             /* bytes that share a hash */

typedef struct bq_prefix_input {
  const uint8_t *bytes;
  size_t n;
  uint64_t file_bytes; /* 0: unknown */
  const uint8_t *companion; /* v1: sections; NULL: none */
  size_t companion_bytes;
} bq_prefix_input;

typedef enum bq_hash_kind { BQ_HASH_NONE = 0, BQ_HASH_XXH64 = 1, BQ_HASH_SHA256 = 2 } bq_hash_kind;

typedef struct bq_prefix {
  uint32_t version;
  uint64_t file_bytes;   /* v1: 0 when unknown */
  uint64_t prefix_bytes;
  uint64_t data_end;     /* where the last tensor ends */
  uint8_t id[BQ_FILE_ID_BYTES]; /* of the file; zeros: it has none */
  bq_config config;
  bq_sections sections;
  bq_section directory;  /* TENS; v1: the bytes after the header, as far as they are there */
  bq_section extra;      /* XTRA of a v1 companion; bytes 0: none */
  uint32_t n_tensors;    /* in `directory` and `extra` together */
  bq_hash_kind hash_kind;
  const uint8_t *hashes; /* one per chunk of data, rising */
} bq_prefix;

/* `whole`: all of the prefix (to load), otherwise only what a plan needs. WANT_DATA: *need (> n,
 * and no more than the file can have) bytes are needed. FORMAT, CHECKSUM, TRUNCATED, UNSUPPORTED,
 * SHAPE. */
bq_status bq_prefix_read(const bq_prefix_input *in, bool whole, uint64_t *need, bq_prefix *out,
                         bq_error *err);

/* One tensor, found good. */
typedef struct bq_entry {
  bq_tensor_name tensor;
  uint32_t slot;
  bq_type type; /* as stored */
  bq_layout layout;
  uint32_t rows, cols;    /* a vector is one row */
  uint64_t offset, bytes; /* in the file */
  const uint8_t *data;    /* of a companion's tensor, in place; otherwise NULL */
} bq_entry;

typedef struct bq_directory {
  const bq_prefix *prefix;
  bq_binding binding;
  size_t at;        /* of the next entry in the part that is read */
  uint32_t index;   /* of the next entry, over all parts */
  uint32_t n;       /* entries in all */
  uint32_t listed;  /* of them in the file itself; the rest is in the companion */
  uint8_t types[32]; /* v2: ids that the directory lists, as bits */
  uint64_t listed_end; /* file offset where the directory itself ends, once it has been read */
  uint64_t first, end; /* of data: lowest offset, highest end */
  uint64_t need;    /* after WANT_DATA: bytes of the file that are needed */
} bq_directory;

/* Walks over all tensors, checking each. OK with *done at the end, when none is missing. A v1
 * directory that is not all there gives WANT_DATA. Data of v1 tensors may still overlap. */
bq_status bq_directory_begin(bq_directory *d, const bq_prefix *prefix, bq_error *err);
bq_status bq_directory_next(bq_directory *d, bq_entry *entry, bool *done, bq_error *err);

/* --- the two versions, for prefix.c -------------------------------------------------------- */

bq_status bq_v1_read(const bq_prefix_input *in, uint64_t *need, bq_prefix *out, bq_error *err);
bq_status bq_v1_entry(bq_directory *d, bq_entry *entry, bq_error *err);
bq_status bq_v1_extra(bq_directory *d, bq_entry *entry, bq_error *err);
bq_status bq_v2_read(const bq_prefix_input *in, bool whole, uint64_t *need, bq_prefix *out,
                     bq_error *err);
bq_status bq_v2_directory(bq_directory *d,
                          bq_error *err); /* checks the list of types, finds entry 0 */
bq_status bq_v2_entry(bq_directory *d, bq_entry *entry, bq_error *err);

/* WANT_DATA for `bytes` of the file, or TRUNCATED when it is known to be shorter. */
bq_status bq_prefix_want(const bq_prefix_input *in, uint64_t bytes, uint64_t *need, bq_error *err);

#endif
