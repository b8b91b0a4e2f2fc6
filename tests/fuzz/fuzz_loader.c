/* Any bytes as a file, fed in any parts: an error or a model, with the planned memory, and an
 * accepted model computes tokens. A byte that is wrong at first has no effect after a checksum has
 * reported it and the bytes are fed again. */
#include "format_input.h"
#include "session/create.h"

enum { ROOM = 1 << 24 };

static void require(bool ok) {
  if (!ok) abort();
}

/* An allocator that is limited to 16 MiB. */
static void *bounded_alloc(void *ctx, size_t bytes) {
  fixture_memory *memory = ctx;
  return bytes < ROOM && memory->used < ROOM ? allocate(memory, bytes) : NULL;
}

/* Feeds the file; `choices` determines the lengths of the parts. */
static bq_status feed(const format_input *in, bq_loader *loader, bool *complete, bq_error *err) {
  uint32_t random = in->choices;
  for (;;) {
    bq_want want;
    bq_status status = bq_loader_want(loader, &want, err);
    if (status) return status;
    *complete = want.length == 0;
    if (*complete || want.offset >= in->n) return BQ_OK;
    require(want.dst_bytes > 0 && want.dst_bytes <= want.length);
    random = random * 1664525u + 1013904223u;
    size_t n = in->n - (size_t)want.offset, random_length = 1 + (random >> 20) % 300;
    if (in->choices & 0x10 && random_length < n) n = random_length;
    if (in->choices & 0x20) {
      if (n > want.dst_bytes) n = want.dst_bytes;
      memcpy(want.dst, in->file + want.offset, n);
      status = bq_loader_wrote(loader, n, err);
    } else {
      status = bq_loader_feed(loader, in->file + want.offset, n, err);
    }
    if (status) return status;
  }
}

/* Reads a page that the session requests. */
static void read_page(const format_input *in, bq_session *session, bq_model *model) {
  bq_page page;
  size_t n;
  require(bq_session_pages(session, &page, 1, &n) == BQ_OK && n == 1);
  require(page.offset <= in->n && page.bytes <= in->n - page.offset);
  memcpy(page.dst, in->file + page.offset, page.bytes);
  require(bq_model_page_done(model, page.id, true, NULL) == BQ_OK);
}

/* Computes two tokens. */
static void compute(const format_input *in, bq_model *model, bq_allocator allocator) {
  bq_session_options options = {.context = model->config.context < 4 ? 0 : 4};
  if (bq_session_memory(&model->config, model->kernels, &options, NULL) > ROOM / 4) return;
  bq_session *session;
  const uint32_t tokens[] = {0, model->config.vocab - 1};
  if (bq_session_create(model, &options, allocator, &session, NULL)) return;
  bq_status status =
      bq_session_sync(session, tokens, model->config.context < 2 ? 1 : 2, NULL, NULL);
  while (!status || status == BQ_MORE || (status == BQ_WANT_DATA && model->pages)) {
    if (status == BQ_WANT_DATA) read_page(in, session, model);
    status = bq_session_run(session, 1, NULL);
    if (!status) break;
  }
  require(status == BQ_OK && bq_session_logits(session));
  bq_session_free(session);
}

/* Feeds the file with one byte changed until a checksum reports it, then the original file. Returns
 * true if a checksum reported it; *status is then the status of the original file. */
static bool feed_damaged(const format_input *in, bq_loader *loader, bool *complete,
                         bq_status *status, bq_error *err) {
  const size_t at = (size_t)(in->choices * 2654435761u >> 8) % in->n;
  in->file[at] ^= 0x10;
  *status = feed(in, loader, complete, err);
  in->file[at] ^= 0x10;
  if (*status != BQ_CHECKSUM) {
    bool retryable =
        !*status || *status == BQ_INTEGRITY; /* BQ_INTEGRITY of a header can be retried */
    require(retryable || bq_loader_retry(loader, NULL) == *status);
    return false;
  }
  require(bq_loader_retry(loader, err) == BQ_OK);
  *status = feed(in, loader, complete, err);
  return true;
}

/* The status of the file without a changed byte. */
static bq_status undamaged_status(const format_input *in, bq_loader_options options) {
  fixture_memory memory = {0};
  options.allocator = (bq_allocator){&memory, bounded_alloc, release};
  bq_loader *loader = NULL;
  bool complete = false;
  bq_status status = bq_loader_create(&options, &loader, NULL);
  bq_error err;
  if (!status) status = feed(in, loader, &complete, &err);
  bq_loader_free(loader);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  format_input in;
  if (!format_input_read(data, size, &in)) return 0;
  static const uint8_t integrity[BQ_SHA256_BYTES] = {1}; /* of no file */
  fixture_memory memory = {0};
  bq_allocator allocator = {&memory, bounded_alloc, release};
  bq_loader_options options = {.allocator = allocator,
                               .file_bytes = in.choices & 1 ? 0 : in.n,
                               .prefix_hint = in.choices & 2 ? in.n / 2 : 0,
                               .manifest = in.manifest,
                               .manifest_bytes = in.manifest_bytes,
                               .integrity = (in.choices & 0xc) == 0xc ? integrity : NULL,
                               .residency = {.paged = in.choices & 0x80,
                                             .head = in.n & 4,
                                             .layers = in.n & 3}};
  bq_loader *loader = NULL;
  bq_error err = {0};
  bool complete = false, damage = in.choices & 0x40 && in.n;
  bq_status status = bq_loader_create(&options, &loader, &err);
  if (!status && damage) damage = feed_damaged(&in, loader, &complete, &status, &err);
  else if (!status) status = feed(&in, loader, &complete, &err);
  if (loader && damage) require(status == undamaged_status(&in, options));
  require(status == BQ_OK || err.status == status);
  bq_model *model = NULL;
  if (loader && bq_loader_model(loader, &model, NULL) == BQ_OK) {
    uint32_t ready = BQ_READY_ALL(model->config.layers);
    require(bq_model_ready(model) <= ready && (bq_model_ready(model) == ready) >= complete);
    require(!complete || !options.integrity);
    if (complete && memory.used < ROOM / 4) compute(&in, model, allocator);
  }
  bq_loader_free(loader);
  require(memory.used == 0 && memory.blocks == 0);
  free(in.file);
  return 0;
}
