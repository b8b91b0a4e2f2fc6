/* The golden tiny model, from a .bq4 file to tokens: the 200 greedy tokens match an independent
 * double-precision forward pass, and the hash of all logits is the same in every build.
 * tests/tools/make_golden.mjs writes the files. */
#include <stdio.h>
#include <stdlib.h>

#include "bq.h"
#include "check.h"
#include "core/hash.h"

enum { MAX_TOKENS = 1024 };

static void *allocate(void *ctx, size_t bytes) {
  (void)ctx;
  return aligned_alloc(BQ_ALIGN, (bytes + BQ_ALIGN) / BQ_ALIGN * BQ_ALIGN);
}
static void release(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}
static const bq_allocator allocator = {NULL, allocate, release};

static uint32_t prompt_tokens, greedy_tokens, tokens[MAX_TOKENS];

static bool read_tokens(void) {
  FILE *f = fopen("build/golden/tiny.ids", "r");
  bool valid = f && fscanf(f, "%" SCNu32 " %" SCNu32, &prompt_tokens, &greedy_tokens) == 2 &&
               prompt_tokens + greedy_tokens <= MAX_TOKENS;
  for (uint32_t i = 0; valid && i < prompt_tokens + greedy_tokens; i++)
    valid = fscanf(f, "%" SCNu32, &tokens[i]) == 1;
  if (f) fclose(f);
  return valid;
}

/* Feeds a file in parts of `part` bytes. */
static bq_loader *load(const char *path, const bq_kernels *kernels, size_t part) {
  bq_loader *loader = NULL;
  bq_error err = {0};
  FILE *f = fopen(path, "rb");
  if (!CHECK(f != NULL)) return NULL;
  bq_loader_options o = {.allocator = allocator, .kernels = kernels};
  CHECK_EQ(bq_loader_create(&o, &loader, &err), BQ_OK);
  uint8_t *bytes = malloc(part);
  for (;;) {
    bq_want want;
    if (!CHECK_EQ(bq_loader_want(loader, &want, &err), BQ_OK)) break;
    if (!want.length) break;
    size_t n = want.length < part ? (size_t)want.length : part;
    if (fseek(f, (long)want.offset, SEEK_SET) || fread(bytes, 1, n, f) != n) {
      CHECK(!"expected more bytes, found the end of the file");
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

/* The hash of this name in tests/golden/logit_hashes.txt, which has lines of "name hex". */
static uint64_t recorded_hash(const char *name) {
  char line_name[32];
  uint64_t hash, result = 0;
  FILE *f = fopen("tests/golden/logit_hashes.txt", "r");
  if (!CHECK(f != NULL)) return 0;
  while (fscanf(f, "%31s %" SCNx64, line_name, &hash) == 2)
    if (!strcmp(line_name, name)) result = hash;
  fclose(f);
  return result;
}

/* Runs the reference tokens. Returns the number of greedy choices that match them, and the hash of
 * the logits of all steps in *hash. */
static uint32_t compare_tokens(const bq_model *model, bq_session_options o, uint64_t *hash) {
  bq_session *s = NULL;
  if (!CHECK_EQ(bq_session_create(model, &o, allocator, &s, NULL), BQ_OK)) return 0;
  bq_xxh64_state state;
  bq_xxh64_begin(&state, 0);
  uint32_t matches = 0;
  CHECK_EQ(bq_session_sync(s, tokens, prompt_tokens, NULL, NULL), BQ_OK);
  for (uint32_t i = 0; i < greedy_tokens; i++) {
    while (bq_session_run(s, 1, NULL) == BQ_MORE) {}
    bq_xxh64_add(&state, (const uint8_t *)bq_session_logits(s),
                 bq_model_config(model)->vocab * sizeof(float));
    uint32_t token;
    CHECK_EQ(bq_session_sample(s, NULL, NULL, &token, NULL), BQ_OK);
    matches += token == tokens[prompt_tokens + i];
    CHECK_EQ(bq_session_append(s, tokens[prompt_tokens + i], NULL), BQ_OK);
  }
  bq_session_free(s);
  *hash = bq_xxh64_end(&state);
  return matches;
}

/* `hash_name`: the name in logit_hashes.txt. */
static void check_model(const char *name, bq_session_options o, const char *hash_name,
                        const bq_kernels *kernels) {
  char path[64];
  snprintf(path, sizeof path, "build/golden/tiny-%s.bq4", name);
  REQUIRE(read_tokens());
  static const size_t part_sizes[] = {1 << 20, 1009};
  for (size_t i = 0; i < 2; i++) {
    bq_model *model;
    bq_loader *loader = load(path, kernels, part_sizes[i]);
    REQUIRE(loader && bq_loader_model(loader, &model, NULL) == BQ_OK);
    CHECK_EQ(bq_model_ready(model), bq_model_config(model)->layers + 2);
    uint64_t hash = 0;
    o.prefill_window = i ? 3 : 0;
    o.batch = i ? 2 : 0;
    uint32_t matches = compare_tokens(model, o, &hash);
    if (!strcmp(hash_name, "f32")) CHECK_EQ(matches, greedy_tokens);
    if (!CHECK(hash == recorded_hash(hash_name)))
      printf("%s %s: hash %016" PRIx64 "\n", kernels->name, hash_name, hash);
    bq_loader_free(loader);
  }
}

static void check_table(const bq_kernels *kernels) {
  if (!kernels)
    return; /* This build lacks the table; another build has it and runs this test, too. */
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
