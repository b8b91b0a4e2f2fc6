/* The MATMUL step of a layer: one to BQ_STEP_MATRICES matmuls with the same input, an optional norm
 * before them, and an epilogue: scale, bias, LoRA, then activation or residual. The head uses it
 * too. */
#ifndef BQ_LINEAR_H
#define BQ_LINEAR_H

#include "session/micro_batch.h"

/* One matmul: y [tokens][rows] = input * w^T * scale + bias. */
typedef struct bq_product {
  const bq_matrix *w;
  const float *scale, *bias; /* [rows] or NULL */
  float *y;          /* [tokens][stride] */
  size_t stride;     /* floats from one token to the next, of which w->rows are written */
  const bq_lora *lora; /* NULL: not adapted */
  float *lora_down;        /* [tokens][s->lora.stride]: A x of the adapter */
} bq_product;

/* The matmuls of a step, which share their input x [tokens][cols]. */
typedef struct bq_linear {
  size_t thread; /* the thread that computes its share of them */
  const float *x;
  size_t cols;
  bool normed; /* the input is normed first */
  const float *norm_w, *norm_b;
  bq_product list[BQ_STEP_MATRICES];
  size_t n;
  float *residual; /* [tokens][rows]: list[0] is added to it; or NULL */
  float scale;     /* factor of list[0] before it is added to the residual */
  bool activate;   /* list[0] = act(list[0]) * list[1] */
  bool logits;     /* list[0] is scaled and capped as logits */
  bq_stage stage;
} bq_linear;

static inline size_t bq_row_groups(const bq_matrix *w) {
  return ((size_t)w->rows + BQ_TILE_ROWS - 1) / BQ_TILE_ROWS;
}
/* The matmuls of a step, as computed by `thread`. */
bq_linear bq_linear_of(const bq_layer_run *p, const bq_layer_step *step, size_t thread);
/* Computes a thread's share of the norm and quantization of the input of several tokens. */
void bq_linear_prepare(const bq_micro_batch *j, const bq_linear *l, size_t thread, size_t threads);
/* Returns the prepared input. For one token, each thread prepares it here for itself. */
bq_batch bq_linear_input(const bq_layer_run *at, const bq_linear *l);
/* Computes a thread's share of the matmuls and their epilogue. Returns the stage that ends with it.
 */
bq_stage bq_linear_multiply(const bq_layer_run *at, const bq_linear *l, size_t thread,
                            size_t threads);
/* Computes the epilogue for all rows; the products must be in place. */
void bq_linear_epilogue(const bq_layer_run *p, const bq_linear *l);

#endif
