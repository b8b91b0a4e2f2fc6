/* Writes .bq4 files of all versions, types and layouts with the values that the C loader reads from
 * them, for tests of readers in other languages:
 *
 *   write_fixtures FOLDER
 *
 * NAME.bq4, and NAME.json for files of version 1; NAME.expect: a line of JSON for each tensor
 * (name, dims, offset of its values); NAME.f32: the values with which the engine computes, f32,
 * row-major.
 *
 * hostile.bin: many files of version 2 with a few changed bytes and correct checksums. For each
 * file: u8 whether the loader accepts it, u32 length, bytes. */
#include "fixture.c"

#include "find_tensor.h"

/* Opens FOLDER/NAME.ENDING for writing, or exits. */
static FILE *open_file(const char *folder, const char *name, const char *ending) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
  FILE *file = fopen(path, "wb");
  if (file) return file;
  fprintf(stderr, "write_fixtures: %s cannot be opened for writing\n", path);
  exit(1);
}

/* Closes a file, or exits if it could not be written. */
static void close_file(FILE *file) {
  if (fclose(file) == 0) return;
  fprintf(stderr, "write_fixtures: a file cannot be written: is the disk full?\n");
  exit(1);
}

/* --- v1 companions -------------------------------------------------------------------------- */

static void write_base64(FILE *out, const uint8_t *bytes, size_t n) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < n; i += 3) {
    uint32_t remaining = (uint32_t)(n - i), v = (uint32_t)bytes[i] << 16;
    if (remaining > 1) v |= (uint32_t)bytes[i + 1] << 8;
    if (remaining > 2) v |= bytes[i + 2];
    for (uint32_t k = 0; k < 4; k++)
      fputc(k <= remaining ? alphabet[v >> (18 - 6 * k) & 63] : '=', out);
  }
}

static void write_companion_config(FILE *out, const bq_config *c) {
  fprintf(out,
          "\"arch\": \"%s\", \"layers\": %u, \"hidden\": %u, \"heads\": %u, \"kv_heads\": %u, ",
          c->arch == 2 ? "bullet" : "llama", c->layers, c->hidden, c->heads, c->kv_heads);
  fprintf(out, "\"head_dim\": %u, \"ffn\": %u, \"vocab\": %u, \"context\": %u, \"tied\": %d",
          c->head_dim, c->ffn, c->vocab, c->context, c->tied);
  if (c->arch != 2) fprintf(out, ", \"norm\": \"rms\", \"norm_eps\": %.9g", (double)c->norm_eps);
}

static void write_companion(const char *folder, const char *name, const fixture *f) {
  FILE *out = open_file(folder, name, "json");
  fprintf(out, "{\"bq4_companion\": 1, \"name\": \"%s\", \"config\": {", name);
  write_companion_config(out, &f->config);
  fprintf(out, "}");
  if (f->config.tokens) {
    fprintf(out,
            ", \"tokenizer\": {\"kind\": \"wordlist\", \"bos\": 1, \"eos\": 2, \"eog\": [2], "
            "\"tokens\": [");
    for (uint32_t i = 0; i < f->config.tokens; i++) {
      char word[8];
      uint32_t n = token_text(i, word);
      fprintf(out, "%s[\"", i ? ", " : "");
      write_base64(out, (const uint8_t *)word, n);
      fprintf(out, "\", 0, %d]", i == 0 ? 1 : i < 3 ? 2 : 0);
    }
    fprintf(out, "]}");
  }
  fprintf(out, ", \"tensors\": {");
  const char *comma = "";
  for (size_t i = 0; i < f->n_tensors; i++) {
    const fixture_tensor *t = &f->tensors[i];
    if (t->bytes) continue;
    fprintf(out, "%s\"%s\": {\"dims\": [%u", comma, t->name, t->dims[0]);
    if (t->ndims == 2) fprintf(out, ", %u", t->dims[1]);
    fprintf(out, "], \"f32\": \"");
    write_base64(out, t->stored, weights_of(t) * 4);
    fprintf(out, "\"}");
    comma = ", ";
  }
  fprintf(out, "}}\n");
  close_file(out);
}

/* --- files ---------------------------------------------------------------------------------- */

/* Writes the values of a tensor of the loaded model, row by row. */
static void write_values(FILE *out, const bq_model *m, const fixture_tensor *t) {
  tensor_ref tensor = find_tensor(m, t->name);
  if (tensor.vector) {
    fwrite(tensor.vector, 4, t->dims[0], out);
    return;
  }
  float *row = check_allocation(malloc(t->dims[1] * sizeof *row));
  for (uint32_t r = 0; r < t->dims[0]; r++) {
    tensor.matrix->ops->row(tensor.matrix, r, row);
    fwrite(row, 4, t->dims[1], out);
  }
  free(row);
}

/* Writes the files of one fixture. */
static void write_fixture(const char *folder, const char *name, const fixture_spec *spec) {
  fixture f = fixture_make(spec);
  bq_loader *loader;
  const bq_model *m = fixture_load(&f, NULL, &loader);
  if (!m) exit(1);
  FILE *file = open_file(folder, name, "bq4"), *expect = open_file(folder, name, "expect"),
       *values = open_file(folder, name, "f32");
  fwrite(f.bytes, 1, f.n, file);
  size_t offset = 0;
  for (size_t i = 0; i < f.n_tensors; i++) {
    const fixture_tensor *t = &f.tensors[i];
    fprintf(expect, "{\"name\": \"%s\", \"dims\": [", t->name);
    if (t->stacked) fprintf(expect, "%u, ", t->stacked);
    fprintf(expect, "%u", t->dims[0] / (t->stacked ? t->stacked : 1));
    if (t->ndims == 2) fprintf(expect, ", %u", t->dims[1]);
    fprintf(expect, "], \"at\": %zu}\n", offset);
    write_values(values, m, t);
    offset += weights_of(t) * 4;
  }
  close_file(file);
  close_file(expect);
  close_file(values);
  if (f.manifest) write_companion(folder, name, &f);
  bq_loader_free(loader);
  fixture_free(&f);
}

static void write_v2(const char *folder) {
#define X(NAME, ...) BQ_TYPE_##NAME,
  static const bq_type types[] = {BQ_FLOAT_TYPES(X) BQ_TILED_TYPES(X) BQ_STORED_TYPES(X)};
#undef X
  enum { TYPES = sizeof types / sizeof *types };
  static const uint32_t widths[] = {32, 40, 72, 96};
  for (uint32_t i = 0; i < TYPES; i++)
    for (uint32_t k = 0; k < 4; k++) {
      fixture_spec spec = k % 2 ? fixture_bullet() : fixture_llama();
      char name[64];
      spec.type = types[i];
      spec.embed_type = types[(i + k) % TYPES];
      spec.vector_type = (bq_type)(k % 3);
      spec.layout = k < 2 ? BQ_TILED : BQ_ROWS;
      spec.config.hidden = widths[(i + k) % 4];
      spec.config.ffn = widths[i % 4] + 11;
      spec.config.vocab = 101;
      spec.config.tied = i == 4;
      spec.gap = i == 5 ? 192 : 0;
      spec.no_hashes = i == 6 && k == 0;
      spec.no_tokenizer = i == 3;
      spec.seed = 100 + 8 * i + k;
      snprintf(name, sizeof name, "v2-%s-%s-%u", bq_type_get(types[i])->name,
               k < 2 ? "tiled" : "rows", spec.config.hidden);
      write_fixture(folder, name, &spec);
    }
  fixture_spec large = fixture_llama(); /* its weights have three chunks */
  large.config.vocab = 9000;
  large.type = BQ_TYPE_BQ4_32;
  write_fixture(folder, "v2-chunks", &large);
  large.sha256 = true;
  write_fixture(folder, "v2-sha256", &large);
}

/* Configurations with additional tensors. */
static void write_families(const char *folder) {
  fixture_spec spec = fixture_modern();
  write_fixture(folder, "v2-modern", &spec);
  spec.config.norm = BQ_NORM_LAYER;
  spec.config.norm_place = BQ_NORM_POST_BRANCH;
  spec.config.block = BQ_BLOCK_PARALLEL;
  spec.config.qk_norm = BQ_QK_ROWS;
  spec.biases = true;
  write_fixture(folder, "v2-after", &spec);
  spec.config.norm_place = BQ_NORM_PRE;
  spec.config.block = BQ_BLOCK_SHARED;
  spec.config.position = BQ_POSITION_ALIBI;
  spec.factors = false;
  write_fixture(folder, "v2-shared", &spec);
  spec.config.norm_place = BQ_NORM_POST;
  spec.config.block = BQ_BLOCK_SEQUENTIAL;
  spec.config.position = BQ_POSITION_LEARNED;
  write_fixture(folder, "v2-after-sum", &spec);
}

/* Configurations with a list of the kinds of layers. */
static void write_listed(const char *folder) {
  fixture_spec spec = fixture_listed();
  write_fixture(folder, "v2-listed", &spec);
  spec.type = BQ_TYPE_BQ4_32;
  spec.layout = BQ_TILED;
  write_fixture(folder, "v2-listed-tiled", &spec);
}

static void write_v1(const char *folder) {
  static const uint32_t widths[] = {64, 48, 40, 96, 24, 7};
  for (uint32_t block = 16; block <= 64; block *= 2)
    for (uint32_t k = 0; k < 6; k++) {
      fixture_spec spec = k % 2 ? fixture_bullet() : fixture_llama();
      char name[64];
      spec.version = 1;
      spec.block = block;
      spec.scattered = k % 3 == 1;
      spec.config.hidden = widths[k];
      spec.config.ffn = 2 * widths[k] + 16;
      spec.config.vocab = 100;
      spec.no_tokenizer = k == 3;
      spec.seed = 200 + block + k;
      snprintf(name, sizeof name, "v1-%u-%u", block, widths[k]);
      write_fixture(folder, name, &spec);
    }
}

/* --- hostile files ---------------------------------------------------------------------------- */

/* Whether the loader accepts a file. */
static bool loads(uint8_t *bytes, size_t n) {
  static fixture_memory memory;
  fixture f = {.bytes = bytes, .n = n};
  bq_loader_options options = {.allocator = fixture_allocator(&memory), .file_bytes = n};
  bq_loader *loader = NULL;
  bq_error err = {0};
  bq_status status = bq_loader_create(&options, &loader, &err);
  if (!status) status = fixture_feed(&f, loader, 0, &err);
  bq_loader_free(loader);
  return status == BQ_OK;
}

/* Replaces 1, 2, 4 or 8 bytes at a random offset by an extreme value or one near the old value. */
static void change_bytes(uint8_t *bytes, size_t n, uint64_t *random) {
  static const uint64_t values[] = {0,   1,   2,     7,          8,          64,        127,
                                    128, 255, 65535, UINT32_MAX, UINT64_MAX, 1ull << 53};
  uint64_t r = next_random(random);
  size_t offset = (size_t)(r >> 32) % n, size = (size_t)1 << (r & 3);
  uint64_t old = 0, value = values[(r >> 8) % (sizeof values / sizeof *values)];
  if (size > n - offset) size = 1;
  for (size_t i = 0; i < size; i++) old |= (uint64_t)bytes[offset + i] << 8 * i;
  if (r & 4) value = old + (r & 8 ? 1 : 0) - (r & 16 ? 1 : 0) + (r & 32 ? 64 : 0);
  for (size_t i = 0; i < size; i++) bytes[offset + i] = (uint8_t)(value >> 8 * i);
}

static void write_hostile(const char *folder) {
  FILE *out = open_file(folder, "hostile", "bin");
  uint64_t random = 7;
  for (uint32_t i = 0; i < 1500; i++) {
    fixture_spec spec = i % 12 == 11 ? fixture_listed()
                        : i % 3 == 2 ? fixture_modern()
                        : i % 3      ? fixture_bullet()
                                     : fixture_llama();
    spec.config.layers = spec.config.experts ? 4 : 1;
    spec.config.hidden = spec.config.heads = spec.config.kv_heads = 4;
    spec.config.head_dim = spec.config.rope_dim = 2;
    spec.config.ffn = 5;
    spec.config.vocab = 7;
    spec.config.context = 4;
    spec.type = i % 3 && !spec.config.experts ? BQ_TYPE_BQ4_32 : BQ_TYPE_F16;
    spec.layout = i % 5 ? BQ_ROWS : BQ_TILED;
    spec.sha256 = i % 7 == 0;
    fixture f = fixture_make(&spec);
    size_t changed_bytes = i % 4 ? (size_t)f.prefix_bytes : f.n;
    for (uint32_t k = 0; k < 1 + i % 3; k++) change_bytes(f.bytes, changed_bytes, &random);
    fixture_seal(f.bytes, f.n);
    const uint8_t head[] = {loads(f.bytes, f.n), (uint8_t)f.n, (uint8_t)(f.n >> 8),
                            (uint8_t)(f.n >> 16), 0};
    fwrite(head, 1, sizeof head, out);
    fwrite(f.bytes, 1, f.n, out);
    fixture_free(&f);
  }
  close_file(out);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "write_fixtures: expected FOLDER\n");
    return 2;
  }
  write_v2(argv[1]);
  write_families(argv[1]);
  write_listed(argv[1]);
  write_v1(argv[1]);
  write_hostile(argv[1]);
  return 0;
}
