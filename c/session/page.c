#include "session/page.h"

#include "core/minmax.h"
#include "model/pages.h"
#include "session/batch.h"

static bool pages_head(const bq_session *s) {
  return bq_batch_has_outputs(s) && !bq_outputs_hidden_states(s);
}

/* Whether the session will use a unit: layers may be skipped, and batches without outputs need no
 * head. */
static bool computes_with(const bq_session *s, uint32_t unit) {
  const uint32_t layer = s->model->pages->units[unit].layer;
  if (layer == s->model->config.layers) return pages_head(s);
  return !bq_layer_set_has(&s->skipped, layer);
}

/* The first unit from `unit` on, cyclically, that will be used; BQ_NO_UNIT: no unit. */
static uint32_t unit_from(const bq_session *s, uint32_t unit) {
  const uint32_t n = s->model->pages->n_units;
  for (uint32_t i = 0; i < n; i++, unit++) {
    if (unit >= n) unit = 0;
    if (computes_with(s, unit)) return unit;
  }
  return BQ_NO_UNIT;
}

/* The unit of pages for the next work unit or, if that needs none, the first one that will be
 * needed. */
static uint32_t next_unit(const bq_session *s) {
  const bq_pages *p = s->model->pages;
  const uint32_t layers = s->model->config.layers, layer = s->part.owner == s ? s->batch.layer : 0;
  return unit_from(s, p->next_unit[layer] + (layer == layers ? s->batch.head_unit : 0));
}

/* Claims the embedding rows of the open batch, or of the next one, that are not in memory.
 * Returns their number. */
static size_t claim_rows(bq_session *s, uint32_t table, bq_page *out, size_t capacity) {
  const bool is_open = s->part.owner == s;
  const uint32_t rows =
      is_open ? s->batch.rows : bq_min32(s->options.prefill_window, bq_sequence_pending(s));
  uint32_t reserved = 0;
  size_t n = 0;
  for (uint32_t t = is_open ? s->batch.embedded : 0; t < rows && n < capacity && ~reserved; t++) {
    const bq_row row = is_open ? bq_row_at(s, t) : (bq_row){s, 0, s->sequence.computed + t, 0, 0};
    const uint32_t token = row.s->sequence.tokens[row.first + row.position];
    const uint32_t at = table == 1 ? row.position : token;
    n += bq_pages_claim_row(s->model->pages, table, at, &reserved, &out[n]);
  }
  return n;
}

bq_status bq_session_pages(bq_session *s, bq_page *out, size_t capacity, size_t *n) {
  bq_pages *p = s->model->pages;
  *n = 0;
  if (!p) return BQ_OK;
  for (uint32_t table = 0; table < BQ_PAGE_TABLES; table++)
    if (p->tables[table].entries) *n += claim_rows(s, table, out + *n, capacity - *n);
  if (!p->n_units) return BQ_OK;
  const uint32_t first = next_unit(s);
  if (first == BQ_NO_UNIT) return BQ_OK;
  const uint32_t next = unit_from(s, first + 1);
  if (*n < capacity) *n += bq_pages_claim(p, first, next, true, &out[*n]);
  if (*n < capacity && next != first) *n += bq_pages_claim(p, next, first, false, &out[*n]);
  return BQ_OK;
}

/* --- work units ---------------------------------------------------------------------------------
 */

static bq_status embedding_row(const bq_model *m, uint32_t table, const bq_matrix *matrix,
                               uint32_t row, float *y, bq_error *err) {
  bq_matrix part = *matrix;
  uint32_t at = row;
  if (m->pages && m->pages->tables[table].entries &&
      !bq_pages_row(m->pages, table, matrix, row, &part, &at))
    return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "row %u of the embedding has to be read", row);
  part.ops->row(&part, at, y);
  return BQ_OK;
}

bq_status bq_paged_embedding(bq_session *s, uint32_t token, uint32_t position, float *wte,
                             float *wpe, float *layer_embeds, bq_error *err) {
  const bq_model *m = s->model;
  bq_status status = embedding_row(m, 0, &m->wte, token, wte, err);
  if (!status && wpe) status = embedding_row(m, 1, &m->wpe, position, wpe, err);
  if (!status && layer_embeds)
    status = embedding_row(m, 2, &m->layer_embeds, token, layer_embeds, err);
  return status;
}

bq_status bq_paged_layer(const bq_session *s, bq_error *err) {
  const bq_pages *p = s->model->pages;
  uint32_t unit = p ? bq_pages_unit_of(p, s->batch.layer) : BQ_NO_UNIT;
  if (unit == BQ_NO_UNIT || bq_pages_unit_data(p, unit)) return BQ_OK;
  return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "layer %u has to be read", s->batch.layer);
}

bq_status bq_paged_head(const bq_session *s, bq_matrix *part, uint32_t *row0, bq_error *err) {
  const bq_pages *p = s->model->pages;
  uint32_t unit = p ? bq_pages_unit_of(p, s->model->config.layers) : BQ_NO_UNIT;
  *part = s->model->head;
  *row0 = 0;
  if (unit == BQ_NO_UNIT) return BQ_OK;
  unit += s->batch.head_unit;
  const uint8_t *data = bq_pages_unit_data(p, unit);
  if (!data)
    return bq_fail(err, BQ_WANT_DATA, BQ_NO_OFFSET, "part %u of the head has to be read",
                   s->batch.head_unit);
  part->data = data;
  part->rows = p->units[unit].rows;
  *row0 = p->units[unit].row0;
  return BQ_OK;
}
