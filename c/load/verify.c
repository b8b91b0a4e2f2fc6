#include <string.h>

#include "core/cursor.h"
#include "core/minmax.h"
#include "load/verify.h"

uint64_t bq_verify_end(const bq_loader *l) {
  return bq_loader_hashed(l) ? bq_min64(l->verified + BQ_CHUNK, l->end) : l->end;
}

static void begin_chunk(bq_loader *l) {
  if (l->prefix.hash_kind == BQ_HASH_SHA256)
    bq_sha256_begin(&l->hash.sha256);
  else
    bq_xxh64_begin(&l->hash.xxh64, 0);
}

static bool chunk_matches(const bq_loader *l, uint64_t chunk) {
  if (l->prefix.hash_kind == BQ_HASH_XXH64)
    return bq_xxh64_end(&l->hash.xxh64) == bq_load64(l->prefix.hashes + 8 * chunk);
  uint8_t found[BQ_SHA256_BYTES];
  bq_sha256_end(&l->hash.sha256, found);
  return memcmp(found, l->prefix.hashes + BQ_SHA256_BYTES * chunk, BQ_SHA256_BYTES) == 0;
}

static bq_status fail_integrity(const bq_loader *l, const char *what, bq_error *err) {
  return bq_fail(err, BQ_INTEGRITY, 0, "the SHA-256 of the %s, %l bytes, is not the one asked for",
                 what, l->at);
}

/* For files without SHA-256 chunks: compares the hash of all bytes at the end. */
static bq_status check_file_hash(const bq_loader *l, bq_error *err) {
  if (!l->hashes_file) return BQ_OK;
  uint8_t found[BQ_SHA256_BYTES];
  bq_sha256_end(&l->file_hash, found);
  return memcmp(found, l->integrity, sizeof found) ? fail_integrity(l, "file", err) : BQ_OK;
}

bq_status bq_verify_begin(bq_loader *l, bq_error *err) {
  begin_chunk(l);
  l->hashes_file = l->has_integrity && l->prefix.hash_kind != BQ_HASH_SHA256;
  if (!l->has_integrity) return BQ_OK;
  bq_sha256_begin(&l->file_hash);
  bq_sha256_add(&l->file_hash, l->bytes, (size_t)l->prefix.prefix_bytes);
  if (l->hashes_file) return l->at == l->end ? check_file_hash(l, err) : BQ_OK;
  uint8_t found[BQ_SHA256_BYTES];
  bq_sha256_end(&l->file_hash, found);
  return memcmp(found, l->integrity, sizeof found) ? fail_integrity(l, "prefix", err) : BQ_OK;
}

void bq_verify_add(bq_loader *l, const uint8_t *bytes, size_t n) {
  if (l->prefix.hash_kind == BQ_HASH_XXH64) bq_xxh64_add(&l->hash.xxh64, bytes, n);
  if (l->prefix.hash_kind == BQ_HASH_SHA256) bq_sha256_add(&l->hash.sha256, bytes, n);
  if (l->hashes_file) bq_sha256_add(&l->file_hash, bytes, n);
}

static bq_status end_chunk(bq_loader *l, bq_error *err) {
  uint64_t chunk = (l->verified - l->prefix.prefix_bytes) / BQ_CHUNK;
  if (!chunk_matches(l, chunk))
    return bq_fail(err, BQ_CHECKSUM, l->verified,
                   "chunk %l of the data, %l bytes, does not match its hash", chunk,
                   l->at - l->verified);
  begin_chunk(l);
  return BQ_OK;
}

bq_status bq_verify_arrived(bq_loader *l, bq_error *err) {
  bool hashed = bq_loader_hashed(l);
  if (hashed && l->at < bq_verify_end(l)) return BQ_OK;
  bq_status status = hashed ? end_chunk(l, err) : BQ_OK;
  if (status) return status;
  l->verified = l->at;
  return l->at == l->end ? check_file_hash(l, err) : BQ_OK;
}

void bq_verify_mark(bq_loader *l) {
  if (!bq_loader_hashed(l) || l->at != l->verified) return; /* a retry can't start here */
  l->mark.current = l->current;
  l->mark.staged = l->staged;
  l->mark.file_hash = l->file_hash;
  if (l->staged && l->block.saved) memcpy(l->block.saved, l->block.staging, l->staged);
}

void bq_verify_rewind(bq_loader *l) {
  l->at = l->verified;
  l->current = l->mark.current;
  l->staged = l->mark.staged;
  l->file_hash = l->mark.file_hash;
  l->fault = (bq_error){0};
  if (l->staged) memcpy(l->block.staging, l->block.saved, l->staged);
  begin_chunk(l);
}
