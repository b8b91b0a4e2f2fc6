#include "format/read.h"

#include <float.h>

#include "core/cursor.h"
#include "core/half.h"
#include "format/directory.h"
#include "format/manifest.h"
#include "format/v2.h"

/* Checks that CONF and TOKN agree, in the sections read so far. */
static bq_status check_tokens(const bq_prefix *p, bool full, bq_error *err) {
  const bq_section *t = bq_sections_find(&p->sections, BQ_TAG_TOKN);
  uint64_t at = t ? t->offset : p->prefix_bytes;
  if (t && !p->config.tokens)
    return bq_fail(err, BQ_FORMAT, at, "there is a tokenizer, but the configuration has 0 tokens");
  if (!t && full && p->config.tokens)
    return bq_fail(err, BQ_FORMAT, at, "the configuration has %u tokens, but there is no TOKN",
                   p->config.tokens);
  return BQ_OK;
}

/* ACTQ is for other engines and not used here, but a malformed one is still an error. */
static bq_status check_activations(const bq_prefix *p, bq_error *err) {
  const bq_section *s = bq_sections_find(&p->sections, BQ_TAG_ACTQ);
  if (!s) return BQ_OK;
  bq_cursor c = {s->data, s->bytes, 0, false};
  bool good = true;
  for (uint32_t n = bq_cursor_u32(&c); n && good; n--) {
    const uint32_t name = bq_cursor_u16(&c);
    bq_cursor_bytes(&c, name);
    const float step = bq_float_of(bq_cursor_u32(&c));
    good = !c.bad && name && name < 256 && step > 0 && step <= FLT_MAX;
  }
  if (good && !c.bad && !bq_cursor_left(&c)) return BQ_OK;
  return bq_fail(err, BQ_FORMAT, s->offset + c.at,
                 "ACTQ is cut off, or a step is no positive number");
}

static bq_status count_tensor(void *ctx, const bq_entry *e, bq_error *err) {
  bq_prefix *p = ctx;
  (void)err;
  p->n_tensors++;
  if (!e->data) p->n_listed++;
  if (!e->data && e->offset + e->bytes > p->data_end) p->data_end = e->offset + e->bytes;
  return BQ_OK;
}

bq_status bq_prefix_read(const bq_prefix_input *given, bool full, uint64_t *need, bq_prefix *out,
                         bq_error *err) {
  bq_prefix_input in = *given;
  if (in.file_bytes && in.n > in.file_bytes) in.n = (size_t)in.file_bytes;
  *out = (bq_prefix){.foreign = in.manifest != NULL};
  bq_status status =
      out->foreign ? bq_manifest_read(&in, out, err) : bq_v2_read(&in, full, need, out, err);
  if (!status) status = check_tokens(out, full || out->foreign, err);
  if (!status) status = check_activations(out, err);
  if (!status) status = bq_directory_each(out, count_tensor, out, err);
  /* An offset in the manifest is no offset in the file. */
  if (status && out->foreign && status != BQ_TRUNCATED && err) err->offset = BQ_NO_OFFSET;
  return status;
}
