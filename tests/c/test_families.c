/* Models of other families against their original programs: the logits of every position, or the
 * hidden states of an encoder, are within 1e-3. Prefill, decode and mixtures of both have the same
 * bits. tests/tools/make_golden.mjs writes the files from tests/golden/fixtures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fixture.h"
#include "model/model.h"

enum { MAX_TOKENS = 160, MAX_COLS = 128, NAME = 64 };
static const float tolerance = 1e-3f;

typedef struct family {
  char name[NAME];
  uint32_t tokens[MAX_TOKENS], n;
  float expected[MAX_TOKENS][MAX_COLS]; /* [n][expected_cols] */
  float actual[MAX_TOKENS][MAX_COLS];   /* [n][cols], token by token; of an encoder in one batch */
  bq_loader *loader;
  bq_model *model;
  uint32_t cols;          /* Length of an output. */
  uint32_t expected_cols; /* Differs from `cols` if the model has a dense layer. */
} family;

static fixture_memory memory;
static family f;

static FILE *open_golden(const char *name, const char *ending) {
  char path[128];
  snprintf(path, sizeof path, "build/golden/%s%s", name, ending);
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL);
  return file;
}

static bool load(void) {
  FILE *file = open_golden(f.name, ".bq4");
  if (!file || fseek(file, 0, SEEK_END)) return false;
  fixture bytes = {.n = (size_t)ftell(file)};
  bytes.bytes = malloc(bytes.n);
  rewind(file);
  bool valid = fread(bytes.bytes, 1, bytes.n, file) == bytes.n;
  fclose(file);
  bq_error err = {0};
  bq_loader_options o = {.allocator = fixture_allocator(&memory), .file_bytes = bytes.n};
  valid = valid && bq_loader_create(&o, &f.loader, &err) == BQ_OK &&
          fixture_feed(&bytes, f.loader, 0, &err) == BQ_OK &&
          bq_loader_model(f.loader, &f.model, &err) == BQ_OK;
  if (err.status) printf("%s: %s\n", f.name, err.detail);
  free(bytes.bytes);
  return valid;
}

static bool read_family(void) {
  FILE *file = open_golden(f.name, ".ids");
  bool valid = file && fscanf(file, "%u", &f.n) == 1 && f.n <= MAX_TOKENS;
  for (uint32_t i = 0; valid && i < f.n; i++) valid = fscanf(file, "%u", &f.tokens[i]) == 1;
  if (file) fclose(file);
  if (!valid || !load()) return false;
  const bq_config *c = bq_model_config(f.model);
  f.cols = c->no_head ? c->hidden : c->vocab;
  f.expected_cols = c->dense1 ? c->dense1 : f.cols;
  file = f.cols <= MAX_COLS && f.expected_cols <= MAX_COLS ? open_golden(f.name, ".f32") : NULL;
  for (uint32_t i = 0; valid && i < f.n; i++)
    valid = file && fread(f.expected[i], sizeof(float), f.expected_cols, file) == f.expected_cols;
  if (file) fclose(file);
  return valid;
}

static bq_session *new_session(bq_session_options o) {
  bq_session *s = NULL;
  o.rows = f.n;
  if (!CHECK_EQ(bq_session_create(f.model, &o, fixture_allocator(&memory), &s, NULL), BQ_OK))
    abort();
  return s;
}

/* Converts an output to the form of the expected values: applies the dense layer, if there is
 * one. */
static void project(const float *actual, float *out) {
  if (!bq_model_config(f.model)->dense1) {
    memcpy(out, actual, f.cols * sizeof *out);
    return;
  }
  const bq_matrix *w = &f.model->dense1.w;
  for (uint32_t k = 0; k < f.expected_cols; k++) {
    float row[MAX_COLS];
    w->ops->row(w, k, row);
    out[k] = 0;
    for (uint32_t i = 0; i < f.cols; i++) out[k] += row[i] * actual[i];
  }
}

static void check_error(void) {
  float error = 0, actual[MAX_COLS];
  for (uint32_t i = 0; i < f.n; i++)
    for (uint32_t k = 0; k < f.expected_cols; k++) {
      if (k == 0) project(f.actual[i], actual);
      const float d = actual[k] - f.expected[i][k], distance = d < 0 ? -d : d;
      if (!(distance <= error)) error = distance;
    }
  if (!CHECK(error <= tolerance))
    printf("%s: expected an error of at most %g, found %g\n", f.name, (double)tolerance,
           (double)error);
}

/* Compares the outputs of one batch with those of the original program. */
static void check_encoder(void) {
  bq_session *s = new_session((bq_session_options){0});
  CHECK_EQ(bq_session_sync(s, f.tokens, f.n, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_request_outputs(s, 0, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  for (uint32_t i = 0; i < f.n; i++)
    memcpy(f.actual[i], bq_session_output(s, i), f.cols * sizeof(float));
  bq_session_free(s);
  check_error();
}

/* Compares the outputs of decode with those of the original program. */
static void check_decode(void) {
  bq_session *s = new_session((bq_session_options){0});
  for (uint32_t i = 0; i < f.n; i++) {
    CHECK_EQ(
        i ? bq_session_append(s, f.tokens[i], NULL) : bq_session_sync(s, f.tokens, 1, NULL, NULL),
        BQ_OK);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    memcpy(f.actual[i], bq_session_logits(s), f.cols * sizeof(float));
  }
  bq_session_free(s);
  check_error();
}

/* A prompt after `decoded` tokens one by one has the same bits as decode. */
static void check_prefill(uint32_t decoded, uint32_t window, uint32_t batch) {
  bq_session *s = new_session((bq_session_options){.prefill_window = window, .batch = batch});
  for (uint32_t i = 0; i < decoded; i++) {
    CHECK_EQ(
        i ? bq_session_append(s, f.tokens[i], NULL) : bq_session_sync(s, f.tokens, 1, NULL, NULL),
        BQ_OK);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  }
  CHECK_EQ(bq_session_sync(s, f.tokens, f.n, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_request_outputs(s, decoded, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  for (uint32_t i = decoded; i < f.n; i++)
    if (!CHECK(!memcmp(bq_session_output(s, i), f.actual[i], f.cols * sizeof(float))))
      printf("%s: position %u differs after %u tokens one by one\n", f.name, i, decoded);
  bq_session_free(s);
}

static void test_every_family(void) {
  FILE *list = open_golden("families", ".txt");
  REQUIRE(list != NULL);
  uint32_t n = 0;
  while (fscanf(list, "%63s", f.name) == 1) {
    if (!CHECK(read_family())) continue;
    const bool encoder = bq_model_config(f.model)->bidirectional;
    if (encoder) check_encoder();
    else check_decode();
    check_prefill(0, 0, 0);
    check_prefill(0, 7, 5);
    if (!encoder) check_prefill(3, 6, 6);
    if (!encoder) check_prefill(9, 0, 4);
    bq_loader_free(f.loader);
    n++;
  }
  fclose(list);
  CHECK(n >= 50);
}

int main(void) {
  RUN(test_every_family);
  return check_summary();
}
