/* What the files of the border's C side share. */
#ifndef BQW_API_H
#define BQW_API_H

#include "border.h"

/* Keeps what failed for bqw_last_error; returns the status. err: NULL, or of that status. */
uint32_t bqw_report(bq_status status, const bq_error *err);
/* False, and told: there is no such weight type or layout. */
bool bqw_knows_type(uint32_t type, uint32_t layout);
/* NULL, and told: the handle is closed or unknown. */
bq_session *bqw_session_of(uint32_t session);

#endif
