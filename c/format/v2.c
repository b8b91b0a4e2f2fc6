/* Version 2: header, plan, rest of the prefix (docs/FORMAT.md §2). */
#include <string.h>

#include "core/cursor.h"
#include "core/hash.h"
#include "format/v2.h"

enum { HEADER = 64, FILE_ID = 40, SUMMED_HEADER = 56 };

typedef struct header {
  uint64_t plan, prefix, file;
} header;

/* Fails with WANT_DATA for the first `bytes` bytes of the file, or with TRUNCATED if the file is
 * known to be shorter. */
static bq_status require_bytes(const bq_prefix_input *in, uint64_t bytes, uint64_t *need,
                               bq_error *err) {
  if (in->file_bytes && bytes > in->file_bytes)
    return bq_fail(err, BQ_TRUNCATED, in->file_bytes,
                   "the file ends after %l bytes, its prefix takes %l at least", in->file_bytes,
                   bytes);
  *need = bytes;
  return bq_fail(err, BQ_WANT_DATA, in->n, "%l bytes of the file are needed", bytes);
}

static bq_status check_header(const header *h, const bq_prefix_input *in, bq_error *err) {
  if (h->plan % 8 || h->plan < BQ_SUM8_BYTES || h->plan > BQ_PLAN_MAX)
    return bq_fail(err, BQ_FORMAT, 16, "the plan can't have %l bytes", h->plan);
  if (h->prefix % BQ_ALIGN || h->prefix < HEADER + h->plan + BQ_SUM8_BYTES ||
      h->prefix > BQ_PREFIX_MAX)
    return bq_fail(err, BQ_FORMAT, 24, "the prefix can't have %l bytes", h->prefix);
  if (h->file < h->prefix || h->file > BQ_FILE_MAX)
    return bq_fail(err, BQ_FORMAT, 32, "the file can't have %l bytes", h->file);
  if (!in->file_bytes || in->file_bytes == h->file) return BQ_OK;
  return bq_fail(err, in->file_bytes < h->file ? BQ_TRUNCATED : BQ_FORMAT,
                 in->file_bytes < h->file ? in->file_bytes : h->file,
                 "the file has %l bytes, its header says %l", in->file_bytes, h->file);
}

static bq_status read_header(const bq_prefix_input *in, header *out, bq_error *err) {
  const uint8_t *b = in->bytes;
  if (bq_load64(b + SUMMED_HEADER) != bq_xxh64(b, SUMMED_HEADER, 0))
    return bq_fail(err, BQ_CHECKSUM, 0, "the header's checksum does not match");
  if (bq_load32(b + 8) != 0)
    return bq_fail(err, BQ_UNSUPPORTED, 8, "the file has version 2.%u, known is 2.0",
                   bq_load32(b + 8));
  if (bq_load32(b + 12) != 0)
    return bq_fail(err, BQ_UNSUPPORTED, 12, "the header has unknown flags %u", bq_load32(b + 12));
  *out = (header){bq_load64(b + 16), bq_load64(b + 24), bq_load64(b + 32)};
  return check_header(out, in, err);
}

/* Whether there is a SUM8 section at `at`. */
static bool is_sum(const uint8_t *b, size_t at) {
  return bq_load32(b + at) == BQ_TAG_SUM8 && bq_load32(b + at + 4) == 0 &&
         bq_load64(b + at + 8) == 8;
}

static bq_status check_sum(const uint8_t *b, size_t from, size_t at, const char *what,
                           bq_error *err) {
  if (bq_load64(b + at + BQ_SECTION_HEAD) == bq_xxh64(b + from, at - from, 0)) return BQ_OK;
  return bq_fail(err, BQ_CHECKSUM, from, "the checksum of the %s does not match", what);
}

/* Minimum bytes of a TOKN section: its head, each token, each merge. */
enum { MIN_TOKN_BYTES = 44, MIN_TOKEN_BYTES = 9, MERGE_BYTES = 12 };

static bq_status read_plan(const bq_prefix_input *in, const header *h, bq_prefix *out,
                           bq_error *err) {
  size_t sum = HEADER + (size_t)h->plan - BQ_SUM8_BYTES;
  if (!is_sum(in->bytes, sum))
    return bq_fail(err, BQ_FORMAT, sum, "the plan does not end with its checksum");
  bq_status status = check_sum(in->bytes, HEADER, sum, "plan", err);
  if (!status) status = bq_sections_read(in->bytes, HEADER, sum, BQ_IN_PLAN, &out->sections, err);
  if (status) return status;
  const bq_section *conf = bq_sections_find(&out->sections, BQ_TAG_CONF);
  const bq_section *tens = bq_sections_find(&out->sections, BQ_TAG_TENS);
  if (!conf || !tens)
    return bq_fail(err, BQ_FORMAT, HEADER, "the plan has no %s section", conf ? "TENS" : "CONF");
  out->directory = *tens;
  status = bq_config_read(conf->data, conf->bytes, conf->offset, &out->config, err);
  if (status) return status;
  /* Memory for the tokenizer's tables is planned from these counts, so they must be plausible. */
  const bq_config *c = &out->config;
  uint64_t rest = h->prefix - HEADER - h->plan;
  uint64_t least = MIN_TOKN_BYTES + MIN_TOKEN_BYTES * (uint64_t)c->tokens +
                   MERGE_BYTES * (uint64_t)c->merges;
  if (c->tokens && least > rest)
    return bq_fail(err, BQ_FORMAT, conf->offset,
                   "CONF announces %u tokens and %u merges, more than the prefix can hold",
                   c->tokens, c->merges);
  return BQ_OK;
}

/* Returns the offset of the SUM8 that ends the prefix, before zeros up to a multiple of 64, or
 * 0 if the prefix has no such section. */
static size_t find_rest_sum(const uint8_t *b, size_t from, size_t end) {
  size_t at = end - BQ_SUM8_BYTES;
  for (size_t zeros = 0; zeros < BQ_ALIGN && at >= from; zeros += 8, at -= 8) {
    if (is_sum(b, at)) return at;
    if (bq_load64(b + at + BQ_SECTION_HEAD)) break; /* neither a hash nor padding */
  }
  return 0;
}

static bq_status read_hashes(bq_prefix *out, bq_error *err) {
  const bq_section *s = bq_sections_find(&out->sections, BQ_TAG_HASH);
  if (!s) return BQ_OK;
  if (s->bytes < 8) return bq_fail(err, BQ_FORMAT, s->offset, "HASH is cut off");
  uint32_t kind = bq_load32(s->data), chunk = bq_load32(s->data + 4);
  if (kind != BQ_HASH_XXH64 && kind != BQ_HASH_SHA256)
    return bq_fail(err, BQ_UNSUPPORTED, s->offset, "unknown kind of chunk hashes, %u", kind);
  if (chunk != BQ_CHUNK)
    return bq_fail(err, BQ_UNSUPPORTED, s->offset + 4, "chunks of %u bytes, known are 1,048,576",
                   chunk);
  uint64_t chunks = (out->file_bytes - out->prefix_bytes + BQ_CHUNK - 1) / BQ_CHUNK;
  uint64_t bytes = 8 + chunks * (kind == BQ_HASH_XXH64 ? 8 : 32);
  if (s->bytes != bytes)
    return bq_fail(err, BQ_FORMAT, s->offset, "HASH has %l bytes, %l chunks take %l",
                   (uint64_t)s->bytes, chunks, bytes);
  out->hash_kind = (bq_hash_kind)kind;
  out->hashes = s->data + 8;
  return BQ_OK;
}

static bq_status read_rest(const bq_prefix_input *in, const header *h, bq_prefix *out,
                           bq_error *err) {
  size_t from = HEADER + (size_t)h->plan, sum = find_rest_sum(in->bytes, from, (size_t)h->prefix);
  if (!sum) return bq_fail(err, BQ_FORMAT, h->prefix, "the prefix does not end with its checksum");
  bq_status status = check_sum(in->bytes, 0, sum, "prefix", err);
  if (!status) status = bq_sections_read(in->bytes, from, sum, BQ_IN_REST, &out->sections, err);
  return status ? status : read_hashes(out, err);
}

/* Checks the magic and the version, as far as the first 8 bytes have arrived. */
static bq_status check_version(const bq_prefix_input *in, bq_error *err) {
  if (in->n >= 4 && bq_load32(in->bytes) != BQ_TAG('B', 'Q', '4', 'F'))
    return bq_fail(err, BQ_FORMAT, 0, "the file does not begin with \"BQ4F\"");
  if (in->n < 8) return BQ_OK;
  uint32_t version = bq_load32(in->bytes + 4);
  if (version == 1)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET,
                   "a version 1 file says nothing about its model: a manifest is needed");
  if (version == 2) return BQ_OK;
  return bq_fail(err, BQ_UNSUPPORTED, 4, "the file has version %u, known are 1 and 2", version);
}

bq_status bq_v2_read(const bq_prefix_input *in, bool full, uint64_t *need, bq_prefix *out,
                     bq_error *err) {
  header h = {0};
  bq_status status = check_version(in, err);
  if (status) return status;
  if (in->n < HEADER) return require_bytes(in, in->n < 8 ? 8 : HEADER, need, err);
  status = read_header(in, &h, err);
  if (status) return status;
  out->file_bytes = h.file;
  out->prefix_bytes = h.prefix;
  memcpy(out->id, in->bytes + FILE_ID, sizeof out->id);
  if (in->n < HEADER + h.plan) return require_bytes(in, HEADER + h.plan, need, err);
  status = read_plan(in, &h, out, err);
  if (status || !full) return status;
  if (in->n < h.prefix) return require_bytes(in, h.prefix, need, err);
  return read_rest(in, &h, out, err);
}
