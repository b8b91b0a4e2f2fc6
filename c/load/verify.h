/* Verification of a loader in BQ_LOADING_DATA: chunk hashes, the integrity of the whole file, and
 * going back to the start of a damaged chunk. */
#ifndef BQ_VERIFY_H
#define BQ_VERIFY_H

#include "load/loader.h"

static inline bool bq_loader_hashed(const bq_loader *l) {
  return l->prefix.hash_kind != BQ_HASH_NONE;
}
/* End of the bytes that are verified together with those at `at`. */
uint64_t bq_verify_end(const bq_loader *l);
/* Call when the prefix is complete and `at` and `end` are set. INTEGRITY. */
bq_status bq_verify_begin(bq_loader *l, bq_error *err);
/* Hashes bytes that have arrived. Call before `at` moves. */
void bq_verify_add(bq_loader *l, const uint8_t *bytes, size_t n);
/* Call after `at` moved: advances `verified`. CHECKSUM; at the last byte INTEGRITY. */
bq_status bq_verify_arrived(bq_loader *l, bq_error *err);
/* Saves the state if a chunk begins here. */
void bq_verify_mark(bq_loader *l);
/* Goes back to `verified`. */
void bq_verify_rewind(bq_loader *l);

#endif
