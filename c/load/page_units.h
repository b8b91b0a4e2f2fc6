/* Divides the paged weights of a model into units (model/pages.h), for a given residency. */
#ifndef BQ_PAGE_UNITS_H
#define BQ_PAGE_UNITS_H

#include "format/prefix.h"
#include "model/pages.h"

/* Whether the tensor of this slot is paged. */
bool bq_is_paged(const bq_config *config, const bq_residency *residency, uint32_t slot);

/* Lays out the bq_pages of a model in the arena and sets model->pages; over an arena without memory
 * it only counts. Fills in *sizes except model_bytes. `model`: NULL while measuring; the shapes of
 * its matrices need not be set yet. UNSUPPORTED: a tensor is not stored in the compute layout. */
bq_status bq_page_units_make(bq_arena *arena, const bq_prefix *prefix,
                             const bq_residency *residency, bq_model *model, bq_paging *sizes,
                             bq_error *err);

#endif
