#include "reply.h"

#include <stdlib.h>

struct reply_model {
  bq_loader *loader;
  bq_model *model;
  bq_session *session;
};

static void *allocate_block(void *ctx, size_t bytes) {
  (void)ctx;
  /* aligned_alloc requires a multiple of the alignment. */
  size_t rounded = (bytes + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN;
  return rounded < bytes ? NULL : aligned_alloc(BQ_ALIGN, rounded);
}

static void free_block(void *ctx, void *block) {
  (void)ctx;
  free(block);
}

static const bq_allocator heap = {NULL, allocate_block, free_block};

/* --- open ------------------------------------------------------------------------------------- */

static bq_status load(reply_model *m, const uint8_t *bytes, size_t n, bq_error *err) {
  bq_loader_options options = {.allocator = heap, .file_bytes = n};
  bq_status status = bq_loader_create(&options, &m->loader, err);
  if (!status) status = bq_loader_feed(m->loader, bytes, n, err);
  if (!status) status = bq_loader_model(m->loader, &m->model, err);
  if (!status && !bq_model_tokenizer(m->model))
    status = bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "the file has no tokenizer");
  return status;
}

reply_model *reply_open(const uint8_t *bytes, size_t n, uint32_t context, bq_error *err) {
  reply_model *m = calloc(1, sizeof *m);
  if (!m) {
    bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET, "no memory for a model");
    return NULL;
  }
  bq_session_options options = {.context = context, .kv_type = BQ_KV_I8};
  if (!load(m, bytes, n, err) && !bq_session_create(m->model, &options, heap, &m->session, err))
    return m;
  reply_close(m);
  return NULL;
}

void reply_close(reply_model *m) {
  if (!m) return;
  if (m->session) bq_session_free(m->session);
  if (m->loader) bq_loader_free(m->loader);
  free(m);
}

/* --- run -------------------------------------------------------------------------------------- */

/* Makes the tokens of the prompt the session's sequence. */
static bq_status sync(reply_model *m, const char *prompt, size_t n, bq_error *err) {
  const bq_tokenizer *t = bq_model_tokenizer(m->model);
  const bq_tokenize_options options = {.add_special = true, .parse_special = true};
  uint64_t scratch = bq_tokenize_scratch(t, n, false);
  /* At most a token per byte, and two that the tokenizer adds (BOS, EOS). */
  size_t capacity = n + 2, count = 0, prefix_tokens;
  if (scratch > SIZE_MAX || capacity > SIZE_MAX / sizeof(uint32_t))
    return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET, "a prompt of %l bytes", (uint64_t)n);
  uint32_t *tokens = malloc(capacity * sizeof *tokens);
  void *work = allocate_block(NULL, scratch ? (size_t)scratch : 1);
  bq_status status = tokens && work
                         ? bq_tokenize(t, prompt, n, &options, work, tokens, capacity, &count)
                         : BQ_NOMEM;
  if (status) bq_fail(err, status, BQ_NO_OFFSET, "a prompt of %l bytes", (uint64_t)n);
  else status = bq_session_sync(m->session, tokens, count, &prefix_tokens, err);
  free(work);
  free(tokens);
  return status;
}

bq_status reply_run(reply_model *m, const char *prompt, size_t n, uint32_t max_tokens,
                    float temperature, uint64_t seed, reply_text pass_text, void *ctx,
                    bq_error *err) {
  const bq_tokenizer *t = bq_model_tokenizer(m->model);
  const bq_sample_options options = {.temperature = temperature, .top_p = 1};
  bq_rng rng = bq_rng_seed(seed);
  bq_detokenizer state = {.keep_space = true};
  char *text = malloc(bq_detokenize_limit(t));
  if (!text) return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET, "no memory for a token's text");
  bq_status status = sync(m, prompt, n, err);
  bool more = true;
  for (uint32_t i = 0; !status && more && i < max_tokens; i++) {
    uint32_t token = 0;
    status = bq_session_run(m->session, 0, err);
    if (!status) status = bq_session_sample(m->session, &options, &rng, &token, err);
    if (status || bq_token_ends(t, token)) break;
    size_t bytes = bq_detokenize(t, &state, token, text);
    if (bytes) more = pass_text(ctx, text, bytes);
    if (more && i + 1 < max_tokens) status = bq_session_append(m->session, token, err);
  }
  size_t rest = status ? 0 : bq_detokenize_end(&state, text);
  if (rest && more) pass_text(ctx, text, rest);
  free(text);
  return status;
}
