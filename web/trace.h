/* The trace of a session (border.h: bqw_session_trace). */
#ifndef BQW_TRACE_H
#define BQW_TRACE_H

#include "border.h"

/* The host's clock, in milliseconds. */
__attribute__((import_module("env"), import_name("now"))) double bqw_now(void);

/* Starts a trace from zero, in a block of the allocator. Returns its rows,
 * [layers][BQ_STAGE_COUNT]; NULL, with nothing changed, if there is no memory. */
bqw_stage *bqw_trace_begin(bq_session *s, bq_allocator a);
bqw_stage *bqw_trace_rows(const bq_session *s); /* NULL: the trace is off */
/* Ends a trace and frees its block. */
void bqw_trace_end(bq_session *s, bq_allocator a);
/* Restarts the clock: the time until now counts for no stage. */
void bqw_trace_resume(const bq_session *s);

#endif
