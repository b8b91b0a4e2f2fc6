#include "model/program.h"

#include "core/assert.h"
#include "core/minmax.h"

_Static_assert(BQ_MODULES < 64, "bq_layer_kind.modules has a bit for each");
_Static_assert(BQ_STEPS_MAX <= BQ_PASS, "the number of a step lies below its pass");

/* Columns of a buffer in local or global layers. `stores`: whether the layer has keys and values of
 * its own. */
static uint32_t cols_of(const bq_config *c, bq_buffer buffer, bool global, bool stores) {
  const uint32_t values = c->state_value_heads * c->state_value_dim;
  const uint32_t dim = bq_config_head_dim(c, global);
  const uint32_t ffn = !stores && c->shared_kv_ffn ? c->shared_kv_ffn : c->ffn;
  switch (buffer) {
  case BQ_BUFFER_EMBEDDED: return c->layer_embed ? c->hidden : 0;
  case BQ_BUFFER_LAYER_EMBEDS: return bq_config_layer_embeds(c);
  case BQ_BUFFER_EMBED_IN:
  case BQ_BUFFER_EMBED_GATE: return c->layer_embed;
  case BQ_BUFFER_Q:
  case BQ_BUFFER_MIX: return c->heads * dim;
  case BQ_BUFFER_K:
  case BQ_BUFFER_V: return bq_config_kv_heads(c, global) * dim;
  /* A model with experts may have layers with one MLP. */
  case BQ_BUFFER_GATE: return c->gated ? ffn : 0;
  case BQ_BUFFER_UP: return ffn;
  case BQ_BUFFER_CONV_IN: return c->conv_size && !values ? 3 * c->hidden : 0;
  case BQ_BUFFER_CONV_OUT: return c->conv_size && !values ? c->hidden : 0;
  case BQ_BUFFER_GATED_Q:
    return c->attn_gate == BQ_ATTN_GATE_DIMS ? 2 * c->heads * c->head_dim : 0;
  case BQ_BUFFER_HEAD_GATES: return c->attn_gate == BQ_ATTN_GATE_HEADS ? c->heads : 0;
  case BQ_BUFFER_DELTA_QKV: return c->mamba ? 0 : bq_config_channels(c);
  case BQ_BUFFER_DELTA_Z: return c->mamba ? 0 : values;
  case BQ_BUFFER_DELTA_A:
  case BQ_BUFFER_DELTA_B: return c->mamba ? 0 : c->state_value_heads;
  case BQ_BUFFER_MAMBA_IN:
    return c->mamba ? values + bq_config_channels(c) + c->state_value_heads : 0;
  case BQ_BUFFER_STATE_OUT: return values;
  case BQ_BUFFER_ROUTE: return c->experts;
  case BQ_BUFFER_SWITCH: return c->shared_ffn && !c->shared_always ? 1 : 0;
  case BQ_BUFFER_SHARED_GATE:
  case BQ_BUFFER_SHARED_UP: return c->shared_ffn;
  case BQ_BUFFER_SHARED_OUT: return c->shared_ffn ? c->hidden : 0;
  case BQ_BUFFER_EXPERT_IN:
  case BQ_BUFFER_EXPERT_OUT: return c->experts ? c->hidden : 0;
  case BQ_BUFFER_EXPERT_GATE:
  case BQ_BUFFER_EXPERT_UP: return c->expert_ffn;
  default: return c->hidden;
  }
}

uint32_t bq_buffer_cols(const bq_config *c, bq_buffer buffer) {
  uint32_t max = cols_of(c, buffer, false, true);
  max = bq_max32(max, cols_of(c, buffer, true, true));
  return bq_max32(max, cols_of(c, buffer, true, false));
}

uint32_t bq_buffer_rows(const bq_config *c, bq_buffer buffer) {
  return buffer >= BQ_BUFFER_EXPERT_IN ? c->experts_used : 1;
}

static void add_step(bq_phases *phases, uint8_t step, bool prepares) {
  if (prepares) phases->list[phases->n++] = BQ_PREPARE | step;
  phases->list[phases->n++] = step;
}

static void add(bq_layer_kind *k, bq_layer_step step) {
  const uint8_t i = k->n++;
  k->steps[i] = step;
  if (step.norm != BQ_NO_MODULE) k->modules |= UINT64_C(1) << step.norm;
  for (uint32_t m = 0; m < step.n; m++) k->modules |= UINT64_C(1) << step.module[m];
  const bool experts = step.op == BQ_OP_EXPERTS;
  add_step(&k->one_token, i, experts);
  add_step(&k->many_tokens, i, experts || step.op == BQ_OP_MATMUL);
  if (!BQ_HAS_THREADS) return;
  if (step.op != BQ_OP_ATTEND) add_step(&k->shared_attention, i, experts);
  else
    for (uint8_t pass = BQ_ATTEND_SCORES; pass <= BQ_ATTEND_VALUES; pass++)
      add_step(&k->shared_attention, (uint8_t)(pass * BQ_PASS + i), false);
}

/* --- steps ------------------------------------------------------------------------------------ */

static bq_layer_step row_step(bq_op op, bq_buffer in, bq_module norm) {
  return (bq_layer_step){.op = op, .stage = BQ_STAGE_NORM, .in = in, .norm = norm};
}

/* Adds a product of the same input to a matmul step. */
static void add_product(bq_layer_step *step, bq_module module, bq_buffer out) {
  bq_assert(step->n < BQ_STEP_MATRICES);
  step->module[step->n] = (uint8_t)module;
  step->out[step->n++] = (uint8_t)out;
}

static bq_layer_step qkv(const bq_config *c, const bq_layer_kind *k, bq_module norm) {
  const bool gated = c->attn_gate == BQ_ATTN_GATE_DIMS;
  bq_layer_step step = {.op = BQ_OP_MATMUL, .stage = BQ_STAGE_QKV, .in = BQ_BUFFER_X, .norm = norm,
                        .n = !k->stores ? 1 : k->keys_as_values ? 2 : 3,
                        .module = {BQ_Q, BQ_K, BQ_V},
                        .out = {gated ? BQ_BUFFER_GATED_Q : BQ_BUFFER_Q, BQ_BUFFER_K,
                                BQ_BUFFER_V}};
  if (c->attn_gate == BQ_ATTN_GATE_HEADS) add_product(&step, BQ_ATTN_GATE, BQ_BUFFER_HEAD_GATES);
  return step;
}

static bq_layer_step store(const bq_config *c, const bq_layer_kind *k) {
  const bool normed = c->qk_norm != BQ_QK_PLAIN && c->qk_norm != BQ_QK_ROWS;
  return (bq_layer_step){.op = BQ_OP_STORE, .stage = BQ_STAGE_KV, .norm = BQ_NO_MODULE,
                         .n = !normed ? 0 : k->stores ? 2 : 1,
                         .module = {BQ_Q_NORM, BQ_K_NORM}};
}

/* Adds a matmul of `in` whose output is added to the residual: by its epilogue or, if the output is
 * normed first, in a step of its own. */
static void add_residual(const bq_config *c, bq_layer_kind *k, bq_stage stage, bq_buffer in,
                         bq_module norm, bq_module module, bq_module post) {
  const bool normed = c->norm_place == BQ_NORM_POST_BRANCH || c->norm_place == BQ_NORM_SANDWICH;
  add(k, (bq_layer_step){.op = BQ_OP_MATMUL,
                         .stage = stage,
                         .in = in,
                         .norm = norm,
                         .epilogue = normed ? BQ_EPILOGUE_NONE : BQ_EPILOGUE_ADD,
                         .n = 1,
                         .module = {module},
                         .out = {BQ_BUFFER_OUT}});
  if (normed) add(k, row_step(BQ_OP_ADD, BQ_BUFFER_OUT, post));
  if (c->norm_place == BQ_NORM_POST) add(k, row_step(BQ_OP_NORM, BQ_BUFFER_X, post));
}

/* The buffer with the result of the activation: `gate`, that of the gate, or the one after it in
 * models without gates. The same holds for modules. */
static bq_buffer activation_buffer(const bq_config *c, bq_buffer gate) { return gate + !c->gated; }

/* The products before the activation. */
static bq_layer_step gate_and_up(const bq_config *c, bq_op op, bq_module norm, bq_module gate,
                                 bq_buffer out) {
  const uint8_t module = (uint8_t)(gate + !c->gated), buffer = (uint8_t)activation_buffer(c, out);
  return (bq_layer_step){.op = op, .stage = BQ_STAGE_MLP_IN, .in = BQ_BUFFER_X, .norm = norm,
                         .epilogue = BQ_EPILOGUE_ACTIVATE, .n = 1 + c->gated,
                         .module = {module, module + 1}, .out = {buffer, buffer + 1}};
}

static bq_layer_step mlp_in(const bq_config *c, bq_module norm) {
  return gate_and_up(c, BQ_OP_MATMUL, norm, BQ_GATE, BQ_BUFFER_GATE);
}

static bq_layer_step matmul_step(bq_op op, bq_stage stage, bq_buffer in, bq_module module,
                                 bq_buffer out) {
  return (bq_layer_step){.op = op, .stage = stage, .in = in, .norm = BQ_NO_MODULE, .n = 1,
                         .module = {module}, .out = {out}};
}

/* The products of experts or of the shared expert. The modules and buffers of gate, up and down are
 * consecutive. */
static void add_products(const bq_config *c, bq_layer_kind *k, bq_op op, bq_module norm,
                         bq_module gate, bq_buffer out) {
  add(k, gate_and_up(c, op, norm, gate, out));
  add(k, matmul_step(op, BQ_STAGE_DOWN, activation_buffer(c, out), gate + 2, out + 2));
}

/* The steps of a mixture of experts, and of the shared expert if there is one. */
static void add_experts(const bq_config *c, bq_layer_kind *k, bq_module norm) {
  const bool normed = c->norm_place == BQ_NORM_POST_BRANCH || c->norm_place == BQ_NORM_SANDWICH;
  bq_layer_step router =
      matmul_step(BQ_OP_MATMUL, BQ_STAGE_MLP_IN, BQ_BUFFER_X, BQ_ROUTER, BQ_BUFFER_ROUTE);
  router.norm = norm;
  if (c->shared_ffn && !c->shared_always)
    add_product(&router, BQ_SHARED_SWITCH, BQ_BUFFER_SWITCH);
  add(k, router);
  add(k, (bq_layer_step){.op = BQ_OP_ROUTE, .stage = BQ_STAGE_MLP_IN, .norm = BQ_NO_MODULE});
  add_products(c, k, BQ_OP_EXPERTS, norm, BQ_EXPERT_GATE, BQ_BUFFER_EXPERT_GATE);
  if (c->shared_ffn) add_products(c, k, BQ_OP_MATMUL, norm, BQ_SHARED_GATE, BQ_BUFFER_SHARED_GATE);
  add(k, (bq_layer_step){.op = BQ_OP_COMBINE, .stage = BQ_STAGE_DOWN, .norm = BQ_NO_MODULE,
                         .epilogue = normed ? BQ_EPILOGUE_NONE : BQ_EPILOGUE_ADD});
  if (normed) add(k, row_step(BQ_OP_ADD, BQ_BUFFER_OUT, BQ_LN2_POST));
  if (c->norm_place == BQ_NORM_POST) add(k, row_step(BQ_OP_NORM, BQ_BUFFER_X, BQ_LN2_POST));
}

/* --- kinds ------------------------------------------------------------------------------------ */

enum { LOCAL = 1, UNROTATED = 2, DENSE = 4, RECURS = 8, UNNORMED = 16, SHARES = 32 };

uint32_t bq_rope_tables(const bq_config *c) {
  if (c->position != BQ_POSITION_ROPE) return 0;
  return c->local_theta > 0 ? 2 : 1;
}

uint32_t bq_layer_kind_of(const bq_config *c, uint32_t layer) {
  const bool rotated = c->position == BQ_POSITION_ROPE && bq_config_rotated(c, layer);
  return (bq_config_window(c, layer) ? LOCAL : 0) | (rotated ? 0 : UNROTATED) |
         (bq_config_dense(c, layer) ? DENSE : 0) |
         (bq_config_recurs(c, layer) ? RECURS : 0) |
         (bq_config_shares(c, layer) ? SHARES : 0) |
         (c->first_unnormed && layer == 0 ? UNNORMED : 0);
}

uint64_t bq_layer_kinds_of(const bq_config *c) {
  uint64_t set = 0;
  for (uint32_t i = 0; i < c->layers; i++) set |= UINT64_C(1) << bq_layer_kind_of(c, i);
  return set;
}

uint32_t bq_layer_kinds_below(uint64_t set, uint32_t kind) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < kind; i++) n += (uint32_t)(set >> i & 1);
  return n;
}

/* LFM2: a matmul for gates and input, a convolution over positions for each channel, and a matmul
 * of the gated result. */
static void add_convolution(const bq_config *c, bq_layer_kind *k, bq_module norm) {
  bq_layer_step in = matmul_step(BQ_OP_MATMUL, BQ_STAGE_QKV, BQ_BUFFER_X, BQ_CONV_IN,
                                 BQ_BUFFER_CONV_IN);
  in.norm = norm;
  add(k, in);
  add(k, (bq_layer_step){.op = BQ_OP_CONVOLVE, .stage = BQ_STAGE_ATTEND, .norm = BQ_NO_MODULE,
                         .n = 1, .module = {BQ_CONV_TAPS}});
  add_residual(c, k, BQ_STAGE_O, BQ_BUFFER_CONV_OUT, BQ_NO_MODULE, BQ_CONV_OUT, BQ_LN1_POST);
}

/* Qwen3.5: a matmul step for all inputs, the recurrence of each head, and a matmul of the
 * result. */
static void add_delta(const bq_config *c, bq_layer_kind *k, bq_module norm) {
  add(k, (bq_layer_step){.op = BQ_OP_MATMUL, .stage = BQ_STAGE_QKV, .in = BQ_BUFFER_X,
                         .norm = norm, .n = 4,
                         .module = {BQ_DELTA_QKV, BQ_DELTA_Z, BQ_DELTA_A, BQ_DELTA_B},
                         .out = {BQ_BUFFER_DELTA_QKV, BQ_BUFFER_DELTA_Z, BQ_BUFFER_DELTA_A,
                                 BQ_BUFFER_DELTA_B}});
  add(k, (bq_layer_step){.op = BQ_OP_DELTA, .stage = BQ_STAGE_ATTEND, .norm = BQ_NO_MODULE, .n = 4,
                         .module = {BQ_DELTA_TAPS, BQ_DELTA_DT, BQ_DELTA_DECAY, BQ_DELTA_NORM}});
  add_residual(c, k, BQ_STAGE_O, BQ_BUFFER_STATE_OUT, BQ_NO_MODULE, BQ_DELTA_OUT, BQ_LN1_POST);
}

/* The steps between Mamba-2's matmuls: the convolutions of its channels, the recurrence of each
 * head, the norm of groups of heads. */
static void add_mamba_recurrence(const bq_config *c, bq_layer_kind *k) {
  add(k, (bq_layer_step){.op = BQ_OP_MAMBA_CONVOLVE, .stage = BQ_STAGE_ATTEND,
                         .norm = BQ_NO_MODULE, .n = 2, .module = {BQ_MAMBA_TAPS, BQ_MAMBA_BIAS}});
  add(k, (bq_layer_step){.op = BQ_OP_MAMBA, .stage = BQ_STAGE_ATTEND, .norm = BQ_NO_MODULE, .n = 3,
                         .module = {BQ_MAMBA_DT, BQ_MAMBA_DECAY, BQ_MAMBA_SKIP}});
  if (c->mamba != BQ_MAMBA_GATE)
    add(k, (bq_layer_step){.op = BQ_OP_MAMBA_NORM, .stage = BQ_STAGE_ATTEND, .norm = BQ_NO_MODULE,
                           .n = 1, .module = {BQ_MAMBA_NORM}});
}

static void add_mamba_out(const bq_config *c, bq_layer_kind *k) {
  add_residual(c, k, BQ_STAGE_O, BQ_BUFFER_STATE_OUT, BQ_NO_MODULE, BQ_MAMBA_OUT, BQ_LN1_POST);
}

static void add_mamba(const bq_config *c, bq_layer_kind *k, bq_module norm) {
  bq_layer_step in = matmul_step(BQ_OP_MATMUL, BQ_STAGE_QKV, BQ_BUFFER_X, BQ_MAMBA_IN,
                                 BQ_BUFFER_MAMBA_IN);
  in.norm = norm;
  add(k, in);
  add_mamba_recurrence(c, k);
  add_mamba_out(c, k);
}

/* Adds attention. `with_mamba`: together with Mamba-2, which reads the same normed input. */
static void add_attention(const bq_config *c, bq_layer_kind *k, bq_module ln1, bq_module ln2,
                          bool with_mamba) {
  bq_layer_step in = qkv(c, k, ln1);
  if (with_mamba) add_product(&in, BQ_MAMBA_IN, BQ_BUFFER_MAMBA_IN);
  add(k, in);
  if (c->qk_norm == BQ_QK_ROWS) {
    add(k, row_step(BQ_OP_NORM, BQ_BUFFER_Q, BQ_Q_NORM));
    if (k->stores) add(k, row_step(BQ_OP_NORM, BQ_BUFFER_K, BQ_K_NORM));
  }
  add(k, store(c, k));
  add(k, (bq_layer_step){.op = BQ_OP_ATTEND, .stage = BQ_STAGE_ATTEND, .norm = BQ_NO_MODULE,
                         .n = c->attn_sinks, .module = {BQ_ATTN_SINKS}});
  if (c->attn_gate)
    add(k, (bq_layer_step){.op = BQ_OP_GATE, .stage = BQ_STAGE_ATTEND, .norm = BQ_NO_MODULE});
  /* A parallel MLP reads X before attention's output is added to it. */
  if (c->block != BQ_BLOCK_SEQUENTIAL) add(k, mlp_in(c, ln2));
  if (with_mamba) add_mamba_recurrence(c, k);
  add_residual(c, k, BQ_STAGE_O, BQ_BUFFER_MIX,
               c->sub_norms ? BQ_O_NORM : BQ_NO_MODULE, BQ_O, BQ_LN1_POST);
  if (with_mamba) add_mamba_out(c, k);
}

/* Gemma 4: a vector for the token and this layer, computed from the embedding and perhaps a table.
 * It is multiplied by gates, which are computed from the residual, then projected, normed and added
 * to the residual. */
static void add_layer_embedding(bq_layer_kind *k) {
  add(k, matmul_step(BQ_OP_MATMUL, BQ_STAGE_MLP_IN, BQ_BUFFER_EMBEDDED, BQ_EMBED_PROJECT,
                     BQ_BUFFER_EMBED_IN));
  add(k, matmul_step(BQ_OP_MATMUL, BQ_STAGE_MLP_IN, BQ_BUFFER_X, BQ_EMBED_GATE,
                     BQ_BUFFER_EMBED_GATE));
  add(k, (bq_layer_step){.op = BQ_OP_EMBED, .stage = BQ_STAGE_ACTIVATE, .norm = BQ_NO_MODULE});
  add(k, matmul_step(BQ_OP_MATMUL, BQ_STAGE_DOWN, BQ_BUFFER_EMBED_GATE, BQ_EMBED_OUT,
                     BQ_BUFFER_OUT));
  add(k, row_step(BQ_OP_ADD, BQ_BUFFER_OUT, BQ_EMBED_POST));
}

/* Extends the last step, which adds to the residual, so that it also scales it. */
static void scale_layer(bq_layer_kind *k) {
  bq_layer_step *step = &k->steps[k->n - 1];
  step->module[step->n++] = BQ_LAYER_SCALE;
  k->modules |= UINT64_C(1) << BQ_LAYER_SCALE;
}

void bq_layer_kind_make(const bq_config *c, uint32_t kind, bq_layer_kind *out) {
  const bool pre_norm = c->norm_place == BQ_NORM_PRE || c->norm_place == BQ_NORM_SANDWICH;
  const bq_module ln1 = pre_norm && !(kind & UNNORMED) ? BQ_LN1 : BQ_NO_MODULE;
  const bq_module ln2 = !pre_norm ? BQ_NO_MODULE : c->block == BQ_BLOCK_SHARED ? ln1 : BQ_LN2;
  const bool global = !(kind & LOCAL), stores = !(kind & SHARES);
  const uint32_t table = !global && c->local_theta > 0;
  *out = (bq_layer_kind){.window = global ? 0 : c->window,
                         .rope = kind & UNROTATED ? BQ_NO_ROPE : table,
                         .head_dim = bq_config_head_dim(c, global),
                         .kv_heads = bq_config_kv_heads(c, global),
                         .rope_dim = bq_config_rope_dim(c, table),
                         .stores = stores,
                         .keys_as_values = global && c->keys_as_values};
  for (uint32_t i = 0; i < BQ_BUFFERS; i++)
    out->cols[i] = cols_of(c, (bq_buffer)i, global, stores);
  if (!(kind & RECURS) || c->attn_beside) add_attention(c, out, ln1, ln2, kind & RECURS);
  else if (c->mamba) add_mamba(c, out, ln1);
  else if (c->state_value_heads) add_delta(c, out, ln1);
  else add_convolution(c, out, ln1);
  if (!(kind & DENSE)) {
    add_experts(c, out, ln2);
    return;
  }
  if (!c->ffn) return;
  if (c->block == BQ_BLOCK_SEQUENTIAL) add(out, mlp_in(c, ln2));
  add_residual(c, out, BQ_STAGE_DOWN, activation_buffer(c, BQ_BUFFER_GATE),
               c->sub_norms ? BQ_DOWN_NORM : BQ_NO_MODULE, BQ_DOWN, BQ_LN2_POST);
  if (c->layer_embed) add_layer_embedding(out);
  if (c->layer_scale) scale_layer(out);
}
