/* Minimum and maximum of unsigned integers. */
#ifndef BQ_MINMAX_H
#define BQ_MINMAX_H

#include <stdint.h>

static inline uint32_t bq_min32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t bq_max32(uint32_t a, uint32_t b) { return a > b ? a : b; }
static inline uint64_t bq_min64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t bq_max64(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
