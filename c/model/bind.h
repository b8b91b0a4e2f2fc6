/* Binds tensors, by their names, to the slots of a model (docs/FORMAT.md, the name table).
 *
 * Binding has two halves. Checking needs no memory but the bq_binding, so a plan can be refused
 * before anything is allocated: bq_bind for every tensor, then bq_bind_complete. Filling puts a
 * checked tensor's weights into the model. */
#ifndef BQ_BIND_H
#define BQ_BIND_H

#include "model/model.h"

/* Slots of a layer: weight, bias and scale of each module, then those of fused tensors, which hold
 * several modules. */
enum {
  BQ_FUSED = 2,
  BQ_TENSOR_ROLES = 3,
  BQ_LAYER_SLOTS = BQ_TENSOR_ROLES * (BQ_MODULES + BQ_FUSED),
  BQ_MODEL_SLOTS = 22
};
#define BQ_SLOTS_MAX (BQ_LAYERS_MAX * BQ_LAYER_SLOTS + BQ_MODEL_SLOTS)

/* A tensor as its file lists it. */
typedef struct bq_tensor_name {
  const uint8_t *name;
  size_t name_bytes;
  uint32_t ndims; /* 1...8 */
  uint32_t dims[8];
  uint64_t at; /* file offset of the entry, or BQ_NO_OFFSET */
} bq_tensor_name;

/* Which slots are taken. */
typedef struct bq_binding {
  const bq_config *config;
  uint64_t modules[BQ_KINDS]; /* of the layers of each kind: bq_layer_kind.modules */
  uint8_t taken[(BQ_SLOTS_MAX + 7) / 8];
} bq_binding;

void bq_bind_begin(bq_binding *out, const bq_config *config);
/* Finds and takes the tensor's slot. FORMAT: unknown or repeated name. SHAPE: the shape differs
 * from the configuration. */
bq_status bq_bind(bq_binding *binding, const bq_tensor_name *tensor, uint32_t *slot, bq_error *err);
/* SHAPE: a tensor is missing. */
bq_status bq_bind_complete(const bq_binding *binding, uint64_t at, bq_error *err);

/* Maximum number of tensors of a model with this configuration. */
uint32_t bq_slots_of(const bq_config *config);
/* The loading stage (0: embedding, 1 + i: layer i, 1 + layers: final norm and head) that needs the
 * slot. */
uint32_t bq_slot_stage(const bq_config *config, uint32_t slot);
/* Whether the slot holds the matrices of all experts, one after the other. */
bool bq_slot_stacked(uint32_t slot);
/* Whether the slot holds a bias of keys, alone or fused with others. */
bool bq_slot_is_key_bias(uint32_t slot);
/* Whether the slot holds an f32 vector instead of a matrix. */
bool bq_slot_is_vector(uint32_t slot);

enum { BQ_SLOT_WTE = 0, BQ_SLOT_WPE = 1, BQ_SLOT_WTT = 2, BQ_SLOT_HEAD = 10,
       BQ_SLOT_BIASES = 18, BQ_SLOT_LAYER_EMBEDS = 19, BQ_SLOT_EMBED_PROJECT = 20 };
/* Number of matrices in a slot that holds no vector: one, or more for a fused tensor. */
uint32_t bq_slot_matrices(uint32_t slot);
/* Matrix `i` of the slot in the model, whose layers are allocated; *row0: its first row in the
 * tensor. */
bq_matrix *bq_slot_matrix(bq_model *model, uint32_t slot, uint32_t i, uint32_t *row0);
/* Whether a tensor of this type fits the slot: the matrices of a fused tensor, and those of
 * experts, must begin at whole groups of rows, because tiles can't be cut. */
bool bq_slot_fits(const bq_config *config, uint32_t slot, bq_type type);

/* Puts the weights into the slot; model->layers is allocated. Of a vector only `data`, f32, is
 * used. */
void bq_slot_fill(bq_model *model, uint32_t slot, const bq_matrix *weights);
/* Call after the last bq_slot_fill: ties the head, and divides the projection of per-layer
 * embeddings among the layers. */
void bq_bind_finish(bq_model *model);

#endif
