#include "session/spread.h"

#include "session/batch.h"
#include "session/forward.h"
#include "session/head.h"
#include "session/linear.h"

/* The micro-batch of the current work unit: of a layer, or of the head. */
static bq_micro_batch spread_batch(const bq_session *s, uint32_t tokens) {
  if (s->batch.layer == s->model->config.layers) return bq_head_batch(s, &s->model->head, 0);
  return bq_layer_batch(s, tokens);
}

static const bq_phases *spread_phases(const bq_micro_batch *j) {
  return j->head ? bq_head_phases(j, 0, 1) : bq_layer_phases(j, j->s->batch.layer, 1);
}

/* Returns the matmuls of the current phase if they are to be spread; false otherwise. Matmuls with
 * float weights are few and not spread. */
static bool spread_linear(const bq_micro_batch *j, const bq_layer_run *p, bq_linear *l) {
  const bq_session *s = j->s;
  const uint32_t part = spread_phases(j)->list[s->batch.phase];
  if ((part & BQ_PREPARE) || j->tokens < s->options.spread) return false;
  if (j->head) *l = bq_head_linear(j, 0);
  else if (p->w->kind->steps[part].op != BQ_OP_MATMUL) return false;
  else *l = bq_linear_of(p, &p->w->kind->steps[part], 0);
  for (size_t i = 0; i < l->n; i++)
    if (!l->list[i].w->ops->quantized) return false;
  return true;
}

static bq_layer_run spread_layer(const bq_micro_batch *j) {
  const bq_session *s = j->s;
  return (bq_layer_run){j, s, j->head ? NULL : &s->model->layers[s->batch.layer], s->batch.layer};
}

bool bq_spread_run(bq_session *s, uint32_t tokens) {
  const bq_micro_batch j = spread_batch(s, tokens);
  const bq_layer_run p = spread_layer(&j);
  const bq_phases *parts = spread_phases(&j);
  for (; s->batch.phase < parts->n; s->batch.phase++) {
    const uint32_t part = parts->list[s->batch.phase];
    bq_linear l;
    bq_stage stage;
    if (!spread_linear(&j, &p, &l)) {
      stage = (j.head ? bq_head_phase : bq_layer_phase)(&j, s->batch.layer, part, 0, 1);
    } else if (s->batch.spread == BQ_SPREAD_DONE) {
      bq_linear_epilogue(&p, &l);
      stage = l.stage;
    } else {
      (void)bq_linear_input(&p, &l);
      s->batch.spread = BQ_SPREAD_WANTED;
      return false;
    }
    s->batch.spread = BQ_SPREAD_NONE;
    bq_mark(s, stage, s->batch.layer);
  }
  s->batch.phase = 0;
  return true;
}

/* First row of part `part` of `parts` of a matrix: row groups in equal shares. */
static size_t first_row_of_part(const bq_matrix *w, uint32_t part, uint32_t parts) {
  const size_t row = bq_row_groups(w) * part / parts * BQ_TILE_ROWS;
  return row < w->rows ? row : w->rows;
}

static bool spread_part(const bq_session *s, uint32_t tokens, uint32_t part, uint32_t parts,
                        bq_spread *out) {
  const bq_micro_batch j = spread_batch(s, tokens);
  const bq_layer_run p = spread_layer(&j);
  bq_linear l;
  if (!spread_linear(&j, &p, &l)) return false;
  const bool i16 = s->options.activations == BQ_ACTIVATIONS_I16;
  const size_t rows = j.tokens * (i16 ? 2u : 1u);
  const bq_kernels *k = s->model->kernels;
  *out = (bq_spread){.n = (uint32_t)l.n, .tokens = j.tokens, .cols = (uint32_t)l.cols,
                     .activations = s->options.activations, .panel = s->scratch.panel,
                     .panel_bytes = k->panel_bytes(l.cols, rows)};
  for (size_t i = 0; i < l.n; i++) {
    const bq_matrix *w = l.list[i].w;
    const size_t row0 = first_row_of_part(w, part, parts),
                 row1 = first_row_of_part(w, part + 1, parts);
    const bq_layout layout = bq_type_compute_layout(w->type);
    const uint64_t from = bq_type_bytes(w->type, layout, row0, w->cols);
    out->list[i] = (bq_spread_rows){
        .weights = w->data + from,
        .bytes = (size_t)(bq_type_bytes(w->type, layout, row1, w->cols) - from),
        .type = w->type, .rows = (uint32_t)(row1 - row0),
        .y = l.list[i].y + row0, .stride = (uint32_t)l.list[i].stride};
  }
  return true;
}

static bool spread_wanted(const bq_session *s) {
  return BQ_CAN_SPREAD && s->part.owner == s && s->batch.spread == BQ_SPREAD_WANTED;
}

bool bq_session_spread(const bq_session *s, uint32_t part, uint32_t parts, bq_spread *out) {
  return spread_wanted(s) && part < parts &&
         spread_part(s, bq_micro_batch_rows(s), part, parts, out);
}

void bq_session_spread_done(bq_session *s) {
  if (spread_wanted(s)) s->batch.spread = BQ_SPREAD_DONE;
}
