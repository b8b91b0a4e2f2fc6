#include "format/prefix.h"

#include "core/cursor.h"

bq_status bq_prefix_want(const bq_prefix_input *in, uint64_t bytes, uint64_t *need, bq_error *err) {
  if (in->file_bytes && bytes > in->file_bytes)
    return bq_fail(err, BQ_TRUNCATED, in->file_bytes,
                   "the file ends after %l bytes, its prefix takes %l at least", in->file_bytes,
                   bytes);
  *need = bytes;
  return bq_fail(err, BQ_WANT_DATA, in->n, "%l bytes of the file are needed", bytes);
}

/* CONF and TOKN agree, in the sections read so far. */
static bq_status check_tokens(const bq_prefix *p, bool whole, bq_error *err) {
  const bq_section *t = bq_sections_find(&p->sections, BQ_TAG_TOKN);
  uint64_t at = p->version == 1 ? BQ_NO_OFFSET : t ? t->offset : p->prefix_bytes;
  if (t && !p->config.tokens)
    return bq_fail(err, BQ_FORMAT, at, "there is a tokenizer, but the configuration has 0 tokens");
  if (!t && whole && p->config.tokens)
    return bq_fail(err, BQ_FORMAT, at, "the configuration has %u tokens, but there is no TOKN",
                   p->config.tokens);
  return BQ_OK;
}

/* Every tensor of the directory, once. */
static bq_status check_tensors(const bq_prefix_input *in, bq_prefix *p, uint64_t *need,
                               bq_error *err) {
  bq_directory d;
  bq_entry entry;
  bool done = false;
  bq_status status = bq_directory_begin(&d, p, err);
  while (!status && !done) status = bq_directory_next(&d, &entry, &done, err);
  if (status == BQ_WANT_DATA) return bq_prefix_want(in, d.need, need, err);
  if (p->version == 1) p->prefix_bytes = d.listed_end;
  p->n_tensors = d.n;
  p->data_end = d.end;
  return status;
}

bq_status bq_prefix_read(const bq_prefix_input *given, bool whole, uint64_t *need, bq_prefix *out,
                         bq_error *err) {
  bq_prefix_input in = *given;
  if (in.file_bytes && in.n > in.file_bytes) in.n = (size_t)in.file_bytes;
  *out = (bq_prefix){0};
  if (in.n >= 4 && bq_load32(in.bytes) != BQ_TAG('B', 'Q', '4', 'F'))
    return bq_fail(err, BQ_FORMAT, 0, "the file does not begin with \"BQ4F\"");
  if (in.n < 8) return bq_prefix_want(&in, 8, need, err);
  out->version = bq_load32(in.bytes + 4);
  if (out->version != 1 && out->version != 2)
    return bq_fail(err, BQ_UNSUPPORTED, 4, "the file has version %u, known are 1 and 2",
                   out->version);
  bq_status status = out->version == 1 ? bq_v1_read(&in, need, out, err)
                                       : bq_v2_read(&in, whole, need, out, err);
  if (!status) status = check_tokens(out, whole || out->version == 1, err);
  if (!status) status = check_tensors(&in, out, need, err);
  return status;
}

/* --- directory ------------------------------------------------------------------------------ */

/* All entries of the file itself have been read: on to the companion's. */
static bq_status end_listed(bq_directory *d, bq_error *err) {
  if (d->prefix->version == 2) return BQ_OK;
  d->listed_end = d->prefix->directory.offset + d->at;
  d->at = 4; /* behind their number */
  if (d->first >= d->listed_end) return BQ_OK;
  return bq_fail(err, BQ_FORMAT, d->first,
                 "a tensor's data at %l overlaps the directory, which ends at %l", d->first,
                 d->listed_end);
}

bq_status bq_directory_begin(bq_directory *d, const bq_prefix *prefix, bq_error *err) {
  *d = (bq_directory){.prefix = prefix, .first = UINT64_MAX};
  bq_bind_begin(&d->binding, &prefix->config);
  if (prefix->version == 2) return bq_v2_directory(d, err);
  d->n = prefix->n_tensors;
  d->listed = d->n - (prefix->extra.bytes ? bq_load32(prefix->extra.data) : 0);
  return d->listed ? BQ_OK : end_listed(d, err);
}

/* What the version's reader found, against the configuration and this engine's abilities. */
static bq_status check_entry(bq_directory *d, bq_entry *e, bq_error *err) {
  const bq_tensor_name *t = &e->tensor;
  bq_status status = bq_bind(&d->binding, t, &e->slot, err);
  if (status) return status;
  bool vector = bq_slot_is_vector(e->slot);
  e->rows = vector ? 1 : t->dims[0];
  e->cols = vector ? t->dims[0] : t->dims[1];
  const bq_type_facts *f = bq_type_get(e->type);
  if (f->run == BQ_TYPE_NONE)
    return bq_fail(err, BQ_UNSUPPORTED, t->at,
                   "tensor \"%S\" is stored as %s, which this version can't compute with", t->name,
                   t->name_bytes, f->name);
  if (vector && e->layout != BQ_FLAT && (f->block != 1 || e->layout != BQ_ROWS))
    return bq_fail(err, BQ_UNSUPPORTED, t->at,
                   "vector \"%S\" is stored as %s, not as f32, f16 or bf16 in rows", t->name,
                   t->name_bytes, f->name);
  uint64_t bytes = bq_type_bytes(e->type, e->layout, e->rows, e->cols);
  if (bytes == UINT64_MAX)
    return bq_fail(err, BQ_FORMAT, t->at, "type %s of tensor \"%S\" has no layout %u", f->name,
                   t->name, t->name_bytes, (uint32_t)e->layout);
  if (bytes != e->bytes)
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" has %l bytes, its type and shape take %l",
                   t->name, t->name_bytes, e->bytes, bytes);
  return BQ_OK;
}

/* Where the data may lie. v2: rising, aligned. v1: anywhere behind the directory (checked when all
 * of it is known, as overlaps are). */
static bq_status check_place(bq_directory *d, const bq_entry *e, bq_error *err) {
  const bq_prefix *p = d->prefix;
  const bq_tensor_name *t = &e->tensor;
  if (e->offset > BQ_FILE_MAX || e->bytes > BQ_FILE_MAX)
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" lies beyond any file, at %l", t->name,
                   t->name_bytes, e->offset);
  uint64_t end = e->offset + e->bytes, before = d->end > p->prefix_bytes ? d->end : p->prefix_bytes;
  if (p->version == 2 && (e->offset % BQ_ALIGN || e->offset < before))
    return bq_fail(err, BQ_FORMAT, t->at,
                   "tensor \"%S\" lies at %l, not at a multiple of 64 from %l on", t->name,
                   t->name_bytes, e->offset, before);
  if (p->file_bytes && end > p->file_bytes)
    return bq_fail(err, p->version == 1 ? BQ_TRUNCATED : BQ_FORMAT,
                   p->version == 1 ? p->file_bytes : t->at,
                   "tensor \"%S\" ends at %l, the file after %l bytes", t->name, t->name_bytes, end,
                   p->file_bytes);
  if (end > d->end) d->end = end;
  if (e->offset < d->first) d->first = e->offset;
  return BQ_OK;
}

bq_status bq_directory_next(bq_directory *d, bq_entry *entry, bool *done, bq_error *err) {
  const bq_prefix *p = d->prefix;
  *done = d->index == d->n;
  if (*done)
    return bq_bind_complete(&d->binding, p->version == 2 ? p->directory.offset : BQ_NO_OFFSET, err);
  *entry = (bq_entry){0};
  bool extra = d->index >= d->listed;
  bq_status status = p->version == 2 ? bq_v2_entry(d, entry, err)
                     : extra         ? bq_v1_extra(d, entry, err)
                                     : bq_v1_entry(d, entry, err);
  if (!status) status = check_entry(d, entry, err);
  if (!status && !extra) status = check_place(d, entry, err);
  if (!status && ++d->index == d->listed) status = end_listed(d, err);
  return status;
}
