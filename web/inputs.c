/* Looks at what goes into products between the parts of a layer, by the session's trace: an input
 * is then still where its product has read it. */
#include "inputs.h"

#include <string.h>

#include "model/model.h"
#include "quant/drift.h"
#include "quant/moments.h"
#include "session/session.h"

enum { WATCHED = 256 };

typedef struct watched {
  uint32_t layer;
  uint8_t stage;
  bqw_watch want; /* rows: from the next token on */
  const bq_step *step;
} watched;

static struct {
  const bq_session *s;
  watched list[WATCHED];
  size_t n;
} inputs;

static const float *input_of(const bq_session *s, const bq_step *step) {
  if (step->norm != BQ_NO_MODULE) return s->scratch.norm;
  if (step->in != BQ_BUFFER_X) return s->scratch.buffer[step->in];
  return s->x + (size_t)s->batch_at * s->model->config.hidden;
}

/* At the end of a layer thread 0 has moved on before its last mark: rows are those of then. */
static uint32_t rows_of(const bq_session *s, uint32_t layer) {
  const uint32_t most = s->options.batch;
  if (s->layer == layer) return s->rows - s->batch_at < most ? s->rows - s->batch_at : most;
  return (s->rows - 1) % most + 1;
}

static void look(bqw_watch *w, const float *x, uint32_t cols, uint32_t tokens) {
  if (w->moments) bq_moments_add(w->moments, cols, x, tokens);
  if (!w->rows) return;
  if (w->drift) bq_drift_add(w->drift, cols, w->rows, x, tokens);
  else memcpy(w->rows, x, (size_t)tokens * cols * sizeof *x);
  w->rows += (size_t)tokens * cols;
}

static void mark(void *ctx, bq_stage stage, uint32_t layer) {
  const bq_session *s = inputs.s;
  (void)ctx;
  for (size_t i = 0; i < inputs.n; i++) {
    watched *w = &inputs.list[i];
    if (w->layer != layer || w->stage != stage) continue;
    const uint32_t cols = bq_buffer_cols(&s->model->config, (bq_buffer)w->step->in);
    look(&w->want, input_of(s, w->step), cols, rows_of(s, layer));
  }
}

/* The step whose product it is; NULL: none, or its marks are those of others, too (experts). */
static const bq_step *step_of(const bq_layer_kind *kind, uint32_t module) {
  const bq_step *found = NULL;
  for (uint32_t i = 0; i < kind->n; i++)
    for (uint32_t m = 0; m < kind->steps[i].n; m++)
      if (kind->steps[i].op == BQ_OP_LINEAR && kind->steps[i].module[m] == module)
        found = &kind->steps[i];
  for (uint32_t i = 0; found && i < kind->n; i++)
    if (&kind->steps[i] != found && kind->steps[i].op != BQ_OP_STORE &&
        kind->steps[i].stage == found->stage && kind->steps[i].n > 0)
      return NULL;
  return found;
}

uint32_t bqw_inputs_add(bq_session *s, uint32_t layer, uint32_t module, bqw_watch watch) {
  if (layer >= s->model->config.layers || inputs.n == WATCHED) return 0;
  const bq_step *step = step_of(s->model->layers[layer].kind, module);
  if (!step) return 0;
  if (watch.moments || watch.rows) {
    inputs.s = s;
    inputs.list[inputs.n++] = (watched){layer, step->stage, watch, step};
    s->options.trace = (bq_trace){NULL, mark};
  }
  return bq_buffer_cols(&s->model->config, (bq_buffer)step->in);
}

void bqw_inputs_stop(bq_session *s) {
  s->options.trace = (bq_trace){0};
  inputs.n = 0;
}

/* Opens the pass of a timeline of which nothing is computed: a slice does, which nobody watches. */
static bq_status open_pass(bq_session *s, bq_error *err) {
  const bq_trace trace = s->options.trace;
  s->options.trace = (bq_trace){0};
  const bq_status status = bq_session_run(s, 1, err);
  s->options.trace = trace;
  return status;
}

/* Of a layer as far as the product of `module`. */
static bq_status run_layer(bq_session *s, uint32_t layer, uint32_t module, uint32_t slices,
                           bq_error *err) {
  const bq_layer_kind **kind = &s->model->layers[layer].kind, *whole = *kind;
  const bq_step *last = module < BQ_MODULES ? step_of(whole, module) : NULL;
  bq_layer_kind part = *whole;
  if (last) part.n = (uint32_t)(last - whole->steps) + 1;
  *kind = &part;
  const bq_status status = bq_session_run(s, slices, err);
  *kind = whole;
  return status;
}

bq_status bqw_inputs_layer(bq_session *s, uint32_t layer, uint32_t module, float *x,
                           bq_error *err) {
  const uint32_t layers = s->model->config.layers, batch = s->options.batch;
  if (layer > layers || s->n_texts || !s->n_tokens || s->n_tokens > s->options.window)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "layer %u of %u, over %u tokens in windows of %u", layer, layers, s->n_tokens,
                   s->options.window);
  bq_pass_drop(s);
  s->computed = 0;
  s->has_results = false;
  bq_status status = open_pass(s, err);
  if (status != BQ_OK && status != BQ_MORE) return status;
  const uint32_t rows = s->n_tokens, slices = (rows + batch - 1) / batch;
  const size_t bytes = (size_t)rows * s->model->config.hidden * sizeof *x;
  if (layer == layers) {
    s->embedded = 0;
    status = bq_forward_embed(s, err);
  } else {
    memcpy(s->x, x, bytes);
    s->layer = layer;
    s->batch_at = 0;
    status = run_layer(s, layer, module, slices, err);
  }
  if (status == BQ_OK || status == BQ_MORE) memcpy(x, s->x, bytes), status = BQ_OK;
  bq_pass_drop(s);
  return status;
}

const bq_matrix *bqw_inputs_matrix(const bq_session *s, uint32_t layer, uint32_t module) {
  const bq_model *m = s->model;
  if (layer == m->config.layers) return module == 0 ? &m->wte : module == 1 ? &m->head : NULL;
  if (layer > m->config.layers || module >= BQ_MODULES) return NULL;
  return &m->layers[layer].module[module].w;
}
