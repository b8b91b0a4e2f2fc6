/* Chooses which weights stay in memory when not all of them fit. */
#ifndef BQ_RESIDENCY_H
#define BQ_RESIDENCY_H

#include "load/loader.h"

/* Chooses the residency for bq_plan_paging. NOMEM, UNSUPPORTED. */
bq_status bq_paging_choose(const bq_prefix *prefix, uint64_t budget, uint32_t beside,
                           bq_paging *out, bq_error *err);

#endif
