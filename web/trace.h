/* The trace of a session (border.h: bqw_session_trace). */
#ifndef BQW_TRACE_H
#define BQW_TRACE_H

#include "border.h"

/* The host's clock, which c/ has not: milliseconds. */
__attribute__((import_module("env"), import_name("now"))) double bqw_now(void);

/* Begins with zeros. NULL: there was no room, the session goes on as it was. */
bqw_stage *bqw_trace_begin(bq_session *s, bq_allocator a);
bqw_stage *bqw_trace_rows(const bq_session *s); /* NULL: off */
void bqw_trace_end(bq_session *s, bq_allocator a);
/* From now on time is counted: what lies before belongs to nobody. */
void bqw_trace_resume(const bq_session *s);

#endif
