#include "text/normalize.h"

#include <string.h>

#include "core/cursor.h"
#include "text/charsmap.h"
#include "text/compose.h"
#include "text/out.h"
#include "text/split.h"
#include "text/utf8.h"

enum {
  RECORD = 12,    /* u32 first, u32 kind << 28 | last - first, u32 value */
  TO_TEXT = 0,    /* value: offset << 8 | bytes of the replacement */
  TO_OTHER = 1,   /* value: difference to the replacement character */
  TO_JAMO = 2,    /* Hangul syllables are decomposed */
  TO_AROUND = 3,  /* the text of `value` is added before and after each */
  KINDS = 4,
  LOOK_UP = 128
};

typedef struct record {
  uint32_t first, last, kind, value;
} record;

static record record_at(const bq_normalizer *s, uint32_t i) {
  const uint8_t *p = s->records + RECORD * (size_t)i;
  uint32_t first = bq_load32(p), rest = bq_load32(p + 4);
  return (record){first, first + (rest & 0xfffffff), rest >> 28, bq_load32(p + 8)};
}

static bool record_of(const bq_normalizer *s, uint32_t code_point, record *out) {
  uint32_t low = 0, high = s->n; /* the first record that begins after it is in [low, high] */
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (bq_load32(s->records + RECORD * (size_t)middle) <= code_point) low = middle + 1;
    else high = middle;
  }
  if (!low) return false;
  *out = record_at(s, low - 1);
  return code_point <= out->last;
}

/* --- mapping ---------------------------------------------------------------------------------- */

static void put_text(const bq_normalizer *s, uint32_t value, bq_out *out) {
  bq_out_text(out, s->text + (value >> 8), value & 255);
}

/* Leading consonant, vowel and, perhaps, trailing consonant (the Unicode Standard, 3.12). */
static void put_jamo(uint32_t code_point, bq_out *out) {
  uint32_t at = code_point - 0xac00, tail = at % 28;
  bq_out_character(out, 0x1100 + at / 588);
  bq_out_character(out, 0x1161 + at % 588 / 28);
  if (tail) bq_out_character(out, 0x11a7 + tail);
}

static void put_record(const bq_normalizer *s, const record *r, uint32_t code_point, bq_out *out) {
  switch (r->kind) {
  case TO_TEXT: put_text(s, r->value, out); break;
  case TO_OTHER: bq_out_character(out, code_point + r->value); break;
  case TO_JAMO: put_jamo(code_point, out); break;
  default:
    put_text(s, r->value, out);
    bq_out_character(out, code_point);
    put_text(s, r->value, out);
  }
}

static void map_text(const bq_normalizer *s, const uint8_t *text, size_t bytes, bq_out *out) {
  for (size_t at = 0; at < bytes;) {
    if (text[at] < 0x80 && s->ascii[text[at]] != LOOK_UP) {
      bq_out_byte(out, s->ascii[text[at++]]);
      continue;
    }
    uint32_t code_point;
    record r;
    unsigned length = bq_utf8_decode(text + at, bytes - at, &code_point);
    if (code_point != BQ_UTF8_BAD && record_of(s, code_point, &r))
      put_record(s, &r, code_point, out);
    else bq_out_text(out, text + at, length);
    at += length;
  }
}

/* Bytes of the replacement of a code point by a valid record. */
static uint32_t record_bytes(const record *r, uint32_t code_point) {
  uint32_t own = bq_utf8_bytes(code_point);
  switch (r->kind) {
  case TO_TEXT: return r->value & 255;
  case TO_OTHER: return bq_utf8_bytes(code_point + r->value);
  case TO_JAMO: return 9;
  default: return own + 2 * (r->value & 255);
  }
}

static bool is_character(uint32_t code_point) {
  return code_point <= 0x10ffff && (code_point < 0xd800 || code_point > 0xdfff);
}

static bool check_record(const bq_normalizer *s, const record *r) {
  if (r->kind >= KINDS || r->last > 0x10ffff) return false;
  if (r->kind == TO_JAMO) return r->first >= 0xac00 && r->last <= 0xd7a3;
  if (r->kind != TO_OTHER) return (uint64_t)(r->value >> 8) + (r->value & 255) <= s->text_bytes;
  uint32_t first = r->first + r->value, last = r->last + r->value;
  if (!is_character(first) || !is_character(last) || first > last) return false;
  return first > 0xdfff || last < 0xd800;
}

/* u32 n, u32 bytes of text, n records, text */
static bool read_map(const uint8_t *bytes, size_t n, bq_normalizer *s) {
  if (n < 8) return false;
  s->n = bq_load32(bytes);
  s->text_bytes = bq_load32(bytes + 4);
  if (8 + RECORD * (uint64_t)s->n + ((uint64_t)s->text_bytes + 3) / 4 * 4 != n) return false;
  s->records = bytes + 8;
  s->text = s->records + RECORD * (size_t)s->n;
  for (uint32_t c = 0; c < 128; c++) s->ascii[c] = (uint8_t)c;
  uint32_t next = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    record r = record_at(s, i);
    if (r.first < next || !check_record(s, &r)) return false;
    next = r.last + 1;
    uint32_t own = bq_utf8_bytes(r.first), max = record_bytes(&r, r.last);
    uint32_t growth = (max + own - 1) / own; /* larger code points never have fewer bytes */
    if (growth > s->growth) s->growth = growth;
    for (uint32_t c = r.first; c < 128 && c <= r.last; c++) {
      bool one = r.kind == TO_OTHER && c + r.value < 128;
      s->ascii[c] = one ? (uint8_t)(c + r.value) : LOOK_UP;
    }
  }
  return true;
}

/* --- texts ------------------------------------------------------------------------------------ */

/* u32 flags, u32 bytes, text */
static bool read_prefix(const uint8_t *bytes, size_t n, bq_normalizer *s) {
  if (n < 8) return false;
  s->flags = bq_load32(bytes);
  s->text_bytes = s->extra = bq_load32(bytes + 4);
  s->text = bytes + 8;
  return s->flags < 4 && 8 + ((uint64_t)s->text_bytes + 3) / 4 * 4 == n;
}

static bool has_prefix(const uint8_t *text, size_t bytes, const uint8_t *with, size_t n) {
  return bytes >= n && memcmp(text, with, n) == 0;
}

static void put_prefix(const bq_normalizer *s, uint32_t position, const uint8_t *text, size_t bytes,
                       bq_out *out) {
  bool adds_prefix = bytes && (!(s->flags & BQ_PREFIX_AT_START) || position & BQ_TEXT_FIRST);
  bool present = has_prefix(text, bytes, s->text, s->text_bytes);
  if (adds_prefix && !(present && s->flags & BQ_PREFIX_UNLESS_PRESENT))
    bq_out_text(out, s->text, s->text_bytes);
  bq_out_text(out, text, bytes);
}

static bool read_spaces(const uint8_t *bytes, size_t n, bq_normalizer *s) {
  if (n != 4) return false;
  s->flags = bq_load32(bytes);
  return s->flags < (s->type == BQ_NORMALIZER_TRIM ? 4u : 16u);
}

static void put_spaces(const bq_normalizer *s, uint32_t position, const uint8_t *text, size_t bytes,
                       bq_out *out) {
  if (s->flags & BQ_SPACES_OF_EACH_PART) position = BQ_TEXT_BEGINS | BQ_TEXT_ENDS;
  size_t at = 0;
  if (s->flags & BQ_SPACES_TRAILING && position & BQ_TEXT_ENDS)
    while (bytes && text[bytes - 1] == ' ') bytes--;
  if (s->flags & BQ_SPACES_LEADING && position & BQ_TEXT_BEGINS)
    while (at < bytes && text[at] == ' ') at++;
  for (; at < bytes; at++)
    if (!(s->flags & BQ_SPACES_REPEATED && text[at] == ' ' && at + 1 < bytes &&
          text[at + 1] == ' '))
      bq_out_byte(out, text[at]);
}

static void put_trimmed(const bq_normalizer *s, const uint8_t *text, size_t bytes, bq_out *out) {
  size_t begin = bytes, end = 0;
  for (size_t at = 0, length; at < bytes; at += length) {
    uint32_t code_point;
    length = bq_utf8_decode(text + at, bytes - at, &code_point);
    if (bq_char_class(code_point) == BQ_CHAR_CLASS_SPACE) continue;
    if (begin == bytes) begin = at;
    end = at + length;
  }
  if (!(s->flags & BQ_SPACES_LEADING)) begin = 0;
  if (!(s->flags & BQ_SPACES_TRAILING)) end = bytes;
  if (end > begin) bq_out_text(out, text + begin, end - begin);
}

/* u32 bytes of the replaced text, u32 bytes of its replacement, both texts */
static bool read_replace(const uint8_t *bytes, size_t n, bq_normalizer *s) {
  if (n < 8) return false;
  s->n = bq_load32(bytes);
  s->text_bytes = bq_load32(bytes + 4);
  if (!s->n || s->n > 1024 || s->text_bytes > 1024 ||
      8 + ((uint64_t)s->n + s->text_bytes + 3) / 4 * 4 != n)
    return false;
  s->records = bytes + 8;
  s->text = s->records + s->n;
  s->growth = s->text_bytes > s->n ? (s->text_bytes + s->n - 1) / s->n : 1;
  return true;
}

static void put_replaced(const bq_normalizer *s, const uint8_t *text, size_t bytes, bq_out *out) {
  for (size_t at = 0; at < bytes;) {
    if (has_prefix(text + at, bytes - at, s->records, s->n)) {
      bq_out_text(out, s->text, s->text_bytes);
      at += s->n;
    } else bq_out_byte(out, text[at++]);
  }
}

/* --- steps ------------------------------------------------------------------------------------ */

bool bq_normalizer_read(uint32_t type, const uint8_t *bytes, size_t n, bq_normalizer *out) {
  *out = (bq_normalizer){.type = (bq_normalizer_type)type, .growth = 1};
  switch (type) {
  case BQ_NORMALIZER_MAP: return read_map(bytes, n, out);
  case BQ_NORMALIZER_PREFIX: return read_prefix(bytes, n, out);
  case BQ_NORMALIZER_SPACES:
  case BQ_NORMALIZER_TRIM: return read_spaces(bytes, n, out);
  case BQ_NORMALIZER_CHARSMAP: return bq_charsmap_read(bytes, n, out);
  case BQ_NORMALIZER_ORDER: return bq_order_read(bytes, n, out);
  case BQ_NORMALIZER_COMPOSE: return bq_compose_read(bytes, n, out);
  case BQ_NORMALIZER_REPLACE: return read_replace(bytes, n, out);
  default: return false;
  }
}

static void run_step(const bq_normalizer *s, uint32_t position, const uint8_t *text, size_t bytes,
                     bq_out *out) {
  switch (s->type) {
  case BQ_NORMALIZER_MAP: map_text(s, text, bytes, out); break;
  case BQ_NORMALIZER_PREFIX: put_prefix(s, position, text, bytes, out); break;
  case BQ_NORMALIZER_SPACES: put_spaces(s, position, text, bytes, out); break;
  case BQ_NORMALIZER_CHARSMAP: bq_charsmap(s, text, bytes, out); break;
  case BQ_NORMALIZER_ORDER: bq_order(s, text, bytes, out); break;
  case BQ_NORMALIZER_COMPOSE: bq_compose(s, text, bytes, out); break;
  case BQ_NORMALIZER_REPLACE: put_replaced(s, text, bytes, out); break;
  case BQ_NORMALIZER_TRIM: put_trimmed(s, text, bytes, out); break;
  case BQ_NORMALIZER_TYPES: break;
  }
}

uint64_t bq_normalize_limit(const bq_normalizer *steps, uint32_t n, uint64_t bytes) {
  for (uint32_t i = 0; i < n; i++) {
    if (bytes > UINT64_MAX / 4096) return UINT64_MAX;
    bytes = bytes * steps[i].growth + steps[i].extra;
  }
  return bytes;
}

const uint8_t *bq_normalize(const bq_normalizer *steps, uint32_t n, uint32_t position,
                            const uint8_t *text, size_t *bytes, uint8_t *const buffers[2],
                            size_t room) {
  for (uint32_t i = 0; i < n; i++) {
    bq_out out = {buffers[i % 2], room, 0};
    run_step(&steps[i], position, text, *bytes, &out);
    if (out.n > room) return NULL;
    *bytes = out.n;
    text = out.to;
  }
  return text;
}
