#include "text/normalize.h"

#include <string.h>

#include "core/cursor.h"
#include "text/utf8.h"

enum {
  RECORD = 12,    /* u32 first, u32 kind << 28 | last - first, u32 value */
  TO_TEXT = 0,    /* value: offset << 8 | bytes of the text that they become */
  TO_OTHER = 1,   /* value: difference to the character that each becomes */
  TO_JAMO = 2,    /* Hangul syllables: to the letters that they are made of */
  TO_AROUND = 3,  /* the text of `value` before and behind each */
  KINDS = 4,
  LOOK = 128
};

typedef struct record {
  uint32_t first, last, kind, value;
} record;

static record record_at(const bq_step *s, uint32_t i) {
  const uint8_t *p = s->records + RECORD * (size_t)i;
  uint32_t first = bq_load32(p), rest = bq_load32(p + 4);
  return (record){first, first + (rest & 0xfffffff), rest >> 28, bq_load32(p + 8)};
}

static bool record_of(const bq_step *s, uint32_t code_point, record *out) {
  uint32_t low = 0, high = s->n; /* the first record that begins behind it is in [low, high] */
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

static size_t put_text(const bq_step *s, uint32_t value, uint8_t *to) {
  memcpy(to, s->text + (value >> 8), value & 255);
  return value & 255;
}

/* Leading consonant, vowel and, perhaps, trailing consonant (the Unicode Standard, 3.12). */
static size_t put_jamo(uint32_t code_point, uint8_t *to) {
  uint32_t at = code_point - 0xac00, tail = at % 28;
  size_t n = bq_utf8_encode(0x1100 + at / 588, to);
  n += bq_utf8_encode(0x1161 + at % 588 / 28, to + n);
  return tail ? n + bq_utf8_encode(0x11a7 + tail, to + n) : n;
}

static size_t put_record(const bq_step *s, const record *r, uint32_t code_point, uint8_t *to) {
  size_t n = 0;
  switch (r->kind) {
  case TO_TEXT: return put_text(s, r->value, to);
  case TO_OTHER: return bq_utf8_encode(code_point + r->value, to);
  case TO_JAMO: return put_jamo(code_point, to);
  default:
    n = put_text(s, r->value, to);
    n += bq_utf8_encode(code_point, to + n);
    return n + put_text(s, r->value, to + n);
  }
}

static size_t map_text(const bq_step *s, const uint8_t *text, size_t bytes, uint8_t *to) {
  size_t n = 0;
  for (size_t at = 0; at < bytes;) {
    if (text[at] < 0x80 && s->ascii[text[at]] != LOOK) {
      to[n++] = s->ascii[text[at++]];
      continue;
    }
    uint32_t code_point;
    record r;
    unsigned length = bq_utf8_decode(text + at, bytes - at, &code_point);
    if (code_point != BQ_UTF8_BAD && record_of(s, code_point, &r)) {
      n += put_record(s, &r, code_point, to + n);
    } else {
      memcpy(to + n, text + at, length);
      n += length;
    }
    at += length;
  }
  return n;
}

/* Bytes of what a code point becomes by a valid record. */
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

static bool check_record(const bq_step *s, const record *r) {
  if (r->kind >= KINDS || r->last > 0x10ffff) return false;
  if (r->kind == TO_JAMO) return r->first >= 0xac00 && r->last <= 0xd7a3;
  if (r->kind != TO_OTHER) return (uint64_t)(r->value >> 8) + (r->value & 255) <= s->text_bytes;
  uint32_t first = r->first + r->value, last = r->last + r->value;
  if (!is_character(first) || !is_character(last) || first > last) return false;
  return first > 0xdfff || last < 0xd800;
}

/* u32 n, u32 bytes of text, n records, text */
static bool read_map(const uint8_t *bytes, size_t n, bq_step *s) {
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
    uint32_t own = bq_utf8_bytes(r.first), most = record_bytes(&r, r.last);
    uint32_t growth = (most + own - 1) / own; /* larger ones may be shorter, never longer */
    if (growth > s->growth) s->growth = growth;
    for (uint32_t c = r.first; c < 128 && c <= r.last; c++) {
      bool one = r.kind == TO_OTHER && c + r.value < 128;
      s->ascii[c] = one ? (uint8_t)(c + r.value) : LOOK;
    }
  }
  return true;
}

/* --- steps ------------------------------------------------------------------------------------ */

bool bq_step_read(uint32_t type, const uint8_t *bytes, size_t n, bq_step *out) {
  *out = (bq_step){.type = (bq_step_type)type, .growth = 1};
  switch (type) {
  case BQ_STEP_MAP: return read_map(bytes, n, out);
  default: return false;
  }
}

uint64_t bq_normalize_limit(const bq_step *steps, uint32_t n, uint64_t bytes) {
  for (uint32_t i = 0; i < n; i++) {
    if (bytes > UINT64_MAX / 1024) return UINT64_MAX;
    bytes *= steps[i].growth;
  }
  return bytes;
}

const uint8_t *bq_normalize(const bq_step *steps, uint32_t n, const uint8_t *text, size_t *bytes,
                            uint8_t *buffers[2]) {
  for (uint32_t i = 0; i < n; i++) {
    uint8_t *to = buffers[i % 2];
    *bytes = map_text(&steps[i], text, *bytes, to);
    text = to;
  }
  return text;
}
