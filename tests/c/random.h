/* Reproducible random numbers for tests: xorshift64*. The seed is not 0. */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t random_bits(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (uint32_t)(*state * 0x2545f4914f6cdd1dull >> 32);
}

/* A number in [-1, 1). */
static inline float random_float(uint64_t *state) {
  return (float)(int32_t)random_bits(state) * 0x1p-31f;
}

static inline void random_floats(uint64_t *state, float *x, size_t n, float scale) {
  for (size_t i = 0; i < n; i++) x[i] = random_float(state) * scale;
}

/* FNV-1a, for comparing many bytes with one committed number. `h`: HASH_START, or the hash so
 * far. */
static inline uint64_t hash_bytes(uint64_t h, const void *data, size_t n) {
  const unsigned char *p = (const unsigned char *)data;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3ull;
  return h;
}
#define HASH_START 0xcbf29ce484222325ull

#endif
