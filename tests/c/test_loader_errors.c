/* The loader on bad files and bad luck: damage, values that are not numbers, overlaps, lies, no
 * memory, wrong calls. Every error has its byte offset, and nothing stays behind. */
#include "check.h"
#include "core/tile.h"

#include <stdlib.h>

#include "core/cursor.h"
#include "fixture.h"
#include "model/model.h"

/* A file being loaded. */
typedef struct attempt {
  fixture_memory memory;
  bq_loader *loader;
  bq_error err;
} attempt;

static bq_loader_options options_for(const fixture *f, attempt *a) {
  return (bq_loader_options){.allocator = fixture_allocator(&a->memory),
                             .file_bytes = f->n,
                             .manifest = f->manifest,
                             .manifest_bytes = f->manifest_bytes};
}

static bq_status load(const fixture *f, attempt *a, size_t piece) {
  *a = (attempt){0};
  bq_loader_options o = options_for(f, a);
  bq_status status = bq_loader_create(&o, &a->loader, &a->err);
  return status ? status : fixture_feed(f, a->loader, piece, &a->err);
}

static void end(attempt *a) {
  bq_loader_free(a->loader);
  CHECK_EQ(a->memory.used, 0);
  CHECK_EQ(a->memory.blocks, 0);
}

/* A model that was never finished is nobody's. */
static void no_model(const attempt *a) {
  if (!a->loader) return; /* refused with its manifest */
  bq_model *m = NULL;
  bq_error err = {0};
  CHECK_EQ(bq_loader_model(a->loader, &m, &err), a->err.status);
  CHECK_STR(err.detail, a->err.detail);
  CHECK(!m);
}

/* Loads a file that must be refused so, and says so again when asked. */
static void refused(const fixture *f, size_t piece, bq_status wanted, uint64_t offset,
                    const char *says) {
  attempt a;
  CHECK_EQ(load(f, &a, piece), wanted);
  CHECK_EQ(a.err.status, wanted);
  CHECK_EQ(a.err.offset, offset);
  if (!CHECK(strstr(a.err.detail, says)))
    printf("\"%s\" says nothing of \"%s\"\n", a.err.detail, says);
  if (!a.loader) return;
  bq_error again = {0};
  bq_want want;
  CHECK_EQ(bq_loader_want(a.loader, &want, &again), wanted);
  CHECK_EQ(again.offset, offset);
  CHECK_STR(again.detail, a.err.detail);
  CHECK_EQ(bq_loader_feed(a.loader, f->bytes, 1, NULL), wanted);
  CHECK_EQ(bq_loader_wrote(a.loader, 1, NULL), wanted);
  end(&a);
}

/* --- damage --------------------------------------------------------------------------------- */

enum { CHUNK = 1 << 20 };

/* Two chunks and a bit. */
static fixture three_chunks(bool sha256) {
  fixture_spec spec = fixture_llama();
  spec.sha256 = sha256;
  spec.config.layers = 1;
  spec.config.vocab = 9000;
  spec.embed_type = BQ_TYPE_F32;
  return fixture_make(&spec);
}

static void damaged_chunk(bool sha256) {
  fixture f = three_chunks(sha256);
  CHECK(f.n > f.prefix_bytes + 2 * CHUNK && f.n < f.prefix_bytes + 3 * CHUNK);
  const size_t places[] = {
      0, 1, CHUNK - 1, CHUNK, CHUNK + 1000, 2 * CHUNK, f.n - f.prefix_bytes - 1};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    size_t at = (size_t)f.prefix_bytes + places[i];
    uint64_t chunk = f.prefix_bytes + places[i] / CHUNK * CHUNK;
    f.bytes[at] ^= 1;
    refused(&f, i % 2 ? 0 : 9999, BQ_CHECKSUM, chunk, "does not match its hash");
    f.bytes[at] ^= 1;
  }
  attempt a;
  CHECK_EQ(load(&f, &a, 0), BQ_OK);
  end(&a);
  fixture_free(&f);
}

static void test_damaged_chunk(void) {
  damaged_chunk(false);
  damaged_chunk(true);
}

/* The chunks before a damaged one stay of use. */
static void test_ready_before_damage(void) {
  fixture f = three_chunks(false);
  f.bytes[f.n - 1] ^= 1;
  attempt a;
  bq_model *m = NULL;
  CHECK_EQ(load(&f, &a, 0), BQ_CHECKSUM);
  CHECK_EQ(bq_loader_model(a.loader, &m, NULL), BQ_OK);
  CHECK_EQ(bq_model_ready(m), BQ_READY_LAYER(0));
  end(&a);
  fixture_free(&f);
}

/* Without hashes nothing can be verified. */
static void test_unverified(void) {
  fixture_spec spec = fixture_llama();
  spec.no_hashes = true;
  fixture f = fixture_make(&spec);
  f.bytes[f.tensors[0].offset] ^= 1;
  attempt a;
  CHECK_EQ(load(&f, &a, 0), BQ_OK);
  end(&a);
  fixture_free(&f);
}

/* --- NaN and infinity ----------------------------------------------------------------------- */

/* Bytes of one scale or minimum, or of one weight of a float type. */
static size_t number_bytes(bq_type type) {
  const bq_type_facts *f = bq_type_get(type);
  return bq_type_is_float(type) ? f->block_bytes : f->scale_bytes;
}

/* Where number i of the stored tensor lies in it; SIZE_MAX: there are fewer. */
static size_t number_at(const fixture_tensor *t, size_t i) {
  const bq_type_facts *f = bq_type_get(t->type);
  const size_t size = number_bytes(t->type);
  const size_t per_block = (f->scale_bytes + f->min_bytes) / size;
  size_t at = i * size; /* floats */
  if (t->layout == BQ_TILED) {
    size_t per_tile = per_block * 8 * f->tile_step / f->block;
    at = i / per_tile * f->tile_bytes + i % per_tile * size;
  } else if (f->block > 1) {
    at = i / per_block * f->block_bytes + f->scale_at + i % per_block * size;
  }
  return at + size <= t->bytes ? at : SIZE_MAX;
}

static void put_bits(uint8_t *p, size_t size, uint32_t bits) {
  for (size_t i = 0; i < size; i++) p[i] = (uint8_t)(bits >> 8 * i);
}

/* Each number of some tensors in turn becomes NaN, infinite, or the largest that is finite. */
static void try_numbers(fixture *f, bool hashed) {
  for (size_t i = 0; i < f->n_tensors; i++) {
    const fixture_tensor *t = &f->tensors[i];
    if (!t->bytes || (i > 3 && i + 3 < f->n_tensors && i % 5)) continue;
    const size_t size = number_bytes(t->type);
    const bool half = size == 2 && t->type != BQ_TYPE_BF16;
    const uint32_t bad[] = {size == 4 ? 0x7fc00000u : half ? 0x7e00 : 0x7fc0, /* NaN */
                            size == 4 ? 0xff800001u : half ? 0xfc01 : 0xff81, /* another */
                            size == 4 ? 0x7f800000u : half ? 0x7c00 : 0x7f80, /* infinity */
                            size == 4 ? 0xff800000u : half ? 0xfc00 : 0xff80};
    const uint32_t good = size == 4 ? 0x7f7fffffu : half ? 0x7bff : 0x7f7f;
    size_t last = 0;
    while (number_at(t, last + 1) != SIZE_MAX) last++;
    const size_t numbers[] = {0, 1, last / 2, last};
    for (int k = 0; k < 4; k++) {
      size_t at = number_at(t, numbers[k]);
      if (at == SIZE_MAX) continue;
      uint8_t *place = f->bytes + t->offset + at, saved[4];
      memcpy(saved, place, size);
      put_bits(place, size, bad[k]);
      if (hashed) {
        refused(f, 0, BQ_CHECKSUM, f->prefix_bytes, "hash"); /* damage explains it better */
        fixture_seal(f->bytes, f->n);
      }
      refused(f, k % 2 ? 1000 : 0, BQ_FORMAT, t->offset + at, t->name);
      put_bits(place, size, good);
      if (hashed) fixture_seal(f->bytes, f->n);
      attempt a;
      CHECK_EQ(load(f, &a, 0), BQ_OK);
      end(&a);
      memcpy(place, saved, size);
      if (hashed) fixture_seal(f->bytes, f->n);
    }
  }
}

static void test_bad_numbers(void) {
  for (int i = 0; i < BQ_TYPE_COUNT; i++)
    for (int tiled = 0; tiled < 2; tiled++) {
      if (bq_type_get((uint32_t)i)->run == BQ_TYPE_NONE) continue;
      fixture_spec spec = fixture_llama();
      spec.config.layers = 1;
      spec.config.hidden = 40;
      spec.type = spec.embed_type = (bq_type)i;
      spec.vector_type = (bq_type)(i % 3);
      spec.layout = tiled ? BQ_TILED : BQ_ROWS;
      spec.no_hashes = i % 2;
      fixture f = fixture_make(&spec);
      try_numbers(&f, !spec.no_hashes);
      fixture_free(&f);
    }
}

/* Dots count on 7 bits: a tile's byte that has 8 is refused, the last one too. */
static void test_bad_weights(void) {
  static const bq_type types[] = {BQ_TYPE_BQ7A_32, BQ_TYPE_BQ7KA_32, BQ_TYPE_BQ7K_16};
  for (int i = 0; i < 3; i++) {
    fixture_spec spec = fixture_llama();
    spec.config.layers = 1;
    spec.type = spec.embed_type = types[i];
    spec.layout = BQ_TILED;
    spec.no_hashes = true;
    fixture f = fixture_make(&spec);
    const fixture_tensor *t = &f.tensors[f.n_tensors - 3];
    while (t->type != types[i]) t--;
    const uint64_t tile = bq_type_get(types[i])->tile_bytes;
    const uint64_t first = bq_tile_weights_at(bq_tile_shape_of(types[i]));
    const uint64_t places[] = {first, tile - 1, t->bytes - tile + first, t->bytes - 1};
    for (int k = 0; k < 4; k++) {
      uint8_t *place = f.bytes + t->offset + places[k], saved = *place;
      *place = 0x80;
      refused(&f, k % 2 ? 1000 : 0, BQ_FORMAT, t->offset + places[k], "above 127");
      *place = saved;
    }
    attempt a;
    CHECK_EQ(load(&f, &a, 0), BQ_OK);
    end(&a);
    fixture_free(&f);
  }
}

static void test_bad_numbers_v1(void) {
  for (uint32_t width = 24; width <= 64; width += 8) {
    fixture_spec spec = fixture_bullet();
    spec.version = 1;
    spec.config.layers = 1;
    spec.config.hidden = width;
    spec.block = width % 16 ? 32 : 64;
    spec.scattered = true;
    fixture f = fixture_make(&spec);
    try_numbers(&f, false);
    fixture_free(&f);
  }
}

static void test_bad_number_in_manifest(void) {
  fixture_spec spec = fixture_llama();
  spec.version = 1;
  spec.config.hidden = 24;
  fixture f = fixture_make(&spec);
  size_t length;
  uint8_t *extra = fixture_section(f.manifest, f.manifest_bytes, "XTRA", &length);
  put_bits(extra + length - 4, 4, 0x7fc00000u);
  refused(&f, 0, BQ_FORMAT, BQ_NO_OFFSET, "XTRA: tensor \"ln_f.weight\"");
  attempt a;
  CHECK_EQ(load(&f, &a, 0), BQ_FORMAT);
  no_model(&a);
  end(&a);
  fixture_free(&f);
}

/* --- places --------------------------------------------------------------------------------- */

static void test_gaps(void) {
  fixture_spec spec = fixture_llama();
  spec.gap = 128;
  fixture f = fixture_make(&spec);
  const uint64_t places[] = {f.prefix_bytes, f.tensors[1].offset - 1, f.n - 1};
  for (int i = 0; i < 3; i++) {
    f.bytes[places[i]] = 1;
    refused(&f, 100, BQ_CHECKSUM, f.prefix_bytes, "hash");
    fixture_seal(f.bytes, f.n);
    refused(&f, i ? 0 : 1, BQ_FORMAT, places[i], "between tensors");
    f.bytes[places[i]] = 0;
    fixture_seal(f.bytes, f.n);
  }
  fixture_free(&f);
}

/* The offset of a tensor in its manifest. */
static uint8_t *offset_of(const fixture *f, const fixture_tensor *t) {
  size_t length, name = strlen(t->name);
  uint8_t *at = fixture_section(f->manifest, f->manifest_bytes, "TENS", &length);
  while (memcmp(at, t->name, name) != 0) at++;
  return at + name + 3 + 4 * t->ndims;
}

static void test_overlap(void) {
  for (int i = 0; i < 4; i++) {
    fixture_spec spec = fixture_llama();
    spec.version = i / 2 ? FIXTURE_FOREIGN : 1;
    spec.scattered = i % 2;
    fixture f = fixture_make(&spec);
    const fixture_tensor *a = fixture_find(&f, "h.0.attn.q.weight"),
                         *b = fixture_find(&f, "h.1.mlp.up.weight");
    uint8_t *place = offset_of(&f, b);
    CHECK_EQ(bq_load64(place), b->offset);
    const uint64_t wrong[] = {a->offset, a->offset + 1, a->offset + a->bytes - 1,
                              a->offset - b->bytes + 1};
    for (int k = 0; k < 4; k++) {
      for (int j = 0; j < 8; j++) place[j] = (uint8_t)(wrong[k] >> 8 * j);
      attempt t;
      CHECK_EQ(load(&f, &t, 0), BQ_FORMAT);
      CHECK(strstr(t.err.detail, "overlap"));
      end(&t);
    }
    fixture_free(&f);
  }
}

/* --- lies and luck -------------------------------------------------------------------------- */

static void store64(uint8_t *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* A header that announces 16 MiB of plan and 256 MiB of prefix costs nothing until they arrive. */
static void test_announced_prefix(void) {
  fixture_spec spec = fixture_llama();
  fixture f = fixture_make(&spec);
  store64(f.bytes + 16, 16u << 20);
  store64(f.bytes + 24, 256u << 20);
  store64(f.bytes + 32, 1ull << 50);
  fixture_seal(f.bytes, 64);
  attempt a = {0};
  bq_loader_options o = options_for(&f, &a);
  o.file_bytes = 0;
  CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
  uint8_t bytes[64] = {0};
  CHECK_EQ(bq_loader_feed(a.loader, f.bytes, 64, &a.err), BQ_OK);
  size_t with_header = a.memory.peak;
  CHECK(with_header < 20000);
  for (int i = 0; i < 1000; i++) CHECK_EQ(bq_loader_feed(a.loader, bytes, 64, &a.err), BQ_OK);
  CHECK(a.memory.peak <= with_header + 3 * 64064);
  end(&a);

  o.prefix_hint = 1ull << 40; /* nor does a hint that can't be true */
  a = (attempt){0};
  o.allocator = fixture_allocator(&a.memory);
  CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
  CHECK(a.memory.peak < 20000);
  end(&a);
  fixture_free(&f);
}

/* After each byte of a file that ends there: no model that claims to be complete. */
static void test_every_truncation(void) {
  for (uint32_t version = 1; version <= FIXTURE_FOREIGN; version++) {
    fixture_spec spec = fixture_llama();
    spec.version = version;
    spec.config.layers = 1;
    spec.config.vocab = 40;
    spec.type = spec.embed_type = BQ_TYPE_BQ4_32;
    fixture f = fixture_make(&spec);
    uint8_t *all = f.bytes;
    size_t n = f.n;
    for (f.n = 1; f.n < n; f.n++) {
      f.bytes = malloc(f.n);
      memcpy(f.bytes, all, f.n);
      attempt a;
      CHECK_EQ(load(&f, &a, 0), BQ_TRUNCATED);
      CHECK_EQ(a.err.offset, f.n);
      end(&a);

      a = (attempt){0}; /* of unknown size: it wants more */
      bq_loader_options o = options_for(&f, &a);
      o.file_bytes = 0;
      bq_want want = {0};
      bq_model *m;
      CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
      CHECK_EQ(fixture_feed(&f, a.loader, 0, &a.err), BQ_TRUNCATED);
      CHECK_EQ(bq_loader_want(a.loader, &want, &a.err), BQ_OK);
      CHECK(want.length > 0 && want.offset >= f.n);
      if (bq_loader_model(a.loader, &m, NULL) == BQ_OK) CHECK(bq_model_ready(m) < 3);
      end(&a);
      free(f.bytes);
    }
    f.bytes = all;
    fixture_free(&f);
  }
}

/* An allocator that gives out `left` blocks and no more, each of `most` bytes at most (0: any). */
typedef struct miser {
  fixture_memory memory;
  int left;
  size_t most;
} miser;

static void *miser_alloc(void *ctx, size_t bytes) {
  miser *m = ctx;
  bq_allocator a = fixture_allocator(&m->memory);
  if (m->most && bytes > m->most) return NULL;
  return m->left-- > 0 ? a.alloc(a.ctx, bytes) : NULL;
}

static void miser_free(void *ctx, void *p) {
  miser *m = ctx;
  bq_allocator a = fixture_allocator(&m->memory);
  a.free(a.ctx, p);
}

static void test_no_memory(void) {
  for (uint32_t version = 1; version < 3; version++) {
    fixture_spec spec = fixture_llama();
    spec.version = version;
    spec.card_bytes = 20000;
    fixture f = fixture_make(&spec);
    bool loaded = false;
    for (int blocks = 0; !loaded && blocks < 20; blocks++) {
      miser m = {.left = blocks};
      attempt a = {0};
      bq_loader_options o = options_for(&f, &a);
      o.allocator = (bq_allocator){&m, miser_alloc, miser_free};
      bq_status status = bq_loader_create(&o, &a.loader, &a.err);
      CHECK(status == BQ_OK || !a.loader);
      if (!status) status = fixture_feed(&f, a.loader, 0, &a.err);
      loaded = status == BQ_OK;
      if (!loaded) CHECK_EQ(status, BQ_NOMEM);
      if (!loaded) CHECK(strstr(a.err.detail, "no room"));
      CHECK(!loaded || blocks >= 3);
      bq_loader_free(a.loader);
      CHECK_EQ(m.memory.used, 0);
    }
    CHECK(loaded);
    fixture_free(&f);
  }
}

/* The prefix of a file with the fixture's tensors, as large as `c` says they are. */
static fixture_buffer announce(const fixture *f, const bq_config *c) {
  fixture_buffer plan = {0}, rest = {0}, tens = {0}, conf = fixture_conf(c);
  fixture_u32(&tens, 1);
  fixture_put(&tens, "\0\3f32", 5);
  fixture_u32(&tens, (uint32_t)f->n_tensors);
  uint64_t at = 1 << 16;
  for (size_t i = 0; i < f->n_tensors; i++) {
    const fixture_tensor *t = &f->tensors[i];
    uint64_t weights = 1;
    fixture_u16(&tens, (uint16_t)strlen(t->name));
    fixture_put(&tens, t->name, strlen(t->name));
    fixture_u16(&tens, 0); /* f32, in rows */
    fixture_u8(&tens, (uint8_t)t->ndims);
    for (uint32_t k = 0; k < t->ndims; k++) {
      uint32_t d = t->dims[k], now = d == 32   ? c->hidden
                                     : d == 48 ? c->ffn
                                     : d == 96 ? c->vocab
                                               : d;
      if (strstr(t->name, "attn") && k == (strstr(t->name, ".o.") ? 1 : 0))
        now = d; /* heads * head_dim */
      fixture_u32(&tens, now);
      weights *= now;
    }
    fixture_u64(&tens, at);
    fixture_u64(&tens, weights * 4);
    at += (weights * 4 + 63) / 64 * 64;
  }
  fixture_put_section(&plan, "CONF", 1, conf.data, conf.n);
  fixture_put_section(&plan, "TENS", 1, tens.data, tens.n);
  fixture_buffer b = fixture_prefix(&plan, &rest, at);
  free(plan.data);
  free(tens.data);
  free(conf.data);
  return b;
}

/* A loader that can have 16 MiB refuses the prefix for want of memory. */
static void no_room_for(const fixture_buffer *prefix) {
  bq_error err = {0};
  miser m = {.left = 3, .most = 16 << 20}; /* more might be given address space */
  bq_loader_options o = {.allocator = {&m, miser_alloc, miser_free}, .prefix_hint = prefix->n};
  bq_loader *loader;
  bq_model *model = NULL;
  CHECK_EQ(bq_loader_create(&o, &loader, &err), BQ_OK);
  CHECK_EQ(bq_loader_feed(loader, prefix->data, prefix->n, &err), BQ_NOMEM);
  CHECK_EQ(bq_loader_model(loader, &model, NULL), BQ_NOMEM);
  bq_loader_free(loader);
  CHECK_EQ(m.memory.used, 0);
}

/* A model whose weights no memory holds: refused by number, or by the allocator. */
static void test_huge_model(void) {
  fixture_spec spec = fixture_llama();
  spec.no_hashes = spec.no_tokenizer = true;
  fixture f = fixture_make(&spec);
  bq_config c = f.config;
  c.vocab = 1u << 24;
  c.hidden = 65536;
  c.ffn = 1u << 20;
  fixture_buffer b = announce(&f, &c);
  bq_plan made;
  bq_error err = {0};
  bq_session_options small = {.context = 8};
  bq_status status = bq_plan_make(b.data, b.n, 0, NULL, 0, &small, NULL, &made, &err);
  CHECK_EQ(status, sizeof(size_t) == 4 ? BQ_NOMEM : BQ_OK);
  if (!status) CHECK(made.weight_bytes > 8ull << 40 && made.model_bytes > made.weight_bytes);
  no_room_for(&b);
  free(b.data);
  fixture_free(&f);
}

/* Weights that end on either side of 4 GiB, one row more of 96 bytes each time: nowhere does the
 * plan come out smaller than they are. */
static void test_around_4_gib(void) {
  fixture_spec spec = fixture_llama();
  spec.no_hashes = spec.no_tokenizer = spec.config.tied = true;
  spec.config.layers = 10;
  fixture f = fixture_make(&spec);
  bq_config c = f.config;
  c.hidden = 24; /* vectors that BQ_ALIGN does not divide */
  c.ffn = 1u << 20;
  const uint64_t layers = (uint64_t)c.layers * 3 * c.ffn * c.hidden * 4;
  const uint32_t most = (uint32_t)(((UINT64_C(1) << 32) - layers) / (c.hidden * 4));
  int below = 0, above = 0;
  for (c.vocab = most - 1400; c.vocab < most - 1000; c.vocab++) {
    fixture_buffer b = announce(&f, &c);
    bq_plan made = {0};
    bq_session_options small = {.context = 8, .batch = 1};
    bq_status status = bq_plan_make(b.data, b.n, 0, NULL, 0, &small, NULL, &made, NULL);
    if (status) CHECK_EQ(status, BQ_NOMEM);
    else CHECK(made.weight_bytes < made.model_bytes);
    if (!status && made.model_bytes < UINT64_C(1) << 32) below++;
    else above++;
    no_room_for(&b);
    free(b.data);
  }
  CHECK(sizeof(size_t) > 4 || (below > 50 && above > 50));
  fixture_free(&f);
}

/* --- wrong calls ---------------------------------------------------------------------------- */

static void test_wrong_calls(void) {
  fixture_spec spec = fixture_llama();
  fixture f = fixture_make(&spec);
  attempt a = {0};
  bq_loader_options o = options_for(&f, &a), none = {0};
  bq_model *m = NULL;
  bq_want want;
  CHECK_EQ(bq_loader_create(&none, &a.loader, &a.err), BQ_ARGUMENT);
  CHECK_EQ(bq_loader_create(NULL, &a.loader, &a.err), BQ_ARGUMENT);
  CHECK(!a.loader);
  CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
  CHECK_EQ(bq_loader_model(a.loader, &m, &a.err), BQ_STATE);
  CHECK(!m);
  CHECK_EQ(bq_loader_wrote(a.loader, 1, &a.err), BQ_ARGUMENT); /* nothing was offered */
  CHECK_EQ(bq_loader_want(a.loader, &want, &a.err), BQ_OK);
  CHECK_EQ(want.offset, 0);
  CHECK_EQ(bq_loader_wrote(a.loader, want.dst_bytes + 1, &a.err), BQ_ARGUMENT);
  memcpy(want.dst, f.bytes, want.dst_bytes);
  CHECK_EQ(bq_loader_wrote(a.loader, want.dst_bytes, &a.err), BQ_OK);
  CHECK_EQ(bq_loader_wrote(a.loader, 1, &a.err), BQ_ARGUMENT); /* an offer holds once */
  CHECK_EQ(bq_loader_wrote(a.loader, 0, &a.err), BQ_OK);
  CHECK_EQ(bq_loader_feed(a.loader, NULL, 0, &a.err), BQ_OK);
  CHECK_EQ(fixture_feed(&f, a.loader, 0, &a.err), BQ_OK); /* none of that did harm */
  CHECK_EQ(bq_loader_model(a.loader, &m, &a.err), BQ_OK);
  CHECK_EQ(bq_model_ready(m), f.config.layers + 2);
  CHECK_EQ(bq_loader_want(a.loader, &want, &a.err), BQ_OK);
  CHECK_EQ(want.length, 0);
  end(&a);
  bq_loader_free(NULL);
  fixture_free(&f);
}

/* A tokenizer that its own reader refuses. */
static void test_bad_tokenizer(void) {
  for (uint32_t version = 1; version < 3; version++) {
    fixture_spec spec = fixture_llama();
    spec.version = version;
    fixture f = fixture_make(&spec);
    uint8_t *from = version == 1 ? f.manifest : f.bytes;
    uint8_t *tokn = fixture_section(from, version == 1 ? f.manifest_bytes : f.n, "TOKN", NULL);
    tokn[0] = 9; /* its kind */
    if (version == 2) fixture_seal(f.bytes, f.n);
    refused(&f, 0, BQ_UNSUPPORTED, version == 1 ? BQ_NO_OFFSET : (uint64_t)(tokn - from), "");
    attempt a;
    CHECK_EQ(load(&f, &a, 0), BQ_UNSUPPORTED);
    no_model(&a);
    end(&a);
    fixture_free(&f);
  }
}

/* A type whose kernels the table lacks (shipped modules have those of rare types elsewhere). */
static void test_kernels_missing(void) {
  fixture_spec spec = fixture_llama();
  spec.type = BQ_TYPE_BQ4_16;
  fixture f = fixture_make(&spec);
  bq_kernels some = *bq_kernels_best();
  some.matrix[BQ_TYPE_BQ4_16] = (bq_matrix_ops){0};
  attempt a = {0};
  bq_loader_options o = options_for(&f, &a);
  o.kernels = &some;
  CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
  CHECK_EQ(fixture_feed(&f, a.loader, 0, &a.err), BQ_UNSUPPORTED);
  CHECK(strstr(a.err.detail, "needs the kernels of type bq4_16"));
  no_model(&a);
  end(&a);
  some.matrix[BQ_TYPE_BQ4_64] = (bq_matrix_ops){0};
  some.matrix[BQ_TYPE_BQ4_16] = bq_kernels_best()->matrix[BQ_TYPE_BQ4_16];
  CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
  CHECK_EQ(fixture_feed(&f, a.loader, 0, &a.err), BQ_OK); /* it has none of those */
  end(&a);
  fixture_free(&f);
}

int main(void) {
  RUN(test_damaged_chunk);
  RUN(test_ready_before_damage);
  RUN(test_unverified);
  RUN(test_bad_numbers);
  RUN(test_bad_weights);
  RUN(test_bad_numbers_v1);
  RUN(test_bad_number_in_manifest);
  RUN(test_gaps);
  RUN(test_overlap);
  RUN(test_announced_prefix);
  RUN(test_every_truncation);
  RUN(test_no_memory);
  RUN(test_huge_model);
  RUN(test_around_4_gib);
  RUN(test_wrong_calls);
  RUN(test_bad_tokenizer);
  RUN(test_kernels_missing);
  return check_summary();
}
