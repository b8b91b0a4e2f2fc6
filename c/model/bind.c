#include "model/bind.h"

#include <stddef.h>
#include <string.h>

/* Sizes that shapes are made of. */
typedef enum size_name {
  NONE, HIDDEN, QUERY, KV, FFN, VOCAB, CONTEXT, TYPES, Q_NORM, K_NORM, ANGLES
} size_name;

/* When a tensor exists, beside those of layers: these exist where a step uses them. */
typedef enum presence {
  ALWAYS, MAYBE, LAYER_NORM, LEARNED, UNTIED, TYPED, EMBED_NORM, EMBED_NORM_BIAS, ROPE, LOCAL_ROPE,
  FINAL_NORM
} presence;

typedef struct slot_facts {
  const char *name;
  size_name rows, cols; /* cols NONE: a vector */
  presence presence;
  size_t member; /* offset in bq_model */
} slot_facts;

/* A module of a layer. Its name is "h.N.", this, ".weight" or ".bias". */
typedef struct module_facts {
  const char *name;
  size_name rows, cols; /* of the weight; cols NONE: it is a norm's */
} module_facts;

/* In the order of execution, by bq_module. */
static const module_facts modules[BQ_MODULES] = {
    [BQ_LN1] = {"ln1", HIDDEN, NONE},
    [BQ_Q] = {"attn.q", QUERY, HIDDEN},
    [BQ_K] = {"attn.k", KV, HIDDEN},
    [BQ_V] = {"attn.v", KV, HIDDEN},
    [BQ_Q_NORM] = {"attn.q_norm", Q_NORM, NONE},
    [BQ_K_NORM] = {"attn.k_norm", K_NORM, NONE},
    [BQ_O] = {"attn.o", HIDDEN, QUERY},
    [BQ_LN1_POST] = {"ln1_post", HIDDEN, NONE},
    [BQ_LN2] = {"ln2", HIDDEN, NONE},
    [BQ_GATE] = {"mlp.gate", FFN, HIDDEN},
    [BQ_UP] = {"mlp.up", FFN, HIDDEN},
    [BQ_DOWN] = {"mlp.down", HIDDEN, FFN},
    [BQ_LN2_POST] = {"ln2_post", HIDDEN, NONE},
};

#define MODEL(name, rows, cols, when, member) {name, rows, cols, when, offsetof(bq_model, member)}

/* Slots 0...10; those of layer i begin at BQ_OTHER_SLOTS + i * BQ_LAYER_SLOTS. */
static const slot_facts other_slots[BQ_OTHER_SLOTS] = {
    MODEL("wte.weight", VOCAB, HIDDEN, ALWAYS, wte),
    MODEL("wpe.weight", CONTEXT, HIDDEN, LEARNED, wpe),
    MODEL("wtt.weight", TYPES, HIDDEN, TYPED, wtt),
    MODEL("ln_0.weight", HIDDEN, NONE, EMBED_NORM, ln_0_w),
    MODEL("ln_0.bias", HIDDEN, NONE, EMBED_NORM_BIAS, ln_0_b),
    MODEL("rope.factors", ANGLES, NONE, ROPE, rope[0]),
    MODEL("rope.local_factors", ANGLES, NONE, LOCAL_ROPE, rope[1]),
    MODEL("ln_f.weight", HIDDEN, NONE, FINAL_NORM, ln_f_w),
    MODEL("ln_f.bias", HIDDEN, NONE, LAYER_NORM, ln_f_b),
    MODEL("lm_head.weight", VOCAB, HIDDEN, UNTIED, head),
    MODEL("lm_head.bias", VOCAB, NONE, MAYBE, head_b),
};
enum { FIRST_STAGE_SLOTS = 7 }; /* what a token needs before the first layer */

/* Of a slot from BQ_OTHER_SLOTS on: layer, module, and whether it is the module's bias. */
static uint32_t layer_of(uint32_t slot) { return (slot - BQ_OTHER_SLOTS) / BQ_LAYER_SLOTS; }
static bq_module module_of(uint32_t slot) {
  return (bq_module)((slot - BQ_OTHER_SLOTS) % BQ_LAYER_SLOTS / 2);
}
static bool is_bias(uint32_t slot) { return (slot - BQ_OTHER_SLOTS) % 2; }

static uint32_t size_of(const bq_config *c, size_name name) {
  switch (name) {
  case HIDDEN: return c->hidden;
  case QUERY: return c->heads * c->head_dim;
  case KV: return c->kv_heads * c->head_dim;
  case FFN: return c->ffn;
  case VOCAB: return c->vocab;
  case CONTEXT: return c->context;
  case TYPES: return c->token_types;
  case Q_NORM: return c->qk_norm == BQ_QK_HEADS ? c->head_dim : c->heads * c->head_dim;
  case K_NORM: return c->qk_norm == BQ_QK_HEADS ? c->head_dim : c->kv_heads * c->head_dim;
  case ANGLES: return c->rope_dim / 2;
  default: return 0;
  }
}

typedef struct shape {
  uint32_t rows, cols; /* cols 0: a vector */
} shape;

static shape shape_of(const bq_config *c, uint32_t slot) {
  if (slot < BQ_OTHER_SLOTS)
    return (shape){size_of(c, other_slots[slot].rows), size_of(c, other_slots[slot].cols)};
  const module_facts *m = &modules[module_of(slot)];
  return (shape){size_of(c, m->rows), is_bias(slot) ? 0 : size_of(c, m->cols)};
}

static bool may_exist(const bq_binding *b, uint32_t slot) {
  const bq_config *c = b->config;
  if (slot >= BQ_OTHER_SLOTS) {
    const bq_module m = module_of(slot);
    const bool norm_bias = modules[m].cols == NONE && is_bias(slot);
    return bq_layer_kind_has(&b->kinds[bq_layer_kind_of(c, layer_of(slot))], m) && (!norm_bias || c->norm == BQ_NORM_LAYER);
  }
  switch (other_slots[slot].presence) {
  case LAYER_NORM: return c->norm == BQ_NORM_LAYER && c->norm_place != BQ_NORM_AFTER_SUM;
  case FINAL_NORM: return c->norm_place != BQ_NORM_AFTER_SUM; /* the last layer ends with a norm */
  case TYPED: return c->token_types;
  case EMBED_NORM: return c->embed_norm;
  case EMBED_NORM_BIAS: return c->embed_norm && c->norm == BQ_NORM_LAYER;
  case ROPE: return bq_rope_tables(c) > 0;
  case LOCAL_ROPE: return bq_rope_tables(c) > 1;
  case LEARNED: return c->position == BQ_POSITION_LEARNED;
  case UNTIED: return !c->tied;
  default: return true;
  }
}

static bool must_exist(const bq_binding *b, uint32_t slot) {
  if (slot >= BQ_OTHER_SLOTS) return !is_bias(slot) && may_exist(b, slot);
  switch (other_slots[slot].presence) {
  case MAYBE:
  case LAYER_NORM:
  case EMBED_NORM_BIAS:
  case ROPE:
  case LOCAL_ROPE: return false;
  default: return may_exist(b, slot);
  }
}

/* --- names ---------------------------------------------------------------------------------- */

static bool same(const uint8_t *name, size_t n, const char *text) {
  return n == strlen(text) && memcmp(name, text, n) == 0;
}

/* The slot, or -1. */
static int find_other(const uint8_t *name, size_t n) {
  for (int i = 0; i < BQ_OTHER_SLOTS; i++)
    if (same(name, n, other_slots[i].name)) return i;
  return -1;
}

/* Of a name without its "h.N.": the slot within the layer, or -1. */
static int find_in_layer(const uint8_t *name, size_t n) {
  for (int i = 0; i < BQ_MODULES; i++) {
    const size_t length = strlen(modules[i].name);
    if (n <= length || memcmp(name, modules[i].name, length) != 0) continue;
    if (same(name + length, n - length, ".weight")) return 2 * i;
    if (same(name + length, n - length, ".bias")) return 2 * i + 1;
  }
  return -1;
}

/* Reads "h.N." with N in its one decimal form, at most 9 digits. Returns how long it is; 0: no. */
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
  *slot = skip ? BQ_OTHER_SLOTS + layer * BQ_LAYER_SLOTS + (uint32_t)i : (uint32_t)i;
  return BQ_OK;
}

/* --- checking ------------------------------------------------------------------------------- */

static bool taken(const bq_binding *b, uint32_t slot) { return b->taken[slot / 8] >> slot % 8 & 1; }

static bq_status check_shape(shape s, const bq_tensor_name *t, bq_error *err) {
  const uint32_t rows = s.rows, cols = s.cols;
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
  for (uint32_t i = 0; i < BQ_KINDS; i++) bq_layer_kind_make(config, i, &out->kinds[i]);
}

bq_status bq_bind(bq_binding *b, const bq_tensor_name *t, uint32_t *slot, bq_error *err) {
  uint32_t found = 0;
  bq_status status = find_slot(b->config, t, &found, err);
  if (status) return status;
  if (!may_exist(b, found))
    return bq_fail(err, BQ_SHAPE, t->at, "a model of this configuration has no tensor \"%S\"",
                   t->name, t->name_bytes);
  if (taken(b, found))
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" appears twice", t->name, t->name_bytes);
  status = check_shape(shape_of(b->config, found), t, err);
  if (status) return status;
  b->taken[found / 8] |= (uint8_t)(1u << found % 8);
  *slot = found;
  return BQ_OK;
}

bq_status bq_bind_complete(const bq_binding *b, uint64_t at, bq_error *err) {
  const uint32_t n = bq_slots_of(b->config);
  for (uint32_t slot = 0; slot < n; slot++) {
    if (taken(b, slot) || !must_exist(b, slot)) continue;
    if (slot < BQ_OTHER_SLOTS)
      return bq_fail(err, BQ_SHAPE, at, "tensor \"%s\" is missing", other_slots[slot].name);
    return bq_fail(err, BQ_SHAPE, at, "tensor \"h.%u.%s.weight\" is missing", layer_of(slot),
                   modules[module_of(slot)].name);
  }
  return BQ_OK;
}

/* --- filling -------------------------------------------------------------------------------- */

uint32_t bq_slots_of(const bq_config *c) { return BQ_OTHER_SLOTS + c->layers * BQ_LAYER_SLOTS; }

uint32_t bq_slot_stage(const bq_config *c, uint32_t slot) {
  if (slot >= BQ_OTHER_SLOTS) return 1 + layer_of(slot);
  return slot < FIRST_STAGE_SLOTS ? 0 : 1 + c->layers;
}

bool bq_slot_is_vector(uint32_t slot) {
  if (slot < BQ_OTHER_SLOTS) return other_slots[slot].cols == NONE;
  return is_bias(slot) || modules[module_of(slot)].cols == NONE;
}

bq_matrix *bq_slot_matrix(bq_model *model, uint32_t slot) {
  if (slot < BQ_OTHER_SLOTS)
    return (bq_matrix *)(void *)((uint8_t *)model + other_slots[slot].member);
  return &model->layers[layer_of(slot)].module[module_of(slot)].w;
}

/* Where the vector's address is kept, unless it is the weight of a layer's norm. */
static const float **vector_of(bq_model *model, uint32_t slot) {
  if (slot < BQ_OTHER_SLOTS)
    return (const float **)(void *)((uint8_t *)model + other_slots[slot].member);
  return &model->layers[layer_of(slot)].module[module_of(slot)].b;
}

void bq_slot_fill(bq_model *model, uint32_t slot, const bq_matrix *weights) {
  const bool layer_weight = slot >= BQ_OTHER_SLOTS && !is_bias(slot);
  if (layer_weight || !bq_slot_is_vector(slot)) *bq_slot_matrix(model, slot) = *weights;
  else *vector_of(model, slot) = (const float *)(const void *)weights->data;
}

void bq_bind_finish(bq_model *model) {
  if (model->config.tied) model->head = model->wte;
}
