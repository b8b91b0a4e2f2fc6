/* A read of memory with nothing else: what rates of kernels are compared with. */
#ifndef BQ_BENCH_PLAIN_READ_H
#define BQ_BENCH_PLAIN_READ_H

#include <stddef.h>
#include <stdint.h>

/* All `words` (a multiple of 8) from p, folded into `sink`. Give the next read what this one
 * returns, and use it at the end, or the compiler leaves reads out. */
static inline uint64_t plain_read(const void *p, size_t words, uint64_t sink) {
  const uint64_t *from = p;
  uint64_t s[8] = {sink};
  for (size_t i = 0; i < words; i += 8)
    for (size_t j = 0; j < 8; j++) s[j] ^= from[i + j];
  for (size_t j = 1; j < 8; j++) s[0] ^= s[j];
  return s[0];
}

#endif
