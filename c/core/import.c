#include "core/import.h"

#include <string.h>

/* GGUF's nibbles: byte i holds weight i (low) and 16 + i (high), unsigned. Here byte i holds 2i and
 * 2i + 1. `flip` is 0x88 where the run type's are two's complement: q - 8 has the bits of q ^ 8. */
static void reorder_nibbles(const uint8_t *src, uint8_t flip, uint8_t *dst) {
  for (int i = 0; i < 8; i++) {
    dst[i] = (uint8_t)((src[2 * i] & 15) | (src[2 * i + 1] & 15) << 4) ^ flip;
    dst[8 + i] = (uint8_t)(src[2 * i] >> 4 | (src[2 * i + 1] & 0xf0)) ^ flip;
  }
}

/* f16 scale, 16 bytes: q = nibble - 8. */
static void import_q4_0(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 18, dst += 18) {
    reorder_nibbles(src + 2, 0x88, dst);
    memcpy(dst + 16, src, 2);
  }
}

/* f16 scale, f16 minimum, 16 bytes: q = nibble. */
static void import_q4_1(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 20, dst += 20) {
    reorder_nibbles(src + 4, 0, dst);
    memcpy(dst + 16, src, 4);
  }
}

/* f16 scale, 32 bytes: q is two's complement. */
static void import_q8_0(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 34, dst += 34) {
    memcpy(dst, src + 2, 32);
    memcpy(dst + 32, src, 2);
  }
}

/* f16 scale, 4 bytes of fifth bits (bit i of them: weight i), 16 bytes of the other four as in Q4_0:
 * q - 16. */
static void import_q5_0(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 22, dst += 34) {
    for (int i = 0; i < 32; i++) {
      const int low = src[6 + i % 16] >> i / 16 * 4 & 15, high = src[2 + i / 8] >> i % 8 & 1;
      dst[i] = (uint8_t)(low + 16 * high - 16);
    }
    memcpy(dst + 32, src, 2);
  }
}

/* f16 scale, 16 bytes: a nibble is an index. */
static void import_iq4_nl(const uint8_t *src, size_t n, uint8_t *dst) {
  static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
  for (; n; n--, src += 18, dst += 34) {
    for (int i = 0; i < 16; i++) {
      dst[i] = (uint8_t)values[src[2 + i] & 15];
      dst[16 + i] = (uint8_t)values[src[2 + i] >> 4];
    }
    memcpy(dst + 32, src, 2);
  }
}

/* Blocks of `from` weights of 4 bits become blocks of `to` with the same f32 scale. */
static void split(size_t from, size_t to, const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += from / 2 + 4)
    for (size_t at = 0; at < from / 2; at += to / 2, dst += to / 2 + 4) {
      memcpy(dst, src + at, to / 2);
      memcpy(dst + to / 2, src + from / 2, 4);
    }
}
static void split_32_16(const uint8_t *src, size_t n, uint8_t *dst) { split(32, 16, src, n, dst); }
static void split_64_16(const uint8_t *src, size_t n, uint8_t *dst) { split(64, 16, src, n, dst); }
static void split_64_32(const uint8_t *src, size_t n, uint8_t *dst) { split(64, 32, src, n, dst); }

bq_import_fn *bq_import_of(bq_type stored, bq_type run) {
  static const struct {
    bq_type stored, run;
    bq_import_fn *import;
  } rows[] = {
#define STORED(NAME, name, block, bytes, at, scale, min, RUN) \
  {BQ_TYPE_##NAME, BQ_TYPE_##RUN, import_##name},
      BQ_STORED_TYPES(STORED)
#undef STORED
      /* v1's blocks may straddle rows of other lengths */
      {BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_16, split_32_16},
      {BQ_TYPE_BQ4_64, BQ_TYPE_BQ4_16, split_64_16},
      {BQ_TYPE_BQ4_64, BQ_TYPE_BQ4_32, split_64_32},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].stored == stored && rows[i].run == run) return rows[i].import;
  return NULL;
}
