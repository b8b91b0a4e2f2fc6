#include "model/pages.h"

#include "bq.h"

uint32_t bq_pages_unit_of(const bq_pages *p, uint32_t layer) {
  uint32_t unit = p->next_unit[layer];
  return unit < p->n_units && p->units[unit].layer == layer ? unit : BQ_NO_UNIT;
}

/* --- units ---------------------------------------------------------------------------------- */

static const bq_page_slot *slot_of(const bq_pages *p, uint32_t unit) {
  for (uint32_t i = 0; i < BQ_PAGE_SLOTS; i++)
    if (p->slots[i].state != BQ_PAGE_EMPTY && p->slots[i].unit == unit) return &p->slots[i];
  return NULL;
}

const uint8_t *bq_pages_unit_data(const bq_pages *p, uint32_t unit) {
  const bq_page_slot *s = slot_of(p, unit);
  return s && s->state == BQ_PAGE_FILLED ? s->data : NULL;
}

/* Returns the slot to reuse: not one that is being read into, and that of `keep` only if
 * `urgent`. */
static bq_page_slot *free_slot(bq_pages *p, uint32_t keep, bool urgent) {
  bq_page_slot *found = NULL;
  for (uint32_t i = 0; i < BQ_PAGE_SLOTS; i++) {
    bq_page_slot *s = &p->slots[i];
    if (s->state == BQ_PAGE_LOADING) continue;
    if (s->state == BQ_PAGE_EMPTY || s->unit != keep) return s;
    if (urgent) found = s;
  }
  return found;
}

bool bq_pages_claim(bq_pages *p, uint32_t unit, uint32_t keep, bool urgent, bq_page *out) {
  bq_page_slot *s = slot_of(p, unit) ? NULL : free_slot(p, keep, urgent);
  if (!s) return false;
  const bq_page_unit *u = &p->units[unit];
  s->unit = unit;
  s->state = BQ_PAGE_LOADING;
  for (uint32_t i = 0; i < u->n_matrices; i++)
    u->matrices[i].matrix->data = s->data + (size_t)u->matrices[i].at;
  *out = (bq_page){u->offset, s->data, (size_t)u->bytes, (uint32_t)(s - p->slots)};
  return true;
}

/* --- rows ----------------------------------------------------------------------------------- */

bool bq_pages_row(const bq_pages *p, uint32_t table, const bq_matrix *matrix, uint32_t row,
                  bq_matrix *part, uint32_t *at) {
  const bq_page_rows *t = &p->tables[table];
  uint32_t group = row / t->group_rows, entry = group % BQ_PAGE_ROWS;
  if (t->state[entry] != BQ_PAGE_FILLED || t->group[entry] != group) return false;
  *part = *matrix;
  part->data = t->entries + entry * t->stride;
  part->rows = t->group_rows;
  *at = row % t->group_rows;
  return true;
}

bool bq_pages_claim_row(bq_pages *p, uint32_t table, uint32_t row, uint32_t *reserved,
                        bq_page *out) {
  bq_page_rows *t = &p->tables[table];
  uint32_t group = row / t->group_rows, entry = group % BQ_PAGE_ROWS;
  bool is_reserved = *reserved >> entry & 1,
       is_cached = t->state[entry] != BQ_PAGE_EMPTY && t->group[entry] == group;
  *reserved |= UINT32_C(1) << entry;
  if (is_reserved || is_cached || t->state[entry] == BQ_PAGE_LOADING) return false;
  t->group[entry] = group;
  t->state[entry] = BQ_PAGE_LOADING;
  *out = (bq_page){t->offset + (uint64_t)group * t->group_bytes, t->entries + entry * t->stride,
                   t->group_bytes, BQ_PAGE_SLOTS + table * BQ_PAGE_ROWS + entry};
  return true;
}

/* --- done ----------------------------------------------------------------------------------- */

bool bq_pages_done(bq_pages *p, uint32_t id, bool good) {
  const bq_page_state state = good ? BQ_PAGE_FILLED : BQ_PAGE_EMPTY;
  if (id < BQ_PAGE_SLOTS) {
    if (p->slots[id].state != BQ_PAGE_LOADING) return false;
    p->slots[id].state = state;
    return true;
  }
  const uint32_t table = (id - BQ_PAGE_SLOTS) / BQ_PAGE_ROWS,
                 entry = (id - BQ_PAGE_SLOTS) % BQ_PAGE_ROWS;
  if (table >= BQ_PAGE_TABLES || p->tables[table].state[entry] != BQ_PAGE_LOADING) return false;
  p->tables[table].state[entry] = (uint8_t)state;
  return true;
}

bq_status bq_model_page_done(bq_model *m, uint32_t id, bool good, bq_error *err) {
  if (m->pages && bq_pages_done(m->pages, id, good)) return BQ_OK;
  return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "page %u is not being read", id);
}
