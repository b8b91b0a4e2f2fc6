/* Unicode's canonical forms (the Unicode Standard, 3.11): reorders marks by combining class, and
 * composes characters with the marks after them. Texts are decomposed before. */
#include "core/cursor.h"
#include "text/compose.h"
#include "text/utf8.h"

enum { MARKS = 8, PAIRS = 12, RANKS = 64 };
/* Hangul: leading consonants, vowels, trailing consonants (none is one of them), syllables. */
enum { L = 0x1100, V = 0x1161, T = 0x11a7, S = 0xac00, LS = 19, VS = 21, TS = 28 };

/* --- order ------------------------------------------------------------------------------------ */

/* Rank of a mark's combining class; 0: it isn't reordered. */
static uint32_t rank_of(const uint8_t *marks, uint32_t n, uint32_t code_point) {
  uint32_t low = 0, high = n; /* the first run that begins after it is in [low, high] */
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (bq_load32(marks + MARKS * (size_t)middle) <= code_point) low = middle + 1;
    else high = middle;
  }
  if (!low) return 0;
  const uint8_t *run = marks + MARKS * (size_t)(low - 1);
  uint32_t rest = bq_load32(run + 4);
  return code_point - bq_load32(run) < rest >> 8 ? rest & 255 : 0;
}

/* u32 n; n runs of marks of one class, rising: u32 first, u32 number << 8 | rank */
static bool read_marks(const uint8_t *bytes, uint32_t n) {
  uint64_t next = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t first = bq_load32(bytes + MARKS * (size_t)i);
    uint32_t rest = bq_load32(bytes + MARKS * (size_t)i + 4);
    if (first < next || (rest & 255) == 0 || (rest & 255) >= RANKS) return false;
    next = (uint64_t)first + (rest >> 8);
  }
  return next <= 0x110000;
}

bool bq_order_read(const uint8_t *bytes, size_t n, bq_normalizer *out) {
  if (n < 4) return false;
  out->n = bq_load32(bytes);
  out->records = bytes + 4;
  return 4 + MARKS * (uint64_t)out->n == n && read_marks(out->records, out->n);
}

/* Bytes of the run of marks at the start. *is_unordered: whether their ranks are out of order;
 * *ranks: set of their ranks. */
static size_t marks_at(const bq_normalizer *s, const uint8_t *text, size_t left, bool *is_unordered,
                       uint64_t *ranks) {
  size_t at = 0;
  uint32_t before = 0, code_point, rank;
  *is_unordered = false;
  *ranks = 0;
  while (at < left && text[at] >= 0xcc) { /* no mark is before U+0300 */
    unsigned length = bq_utf8_decode(text + at, left - at, &code_point);
    rank = code_point == BQ_UTF8_BAD ? 0 : rank_of(s->records, s->n, code_point);
    if (!rank) break;
    *is_unordered |= rank < before;
    *ranks |= 1ull << rank;
    before = rank;
    at += length;
  }
  return at;
}

void bq_order(const bq_normalizer *s, const uint8_t *text, size_t bytes, bq_out *out) {
  for (size_t at = 0; at < bytes;) {
    bool is_unordered;
    uint64_t ranks;
    size_t run = marks_at(s, text + at, bytes - at, &is_unordered, &ranks);
    if (!run) {
      bq_out_byte(out, text[at++]);
      continue;
    }
    if (!is_unordered) bq_out_text(out, text + at, run);
    for (uint32_t rank = 1; is_unordered && rank < RANKS; rank++) {
      if (!(ranks >> rank & 1)) continue;
      for (size_t i = 0; i < run;) { /* marks of equal rank keep their order */
        uint32_t code_point;
        unsigned length = bq_utf8_decode(text + at + i, run - i, &code_point);
        if (rank_of(s->records, s->n, code_point) == rank) bq_out_text(out, text + at + i, length);
        i += length;
      }
    }
    at += run;
  }
}

/* --- composing -------------------------------------------------------------------------------- */

/* u32 marks, u32 pairs, marks as above; pairs, rising: u32 first, u32 second, u32 composed */
bool bq_compose_read(const uint8_t *bytes, size_t n, bq_normalizer *out) {
  if (n < 8) return false;
  out->n = bq_load32(bytes);
  out->flags = bq_load32(bytes + 4); /* pairs */
  if (8 + MARKS * (uint64_t)out->n + PAIRS * (uint64_t)out->flags != n) return false;
  out->records = bytes + 8;
  out->text = out->records + MARKS * (size_t)out->n;
  if (!read_marks(out->records, out->n)) return false;
  for (uint32_t i = 0; i < out->flags; i++) {
    const uint8_t *pair = out->text + PAIRS * (size_t)i;
    uint32_t first = bq_load32(pair), second = bq_load32(pair + 4), composed = bq_load32(pair + 8);
    if (first > 0x10ffff || second > 0x10ffff || composed > 0x10ffff) return false;
    if (bq_utf8_bytes(composed) > bq_utf8_bytes(first) + bq_utf8_bytes(second)) return false;
    if (!i) continue;
    uint32_t a = bq_load32(pair - PAIRS), b = bq_load32(pair - PAIRS + 4);
    if (a > first || (a == first && b >= second)) return false;
  }
  return true;
}

/* The composition of two characters; 0: none. */
static uint32_t composed(const bq_normalizer *s, uint32_t a, uint32_t b) {
  if (a - L < LS && b - V < VS) return S + ((a - L) * VS + (b - V)) * TS;
  if (a - S < LS * VS * TS && (a - S) % TS == 0 && b - T < TS && b != T) return a + (b - T);
  uint32_t low = 0, high = s->flags;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const uint8_t *pair = s->text + PAIRS * (size_t)middle;
    uint32_t first = bq_load32(pair), second = bq_load32(pair + 4);
    if (first == a && second == b) return bq_load32(pair + 8);
    if (first < a || (first == a && second < b)) low = middle + 1;
    else high = middle;
  }
  return 0;
}

/* Composes the starter with the marks after it, and returns the bytes of the marks. Marks that are
 * not composed are written to `out`, unless it is NULL. A mark is blocked by a mark of the same or
 * a higher class between it and the starter. */
static size_t compose_marks(const bq_normalizer *s, uint32_t *starter, const uint8_t *text,
                            size_t left, bq_out *out) {
  uint32_t before = 0;
  bool between = false; /* a mark that is not composed is in between */
  size_t at = 0;
  while (at < left) {
    if (text[at] < 0xcc) return at; /* no character before U+0300 composes with the one before it */
    uint32_t code_point;
    unsigned length = bq_utf8_decode(text + at, left - at, &code_point);
    if (code_point == BQ_UTF8_BAD) return at;
    uint32_t rank = rank_of(s->records, s->n, code_point), composite = 0;
    if (rank ? !between || before < rank : !between) composite = composed(s, *starter, code_point);
    if (!rank && !composite) return at;
    if (composite) *starter = composite;
    else {
      if (out) bq_out_text(out, text + at, length);
      between = true;
      before = rank;
    }
    at += length;
  }
  return at;
}

void bq_compose(const bq_normalizer *s, const uint8_t *text, size_t bytes, bq_out *out) {
  for (size_t at = 0; at < bytes;) {
    if (text[at] < 0x80 && (at + 1 == bytes || text[at + 1] < 0xcc)) {
      bq_out_byte(out, text[at++]);
      continue;
    }
    uint32_t code_point;
    unsigned length = bq_utf8_decode(text + at, bytes - at, &code_point);
    if (code_point == BQ_UTF8_BAD || rank_of(s->records, s->n, code_point)) {
      bq_out_text(out, text + at, length);
      at += length;
      continue;
    }
    at += length;
    uint32_t starter = code_point, again = code_point;
    compose_marks(s, &starter, text + at, bytes - at, NULL);
    bq_out_character(out, starter);
    at += compose_marks(s, &again, text + at, bytes - at, out);
  }
}
