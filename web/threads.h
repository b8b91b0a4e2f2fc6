/* The threads of an instance: each is a worker with an instance of the same module over the same
 * memory. They stay in bqw_thread_main and take part in one parallel region after another. */
#ifndef BQW_THREADS_H
#define BQW_THREADS_H

#include "bq.h"

/* Returns the thread functions for sessions of this instance; bqw_threads sets the number. */
bq_parallel bqw_parallel(void);

#endif
