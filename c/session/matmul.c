#include "session/matmul.h"

#include <string.h>

#include "core/fmath.h"

enum {
  ROWS = 192,                    /* weight rows that are multiplied at once: a multiple of the rows
                                    that kernels compute at once */
  MIN_TOKENS = 4,                /* for fewer tokens, more rows are multiplied at once, for longer
                                    streams of weights */
  TOKENS = BQ_PANEL_TOKENS / 2u, /* tokens that are quantized at once: their rows are a complete
                                    part of a panel */
  BLOCK = 32                     /* activations that share a scale */
};

/* Number of floats of intermediate results for `tokens` tokens: the products of both panel rows of
 * each. */
static uint64_t products_at_once(uint64_t tokens) {
  return 2 * ROWS * (tokens < MIN_TOKENS ? MIN_TOKENS : tokens);
}

static size_t rows_at_once(size_t tokens) {
  return tokens ? (size_t)(products_at_once(tokens) / (2 * tokens)) : ROWS;
}

uint64_t bq_matmul_scratch(const bq_session_options *o, uint64_t widest) {
  if (o->activations == BQ_ACTIVATIONS_I8) return 0;
  const uint64_t split = BQ_PANEL_TOKENS * widest, products = products_at_once(o->batch);
  return split > products ? split : products;
}

static float *scratch_of(const bq_session *s, size_t thread) {
  return s->scratch.matmul + thread * s->scratch.matmul_floats;
}

/* Computes the residual of the 8-bit quantization of n activations with one scale, for the second
 * panel row of i16 activations. */
static void quantization_residual(const float *x, size_t n, float *residual) {
  const float magic = 0x1.8p23f; /* adding and subtracting it rounds to integers */
  float max = 0;
  for (size_t i = 0; i < n; i++) {
    const float size = bq_float_of(bq_bits_of(x[i]) & 0x7fffffffu);
    max = max < size ? size : max;
  }
  const bool zeros = !(max >= 0x1p-100f);
  const float scale = zeros ? 0 : max / 127.0f, inv = zeros ? 0 : 127.0f / max;
  for (size_t i = 0; i < n; i++) {
    const float v = x[i] * inv, q = (v + magic) - magic;
    residual[i] = x[i] - q * scale;
  }
}

void bq_matmul_quantize(const bq_session *s, const float *x, size_t cols, size_t from, size_t to,
                        size_t thread, uint8_t *panel) {
  const bq_kernels *k = s->model->kernels;
  if (s->options.activations == BQ_ACTIVATIONS_I8) {
    k->quantize(x + from * cols, cols, cols, to - from, panel + k->panel_bytes(cols, from));
    return;
  }
  float *rows = scratch_of(s, thread);
  for (size_t t = from, n; t < to; t += n) {
    n = to - t < TOKENS ? to - t : TOKENS;
    for (size_t i = 0; i < n; i++) {
      const float *token = x + (t + i) * cols;
      float *copy = rows + 2 * i * cols, *residual = copy + cols;
      memcpy(copy, token, cols * sizeof *copy);
      for (size_t at = 0; at < cols; at += BLOCK)
        quantization_residual(token + at, cols - at < BLOCK ? cols - at : BLOCK, residual + at);
    }
    k->quantize(rows, cols, cols, 2 * n, panel + k->panel_bytes(cols, 2 * t));
  }
}

static void multiply_i16(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1,
                         float *products, float *y, size_t y_stride) {
  const bq_batch parts = {a->x, a->x_stride, a->panel, 2 * a->tokens};
  const bq_layout layout = bq_type_compute_layout(w->type);
  const size_t max_rows = rows_at_once(a->tokens);
  for (size_t row = row0, n; row < row1; row += n) {
    n = row1 - row < max_rows ? row1 - row : max_rows;
    const bq_matrix part = {w->data + bq_type_bytes(w->type, layout, row, w->cols), (uint32_t)n,
                            w->cols, w->type, w->ops};
    w->ops->matmul(&part, &parts, 0, n, products, max_rows);
    for (size_t t = 0; t < a->tokens; t++) {
      const float *high = products + 2 * t * max_rows, *low = high + max_rows;
      for (size_t r = 0; r < n; r++) y[t * y_stride + row + r] = high[r] + low[r];
    }
  }
}

void bq_matmul(const bq_session *s, const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1,
               size_t thread, float *y, size_t y_stride) {
  bq_assert(row0 % BQ_TILE_ROWS == 0 && row0 < row1 && row1 <= w->rows);
  bq_assert(row1 % BQ_TILE_ROWS == 0 || row1 == w->rows);
  if (s->options.activations == BQ_ACTIVATIONS_I8 || !w->ops->quantized)
    w->ops->matmul(w, a, row0, row1, y, y_stride);
  else
    multiply_i16(w, a, row0, row1, scratch_of(s, thread), y, y_stride);
}

size_t bq_spread_scratch(const bq_spread *work) {
  return work->activations == BQ_ACTIVATIONS_I8 ? 0 : (size_t)products_at_once(work->tokens);
}

void bq_spread_multiply(const bq_kernels *k, const bq_spread *work, float *scratch) {
  const bq_batch batch = {NULL, work->cols, work->panel, work->tokens};
  for (uint32_t i = 0; i < work->n; i++) {
    const bq_spread_rows *p = &work->list[i];
    const bq_matrix w = {p->weights, p->rows, work->cols, p->type, &k->matrix[p->type]};
    if (work->activations == BQ_ACTIVATIONS_I8)
      w.ops->matmul(&w, &batch, 0, p->rows, p->y, p->stride);
    else
      multiply_i16(&w, &batch, 0, p->rows, scratch, p->y, p->stride);
  }
}
