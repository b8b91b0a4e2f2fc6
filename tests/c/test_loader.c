/* The loader on valid files: correct values for every type, layout and version; the same bytes for
 * any lengths of the parts that are fed; readiness as soon as the bytes are verified; memory
 * exactly as planned. */
#include "check.h"

#include <stdlib.h>

#include "core/cursor.h"
#include "find_tensor.h"
#include "fixture.h"
#include "format/prefix.h"

/* --- values of a model ---------------------------------------------------------------------- */

/* Whether the model has exactly the values of the tensor. */
static bool same_values(const bq_model *m, const fixture_tensor *t) {
  tensor_ref at = find_tensor(m, t->name);
  if (t->ndims == 1) return at.vector && memcmp(at.vector, t->values, t->dims[0] * 4) == 0;
  if (!at.matrix || at.matrix->rows != t->dims[0] || at.matrix->cols != t->dims[1]) return false;
  if ((uintptr_t)at.matrix->data % BQ_ALIGN || !at.matrix->ops) return false;
  float *row = malloc(t->dims[1] * sizeof *row);
  bool same = true;
  for (uint32_t r = 0; r < t->dims[0]; r++) {
    at.matrix->ops->row(at.matrix, r, row);
    for (uint32_t k = 0; k < t->dims[1]; k++)
      same = same && row[k] == t->values[(size_t)r * t->dims[1] + k];
  }
  free(row);
  return same;
}

static void check_model(const fixture *f, const bq_model *m) {
  for (size_t i = 0; i < f->n_tensors; i++)
    if (!CHECK(same_values(m, &f->tensors[i]))) printf("%s differs\n", f->tensors[i].name);
  CHECK_EQ(bq_model_ready(m), f->config.layers + 2);
  CHECK_EQ(bq_model_config(m)->hidden, f->config.hidden);
  if (f->config.tied) CHECK(m->head.data == m->wte.data && m->head.rows == m->wte.rows);
  for (uint32_t i = 0; i < f->config.layers; i++)
    CHECK(!m->layers[i].module[BQ_GATE].w.data ==
          !(f->config.gated && bq_config_dense(&f->config, i)));
  CHECK(!m->wpe.data == (f->config.position != BQ_POSITION_LEARNED));
}

/* --- loading -------------------------------------------------------------------------------- */

static bq_loader_options options_for(const fixture *f, fixture_memory *memory) {
  return (bq_loader_options){.allocator = fixture_allocator(memory),
                             .file_bytes = f->n,
                             .manifest = f->manifest,
                             .manifest_bytes = f->manifest_bytes};
}

static void load_and_check(const fixture_spec *spec) {
  fixture f = fixture_make(spec);
  bq_loader *loader = NULL;
  bq_model *m = fixture_load(&f, NULL, &loader);
  if (CHECK(m)) check_model(&f, m);
  bq_loader_free(loader);
  fixture_free(&f);
}

/* All types that can be read. */
#define X(NAME, ...) BQ_TYPE_##NAME,
static const bq_type types[] = {BQ_FLOAT_TYPES(X) BQ_TILED_TYPES(X) BQ_STORED_TYPES(X)};
#undef X
enum { TYPES = sizeof types / sizeof *types };

/* Widths around the block sizes, and numbers of rows that are not multiples of 8. */
static void test_types_and_layouts(void) {
  static const uint32_t widths[] = {8, 24, 32, 40, 64, 72, 96};
  for (int type = 0; type < TYPES; type++)
    for (int tiled = 0; tiled < 2; tiled++)
      for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        fixture_spec spec = w % 2 ? fixture_bullet() : fixture_llama();
        spec.type = types[type];
        spec.embed_type = types[(type + 3) % TYPES];
        spec.vector_type = (bq_type)(w % 3); /* f32, f16, bf16 */
        spec.layout = tiled ? BQ_TILED : BQ_ROWS;
        spec.config.hidden = widths[w];
        spec.config.ffn = widths[w] + 13;
        spec.config.vocab = 99;
        spec.config.tied = w == 2;
        spec.config.gated = w != 3;
        spec.gap = w == 4 ? 128 : 0;
        spec.seed = 10 * w + (uint64_t)type;
        load_and_check(&spec);
      }
}

/* v1: blocks that end with rows, blocks that cross rows at multiples of 32, of 16 and anywhere;
 * tensors in the manifest, whose length is not a multiple of 16. */
static void test_v1(void) {
  static const uint32_t widths[] = {16, 24, 32, 40, 48, 64, 80, 96, 112, 7};
  for (uint32_t block = 16; block <= 64; block *= 2)
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
      for (int scattered = 0; scattered < 2; scattered++) {
        fixture_spec spec = w % 2 ? fixture_bullet() : fixture_llama();
        spec.version = 1;
        spec.block = block;
        spec.scattered = scattered;
        spec.config.hidden = widths[w];
        spec.config.ffn = 3 * widths[w] + 16;
        spec.config.vocab = 100;
        load_and_check(&spec);
      }
}

/* No tensor has a multiple of 16 weights: all are in the manifest, and the file is a header
 * only. */
static void test_all_in_manifest(void) {
  fixture_spec spec = fixture_llama();
  spec.version = 1;
  spec.config.hidden = spec.config.ffn = 5;
  spec.config.heads = spec.config.kv_heads = 1;
  spec.config.head_dim = spec.config.rope_dim = 2;
  spec.config.vocab = 7;
  fixture f = fixture_make(&spec);
  CHECK_EQ(f.n, 12);
  load_and_check(&spec);
  fixture_free(&f);
}

/* Other containers: every type, tensors with alignments of 1 to 64 bytes, in another order. */
static void test_foreign(void) {
  for (int type = 0; type < TYPES; type++)
    for (uint32_t align = 1; align <= 64; align *= 2)
      for (int tiled = 0; tiled < 2; tiled++) {
        fixture_spec spec = align % 3 == 1 ? fixture_bullet() : fixture_llama();
        spec.version = FIXTURE_FOREIGN;
        spec.align = align;
        spec.scattered = align != 32;
        spec.type = types[type];
        spec.embed_type = types[(type + 5) % TYPES];
        spec.vector_type = (bq_type)((uint32_t)type % 3);
        spec.layout = tiled ? BQ_TILED : BQ_ROWS;
        spec.config.hidden = 40;
        spec.config.tied = align == 8;
        load_and_check(&spec);
      }
}

/* The same weights have the same bits in memory for any container. */
static void test_foreign_is_the_same_model(void) {
  for (int type = 0; type < TYPES; type++) {
    fixture_spec spec = fixture_llama();
    spec.type = spec.embed_type = types[type];
    spec.layout = type % 2 ? BQ_TILED : BQ_ROWS;
    uint64_t hashes[2];
    for (int foreign = 0; foreign < 2; foreign++) {
      spec.version = foreign ? FIXTURE_FOREIGN : 2;
      spec.scattered = true;
      spec.align = 8;
      fixture f = fixture_make(&spec);
      bq_loader *loader;
      bq_model *m = fixture_load(&f, NULL, &loader);
      hashes[foreign] = CHECK(m) ? hash_model(&f, m) : 0;
      bq_loader_free(loader);
      fixture_free(&f);
    }
    CHECK(hashes[0] == hashes[1]);
  }
}

static void test_v1_types_in_memory(void) {
  static const struct {
    uint32_t block, width;
    bq_type type;
  } cases[] = {{32, 64, BQ_TYPE_BQ4_32}, {32, 48, BQ_TYPE_BQ4_16}, {32, 40, BQ_TYPE_F32},
               {64, 64, BQ_TYPE_BQ4_64}, {64, 96, BQ_TYPE_BQ4_32}, {64, 80, BQ_TYPE_BQ4_16},
               {64, 24, BQ_TYPE_F32},    {16, 16, BQ_TYPE_BQ4_16}, {16, 40, BQ_TYPE_F32}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture_spec spec = fixture_llama();
    spec.version = 1;
    spec.block = cases[i].block;
    spec.config.hidden = cases[i].width;
    spec.config.vocab = 128;
    fixture f = fixture_make(&spec);
    bq_loader *loader;
    bq_model *m = fixture_load(&f, NULL, &loader);
    if (CHECK(m)) CHECK_EQ(m->wte.type, cases[i].type);
    bq_loader_free(loader);
    fixture_free(&f);
  }
}

/* A row tile that is longer than a staging batch, many batches for one matrix, more than one
 * chunk. */
static void test_large(void) {
  for (int tiled = 0; tiled < 2; tiled++) {
    fixture_spec spec = fixture_llama();
    spec.config.layers = 1;
    spec.config.hidden = 200;
    spec.config.ffn = 20001;
    spec.config.vocab = 5000;
    spec.type = BQ_TYPE_BQ4_32;
    spec.embed_type = BQ_TYPE_F16;
    spec.layout = tiled ? BQ_TILED : BQ_ROWS;
    load_and_check(&spec);
  }
}

/* Tensors of some configurations only. */
static void test_optional_tensors(void) {
  for (uint32_t i = 0; i < 3; i++) {
    fixture_spec spec = fixture_modern();
    spec.biases = true;
    spec.type = i == 1 ? BQ_TYPE_BQ4_32 : BQ_TYPE_F32;
    if (i == 1) {
      spec.config.norm = BQ_NORM_LAYER;
      spec.config.norm_place = BQ_NORM_POST_BRANCH;
      spec.config.block = BQ_BLOCK_PARALLEL;
      spec.config.qk_norm = BQ_QK_ROWS;
    } else if (i == 2) {
      spec.config.block = BQ_BLOCK_SHARED;
      spec.config.norm_place = BQ_NORM_PRE;
      spec.config.qk_norm = BQ_QK_PLAIN;
    }
    load_and_check(&spec);
  }
}

static void test_listed_layers(void) {
  for (uint32_t i = 0; i < 3; i++) {
    fixture_spec spec = fixture_listed();
    spec.type = i == 1 ? BQ_TYPE_BQ4_32 : BQ_TYPE_F32;
    spec.layout = i == 1 ? BQ_TILED : BQ_ROWS;
    spec.version = i == 2 ? FIXTURE_FOREIGN : 2;
    load_and_check(&spec);
  }
}

/* Layers with a recurrence in place of attention, or in addition to it. */
static void test_recurrent_layers(void) {
  for (uint32_t i = 0; i < 8; i++) {
    const fixture_spec specs[] = {fixture_convolution(), fixture_delta(), fixture_mamba(false),
                                  fixture_mamba(true)};
    fixture_spec spec = specs[i % 4];
    spec.type = i < 4 ? BQ_TYPE_F32 : BQ_TYPE_BQ4_32;
    spec.layout = i < 4 ? BQ_ROWS : BQ_TILED;
    spec.version = i == 5 ? FIXTURE_FOREIGN : 2;
    load_and_check(&spec);
  }
}

static void test_norms_of_last_products(void) {
  for (uint32_t i = 0; i < 2; i++) {
    fixture_spec spec = fixture_llama();
    spec.config.sub_norms = true;
    spec.config.activation = BQ_RELU2;
    spec.layout = i ? BQ_TILED : BQ_ROWS;
    load_and_check(&spec);
  }
}

static void test_sinks_of_attention(void) {
  for (uint32_t i = 0; i < 2; i++) {
    fixture_spec spec = fixture_llama();
    spec.config.attn_sinks = true;
    spec.layout = i ? BQ_TILED : BQ_ROWS;
    load_and_check(&spec);
  }
}

/* Tensors with several matrices one after another: the model is the same as with single ones. */
static void test_fused_tensors(void) {
  static const bq_type types[] = {BQ_TYPE_F32, BQ_TYPE_BQ4_32, BQ_TYPE_BQ8_32, BQ_TYPE_F16};
  for (uint32_t i = 0; i < 4; i++) {
    fixture_spec spec = fixture_llama();
    spec.type = types[i];
    spec.layout = i % 2 ? BQ_TILED : BQ_ROWS;
    fixture separate = fixture_make(&spec);
    spec.fused = true;
    fixture fused = fixture_make(&spec);
    bq_loader *loaders[2];
    bq_model *a = fixture_load(&separate, NULL, &loaders[0]),
             *b = fixture_load(&fused, NULL, &loaders[1]);
    REQUIRE(a && b);
    for (uint32_t l = 0; l < spec.config.layers; l++)
      for (uint32_t m = 0; m < BQ_MODULES; m++) {
        const bq_matrix *x = &a->layers[l].module[m].w, *y = &b->layers[l].module[m].w;
        CHECK(x->rows == y->rows && x->cols == y->cols && x->type == y->type);
        if (x->data)
          CHECK_MEM(
              x->data, y->data,
              (size_t)bq_type_bytes(x->type, bq_type_compute_layout(x->type), x->rows, x->cols));
      }
    bq_loader_free(loaders[0]);
    bq_loader_free(loaders[1]);
    fixture_free(&separate);
    fixture_free(&fused);
  }
}

/* A bias of a fused tensor is split; fused matrices that row tiles cross are refused. */
static void test_refused_fused_tensors(void) {
  fixture_spec spec = fixture_llama();
  spec.fused = spec.biases = true;
  fixture f = fixture_make(&spec);
  bq_loader *loader;
  bq_model *m = fixture_load(&f, NULL, &loader);
  REQUIRE(m);
  const fixture_tensor *t = fixture_find(&f, "h.1.attn.qkv.bias");
  const bq_weights *w = m->layers[1].module;
  CHECK_MEM(w[BQ_Q].b, t->values, 32 * sizeof(float));
  CHECK_MEM(w[BQ_V].b, t->values + 32 + 16, 16 * sizeof(float));
  bq_loader_free(loader);
  fixture_free(&f);
  for (int tiled = 0; tiled < 2; tiled++) { /* 20 rows of k: not a multiple of 8 */
    spec.biases = false;
    spec.type = tiled ? BQ_TYPE_BQ4_32 : BQ_TYPE_F32;
    spec.config.head_dim = spec.config.rope_dim = 10;
    f = fixture_make(&spec);
    fixture_memory memory = {0};
    bq_loader_options o = options_for(&f, &memory);
    bq_error err = {0};
    CHECK_EQ(bq_loader_create(&o, &loader, &err), BQ_OK);
    CHECK_EQ(fixture_feed(&f, loader, 0, &err), tiled ? BQ_UNSUPPORTED : BQ_OK);
    if (tiled) CHECK(strstr(err.detail, "one by one"));
    bq_loader_free(loader);
    fixture_free(&f);
  }
  bq_binding binding;
  bq_bind_begin(&binding, &spec.config);
  const bq_tensor_name names[] = {
      {(const uint8_t *)"h.0.attn.qkv.weight", 19, 2, {4 * 10 + 2 * 20, 32}, 0},
      {(const uint8_t *)"h.0.attn.k.weight", 17, 2, {20, 32}, 0}};
  uint32_t slot;
  CHECK_EQ(bq_bind(&binding, &names[0], &slot, NULL), BQ_OK);
  CHECK_EQ(bq_bind(&binding, &names[1], &slot, NULL), BQ_FORMAT);
}

/* q, k and v are adjacent in memory, and so are gate and up, if the file is in execution order. */
static void test_adjacent_matrices(void) {
  fixture_spec spec = fixture_bullet();
  spec.type = BQ_TYPE_BQ4_32;
  fixture f = fixture_make(&spec);
  bq_loader *loader;
  bq_model *m = fixture_load(&f, NULL, &loader);
  REQUIRE(m);
  const bq_weights *l = m->layers[1].module;
  uint64_t q = bq_type_bytes(BQ_TYPE_BQ4_32, BQ_TILED, l[BQ_Q].w.rows, l[BQ_Q].w.cols);
  uint64_t gate = bq_type_bytes(BQ_TYPE_BQ4_32, BQ_TILED, l[BQ_GATE].w.rows, l[BQ_GATE].w.cols);
  CHECK(l[BQ_K].w.data == l[BQ_Q].w.data + q && l[BQ_V].w.data == l[BQ_K].w.data + q);
  CHECK(l[BQ_UP].w.data == l[BQ_GATE].w.data + gate);
  bq_loader_free(loader);
  fixture_free(&f);
}

/* --- feeding -------------------------------------------------------------------------------- */

/* Kinds of feeding. The IN_PLACE kinds write to `dst`, the others pass copies. */
typedef enum feed_kind {
  ALL_BYTES,
  SINGLE_BYTES,
  RANDOM_LENGTHS,
  IN_PLACE,
  RANDOM_IN_PLACE,
  FEED_KINDS
} feed_kind;

static bq_status feed(const fixture *f, bq_loader *loader, feed_kind kind, bq_error *err) {
  uint64_t random = 12345;
  for (;;) {
    bq_want want;
    bq_status status = bq_loader_want(loader, &want, err);
    if (status || !want.length) return status;
    CHECK(want.offset < f->n && want.length <= f->n - want.offset && want.dst_bytes > 0);
    CHECK(want.dst_bytes <= want.length);
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t n = f->n - (size_t)want.offset, random_length = 1 + (size_t)(random >> 33) % 700;
    if (kind == SINGLE_BYTES) n = 1;
    if ((kind == RANDOM_LENGTHS || kind == RANDOM_IN_PLACE) && random_length < n) n = random_length;
    if (kind == IN_PLACE || kind == RANDOM_IN_PLACE) {
      if (n > want.dst_bytes) n = want.dst_bytes;
      memcpy(want.dst, f->bytes + want.offset, n);
      status = bq_loader_wrote(loader, n, err);
    } else {
      uint8_t *part = malloc(n); /* of exact length, so that sanitizers find reads past its end */
      memcpy(part, f->bytes + want.offset, n);
      status = bq_loader_feed(loader, part, n, err);
      free(part);
    }
    if (status) return status;
  }
}

static void test_feeding(void) {
  for (int i = 0; i < 8; i++) {
    fixture_spec spec = i % 2 ? fixture_bullet() : fixture_llama();
    spec.version = i < 4 ? 2 : i < 6 ? 1 : FIXTURE_FOREIGN;
    spec.scattered = true;
    spec.layout = i < 2 ? BQ_TILED : BQ_ROWS;
    spec.type = i % 2 ? BQ_TYPE_BQ8_32 : BQ_TYPE_BQ4_16;
    spec.config.hidden = 40 + 8 * (uint32_t)(i / 4);
    spec.gap = i == 2 ? 64 : 0;
    spec.no_hashes = i == 3;
    fixture f = fixture_make(&spec);
    uint64_t hashes[FEED_KINDS] = {0};
    for (int kind = 0; kind < FEED_KINDS; kind++)
      for (int hint = 0; hint < 3; hint++) {
        fixture_memory memory = {0};
        bq_loader_options o = options_for(&f, &memory);
        o.prefix_hint = hint == 1 ? f.prefix_bytes : hint == 2 ? 100 : 0;
        if (hint == 2) o.file_bytes = 0;
        bq_loader *loader;
        bq_error err = {0};
        bq_model *m = NULL;
        CHECK_EQ(bq_loader_create(&o, &loader, &err), BQ_OK);
        CHECK_EQ(feed(&f, loader, (feed_kind)kind, &err), BQ_OK);
        CHECK_EQ(bq_loader_model(loader, &m, &err), BQ_OK);
        CHECK_EQ(bq_loader_feed(loader, (const uint8_t *)"more", 4, &err),
                 BQ_OK); /* Bytes after the end are ignored. */
        if (kind == 0 && hint == 0) check_model(&f, m);
        if (hint == 0) hashes[kind] = hash_model(&f, m);
        CHECK(hash_model(&f, m) == hashes[0]);
        bq_loader_free(loader);
        CHECK_EQ(memory.used, 0);
        CHECK_EQ(memory.blocks, 0);
      }
    fixture_free(&f);
  }
}

/* --- readiness ------------------------------------------------------------------------------ */

/* The first stage that uses the tensor. */
static uint32_t stage_of(const fixture *f, const char *name) {
  if (strncmp(name, "h.", 2) == 0) return 1 + (uint32_t)strtoul(name + 2, NULL, 10);
  return name[0] == 'w' ? 0 : 1 + f->config.layers;
}

/* The number of first stages whose tensors end before `at`. */
static uint32_t ready_at(const fixture *f, uint64_t at) {
  for (uint32_t stage = 0; stage < f->config.layers + 2; stage++)
    for (size_t i = 0; i < f->n_tensors; i++) {
      const fixture_tensor *t = &f->tensors[i];
      if (stage_of(f, t->name) == stage && t->bytes && t->offset + t->bytes > at) return stage;
    }
  return f->config.layers + 2;
}

/* Checks the readiness after every `step` bytes; with hashes, only complete chunks count. */
static void check_readiness(const fixture_spec *spec, size_t step) {
  fixture f = fixture_make(spec);
  fixture_memory memory = {0};
  bq_loader_options o = options_for(&f, &memory);
  bq_loader *loader;
  bq_error err = {0};
  bq_model *m = NULL;
  CHECK_EQ(bq_loader_create(&o, &loader, &err), BQ_OK);
  for (size_t at = 0; at < f.n;) {
    size_t n = f.n - at < step ? f.n - at : step;
    bq_want want;
    CHECK_EQ(bq_loader_want(loader, &want, &err), BQ_OK);
    if (want.offset > at) {
      at = (size_t)want.offset; /* a gap between the tensors of another container */
      continue;
    }
    CHECK_EQ(bq_loader_feed(loader, f.bytes + at, n, &err), BQ_OK);
    at += n;
    if (!f.manifest && at < f.prefix_bytes) {
      CHECK_EQ(bq_loader_model(loader, &m, &err), BQ_STATE);
      continue;
    }
    CHECK_EQ(bq_loader_model(loader, &m, &err), BQ_OK);
    uint64_t verified = at;
    if (!f.manifest && !spec->no_hashes && at < f.n)
      verified = f.prefix_bytes + (at - f.prefix_bytes) / (1 << 20) * (1 << 20);
    if (!CHECK_EQ(bq_model_ready(m), ready_at(&f, verified))) break;
  }
  CHECK_EQ(bq_model_ready(m), f.config.layers + 2);
  bq_loader_free(loader);
  fixture_free(&f);
}

static void test_readiness(void) {
  fixture_spec spec = fixture_llama();
  check_readiness(&spec, 1);
  spec.no_hashes = true;
  check_readiness(&spec, 1);
  spec.type = BQ_TYPE_BQ4_32;
  check_readiness(&spec, 1);
  spec.version = 1;
  check_readiness(&spec, 1);
  spec.scattered = true;
  spec.config.hidden = 24;
  check_readiness(&spec, 1);
  spec.version = FIXTURE_FOREIGN;
  check_readiness(&spec, 1);
  spec = fixture_llama();
  spec.config.vocab = 20000; /* 2.5 MB of embedding, and as much of head */
  check_readiness(&spec, 1009);
}

/* --- memory --------------------------------------------------------------------------------- */

static bq_plan plan_of(const fixture *f) {
  bq_plan plan = {0};
  bq_error err = {0};
  uint64_t need;
  CHECK_EQ(bq_plan_make(f->bytes, (size_t)f->prefix_bytes, f->n, f->manifest, f->manifest_bytes,
                        NULL, &need, &plan, &err),
           BQ_OK);
  return plan;
}

static fixture planned_fixture(int i) {
  fixture_spec spec = i % 2 ? fixture_bullet() : fixture_llama();
  spec.version = i < 4 ? 2 : 1;
  spec.type = types[i % TYPES];
  spec.config.hidden = i < 6 ? 48 : 24;
  spec.card_bytes = 50000;
  spec.no_tokenizer = i == 1 || i == 5;
  return fixture_make(&spec);
}

/* With the hint of the plan, the loader uses exactly the planned memory. */
static void test_planned_memory(void) {
  for (int i = 0; i < 8; i++) {
    fixture f = planned_fixture(i);
    bq_plan plan = plan_of(&f);
    fixture_memory memory = {0};
    bq_loader_options o = options_for(&f, &memory);
    o.prefix_hint = plan.prefix_bytes;
    bq_loader *loader;
    bq_error err = {0};
    CHECK_EQ(bq_loader_create(&o, &loader, &err), BQ_OK);
    const uint64_t first = plan.loader_bytes + plan.prefix_block;
    CHECK_EQ(memory.used, first + (plan.foreign ? plan.model_bytes : 0));
    CHECK_EQ(feed(&f, loader, SINGLE_BYTES, &err), BQ_OK);
    CHECK_EQ(memory.used, plan.loader_bytes + plan.prefix_block + plan.model_bytes);
    CHECK_EQ(memory.peak, memory.used);
    bq_loader_free(loader);
    CHECK_EQ(memory.used, 0);
    fixture_free(&f);
  }
}

/* Without a hint, the memory for the header grows with the bytes received: to at most 4 KiB or
 * twice their number, and while a block is moved, in addition to the previous block. */
static void test_growing_memory(void) {
  for (int i = 0; i < 4; i++) { /* v2 files; a manifest is complete from the beginning */
    fixture f = planned_fixture(i);
    bq_plan plan = plan_of(&f);
    fixture_memory memory = {0};
    bq_loader_options o = options_for(&f, &memory);
    o.file_bytes = i % 3 ? f.n : 0;
    bq_loader *loader;
    bq_error err = {0};
    CHECK_EQ(bq_loader_create(&o, &loader, &err), BQ_OK);
    const size_t fixed = (size_t)plan.loader_bytes + 3 * BQ_ALIGN;
    for (size_t n = 0; n < f.prefix_bytes - 1; n++) {
      CHECK(memory.used <= fixed + (n < 2048 ? 4096 : 2 * n));
      CHECK(memory.peak <= fixed + (n < 2048 ? 4096 : 3 * n));
      CHECK_EQ(bq_loader_feed(loader, f.bytes + n, 1, &err), BQ_OK);
    }
    CHECK_EQ(feed(&f, loader, ALL_BYTES, &err), BQ_OK);
    CHECK(memory.used <= plan.loader_bytes + plan.prefix_block + plan.model_bytes + 4096);
    bq_loader_free(loader);
    fixture_free(&f);
  }
}

/* The block of a model has less than 13 KiB in addition to the weights. */
static void test_overhead(void) {
  fixture_spec spec = fixture_llama();
  spec.config.hidden = 256;
  spec.config.ffn = 512;
  spec.config.vocab = 4096;
  spec.no_tokenizer = true;
  spec.type = spec.embed_type = BQ_TYPE_BQ4_32;
  spec.layout = BQ_TILED;
  fixture f = fixture_make(&spec);
  bq_plan plan = plan_of(&f);
  CHECK(plan.model_bytes - plan.weight_bytes < 13312);
  fixture_free(&f);
}

static void test_sections(void) {
  for (uint32_t version = 1; version < 3; version++) {
    fixture_spec spec = fixture_llama();
    spec.version = version;
    fixture f = fixture_make(&spec);
    bq_loader *loader;
    bq_model *m = fixture_load(&f, NULL, &loader);
    REQUIRE(m);
    size_t n = 77;
    const uint8_t *name = bq_model_section(m, "NAME", &n);
    CHECK(name && n == 7 && memcmp(name, "fixture", 7) == 0);
    const uint8_t *chat = bq_model_section(m, "CHAT", &n);
    CHECK(chat && n > 10 && chat[0] == '{' && chat[n - 1] == '}');
    CHECK(!bq_model_section(m, "TMPL", &n));
    const uint8_t *id = bq_model_file_id(m);
    if (version == 1) CHECK(!id);
    else CHECK(id && memcmp(id, "a fixture's id..", BQ_FILE_ID_BYTES) == 0);
    CHECK(bq_model_tokenizer(m));
    CHECK_EQ(bq_tokenizer_info_get(bq_model_tokenizer(m)).tokens, f.config.tokens);
    bq_loader_free(loader);
    fixture_free(&f);
  }
}

int main(void) {
  RUN(test_types_and_layouts);
  RUN(test_v1);
  RUN(test_all_in_manifest);
  RUN(test_foreign);
  RUN(test_foreign_is_the_same_model);
  RUN(test_v1_types_in_memory);
  RUN(test_large);
  RUN(test_optional_tensors);
  RUN(test_listed_layers);
  RUN(test_recurrent_layers);
  RUN(test_norms_of_last_products);
  RUN(test_sinks_of_attention);
  RUN(test_fused_tensors);
  RUN(test_refused_fused_tensors);
  RUN(test_adjacent_matrices);
  RUN(test_feeding);
  RUN(test_readiness);
  RUN(test_planned_memory);
  RUN(test_growing_memory);
  RUN(test_overhead);
  RUN(test_sections);
  return check_summary();
}
