/* Chooses which weights stay in memory when not all of them fit. */
#ifndef BQ_RESIDENCY_H
#define BQ_RESIDENCY_H

#include "load/loader.h"

/* Chooses the residency that reads the fewest bytes per token within `budget` bytes for the model
 * and `host_slots` buffers of the host (bq_plan_paging). NOMEM: no residency fits; UNSUPPORTED: the
 * weights can't be paged. */
bq_status bq_paging_choose(const bq_prefix *prefix, uint64_t budget, uint32_t host_slots,
                           bq_paging *out, bq_error *err);

#endif
