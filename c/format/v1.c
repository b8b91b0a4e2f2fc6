/* Version 1.0: a bare list of 4-bit tensors, and its companion as sections (docs/FORMAT.md §3). */
#include <string.h>

#include "core/cursor.h"
#include "format/prefix.h"

enum { HEADER = 12, LEAST_ENTRY = 29, LEAST_EXTRA = 12, NAME_MAX_BYTES = 255 };

/* Errors in the companion have no offset in the file. */
static bq_status in_companion(bq_status status, bq_error *err) {
  if (status && err) err->offset = BQ_NO_OFFSET;
  return status;
}

static bq_status read_companion(const bq_prefix_input *in, bq_prefix *out, bq_error *err) {
  if (!in->companion)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET,
                   "a version 1 file says nothing about its model: its companion is needed");
  bq_status status = bq_sections_read(in->companion, 0, in->companion_bytes, BQ_IN_COMPANION,
                                      &out->sections, err);
  if (status) return status;
  const bq_section *conf = bq_sections_find(&out->sections, BQ_TAG_CONF);
  if (!conf) return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET, "the companion has no CONF section");
  status = bq_config_read(conf->data, conf->bytes, conf->offset, &out->config, err);
  if (status) return status;
  const bq_section *extra = bq_sections_find(&out->sections, BQ_TAG_XTRA);
  if (!extra) return BQ_OK;
  if (extra->bytes < 4 || bq_load32(extra->data) > (extra->bytes - 4) / LEAST_EXTRA)
    return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET, "XTRA announces more tensors than it can hold");
  out->extra = *extra;
  return BQ_OK;
}

bq_status bq_v1_read(const bq_prefix_input *in, uint64_t *need, bq_prefix *out, bq_error *err) {
  bq_status status = in_companion(read_companion(in, out, err), err);
  if (status) return status;
  if (in->n < HEADER) return bq_prefix_want(in, HEADER, need, err);
  uint32_t n = bq_load32(in->bytes + 8), limit = bq_slots_of(&out->config);
  if (n > limit)
    return bq_fail(err, BQ_FORMAT, 8, "%u tensors are more than the %u that the model can have", n,
                   limit);
  uint64_t least = HEADER + (uint64_t)n * LEAST_ENTRY;
  if (in->n < least) status = bq_prefix_want(in, least, need, err);
  if (status == BQ_TRUNCATED) return status; /* provable now; otherwise look at what is there */
  out->file_bytes = in->file_bytes;
  uint64_t total = (uint64_t)n + (out->extra.bytes ? bq_load32(out->extra.data) : 0);
  if (total > limit)
    return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET,
                   "file and companion have %l tensors together, the model can have %u", total,
                   limit);
  out->n_tensors = (uint32_t)total;
  out->directory = (bq_section){0, in->n - HEADER, in->bytes + HEADER, HEADER};
  return BQ_OK;
}

/* The directory ends early: asks for the entry at hand, `entry_bytes` at least, and the smallest
 * that all others can be. */
static bq_status want_more(bq_directory *d, uint64_t entry_bytes, bq_error *err) {
  uint64_t others = d->listed - d->index - 1;
  d->need = HEADER + d->at + entry_bytes + others * LEAST_ENTRY;
  return bq_fail(err, BQ_WANT_DATA, HEADER + d->at, "the directory is not all there");
}

/* UINT64_MAX: more than a file can hold. */
static uint64_t weights_of(const bq_tensor_name *t) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < t->ndims; i++) {
    if (t->dims[i] > BQ_FILE_MAX / n) return UINT64_MAX;
    n *= t->dims[i];
  }
  return n;
}

static bq_status read_dims(bq_cursor *c, bq_tensor_name *t, bq_error *err) {
  for (uint32_t i = 0; i < t->ndims; i++) {
    t->dims[i] = bq_cursor_u32(c);
    if (!c->bad && !t->dims[i])
      return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" has a dimension of 0", t->name,
                     t->name_bytes);
  }
  return BQ_OK;
}

/* Name and shape; what is there is checked even when the rest is not. */
static bq_status read_name(bq_directory *d, bq_cursor *c, bq_tensor_name *t, bq_error *err) {
  uint32_t length = bq_cursor_u32(c);
  if (c->bad) return want_more(d, LEAST_ENTRY, err);
  if (length < 1 || length > NAME_MAX_BYTES)
    return bq_fail(err, BQ_FORMAT, t->at, "a tensor's name has %u bytes, not 1...255", length);
  t->name_bytes = length;
  t->name = bq_cursor_bytes(c, length);
  t->ndims = bq_cursor_u32(c);
  if (c->bad) return want_more(d, LEAST_ENTRY - 1 + length, err);
  if (t->ndims < 1 || t->ndims > 8)
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" has %u dimensions, not 1...8", t->name,
                   t->name_bytes, t->ndims);
  bq_status status = read_dims(c, t, err);
  if (status) return status;
  if (bq_cursor_left(c) < 16) return want_more(d, 8 + length + 4 * t->ndims + 16, err);
  return BQ_OK;
}

bq_status bq_v1_entry(bq_directory *d, bq_entry *e, bq_error *err) {
  const bq_section *dir = &d->prefix->directory;
  bq_cursor c = {dir->data + d->at, dir->bytes - d->at, 0, false};
  bq_tensor_name *t = &e->tensor;
  t->at = dir->offset + d->at;
  bq_status status = read_name(d, &c, t, err);
  if (status) return status;
  uint32_t block = bq_cursor_u32(&c), blocks = bq_cursor_u32(&c);
  e->offset = bq_cursor_u64(&c);
  if (block != 16 && block != 32 && block != 64)
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" has blocks of %u, not 16, 32 or 64",
                   t->name, t->name_bytes, block);
  e->type = block == 16 ? BQ_TYPE_BQ4_16 : block == 32 ? BQ_TYPE_BQ4_32 : BQ_TYPE_BQ4_64;
  e->layout = BQ_FLAT;
  uint64_t weights = weights_of(t);
  if (weights == UINT64_MAX || weights % block || weights / block != blocks)
    return bq_fail(err, BQ_FORMAT, t->at,
                   "tensor \"%S\" has %u blocks of %u, which is not its number of weights", t->name,
                   t->name_bytes, blocks, block);
  e->bytes = (uint64_t)blocks * bq_type_get(e->type)->block_bytes;
  d->at += c.at;
  return BQ_OK;
}

bq_status bq_v1_extra(bq_directory *d, bq_entry *e, bq_error *err) {
  const bq_section *x = &d->prefix->extra;
  bq_cursor c = {x->data + d->at, x->bytes - d->at, 0, false};
  bq_tensor_name *t = &e->tensor;
  t->at = BQ_NO_OFFSET;
  t->name_bytes = bq_cursor_u16(&c);
  t->name = bq_cursor_bytes(&c, t->name_bytes);
  t->ndims = bq_cursor_u8(&c);
  if (c.bad || t->name_bytes < 1 || t->name_bytes > NAME_MAX_BYTES || t->ndims < 1 || t->ndims > 8)
    return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET, "XTRA: entry %u is cut off or malformed",
                   d->index);
  bq_status status = read_dims(&c, t, err);
  if (status) return status;
  uint64_t weights = weights_of(t);
  e->data = bq_cursor_bytes(&c, weights == UINT64_MAX ? weights : weights * 4);
  if (c.bad)
    return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET, "XTRA: tensor \"%S\" is cut off", t->name,
                   t->name_bytes);
  e->type = BQ_TYPE_F32;
  e->layout = BQ_ROWS;
  e->bytes = weights * 4;
  d->at += c.at;
  return BQ_OK;
}
