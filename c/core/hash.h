/* The hashes that file formats use: XXH64, which detects damage, and SHA-256, which also detects
 * forgery. Written from the xxHash fast digest specification, version 0.1.1, and FIPS 180-4. */
#ifndef BQ_HASH_H
#define BQ_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t bq_xxh64(const uint8_t *bytes, size_t n, uint64_t seed);

/* Incremental XXH64: begin, add any number of times, end. `end` leaves the state unchanged, so more
 * can be added after it. */
typedef struct bq_xxh64_state {
  uint64_t lanes[4];
  uint64_t total; /* bytes added */
  uint64_t seed;
  uint8_t stripe[32]; /* the total % 32 bytes that do not fill a stripe yet */
} bq_xxh64_state;

void bq_xxh64_begin(bq_xxh64_state *state, uint64_t seed);
void bq_xxh64_add(bq_xxh64_state *state, const uint8_t *bytes, size_t n);
uint64_t bq_xxh64_end(const bq_xxh64_state *state);

enum { BQ_SHA256_BYTES = 32 };

void bq_sha256(const uint8_t *bytes, size_t n, uint8_t out[BQ_SHA256_BYTES]);

/* Incremental SHA-256, used in the same way. */
typedef struct bq_sha256_state {
  uint32_t h[8];
  uint64_t total;    /* bytes added */
  uint8_t block[64]; /* the total % 64 bytes that do not fill a block yet */
} bq_sha256_state;

void bq_sha256_begin(bq_sha256_state *state);
void bq_sha256_add(bq_sha256_state *state, const uint8_t *bytes, size_t n);
void bq_sha256_end(const bq_sha256_state *state, uint8_t out[BQ_SHA256_BYTES]);

#endif
