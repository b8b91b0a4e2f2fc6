/* The converter's functions (convert.h). They are in modules of their own, which a page loads only
 * when it converts a model. */
#include "api.h"
#include "convert.h"
#include "layers.h"
#include "threads.h"

#include "quant/encode.h"
#include "core/dequantize.h"
#include "kernels/encoders.h"
#include "quant/drift.h"
#include "quant/moments.h"
#include "quant/round.h"

BQW(uint32_t)
bqw_encode(uint32_t type, uint32_t layout, const float *src, uint32_t rows, uint32_t cols,
           uint8_t *dst, bqw_encode_errors *errors) {
  if (!bqw_knows_type(type, layout)) return BQ_ARGUMENT;
  bq_error err = {0};
  bq_encode_errors e = {0};
  const bq_status status = bq_encode((bq_type)type, (bq_layout)layout, src, rows, cols,
                                     bq_encoder_best(), dst, errors ? &e : NULL, &err);
  if (errors && !status) {
    errors->sum += e.sum;
    errors->squares += e.squares;
    errors->most = e.max > errors->most ? e.max : errors->most;
  }
  return bqw_report(status, &err);
}

BQW(uint32_t)
bqw_dequantize(uint32_t type, uint32_t layout, const uint8_t *src, uint32_t rows, uint32_t cols,
               float *dst) {
  if (!bqw_knows_type(type, layout)) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_dequantize((bq_type)type, (bq_layout)layout, src, rows, cols, dst, &err),
                    &err);
}

/* --- rounding by calibration ------------------------------------------------------------------ */

BQW(uint32_t)
bqw_layer_cut(uint32_t session, uint32_t layer, uint32_t module, uint32_t *out) {
  const bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  const bqw_cut cut = bqw_layer_cut_of(s, layer, module);
  out[0] = cut.step, out[1] = cut.cols, out[2] = cut.carried;
  return bqw_report(BQ_OK, NULL);
}

BQW(uint32_t)
bqw_layer_part(uint32_t session, uint32_t layer, uint32_t from, uint32_t to, const float *before,
               float *after, float *input) {
  bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bqw_layer_run_part(s, layer, from, to, before, after, input, &err), &err);
}

BQW(uint32_t) bqw_layer_page(uint32_t session, uint32_t layer, bqw_page *out) {
  const bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  bq_page page;
  *out = (bqw_page){0};
  if (bqw_layer_claim(s, layer, &page)) *out = bqw_page_of(&page);
  return bqw_report(BQ_OK, NULL);
}

/* Arguments of bqw_inputs_add, for its threads. */
typedef struct inputs {
  float *moments, *drift;
  const float *x, *original;
  uint32_t cols, tokens;
} inputs;

static void add_inputs(void *arg, size_t thread, size_t threads) {
  const inputs *in = arg;
  bq_moments_add(in->moments, in->cols, in->x, in->tokens, thread, threads);
  if (in->drift)
    bq_drift_add(in->drift, in->cols, in->original, in->x, in->tokens, thread, threads);
}

BQW(void)
bqw_inputs_add(float *moments, float *drift, uint32_t cols, const float *x, const float *original,
               uint32_t tokens) {
  const bq_parallel parallel = bqw_parallel();
  parallel.run(parallel.ctx, add_inputs, &(inputs){moments, drift, x, original, cols, tokens});
}

BQW(uint32_t) bqw_weights(uint32_t session, uint32_t layer, uint32_t module, uint32_t *out) {
  const bq_session *s = bqw_session_of(session);
  if (!s) return BQ_ARGUMENT;
  const bq_matrix *w = bqw_layer_matrix(s, layer, module);
  bq_error err = {0};
  if (!w || !w->data || !bq_type_is_float(w->type))
    return bqw_report(bq_fail(&err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "there are no such floats"),
                      &err);
  out[0] = (uint32_t)(uintptr_t)w->data;
  out[1] = w->type;
  return bqw_report(BQ_OK, NULL);
}

BQW(uint32_t)
bqw_moments_end(float *moments, uint32_t cols, float share, double *work, float *feedback) {
  bq_error err = {0};
  bq_status status = bq_moments_end(moments, cols, share, &err);
  if (!status && feedback) status = bq_feedback_factor(moments, cols, work, feedback, &err);
  return bqw_report(status, &err);
}

BQW(double) bqw_drift_floats(uint32_t cols) { return (double)bq_drift_floats(cols); }

BQW(void)
bqw_drift_make_good(float *w, uint32_t rows, uint32_t cols, const float *drift,
                    const float *feedback, float *work) {
  bq_drift_correct(w, rows, cols, drift, feedback, work);
}

/* Number of floats that a bq_rounded takes: integers take a byte per weight, scales and minimums a
 * float per block. */
static size_t rounded_floats(uint32_t block, size_t rows, size_t cols) {
  return (rows * cols + 3) / 4 + 2 * rows * ((cols + block - 1) / block);
}

BQW(double) bqw_round_floats(uint32_t type, uint32_t rows, uint32_t cols) {
  if (!bqw_knows_type(type, BQ_ROWS)) return -1;
  return (double)(bq_round_floats(cols) + rounded_floats(bq_type_get(type)->block, rows, cols));
}

static void add_difference(const bq_type_facts *f, const float *w, const bq_rounded *rounded,
                           size_t rows, size_t cols, bqw_round_errors *errors) {
  const size_t blocks = (cols + f->block - 1) / f->block;
  for (size_t r = 0; r < rows; r++)
    for (size_t i = 0; i < cols; i++) {
      const size_t b = r * blocks + i / f->block;
      const float v = (float)rounded->q[r * cols + i] * rounded->scale[b] + rounded->min[b];
      const double error = (double)w[r * cols + i] - (double)v, size = error < 0 ? -error : error;
      errors->sum += size;
      errors->squares += error * error;
      errors->max = size > errors->max ? size : errors->max;
    }
}

BQW(uint32_t)
bqw_round(uint32_t type, uint32_t layout, const float *src, uint32_t rows, uint32_t cols,
          const float *moments, const float *feedback, uint32_t sweeps, float *work, uint8_t *dst,
          bqw_round_errors *errors) {
  if (!bqw_knows_type(type, layout)) return BQ_ARGUMENT;
  const bq_type_facts *f = bq_type_get(type);
  const size_t blocks = (size_t)rows * ((cols + f->block - 1) / f->block);
  bq_error err = {0};
  bq_round_errors e = {0};
  float *at = work + bq_round_floats(cols);
  bq_rounded rounded = {.scale = at, .min = at + blocks, .q = (int8_t *)(at + 2 * blocks)};
  bq_status status = bq_round((bq_type)type, src, rows, cols,
                              &(bq_round_by){moments, feedback, sweeps}, work, &rounded, &e, &err);
  if (!status)
    status = bq_encode_rounded((bq_type)type, (bq_layout)layout, &rounded, rows, cols, dst, &err);
  if (!status) {
    errors->error += e.error;
    errors->of += e.of;
    add_difference(f, src, &rounded, rows, cols, errors);
  }
  return bqw_report(status, &err);
}
