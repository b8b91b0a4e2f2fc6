/* The manifest of a foreign container, such as a v1 file: sections that the host made from its
 * contents (docs/FORMAT.md §4). */
#include <string.h>

#include "core/cursor.h"
#include "format/manifest.h"

enum { MIN_EXTRA_BYTES = 12 };

/* XTRA begins with the number of its tensors. */
static bq_status read_extra(bq_prefix *out, bq_error *err) {
  const bq_section *s = bq_sections_find(&out->sections, BQ_TAG_XTRA);
  if (!s) return BQ_OK;
  if (s->bytes < 4 || bq_load32(s->data) > (s->bytes - 4) / MIN_EXTRA_BYTES)
    return bq_fail(err, BQ_FORMAT, s->offset, "XTRA announces more tensors than it can hold");
  out->extra = *s;
  return BQ_OK;
}

static bq_status read_file_id(bq_prefix *out, bq_error *err) {
  const bq_section *s = bq_sections_find(&out->sections, BQ_TAG_FILE);
  if (!s) return BQ_OK;
  if (s->bytes != BQ_FILE_ID_BYTES)
    return bq_fail(err, BQ_FORMAT, s->offset, "FILE has %l bytes, an id takes %u",
                   (uint64_t)s->bytes, BQ_FILE_ID_BYTES);
  memcpy(out->id, s->data, sizeof out->id);
  return BQ_OK;
}

bq_status bq_manifest_read(const bq_prefix_input *in, bq_prefix *out, bq_error *err) {
  bq_status status =
      bq_sections_read(in->manifest, 0, in->manifest_bytes, BQ_IN_MANIFEST, &out->sections, err);
  if (status) return status;
  const bq_section *conf = bq_sections_find(&out->sections, BQ_TAG_CONF);
  const bq_section *tens = bq_sections_find(&out->sections, BQ_TAG_TENS);
  if (!conf || !tens)
    return bq_fail(err, BQ_FORMAT, 0, "the manifest has no %s section", conf ? "TENS" : "CONF");
  out->directory = *tens;
  out->file_bytes = in->file_bytes;
  status = bq_config_read(conf->data, conf->bytes, conf->offset, &out->config, err);
  if (!status) status = read_extra(out, err);
  return status ? status : read_file_id(out, err);
}
