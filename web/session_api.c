/* Functions of border.h for an open session. Handles, creating and freeing are in wasm_api.c. */
#include "api.h"

#include "bq.h"
#include "session/session.h"
#include "trace.h"

BQW(double) bqw_session_state_bytes(uint32_t session) {
  bq_session *s = bqw_session_of(session);
  return s ? (double)bq_session_state_bytes(s) : -1;
}

BQW(uint32_t) bqw_session_save(uint32_t session, double at, uint8_t *out, uint32_t n) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_session_save(s, bqw_u64(at), out, n, &err), &err);
}

BQW(uint32_t) bqw_session_restore(uint32_t session, const uint8_t *bytes, uint32_t n) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_session_restore(s, bytes, n, &err), &err);
}

BQW(uint32_t)
bqw_session_adapter(uint32_t session, const bqw_adapter_part *parts, double key) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_session_set_adapter(s, (const bq_lora *)(const void *)parts,
                                           bqw_u64(key), &err), &err);
}

BQW(uint32_t) bqw_session_skip(uint32_t session, const uint32_t *layers, uint32_t n) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_session_skip(s, layers, n, &err), &err);
}

BQW(uint32_t) bqw_session_clusters(uint32_t session, uint32_t on) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_session_clusters(s, on != 0);
  return bqw_report(BQ_OK, NULL);
}

BQW(uint32_t)
bqw_session_sync(uint32_t session, const uint32_t *tokens, uint32_t n, uint32_t *kept) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  size_t k = 0;
  bqw_trace_resume(s);
  bq_status status = bq_session_sync(s, tokens, n, &k, &err);
  *kept = (uint32_t)k;
  return bqw_report(status, &err);
}

BQW(uint32_t) bqw_session_append(uint32_t session, uint32_t token) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_session_append(s, token, &err), &err);
}

BQW(uint32_t)
bqw_session_draft(uint32_t session, const uint32_t *tokens, uint32_t n, uint32_t *taken) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  size_t k = 0;
  bq_status status = bq_session_draft(s, tokens, n, &k, &err);
  *taken = (uint32_t)k;
  return bqw_report(status, &err);
}

BQW(uint32_t) bqw_session_run(uint32_t session, uint32_t work_units) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_session_run(s, work_units, &err), &err);
}

BQW(uint32_t)
bqw_session_run_with(uint32_t session, const uint32_t *others, uint32_t n, uint32_t work_units) {
  bq_session *s = bqw_session_of(session), *list[BQW_TOGETHER];
  if (!s || n > BQW_TOGETHER) return BQ_ARGUMENT;
  for (uint32_t i = 0; i < n; i++)
    if (!(list[i] = bqw_session_of(others[i]))) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_session_run_with(s, list, n, work_units, &err), &err);
}

BQW(uint32_t)
bqw_session_pages(uint32_t session, bqw_page *out, uint32_t capacity, uint32_t *count) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_page page;
  size_t n = 1;
  bq_status status = BQ_OK;
  for (*count = 0; *count < capacity; ++*count) {
    status = bq_session_pages(s, &page, 1, &n);
    if (status != BQ_OK || !n) break;
    out[*count] = bqw_page_of(&page);
  }
  return bqw_report(status, NULL);
}

BQW(uint32_t) bqw_session_logits(uint32_t session, uint32_t *out) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  const float *logits = bq_session_logits(s);
  if (!logits) return bqw_fail(BQ_STATE, "no logits yet: run the session first");
  *out = (uint32_t)(uintptr_t)logits;
  return bqw_report(BQ_OK, NULL);
}

BQW(uint32_t)
bqw_session_texts(uint32_t session, const uint32_t *tokens, const uint32_t *lengths, uint32_t n,
                  uint32_t pooling, uint32_t normalize, uint32_t *taken) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  size_t k = 0;
  bqw_trace_resume(s);
  bq_status status = bq_session_texts(s, tokens, lengths, n, (bq_pooling)pooling, normalize != 0,
                                      &k, &err);
  *taken = (uint32_t)k;
  return bqw_report(status, &err);
}

BQW(uint32_t) bqw_session_second(uint32_t session, const uint32_t *at, uint32_t n) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_session_second(s, at, n, &err), &err);
}

BQW(uint32_t) bqw_session_vector(uint32_t session, uint32_t text, uint32_t *out) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  const float *vector = bq_session_vector(s, text);
  if (!vector) return bqw_fail(BQ_STATE, "no vector yet: run the session first");
  *out = (uint32_t)(uintptr_t)vector;
  return bqw_report(BQ_OK, NULL);
}

BQW(uint32_t) bqw_session_work_units(uint32_t session) {
  bq_session *s = bqw_session_of(session);
  return s ? (uint32_t)bq_session_stats_get(s).work_units : 0;
}

BQW(uint32_t) bqw_session_rows(uint32_t session) {
  bq_session *s = bqw_session_of(session);
  return s ? bq_session_stats_get(s).rows : 0;
}

BQW(double) bqw_session_work(uint32_t session) {
  bq_session *s = bqw_session_of(session);
  if (!s) return 0;
  const bq_work work = bq_session_stats_get(s).work;
  return (double)work.weight_bytes + (double)work.kv_bytes + (double)work.macs;
}

BQW(uint32_t) bqw_session_trace(uint32_t session, uint32_t todo, uint32_t *out) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  if (todo == 0) bqw_trace_end(s, bqw_allocator());
  if (todo == 1 && !bqw_trace_begin(s, bqw_allocator()))
    return bqw_fail(BQ_NOMEM, "no room for a trace");
  *out = (uint32_t)(uintptr_t)bqw_trace_rows(s);
  return bqw_report(BQ_OK, NULL);
}

BQW(void) bqw_rng_seed(double seed, uint64_t *state) {
  *state = bq_rng_seed(bqw_u64(seed)).state;
}

BQW(uint32_t)
bqw_session_sample(uint32_t session, const bq_sample_options *options, uint64_t *state,
                   uint32_t *token) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  bq_rng rng = {*state};
  bq_status status = bq_session_sample(s, options, &rng, token, &err);
  *state = rng.state;
  return bqw_report(status, &err);
}

/* --- matmuls spread over instances ------------------------------------------------------------ */

BQW(uint32_t)
bqw_session_spread(uint32_t session, uint32_t part, uint32_t parts, bqw_spread *out,
                   bqw_spread_rows *rows) {
  bq_session *s = bqw_session_of(session);
  bq_spread work;
  if (!s || !bq_session_spread(s, part, parts, &work)) return 0;
  *out = (bqw_spread){work.n, work.tokens, work.cols, (uint32_t)work.activations,
                      (uint32_t)(uintptr_t)work.panel, (uint32_t)work.panel_bytes};
  for (uint32_t i = 0; i < work.n; i++) {
    const bq_spread_rows *r = &work.list[i];
    rows[i] = (bqw_spread_rows){(uint32_t)(uintptr_t)r->weights, (uint32_t)r->bytes,
                                (uint32_t)r->type, r->rows, (uint32_t)(uintptr_t)r->y, r->stride};
  }
  return work.n;
}

BQW(void) bqw_session_spread_done(uint32_t session) {
  bq_session *s = bqw_session_of(session);
  if (s) bq_session_spread_done(s);
}

BQW(uint32_t) bqw_spread_multiply(const bqw_spread *work, const bqw_spread_rows *rows) {
  if (!BQ_CAN_SPREAD) return bqw_fail(BQ_UNSUPPORTED, "this build has threads instead");
  if (work->n > BQ_SPREAD_MAX) return bqw_fail(BQ_ARGUMENT, "more products than share an input");
  bq_spread w = {.n = work->n, .tokens = work->tokens, .cols = work->cols,
                 .activations = (bq_activations)work->activations,
                 .panel = (const uint8_t *)(uintptr_t)work->panel,
                 .panel_bytes = work->panel_bytes};
  for (uint32_t i = 0; i < w.n; i++) {
    const bqw_spread_rows *r = &rows[i];
    if (r->type >= BQ_TYPE_COUNT || !bq_kernels_best()->matrix[r->type].quantized)
      return bqw_fail(BQ_ARGUMENT, "a product of no type that is spread");
    w.list[i] = (bq_spread_rows){(const uint8_t *)(uintptr_t)r->weights, r->bytes,
                                 (bq_type)r->type, r->rows, (float *)(uintptr_t)r->y, r->stride};
  }
  const bq_allocator allocator = bqw_allocator();
  const size_t bytes = bq_spread_scratch(&w) * sizeof(float);
  float *scratch = allocator.alloc(allocator.ctx, bytes + 1);
  if (!scratch) return bqw_fail(BQ_NOMEM, "no memory for the parts of a product");
  bq_spread_multiply(bq_kernels_best(), &w, scratch);
  allocator.free(allocator.ctx, scratch);
  return bqw_report(BQ_OK, NULL);
}
