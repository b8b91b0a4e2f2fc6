#include "session/adapter.h"

#include "session/sequence.h"

/* The module of each entry of bq_adapted. */
static const uint8_t module_of[BQ_ADAPTED_COUNT] = {BQ_Q,    BQ_K,  BQ_V,   BQ_O,
                                                    BQ_GATE, BQ_UP, BQ_DOWN};

const bq_lora *bq_lora_of(const bq_session *s, uint32_t layer, uint32_t module) {
  for (size_t i = 0; i < BQ_ADAPTED_COUNT; i++) {
    const bq_lora *lora = s->lora.matrices + (size_t)layer * BQ_ADAPTED_COUNT + i;
    if (module_of[i] == module) return lora->rank ? lora : NULL;
  }
  return NULL;
}

/* Maximum number of floats of A x in one step of a layer; UINT64_MAX if the adapter changes a
 * matrix that the layer lacks. */
static uint64_t floats_of(const bq_layer_kind *kind, const bq_lora *parts) {
  uint64_t max_floats = 0, total = 0, found = 0;
  for (size_t i = 0; i < BQ_ADAPTED_COUNT; i++) total += parts[i].rank;
  for (uint32_t n = 0; n < kind->n; n++) {
    const bq_layer_step *step = &kind->steps[n];
    uint64_t floats = 0;
    for (uint32_t m = 0; step->op == BQ_OP_MATMUL && m < step->n; m++)
      for (size_t i = 0; i < BQ_ADAPTED_COUNT; i++)
        if (step->module[m] == module_of[i]) floats += parts[i].rank;
    found += floats;
    if (floats > max_floats) max_floats = floats;
  }
  return found == total ? max_floats : UINT64_MAX;
}

bq_status bq_session_set_adapter(bq_session *s, const bq_lora *parts, uint64_t key,
                                 bq_error *err) {
  const bq_model *m = s->model;
  const size_t threads = s->options.parallel.threads;
  const uint64_t rows = threads > s->options.batch ? threads : s->options.batch;
  uint64_t stride = 0;
  for (uint32_t i = 0; parts && i < m->config.layers; i++) {
    const uint64_t floats = floats_of(m->layers[i].kind, parts + (size_t)i * BQ_ADAPTED_COUNT);
    if (floats == UINT64_MAX)
      return bq_fail(err, BQ_SHAPE, BQ_NO_OFFSET,
                     "the adapter changes a product that layer %u does not have", i);
    if (floats > stride) stride = floats;
  }
  bq_arena arena = {0};
  bq_arena_take(&arena, rows * stride, sizeof(float));
  /* The block's contents are only used within a work unit, so a block that is large enough is
   * reused. */
  float *down = stride > 0 && stride <= s->lora.stride ? s->lora.down : NULL;
  if (stride > 0 && !down && !arena.overflow)
    down = s->allocator.alloc(s->allocator.ctx, arena.used);
  if (stride > 0 && !down)
    return bq_fail(err, BQ_NO_SESSION, BQ_NO_OFFSET,
                   "a session with this adapter needs %l bytes more, for which there is no room",
                   rows * stride * sizeof(float));
  if (down != s->lora.down) s->allocator.free(s->allocator.ctx, s->lora.down);
  s->lora.down = down;
  s->lora.stride = (size_t)stride;
  s->lora.matrices = stride > 0 ? parts : NULL;
  bq_session_set_key(s, key);
  return BQ_OK;
}

void bq_lora_down(const bq_session *s, const bq_lora *lora, const float *x, size_t cols,
                  size_t tokens, float *down) {
  const bq_matrix a = {(const uint8_t *)lora->a, lora->rank, (uint32_t)cols, BQ_TYPE_F32,
                       &s->model->kernels->matrix[BQ_TYPE_F32]};
  const bq_batch batch = {x, cols, NULL, tokens};
  a.ops->matmul(&a, &batch, 0, lora->rank, down, s->lora.stride);
  for (size_t t = 0; t < tokens; t++)
    for (size_t i = 0; i < lora->rank; i++) down[t * s->lora.stride + i] *= lora->scale;
}

void bq_lora_up(const bq_session *s, const bq_lora *lora, const float *down, size_t row0,
                size_t row1, float *y) {
  enum { ROWS = 64 };
  float change[ROWS];
  const bq_batch batch = {down, lora->rank, NULL, 1};
  for (size_t n; row0 < row1; row0 += n, y += n) {
    n = row1 - row0 < ROWS ? row1 - row0 : ROWS;
    const bq_matrix b = {(const uint8_t *)(lora->b + row0 * lora->rank), (uint32_t)n, lora->rank,
                         BQ_TYPE_F32, &s->model->kernels->matrix[BQ_TYPE_F32]};
    b.ops->matmul(&b, &batch, 0, n, change, n);
    s->model->kernels->add(y, change, n);
  }
}
