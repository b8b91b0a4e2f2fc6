/* The functions of border.h, except those of an open session (session_api.c) and of threads
 * (threads.c). They check handles, convert numbers and call bq.h. An instance of the module is one
 * engine: its handles, heap and last error are in `engine`. */
#include "api.h"

#include "core/hash.h"
#include "load/conversion.h"
#include "bq.h"
#include "model/model.h"
#include "session/session.h"
#include "threads.h"
#include "trace.h"

/* --- the instance --------------------------------------------------------------------------- */

typedef enum kind { FREE = 0, LOADER, MODEL, SESSION } kind;

typedef struct handle {
  uint32_t number;
  kind kind;
  void *object;
} handle;

enum { HANDLES = 64 };

static struct {
  bq_heap *heap;
  bq_allocator allocator;
  size_t bytes;
  bqw_error_record error;
  uint32_t next_number;
  handle handles[HANDLES];
  uint32_t spread; /* minimum tokens from which matmuls are spread; 0: never */
} engine;

uint32_t bqw_report(bq_status status, const bq_error *err) {
  engine.error.status = (uint32_t)status;
  engine.error.offset = -1;
  engine.error.detail[0] = 0;
  if (err && status != BQ_OK && err->status == status) {
    if (err->offset != BQ_NO_OFFSET) engine.error.offset = (double)err->offset;
    for (size_t i = 0; i < sizeof err->detail; i++) engine.error.detail[i] = err->detail[i];
  }
  return (uint32_t)status;
}

uint32_t bqw_fail(bq_status status, const char *detail) {
  bq_error err;
  return bqw_report(bq_fail(&err, status, BQ_NO_OFFSET, "%s", detail), &err);
}

static void *object_of(uint32_t number, kind kind) {
  for (size_t i = 0; number && i < HANDLES; i++)
    if (engine.handles[i].number == number && engine.handles[i].kind == kind)
      return engine.handles[i].object;
  bqw_fail(BQ_ARGUMENT, "the handle is closed or unknown");
  return NULL;
}

bq_session *bqw_session_of(uint32_t session) { return object_of(session, SESSION); }

static handle *free_handle(void) {
  for (size_t i = 0; i < HANDLES; i++)
    if (engine.handles[i].kind == FREE) return &engine.handles[i];
  bqw_fail(BQ_NOMEM, "more than 64 loaders, models and sessions are open: close some");
  return NULL;
}

/* Gives the object a new number in a handle from free_handle. */
static void open_handle(handle *h, kind kind, void *object, uint32_t *out) {
  *h = (handle){++engine.next_number, kind, object};
  *out = h->number;
}

static void close_handle_of(const void *object) {
  for (size_t i = 0; i < HANDLES; i++)
    if (engine.handles[i].object == object) engine.handles[i] = (handle){0};
}

BQW(uint32_t) bqw_abi(void) { return BQ_ABI; }

BQW(const char *) bqw_build(void) { return bq_kernels_best()->name; }
BQW(const char *) bqw_status_name(uint32_t status) { return bq_status_name((bq_status)status); }
BQW(const char *) bqw_status_hint(uint32_t status) { return bq_status_hint((bq_status)status); }
BQW(bqw_error_record *) bqw_error(void) { return &engine.error; }

BQW(uint32_t) bqw_init(uint32_t base, uint32_t bytes) {
  if (engine.heap) return bqw_fail(BQ_STATE, "the engine is initialised already");
  engine.heap = bq_heap_create((void *)(uintptr_t)base, bytes);
  if (!engine.heap) return bqw_fail(BQ_NOMEM, "the heap is too small for the engine itself");
  engine.allocator = bq_heap_allocator(engine.heap);
  engine.bytes = bytes;
  return bqw_report(BQ_OK, NULL);
}

BQW(uint32_t) bqw_self_test(void) { return bq_kernels_self_test(bq_kernels_best()); }

BQW(void) bqw_heap(bqw_heap_info *out) {
  *out = (bqw_heap_info){(double)bq_heap_used(engine.heap), (double)bq_heap_peak(engine.heap),
                         (double)engine.bytes};
}

bq_allocator bqw_allocator(void) { return engine.allocator; }

BQW(uint32_t) bqw_alloc(uint32_t bytes) {
  return (uint32_t)(uintptr_t)engine.allocator.alloc(engine.allocator.ctx, bytes);
}

BQW(void) bqw_free(uint32_t ptr) {
  engine.allocator.free(engine.allocator.ctx, (void *)(uintptr_t)ptr);
}

/* --- plan and load -------------------------------------------------------------------------- */

_Static_assert(sizeof(bqw_adapter_part) == sizeof(bq_lora), "the list is used in place");

/* Heap bytes for blocks of bqw_alloc and bqw_tokenize: prompts (text, ids, tokenizer scratch), text
 * of replies, token masks. */
static uint64_t reserve_bytes(const bq_plan *plan, const bq_session_options *options) {
  uint64_t context = options->context ? options->context : plan->config.context;
  return 256 * 1024 + 256 * context;
}

uint64_t bqw_u64(double v) {
  if (!(v > 0)) return 0;
  return v < 0x1p63 ? (uint64_t)v : UINT64_MAX;
}

static bq_session_options session_options(const bqw_session_options *in) {
  bq_session_options o = {0};
  if (in) {
    o.context = in->context;
    o.prefill_window = in->window;
    o.batch = in->batch;
    o.kv_type = (bq_kv_type)in->kv_type;
    o.activations = (bq_activations)in->activations;
    o.parallel.threads = in->threads;
    o.forks = in->forks;
    o.fork_positions = in->fork_positions;
    o.kv_window = in->kv_window;
    o.sinks = in->sinks;
    o.head = in->head;
    o.evict = (bq_evict)in->evict;
    o.rows = in->drafts < UINT32_MAX ? in->drafts + 1 : UINT32_MAX;
  }
  o.parallel.run = bqw_parallel().run;
  return o;
}

#define TOO_MANY_THREADS "more threads than this engine can have"

static double heap_bytes(const bq_plan *p, const bq_session_options *o, uint32_t sessions) {
  const uint64_t blocks[] = {p->loader_bytes, p->prefix_block, p->model_bytes, reserve_bytes(p, o)};
  double sum = (double)bq_heap_overhead() + 2 * BQ_ALIGN;
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
    sum += (double)blocks[i] + 2 * BQ_ALIGN;
  if (p->cluster_bytes) sum += (double)p->cluster_bytes + 2 * BQ_ALIGN;
  const size_t threads = o->parallel.threads;
  if (threads > 1) sum += (double)(threads - 1) * BQW_THREAD_STACK + 2 * BQ_ALIGN;
  return sum + ((double)p->session_bytes + 2 * BQ_ALIGN) * sessions;
}

static void copy_plan(const bq_plan *p, bqw_plan *out) {
  const bq_config *c = &p->config;
  *out = (bqw_plan){.file_bytes = (double)p->file_bytes,
                    .prefix_bytes = (double)p->prefix_bytes,
                    .weight_bytes = (double)p->weight_bytes,
                    .model_bytes = (double)p->model_bytes,
                    .session_bytes = (double)p->session_bytes,
                    .kv_bytes = (double)p->kv_bytes,
                    .token_weights = (double)p->token_weights,
                    .foreign = p->foreign,
                    .layers = c->layers,
                    .hidden = c->hidden,
                    .heads = c->heads,
                    .kv_heads = c->kv_heads,
                    .head_dim = c->head_dim,
                    .ffn = c->ffn,
                    .vocab = c->vocab,
                    .context = c->context,
                    .arch = c->arch,
                    .tokens = c->tokens,
                    .tied = c->tied,
                    .no_head = c->no_head,
                    .bidirectional = c->bidirectional,
                    .pooling = (uint32_t)c->pooling,
                    .normalize = c->normalize,
                    .text_tokens = c->text_tokens,
                    .lacks_kernels = p->lacks_kernels,
                    .key_bias = p->key_bias,
                    .vector_cols = bq_config_vector_cols(c),
                    .labels = c->labels,
                    .state_cols = bq_buffer_cols(c, BQ_BUFFER_CONV_OUT) +
                                  bq_buffer_cols(c, BQ_BUFFER_STATE_OUT),
                    .layer_embeds = bq_config_layer_embeds(c)};
}

BQW(uint32_t)
bqw_plan_make(const uint8_t *bytes, uint32_t n, double file_bytes, const uint8_t *manifest,
              uint32_t manifest_bytes, const bqw_session_options *options, uint32_t sessions,
              bqw_plan *out) {
  bq_error err = {0};
  bq_plan plan;
  uint64_t need = 0;
  bq_session_options o = session_options(options);
  if (o.parallel.threads > BQW_THREADS) return bqw_fail(BQ_ARGUMENT, TOO_MANY_THREADS);
  bq_status status = bq_plan_make(bytes, n, bqw_u64(file_bytes), manifest, manifest_bytes, &o,
                                  &need, &plan, &err);
  if (status == BQ_WANT_DATA) out->need = (double)need;
  if (status == BQ_OK) {
    copy_plan(&plan, out);
    out->heap_bytes = heap_bytes(&plan, &o, sessions);
  }
  return bqw_report(status, &err);
}

/* The part of heap_bytes that bq_plan_paging doesn't count. */
static uint64_t unplanned_heap_bytes(const bq_session_options *o, uint32_t sessions,
                                     uint32_t context) {
  bq_plan empty = {.config = {.context = context}};
  return (uint64_t)heap_bytes(&empty, o, sessions);
}

BQW(uint32_t)
bqw_plan_paging(const uint8_t *bytes, uint32_t n, double file_bytes, const uint8_t *manifest,
                uint32_t manifest_bytes, const bqw_session_options *options, uint32_t sessions,
                double budget, uint32_t host_slots, bqw_paging *paging, bqw_plan *out) {
  bq_error err = {0};
  bq_plan plan;
  bq_paging p;
  uint64_t need = 0;
  bq_session_options o = session_options(options);
  bq_budget b = {UINT64_MAX, sessions, host_slots};
  if (o.parallel.threads > BQW_THREADS) return bqw_fail(BQ_ARGUMENT, TOO_MANY_THREADS);
  /* The reserve depends on the model's context, so the first plan has no limit. */
  bq_status status = bq_plan_paging(bytes, n, bqw_u64(file_bytes), manifest, manifest_bytes, &o, &b,
                                    &need, &plan, &p, &err);
  if (status == BQ_OK) {
    uint64_t rest = unplanned_heap_bytes(&o, sessions, plan.config.context), all = bqw_u64(budget);
    b.bytes = all > rest ? all - rest : 0;
    status = bq_plan_paging(bytes, n, bqw_u64(file_bytes), manifest, manifest_bytes, &o, &b, &need,
                            &plan, &p, &err);
  }
  if (status == BQ_WANT_DATA) out->need = (double)need;
  if (status == BQ_OK) {
    copy_plan(&plan, out);
    out->heap_bytes = heap_bytes(&plan, &o, sessions);
    *paging = (bqw_paging){.model_bytes = (double)p.model_bytes,
                           .slot_bytes = (double)p.slot_bytes,
                           .streamed_bytes = (double)p.streamed_bytes,
                           .paged = p.residency.paged,
                           .head = p.residency.head,
                           .layers = p.residency.layers,
                           .units = p.units};
  }
  return bqw_report(status, &err);
}

BQW(uint32_t)
bqw_loader_create(double file_bytes, double prefix_hint, const uint8_t *manifest,
                  uint32_t manifest_bytes, const uint8_t *integrity,
                  const bqw_paging *paging, uint32_t *out) {
  handle *h = free_handle();
  if (!h) {
    if (manifest_bytes) bqw_free((uint32_t)(uintptr_t)manifest);
    return BQ_NOMEM;
  }
  bq_error err = {0};
  bq_loader *loader;
  bq_loader_options o = {.allocator = engine.allocator,
                         .file_bytes = bqw_u64(file_bytes),
                         .prefix_hint = bqw_u64(prefix_hint),
                         .manifest = manifest,
                         .manifest_bytes = manifest_bytes,
                         .owns_manifest = manifest_bytes != 0,
                         .integrity = integrity};
  if (paging) o.residency = (bq_residency){paging->paged != 0, paging->head != 0, paging->layers};
  bq_status status = bq_loader_create(&o, &loader, &err);
  if (status == BQ_OK) open_handle(h, LOADER, loader, out);
  return bqw_report(status, &err);
}

BQW(uint32_t) bqw_loader_want(uint32_t loader, bqw_want *out) {
  bq_loader *l = object_of(loader, LOADER);
  if (!l) return BQ_ARGUMENT;
  bq_error err = {0};
  bq_want want;
  bq_status status = bq_loader_want(l, &want, &err);
  if (status == BQ_OK)
    *out = (bqw_want){(double)want.offset, (double)want.length, (uint32_t)(uintptr_t)want.dst,
                      (uint32_t)want.dst_bytes};
  return bqw_report(status, &err);
}

BQW(uint32_t) bqw_loader_wrote(uint32_t loader, uint32_t n) {
  bq_loader *l = object_of(loader, LOADER);
  if (!l) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_loader_wrote(l, n, &err), &err);
}

BQW(uint32_t) bqw_loader_retry(uint32_t loader) {
  bq_loader *l = object_of(loader, LOADER);
  if (!l) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_loader_retry(l, &err), &err);
}

BQW(uint32_t) bqw_loader_model(uint32_t loader, uint32_t *out) {
  bq_loader *l = object_of(loader, LOADER);
  handle *h = free_handle();
  if (!l || !h) return engine.error.status;
  bq_error err = {0};
  bq_model *model;
  bq_status status = bq_loader_model(l, &model, &err);
  if (status == BQ_OK) open_handle(h, MODEL, model, out);
  return bqw_report(status, &err);
}

BQW(uint32_t) bqw_loader_free(uint32_t loader) {
  bq_loader *l = object_of(loader, LOADER);
  if (!l) return BQ_ARGUMENT;
  bq_model *model;
  if (bq_loader_model(l, &model, NULL) == BQ_OK) close_handle_of(model);
  close_handle_of(l);
  bq_loader_free(l);
  return bqw_report(BQ_OK, NULL);
}

/* --- model and text ------------------------------------------------------------------------- */

BQW(uint32_t) bqw_model_ready(uint32_t model) {
  bq_model *m = object_of(model, MODEL);
  return m ? bq_model_ready(m) : 0;
}

BQW(uint32_t) bqw_model_cluster(uint32_t model) {
  bq_model *m = object_of(model, MODEL);
  if (!m) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_model_cluster(m, engine.allocator, &err), &err);
}

BQW(uint32_t)
bqw_model_section(uint32_t model, uint32_t tag, uint32_t *out, uint32_t *bytes) {
  bq_model *m = object_of(model, MODEL);
  if (!m) return BQ_ARGUMENT;
  const char text[4] = {(char)tag, (char)(tag >> 8), (char)(tag >> 16), (char)(tag >> 24)};
  size_t n = 0;
  *out = (uint32_t)(uintptr_t)bq_model_section(m, text, &n);
  *bytes = *out ? (uint32_t)n : 0;
  return bqw_report(BQ_OK, NULL);
}

static const bq_tokenizer *tokenizer_of(uint32_t model) {
  bq_model *m = object_of(model, MODEL);
  if (!m) return NULL;
  const bq_tokenizer *t = bq_model_tokenizer(m);
  if (!t) bqw_fail(BQ_STATE, "the model has no tokenizer");
  return t;
}

BQW(uint32_t) bqw_tokenizer_info_get(uint32_t model, bqw_tokenizer_info *out) {
  const bq_tokenizer *t = tokenizer_of(model);
  if (!t) return engine.error.status;
  bq_tokenizer_info i = bq_tokenizer_info_get(t);
  *out = (bqw_tokenizer_info){(uint32_t)i.kind, i.tokens, i.bos,     i.eos,
                              i.unk,            i.pad,    i.add_bos, i.add_eos};
  return bqw_report(BQ_OK, NULL);
}

/* Tokenizes with the usual amount of scratch (options.usual) or with the largest amount that
 * normalizing the text may need. */
static bq_status tokenize(const bq_tokenizer *t, const char *text, uint32_t bytes,
                          bq_tokenize_options options, uint32_t *ids, uint32_t capacity,
                          size_t *count) {
  uint64_t need = bq_tokenize_scratch(t, bytes, options.usual);
  void *scratch = NULL;
  if (need <= SIZE_MAX) scratch = engine.allocator.alloc(engine.allocator.ctx, (size_t)need);
  if (!scratch) return BQ_NOMEM;
  bq_status status = bq_tokenize(t, text, bytes, &options, scratch, ids, capacity, count);
  engine.allocator.free(engine.allocator.ctx, scratch);
  return status;
}

BQW(uint32_t)
bqw_tokenize(uint32_t model, const char *text, uint32_t bytes, uint32_t flags, uint32_t *ids,
             uint32_t capacity, uint32_t *count, const uint32_t *plain, uint32_t n_plain) {
  const bq_tokenizer *t = tokenizer_of(model);
  if (!t) return engine.error.status;
  size_t n = 0;
  bq_tokenize_options o = {(flags & 1) != 0,
                           (flags & 2) != 0,
                           true,
                           (flags & 4) != 0,
                           (const bq_text_range *)plain,
                           n_plain};
  bq_status status = tokenize(t, text, bytes, o, ids, capacity, &n);
  o.usual = false;
  if (status == BQ_NOMEM) status = tokenize(t, text, bytes, o, ids, capacity, &n);
  *count = (uint32_t)n;
  if (status == BQ_OK) return bqw_report(status, NULL);
  if (status == BQ_NOMEM)
    return bqw_fail(status, "the text is too long to tokenize at once in this heap");
  return bqw_fail(status, "the text has more tokens than there is room for");
}

BQW(uint32_t) bqw_token_find(uint32_t model, const char *text, uint32_t bytes) {
  const bq_tokenizer *t = tokenizer_of(model);
  return t ? bq_token_find(t, text, bytes) : BQ_TOKEN_NONE;
}

BQW(uint32_t) bqw_token_text(uint32_t model, uint32_t id, uint32_t *bytes) {
  const bq_tokenizer *t = tokenizer_of(model);
  *bytes = 0;
  if (!t) return 0;
  size_t n;
  const uint8_t *text = bq_token_text(t, id, &n);
  *bytes = (uint32_t)n;
  return (uint32_t)(uintptr_t)text;
}

BQW(uint32_t) bqw_token_flags(uint32_t model, uint32_t id) {
  const bq_tokenizer *t = tokenizer_of(model);
  if (!t) return 0;
  return (bq_token_ends(t, id) ? 1u : 0u) | (bq_token_special(t, id) ? 2u : 0u);
}

BQW(uint32_t) bqw_detokenize_limit(uint32_t model) {
  const bq_tokenizer *t = tokenizer_of(model);
  return t ? (uint32_t)bq_detokenize_limit(t) : 0;
}

_Static_assert(sizeof(bq_detokenizer) <= 8, "js/ keeps eight bytes per stream");

BQW(uint32_t) bqw_detokenize(uint32_t model, uint8_t *state, uint32_t id, char *out) {
  const bq_tokenizer *t = tokenizer_of(model);
  if (!t) return 0;
  bq_detokenizer *d = (bq_detokenizer *)state;
  if (id == BQ_TOKEN_NONE) return (uint32_t)bq_detokenize_end(d, out);
  return (uint32_t)bq_detokenize(t, d, id, out);
}

/* --- session -------------------------------------------------------------------------------- */

__attribute__((import_module("env"), import_name("stop"))) bool bqw_stop(void *ctx);

BQW(uint32_t)
bqw_session_create(uint32_t model, const bqw_session_options *options, uint32_t *out) {
  bq_model *m = object_of(model, MODEL);
  handle *h = free_handle();
  if (!m || !h) return engine.error.status;
  bq_error err = {0};
  bq_session *session;
  bq_session_options o = session_options(options);
  o.parallel = bqw_parallel();
  o.stop.is_requested = bqw_stop;
  o.spread = engine.spread;
  bq_status status = bq_session_create(m, &o, engine.allocator, &session, &err);
  if (status == BQ_OK) open_handle(h, SESSION, session, out);
  return bqw_report(status, &err);
}

BQW(uint32_t) bqw_session_fork(uint32_t session, uint32_t *out) {
  bq_session *s = object_of(session, SESSION);
  handle *h = free_handle();
  if (!s || !h) return engine.error.status;
  bq_error err = {0};
  bq_session *fork;
  bq_status status = bq_session_fork(s, &fork, &err);
  if (status == BQ_OK) open_handle(h, SESSION, fork, out);
  return bqw_report(status, &err);
}

BQW(uint32_t) bqw_session_free(uint32_t session) {
  bq_session *s = object_of(session, SESSION);
  if (!s) return BQ_ARGUMENT;
  close_handle_of(s);
  bqw_trace_end(s, engine.allocator);
  bq_session_free(s);
  return bqw_report(BQ_OK, NULL);
}

BQW(uint32_t) bqw_page_done(uint32_t model, uint32_t id, uint32_t good) {
  bq_model *m = object_of(model, MODEL);
  if (!m) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_model_page_done(m, id, good != 0, &err), &err);
}

/* A session that is in the middle of a work unit when spreading ends finishes it without spreading.
 */
BQW(void) bqw_spread_from(uint32_t tokens) {
  engine.spread = tokens;
  for (size_t i = 0; i < HANDLES; i++)
    if (engine.handles[i].kind == SESSION) {
      bq_session *s = engine.handles[i].object;
      if (!s->model->pages) s->options.spread = tokens ? tokens : UINT32_MAX;
    }
}

/* --- for converters ------------------------------------------------------------------------- */

bool bqw_knows_type(uint32_t type, uint32_t layout) {
  if (bq_type_get(type) && layout <= BQ_FLAT) return true;
  bqw_fail(BQ_ARGUMENT, "unknown weight type or layout");
  return false;
}

BQW(double) bqw_type_bytes(uint32_t type, uint32_t layout, double rows, double cols) {
  if (!bqw_knows_type(type, layout)) return -1;
  uint64_t n = bq_type_bytes((bq_type)type, (bq_layout)layout, bqw_u64(rows), bqw_u64(cols));
  return n == UINT64_MAX ? -1 : (double)n;
}

BQW(uint32_t) bqw_run_type(uint32_t stored) {
  return stored < BQ_TYPE_COUNT ? (uint32_t)bq_type_get((bq_type)stored)->run : BQ_TYPE_COUNT;
}

BQW(uint32_t)
bqw_repack(uint32_t stored, const uint8_t *src, uint32_t rows, uint32_t cols, uint8_t *dst) {
  if (bqw_run_type(stored) == BQ_TYPE_COUNT || !rows || !cols)
    return bqw_fail(BQ_ARGUMENT, "no matrix of a type that can be read");
  bq_conversion c = bq_conversion_of((bq_type)stored, BQ_ROWS, rows, cols, false);
  if (c.kind != BQ_CONVERT_TILE)
    return bqw_fail(BQ_ARGUMENT, "this type is computed with as it is stored");
  bq_error err = {0};
  size_t n = (size_t)c.bytes, bad = bq_conversion_find_bad(&c, src, n);
  if (bad < n)
    return bqw_report(bq_fail(&err, BQ_FORMAT, bad, "a scale that is NaN or infinite"), &err);
  uint8_t *spare = engine.allocator.alloc(engine.allocator.ctx, (size_t)c.spare + 1);
  if (!spare) return bqw_fail(BQ_NOMEM, "no room to repack");
  bq_convert(&c, bq_kernels_best(), src, 0, n, dst, spare);
  engine.allocator.free(engine.allocator.ctx, spare);
  return bqw_report(BQ_OK, NULL);
}

BQW(double) bqw_xxh64(const uint8_t *bytes, uint32_t n, uint64_t *out) {
  *out = bq_xxh64(bytes, n, 0);
  return 0;
}

_Static_assert(sizeof(bq_sha256_state) == 104, "js/ keeps 104 bytes per hash");

BQW(void) bqw_sha256(uint8_t *state, const uint8_t *bytes, uint32_t n, uint8_t *out) {
  bq_sha256_state *s = (bq_sha256_state *)(void *)state;
  if (!s->h[0] && !s->total) bq_sha256_begin(s);
  bq_sha256_add(s, bytes, n);
  if (out) bq_sha256_end(s, out);
}
