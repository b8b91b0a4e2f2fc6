#include "layers.h"

#include <string.h>

#include "model/model.h"
#include "model/pages.h"
#include "session/batch.h"
#include "session/embed.h"
#include "session/forward.h"
#include "session/page.h"
#include "session/session.h"

/* --- cuts ------------------------------------------------------------------------------------- */

/* Buffers that a later step may read. Keys and values of the KV cache stay in the session. */
static const uint8_t CARRIED[] = {BQ_BUFFER_X,        BQ_BUFFER_MIX,      BQ_BUFFER_GATE,
                                  BQ_BUFFER_UP,       BQ_BUFFER_CONV_IN,  BQ_BUFFER_CONV_OUT,
                                  BQ_BUFFER_STATE_OUT};
enum { BUFFERS = sizeof CARRIED };

static bool step_writes(const bq_layer_step *step, uint8_t buffer) {
  if (step->op == BQ_OP_ATTEND) return buffer == BQ_BUFFER_MIX;
  if (step->op == BQ_OP_CONVOLVE) return buffer == BQ_BUFFER_CONV_OUT;
  if (step->op == BQ_OP_DELTA || step->op == BQ_OP_MAMBA) return buffer == BQ_BUFFER_STATE_OUT;
  for (uint32_t i = 0; i < step->n && step->op == BQ_OP_MATMUL; i++)
    if (step->out[i] == buffer) return true;
  return false;
}

/* Whether a step from `cut` on reads the value that a buffer has there. */
static bool is_carried(const bq_layer_kind *kind, uint32_t cut, uint8_t buffer) {
  if (buffer == BQ_BUFFER_X) return true;
  for (uint32_t i = cut; i < kind->n; i++) {
    if (kind->steps[i].op == BQ_OP_MATMUL && kind->steps[i].in == buffer) return true;
    if (kind->steps[i].op == BQ_OP_CONVOLVE && buffer == BQ_BUFFER_CONV_IN) return true;
    if (step_writes(&kind->steps[i], buffer)) return false;
  }
  return false;
}

static uint32_t carried_floats(const bq_layer_kind *kind, uint32_t cut) {
  uint32_t floats = 0;
  for (uint32_t i = 0; i < BUFFERS; i++)
    if (is_carried(kind, cut, CARRIED[i]))
      floats += kind->cols[CARRIED[i]];
  return floats;
}

/* The step with a module's matmul; the number of steps if there is none. */
static uint32_t step_of(const bq_layer_kind *kind, uint32_t module) {
  for (uint32_t i = 0; i < kind->n; i++)
    for (uint32_t m = 0; m < kind->steps[i].n && kind->steps[i].op == BQ_OP_MATMUL; m++)
      if (kind->steps[i].module[m] == module) return i;
  return kind->n;
}

bqw_cut bqw_layer_cut_of(const bq_session *s, uint32_t layer, uint32_t module) {
  const bq_config *c = &s->model->config;
  if (layer >= c->layers) return (bqw_cut){0, 0, c->hidden};
  const bq_layer_kind *kind = s->model->layers[layer].kind;
  const uint32_t step = step_of(kind, module);
  const uint32_t cols = step < kind->n ? kind->cols[kind->steps[step].in] : 0;
  return (bqw_cut){step, cols, carried_floats(kind, step)};
}

/* --- parts ------------------------------------------------------------------------------------ */

/* The phases of a layer's program between two cuts, including the preparation of the input at `to`.
 */
static bq_layer_kind part_of(const bq_layer_kind *kind, uint32_t from, uint32_t to) {
  bq_layer_kind part = *kind;
  part.many_tokens.n = 0;
  for (uint32_t i = 0; i < kind->many_tokens.n; i++) {
    const uint8_t step = kind->many_tokens.list[i] & (uint8_t)~BQ_PREPARE;
    if (step < from || step > to || (step == to && !(kind->many_tokens.list[i] & BQ_PREPARE)))
      continue;
    part.many_tokens.list[part.many_tokens.n++] = kind->many_tokens.list[i];
  }
  part.one_token = part.many_tokens;
  return part;
}

/* Opens a batch for the whole sequence, as if nothing of it had been computed. */
static bq_status open_batch(bq_session *s, bq_error *err) {
  s->sequence.computed = 0;
  s->outputs.ready = false;
  return bq_batch_open(s, NULL, 0, err);
}

/* Copies the carried floats of a micro-batch at a cut from `from` into the session's buffers or, if
 * `from` is NULL, out of them to `to`. */
static void copy_carried(const bq_session *s, const bq_layer_kind *kind, uint32_t cut,
                         uint32_t tokens, float *to, const float *from) {
  for (uint32_t i = 0; i < BUFFERS; i++) {
    const bq_buffer buffer = (bq_buffer)CARRIED[i];
    const uint32_t cols = kind->cols[buffer];
    const uint32_t stride = carried_floats(kind, cut);
    float *own = buffer == BQ_BUFFER_X ? s->batch.x + (size_t)s->batch.row * cols
                                       : s->scratch.buffer[buffer];
    if (!is_carried(kind, cut, CARRIED[i])) continue;
    for (size_t t = 0; t < tokens; t++) {
      if (from) memcpy(own + t * cols, from + t * stride, cols * sizeof *own);
      else memcpy(to + t * stride, own + t * cols, cols * sizeof *own);
    }
    if (from) from += cols;
    else to += cols;
  }
}

static const float *input_of(const bq_session *s, const bq_layer_step *step) {
  if (step->norm != BQ_NO_MODULE) return s->scratch.norm;
  if (step->in != BQ_BUFFER_X) return s->scratch.buffer[step->in];
  return s->batch.x + (size_t)s->batch.row * s->model->config.hidden;
}

static void run_batches(bq_session *s, const bq_layer_kind *kind, uint32_t from, uint32_t to,
                        const float *before, float *after, float *input) {
  const uint32_t rows = s->batch.rows, batch = s->options.batch;
  const size_t in = carried_floats(kind, from), out = carried_floats(kind, to);
  const bq_layer_step *last = to < kind->n ? &kind->steps[to] : NULL;
  const size_t cols = last ? kind->cols[last->in] : 0;
  for (uint32_t at = 0; at < rows; at += batch) {
    const uint32_t n = rows - at < batch ? rows - at : batch;
    s->batch.row = at;
    copy_carried(s, kind, from, n, NULL, before + at * in);
    bq_forward_layers(s, n, NULL);
    copy_carried(s, kind, to, n, after + at * out, NULL);
    if (input && last) memcpy(input + at * cols, input_of(s, last), n * cols * sizeof *input);
  }
}

static bool is_cut(const bq_layer_kind *kind, uint32_t step) {
  return step == 0 || step == kind->n || (step < kind->n && kind->steps[step].op == BQ_OP_MATMUL);
}

static bq_status check_part(const bq_session *s, uint32_t layer, uint32_t from, uint32_t to,
                            bq_error *err) {
  const uint32_t layers = s->model->config.layers;
  if (layer > layers || s->sequence.n_texts || !s->sequence.n_tokens ||
      s->sequence.n_tokens > s->options.prefill_window)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "layer %u of %u, over %u tokens in windows of %u", layer, layers,
                   s->sequence.n_tokens, s->options.prefill_window);
  /* Layers of these models need other data of earlier layers than the residual. */
  const bq_config *c = &s->model->config;
  if (c->shared_kv || c->layer_embed || c->sub_norms)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET,
                   "layers with shared keys and values, per-layer embeddings or sub_norms are not "
                   "computed one by one: quantize this model without calibration");
  const bq_layer_kind *kind = layer < layers ? s->model->layers[layer].kind : NULL;
  if (kind && (from > to || !is_cut(kind, from) || !is_cut(kind, to)))
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "a layer has no part from step %u to %u", from,
                   to);
  return BQ_OK;
}

/* Computes the embedding. WANT_DATA leaves the batch open: the next call continues. */
static bq_status run_embedding(bq_session *s, float *after, bq_error *err) {
  bq_status status = s->part.owner == s ? BQ_OK : open_batch(s, err);
  if (!status) status = bq_forward_embed(s, err);
  if (status) return status;
  memcpy(after, s->batch.x, (size_t)s->batch.rows * s->model->config.hidden * sizeof *after);
  bq_batch_drop(s);
  return BQ_OK;
}

bq_status bqw_layer_run_part(bq_session *s, uint32_t layer, uint32_t from, uint32_t to,
                             const float *before, float *after, float *input, bq_error *err) {
  bq_status status = check_part(s, layer, from, to, err);
  if (!status && layer == s->model->config.layers) return run_embedding(s, after, err);
  if (!status) status = open_batch(s, err);
  if (status) return status;
  s->batch.layer = layer;
  status = bq_paged_layer(s, err);
  if (!status) {
    const bq_layer_kind **kind = &s->model->layers[layer].kind, *whole = *kind;
    const bq_layer_kind part = part_of(whole, from, to);
    *kind = &part;
    run_batches(s, whole, from, to, before, after, input);
    *kind = whole;
  }
  bq_batch_drop(s);
  return status;
}

bool bqw_layer_claim(const bq_session *s, uint32_t layer, bq_page *out) {
  bq_pages *p = s->model->pages;
  const uint32_t unit =
      p && layer < s->model->config.layers ? bq_pages_unit_of(p, layer) : BQ_NO_UNIT;
  return unit != BQ_NO_UNIT && bq_pages_claim(p, unit, BQ_NO_UNIT, true, out);
}

/* --- weights ---------------------------------------------------------------------------------- */

const bq_matrix *bqw_layer_matrix(const bq_session *s, uint32_t layer, uint32_t module) {
  const bq_model *m = s->model;
  if (layer == m->config.layers) return module == 0 ? &m->wte : module == 1 ? &m->head : NULL;
  if (layer > m->config.layers || module >= BQ_MODULES) return NULL;
  return &m->layers[layer].module[module].w;
}
