#include "model/program.h"

_Static_assert(BQ_MODULES < 64, "bq_layer_kind.modules has a bit for each");

uint32_t bq_buffer_cols(const bq_config *c, bq_buffer buffer) {
  switch (buffer) {
  case BQ_BUFFER_Q:
  case BQ_BUFFER_MIX: return c->heads * c->head_dim;
  case BQ_BUFFER_K:
  case BQ_BUFFER_V: return c->kv_heads * c->head_dim;
  case BQ_BUFFER_GATE: return c->gated ? c->ffn : 0;
  case BQ_BUFFER_UP: return c->ffn;
  default: return c->hidden;
  }
}

static const bq_step qkv = {.op = BQ_OP_LINEAR, .stage = BQ_STAGE_QKV, .in = BQ_BUFFER_X,
                            .norm = BQ_LN1, .n = 3, .module = {BQ_Q, BQ_K, BQ_V},
                            .out = {BQ_BUFFER_Q, BQ_BUFFER_K, BQ_BUFFER_V}};
static const bq_step store = {.op = BQ_OP_STORE, .stage = BQ_STAGE_KV, .norm = BQ_NO_MODULE};
static const bq_step attend = {.op = BQ_OP_ATTEND, .stage = BQ_STAGE_ATTEND, .norm = BQ_NO_MODULE};
static const bq_step mix_out = {.op = BQ_OP_LINEAR, .stage = BQ_STAGE_O, .in = BQ_BUFFER_MIX,
                                .norm = BQ_NO_MODULE, .then = BQ_THEN_ADD, .n = 1,
                                .module = {BQ_O}, .out = {BQ_BUFFER_OUT}};
static const bq_step mlp_in = {.op = BQ_OP_LINEAR, .stage = BQ_STAGE_MLP_IN, .in = BQ_BUFFER_X,
                               .norm = BQ_LN2, .then = BQ_THEN_ACTIVATE, .n = 1,
                               .module = {BQ_UP}, .out = {BQ_BUFFER_UP}};
static const bq_step gated_in = {.op = BQ_OP_LINEAR, .stage = BQ_STAGE_MLP_IN, .in = BQ_BUFFER_X,
                                 .norm = BQ_LN2, .then = BQ_THEN_ACTIVATE, .n = 2,
                                 .module = {BQ_GATE, BQ_UP},
                                 .out = {BQ_BUFFER_GATE, BQ_BUFFER_UP}};
static const bq_step down = {.op = BQ_OP_LINEAR, .stage = BQ_STAGE_DOWN, .in = BQ_BUFFER_UP,
                             .norm = BQ_NO_MODULE, .then = BQ_THEN_ADD, .n = 1,
                             .module = {BQ_DOWN}, .out = {BQ_BUFFER_OUT}};

static void add(bq_layer_kind *k, bq_step step) {
  const uint8_t i = k->n++;
  k->steps[i] = step;
  if (step.norm != BQ_NO_MODULE) k->modules |= UINT64_C(1) << step.norm;
  for (uint32_t m = 0; m < step.n; m++) k->modules |= UINT64_C(1) << step.module[m];
  k->alone.list[k->alone.n++] = i;
  if (step.op == BQ_OP_LINEAR) k->batch.list[k->batch.n++] = BQ_PREPARE | i;
  k->batch.list[k->batch.n++] = i;
}

void bq_layer_kind_make(const bq_config *c, bq_layer_kind *out) {
  *out = (bq_layer_kind){0};
  add(out, qkv);
  add(out, store);
  add(out, attend);
  add(out, mix_out);
  add(out, c->gated ? gated_in : mlp_in);
  bq_step last = down;
  if (c->gated) last.in = BQ_BUFFER_GATE;
  add(out, last);
}
