#include "model/bind.h"

#include <stddef.h>
#include <string.h>

/* Dimensions of tensors; size_of returns their values. */
typedef enum size_name {
  NONE, HIDDEN, QUERY, KV, FFN, VOCAB, CONTEXT, TYPES, Q_NORM, K_NORM, ANGLES,
  EXPERTS, EXPERT_FFN, SHARED_FFN, ONE, CONV_IN, CONV_TAPS,
  GATED_QUERY, HEADS, CHANNELS, VALUES, VALUE_HEADS, CHANNEL_TAPS, VALUE_DIM, MAMBA_IN,
  DENSE1, DENSE2, DENSE2_IN, BIASES, GLOBAL_ANGLES, LAYER_EMBED, LAYER_EMBEDS
} size_name;

/* The condition for a tensor outside the layers to exist. Tensors of a layer exist if a step of the
 * layer uses them. */
typedef enum presence {
  ALWAYS,
  HEAD_BIAS,
  LAYER_NORM,
  LEARNED,
  UNTIED,
  TYPED,
  EMBED_NORM,
  EMBED_NORM_BIAS,
  ROPE,
  LOCAL_ROPE,
  LONG_ROPE,
  FINAL_NORM,
  DENSE1_REQUIRED,
  DENSE1_OPTIONAL,
  DENSE2_REQUIRED,
  DENSE2_OPTIONAL,
  BIASED,
  LAYER_EMBEDDED,
  LAYER_TABLE
} presence;

typedef struct slot_facts {
  const char *name;
  size_name rows, cols; /* cols NONE: a vector */
  presence presence;
  size_t member; /* offset in bq_model */
} slot_facts;

/* A module of a layer. The name of its tensor consists of "h.N.", `name` and the suffix of a
 * role. */
typedef struct module_facts {
  const char *name;
  size_name rows, cols; /* of the weight; cols NONE: the module is a norm */
  bool stacked;         /* the matrices of all experts, one after the other */
} module_facts;

/* Indexed by bq_module, in execution order. */
static const module_facts modules[BQ_MODULES] = {
    [BQ_LN1] = {"ln1", HIDDEN, NONE, false},
    [BQ_Q] = {"attn.q", GATED_QUERY, HIDDEN, false},
    [BQ_K] = {"attn.k", KV, HIDDEN, false},
    [BQ_V] = {"attn.v", KV, HIDDEN, false},
    [BQ_Q_NORM] = {"attn.q_norm", Q_NORM, NONE, false},
    [BQ_K_NORM] = {"attn.k_norm", K_NORM, NONE, false},
    [BQ_O] = {"attn.o", HIDDEN, QUERY, false},
    [BQ_LN1_POST] = {"ln1_post", HIDDEN, NONE, false},
    [BQ_LN2] = {"ln2", HIDDEN, NONE, false},
    [BQ_GATE] = {"mlp.gate", FFN, HIDDEN, false},
    [BQ_UP] = {"mlp.up", FFN, HIDDEN, false},
    [BQ_DOWN] = {"mlp.down", HIDDEN, FFN, false},
    [BQ_ROUTER] = {"mlp.router", EXPERTS, HIDDEN, false},
    [BQ_EXPERT_GATE] = {"mlp.experts.gate", EXPERT_FFN, HIDDEN, true},
    [BQ_EXPERT_UP] = {"mlp.experts.up", EXPERT_FFN, HIDDEN, true},
    [BQ_EXPERT_DOWN] = {"mlp.experts.down", HIDDEN, EXPERT_FFN, true},
    [BQ_SHARED_SWITCH] = {"mlp.shared.switch", ONE, HIDDEN, false},
    [BQ_SHARED_GATE] = {"mlp.shared.gate", SHARED_FFN, HIDDEN, false},
    [BQ_SHARED_UP] = {"mlp.shared.up", SHARED_FFN, HIDDEN, false},
    [BQ_SHARED_DOWN] = {"mlp.shared.down", HIDDEN, SHARED_FFN, false},
    [BQ_LN2_POST] = {"ln2_post", HIDDEN, NONE, false},
    /* A part of the tensor embed.project.weight (bq_bind_finish). No tensor of a layer has this
     * name. */
    [BQ_EMBED_PROJECT] = {"embed.project", LAYER_EMBED, HIDDEN, false},
    [BQ_EMBED_GATE] = {"embed.gate", LAYER_EMBED, HIDDEN, false},
    [BQ_EMBED_OUT] = {"embed.out", HIDDEN, LAYER_EMBED, false},
    [BQ_EMBED_POST] = {"embed.post", HIDDEN, NONE, false},
    [BQ_LAYER_SCALE] = {"layer_scale", ONE, NONE, false},
    [BQ_O_NORM] = {"attn.sub_norm", QUERY, NONE, false},
    [BQ_DOWN_NORM] = {"mlp.sub_norm", FFN, NONE, false},
    [BQ_ATTN_GATE] = {"attn.gate", HEADS, HIDDEN, false},
    [BQ_ATTN_SINKS] = {"attn.sinks", HEADS, NONE, false},
    [BQ_CONV_IN] = {"conv.in", CONV_IN, HIDDEN, false},
    [BQ_CONV_TAPS] = {"conv.taps", CONV_TAPS, NONE, false},
    [BQ_CONV_OUT] = {"conv.out", HIDDEN, HIDDEN, false},
    [BQ_DELTA_QKV] = {"delta.in", CHANNELS, HIDDEN, false},
    [BQ_DELTA_Z] = {"delta.z", VALUES, HIDDEN, false},
    [BQ_DELTA_A] = {"delta.a", VALUE_HEADS, HIDDEN, false},
    [BQ_DELTA_B] = {"delta.b", VALUE_HEADS, HIDDEN, false},
    [BQ_DELTA_TAPS] = {"delta.taps", CHANNEL_TAPS, NONE, false},
    [BQ_DELTA_DT] = {"delta.dt", VALUE_HEADS, NONE, false},
    [BQ_DELTA_DECAY] = {"delta.decay", VALUE_HEADS, NONE, false},
    [BQ_DELTA_NORM] = {"delta.norm", VALUE_DIM, NONE, false},
    [BQ_DELTA_OUT] = {"delta.out", HIDDEN, VALUES, false},
    [BQ_MAMBA_IN] = {"mamba.in", MAMBA_IN, HIDDEN, false},
    [BQ_MAMBA_TAPS] = {"mamba.taps", CHANNEL_TAPS, NONE, false},
    [BQ_MAMBA_BIAS] = {"mamba.bias", CHANNELS, NONE, false},
    [BQ_MAMBA_DT] = {"mamba.dt", VALUE_HEADS, NONE, false},
    [BQ_MAMBA_DECAY] = {"mamba.decay", VALUE_HEADS, NONE, false},
    [BQ_MAMBA_SKIP] = {"mamba.skip", VALUE_HEADS, NONE, false},
    [BQ_MAMBA_NORM] = {"mamba.norm", VALUES, NONE, false},
    [BQ_MAMBA_OUT] = {"mamba.out", HIDDEN, VALUES, false},
};

#define MODEL(name, rows, cols, when, member) {name, rows, cols, when, offsetof(bq_model, member)}

/* Slots 0...21. The slots of layer i begin at BQ_MODEL_SLOTS + i * BQ_LAYER_SLOTS. */
static const slot_facts other_slots[BQ_MODEL_SLOTS] = {
    MODEL("wte.weight", VOCAB, HIDDEN, ALWAYS, wte),
    MODEL("wpe.weight", CONTEXT, HIDDEN, LEARNED, wpe),
    MODEL("wtt.weight", TYPES, HIDDEN, TYPED, wtt),
    MODEL("ln_0.weight", HIDDEN, NONE, EMBED_NORM, ln_0_w),
    MODEL("ln_0.bias", HIDDEN, NONE, EMBED_NORM_BIAS, ln_0_b),
    MODEL("rope.factors", GLOBAL_ANGLES, NONE, ROPE, rope[0]),
    MODEL("rope.local_factors", ANGLES, NONE, LOCAL_ROPE, rope[1]),
    MODEL("rope.long_factors", GLOBAL_ANGLES, NONE, LONG_ROPE, rope_long),
    MODEL("ln_f.weight", HIDDEN, NONE, FINAL_NORM, ln_f_w),
    MODEL("ln_f.bias", HIDDEN, NONE, LAYER_NORM, ln_f_b),
    MODEL("lm_head.weight", VOCAB, HIDDEN, UNTIED, head),
    MODEL("lm_head.bias", VOCAB, NONE, HEAD_BIAS, head_b),
    MODEL("pooled.dense1.weight", DENSE1, HIDDEN, DENSE1_REQUIRED, dense1.w),
    MODEL("pooled.dense1.bias", DENSE1, NONE, DENSE1_OPTIONAL, dense1.b),
    MODEL("pooled.norm.weight", DENSE1, NONE, DENSE1_OPTIONAL, dense_norm_w),
    MODEL("pooled.norm.bias", DENSE1, NONE, DENSE1_OPTIONAL, dense_norm_b),
    MODEL("pooled.dense2.weight", DENSE2, DENSE2_IN, DENSE2_REQUIRED, dense2.w),
    MODEL("pooled.dense2.bias", DENSE2, NONE, DENSE2_OPTIONAL, dense2.b),
    MODEL("attn.biases.weight", BIASES, NONE, BIASED, biases),
    MODEL("embed.layers.weight", VOCAB, LAYER_EMBEDS, LAYER_TABLE, layer_embeds),
    MODEL("embed.project.weight", LAYER_EMBEDS, HIDDEN, LAYER_EMBEDDED, embed_project),
    MODEL("embed.norm.weight", LAYER_EMBED, NONE, LAYER_EMBEDDED, embed_norm_w),
};
enum { FIRST_STAGE_SLOTS = 8 }; /* slots that are needed before the first layer */

/* The modules in one tensor of a layer: one, or several consecutive ones (fused). */
typedef struct module_run {
  const char *name; /* as in module_facts */
  bq_module first;
  uint32_t n;
} module_run;

static const module_run fused[BQ_FUSED] = {
    {"attn.qkv", BQ_Q, 3},
    {"mlp.gate_up", BQ_GATE, 2},
};

/* The role of a slot's tensor in its module. */
typedef enum role { WEIGHT, BIAS, SCALE } role;
static const char *const role_suffixes[BQ_TENSOR_ROLES] = {".weight", ".bias", ".scale"};

/* Layer and role of a slot from BQ_MODEL_SLOTS on. */
static uint32_t layer_of(uint32_t slot) { return (slot - BQ_MODEL_SLOTS) / BQ_LAYER_SLOTS; }
static role role_of(uint32_t slot) { return (role)((slot - BQ_MODEL_SLOTS) % BQ_TENSOR_ROLES); }

static module_run modules_of(uint32_t slot) {
  const uint32_t i = (slot - BQ_MODEL_SLOTS) % BQ_LAYER_SLOTS / BQ_TENSOR_ROLES;
  if (i < BQ_MODULES) return (module_run){modules[i].name, (bq_module)i, 1};
  return fused[i - BQ_MODULES];
}

/* The slot of a module in the same layer as another slot. */
static uint32_t slot_of(uint32_t other, uint32_t module, role r) {
  return BQ_MODEL_SLOTS + layer_of(other) * BQ_LAYER_SLOTS + BQ_TENSOR_ROLES * module + r;
}

bool bq_slot_stacked(uint32_t slot) {
  return slot >= BQ_MODEL_SLOTS && !role_of(slot) && modules[modules_of(slot).first].stacked;
}

/* The value of a dimension. `layer`: the layer of the tensor, or 0 outside layers. */
static uint32_t size_of(const bq_config *c, uint32_t layer, size_name name) {
  const bool global = !bq_config_window(c, layer);
  const uint32_t dim = bq_config_head_dim(c, global), kv_heads = bq_config_kv_heads(c, global);
  const bool whole = c->qk_norm == BQ_QK_ROWS || c->qk_norm == BQ_QK_EACH;
  switch (name) {
  case HIDDEN: return c->hidden;
  case QUERY: return c->heads * dim;
  case KV: return kv_heads * dim;
  case FFN: return bq_config_shares(c, layer) && c->shared_kv_ffn ? c->shared_kv_ffn : c->ffn;
  case VOCAB: return c->vocab;
  case CONTEXT: return c->context;
  case TYPES: return c->token_types;
  case Q_NORM: return whole ? c->heads * dim : dim;
  case K_NORM: return whole ? kv_heads * dim : dim;
  case ANGLES: return bq_config_rope_dim(c, 1) / 2;
  case GLOBAL_ANGLES: return bq_config_rope_dim(c, 0) / 2;
  case LAYER_EMBED: return c->layer_embed;
  case LAYER_EMBEDS: return c->layers * c->layer_embed;
  case EXPERTS: return c->experts;
  case EXPERT_FFN: return c->expert_ffn;
  case SHARED_FFN: return c->shared_ffn;
  case ONE: return 1;
  case CONV_IN: return 3 * c->hidden;
  case CONV_TAPS: return c->conv_size * c->hidden;
  case GATED_QUERY: return (c->attn_gate == BQ_ATTN_GATE_DIMS ? 2 : 1) * c->heads * dim;
  case HEADS: return c->heads;
  case CHANNELS: return bq_config_channels(c);
  case VALUES: return c->state_value_heads * c->state_value_dim;
  case VALUE_HEADS: return c->state_value_heads;
  case CHANNEL_TAPS: return c->conv_size * bq_config_channels(c);
  case VALUE_DIM: return c->state_value_dim;
  case MAMBA_IN: return bq_buffer_cols(c, BQ_BUFFER_MAMBA_IN);
  case DENSE1: return c->dense1;
  case DENSE2: return c->dense2;
  case BIASES: return c->bias_buckets * c->heads;
  case DENSE2_IN: return c->dense1 ? c->dense1 : c->hidden;
  default: return 0;
  }
}

typedef struct shape {
  uint32_t rows, cols; /* cols 0: a vector */
  uint32_t stacked;    /* number of experts; 0: an ordinary matrix of two dimensions */
} shape;

static shape shape_of(const bq_config *c, uint32_t slot) {
  if (slot < BQ_MODEL_SLOTS)
    return (shape){size_of(c, 0, other_slots[slot].rows), size_of(c, 0, other_slots[slot].cols), 0};
  const module_run run = modules_of(slot);
  const uint32_t layer = layer_of(slot);
  shape s = {0, role_of(slot) ? 0 : size_of(c, layer, modules[run.first].cols),
             bq_slot_stacked(slot) ? c->experts : 0};
  for (uint32_t i = 0; i < run.n; i++) s.rows += size_of(c, layer, modules[run.first + i].rows);
  return s;
}

static bool layer_has(const bq_binding *b, uint32_t slot) {
  const bq_config *c = b->config;
  const uint64_t layer_modules = b->modules[bq_layer_kind_of(c, layer_of(slot))];
  const module_run run = modules_of(slot);
  const bool norm = modules[run.first].cols == NONE;
  const role r = role_of(slot);
  if (norm && (r == SCALE || (r == BIAS && c->norm != BQ_NORM_LAYER))) return false;
  /* Of experts only the last product has a bias, one for all of them. */
  const role last = run.first == BQ_EXPERT_DOWN ? BIAS : WEIGHT;
  if (modules[run.first].stacked && r > last) return false;
  if (run.first == BQ_EMBED_PROJECT) return false;
  if ((run.first == BQ_LAYER_SCALE || run.first == BQ_ATTN_SINKS) && r) return false;
  for (uint32_t i = 0; i < run.n; i++)
    if (!(layer_modules >> (run.first + i) & 1)) return false;
  return true;
}

static bool may_exist(const bq_binding *b, uint32_t slot) {
  const bq_config *c = b->config;
  if (slot >= BQ_MODEL_SLOTS) return layer_has(b, slot);
  switch (other_slots[slot].presence) {
  case LAYER_NORM: return c->norm == BQ_NORM_LAYER && c->norm_place != BQ_NORM_POST;
  case FINAL_NORM: return c->norm_place != BQ_NORM_POST; /* the last layer ends with a norm */
  case TYPED: return c->token_types;
  case EMBED_NORM: return c->embed_norm;
  case EMBED_NORM_BIAS: return c->embed_norm && c->norm == BQ_NORM_LAYER;
  case ROPE: return bq_rope_tables(c) > 0;
  case LOCAL_ROPE: return bq_rope_tables(c) > 1;
  case LONG_ROPE: return bq_rope_tables(c) > 0 && c->rope_original;
  case LEARNED: return c->position == BQ_POSITION_LEARNED;
  case UNTIED: return !c->tied && !c->no_head;
  case HEAD_BIAS: return !c->no_head;
  case DENSE1_REQUIRED:
  case DENSE1_OPTIONAL: return c->dense1;
  case DENSE2_REQUIRED:
  case DENSE2_OPTIONAL: return c->dense2;
  case BIASED: return c->bias_buckets;
  case LAYER_EMBEDDED: return c->layer_embed;
  case LAYER_TABLE: return bq_config_layer_embeds(c);
  default: return true;
  }
}

static bool must_exist(const bq_binding *b, uint32_t slot) {
  if (slot >= BQ_MODEL_SLOTS)
    return !role_of(slot) && modules_of(slot).n == 1 && layer_has(b, slot);
  switch (other_slots[slot].presence) {
  case HEAD_BIAS:
  case LAYER_NORM:
  case EMBED_NORM_BIAS:
  case DENSE1_OPTIONAL:
  case DENSE2_OPTIONAL:
  case ROPE:
  case LOCAL_ROPE: return false;
  default: return may_exist(b, slot);
  }
}

/* --- names ---------------------------------------------------------------------------------- */

static bool equals(const uint8_t *name, size_t n, const char *text) {
  return n == strlen(text) && memcmp(name, text, n) == 0;
}

/* Slot of a tensor outside the layers, by its name; -1 if the name is unknown. */
static int find_other(const uint8_t *name, size_t n) {
  for (int i = 0; i < BQ_MODEL_SLOTS; i++)
    if (equals(name, n, other_slots[i].name)) return i;
  return -1;
}

/* Slot of a tensor within its layer, by its name without "h.N."; -1 if the name is unknown. */
static int find_in_layer(const uint8_t *name, size_t n) {
  for (int i = 0; i < BQ_LAYER_SLOTS; i++) {
    const char *known = modules_of(BQ_MODEL_SLOTS + (uint32_t)i).name;
    const size_t length = strlen(known);
    if (n > length && memcmp(name, known, length) == 0 &&
        equals(name + length, n - length, role_suffixes[i % BQ_TENSOR_ROLES]))
      return i;
  }
  return -1;
}

/* Reads "h.N." with N in canonical decimal, at most 9 digits. Returns its length, or 0. */
static size_t layer_prefix(const uint8_t *name, size_t n, uint32_t *layer) {
  if (n < 4 || memcmp(name, "h.", 2) != 0) return 0;
  size_t i = 2;
  uint32_t value = 0;
  while (i < n && i < 11 && name[i] >= '0' && name[i] <= '9')
    value = value * 10 + (name[i++] - '0');
  if (i == 2 || i == n || name[i] != '.' || (name[2] == '0' && i > 3)) return 0;
  *layer = value;
  return i + 1;
}

static bq_status find_slot(const bq_config *c, const bq_tensor_name *t, uint32_t *slot,
                           bq_error *err) {
  uint32_t layer = 0;
  size_t skip = layer_prefix(t->name, t->name_bytes, &layer);
  int i = skip ? find_in_layer(t->name + skip, t->name_bytes - skip)
               : find_other(t->name, t->name_bytes);
  if (i < 0)
    return bq_fail(err, BQ_FORMAT, t->at, "no model has a tensor named \"%S\"", t->name,
                   t->name_bytes);
  if (skip && layer >= c->layers)
    return bq_fail(err, BQ_SHAPE, t->at, "tensor \"%S\" belongs to a layer past the last of %u",
                   t->name, t->name_bytes, c->layers);
  *slot = skip ? BQ_MODEL_SLOTS + layer * BQ_LAYER_SLOTS + (uint32_t)i : (uint32_t)i;
  return BQ_OK;
}

/* --- checking ------------------------------------------------------------------------------- */

static bool is_taken(const bq_binding *b, uint32_t slot) {
  return b->taken[slot / 8] >> slot % 8 & 1;
}

/* Marks the slot, or for a fused tensor the slots of its modules, as taken. Returns false if one of
 * them was taken already. */
static bool take_slot(bq_binding *b, uint32_t slot) {
  const bool of_layer = slot >= BQ_MODEL_SLOTS;
  const module_run run = of_layer ? modules_of(slot) : (module_run){.n = 1};
  for (uint32_t i = 0; i < run.n; i++) {
    const uint32_t one = of_layer ? slot_of(slot, run.first + i, role_of(slot)) : slot;
    if (is_taken(b, one)) return false;
    b->taken[one / 8] |= (uint8_t)(1u << one % 8);
  }
  return true;
}

static bq_status check_shape(shape s, const bq_tensor_name *t, bq_error *err) {
  const uint32_t rows = s.rows, cols = s.cols;
  if (s.stacked) {
    if (t->ndims == 3 && t->dims[0] == s.stacked && t->dims[1] == rows && t->dims[2] == cols)
      return BQ_OK;
    return bq_fail(err, BQ_SHAPE, t->at,
                   "tensor \"%S\" is not (%u, %u, %u), as the configuration says", t->name,
                   t->name_bytes, s.stacked, rows, cols);
  }
  if (t->ndims == (cols ? 2u : 1u) && t->dims[0] == rows && (!cols || t->dims[1] == cols))
    return BQ_OK;
  if (t->ndims > 2)
    return bq_fail(err, BQ_SHAPE, t->at, "tensor \"%S\" has %u dimensions", t->name, t->name_bytes,
                   t->ndims);
  return bq_fail(err, BQ_SHAPE, t->at,
                 cols ? "tensor \"%S\" is (%u, %u), not (%u, %u) as the configuration says"
                      : "tensor \"%S\" is (%u, %u), not (%u) as the configuration says",
                 t->name, t->name_bytes, t->dims[0], t->ndims == 2 ? t->dims[1] : 1, rows, cols);
}

void bq_bind_begin(bq_binding *out, const bq_config *config) {
  *out = (bq_binding){.config = config};
  for (uint32_t i = 0; i < BQ_KINDS; i++) {
    bq_layer_kind kind;
    bq_layer_kind_make(config, i, &kind);
    out->modules[i] = kind.modules;
  }
}

bq_status bq_bind(bq_binding *b, const bq_tensor_name *t, uint32_t *slot, bq_error *err) {
  uint32_t found = 0;
  bq_status status = find_slot(b->config, t, &found, err);
  if (status) return status;
  if (!may_exist(b, found))
    return bq_fail(err, BQ_SHAPE, t->at, "a model of this configuration has no tensor \"%S\"",
                   t->name, t->name_bytes);
  if (!take_slot(b, found))
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" appears twice", t->name, t->name_bytes);
  status = check_shape(shape_of(b->config, found), t, err);
  if (status) return status;
  *slot = found;
  return BQ_OK;
}

bq_status bq_bind_complete(const bq_binding *b, uint64_t at, bq_error *err) {
  const uint32_t n = bq_slots_of(b->config);
  for (uint32_t slot = 0; slot < n; slot++) {
    if (is_taken(b, slot) || !must_exist(b, slot)) continue;
    if (slot < BQ_MODEL_SLOTS)
      return bq_fail(err, BQ_SHAPE, at, "tensor \"%s\" is missing", other_slots[slot].name);
    return bq_fail(err, BQ_SHAPE, at, "tensor \"h.%u.%s.weight\" is missing", layer_of(slot),
                   modules_of(slot).name);
  }
  return BQ_OK;
}

/* --- filling -------------------------------------------------------------------------------- */

uint32_t bq_slots_of(const bq_config *c) { return BQ_MODEL_SLOTS + c->layers * BQ_LAYER_SLOTS; }

uint32_t bq_slot_stage(const bq_config *c, uint32_t slot) {
  if (slot >= BQ_MODEL_SLOTS) return 1 + layer_of(slot);
  return slot < FIRST_STAGE_SLOTS || slot >= BQ_SLOT_BIASES ? 0 : 1 + c->layers;
}

bool bq_slot_is_key_bias(uint32_t slot) {
  if (slot < BQ_MODEL_SLOTS || role_of(slot) != BIAS) return false;
  const module_run run = modules_of(slot);
  return run.first <= BQ_K && BQ_K < run.first + run.n;
}

bool bq_slot_is_vector(uint32_t slot) {
  if (slot < BQ_MODEL_SLOTS) return other_slots[slot].cols == NONE;
  return role_of(slot) || modules[modules_of(slot).first].cols == NONE;
}

bool bq_slot_fits(const bq_config *c, uint32_t slot, bq_type type) {
  if (slot < BQ_MODEL_SLOTS || role_of(slot)) return true;
  const module_run run = modules_of(slot);
  if (bq_type_compute_layout(type) != BQ_TILED) return true;
  const uint32_t layer = layer_of(slot);
  if (bq_slot_stacked(slot)) return size_of(c, layer, modules[run.first].rows) % BQ_TILE_ROWS == 0;
  for (uint32_t i = 0; i + 1 < run.n; i++)
    if (size_of(c, layer, modules[run.first + i].rows) % BQ_TILE_ROWS) return false;
  return true;
}

uint32_t bq_slot_matrices(uint32_t slot) {
  return slot < BQ_MODEL_SLOTS ? 1 : modules_of(slot).n;
}

/* The field of the model that points to a vector outside the layers. */
static const float **vector_of(bq_model *model, uint32_t slot) {
  return (const float **)(void *)((uint8_t *)model + other_slots[slot].member);
}

/* Number of rows of the slot's tensor before those of its module `i`. */
static uint32_t rows_before(const bq_config *c, uint32_t slot, uint32_t i) {
  uint32_t rows = 0;
  for (uint32_t m = 0; m < i; m++)
    rows += size_of(c, layer_of(slot), modules[modules_of(slot).first + m].rows);
  return rows;
}

bq_matrix *bq_slot_matrix(bq_model *model, uint32_t slot, uint32_t i, uint32_t *row0) {
  *row0 = 0;
  if (slot < BQ_MODEL_SLOTS)
    return (bq_matrix *)(void *)((uint8_t *)model + other_slots[slot].member);
  *row0 = rows_before(&model->config, slot, i);
  return &model->layers[layer_of(slot)].module[modules_of(slot).first + i].w;
}

/* Sets the weights of module `i` of a slot to its part of the tensor. */
static void fill_module(bq_model *model, uint32_t slot, uint32_t i, const bq_matrix *tensor) {
  const bq_config *c = &model->config;
  const module_run run = modules_of(slot);
  bq_weights *out = &model->layers[layer_of(slot)].module[run.first + i];
  const uint32_t row0 = rows_before(c, slot, i);
  if (role_of(slot)) {
    const float *vector = (const float *)(const void *)tensor->data + row0;
    *(role_of(slot) == BIAS ? &out->b : &out->scale) = vector;
    return;
  }
  out->w = *tensor;
  if (run.n == 1) return;
  out->w.rows = size_of(c, layer_of(slot), modules[run.first + i].rows);
  if (tensor->data)
    out->w.data += (size_t)bq_type_bytes(
        tensor->type, bq_type_compute_layout(tensor->type), row0, tensor->cols);
}

void bq_slot_fill(bq_model *model, uint32_t slot, const bq_matrix *weights) {
  uint32_t row0;
  if (slot >= BQ_MODEL_SLOTS)
    for (uint32_t i = 0; i < modules_of(slot).n; i++) fill_module(model, slot, i, weights);
  else if (bq_slot_is_vector(slot))
    *vector_of(model, slot) = (const float *)(const void *)weights->data;
  else *bq_slot_matrix(model, slot, 0, &row0) = *weights;
}

void bq_bind_finish(bq_model *model) {
  const bq_config *c = &model->config;
  if (c->tied) model->head = model->wte;
  for (uint32_t i = 0; c->layer_embed && i < c->layers; i++) {
    const bq_matrix *all = &model->embed_project;
    bq_matrix *own = &model->layers[i].module[BQ_EMBED_PROJECT].w;
    *own = *all;
    own->rows = c->layer_embed;
    own->data += (size_t)bq_type_bytes(all->type, bq_type_compute_layout(all->type),
                                       i * c->layer_embed, all->cols);
  }
}
