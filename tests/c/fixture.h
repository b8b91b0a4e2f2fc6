/* Makes small valid .bq4 files in memory: random models of any shape, type and layout, with the
 * values that a reader must find in them.
 *
 *   fixture_spec spec = fixture_llama();      // or fixture_bullet(); then change what you like
 *   spec.type = BQ_TYPE_BQ4_32;
 *   fixture f = fixture_make(&spec);          // f.bytes, f.n: the file
 *   bq_model *model = fixture_load(&f, kernels, &loader);   // fed whole
 *   ...
 *   bq_loader_free(loader);
 *   fixture_free(&f);
 *
 * Works without the readers under test: written from docs/FORMAT.md, using only c/core (encoders
 * and hashes). Ends the program when something can't be made. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <stdio.h>

#include "bq.h"

enum { FIXTURE_FOREIGN = 3 };

typedef struct fixture_spec {
  uint32_t version;     /* 1, 2 (0 too), or FIXTURE_FOREIGN: any other container */
  bq_config config;     /* complete; `tokens` and `merges` are set by fixture_make */
  bq_type type;         /* of all matrices but wte, wpe, lm_head */
  bq_type embed_type;   /* of wte, wpe, lm_head */
  bq_type vector_type;  /* f32, f16, bf16; not v1 */
  bq_layout layout;     /* BQ_TILED: tiled where the type allows it; not v1 */
  bool biases;          /* all that the table knows and the norm allows */
  bool factors;         /* of rotary angles */
  bool fused;           /* q, k and v are one tensor, gate and up are */
  uint32_t block; /* v1: 16, 32, 64; where it doesn't divide, 16; where 16 doesn't, manifest */
  bool scattered;       /* not v2: tensors in another order than the directory, with gaps */
  uint32_t align;       /* not v2: of tensors in the file; 0: none */
  bool no_tokenizer, no_hashes;
  bool sha256;          /* v2: the kind of chunk hashes */
  uint32_t card_bytes;  /* v2: length of the model card; makes the prefix longer */
  uint32_t gap;         /* v2: additional zero bytes (a multiple of 64) around tensors */
  uint64_t seed;        /* of the weights */
} fixture_spec;

/* Two layers, hidden 32, heads 4/2 of 8, ffn 48, vocab 96, context 64, untied; weights f32. */
fixture_spec fixture_llama(void);
/* Two layers, hidden 32, heads 4 of 8, ffn 64, vocab 96, context 32: LayerNorm, learned positions,
 * gated GELU, biases; weights f32. */
fixture_spec fixture_bullet(void);
/* Four layers whose kinds follow no period: windows, positions and experts in some; weights f32. */
fixture_spec fixture_listed(void);
/* Three layers of three kinds, and as many of the keys from 19 on as go together; weights f32. */
fixture_spec fixture_modern(void);
/* As fixture_llama, with a recurrence in place of attention in the first layer: a short
 * convolution, a gated delta net, or Mamba-2 (`beside`: next to attention). */
fixture_spec fixture_convolution(void);
fixture_spec fixture_delta(void);
fixture_spec fixture_mamba(bool beside);

typedef struct fixture_tensor {
  char name[64];
  uint32_t ndims, dims[2];
  uint32_t stacked;      /* matrices one after the other in dims[0] rows, in the file a dimension
                          * of their own; 0: it is one */
  bq_type type;          /* as stored */
  bq_layout layout;
  uint64_t offset, bytes; /* in the file; bytes 0: in the manifest's XTRA */
  float *values;         /* what a reader must find, row-major */
  float *wanted;         /* before encoding */
  uint8_t *stored;       /* [bytes] */
} fixture_tensor;

typedef struct fixture {
  uint8_t *bytes;        /* the file, n bytes */
  size_t n;
  uint8_t *manifest;    /* not v2: for bq_loader_options; else NULL */
  size_t manifest_bytes;
  uint64_t prefix_bytes; /* in front of the data */
  bq_config config;
  fixture_tensor *tensors; /* in execution order */
  size_t n_tensors;
} fixture;

fixture fixture_make(const fixture_spec *spec);
void fixture_free(fixture *f);
const fixture_tensor *fixture_find(const fixture *f, const char *name); /* NULL: none */

/* Recomputes every checksum of a v2 file after its bytes were changed, as far as its lengths make
 * sense: header, both SUM8, and HASH. */
void fixture_seal(uint8_t *bytes, size_t n);

/* Payload of a section of a v2 file or manifest; NULL when there is none. */
uint8_t *fixture_section(const uint8_t *bytes, size_t n, const char *tag, size_t *length);

/* malloc and free, aligned to BQ_ALIGN, counting what is in use. */
typedef struct fixture_memory {
  size_t used, peak; /* bytes */
  size_t blocks;     /* in use */
} fixture_memory;
bq_allocator fixture_allocator(fixture_memory *memory);

/* Growing bytes, little-endian. */
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
/* A CONF payload. */
fixture_buffer fixture_conf(const bq_config *config);
/* A v2 prefix, sums included, from two runs of sections. */
fixture_buffer fixture_prefix(const fixture_buffer *plan, const fixture_buffer *rest,
                              uint64_t file_bytes);
/* A section: tag of four characters, zero-padded payload. */
void fixture_put_section(fixture_buffer *b, const char *tag, uint32_t flags, const uint8_t *payload,
                         size_t n);

/* Feeds what the loader wants from the file, at most `piece` bytes (0: no limit) at a time, until
 * it is complete or fails. */
static inline bq_status fixture_feed(const fixture *f, bq_loader *loader, size_t piece,
                                     bq_error *err) {
  for (;;) {
    bq_want want;
    bq_status status = bq_loader_want(loader, &want, err);
    if (status || !want.length) return status;
    if (want.offset >= f->n)
      return bq_fail(err, BQ_TRUNCATED, want.offset, "the loader wants bytes past the end");
    size_t n = f->n - (size_t)want.offset;
    if (piece && n > piece) n = piece;
    status = bq_loader_feed(loader, f->bytes + want.offset, n, err);
    if (status) return status;
  }
}

/* Loads the whole file. Returns NULL after printing the error. The loader is the caller's. */
static inline bq_model *fixture_load(const fixture *f, const bq_kernels *kernels,
                                     bq_loader **loader) {
  static fixture_memory memory; /* counts for nobody */
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
