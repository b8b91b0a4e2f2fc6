#include "format/directory.h"

#include <string.h>

#include "core/cursor.h"

enum { SPARSE = 3 }; /* a layout of a later version */
enum { MIN_ENTRY_BYTES = 1 + 2 + 3 + 4 + 16, NAME_MAX_BYTES = 255 };

/* State of a walk. */
typedef struct walk {
  const bq_prefix *prefix;
  bq_binding binding;
  size_t at;         /* offset of the next entry in the current section */
  uint32_t index;    /* of the next entry, over both sections */
  uint32_t n;        /* number of entries in both sections */
  uint32_t listed;   /* number of entries in TENS; the others are in XTRA */
  uint8_t types[32]; /* set of the type ids in the list of types of TENS */
  uint64_t end;      /* maximum end of a tensor so far, as file offset */
} walk;

/* --- TENS ----------------------------------------------------------------------------------- */

static bq_status malformed(const walk *d, size_t at, const char *what, bq_error *err) {
  return bq_fail(err, BQ_FORMAT, d->prefix->directory.offset + at, "TENS: %s", what);
}

/* Reads a row of the list of types: id and name. Returns false if the section is cut off. */
static bool read_type(bq_cursor *c, uint32_t *id, const uint8_t **name, size_t *length) {
  *id = bq_cursor_u8(c);
  *length = bq_cursor_u8(c);
  *name = bq_cursor_bytes(c, *length);
  return !c->bad;
}

static bool is_listed(const walk *d, uint32_t id) {
  return d->types[id / 8] >> id % 8 & 1;
}

/* Checks the list of types and finds the first entry. */
static bq_status begin_listed(walk *d, bq_error *err) {
  const bq_section *s = &d->prefix->directory;
  bq_cursor c = {s->data, s->bytes, 0, false};
  uint32_t types = bq_cursor_u32(&c);
  if (types > 256) return malformed(d, 0, "more than 256 types", err);
  for (uint32_t i = 0; i < types; i++) {
    uint32_t id;
    const uint8_t *name;
    size_t length, at = c.at;
    if (!read_type(&c, &id, &name, &length))
      return malformed(d, at, "the list of types is cut off", err);
    if (is_listed(d, id)) return malformed(d, at, "a type is listed twice", err);
    d->types[id / 8] |= (uint8_t)(1u << id % 8);
    const bq_type_facts *f = bq_type_get(id);
    if (f && (strlen(f->name) != length || memcmp(f->name, name, length) != 0))
      return bq_fail(err, BQ_FORMAT, s->offset + at, "type %u is called \"%S\", it is %s", id, name,
                     length, f->name);
  }
  uint32_t n = bq_cursor_u32(&c);
  if (c.bad || n > bq_cursor_left(&c) / MIN_ENTRY_BYTES)
    return bq_fail(err, BQ_FORMAT, s->offset + c.at,
                   "TENS announces %u tensors, more than it can hold", n);
  d->at = c.at;
  d->listed = n;
  return BQ_OK;
}

/* Fails with the name of a type that is listed but unknown to this engine. */
static bq_status unknown_type(const walk *d, const bq_tensor_name *t, uint32_t wanted,
                              bq_error *err) {
  const bq_section *s = &d->prefix->directory;
  bq_cursor c = {s->data + 4, s->bytes - 4, 0, false};
  uint32_t id;
  const uint8_t *name;
  size_t length;
  while (read_type(&c, &id, &name, &length) && id != wanted) {
  }
  return bq_fail(err, BQ_UNSUPPORTED, t->at, "tensor \"%S\" has type \"%S\", unknown here", t->name,
                 t->name_bytes, name, length);
}

static bq_status read_listed(walk *d, bq_entry *e, bq_error *err) {
  const bq_section *s = &d->prefix->directory;
  bq_cursor c = {s->data + d->at, s->bytes - d->at, 0, false};
  bq_tensor_name *t = &e->tensor;
  t->at = s->offset + d->at;
  t->name_bytes = bq_cursor_u16(&c);
  t->name = bq_cursor_bytes(&c, t->name_bytes);
  uint32_t type = bq_cursor_u8(&c), layout = bq_cursor_u8(&c);
  t->ndims = bq_cursor_u8(&c);
  if (c.bad || t->name_bytes < 1 || t->name_bytes > NAME_MAX_BYTES)
    return malformed(d, d->at, "an entry is cut off, or its name is not 1...255 bytes long", err);
  if (t->ndims < 1 || t->ndims > 8)
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" has %u dimensions, not 1...8", t->name,
                   t->name_bytes, t->ndims);
  for (uint32_t i = 0; i < t->ndims; i++) t->dims[i] = bq_cursor_u32(&c);
  e->offset = bq_cursor_u64(&c);
  e->bytes = bq_cursor_u64(&c);
  if (c.bad) return malformed(d, d->at, "an entry is cut off", err);
  if (!is_listed(d, type))
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" has type %u, which is not listed", t->name,
                   t->name_bytes, type);
  if (!bq_type_get(type)) return unknown_type(d, t, type, err);
  if (layout == SPARSE)
    return bq_fail(err, BQ_UNSUPPORTED, t->at,
                   "tensor \"%S\" is stored sparse (BQ4S), which this version can't compute with",
                   t->name, t->name_bytes);
  if (layout != BQ_ROWS && layout != BQ_TILED && !(layout == BQ_FLAT && d->prefix->foreign))
    return bq_fail(err, BQ_UNSUPPORTED, t->at, "tensor \"%S\" has layout %u, unknown here", t->name,
                   t->name_bytes, layout);
  e->type = (bq_type)type;
  e->layout = (bq_layout)layout;
  d->at += c.at;
  if (d->index + 1 == d->listed && d->at != s->bytes)
    return malformed(d, d->at, "there are bytes after the last entry", err);
  return BQ_OK;
}

/* --- XTRA ----------------------------------------------------------------------------------- */

/* Bytes of the tensor as f32; more than any section has if a dimension is 0 or the number of
 * weights overflows. */
static uint64_t f32_bytes(const bq_tensor_name *t) {
  uint64_t n = 4;
  for (uint32_t i = 0; i < t->ndims; i++) {
    if (!t->dims[i] || t->dims[i] > BQ_FILE_MAX / n) return UINT64_MAX;
    n *= t->dims[i];
  }
  return n;
}

static bq_status read_extra(walk *d, bq_entry *e, bq_error *err) {
  const bq_section *x = &d->prefix->extra;
  bq_cursor c = {x->data + d->at, x->bytes - d->at, 0, false};
  bq_tensor_name *t = &e->tensor;
  t->at = x->offset + d->at;
  t->name_bytes = bq_cursor_u16(&c);
  t->name = bq_cursor_bytes(&c, t->name_bytes);
  t->ndims = bq_cursor_u8(&c);
  if (c.bad || t->name_bytes < 1 || t->name_bytes > NAME_MAX_BYTES || t->ndims < 1 || t->ndims > 8)
    return bq_fail(err, BQ_FORMAT, t->at, "XTRA: entry %u is cut off or malformed", d->index);
  for (uint32_t i = 0; i < t->ndims; i++) t->dims[i] = bq_cursor_u32(&c);
  e->bytes = f32_bytes(t);
  e->data = bq_cursor_bytes(&c, e->bytes);
  if (c.bad)
    return bq_fail(err, BQ_FORMAT, t->at, "XTRA: tensor \"%S\" is cut off, or has no weights",
                   t->name, t->name_bytes);
  e->type = BQ_TYPE_F32;
  e->layout = BQ_ROWS;
  d->at += c.at;
  return BQ_OK;
}

/* --- the walk ------------------------------------------------------------------------------- */

/* Continues with the entries of XTRA after all entries of TENS. */
static void begin_extra(walk *d) {
  d->at = 4;
}

static bq_status begin(walk *d, const bq_prefix *prefix, bq_error *err) {
  *d = (walk){.prefix = prefix};
  bq_bind_begin(&d->binding, &prefix->config);
  bq_status status = begin_listed(d, err);
  d->n = d->listed + (prefix->extra.bytes ? bq_load32(prefix->extra.data) : 0);
  if (!d->listed) begin_extra(d);
  return status;
}

/* Rows of a tensor: a vector is one row; otherwise the last dimension is the columns. bq_bind
 * checks the shape. */
static uint32_t rows_of(const bq_tensor_name *t) {
  uint32_t rows = 1;
  for (uint32_t i = 0; i + 1 < t->ndims; i++) rows *= t->dims[i];
  return rows;
}

/* Whether the tensor may be one run of blocks over all rows, as v1 stores them. */
static bool may_be_flat(const bq_entry *e) {
  bool type = e->type == BQ_TYPE_BQ4_16 || e->type == BQ_TYPE_BQ4_32 || e->type == BQ_TYPE_BQ4_64;
  return type && (uint64_t)e->rows * e->cols % bq_type_get(e->type)->block == 0;
}

/* Checks an entry against the configuration and the types that this engine supports. */
static bq_status check_entry(walk *d, bq_entry *e, bq_error *err) {
  const bq_tensor_name *t = &e->tensor;
  bq_status status = bq_bind(&d->binding, t, &e->slot, err);
  if (status) return status;
  bool vector = bq_slot_is_vector(e->slot);
  e->rows = rows_of(t);
  e->cols = t->dims[t->ndims - 1];
  const bq_type_facts *f = bq_type_get(e->type);
  if (f->run == BQ_TYPE_NONE)
    return bq_fail(err, BQ_UNSUPPORTED, t->at,
                   "tensor \"%S\" is stored as %s, which this version can't compute with", t->name,
                   t->name_bytes, f->name);
  if (!bq_slot_fits(d->binding.config, e->slot, f->run))
    return bq_fail(
        err, BQ_UNSUPPORTED, t->at,
        "tensor \"%S\" holds matrices whose rows are no multiple of %u, which %s can't be cut "
        "at: store them one by one",
        t->name, t->name_bytes, BQ_TILE_ROWS, f->name);
  if (vector && e->layout != BQ_FLAT && (f->block != 1 || e->layout != BQ_ROWS))
    return bq_fail(err, BQ_UNSUPPORTED, t->at,
                   "vector \"%S\" is stored as %s, not as f32, f16 or bf16 in rows", t->name,
                   t->name_bytes, f->name);
  uint64_t bytes = bq_type_bytes(e->type, e->layout, e->rows, e->cols);
  if (bytes == UINT64_MAX || (e->layout == BQ_FLAT && !may_be_flat(e)))
    return bq_fail(err, BQ_FORMAT, t->at, "type %s of tensor \"%S\" has no layout %u", f->name,
                   t->name, t->name_bytes, (uint32_t)e->layout);
  if (bytes != e->bytes)
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" has %l bytes, its type and shape take %l",
                   t->name, t->name_bytes, e->bytes, bytes);
  return BQ_OK;
}

/* Checks the position of the data. v2: rising and aligned. Foreign containers: anywhere
 * (load/block.c checks for overlaps). */
static bq_status check_position(walk *d, const bq_entry *e, bq_error *err) {
  const bq_prefix *p = d->prefix;
  const bq_tensor_name *t = &e->tensor;
  if (e->offset > BQ_FILE_MAX || e->bytes > BQ_FILE_MAX)
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" lies beyond any file, at %l", t->name,
                   t->name_bytes, e->offset);
  uint64_t end = e->offset + e->bytes, before = d->end > p->prefix_bytes ? d->end : p->prefix_bytes;
  if (!p->foreign && (e->offset % BQ_ALIGN || e->offset < before))
    return bq_fail(err, BQ_FORMAT, t->at,
                   "tensor \"%S\" lies at %l, not at a multiple of 64 from %l on", t->name,
                   t->name_bytes, e->offset, before);
  if (p->file_bytes && end > p->file_bytes)
    return bq_fail(err, p->foreign ? BQ_TRUNCATED : BQ_FORMAT, p->foreign ? p->file_bytes : t->at,
                   "tensor \"%S\" ends at %l, the file after %l bytes", t->name, t->name_bytes, end,
                   p->file_bytes);
  if (end > d->end) d->end = end;
  return BQ_OK;
}

static bq_status read_entry(walk *d, bq_entry *entry, bq_error *err) {
  *entry = (bq_entry){.index = d->index};
  bool extra = d->index >= d->listed;
  bq_status status = extra ? read_extra(d, entry, err) : read_listed(d, entry, err);
  if (!status) status = check_entry(d, entry, err);
  if (!status && !extra) status = check_position(d, entry, err);
  if (!status && ++d->index == d->listed) begin_extra(d);
  return status;
}

bq_status bq_directory_each(const bq_prefix *prefix, bq_entry_fn *fn, void *ctx, bq_error *err) {
  walk d;
  bq_entry entry;
  bq_status status = begin(&d, prefix, err);
  while (!status && d.index < d.n) {
    status = read_entry(&d, &entry, err);
    if (!status) status = fn(ctx, &entry, err);
  }
  return status ? status : bq_bind_complete(&d.binding, prefix->directory.offset, err);
}
