/* Binds tensors, by their names, to the slots of a model (docs/FORMAT.md, the name table).
 *
 * Binding has two parts. Checking needs no memory except a bq_binding, so that a bad file is
 * rejected before anything is allocated: bq_bind for every tensor, then bq_bind_complete. Filling
 * stores the weights of checked tensors in the model: bq_slot_fill for every tensor, then
 * bq_bind_finish. */
#ifndef BQ_BIND_H
#define BQ_BIND_H

#include "model/model.h"

/* Number of slots. A layer has slots for the weight, bias and scale of each module, then for those
 * of fused tensors, which contain several modules. */
enum {
  BQ_FUSED = 2,
  BQ_TENSOR_ROLES = 3,
  BQ_LAYER_SLOTS = BQ_TENSOR_ROLES * (BQ_MODULES + BQ_FUSED),
  BQ_MODEL_SLOTS = 22
};
#define BQ_SLOTS_MAX (BQ_LAYERS_MAX * BQ_LAYER_SLOTS + BQ_MODEL_SLOTS)

/* A tensor's entry in the directory of the file. */
typedef struct bq_tensor_name {
  const uint8_t *name;
  size_t name_bytes;
  uint32_t ndims; /* 1...8 */
  uint32_t dims[8];
  uint64_t at; /* file offset of the entry, or BQ_NO_OFFSET */
} bq_tensor_name;

/* The slots that have been bound so far. */
typedef struct bq_binding {
  const bq_config *config;
  uint64_t modules[BQ_KINDS]; /* of the layers of each kind: bq_layer_kind.modules */
  uint8_t taken[(BQ_SLOTS_MAX + 7) / 8]; /* a bit per slot */
} bq_binding;

void bq_bind_begin(bq_binding *out, const bq_config *config);
/* Finds the tensor's slot and marks it as taken. FORMAT: unknown or repeated name. SHAPE: the shape
 * differs from the configuration. */
bq_status bq_bind(bq_binding *binding, const bq_tensor_name *tensor, uint32_t *slot, bq_error *err);
/* Checks that all required slots are taken. `at`: file offset for the error. SHAPE: a tensor is
 * missing. */
bq_status bq_bind_complete(const bq_binding *binding, uint64_t at, bq_error *err);

/* Number of slots of a model with this configuration, an upper bound of its tensors. */
uint32_t bq_slots_of(const bq_config *config);
/* The first loading stage that needs the slot (0: embedding, 1 + i: layer i, 1 + layers: final norm
 * and head). */
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
/* Returns the model's matrix `i` of the slot; model->layers must be allocated. *row0: the matrix's
 * first row in the tensor. */
bq_matrix *bq_slot_matrix(bq_model *model, uint32_t slot, uint32_t i, uint32_t *row0);
/* Whether a tensor of this compute type fits the slot. The matrices of a fused tensor, and those of
 * experts, must begin at a multiple of 8 rows if the type is tiled. */
bool bq_slot_fits(const bq_config *config, uint32_t slot, bq_type type);

/* Stores the weights of a tensor in the slot; model->layers must be allocated. The model refers to
 * weights->data, which must live as long. For a vector only `data`, f32, is used. */
void bq_slot_fill(bq_model *model, uint32_t slot, const bq_matrix *weights);
/* Completes the model after the last bq_slot_fill: ties the head, and divides the projection of
 * per-layer embeddings among the layers. */
void bq_bind_finish(bq_model *model);

#endif
