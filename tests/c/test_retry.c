/* Damage that a retry repairs: for any damaged chunk and any kind of tensors, the model is the same
 * as that of the undamaged file. Integrity: changes of a file that no checksum reveals. */
#include "check.h"

#include <stdlib.h>

#include "core/hash.h"
#include "find_tensor.h"
#include "fixture.h"
#include "model/model.h"

enum { CHUNK = 1 << 20 };

typedef struct attempt {
  fixture_memory memory;
  bq_loader *loader;
  bq_error err;
} attempt;

static bq_status start(const fixture *f, attempt *a, const uint8_t *integrity) {
  *a = (attempt){0};
  bq_loader_options o = {.allocator = fixture_allocator(&a->memory),
                         .file_bytes = f->n,
                         .manifest = f->manifest,
                         .manifest_bytes = f->manifest_bytes,
                         .integrity = integrity};
  return bq_loader_create(&o, &a->loader, &a->err);
}

static void free_attempt(attempt *a) {
  bq_loader_free(a->loader);
  CHECK_EQ(a->memory.used, 0);
}

static bq_status load(const fixture *f, attempt *a, const uint8_t *integrity, size_t part) {
  bq_status status = start(f, a, integrity);
  return status ? status : fixture_feed(f, a->loader, part, &a->err);
}

/* --- retry ---------------------------------------------------------------------------------- */

static uint64_t hash_undamaged(const fixture *f) {
  attempt a;
  bq_model *m = NULL;
  CHECK_EQ(load(f, &a, NULL, 0), BQ_OK);
  CHECK_EQ(bq_loader_model(a.loader, &m, NULL), BQ_OK);
  uint64_t hash = hash_model(f, m);
  free_attempt(&a);
  return hash;
}

/* One damaged byte, which is read `times` times before the undamaged one. */
static void check_repair(fixture *f, size_t at, size_t part, int times, uint64_t expected) {
  const uint64_t chunk = f->prefix_bytes + (at - f->prefix_bytes) / CHUNK * CHUNK;
  attempt a;
  bq_model *m = NULL;
  bq_want want;
  f->bytes[at] ^= 0x55;
  CHECK_EQ(load(f, &a, NULL, part), BQ_CHECKSUM);
  for (int i = 0; i < times; i++) {
    CHECK_EQ(a.err.offset, chunk);
    if (i + 1 == times) f->bytes[at] ^= 0x55;
    CHECK_EQ(bq_loader_retry(a.loader, &a.err), BQ_OK);
    CHECK_EQ(bq_loader_retry(a.loader, NULL), BQ_STATE);
    CHECK_EQ(bq_loader_want(a.loader, &want, &a.err), BQ_OK);
    CHECK_EQ(want.offset, chunk);
    CHECK_EQ(fixture_feed(f, a.loader, part, &a.err), i + 1 < times ? BQ_CHECKSUM : BQ_OK);
  }
  CHECK_EQ(bq_loader_model(a.loader, &m, NULL), BQ_OK);
  CHECK_EQ(bq_model_ready(m), f->config.layers + 2);
  CHECK(hash_model(f, m) == expected);
  free_attempt(&a);
}

static void check_repair_of_every_chunk(const fixture_spec *spec) {
  fixture f = fixture_make(spec);
  const uint64_t expected = hash_undamaged(&f);
  const size_t first = (size_t)f.prefix_bytes, chunks = (f.n - first + CHUNK - 1) / CHUNK;
  CHECK(chunks >= 3);
  for (size_t c = 0; c < chunks; c++) {
    const size_t from = first + c * CHUNK, to = from + CHUNK < f.n ? from + CHUNK : f.n;
    check_repair(&f, from, 0, 1, expected);
    check_repair(&f, from + (to - from) / 2, 9973, 1, expected);
    check_repair(&f, to - 1, c % 2 ? CHUNK : 4096, 2, expected);
  }
  fixture_free(&f);
}

/* Tensors across borders of chunks that are read in place, repacked into row tiles (short ones, and
 * one longer than a batch), or widened. */
static void test_retry(void) {
  fixture_spec spec = fixture_llama();
  spec.config.hidden = 72;
  spec.config.vocab = 3001;
  spec.config.ffn = 3001;
  const struct {
    bq_type type, embed, vector;
    bq_layout layout;
    bool sha256;
  } cases[] = {
      {BQ_TYPE_BQ4_32, BQ_TYPE_F32, BQ_TYPE_F32, BQ_TILED, false},
      {BQ_TYPE_BQ8_32, BQ_TYPE_F16, BQ_TYPE_F16, BQ_TILED, true},
      {BQ_TYPE_BQ4_32, BQ_TYPE_F32, BQ_TYPE_F16, BQ_ROWS, true},
      {BQ_TYPE_BQ8_32, BQ_TYPE_BQ4_64, BQ_TYPE_BF16, BQ_ROWS, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    spec.type = cases[i].type;
    spec.embed_type = cases[i].embed;
    spec.vector_type = cases[i].vector;
    spec.layout = cases[i].layout;
    spec.sha256 = cases[i].sha256;
    spec.config.vocab = i == 3 ? 20001 : 3001;
    check_repair_of_every_chunk(&spec);
  }
}

/* Row tiles of 200 KB; a vector of f16 that is longer than a chunk. */
static void test_retry_large(void) {
  fixture_spec spec = fixture_llama();
  spec.config.layers = 1;
  spec.config.hidden = 40;
  spec.config.ffn = 40001;
  spec.config.vocab = 99;
  spec.type = BQ_TYPE_BQ4_32;
  spec.layout = BQ_ROWS;
  check_repair_of_every_chunk(&spec);
  spec = fixture_bullet();
  spec.config.layers = 1;
  spec.config.hidden = 8;
  spec.config.heads = spec.config.kv_heads = 1;
  spec.config.ffn = 600000;
  spec.config.vocab = 50;
  spec.type = BQ_TYPE_BQ4_32;
  spec.vector_type = BQ_TYPE_F16;
  spec.layout = BQ_TILED;
  check_repair_of_every_chunk(&spec);
}

/* Two damaged chunks, with NaN in the second: the checksum is reported, and no error is left after
 * the repair. */
static void test_retry_clears_errors(void) {
  fixture_spec spec = fixture_llama();
  spec.config.vocab = 9000;
  fixture f = fixture_make(&spec);
  const uint64_t expected = hash_undamaged(&f);
  uint8_t *place = f.bytes + f.tensors[0].offset + CHUNK, original[4];
  memcpy(original, place, 4);
  memcpy(place, "\0\0\xc0\x7f", 4);
  f.bytes[f.prefix_bytes + 5] ^= 1;
  attempt a;
  bq_model *m;
  CHECK_EQ(load(&f, &a, NULL, 0), BQ_CHECKSUM);
  f.bytes[f.prefix_bytes + 5] ^= 1;
  CHECK_EQ(bq_loader_retry(a.loader, &a.err), BQ_OK);
  CHECK_EQ(fixture_feed(&f, a.loader, 0, &a.err), BQ_CHECKSUM);
  memcpy(place, original, 4);
  CHECK_EQ(bq_loader_retry(a.loader, &a.err), BQ_OK);
  CHECK_EQ(fixture_feed(&f, a.loader, 0, &a.err), BQ_OK);
  CHECK_EQ(bq_loader_model(a.loader, &m, NULL), BQ_OK);
  CHECK(hash_model(&f, m) == expected);
  free_attempt(&a);
  fixture_free(&f);
}

/* Damage in the first 64 bytes, in the plan sections, and in the other sections of the header. */
static void test_retry_prefix(void) {
  fixture_spec spec = fixture_llama();
  spec.card_bytes = 3000;
  fixture f = fixture_make(&spec);
  const uint64_t expected = hash_undamaged(&f);
  const size_t places[] = {20, 100, (size_t)f.prefix_bytes - 300};
  for (int i = 0; i < 3; i++) {
    attempt a;
    bq_model *m;
    bq_want want;
    f.bytes[places[i]] ^= 1;
    CHECK_EQ(load(&f, &a, NULL, 777), BQ_CHECKSUM);
    CHECK_EQ(bq_loader_model(a.loader, &m, NULL), BQ_CHECKSUM);
    f.bytes[places[i]] ^= 1;
    CHECK_EQ(bq_loader_retry(a.loader, &a.err), BQ_OK);
    CHECK_EQ(bq_loader_want(a.loader, &want, &a.err), BQ_OK);
    CHECK_EQ(want.offset, 0);
    CHECK_EQ(fixture_feed(&f, a.loader, 777, &a.err), BQ_OK);
    CHECK_EQ(bq_loader_model(a.loader, &m, NULL), BQ_OK);
    CHECK(hash_model(&f, m) == expected);
    free_attempt(&a);
  }
  fixture_free(&f);
}

/* An error that a retry cannot repair is reported again. */
static void test_errors_without_retry(void) {
  fixture_spec spec = fixture_llama();
  spec.no_hashes = true;
  fixture f = fixture_make(&spec);
  memcpy(f.bytes + f.tensors[0].offset, "\0\0\xc0\x7f", 4);
  attempt a;
  CHECK_EQ(load(&f, &a, NULL, 0), BQ_FORMAT);
  CHECK_EQ(bq_loader_retry(a.loader, &a.err), BQ_FORMAT);
  CHECK_EQ(a.err.offset, f.tensors[0].offset);
  free_attempt(&a);
  fixture_free(&f);
}

/* --- integrity ------------------------------------------------------------------------------ */

static void check_accepted(const fixture *f, const uint8_t *integrity, size_t part) {
  attempt a;
  bq_model *m = NULL;
  CHECK_EQ(load(f, &a, integrity, part), BQ_OK);
  CHECK_EQ(bq_loader_model(a.loader, &m, NULL), BQ_OK);
  CHECK_EQ(bq_model_ready(m), f->config.layers + 2);
  free_attempt(&a);
}

/* Loads a forged file, which is refused before a token can be computed. */
static void check_forged(const fixture *f, const uint8_t *integrity, bool in_prefix) {
  attempt a;
  bq_model *m = NULL;
  CHECK_EQ(load(f, &a, integrity, 1000), BQ_INTEGRITY);
  CHECK_EQ(a.err.offset, 0);
  bool has_model = bq_loader_model(a.loader, &m, NULL) == BQ_OK;
  CHECK_EQ(has_model, !in_prefix);
  if (has_model) CHECK(bq_model_ready(m) < f->config.layers + 2);
  CHECK_EQ(bq_loader_retry(a.loader, NULL), in_prefix ? BQ_OK : BQ_INTEGRITY);
  free_attempt(&a);
}

/* With SHA-256 hashes of chunks, the hash of the header covers the file. */
static void test_integrity_of_prefix(void) {
  fixture_spec spec = fixture_llama();
  spec.sha256 = true;
  spec.config.vocab = 9000;
  fixture f = fixture_make(&spec);
  uint8_t integrity[BQ_SHA256_BYTES];
  bq_sha256(f.bytes, (size_t)f.prefix_bytes, integrity);
  check_accepted(&f, integrity, 0);
  check_accepted(&f, integrity, 997);
  f.bytes[f.n - 1] ^= 1; /* The hash of the chunk is wrong. */
  attempt a;
  CHECK_EQ(load(&f, &a, integrity, 0), BQ_CHECKSUM);
  free_attempt(&a);
  fixture_seal(f.bytes,
               f.n); /* All hashes of the file are corrected; only the integrity hash is wrong. */
  CHECK_EQ(load(&f, &a, NULL, 0), BQ_OK);
  free_attempt(&a);
  check_forged(&f, integrity, true);
  fixture_free(&f);
}

/* Other files: the hash covers all bytes, also those that are not part of a tensor. */
static void test_integrity_of_file(void) {
  for (int i = 0; i < 4; i++) {
    fixture_spec spec = i % 2 ? fixture_bullet() : fixture_llama();
    spec.version = i < 2 ? 2 : 1;
    spec.no_hashes = i == 1;
    spec.scattered = i == 3;
    spec.block = 32;
    fixture f = fixture_make(&spec);
    if (i == 3) { /* bytes after the last tensor */
      f.bytes = realloc(f.bytes, f.n + 5000);
      memset(f.bytes + f.n, 7, 5000);
      f.n += 5000;
    }
    uint8_t integrity[BQ_SHA256_BYTES];
    bq_sha256(f.bytes, f.n, integrity);
    check_accepted(&f, integrity, 0);
    check_accepted(&f, integrity, 61);
    const size_t places[] = {f.n - 1, (size_t)f.prefix_bytes + 200};
    for (int k = 0; k < 2; k++) {
      f.bytes[places[k]] ^= 1;
      fixture_seal(f.bytes, f.n);
      check_forged(&f, integrity, false);
      f.bytes[places[k]] ^= 1;
      fixture_seal(f.bytes, f.n);
    }
    fixture_free(&f);
  }
}

/* A damaged chunk is not hashed twice. */
static void test_integrity_after_retry(void) {
  fixture_spec spec = fixture_llama();
  spec.config.vocab = 9000;
  fixture f = fixture_make(&spec);
  uint8_t integrity[BQ_SHA256_BYTES];
  bq_sha256(f.bytes, f.n, integrity);
  for (size_t at = (size_t)f.prefix_bytes + 100; at < f.n; at += CHUNK) {
    attempt a;
    f.bytes[at] ^= 1;
    CHECK_EQ(load(&f, &a, integrity, 0), BQ_CHECKSUM);
    f.bytes[at] ^= 1;
    CHECK_EQ(bq_loader_retry(a.loader, &a.err), BQ_OK);
    CHECK_EQ(fixture_feed(&f, a.loader, 5000, &a.err), BQ_OK);
    free_attempt(&a);
  }
  fixture_free(&f);
}

int main(void) {
  RUN(test_retry);
  RUN(test_retry_large);
  RUN(test_retry_clears_errors);
  RUN(test_retry_prefix);
  RUN(test_errors_without_retry);
  RUN(test_integrity_of_prefix);
  RUN(test_integrity_of_file);
  RUN(test_integrity_after_retry);
  return check_summary();
}
