/* What the files of the border's C side share. */
#ifndef BQW_API_H
#define BQW_API_H

#include "border.h"

/* Keeps what failed for bqw_last_error; returns the status. err: NULL, or of that status. */
uint32_t bqw_report(bq_status status, const bq_error *err);
uint32_t bqw_fail(bq_status status, const char *detail);
/* Sizes from JS; what no size can be becomes 0 or the largest. */
uint64_t bqw_u64(double v);
/* Of the instance's heap. */
bq_allocator bqw_allocator(void);
/* False, and told: there is no such weight type or layout. */
bool bqw_knows_type(uint32_t type, uint32_t layout);
/* As the border has it. */
static inline bqw_page bqw_page_of(const bq_page *p) {
  return (bqw_page){.offset = (double)p->offset, .dst = (uint32_t)(uintptr_t)p->dst,
                    .bytes = (uint32_t)p->bytes, .id = p->id};
}
/* NULL, and told: the handle is closed or unknown. */
bq_session *bqw_session_of(uint32_t session);

#endif
