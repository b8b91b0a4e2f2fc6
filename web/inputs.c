/* Looks at what goes into products between the parts of a layer, by the session's trace: an input
 * is then still where its product has read it. */
#include "inputs.h"

#include "model/model.h"
#include "quant/moments.h"
#include "session/session.h"

enum { WATCHED = 256 };

typedef struct watched {
  uint32_t layer;
  uint8_t stage;
  float *moments;
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

static void mark(void *ctx, bq_stage stage, uint32_t layer) {
  const bq_session *s = inputs.s;
  (void)ctx;
  for (size_t i = 0; i < inputs.n; i++) {
    const watched *w = &inputs.list[i];
    if (w->layer != layer || w->stage != stage) continue;
    const uint32_t cols = bq_buffer_cols(&s->model->config, (bq_buffer)w->step->in);
    bq_moments_add(w->moments, cols, input_of(s, w->step), rows_of(s, layer));
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

uint32_t bqw_inputs_add(bq_session *s, uint32_t layer, uint32_t module, float *moments) {
  if (layer >= s->model->config.layers || inputs.n == WATCHED) return 0;
  const bq_step *step = step_of(s->model->layers[layer].kind, module);
  if (!step) return 0;
  if (moments) {
    inputs.s = s;
    inputs.list[inputs.n++] = (watched){layer, step->stage, moments, step};
    s->options.trace = (bq_trace){NULL, mark};
  }
  return bq_buffer_cols(&s->model->config, (bq_buffer)step->in);
}

void bqw_inputs_stop(bq_session *s) {
  s->options.trace = (bq_trace){0};
  inputs.n = 0;
}

const bq_matrix *bqw_inputs_matrix(const bq_session *s, uint32_t layer, uint32_t module) {
  const bq_model *m = s->model;
  if (layer == m->config.layers) return module == 0 ? &m->wte : module == 1 ? &m->head : NULL;
  if (layer > m->config.layers || module >= BQ_MODULES) return NULL;
  return &m->layers[layer].module[module].w;
}
