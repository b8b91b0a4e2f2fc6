/* The model's block of memory: where everything lies, in one order for planning and for loading. */
#include <string.h>

#include "format/directory.h"
#include "format/loader.h"

enum { LEAST_STAGING = 4096 }; /* what lies between tensors is read through it */

uint64_t bq_loader_bytes(void) {
  bq_arena arena = {0};
  bq_arena_take(&arena, 1, sizeof(bq_loader));
  return arena.used;
}

uint64_t bq_prefix_block_bytes(uint64_t manifest_bytes, uint64_t prefix_bytes) {
  bq_arena arena = {0};
  bq_arena_take(&arena, manifest_bytes, 1);
  bq_arena_take(&arena, prefix_bytes, 1);
  return arena.overflow ? UINT64_MAX : arena.used;
}

uint64_t bq_model_bytes(const bq_prefix *prefix, const bq_residency *residency,
                        uint64_t *weight_bytes, uint64_t *token_weights) {
  bq_arena arena = {0};
  bq_home home;
  if (bq_home_make(&arena, prefix, residency, NULL, &home, NULL) != BQ_OK) return UINT64_MAX;
  *weight_bytes = home.weight_bytes;
  *token_weights = home.token_weights;
  return arena.overflow ? UINT64_MAX : arena.used;
}

/* --- weights -------------------------------------------------------------------------------- */

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Sums and maxima over all tensors. */
typedef struct needs {
  uint64_t staging, spare;
} needs;

/* An embedding is looked up, not multiplied with, unless wte (slot 0) is the head too. */
static uint64_t token_weights(const bq_config *c, const bq_entry *e) {
  bool multiplied = bq_slot_stage(c, e->slot) > 0 || (c->tied && e->slot == 0);
  return multiplied && !bq_slot_is_vector(e->slot) ? (uint64_t)e->rows * e->cols : 0;
}

static bq_status copy_extra(const bq_landing *l, const bq_entry *e, uint8_t *home, bq_error *err) {
  if (bq_landing_find_bad(l, e->data, (size_t)e->bytes) < e->bytes)
    return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET,
                   "XTRA: tensor \"%S\" has a weight that is NaN or infinite", e->tensor.name,
                   e->tensor.name_bytes);
  memcpy(home, e->data, (size_t)e->bytes);
  return BQ_OK;
}

static bq_status place(bq_arena *arena, const bq_directory *d, const bq_entry *e,
                       const bq_kernels *kernels, bq_home *h, needs *n, bq_error *err) {
  bq_landing l = bq_landing_of(e->type, e->layout, e->rows, e->cols, bq_slot_is_vector(e->slot));
  const bool paged = bq_is_paged(&d->prefix->config, &h->paging.residency, e->slot);
  if (paged) bq_landing_drop(&l);
  h->weight_bytes += l.engine_bytes;
  h->token_weights += token_weights(&d->prefix->config, e);
  n->spare = larger(n->spare, l.spare);
  n->staging = larger(n->staging, e->data ? 0 : l.batch);
  uint8_t *home = paged ? NULL : bq_arena_take(arena, l.engine_bytes, 1);
  if (!h->model || !h->loads || (!home && !paged)) return BQ_OK;
  bq_slot_fill(h->model, e->slot,
               &(bq_matrix){home, e->rows, e->cols, l.type, &kernels->matrix[l.type]});
  if (e->data) return copy_extra(&l, e, home, err);
  h->loads[d->index - 1] = (bq_load){e->offset, e->bytes, home, e->tensor.name, e->slot, e->rows,
                                     e->cols, (uint16_t)e->tensor.name_bytes, (uint8_t)e->type,
                                     (uint8_t)e->layout};
  return BQ_OK;
}

/* First all matrices, then all vectors, in the directory's order: so q, k and v, gate and up are
 * neighbours in a file that is in execution order. */
static bq_status place_all(bq_arena *arena, const bq_prefix *p, const bq_kernels *kernels,
                           bool vectors, bq_home *h, needs *n, bq_error *err) {
  bq_directory d;
  bq_entry e;
  bq_status status = bq_directory_begin(&d, p, err);
  for (bool done = false; !status;) {
    status = bq_directory_next(&d, &e, &done, err);
    if (status || done) break;
    if (bq_slot_is_vector(e.slot) == vectors) status = place(arena, &d, &e, kernels, h, n, err);
  }
  h->n_loads = d.listed;
  return status;
}

/* --- order ---------------------------------------------------------------------------------- */

static void sift(bq_load *a, size_t n, size_t i) {
  for (size_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && a[child + 1].offset > a[child].offset) child++;
    if (a[i].offset >= a[child].offset) return;
    bq_load t = a[i];
    a[i] = a[child];
    a[child] = t;
  }
}

/* Heap sort by offset: manifests may be in any order. */
static void sort(bq_load *a, size_t n) {
  for (size_t i = n / 2; i-- > 0;) sift(a, n, i);
  for (size_t i = n; i-- > 1;) {
    bq_load t = a[0];
    a[0] = a[i];
    a[i] = t;
    sift(a, i, 0);
  }
}

static bq_status check_overlap(const bq_home *h, bq_error *err) {
  for (uint32_t i = 1; i < h->n_loads; i++) {
    const bq_load *a = &h->loads[i - 1], *b = &h->loads[i];
    if (b->offset < a->offset + a->bytes)
      return bq_fail(err, BQ_FORMAT, b->offset, "tensors \"%S\" and \"%S\" overlap", a->name,
                     (size_t)a->name_bytes, b->name, (size_t)b->name_bytes);
  }
  return BQ_OK;
}

static void find_stage_ends(const bq_config *c, bq_home *h) {
  memset(h->stage_end, 0, ((size_t)c->layers + 2) * sizeof *h->stage_end);
  for (uint32_t i = 0; i < h->n_loads; i++) {
    const bq_load *l = &h->loads[i];
    h->stage_end[bq_slot_stage(c, l->slot)] = l->offset + l->bytes; /* they rise */
  }
}

/* --- the block ------------------------------------------------------------------------------ */

bq_status bq_home_make(bq_arena *arena, const bq_prefix *p, const bq_residency *residency,
                       const bq_kernels *kernels, bq_home *out, bq_error *err) {
  const bq_config *c = &p->config;
  bq_home h = {.paging = {.residency = *residency}};
  needs n = {0};
  h.model = bq_arena_take(arena, 1, sizeof *h.model);
  bq_layer *layers = bq_arena_take(arena, c->layers, sizeof *layers);
  bq_layer_kind *kinds = bq_arena_take(arena, BQ_KINDS, sizeof *kinds);
  const bool alibi = c->position == BQ_POSITION_ALIBI;
  float *slopes = alibi ? bq_arena_take(arena, c->heads, sizeof *slopes) : NULL;
  h.loads = bq_arena_take(arena, p->n_tensors, sizeof *h.loads);
  h.stage_end = bq_arena_take(arena, (uint64_t)c->layers + 2, sizeof *h.stage_end);
  if (h.model && layers && kinds && (slopes || !alibi)) {
    memset(layers, 0, c->layers * sizeof *layers);
    *h.model = (bq_model){.config = *c, .kernels = kernels, .layers = layers, .kinds = kinds,
                          .slopes = slopes, .sections = p->sections.list, .n_sections = p->sections.n};
    memcpy(h.model->file_id, p->id, sizeof p->id);
    bq_model_program(h.model);
  }
  bq_status status = place_all(arena, p, kernels, false, &h, &n, err);
  if (!status) status = place_all(arena, p, kernels, true, &h, &n, err);
  if (!status && residency->paged)
    status = bq_paging_make(arena, p, residency, h.model, &h.paging, err);
  if (status) return status;
  if (c->tokens) {
    bq_tokenizer_size size = {c->tokens, c->merges};
    h.tokenizer_memory = bq_arena_take(arena, bq_tokenizer_memory(size), 1);
  }
  /* Foreign containers have no hashes; whether this file does is not known yet when planning. */
  if (!p->foreign && n.staging) h.saved = bq_arena_take(arena, n.staging, 1);
  n.staging = larger(n.staging, LEAST_STAGING);
  h.staging = bq_arena_take(arena, n.staging, 1);
  h.spare = bq_arena_take(arena, n.spare, 1);
  h.staging_bytes = (size_t)n.staging;
  if (arena->base && !arena->overflow) {
    sort(h.loads, h.n_loads);
    status = check_overlap(&h, err);
    find_stage_ends(c, &h);
    bq_bind_finish(h.model);
  }
  *out = h;
  return status;
}
