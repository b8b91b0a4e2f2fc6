#include "format/section.h"

#include <string.h>

#include "core/cursor.h"

enum { REQUIRED = 1 };

static const struct {
  uint32_t tag;
  uint32_t places;
} known[] = {
    {BQ_TAG_CONF, BQ_IN_PLAN | BQ_IN_MANIFEST},
    {BQ_TAG_LICE, BQ_IN_PLAN | BQ_IN_MANIFEST},
    {BQ_TAG_NAME, BQ_IN_PLAN | BQ_IN_MANIFEST},
    {BQ_TAG_TENS, BQ_IN_PLAN | BQ_IN_MANIFEST},
    {BQ_TAG_TOKN, BQ_IN_REST | BQ_IN_MANIFEST},
    {BQ_TAG_CHAT, BQ_IN_REST | BQ_IN_MANIFEST},
    {BQ_TAG_TMPL, BQ_IN_REST | BQ_IN_MANIFEST},
    {BQ_TAG_CARD, BQ_IN_REST | BQ_IN_MANIFEST},
    {BQ_TAG_ACTQ, BQ_IN_REST | BQ_IN_MANIFEST},
    {BQ_TAG_HASH, BQ_IN_REST},
    {BQ_TAG_XTRA, BQ_IN_MANIFEST},
    {BQ_TAG_FILE, BQ_IN_MANIFEST},
    {BQ_TAG_SUM8, 0},
};

/* Where a tag may occur; 0 with *is_known false for a tag of a later version. */
static uint32_t places_of(uint32_t tag, bool *is_known) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (known[i].tag != tag) continue;
    *is_known = true;
    return known[i].places;
  }
  *is_known = false;
  return 0;
}

static bq_status check_head(const uint8_t *head, uint64_t at, bq_place place,
                            const bq_sections *before, bq_error *err) {
  uint32_t tag = bq_load32(head), flags = bq_load32(head + 4);
  size_t four = 4;
  for (size_t i = 0; i < 4; i++)
    if (head[i] < 0x21 || head[i] > 0x7e)
      return bq_fail(err, BQ_FORMAT, at, "a section's tag is not four ASCII characters");
  if (flags & ~(uint32_t)REQUIRED)
    return bq_fail(err, BQ_UNSUPPORTED, at, "section %S has unknown flags %u", head, four, flags);
  bool is_known;
  uint32_t places = places_of(tag, &is_known);
  if (!is_known && flags & REQUIRED)
    return bq_fail(err, BQ_UNSUPPORTED, at, "the file requires section %S, unknown here", head,
                   four);
  if (tag == BQ_TAG_ACTQ && flags & REQUIRED)
    return bq_fail(err, BQ_UNSUPPORTED, at,
                   "the file requires its own steps of activations (ACTQ): here they are chosen "
                   "as it computes");
  if (is_known && !(places & place))
    return bq_fail(err, BQ_FORMAT, at, "section %S is in the wrong place", head, four);
  if (bq_sections_find(before, tag))
    return bq_fail(err, BQ_FORMAT, at, "section %S appears twice", head, four);
  return BQ_OK;
}

bq_status bq_sections_read(const uint8_t *file, size_t from, size_t to, bq_place place,
                           bq_sections *out, bq_error *err) {
  while (from < to) {
    if (to - from < BQ_SECTION_HEAD)
      return bq_fail(err, BQ_FORMAT, from, "%l bytes are too few for a section",
                     (uint64_t)(to - from));
    const uint8_t *head = file + from;
    bq_status status = check_head(head, from, place, out, err);
    if (status) return status;
    uint64_t bytes = bq_load64(head + 8), left = to - from - BQ_SECTION_HEAD;
    if (bytes > left || (bytes + 7) / 8 * 8 > left)
      return bq_fail(err, BQ_FORMAT, from + 8, "section %S announces %l bytes where %l are left",
                     head, (size_t)4, bytes, left);
    if (out->n == BQ_SECTIONS_MAX)
      return bq_fail(err, BQ_FORMAT, from, "there are more than %u sections", (uint32_t)out->n);
    size_t start = from + BQ_SECTION_HEAD, end = start + (size_t)bytes;
    out->list[out->n++] = (bq_section){bq_load32(head), (size_t)bytes, file + start, start};
    for (from = end; from % 8 && from < to; from++)
      if (file[from]) return bq_fail(err, BQ_FORMAT, from, "padding is not zero");
  }
  return BQ_OK;
}

const bq_section *bq_sections_find(const bq_sections *sections, uint32_t tag) {
  for (uint32_t i = 0; i < sections->n; i++)
    if (sections->list[i].tag == tag) return &sections->list[i];
  return NULL;
}
