/* Verification of a loader in BQ_LOADING_DATA: chunk hashes, the integrity of the whole file, and
 * the return to the start of a damaged chunk. */
#ifndef BQ_VERIFY_H
#define BQ_VERIFY_H

#include "load/loader.h"

static inline bool bq_loader_hashed(const bq_loader *l) {
  return l->prefix.hash_kind != BQ_HASH_NONE;
}
/* File offset of the end of the chunk that is being verified, or of all needed bytes if there are
 * no chunk hashes. */
uint64_t bq_verify_end(const bq_loader *l);
/* Starts verification, when the prefix is complete and `at` and `end` are set. INTEGRITY. */
bq_status bq_verify_begin(bq_loader *l, bq_error *err);
/* Hashes bytes that have arrived. Call it before `at` advances. */
void bq_verify_add(bq_loader *l, const uint8_t *bytes, size_t n);
/* Verifies a complete chunk and advances `verified`. Call it after `at` has advanced. CHECKSUM; at
 * the last byte INTEGRITY. */
bq_status bq_verify_arrived(bq_loader *l, bq_error *err);
/* Saves the state if `at` is the start of a chunk. */
void bq_verify_mark(bq_loader *l);
/* Returns to the state at `verified`. */
void bq_verify_rewind(bq_loader *l);

#endif
