/* SentencePiece's "precompiled_charsmap": u32 bytes of a double-array trie (Yata's Darts-clone),
 * its units of u32, then zero-terminated texts. The longest key of the trie at the current position
 * is replaced by the text that its value points to. */
#include "core/cursor.h"
#include "text/charsmap.h"
#include "text/utf8.h"

static uint32_t unit_at(const bq_normalizer *s, uint32_t i) {
  return i < s->n ? bq_load32(s->records + 4 * (size_t)i)
                  : 0x100; /* a unit whose label is no byte */
}
static bool has_value(uint32_t unit) { return unit >> 8 & 1; }
static uint32_t label(uint32_t unit) { return unit & 0x800000ffu; }
static uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

/* u32 bytes of the map, the map */
bool bq_charsmap_read(const uint8_t *bytes, size_t n, bq_normalizer *out) {
  if (n < 8) return false;
  uint32_t size = bq_load32(bytes), trie = bq_load32(bytes + 4);
  if (4 + ((uint64_t)size + 3) / 4 * 4 != n || size < 4 || trie > size - 4 || trie % 4)
    return false;
  out->n = trie / 4;
  out->records = bytes + 8;
  out->text = out->records + trie;
  out->text_bytes = size - 4 - trie;
  if (!out->n || !out->text_bytes || out->text[out->text_bytes - 1]) return false;
  for (uint32_t i = 0, begin = 0; i < out->text_bytes; i++) {
    if (out->text[i]) continue;
    /* The worst case is a key of one byte. */
    if (i - begin > out->growth) out->growth = i - begin;
    begin = i + 1;
  }
  return out->growth <= 1024;
}

/* Maximum bytes of a key; a malicious trie may contain a cycle. */
enum { KEY_MAX = 256 };

/* Length of the longest key at the start of the text, and the offset of its replacement; 0:
 * none. */
static size_t match_longest(const bq_normalizer *s, const uint8_t *text, size_t bytes,
                            uint32_t *value) {
  size_t found = 0;
  if (bytes > KEY_MAX) bytes = KEY_MAX;
  uint32_t node = offset(unit_at(s, 0));
  for (size_t i = 0; i < bytes; i++) {
    uint32_t unit = unit_at(s, node ^= text[i]);
    if (node >= s->n || label(unit) != text[i]) break;
    node ^= offset(unit);
    if (!has_value(unit)) continue;
    uint32_t own = unit_at(s, node) & 0x7fffffff;
    if (own >= s->text_bytes) break;
    *value = own;
    found = i + 1;
  }
  return found;
}

void bq_charsmap(const bq_normalizer *s, const uint8_t *text, size_t bytes, bq_out *out) {
  for (size_t at = 0; at < bytes;) {
    uint32_t value = 0, code_point;
    size_t length = match_longest(s, text + at, bytes - at, &value);
    if (length) {
      for (const uint8_t *p = s->text + value; *p; p++) bq_out_byte(out, *p);
    } else {
      length = bq_utf8_decode(text + at, bytes - at, &code_point);
      bq_out_text(out, text + at, length);
    }
    at += length;
  }
}
