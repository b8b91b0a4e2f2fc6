/* Creates small valid .bq4 files in memory: random models of any shape, type and layout, with the
 * values that a reader is expected to return.
 *
 *   fixture_spec spec = fixture_llama();      // or fixture_bullet(); then change its fields
 *   spec.type = BQ_TYPE_BQ4_32;
 *   fixture f = fixture_make(&spec);          // f.bytes, f.n: the file
 *   bq_model *model = fixture_load(&f, kernels, &loader);
 *   ...
 *   bq_loader_free(loader);
 *   fixture_free(&f);
 *
 * It does not use the readers under test: it is written from docs/FORMAT.md and uses only encoders
 * and hashes of c/. It ends the program if a file cannot be created. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <stdio.h>

#include "bq.h"

enum { FIXTURE_FOREIGN = 3 };

typedef struct fixture_spec {
  uint32_t version;     /* 1, 2 (0 is 2, too), or FIXTURE_FOREIGN: another container */
  bq_config config;     /* complete; `tokens` and `merges` are set by fixture_make */
  bq_type type;         /* of all matrices but wte, wpe, lm_head */
  bq_type embed_type;   /* of wte, wpe, lm_head */
  bq_type vector_type;  /* f32, f16, bf16; not v1 */
  bq_layout layout;     /* BQ_TILED: tiled where the type allows it; not v1 */
  bool biases;          /* all biases of the name table that the norm allows */
  bool factors;         /* factors of rotary angles */
  bool fused;           /* q, k and v are one tensor; gate and up are one tensor */
  uint32_t block; /* v1: 16, 32, 64; 16 if it does not divide; if 16 does not, in the manifest */
  bool scattered;       /* not v2: tensors in another order than the directory, with gaps */
  uint32_t align;       /* not v2: alignment of tensors in the file; 0: none */
  bool no_tokenizer, no_hashes;
  bool sha256;          /* v2: chunk hashes are SHA-256 */
  uint32_t card_bytes;  /* v2: length of the model card, which makes the header longer */
  uint32_t gap;         /* v2: additional zero bytes (a multiple of 64) around tensors */
  uint64_t seed;        /* of the weights */
} fixture_spec;

/* Two layers, hidden 32, heads 4/2 of 8, ffn 48, vocab 96, context 64, untied; weights f32. */
fixture_spec fixture_llama(void);
/* Two layers, hidden 32, heads 4 of 8, ffn 64, vocab 96, context 32: LayerNorm, learned positions,
 * gated GELU, biases; weights f32. */
fixture_spec fixture_bullet(void);
/* Four layers, some of which have windows, positions or experts, without a period; weights f32. */
fixture_spec fixture_listed(void);
/* Three layers of three kinds, with as many of the keys from 19 on as can be combined; weights
 * f32. */
fixture_spec fixture_modern(void);
/* As fixture_llama, with a recurrence in place of attention in the first layer: a short
 * convolution, a gated delta net, or Mamba-2 (`beside`: next to attention). */
fixture_spec fixture_convolution(void);
fixture_spec fixture_delta(void);
fixture_spec fixture_mamba(bool beside);

typedef struct fixture_tensor {
  char name[64];
  uint32_t ndims, dims[2];
  uint32_t stacked; /* number of matrices in dims[0] rows, a dimension in the file; 0: a single
                     * matrix */
  bq_type type;     /* storage type */
  bq_layout layout;
  uint64_t offset, bytes; /* in the file; bytes 0: it is in the manifest's XTRA */
  float *values;          /* values after decoding, row-major */
  float *input;           /* values before encoding */
  uint8_t *stored;       /* [bytes] */
} fixture_tensor;

typedef struct fixture {
  uint8_t *bytes;        /* the file, n bytes */
  size_t n;
  uint8_t *manifest; /* for bq_loader_options; NULL for v2 */
  size_t manifest_bytes;
  uint64_t prefix_bytes; /* length of the header */
  bq_config config;
  fixture_tensor *tensors; /* in execution order */
  size_t n_tensors;
} fixture;

fixture fixture_make(const fixture_spec *spec);
void fixture_free(fixture *f);
const fixture_tensor *fixture_find(const fixture *f, const char *name); /* NULL: none */

/* Recomputes the checksums of a v2 file after a change (header, both SUM8, and HASH), as far as its
 * lengths are valid. */
void fixture_seal(uint8_t *bytes, size_t n);

/* Payload of a section of a v2 file or manifest; NULL if there is none. */
uint8_t *fixture_section(const uint8_t *bytes, size_t n, const char *tag, size_t *length);

/* Counters of an allocator that uses malloc and free, aligned to BQ_ALIGN. */
typedef struct fixture_memory {
  size_t used, peak; /* bytes */
  size_t blocks;     /* number of blocks in use */
} fixture_memory;
bq_allocator fixture_allocator(fixture_memory *memory);

/* A buffer that grows; numbers are written little-endian. */
typedef struct fixture_buffer {
  uint8_t *data;
  size_t n, capacity;
} fixture_buffer;
void fixture_put(fixture_buffer *b, const void *bytes, size_t n);
void fixture_u8(fixture_buffer *b, uint8_t v);
void fixture_u16(fixture_buffer *b, uint16_t v);
void fixture_u32(fixture_buffer *b, uint32_t v);
void fixture_u64(fixture_buffer *b, uint64_t v);
void fixture_f32(fixture_buffer *b, float v);
void fixture_pad(fixture_buffer *b, size_t align);
/* The payload of section CONF. */
fixture_buffer fixture_conf(const bq_config *config);
/* A header of v2 with its sums, from the sections of the plan and the other ones. */
fixture_buffer fixture_prefix(const fixture_buffer *plan, const fixture_buffer *rest,
                              uint64_t file_bytes);
/* Appends a section: a tag of four characters, and a payload padded with zeros. */
void fixture_put_section(fixture_buffer *b, const char *tag, uint32_t flags, const uint8_t *payload,
                         size_t n);

/* Feeds the bytes that the loader requests, at most `part` bytes (0: no limit) at a time, until the
 * load is complete or fails. */
static inline bq_status fixture_feed(const fixture *f, bq_loader *loader, size_t part,
                                     bq_error *err) {
  for (;;) {
    bq_want want;
    bq_status status = bq_loader_want(loader, &want, err);
    if (status || !want.length) return status;
    if (want.offset >= f->n)
      return bq_fail(err, BQ_TRUNCATED, want.offset, "the loader requests bytes after the end");
    size_t n = f->n - (size_t)want.offset;
    if (part && n > part) n = part;
    status = bq_loader_feed(loader, f->bytes + want.offset, n, err);
    if (status) return status;
  }
}

/* Loads the file. Returns NULL after printing an error. The caller frees the loader. */
static inline bq_model *fixture_load(const fixture *f, const bq_kernels *kernels,
                                     bq_loader **loader) {
  static fixture_memory memory; /* Its counters are not used. */
  *loader = NULL;
  bq_error err = {0};
  bq_model *model = NULL;
  bq_loader_options options = {.allocator = fixture_allocator(&memory),
                               .kernels = kernels,
                               .file_bytes = f->n,
                               .manifest = f->manifest,
                               .manifest_bytes = f->manifest_bytes};
  bq_status status = bq_loader_create(&options, loader, &err);
  if (!status) status = fixture_feed(f, *loader, 0, &err);
  if (!status) status = bq_loader_model(*loader, &model, &err);
  if (!status) return model;
  printf("fixture_load: %s at %llu: %s\n", bq_status_name(status), (unsigned long long)err.offset,
         err.detail);
  return NULL;
}

#endif
