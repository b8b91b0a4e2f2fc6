#include "load/page_units.h"

#include <string.h>

#include "format/directory.h"
#include "load/conversion.h"

/* Target size in bytes of a page of the head if no layer is paged. Otherwise the largest paged
 * layer determines the size of slots. */
enum { HEAD_PART = 2 << 20 };

typedef struct range {
  uint64_t first, end; /* in the file; first > end: empty */
  uint32_t matrices;
} range;

/* Facts about the paged tensors, from the directory. */
typedef struct survey {
  range layers[BQ_LAYERS_MAX];
  bq_entry wte, wpe, head, layer_embeds; /* bytes 0: not paged */
} survey;

/* Paged layers are distributed evenly among the others: while those are computed, the next paged
 * layer is read. */
static bool layer_is_paged(const bq_config *c, const bq_residency *r, uint32_t layer) {
  uint64_t paged = r->layers < c->layers ? c->layers - r->layers : 0;
  return (layer + 1) * paged / c->layers > layer * paged / c->layers;
}

bool bq_is_paged(const bq_config *c, const bq_residency *r, uint32_t slot) {
  if (!r->paged || bq_slot_is_vector(slot)) return false;
  if (slot == BQ_SLOT_WTE) return !c->tied || !r->head;
  if (slot == BQ_SLOT_HEAD) return !r->head;
  if (slot == BQ_SLOT_WTT) return false; /* every token needs it, and it is small */
  if (slot == BQ_SLOT_LAYER_EMBEDS) return true;
  if (slot > BQ_SLOT_HEAD && slot < BQ_MODEL_SLOTS) return false; /* dense layers: small */
  if (slot < BQ_MODEL_SLOTS) return true;
  return layer_is_paged(c, r, (slot - BQ_MODEL_SLOTS) / BQ_LAYER_SLOTS);
}

static bq_status refuse(const bq_entry *e, const char *why, bq_error *err) {
  return bq_fail(err, BQ_UNSUPPORTED, e->tensor.at, "tensor \"%S\" can't be paged: %s",
                 e->tensor.name, e->tensor.name_bytes, why);
}

/* Records a paged tensor. Returns false if it would not be aligned in its layer's slot. */
static bool record_tensor(survey *s, const bq_config *c, const bq_entry *e) {
  if (e->slot == BQ_SLOT_WTE) s->wte = *e;
  if (e->slot == BQ_SLOT_WPE) s->wpe = *e;
  if (e->slot == BQ_SLOT_LAYER_EMBEDS) s->layer_embeds = *e;
  if (e->slot == BQ_SLOT_HEAD || (e->slot == BQ_SLOT_WTE && c->tied)) s->head = *e;
  if (e->slot < BQ_MODEL_SLOTS) return true;
  range *r = &s->layers[bq_slot_stage(c, e->slot) - 1];
  if (r->first < r->end && (e->offset - r->first) % BQ_ALIGN) return false;
  if (e->offset < r->first) r->first = e->offset;
  if (e->offset + e->bytes > r->end) r->end = e->offset + e->bytes;
  r->matrices += bq_slot_matrices(e->slot);
  return true;
}

/* State of a walk over the directory. */
typedef struct survey_walk {
  const bq_config *config;
  const bq_residency *residency;
  survey *survey;
  bq_model *model; /* for tie_parts only */
  bq_pages *pages; /* for tie_parts only */
} survey_walk;

static bq_status survey_tensor(void *ctx, const bq_entry *e, bq_error *err) {
  survey_walk *l = ctx;
  if (!bq_is_paged(l->config, l->residency, e->slot)) return BQ_OK;
  if (e->data ||
      bq_conversion_of(e->type, e->layout, e->rows, e->cols, false).kind != BQ_CONVERT_COPY)
    return refuse(e, "it is not stored as it is computed with (convert the model to v2, tiled)",
                  err);
  if (record_tensor(l->survey, l->config, e)) return BQ_OK;
  return refuse(
      e, "it lies at no multiple of 64 bytes from its layer's others (convert the model to v2)",
      err);
}

/* --- units ---------------------------------------------------------------------------------- */

static uint64_t rows_bytes(const bq_entry *e, uint32_t rows) {
  return bq_type_bytes(e->type, e->layout, rows, e->cols);
}

/* Rows of the head in one unit, a multiple of 8: the units have equal sizes that fit in a slot. */
static uint32_t head_rows(const bq_entry *head, uint64_t slot) {
  uint64_t group = rows_bytes(head, BQ_TILE_ROWS), room = slot ? slot : HEAD_PART;
  uint64_t groups = ((uint64_t)head->rows + BQ_TILE_ROWS - 1) / BQ_TILE_ROWS;
  uint64_t max_groups = room / group ? room / group : 1;
  uint64_t units = (groups + max_groups - 1) / max_groups;
  return (uint32_t)((groups + units - 1) / units * BQ_TILE_ROWS);
}

static void add_unit(bq_pages *p, const bq_page_unit *unit, bq_paging *sizes) {
  if (p) p->units[sizes->units] = *unit;
  sizes->units++;
  sizes->streamed_bytes += unit->bytes;
  if (unit->bytes > sizes->slot_bytes) sizes->slot_bytes = unit->bytes;
}

/* Adds the units of all paged layers and of the head. Called twice; with p == NULL it only
 * counts. */
static void add_units(const survey *s, const bq_config *c, bq_pages *p, bq_paging *sizes) {
  *sizes = (bq_paging){.residency = sizes->residency};
  bq_page_matrix *parts = p ? p->parts : NULL;
  for (uint32_t i = 0; i < c->layers; i++) {
    const range *r = &s->layers[i];
    if (p) p->next_unit[i] = sizes->units;
    if (r->first > r->end) continue;
    add_unit(p,
             &(bq_page_unit){
                 .offset = r->first, .bytes = r->end - r->first, .layer = i, .matrices = parts},
             sizes);
    if (p) parts += r->matrices;
  }
  if (p) p->next_unit[c->layers] = sizes->units;
  if (s->head.bytes) {
    const uint32_t part = head_rows(&s->head, sizes->slot_bytes);
    for (uint32_t row = 0; row < s->head.rows;) {
      uint32_t rows = s->head.rows - row < part ? s->head.rows - row : part;
      add_unit(p,
               &(bq_page_unit){.offset = s->head.offset + rows_bytes(&s->head, row),
                               .bytes = rows_bytes(&s->head, rows),
                               .layer = c->layers,
                               .row0 = row,
                               .rows = rows},
               sizes);
      row += rows;
    }
  }
  if (p) p->n_units = sizes->units;
  /* Two units or fewer keep their slots, so nothing is streamed. */
  if (sizes->units <= BQ_PAGE_SLOTS) sizes->streamed_bytes = 0;
}

/* Records the matrices of a paged layer's tensor with their offsets in the unit. */
static bq_status tie_parts(void *ctx, const bq_entry *e, bq_error *err) {
  const survey_walk *l = ctx;
  (void)err;
  if (e->slot < BQ_MODEL_SLOTS || !bq_is_paged(l->config, l->residency, e->slot)) return BQ_OK;
  bq_page_unit *u = &l->pages->units[l->pages->next_unit[bq_slot_stage(l->config, e->slot) - 1]];
  for (uint32_t i = 0; i < bq_slot_matrices(e->slot); i++) {
    uint32_t row0;
    bq_matrix *matrix = bq_slot_matrix(l->model, e->slot, i, &row0);
    u->matrices[u->n_matrices++] =
        (bq_page_matrix){matrix, e->offset - u->offset + rows_bytes(e, row0)};
  }
  return BQ_OK;
}

/* --- memory --------------------------------------------------------------------------------- */

static void take_rows(bq_arena *arena, const bq_entry *e, bq_page_rows *out, bq_paging *sizes) {
  if (!e->bytes) return;
  bq_page_rows t = {.offset = e->offset};
  t.group_rows = e->layout == BQ_TILED ? BQ_TILE_ROWS : 1;
  uint64_t bytes = rows_bytes(e, t.group_rows);
  t.group_bytes = (size_t)bytes;
  t.stride = (size_t)((bytes + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN);
  t.entries = bq_arena_take(arena, BQ_PAGE_ROWS, (bytes + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN);
  sizes->streamed_bytes += bytes;
  *out = t;
}

static uint64_t paged_matrices(const survey *s, const bq_config *c) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < c->layers; i++) n += s->layers[i].matrices;
  return n;
}

bq_status bq_page_units_make(bq_arena *arena, const bq_prefix *prefix, const bq_residency *r,
                             bq_model *model, bq_paging *sizes, bq_error *err) {
  const bq_config *c = &prefix->config;
  survey s = {0};
  survey_walk l = {.config = c, .residency = r, .survey = &s};
  for (uint32_t i = 0; i < c->layers; i++) s.layers[i] = (range){UINT64_MAX, 0, 0};
  bq_status status = bq_directory_each(prefix, survey_tensor, &l, err);
  if (status) return status;
  *sizes = (bq_paging){.residency = *r};
  add_units(&s, c, NULL, sizes);

  bq_pages pages = {0}, *placed = bq_arena_take(arena, 1, sizeof *placed);
  pages.units = bq_arena_take(arena, sizes->units, sizeof *pages.units);
  pages.parts = bq_arena_take(arena, paged_matrices(&s, c), sizeof *pages.parts);
  pages.next_unit = bq_arena_take(arena, (uint64_t)c->layers + 1, sizeof *pages.next_unit);
  for (uint32_t i = 0; i < BQ_PAGE_SLOTS; i++)
    pages.slots[i].data = bq_arena_take(arena, sizes->slot_bytes, 1);
  bool memory = arena->base && !arena->overflow;
  if (memory) add_units(&s, c, &pages, sizes);
  take_rows(arena, &s.wte, &pages.tables[0], sizes);
  take_rows(arena, &s.wpe, &pages.tables[1], sizes);
  take_rows(arena, &s.layer_embeds, &pages.tables[2], sizes);
  if (!memory || arena->overflow) return BQ_OK;
  *placed = pages;
  model->pages = placed;
  l.model = model;
  l.pages = placed;
  return bq_directory_each(prefix, tie_parts, &l, err);
}
