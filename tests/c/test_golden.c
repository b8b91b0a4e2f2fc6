/* The golden tiny model, from a .bq4 file to ids: the 200 greedy ids of an independent
 * double-precision forward pass, and one hash of all logits that every build must give. Files:
 * tests/tools/make_golden.mjs. */
#include <stdio.h>
#include <stdlib.h>

#include "bq.h"
#include "check.h"
#include "core/hash.h"

enum { MOST = 1024 };

static void *take(void *ctx, size_t bytes) {
  (void)ctx;
  return aligned_alloc(BQ_ALIGN, (bytes + BQ_ALIGN) / BQ_ALIGN * BQ_ALIGN);
}
static void give(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}
static const bq_allocator allocator = {NULL, take, give};

static uint32_t prompt_ids, greedy_ids, ids[MOST];

static bool read_ids(void) {
  FILE *f = fopen("build/golden/tiny.ids", "r");
  bool good = f && fscanf(f, "%" SCNu32 " %" SCNu32, &prompt_ids, &greedy_ids) == 2 &&
              prompt_ids + greedy_ids <= MOST;
  for (uint32_t i = 0; good && i < prompt_ids + greedy_ids; i++)
    good = fscanf(f, "%" SCNu32, &ids[i]) == 1;
  if (f) fclose(f);
  return good;
}

/* Feeds a file in pieces of `piece` bytes. */
static bq_loader *load(const char *path, const bq_kernels *kernels, size_t piece) {
  bq_loader *loader = NULL;
  bq_error err = {0};
  FILE *f = fopen(path, "rb");
  if (!CHECK(f != NULL)) return NULL;
  bq_loader_options o = {.allocator = allocator, .kernels = kernels};
  CHECK_EQ(bq_loader_create(&o, &loader, &err), BQ_OK);
  uint8_t *bytes = malloc(piece);
  for (;;) {
    bq_want want;
    if (!CHECK_EQ(bq_loader_want(loader, &want, &err), BQ_OK)) break;
    if (!want.length) break;
    size_t n = want.length < piece ? (size_t)want.length : piece;
    if (fseek(f, (long)want.offset, SEEK_SET) || fread(bytes, 1, n, f) != n) {
      CHECK(!"the file ends too early");
      break;
    }
    if (!CHECK_EQ(bq_loader_feed(loader, bytes, n, &err), BQ_OK)) break;
  }
  if (err.status)
    printf("%s at %" PRIu64 ": %s\n", bq_status_name(err.status), err.offset, err.detail);
  free(bytes);
  fclose(f);
  return loader;
}

/* The recorded hash of tests/golden/logit_hashes.txt: lines of "name hex". */
static uint64_t recorded(const char *name) {
  char line_name[32];
  uint64_t hash, found = 0;
  FILE *f = fopen("tests/golden/logit_hashes.txt", "r");
  if (!CHECK(f != NULL)) return 0;
  while (fscanf(f, "%31s %" SCNx64, line_name, &hash) == 2)
    if (!strcmp(line_name, name)) found = hash;
  fclose(f);
  return found;
}

/* Along the reference ids: how many greedy choices agree, and the hash of every step's logits. */
static uint32_t follow(const bq_model *model, bq_session_options o, uint64_t *hash) {
  bq_session *s = NULL;
  if (!CHECK_EQ(bq_session_create(model, &o, allocator, &s, NULL), BQ_OK)) return 0;
  bq_xxh64_state state;
  bq_xxh64_begin(&state, 0);
  uint32_t agree = 0;
  CHECK_EQ(bq_session_sync(s, ids, prompt_ids, NULL, NULL), BQ_OK);
  for (uint32_t i = 0; i < greedy_ids; i++) {
    while (bq_session_run(s, 1, NULL) == BQ_MORE) {}
    bq_xxh64_add(&state, (const uint8_t *)bq_session_logits(s),
                 bq_model_config(model)->vocab * sizeof(float));
    uint32_t id;
    CHECK_EQ(bq_session_sample(s, NULL, NULL, &id, NULL), BQ_OK);
    agree += id == ids[prompt_ids + i];
    CHECK_EQ(bq_session_append(s, ids[prompt_ids + i], NULL), BQ_OK);
  }
  bq_session_free(s);
  *hash = bq_xxh64_end(&state);
  return agree;
}

/* `hashed`: the name in logit_hashes.txt. */
static void check_model(const char *name, bq_session_options o, const char *hashed,
                        const bq_kernels *kernels) {
  char path[64];
  snprintf(path, sizeof path, "build/golden/tiny-%s.bq4", name);
  REQUIRE(read_ids());
  static const size_t pieces[] = {1 << 20, 1009};
  for (size_t i = 0; i < 2; i++) {
    bq_model *model;
    bq_loader *loader = load(path, kernels, pieces[i]);
    REQUIRE(loader && bq_loader_model(loader, &model, NULL) == BQ_OK);
    CHECK_EQ(bq_model_ready(model), bq_model_config(model)->layers + 2);
    uint64_t hash = 0;
    o.prefill_window = i ? 3 : 0;
    o.batch = i ? 2 : 0;
    uint32_t agree = follow(model, o, &hash);
    if (!strcmp(hashed, "f32")) CHECK_EQ(agree, greedy_ids);
    if (!CHECK(hash == recorded(hashed)))
      printf("%s %s: hash %016" PRIx64 "\n", kernels->name, hashed, hash);
    bq_loader_free(loader);
  }
}

static void check_table(const bq_kernels *kernels) {
  if (!kernels) return; /* not in this build: compiled by another one that runs this test too */
  check_model("f32", (bq_session_options){.kv_type = BQ_KV_F32}, "f32", kernels);
  check_model("bq4", (bq_session_options){.kv_type = BQ_KV_F32}, "bq4", kernels);
  check_model("bq4", (bq_session_options){.kv_type = BQ_KV_I8}, "bq4-kv-i8", kernels);
  check_model("bq4", (bq_session_options){.kv_type = BQ_KV_I4}, "bq4-kv-i4", kernels);
  check_model("bq4", (bq_session_options){.kv_type = BQ_KV_I2}, "bq4-kv-i2", kernels);
  check_model("bq4", (bq_session_options){.activations = BQ_ACTIVATIONS_I16}, "bq4-i16", kernels);
}

static void test_scalar(void) { check_table(bq_kernels_scalar()); }
static void test_simd128(void) { check_table(bq_kernels_simd128()); }
static void test_relaxed(void) { check_table(bq_kernels_relaxed()); }
static void test_relaxed16(void) { check_table(bq_kernels_relaxed16()); }

int main(void) {
  RUN(test_scalar);
  RUN(test_simd128);
  RUN(test_relaxed);
  RUN(test_relaxed16);
  return check_summary();
}
