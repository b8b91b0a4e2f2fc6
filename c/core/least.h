/* The smaller and the larger of two sizes. */
#ifndef BQ_LEAST_H
#define BQ_LEAST_H

#include <stdint.h>

static inline uint32_t bq_smaller32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint64_t bq_smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t bq_larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
