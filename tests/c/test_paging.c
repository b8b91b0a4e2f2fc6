/* Paged models have the same bits as resident ones, for every residency and every order of reads,
 * and use the planned memory. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fixture.h"
#include "load/loader.h"
#include "random.h"
#include "session/session.h"

enum { PROMPT = 21, VOCAB = 203, PAGES = 7, ALL_PAGES = 80 };

static uint32_t prompt[PROMPT];
static float expected[PROMPT]
                     [VOCAB]; /* Logits of every position, computed with a resident model. */

/* Five layers, an LM head in several pages, a last row tile that is not full. */
static fixture_spec create_spec(bool bullet, bool tied, bq_type type, bq_type embed) {
  fixture_spec s = bullet ? fixture_bullet() : fixture_llama();
  s.config.layers = 5;
  s.config.vocab = VOCAB;
  s.config.tied = tied;
  s.type = type;
  s.embed_type = embed;
  s.layout = BQ_TILED;
  s.no_tokenizer = true;
  s.seed = 7;
  s.fused = tied; /* pages of tensors with several matrices, too */
  return s;
}

static uint32_t random_below(uint64_t *state, uint32_t n) {
  return random_bits(state) % n;
}

/* --- a host that reads pages -------------------------------------------------------------- */

typedef struct host {
  const fixture *file;
  bq_model *model;
  bq_page pending[ALL_PAGES]; /* requested, not read yet */
  size_t n_pending, capacity;
  uint64_t bytes, reads, failures;
  uint32_t fail_every; /* 0: never */
  uint64_t random;
  bq_session *batch_session; /* computed in the same batch; or NULL */
} host;

/* Requests pages and fills them with NaN, which reveals reads of pages that are not complete. */
static size_t request_pages(host *h, bq_session *s) {
  size_t n = 0, room = ALL_PAGES - h->n_pending;
  bq_page *pages = h->pending + h->n_pending;
  CHECK_EQ(bq_session_pages(s, pages, h->capacity < room ? h->capacity : room, &n), BQ_OK);
  for (size_t i = 0; i < n; i++) {
    CHECK(pages[i].bytes > 0 && pages[i].offset + pages[i].bytes <= h->file->n);
    memset(pages[i].dst, 0xff, pages[i].bytes);
  }
  h->n_pending += n;
  return n;
}

static void complete_page(host *h) {
  size_t i = random_below(&h->random, (uint32_t)h->n_pending);
  bq_page p = h->pending[i];
  h->pending[i] = h->pending[--h->n_pending];
  h->reads++;
  bool succeeds = !h->fail_every || h->reads % h->fail_every != 0;
  if (succeeds)
    memcpy(p.dst, h->file->bytes + p.offset, p.bytes);
  else h->failures++;
  h->bytes += p.bytes;
  CHECK_EQ(bq_model_page_done(h->model, p.id, succeeds, NULL), BQ_OK);
}

/* Completes as few pages as possible, in random order: others are pending while work units run. */
static void run(host *h, bq_session *s, size_t work_units) {
  for (;;) {
    bq_error err = {0};
    bq_status status =
        bq_session_run_with(s, &h->batch_session, h->batch_session != NULL, work_units, &err);
    if (status == BQ_OK) return;
    if (!CHECK(status == BQ_MORE || status == BQ_WANT_DATA)) return;
    request_pages(h, s);
    if (status == BQ_WANT_DATA) {
      if (!CHECK(h->n_pending > 0)) return; /* no page is pending */
      complete_page(h);
    }
  }
}

/* --- loading -------------------------------------------------------------------------------- */

typedef struct loaded_model {
  fixture_memory memory;
  bq_loader *loader;
  bq_model *model;
} loaded_model;

static bq_status load(loaded_model *l, const fixture *f, bq_residency r, size_t part,
                      bq_error *err) {
  *l = (loaded_model){0};
  bq_loader_options o = {.allocator = fixture_allocator(&l->memory), .file_bytes = f->n,
                         .prefix_hint = f->prefix_bytes, .manifest = f->manifest,
                         .manifest_bytes = f->manifest_bytes, .residency = r};
  bq_status status = bq_loader_create(&o, &l->loader, err);
  if (!status) status = fixture_feed(f, l->loader, part, err);
  if (!status) status = bq_loader_model(l->loader, &l->model, err);
  return status;
}

static void load_or_abort(loaded_model *l, const fixture *f, bq_residency r, size_t part) {
  bq_error err = {0};
  if (!CHECK_EQ(load(l, f, r, part, &err), BQ_OK)) {
    printf("%s\n", err.detail);
    abort();
  }
}

static void unload(loaded_model *l) {
  bq_loader_free(l->loader);
  CHECK_EQ(l->memory.blocks, 0);
}

static bq_session *create_session(loaded_model *l, bq_session_options o) {
  bq_session *s = NULL;
  if (!CHECK_EQ(bq_session_create(l->model, &o, fixture_allocator(&l->memory), &s, NULL), BQ_OK))
    abort();
  return s;
}

static void compute_expected(const fixture *f) {
  loaded_model l;
  load_or_abort(&l, f, (bq_residency){0}, 0);
  bq_session *s = create_session(&l, (bq_session_options){0});
  for (uint32_t i = 0; i < PROMPT; i++) {
    prompt[i] = (i * 67 + i / 3) % VOCAB;
    CHECK_EQ(i ? bq_session_append(s, prompt[i], NULL) : bq_session_sync(s, prompt, 1, NULL, NULL),
             BQ_OK);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    memcpy(expected[i], bq_session_logits(s), sizeof expected[i]);
  }
  bq_session_free(s);
  unload(&l);
}

static void check_logits(const bq_session *s, size_t position) {
  const float *logits = bq_session_logits(s);
  if (CHECK(logits != NULL)) CHECK_MEM(logits, expected[position], sizeof expected[0]);
}

static host create_host(const fixture *f, loaded_model *l, uint32_t seed) {
  return (host){.file = f, .model = l->model, .capacity = PAGES, .random = seed + 1};
}

/* --- the same bits -------------------------------------------------------------------------- */

static void run_backwards(void *ctx, void (*fn)(void *, size_t, size_t), void *arg) {
  for (size_t n = *(size_t *)ctx; n-- > 0;) fn(arg, n, *(size_t *)ctx);
}

static void prefill_and_decode(const fixture *f, loaded_model *l, uint32_t window, uint32_t batch,
                               size_t work_units, size_t threads) {
  bq_session_options o = {.prefill_window = window,
                          .batch = batch,
                          .parallel = {&threads, run_backwards, threads, NULL, NULL}};
  bq_session *s = create_session(l, o);
  host h = create_host(f, l, window * 31 + batch);
  CHECK_EQ(bq_session_sync(s, prompt, PROMPT - 4, NULL, NULL), BQ_OK);
  run(&h, s, work_units);
  check_logits(s, PROMPT - 5);
  for (uint32_t i = PROMPT - 4; i < PROMPT; i++) {
    CHECK_EQ(bq_session_append(s, prompt[i], NULL), BQ_OK);
    run(&h, s, work_units);
    check_logits(s, i);
  }
  while (h.n_pending) complete_page(&h);
  bq_session_free(s);
}

static void check_every_residency(bool bullet, bool tied, bq_type type, bq_type embed) {
  fixture_spec spec = create_spec(bullet, tied, type, embed);
  fixture f = fixture_make(&spec);
  compute_expected(&f);
  for (uint32_t layers = 0; layers <= spec.config.layers + 1; layers++)
    for (int head = 0; head < 2; head++) {
      loaded_model l;
      load_or_abort(&l, &f, (bq_residency){true, head, layers}, layers % 2 ? 0 : 777);
      prefill_and_decode(&f, &l, 0, 0, 1, 1);
      prefill_and_decode(&f, &l, 5, 2, 1, 3);
      prefill_and_decode(&f, &l, 1, 1, 0, 1);
      prefill_and_decode(&f, &l, 16, 16, 3, 2);
      unload(&l);
    }
  fixture_free(&f);
}

static void test_bits_do_not_depend_on_residency(void) {
  check_every_residency(false, false, BQ_TYPE_F32, BQ_TYPE_F32);
  check_every_residency(false, true, BQ_TYPE_BQ4_32, BQ_TYPE_BQ8_32);
  check_every_residency(false, true, BQ_TYPE_F16, BQ_TYPE_BQ4_16);
  check_every_residency(true, false, BQ_TYPE_BQ4H_32, BQ_TYPE_F16);
  check_every_residency(true, true, BQ_TYPE_BQ8_32, BQ_TYPE_F32);
  check_every_residency(true, false, BQ_TYPE_BQ4_64, BQ_TYPE_BQ4_32);
}

/* Room for a single page, and tokens that share an entry of the cache of rows. */
static void test_capacity_of_one_page(void) {
  fixture_spec spec =
      create_spec(true, false, BQ_TYPE_BQ4_32, BQ_TYPE_F32); /* f32: 203 groups of one row */
  fixture f = fixture_make(&spec);
  compute_expected(&f);
  loaded_model l;
  load_or_abort(&l, &f, (bq_residency){.paged = true}, 0);
  bq_session *s = create_session(&l, (bq_session_options){0});
  host h = create_host(&f, &l, 1);
  h.capacity = 1;
  bq_session_sync(s, prompt, PROMPT, NULL, NULL);
  run(&h, s, 0);
  check_logits(s, PROMPT - 1);
  bq_session_free(s);
  unload(&l);
  fixture_free(&f);
}

static void test_failed_reads_are_repeated(void) {
  fixture_spec spec = create_spec(false, true, BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_32);
  fixture f = fixture_make(&spec);
  compute_expected(&f);
  loaded_model l;
  load_or_abort(&l, &f, (bq_residency){.paged = true}, 0);
  bq_session *s = create_session(&l, (bq_session_options){.prefill_window = 6});
  host h = create_host(&f, &l, 3);
  h.fail_every = 3;
  bq_session_sync(s, prompt, PROMPT, NULL, NULL);
  run(&h, s, 1);
  check_logits(s, PROMPT - 1);
  CHECK(h.failures > 5);
  while (h.n_pending) complete_page(&h);
  for (uint32_t id = 0; id < 100; id++)
    CHECK_EQ(bq_model_page_done(l.model, id, true, NULL), BQ_ARGUMENT);
  bq_session_free(s);
  unload(&l);
  fixture_free(&f);
}

/* Sessions that evict each other's pages, stop inside a run and change their sequence. */
static void test_sessions_share_pages(void) {
  fixture_spec spec = create_spec(true, true, BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_32);
  fixture f = fixture_make(&spec);
  compute_expected(&f);
  loaded_model l;
  load_or_abort(&l, &f, (bq_residency){.paged = true, .layers = 1}, 0);
  host h = create_host(&f, &l, 9);
  bq_session *sessions[3];
  for (uint32_t i = 0; i < 3; i++) {
    sessions[i] = create_session(&l, (bq_session_options){.prefill_window = 4 + 5 * i, .batch = 3});
    bq_session_sync(sessions[i], prompt, PROMPT, NULL, NULL);
  }
  for (uint32_t step = 0; step < 1500; step++) {
    bq_session *s = sessions[random_below(&h.random, 3)];
    if (random_below(&h.random, 40) == 0)
      bq_session_sync(s, prompt, 1 + random_below(&h.random, PROMPT), NULL, NULL);
    bq_status status = bq_session_run(s, 1, NULL);
    if (status == BQ_OK) check_logits(s, s->sequence.n_tokens - 1);
    request_pages(&h, s);
    while (h.n_pending && random_below(&h.random, 3)) complete_page(&h);
  }
  for (uint32_t i = 0; i < 3; i++) {
    bq_session_sync(sessions[i], prompt, PROMPT, NULL, NULL);
    run(&h, sessions[i], 1);
    check_logits(sessions[i], PROMPT - 1);
    bq_session_free(sessions[i]);
  }
  unload(&l);
  fixture_free(&f);
}

/* --- reading ahead -------------------------------------------------------------------------- */

/* Two sessions in one batch: rows of both are requested, and each unit is read once for both. */
static void test_two_sessions_in_one_batch(void) {
  fixture_spec spec = create_spec(false, false, BQ_TYPE_BQ4_32, BQ_TYPE_BQ8_32);
  fixture f = fixture_make(&spec);
  compute_expected(&f);
  loaded_model l;
  load_or_abort(&l, &f, (bq_residency){.paged = true}, 0);
  const bq_session_options o = {.rows = 2};
  bq_session *first_session = create_session(&l, o), *second_session = create_session(&l, o);
  host h = create_host(&f, &l, 11);
  h.batch_session = second_session;
  bq_session_sync(first_session, prompt, PROMPT - 1, NULL, NULL);
  bq_session_sync(second_session, prompt, 3, NULL, NULL);
  run(&h, first_session, 1);
  check_logits(first_session, PROMPT - 2);
  check_logits(second_session, 2);
  const uint64_t previous = h.reads;
  bq_session_append(first_session, prompt[PROMPT - 1], NULL);
  bq_session_append(second_session, prompt[3], NULL);
  run(&h, first_session, 0);
  check_logits(first_session, PROMPT - 1);
  check_logits(second_session, 3);
  CHECK(h.reads - previous <=
        l.model->pages->n_units + 2); /* and a row of the embedding for each session */
  while (h.n_pending) complete_page(&h);
  bq_session_free(first_session);
  bq_session_free(second_session);
  unload(&l);
  fixture_free(&f);
}

static void test_reading_ahead(void) {
  fixture_spec spec = create_spec(false, false, BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_32);
  fixture f = fixture_make(&spec);
  compute_expected(&f);
  loaded_model l;
  load_or_abort(&l, &f, (bq_residency){.paged = true}, 0);
  bq_session *s = create_session(&l, (bq_session_options){0});
  host h = create_host(&f, &l, 1);
  h.capacity = ALL_PAGES;
  bq_session_sync(s, prompt, 4, NULL, NULL);
  run(&h, s, 1);
  for (uint32_t i = 4; i < PROMPT; i++) {
    while (h.n_pending) complete_page(&h);
    uint32_t waits = 0;
    bq_session_append(s, prompt[i], NULL);
    for (bq_status status = BQ_MORE; status != BQ_OK;) {
      request_pages(&h, s); /* before the work unit; a page can still be read after it */
      status = bq_session_run(s, 1, NULL);
      waits += status == BQ_WANT_DATA;
      while (h.n_pending) complete_page(&h);
    }
    CHECK(waits <= 1); /* for the row of the embedding, which is known with the token only */
    check_logits(s, i);
  }
  bq_session_free(s);
  unload(&l);
  fixture_free(&f);
}

/* The pages of skipped layers are not read, for any set of layers and any residency. */
static void check_skipped_pages(const fixture *f, const char *const *names, uint32_t resident,
                                uint32_t skipped) {
  loaded_model l;
  load_or_abort(&l, f, (bq_residency){.paged = true, .layers = resident}, 0);
  bq_session *s = create_session(&l, (bq_session_options){.prefill_window = 7});
  uint32_t list[5], n_skipped = 0;
  for (uint32_t i = 0; i < 5; i++)
    if (skipped >> i & 1) list[n_skipped++] = i;
  CHECK_EQ(bq_session_skip(s, list, n_skipped, NULL), BQ_OK);
  bq_session_sync(s, prompt, PROMPT, NULL, NULL);
  bq_status status;
  while ((status = bq_session_run(s, 1, NULL)) != BQ_OK) {
    bq_page pages[4];
    size_t n;
    CHECK_EQ(bq_session_pages(s, pages, 4, &n), BQ_OK);
    for (size_t i = 0; i < n; i++) {
      for (uint32_t layer = 0; layer < 5; layer++) {
        const fixture_tensor *t = fixture_find(f, names[layer]);
        const bool of_layer =
            t && pages[i].offset <= t->offset && t->offset < pages[i].offset + pages[i].bytes;
        CHECK(!of_layer || !(skipped >> layer & 1));
      }
      memcpy(pages[i].dst, f->bytes + pages[i].offset, pages[i].bytes);
      CHECK_EQ(bq_model_page_done(l.model, pages[i].id, true, NULL), BQ_OK);
    }
    if (!CHECK(status == BQ_MORE || n > 0)) break;
  }
  bq_session_free(s);
  unload(&l);
}

static void test_skipped_layers_are_not_read(void) {
  fixture_spec spec = create_spec(false, false, BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_32);
  fixture f = fixture_make(&spec);
  char text[5][64];
  const char *names[5];
  for (uint32_t i = 0; i < 5; i++) {
    snprintf(text[i], sizeof text[i], "h.%u.mlp.down.weight", i);
    names[i] = text[i];
    REQUIRE(fixture_find(&f, names[i]) != NULL);
  }
  static const uint32_t sets[] = {1 << 2, 1, 1 << 4, 1 << 3 | 1 << 4, 0xf, 0x1e};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    for (uint32_t resident = 0; resident < 3; resident++)
      check_skipped_pages(&f, names, resident, sets[i]);
  fixture_free(&f);
}

/* Only the last window needs the LM head. */
static void test_windows_before_the_last_read_no_head(void) {
  fixture_spec spec = create_spec(false, false, BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_32);
  fixture f = fixture_make(&spec);
  compute_expected(&f);
  const fixture_tensor *head = fixture_find(&f, "lm_head.weight");
  REQUIRE(head != NULL);
  for (uint32_t window = 1; window <= 8; window++) {
    loaded_model l;
    load_or_abort(&l, &f, (bq_residency){.paged = true, .layers = window % 3}, 0);
    bq_session *s = create_session(&l, (bq_session_options){.prefill_window = window});
    bq_session_sync(s, prompt, PROMPT, NULL, NULL);
    bq_status status;
    while ((status = bq_session_run(s, 1, NULL)) != BQ_OK) {
      bq_page p;
      size_t n;
      while (bq_session_pages(s, &p, 1, &n) == BQ_OK && n) {
        bool of_head = p.offset >= head->offset && p.offset < head->offset + head->bytes;
        if (of_head) CHECK(s->sequence.computed + window >= PROMPT);
        memcpy(p.dst, f.bytes + p.offset, p.bytes);
        CHECK_EQ(bq_model_page_done(l.model, p.id, true, NULL), BQ_OK);
        if (status == BQ_WANT_DATA) break; /* This page can be the one that was missing. */
      }
    }
    check_logits(s, PROMPT - 1);
    bq_session_free(s);
    unload(&l);
  }
  fixture_free(&f);
}

/* The bytes read for a token are those of the plan. */
static void test_streamed_bytes_are_planned(void) {
  for (uint32_t layers = 0; layers < 5; layers++)
    for (int head = 0; head < 2; head++) {
      fixture_spec spec = create_spec(false, false, BQ_TYPE_BQ8_32, BQ_TYPE_BQ4_32);
      fixture f = fixture_make(&spec);
      compute_expected(&f);
      loaded_model l;
      bq_residency r = {true, head, layers};
      load_or_abort(&l, &f, r, 0);
      bq_paging plan = l.loader->block.paging;
      bq_session *s = create_session(&l, (bq_session_options){0});
      host h = create_host(&f, &l, 1);
      bq_session_sync(s, prompt, 4, NULL, NULL);
      run(&h, s, 0);
      while (h.n_pending) complete_page(&h);
      h.bytes = 0;
      for (uint32_t i = 0; i < 6; i++) {
        bq_session_append(s, (72 + 8 * i) % VOCAB, NULL); /* rows that were not read before */
        run(&h, s, 1);
      }
      while (h.n_pending) complete_page(&h);
      /* Full buffers before and after change the sum by two slots at most. */
      CHECK(h.bytes <= 6 * plan.streamed_bytes + 2 * plan.slot_bytes);
      CHECK(h.bytes + 2 * plan.slot_bytes >= 6 * plan.streamed_bytes);
      if (!plan.streamed_bytes) CHECK_EQ(h.bytes, 0);
      bq_session_free(s);
      unload(&l);
      fixture_free(&f);
    }
}

/* --- planning ------------------------------------------------------------------------------- */

enum { SESSIONS = 2 };
static bq_plan planned_memory;

static bq_status plan(const fixture *f, uint64_t budget, uint32_t extra_slots, bq_paging *out,
                      bq_error *err) {
  bq_budget b = {budget, SESSIONS, extra_slots};
  return bq_plan_paging(f->bytes, f->n, f->n, f->manifest, f->manifest_bytes,
                        &(bq_session_options){.context = 8}, &b, NULL, &planned_memory, out, err);
}

/* The sum of the memory in a plan. */
static uint64_t sum(const bq_plan *p) {
  return p->loader_bytes + p->prefix_block + p->model_bytes + SESSIONS * p->session_bytes;
}

static void check_budgets(const fixture *f, uint32_t extra_slots) {
  bq_paging resident, p, previous = {0};
  bq_error err = {0};
  CHECK_EQ(plan(f, UINT64_MAX, extra_slots, &resident, &err), BQ_OK);
  CHECK(!resident.residency.paged && !resident.slot_bytes && !resident.streamed_bytes);
  bool fits = false;
  uint32_t choices = 0;
  const uint64_t max_bytes = sum(&planned_memory), weights = planned_memory.weight_bytes;
  for (uint64_t budget = 1000; budget < max_bytes + 64; budget += 997) {
    bq_status status = plan(f, budget, extra_slots, &p, &err);
    if (status) {
      CHECK_EQ(status, BQ_NOMEM);
      CHECK(!fits); /* A larger budget always suffices if a smaller one did. */
      continue;
    }
    CHECK_EQ(planned_memory.model_bytes, p.model_bytes);
    CHECK_EQ(planned_memory.weight_bytes, weights);
    CHECK(sum(&planned_memory) + extra_slots * p.slot_bytes <= budget);
    if (fits) CHECK(p.streamed_bytes <= previous.streamed_bytes);
    if (!fits || p.streamed_bytes != previous.streamed_bytes) {
      choices++;
      loaded_model l;
      load_or_abort(&l, f, p.residency, 0);
      CHECK_EQ(l.memory.peak, sum(&planned_memory) - SESSIONS * planned_memory.session_bytes);
      unload(&l);
    }
    fits = true;
    previous = p;
  }
  CHECK(fits && choices > 1);
}

static void test_budgets(void) {
  fixture_spec spec = create_spec(false, false, BQ_TYPE_F32, BQ_TYPE_BQ4_32);
  fixture f = fixture_make(&spec);
  check_budgets(&f, 0);
  check_budgets(&f, 2);
  fixture_free(&f);
  spec = create_spec(true, true, BQ_TYPE_F16, BQ_TYPE_F16);
  f = fixture_make(&spec);
  check_budgets(&f, 0);
  fixture_free(&f);
}

static void test_budget_errors(void) {
  fixture_spec spec = create_spec(false, true, BQ_TYPE_F32, BQ_TYPE_F32);
  fixture f = fixture_make(&spec);
  bq_error err = {0};
  bq_paging p = {.units = 77};
  CHECK_EQ(plan(&f, 20000, 0, &p, &err), BQ_NOMEM);
  CHECK(strstr(err.detail, "leave no room for a model in 20000 bytes") != NULL);
  bq_paging resident;
  CHECK_EQ(plan(&f, UINT64_MAX, 0, &resident, &err), BQ_OK);
  CHECK_EQ(plan(&f, sum(&planned_memory) - planned_memory.model_bytes + 10000, 0, &p, &err),
           BQ_NOMEM);
  CHECK(strstr(err.detail, "even when its weights are streamed, there is room for") != NULL);
  CHECK_EQ(p.units, 77);
  fixture_free(&f);
}

/* Tensors of another container, stored in their compute type: paged if the distances of the tensors
 * of a layer are multiples of 64 bytes, else refused. */
static void test_paging_of_other_containers(void) {
  fixture_spec spec = create_spec(false, true, BQ_TYPE_F32, BQ_TYPE_F32);
  spec.version = FIXTURE_FOREIGN;
  for (uint32_t align = 8; align <= 64; align *= 2) {
    spec.align = align;
    spec.scattered = align < 64;
    fixture f = fixture_make(&spec);
    bq_error err = {0};
    loaded_model l;
    bq_status status = load(&l, &f, (bq_residency){.paged = true}, 0, &err);
    CHECK_EQ(status, align < 64 ? BQ_UNSUPPORTED : BQ_OK);
    if (status) {
      CHECK(strstr(err.detail, "can't be paged: it lies at no multiple of 64") != NULL);
    } else {
      compute_expected(&f);
      prefill_and_decode(&f, &l, 5, 2, 1, 3);
    }
    unload(&l);
    fixture_free(&f);
  }
}

/* Rows that are repacked into tiles cannot be paged. */
static void test_refused_layouts(void) {
  fixture_spec spec = create_spec(false, true, BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_32);
  for (int v1 = 0; v1 < 2; v1++) {
    if (v1) spec.version = 1, spec.block = 32;
    spec.layout = BQ_ROWS;
    fixture f = fixture_make(&spec);
    loaded_model l;
    bq_error err = {0};
    CHECK_EQ(load(&l, &f, (bq_residency){.paged = true}, 0, &err), BQ_UNSUPPORTED);
    CHECK(strstr(err.detail, "can't be paged: it is not stored as it is computed with") != NULL);
    unload(&l);
    bq_paging p;
    CHECK_EQ(plan(&f, UINT64_MAX, 0, &p, &err), BQ_OK);
    CHECK_EQ(plan(&f, sum(&planned_memory) - 1, 0, &p, &err), BQ_UNSUPPORTED);
    fixture_free(&f);
  }
}

/* Weights are verified while they are loaded, also if they do not stay in memory. */
static void test_paged_weights_are_verified(void) {
  fixture_spec spec = create_spec(false, true, BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_32);
  spec.fused = false;
  fixture f = fixture_make(&spec);
  const fixture_tensor *t = fixture_find(&f, "h.2.mlp.up.weight");
  REQUIRE(t != NULL);
  uint8_t *scale = f.bytes + t->offset + 160 + 3;
  loaded_model l;
  bq_error err = {0};
  *scale ^= 1;
  CHECK_EQ(load(&l, &f, (bq_residency){.paged = true}, 100, &err), BQ_CHECKSUM);
  unload(&l);
  memset(scale - 3, 0xff, 4);
  fixture_seal(f.bytes, f.n);
  CHECK_EQ(load(&l, &f, (bq_residency){.paged = true}, 100, &err), BQ_FORMAT);
  CHECK_EQ(err.offset, t->offset + 160);
  unload(&l);
  fixture_free(&f);
}

int main(void) {
  RUN(test_bits_do_not_depend_on_residency);
  RUN(test_capacity_of_one_page);
  RUN(test_failed_reads_are_repeated);
  RUN(test_sessions_share_pages);
  RUN(test_two_sessions_in_one_batch);
  RUN(test_reading_ahead);
  RUN(test_skipped_layers_are_not_read);
  RUN(test_windows_before_the_last_read_no_head);
  RUN(test_streamed_bytes_are_planned);
  RUN(test_budgets);
  RUN(test_budget_errors);
  RUN(test_refused_layouts);
  RUN(test_paging_of_other_containers);
  RUN(test_paged_weights_are_verified);
  return check_summary();
}
