#include "model/bind.h"

#include <stddef.h>
#include <string.h>

/* Sizes that shapes are made of. */
typedef enum size_name { NONE, HIDDEN, QUERY, KV, FFN, VOCAB, CONTEXT } size_name;

/* When a tensor exists. */
typedef enum presence { ALWAYS, MAYBE, LAYER_NORM, GATED, GATED_MAYBE, LEARNED, UNTIED } presence;

typedef struct slot_facts {
  const char *name; /* of layers: after "h.N." */
  size_name rows, cols; /* cols NONE: a vector */
  presence presence;
  size_t member; /* offset in bq_layer or bq_model */
} slot_facts;

#define LAYER(name, rows, cols, when, member) {name, rows, cols, when, offsetof(bq_layer, member)}
#define MODEL(name, rows, cols, when, member) {name, rows, cols, when, offsetof(bq_model, member)}

static const slot_facts layer_slots[BQ_LAYER_SLOTS] = {
    LAYER("ln1.weight", HIDDEN, NONE, ALWAYS, ln1_w),
    LAYER("ln1.bias", HIDDEN, NONE, LAYER_NORM, ln1_b),
    LAYER("attn.q.weight", QUERY, HIDDEN, ALWAYS, q),
    LAYER("attn.q.bias", QUERY, NONE, MAYBE, q_b),
    LAYER("attn.k.weight", KV, HIDDEN, ALWAYS, k),
    LAYER("attn.k.bias", KV, NONE, MAYBE, k_b),
    LAYER("attn.v.weight", KV, HIDDEN, ALWAYS, v),
    LAYER("attn.v.bias", KV, NONE, MAYBE, v_b),
    LAYER("attn.o.weight", HIDDEN, QUERY, ALWAYS, o),
    LAYER("attn.o.bias", HIDDEN, NONE, MAYBE, o_b),
    LAYER("ln2.weight", HIDDEN, NONE, ALWAYS, ln2_w),
    LAYER("ln2.bias", HIDDEN, NONE, LAYER_NORM, ln2_b),
    LAYER("mlp.gate.weight", FFN, HIDDEN, GATED, gate),
    LAYER("mlp.gate.bias", FFN, NONE, GATED_MAYBE, gate_b),
    LAYER("mlp.up.weight", FFN, HIDDEN, ALWAYS, up),
    LAYER("mlp.up.bias", FFN, NONE, MAYBE, up_b),
    LAYER("mlp.down.weight", HIDDEN, FFN, ALWAYS, down),
    LAYER("mlp.down.bias", HIDDEN, NONE, MAYBE, down_b),
};

/* Slots 0...5; those of layer i begin at BQ_OTHER_SLOTS + i * BQ_LAYER_SLOTS. */
static const slot_facts other_slots[BQ_OTHER_SLOTS] = {
    MODEL("wte.weight", VOCAB, HIDDEN, ALWAYS, wte),
    MODEL("wpe.weight", CONTEXT, HIDDEN, LEARNED, wpe),
    MODEL("ln_f.weight", HIDDEN, NONE, ALWAYS, ln_f_w),
    MODEL("ln_f.bias", HIDDEN, NONE, LAYER_NORM, ln_f_b),
    MODEL("lm_head.weight", VOCAB, HIDDEN, UNTIED, head),
    MODEL("lm_head.bias", VOCAB, NONE, MAYBE, head_b),
};
enum { FIRST_STAGE_SLOTS = 2 }; /* wte, wpe */

static const slot_facts *facts_of(uint32_t slot) {
  if (slot < BQ_OTHER_SLOTS) return &other_slots[slot];
  return &layer_slots[(slot - BQ_OTHER_SLOTS) % BQ_LAYER_SLOTS];
}

static uint32_t layer_of(uint32_t slot) { return (slot - BQ_OTHER_SLOTS) / BQ_LAYER_SLOTS; }

static uint32_t size_of(const bq_config *c, size_name name) {
  switch (name) {
  case HIDDEN: return c->hidden;
  case QUERY: return c->heads * c->head_dim;
  case KV: return c->kv_heads * c->head_dim;
  case FFN: return c->ffn;
  case VOCAB: return c->vocab;
  case CONTEXT: return c->context;
  default: return 0;
  }
}

static bool may_exist(const bq_config *c, presence p) {
  switch (p) {
  case LAYER_NORM: return c->norm == BQ_NORM_LAYER;
  case GATED:
  case GATED_MAYBE: return c->gated;
  case LEARNED: return c->position == BQ_POSITION_LEARNED;
  case UNTIED: return !c->tied;
  default: return true;
  }
}

static bool must_exist(const bq_config *c, presence p) {
  return p != MAYBE && p != LAYER_NORM && p != GATED_MAYBE && may_exist(c, p);
}

/* --- names ---------------------------------------------------------------------------------- */

static bool same(const uint8_t *name, size_t n, const char *text) {
  return n == strlen(text) && memcmp(name, text, n) == 0;
}

/* Position in the table, or -1. */
static int find(const slot_facts *table, int n, const uint8_t *name, size_t bytes) {
  for (int i = 0; i < n; i++)
    if (same(name, bytes, table[i].name)) return i;
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
  int i = skip ? find(layer_slots, BQ_LAYER_SLOTS, t->name + skip, t->name_bytes - skip)
               : find(other_slots, BQ_OTHER_SLOTS, t->name, t->name_bytes);
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

static bq_status check_shape(const bq_config *c, const slot_facts *f, const bq_tensor_name *t,
                             bq_error *err) {
  uint32_t rows = size_of(c, f->rows), cols = size_of(c, f->cols);
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

bq_status bq_bind(bq_binding *b, const bq_tensor_name *t, uint32_t *slot, bq_error *err) {
  uint32_t found = 0;
  bq_status status = find_slot(b->config, t, &found, err);
  if (status) return status;
  const slot_facts *f = facts_of(found);
  if (!may_exist(b->config, f->presence))
    return bq_fail(err, BQ_SHAPE, t->at, "a model of this configuration has no tensor \"%S\"",
                   t->name, t->name_bytes);
  if (taken(b, found))
    return bq_fail(err, BQ_FORMAT, t->at, "tensor \"%S\" appears twice", t->name, t->name_bytes);
  status = check_shape(b->config, f, t, err);
  if (status) return status;
  b->taken[found / 8] |= (uint8_t)(1u << found % 8);
  *slot = found;
  return BQ_OK;
}

bq_status bq_bind_complete(const bq_binding *b, uint64_t at, bq_error *err) {
  const uint32_t n = bq_slots_of(b->config);
  for (uint32_t slot = 0; slot < n; slot++) {
    const slot_facts *f = facts_of(slot);
    if (taken(b, slot) || !must_exist(b->config, f->presence)) continue;
    if (slot < BQ_OTHER_SLOTS)
      return bq_fail(err, BQ_SHAPE, at, "tensor \"%s\" is missing", f->name);
    return bq_fail(err, BQ_SHAPE, at, "tensor \"h.%u.%s\" is missing", layer_of(slot), f->name);
  }
  return BQ_OK;
}

/* --- filling -------------------------------------------------------------------------------- */

uint32_t bq_slots_of(const bq_config *c) { return BQ_OTHER_SLOTS + c->layers * BQ_LAYER_SLOTS; }

uint32_t bq_slot_stage(const bq_config *c, uint32_t slot) {
  if (slot >= BQ_OTHER_SLOTS) return 1 + layer_of(slot);
  return slot < FIRST_STAGE_SLOTS ? 0 : 1 + c->layers;
}

bool bq_slot_is_vector(uint32_t slot) { return facts_of(slot)->cols == NONE; }

/* The member of bq_model or bq_layer that the slot stands for. */
static void *member_of(bq_model *model, uint32_t slot) {
  uint8_t *home = slot < BQ_OTHER_SLOTS ? (uint8_t *)model
                                        : (uint8_t *)&model->layers[layer_of(slot)];
  return home + facts_of(slot)->member;
}

bq_matrix *bq_slot_matrix(bq_model *model, uint32_t slot) { return member_of(model, slot); }

void bq_slot_fill(bq_model *model, uint32_t slot, const bq_matrix *weights) {
  void *home = member_of(model, slot);
  if (bq_slot_is_vector(slot))
    *(const float **)home = (const float *)(const void *)weights->data;
  else *(bq_matrix *)home = *weights;
}

void bq_bind_finish(bq_model *model) {
  if (model->config.tied) model->head = model->wte;
}
