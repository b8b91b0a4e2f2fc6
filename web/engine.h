/* What the files of web/ know of the one engine that an instance is. */
#ifndef BQW_ENGINE_H
#define BQW_ENGINE_H

#include "bq.h"

const bq_kernels *bqw_kernels(void); /* the table in use, after bqw_init */

#endif
