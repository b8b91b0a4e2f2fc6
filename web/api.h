/* Helpers that the files of web/ share. */
#ifndef BQW_API_H
#define BQW_API_H

#include "border.h"

/* Records the status and the error for bqw_error, and returns the status. err: NULL, or an error
 * with this status. */
uint32_t bqw_report(bq_status status, const bq_error *err);
/* As bqw_report, for an error without an offset. */
uint32_t bqw_fail(bq_status status, const char *detail);
/* Converts a size from JS: values out of range become 0 or the maximum. */
uint64_t bqw_u64(double v);
/* The allocator of the instance's heap. */
bq_allocator bqw_allocator(void);
/* Returns false, and records ARGUMENT, for an unknown weight type or layout. */
bool bqw_knows_type(uint32_t type, uint32_t layout);
/* Converts a page to the struct of the ABI. */
static inline bqw_page bqw_page_of(const bq_page *p) {
  return (bqw_page){.offset = (double)p->offset, .dst = (uint32_t)(uintptr_t)p->dst,
                    .bytes = (uint32_t)p->bytes, .id = p->id};
}
/* The session of a handle. Returns NULL, and records ARGUMENT, for a closed or unknown one. */
bq_session *bqw_session_of(uint32_t session);

#endif
