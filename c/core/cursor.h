/* Cursor: a bounds-checked little-endian reader of bytes in memory. A read past the end sets `bad`
 * permanently, and it and all later reads return zeros. Callers check `bad` once, after a group of
 * reads. */
#ifndef BQ_CURSOR_H
#define BQ_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct bq_cursor {
  const uint8_t *data;
  size_t size, at;
  bool bad;
} bq_cursor;

static inline size_t bq_cursor_left(const bq_cursor *c) { return c->bad ? 0 : c->size - c->at; }

/* Returns the address of the next n bytes and moves past them; NULL if there are fewer. */
static inline const uint8_t *bq_cursor_bytes(bq_cursor *c, uint64_t n) {
  if (c->bad || n > c->size - c->at) {
    c->bad = true;
    return NULL;
  }
  const uint8_t *p = c->data + c->at;
  c->at += (size_t)n;
  return p;
}

static inline uint16_t bq_load16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t bq_load32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t bq_load64(const uint8_t *p) {
  return (uint64_t)bq_load32(p) | (uint64_t)bq_load32(p + 4) << 32;
}

static inline uint8_t bq_cursor_u8(bq_cursor *c) {
  const uint8_t *p = bq_cursor_bytes(c, 1);
  return p ? *p : 0;
}
static inline uint16_t bq_cursor_u16(bq_cursor *c) {
  const uint8_t *p = bq_cursor_bytes(c, 2);
  return p ? bq_load16(p) : 0;
}
static inline uint32_t bq_cursor_u32(bq_cursor *c) {
  const uint8_t *p = bq_cursor_bytes(c, 4);
  return p ? bq_load32(p) : 0;
}
static inline uint64_t bq_cursor_u64(bq_cursor *c) {
  const uint8_t *p = bq_cursor_bytes(c, 8);
  return p ? bq_load64(p) : 0;
}

#endif
