#include <string.h>

#include "core/minmax.h"
#include "format/directory.h"
#include "load/block.h"

enum { MIN_STAGING_BYTES = 4096 }; /* for the bytes between tensors, which are staged as well */

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
                        bq_model_block *out) {
  bq_arena arena = {0};
  if (bq_model_block_make(&arena, prefix, residency, NULL, out, NULL) != BQ_OK) return UINT64_MAX;
  return arena.overflow ? UINT64_MAX : arena.used;
}

/* --- weights -------------------------------------------------------------------------------- */

/* State of one walk over the directory. */
typedef struct placing {
  bq_arena *arena;
  const bq_prefix *prefix;
  const bq_kernels *kernels;
  bool vectors; /* places vectors; else matrices */
  bq_model_block *block;
  uint64_t staging, spare; /* maximum over all tensors */
} placing;

/* Number of weights of a tensor that every token is multiplied with. Of an embedding only a row is
 * read, unless wte (slot 0) is also the head. */
static uint64_t token_weights(const bq_config *c, const bq_entry *e) {
  bool multiplied = bq_slot_stage(c, e->slot) > 0 || (c->tied && e->slot == 0);
  /* Dense layers after the pooling multiply one vector of a text. */
  if (e->slot > BQ_SLOT_HEAD && e->slot < BQ_MODEL_SLOTS)
    multiplied = e->slot == BQ_SLOT_EMBED_PROJECT;
  if (!multiplied || bq_slot_is_vector(e->slot)) return 0;
  const uint64_t weights = (uint64_t)e->rows * e->cols;
  return bq_slot_stacked(e->slot) ? weights / c->experts * c->experts_used : weights;
}

static bq_status copy_extra(const bq_conversion *l, const bq_entry *e, uint8_t *dst,
                            bq_error *err) {
  if (bq_conversion_find_bad(l, e->data, (size_t)e->bytes) < e->bytes)
    return bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET,
                   "XTRA: tensor \"%S\" has a weight that is NaN or infinite", e->tensor.name,
                   e->tensor.name_bytes);
  memcpy(dst, e->data, (size_t)e->bytes);
  return BQ_OK;
}

static bq_status place(void *ctx, const bq_entry *e, bq_error *err) {
  placing *p = ctx;
  bq_model_block *block = p->block;
  const bq_config *c = &p->prefix->config;
  if (bq_slot_is_vector(e->slot) != p->vectors) return BQ_OK;
  bq_conversion l = bq_conversion_of(e->type, e->layout, e->rows, e->cols, p->vectors);
  const bool paged = bq_is_paged(c, &block->paging.residency, e->slot);
  if (paged) bq_conversion_drop(&l);
  block->weight_bytes += l.engine_bytes;
  block->token_weights += token_weights(c, e);
  block->key_bias |= bq_slot_is_key_bias(e->slot);
  if (!p->vectors) block->types |= UINT64_C(1) << l.type;
  if (e->slot == BQ_SLOT_HEAD || (c->tied && e->slot == BQ_SLOT_WTE)) block->head = l.type;
  p->spare = bq_max64(p->spare, l.spare);
  p->staging = bq_max64(p->staging, e->data ? 0 : l.batch);
  uint8_t *dst = paged ? NULL : bq_arena_take(p->arena, l.engine_bytes, 1);
  if (!block->model || !block->loads || (!dst && !paged)) return BQ_OK;
  if (!p->kernels->matrix[l.type].matmul)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET,
                   "tensor \"%S\" needs the kernels of type %s, which this module was not given",
                   e->tensor.name, (size_t)e->tensor.name_bytes, bq_type_get(l.type)->name);
  bq_slot_fill(block->model, e->slot,
               &(bq_matrix){dst, e->rows, e->cols, l.type, &p->kernels->matrix[l.type]});
  if (e->data) return copy_extra(&l, e, dst, err);
  block->loads[e->index] =
      (bq_load){e->offset,        e->bytes,          dst,     e->tensor.name,
                e->slot,          e->rows,           e->cols, (uint16_t)e->tensor.name_bytes,
                (uint8_t)e->type, (uint8_t)e->layout};
  return BQ_OK;
}

/* Places all matrices, then all vectors, in the directory's order. If the file is in execution
 * order, q, k and v, and gate and up, are adjacent in memory. */
static bq_status place_all(placing *p, bq_error *err) {
  bq_status status = bq_directory_each(p->prefix, place, p, err);
  p->vectors = true;
  return status ? status : bq_directory_each(p->prefix, place, p, err);
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

/* Heapsort by offset: manifests may list tensors in any order. */
static void sort(bq_load *a, size_t n) {
  for (size_t i = n / 2; i-- > 0;) sift(a, n, i);
  for (size_t i = n; i-- > 1;) {
    bq_load t = a[0];
    a[0] = a[i];
    a[i] = t;
    sift(a, i, 0);
  }
}

static bq_status check_overlap(const bq_model_block *block, bq_error *err) {
  for (uint32_t i = 1; i < block->n_loads; i++) {
    const bq_load *a = &block->loads[i - 1], *b = &block->loads[i];
    if (b->offset < a->offset + a->bytes)
      return bq_fail(err, BQ_FORMAT, b->offset, "tensors \"%S\" and \"%S\" overlap", a->name,
                     (size_t)a->name_bytes, b->name, (size_t)b->name_bytes);
  }
  return BQ_OK;
}

static void find_stage_ends(const bq_config *c, bq_model_block *block) {
  memset(block->stage_end, 0, ((size_t)c->layers + 2) * sizeof *block->stage_end);
  for (uint32_t i = 0; i < block->n_loads; i++) {
    const bq_load *l = &block->loads[i];
    block->stage_end[bq_slot_stage(c, l->slot)] = l->offset + l->bytes; /* offsets rise */
  }
}

/* --- the block ------------------------------------------------------------------------------ */

/* Allocates the structs of the model and the loader, without weights. */
static void take_structs(bq_arena *arena, const bq_prefix *p, const bq_kernels *kernels,
                         bq_model_block *block) {
  const bq_config *c = &p->config;
  bq_model *model = bq_arena_take(arena, 1, sizeof *model);
  bq_layer *layers = bq_arena_take(arena, c->layers, sizeof *layers);
  const uint32_t n_kinds = bq_layer_kinds_below(bq_layer_kinds_of(c), BQ_KINDS);
  bq_layer_kind *kinds = bq_arena_take(arena, n_kinds, sizeof *kinds);
  const bool alibi = c->position == BQ_POSITION_ALIBI;
  float *slopes = alibi ? bq_arena_take(arena, c->heads, sizeof *slopes) : NULL;
  block->loads = bq_arena_take(arena, p->n_tensors, sizeof *block->loads);
  block->n_loads = p->n_listed;
  block->stage_end = bq_arena_take(arena, (uint64_t)c->layers + 2, sizeof *block->stage_end);
  if (!model || !layers || !kinds || (alibi && !slopes)) return;
  memset(layers, 0, c->layers * sizeof *layers);
  *model = (bq_model){.config = *c,
                      .kernels = kernels,
                      .layers = layers,
                      .kinds = kinds,
                      .slopes = slopes,
                      .sections = p->sections.list,
                      .n_sections = p->sections.n};
  memcpy(model->file_id, p->id, sizeof p->id);
  bq_model_program(model);
  block->model = model;
}

bq_status bq_model_block_make(bq_arena *arena, const bq_prefix *p, const bq_residency *residency,
                              const bq_kernels *kernels, bq_model_block *out, bq_error *err) {
  const bq_config *c = &p->config;
  bq_model_block block = {.paging = {.residency = *residency}};
  placing n = {.arena = arena, .prefix = p, .kernels = kernels, .block = &block};
  take_structs(arena, p, kernels, &block);
  bq_status status = place_all(&n, err);
  if (!status && residency->paged)
    status = bq_page_units_make(arena, p, residency, block.model, &block.paging, err);
  if (status) return status;
  if (c->tokens) {
    bq_tokenizer_size size = {c->tokens, c->merges};
    block.tokenizer_memory = bq_arena_take(arena, bq_tokenizer_memory(size), 1);
  }
  /* Foreign containers have no chunk hashes. For v2 files a plan can't tell whether there are
   * any. */
  if (!p->foreign && n.staging) block.saved = bq_arena_take(arena, n.staging, 1);
  n.staging = bq_max64(n.staging, MIN_STAGING_BYTES);
  block.staging = bq_arena_take(arena, n.staging, 1);
  block.spare = bq_arena_take(arena, n.spare, 1);
  block.staging_bytes = (size_t)n.staging;
  if (arena->base && !arena->overflow) {
    sort(block.loads, block.n_loads);
    status = check_overlap(&block, err);
    find_stage_ends(c, &block);
    bq_bind_finish(block.model);
  }
  *out = block;
  return status;
}
