/* Layout and sizes of a loader's memory blocks. */
#ifndef BQ_MODEL_BLOCK_H
#define BQ_MODEL_BLOCK_H

#include "load/loader.h"

/* Lays out the model's block in the arena and binds its tensors. Over an arena without memory it
 * only counts (kernels: NULL then). The prefix's bytes must live as long as the model. FORMAT:
 * overlapping data, or a weight in the manifest that is not finite. UNSUPPORTED: weights that can't
 * be paged. */
bq_status bq_model_block_make(bq_arena *arena, const bq_prefix *prefix,
                              const bq_residency *residency, const bq_kernels *kernels,
                              bq_model_block *out, bq_error *err);

/* Sizes of the blocks in bytes; UINT64_MAX: more than the machine can address. bq_model_bytes also
 * fills in the fields of *out that are known without memory. */
uint64_t bq_loader_bytes(void);
uint64_t bq_prefix_block_bytes(uint64_t manifest_bytes, uint64_t prefix_bytes);
uint64_t bq_model_bytes(const bq_prefix *prefix, const bq_residency *residency,
                        bq_model_block *out);

#endif
