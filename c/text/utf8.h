/* UTF-8, well-formed as in the Unicode Standard, table 3-7. */
#ifndef BQ_UTF8_H
#define BQ_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BQ_UTF8_BAD UINT32_MAX /* in place of a code point: a byte of no well-formed sequence */

/* Length of the sequence that begins with `lead`: 1…4, or 0 if no sequence begins so. */
static inline unsigned bq_utf8_length(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* Whether `byte` may be byte `i` (1…3) of a sequence that begins with `lead`. For some leads the
 * range of the second byte is narrower, to exclude overlong forms, surrogates and numbers above
 * U+10FFFF. */
static inline bool bq_utf8_continues(uint8_t lead, unsigned i, uint8_t byte) {
  uint8_t low = 0x80, high = 0xbf;
  if (i == 1) {
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  }
  return byte >= low && byte <= high;
}

/* Decodes one code point of the n >= 1 bytes at p and returns its length: BQ_UTF8_BAD and 1 if no
 * well-formed sequence begins there. */
static inline unsigned bq_utf8_decode(const uint8_t *p, size_t n, uint32_t *code_point) {
  unsigned length = bq_utf8_length(p[0]);
  *code_point = BQ_UTF8_BAD;
  if (!length || length > n) return 1;
  uint32_t c = length == 1 ? p[0] : p[0] & (0x7fu >> length);
  for (unsigned i = 1; i < length; i++) {
    if (!bq_utf8_continues(p[0], i, p[i])) return 1;
    c = c << 6 | (p[i] & 0x3fu);
  }
  *code_point = c;
  return length;
}

/* Length of the encoding of a code point <= U+10FFFF. */
static inline unsigned bq_utf8_bytes(uint32_t code_point) {
  return code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
}

/* Encodes a code point <= U+10FFFF and returns the number of bytes. */
static inline unsigned bq_utf8_encode(uint32_t code_point, uint8_t *to) {
  unsigned n = bq_utf8_bytes(code_point);
  if (n == 1) {
    to[0] = (uint8_t)code_point;
    return 1;
  }
  for (unsigned i = n; i-- > 1; code_point >>= 6) to[i] = (uint8_t)(0x80 | (code_point & 0x3f));
  to[0] = (uint8_t)(0xf00u >> n | code_point);
  return n;
}

#endif
