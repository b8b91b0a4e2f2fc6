#include "load/loader.h"

#include "bq.h"
#include "format/read.h"
#include "load/block.h"
#include "load/verify.h"

#include <string.h>

#include "core/cursor.h"
#include "core/minmax.h"

enum { FIRST_CAPACITY = 4096 }; /* bytes of the prefix block without a usable hint */

/* Returns the error of a loader that failed. */
static bq_status report_error(bq_loader *l, bq_error *err) {
  if (err) *err = l->error;
  return l->error.status;
}

/* Ends loading with an error, unless bq_loader_retry can continue. */
static bq_status end_failed(bq_loader *l, const bq_error *error, bq_error *err) {
  l->error = *error;
  l->failed_in = l->phase;
  l->phase = BQ_LOAD_FAILED;
  return report_error(l, err);
}

/* --- prefix --------------------------------------------------------------------------------- */

/* Allocates a block for the manifest and `capacity` bytes of the file, and moves the current
 * contents over. */
static bq_status take_prefix_block(bq_loader *l, const uint8_t *manifest, uint64_t capacity,
                                   bq_error *err) {
  uint64_t bytes = bq_prefix_block_bytes(l->manifest_bytes, capacity);
  uint8_t *block = bytes <= SIZE_MAX ? l->allocator.alloc(l->allocator.ctx, (size_t)bytes) : NULL;
  if (!block)
    return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET, "no room for %l bytes of prefix", capacity);
  bq_arena arena = {block, (size_t)bytes, 0, false};
  uint8_t *copy = bq_arena_take(&arena, l->manifest_bytes, 1);
  uint8_t *file = bq_arena_take(&arena, capacity, 1);
  if (l->manifest_bytes) memcpy(copy, manifest, l->manifest_bytes);
  if (l->have) memcpy(file, l->bytes, l->have);
  l->allocator.free(l->allocator.ctx, l->manifest);
  l->manifest = copy;
  l->bytes = file;
  l->capacity = (size_t)capacity;
  return BQ_OK;
}

/* First size of the prefix block: the hint if it is plausible. Otherwise the block grows with the
 * bytes that have arrived, so that a wrong hint takes no memory. */
static uint64_t first_capacity(const bq_loader_options *o) {
  if (o->manifest_bytes) return 0;
  bool believable = o->prefix_hint && o->prefix_hint <= BQ_PREFIX_MAX &&
                    (!o->file_bytes || o->prefix_hint <= o->file_bytes);
  if (believable) return o->prefix_hint;
  return o->file_bytes ? bq_min64(FIRST_CAPACITY, o->file_bytes) : FIRST_CAPACITY;
}

static bq_status start_tokenizer(const bq_prefix *p, const bq_model_block *block, bq_error *err) {
  const bq_section *s = bq_sections_find(&p->sections, BQ_TAG_TOKN);
  if (!s) return BQ_OK;
  bq_tokenizer_size size = {p->config.tokens, p->config.merges};
  bq_status status = bq_tokenizer_create(s->data, s->bytes, p->foreign ? 0 : s->offset, size,
                                         block->tokenizer_memory, &block->model->tokenizer, err);
  if (status && p->foreign && err) err->offset = BQ_NO_OFFSET;
  return status;
}

static bq_status fail_no_memory(const bq_model_block *block, bq_error *err) {
  return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET, "no room for a model with %l bytes of weights",
                 block->weight_bytes);
}

/* Lays out the model when the prefix is complete. l->block.model is set only after everything
 * except the weights is in place. */
static bq_status start_model(bq_loader *l, bq_error *err) {
  bq_arena arena = {0};
  bq_model_block block;
  bq_status status = bq_model_block_make(&arena, &l->prefix, &l->residency, NULL, &block, err);
  if (status) return status; /* such as weights that can't be paged */
  uint64_t bytes = arena.overflow ? UINT64_MAX : arena.used;
  uint8_t *memory = bytes <= SIZE_MAX ? l->allocator.alloc(l->allocator.ctx, (size_t)bytes) : NULL;
  if (!memory) return fail_no_memory(&block, err);
  l->memory = memory;
  arena = (bq_arena){memory, (size_t)bytes, 0, false};
  status = bq_model_block_make(&arena, &l->prefix, &l->residency, l->kernels, &block, err);
  if (!status && arena.overflow) status = fail_no_memory(&block, err);
  if (!status) status = start_tokenizer(&l->prefix, &block, err);
  if (!status) l->block = block;
  return status;
}

/* --- data ----------------------------------------------------------------------------------- */

static const bq_load *current_load(const bq_loader *l) {
  return l->current < l->block.n_loads ? &l->block.loads[l->current] : NULL;
}

static bool in_load(const bq_loader *l, const bq_load *load) {
  return load && l->at >= load->offset;
}

/* Starts a load. `at` is its start or, after a retry, an offset inside it. */
static void enter_load(bq_loader *l, const bq_load *load) {
  l->conversion = bq_conversion_of((bq_type)load->type, (bq_layout)load->layout, load->rows,
                                   load->cols, bq_slot_is_vector(load->slot));
  if (!load->dst) bq_conversion_drop(&l->conversion);
  uint64_t into = l->at - load->offset;
  l->checked = into - into % bq_conversion_unit(&l->conversion);
}

/* Continues with the next load if `at` has reached the end of the current one. Gaps of foreign
 * containers, which are not checked, are skipped. */
static void enter_next_load(bq_loader *l) {
  const bq_load *load = current_load(l);
  bool complete = load && l->at >= load->offset + load->bytes;
  if (complete) load = ++l->current < l->block.n_loads ? load + 1 : NULL;
  bool skip = load && l->prefix.foreign && !l->hashes_file && l->at < load->offset;
  if (skip) l->at = load->offset;
  if (load && l->at == load->offset) {
    l->staged = 0;
    enter_load(l, load);
  }
}

/* Size of the batch that is being staged, including the bytes that are already staged. */
static uint64_t batch_bytes(const bq_loader *l, const bq_load *load) {
  uint64_t start = l->at - load->offset - l->staged;
  return bq_min64(l->conversion.batch, load->bytes - start);
}

/* The next bytes to read, and the address to write them to. */
static bq_want data_window(const bq_loader *l) {
  uint64_t n = bq_verify_end(l) - l->at;
  bq_want w = {l->at, l->end - l->at, l->block.staging, 0};
  const bq_load *load = current_load(l);
  if (!in_load(l, load)) {
    n = bq_min64(n, bq_min64((load ? load->offset : l->end) - l->at, l->block.staging_bytes));
  } else if (l->conversion.kind == BQ_CONVERT_COPY) {
    w.dst = load->dst + (l->at - load->offset);
    n = bq_min64(n, load->offset + load->bytes - l->at);
  } else {
    w.dst += l->staged;
    n = bq_min64(n, batch_bytes(l, load) - l->staged);
  }
  w.dst_bytes = (size_t)bq_min64(n, SIZE_MAX);
  return w;
}

static bq_want window(const bq_loader *l) {
  if (l->phase == BQ_LOADING_DATA) return data_window(l);
  if (l->phase != BQ_LOADING_PREFIX) return (bq_want){.offset = l->at};
  return (bq_want){l->have, l->need - l->have, l->bytes + l->have,
                   (size_t)bq_min64(l->need, l->capacity) - l->have};
}

/* Records the first bad value. It is reported only after its chunk is verified, because damage of
 * the chunk is the better explanation. */
static void record_bad_value(bq_loader *l, const bq_load *load, uint64_t at) {
  if (l->fault.status) return;
  const bq_type_facts *f = bq_type_get(load->type);
  bq_fail(&l->fault, BQ_FORMAT, at, "tensor \"%S\" has a %s that is %s", load->name,
          (size_t)load->name_bytes, f->block > 1 ? "scale" : "weight",
          f->bits == 7 ? "NaN or infinite, or a weight above 127" : "NaN or infinite");
}

static void check_gap(bq_loader *l, const uint8_t *bytes, size_t n) {
  for (size_t i = 0; i < n && !l->fault.status; i++)
    if (bytes[i]) bq_fail(&l->fault, BQ_FORMAT, l->at + i, "a byte between tensors is not zero");
}

/* For COPY: checks the units that are complete, of the first `arrived` bytes of the load. */
static void check_in_place(bq_loader *l, const bq_load *load, uint64_t arrived) {
  size_t n = (size_t)(arrived - l->checked);
  n -= n % bq_conversion_unit(&l->conversion);
  size_t bad = bq_conversion_find_bad(&l->conversion, load->dst + l->checked, n);
  if (bad < n) record_bad_value(l, load, load->offset + l->checked + bad);
  l->checked += n;
}

static void convert_batch(bq_loader *l, const bq_load *load, uint64_t start) {
  const size_t n = l->staged;
  size_t bad = bq_conversion_find_bad(&l->conversion, l->block.staging, n);
  if (bad < n) record_bad_value(l, load, load->offset + start + bad);
  bq_convert(&l->conversion, l->kernels, l->block.staging, start, n, load->dst, l->block.spare);
  l->staged = 0;
}

/* Processes `n` bytes that were written to w->dst. */
static void take_bytes(bq_loader *l, const bq_want *w, size_t n) {
  const bq_load *load = current_load(l);
  bq_verify_add(l, w->dst, n);
  if (!in_load(l, load)) {
    if (!l->prefix.foreign) check_gap(l, w->dst, n);
    l->at += n;
    return;
  }
  uint64_t batch = batch_bytes(l, load), into = l->at - load->offset;
  l->at += n;
  if (l->conversion.kind == BQ_CONVERT_COPY) {
    check_in_place(l, load, into + n);
    return;
  }
  uint64_t start = into - l->staged;
  l->staged += n;
  if (l->staged == batch) convert_batch(l, load, start);
}

static void update_ready(bq_loader *l) {
  bq_model *m = l->block.model;
  uint32_t all = BQ_READY_ALL(m->config.layers);
  /* The last stage becomes ready only when the hash of the whole file is verified. */
  if (l->hashes_file && l->verified < l->end) all--;
  while (m->ready < all && l->block.stage_end[m->ready] <= l->verified) m->ready++;
  if (l->verified == l->end) l->phase = BQ_LOADED;
}

static bq_status advance_data(bq_loader *l, const bq_want *w, size_t n, bq_error *err) {
  take_bytes(l, w, n);
  bq_status status = bq_verify_arrived(l, err);
  if (!status && l->fault.status && l->fault.offset < l->verified) {
    *err = l->fault;
    status = err->status;
  }
  if (status) return status;
  update_ready(l);
  enter_next_load(l);
  bq_verify_mark(l);
  return BQ_OK;
}

/* File offset where the needed bytes end. */
static uint64_t data_end(const bq_loader *l) {
  const bq_prefix *p = &l->prefix;
  if (!p->foreign) return p->file_bytes;
  return l->has_integrity ? bq_max64(p->data_end, l->file_bytes) : p->data_end;
}

static bq_status start_data(bq_loader *l, bq_error *err) {
  l->at = l->verified = l->prefix.prefix_bytes;
  l->end = data_end(l);
  bq_status status = bq_verify_begin(l, err);
  if (!status) status = start_model(l, err);
  if (status) return status;
  l->phase = BQ_LOADING_DATA;
  update_ready(l);
  enter_next_load(l);
  bq_verify_mark(l);
  return BQ_OK;
}

/* Reads the prefix and starts the second phase. WANT_DATA: l->need bytes are needed. */
static bq_status read_prefix(bq_loader *l, bq_error *err) {
  bq_prefix_input in = {l->bytes, l->have, l->file_bytes, l->manifest_bytes ? l->manifest : NULL,
                        l->manifest_bytes};
  bq_status status = bq_prefix_read(&in, true, &l->need, &l->prefix, err);
  return status ? status : start_data(l, err);
}

static bq_status advance_prefix(bq_loader *l, size_t n, bq_error *err) {
  l->have += n;
  if (l->have >= l->need) {
    bq_status status = read_prefix(l, err);
    if (status != BQ_WANT_DATA) return status;
  }
  if (l->have < l->capacity) return BQ_OK;
  return take_prefix_block(l, l->manifest, bq_min64(l->need, 2 * (uint64_t)l->capacity), err);
}

/* --- the interface -------------------------------------------------------------------------- */

static bq_status advance(bq_loader *l, const bq_want *w, size_t n, bq_error *err) {
  bq_error error = {0};
  l->offered = 0;
  if (!n) return BQ_OK;
  bq_status status = l->phase == BQ_LOADING_PREFIX ? advance_prefix(l, n, &error)
                                                   : advance_data(l, w, n, &error);
  return status ? end_failed(l, &error, err) : BQ_OK;
}

bq_status bq_loader_create(const bq_loader_options *o, bq_loader **out, bq_error *err) {
  if (!o || !o->allocator.alloc || !o->allocator.free || (o->manifest_bytes && !o->manifest))
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "a loader needs an allocator");
  bq_loader *l = o->allocator.alloc(o->allocator.ctx, (size_t)bq_loader_bytes());
  uint8_t *owned = o->owns_manifest ? (uint8_t *)(uintptr_t)o->manifest : NULL;
  if (!l) {
    if (owned) o->allocator.free(o->allocator.ctx, owned);
    return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET, "no room for the loader");
  }
  *l = (bq_loader){.allocator = o->allocator,
                   .kernels = o->kernels ? o->kernels : bq_kernels_best(),
                   .file_bytes = o->file_bytes,
                   .manifest = owned,
                   .bytes = owned ? owned + o->manifest_bytes : NULL,
                   .manifest_bytes = o->manifest_bytes,
                   .residency = o->residency,
                   .has_integrity = o->integrity != NULL,
                   .need = 8};
  if (o->integrity) memcpy(l->integrity, o->integrity, sizeof l->integrity);
  bq_status status = BQ_OK;
  if (!owned) status = take_prefix_block(l, o->manifest, first_capacity(o), err);
  if (!status && o->manifest_bytes) status = read_prefix(l, err);
  if (status)
    bq_loader_free(l);
  else
    *out = l;
  return status;
}

bq_status bq_loader_want(bq_loader *l, bq_want *out, bq_error *err) {
  if (l->phase == BQ_LOAD_FAILED) return report_error(l, err);
  *out = window(l);
  l->offered = out->dst_bytes;
  return BQ_OK;
}

bq_status bq_loader_wrote(bq_loader *l, size_t n, bq_error *err) {
  if (l->phase == BQ_LOAD_FAILED) return report_error(l, err);
  if (n > l->offered)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "%l bytes were written where %l had been offered", (uint64_t)n,
                   (uint64_t)l->offered);
  bq_want w = window(l);
  return advance(l, &w, n, err);
}

bq_status bq_loader_feed(bq_loader *l, const uint8_t *bytes, size_t n, bq_error *err) {
  if (l->phase == BQ_LOAD_FAILED) return report_error(l, err);
  uint64_t at = window(l).offset; /* file offset of *bytes */
  while (n) {
    bq_want w = window(l);
    if (!w.length) return BQ_OK; /* loading is complete; the remaining bytes are not needed */
    uint64_t skip = bq_min64(w.offset - at, n);
    size_t part = (size_t)bq_min64(n - skip, w.dst_bytes);
    if (part) memcpy(w.dst, bytes + skip, part);
    bq_status status = advance(l, &w, part, err);
    if (status) return status;
    bytes += skip + part;
    n -= (size_t)skip + part;
    at += skip + part;
  }
  return BQ_OK;
}

bq_status bq_loader_retry(bq_loader *l, bq_error *err) {
  if (l->phase != BQ_LOAD_FAILED)
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "nothing has failed that could be tried again");
  bool prefix = l->failed_in == BQ_LOADING_PREFIX;
  bool again = l->error.status == BQ_CHECKSUM || (prefix && l->error.status == BQ_INTEGRITY);
  if (!again) return report_error(l, err);
  l->phase = l->failed_in;
  if (prefix) {
    l->have = 0;
    l->need = 8;
    return BQ_OK;
  }
  bq_verify_rewind(l);
  if (in_load(l, current_load(l))) enter_load(l, current_load(l));
  return BQ_OK;
}

bq_status bq_loader_model(bq_loader *l, bq_model **out, bq_error *err) {
  if (!l->block.model) {
    if (l->phase == BQ_LOAD_FAILED) return report_error(l, err);
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "the prefix of the file is not there yet");
  }
  *out = l->block.model;
  return BQ_OK;
}

void bq_loader_free(bq_loader *l) {
  if (!l) return;
  bq_allocator a = l->allocator;
  if (l->memory) a.free(a.ctx, l->block.model ? l->block.model->clusters : NULL);
  if (l->memory) a.free(a.ctx, l->memory);
  if (l->manifest) a.free(a.ctx, l->manifest);
  a.free(a.ctx, l);
}
