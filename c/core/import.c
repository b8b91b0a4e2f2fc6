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

/* Nibbles as GGUF's, and 4 bytes of fifth bits: bit i of them is that of weight i. */
static void fifth_bits(const uint8_t *bits, const uint8_t *nibbles, int less, uint8_t *dst) {
  for (int i = 0; i < 16; i++) {
    const int low = bits[i / 8] >> i % 8 & 1, high = bits[2 + i / 8] >> i % 8 & 1;
    dst[i] = (uint8_t)((nibbles[i] & 15) + 16 * low - less);
    dst[16 + i] = (uint8_t)((nibbles[i] >> 4) + 16 * high - less);
  }
}

/* f16 scale, fifth bits, nibbles: q - 16. */
static void import_q5_0(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 22, dst += 34) {
    fifth_bits(src + 2, src + 6, 16, dst);
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

/* f16 scale, f16 minimum, fifth bits and nibbles as in Q5_0: q is unsigned. */
static void import_q5_1(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 24, dst += 36) {
    fifth_bits(src + 4, src + 8, 0, dst);
    memcpy(dst + 32, src, 4);
  }
}

/* --- K: 256 weights, factors of their scales and minima ---------------------------------------- */

/* An f16 with its sign changed: minima are subtracted there, added here. */
static void put_negated(const uint8_t *src, uint8_t *dst) {
  dst[0] = src[0];
  dst[1] = src[1] ^ 0x80;
}

/* 12 bytes: eight numbers of 6 bits of the scales, then eight of the minima. */
static void six_bits(const uint8_t *src, uint8_t *dst) {
  for (int i = 0; i < 4; i++) {
    dst[i] = src[i] & 63;
    dst[4 + i] = (src[8 + i] & 15) | (src[i] >> 6 << 4);
    dst[8 + i] = src[4 + i] & 63;
    dst[12 + i] = (uint8_t)(src[8 + i] >> 4 | (src[4 + i] >> 6 << 4));
  }
}

/* f16 scale, f16 minimum, 12 bytes of factors, 128 bytes: of 64 weights the first 32 in the low
 * nibbles, the others in the high ones. */
static void import_q4_k(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 144, dst += 148) {
    const uint8_t *q = src + 16;
    for (uint8_t *to = dst; to < dst + 128; to += 32, q += 32)
      for (int i = 0; i < 16; i++) {
        to[i] = (uint8_t)((q[i] & 15) | q[16 + i] << 4);
        to[16 + i] = (uint8_t)(q[i] >> 4 | (q[16 + i] & 0xf0));
      }
    six_bits(src + 4, dst + 128);
    memcpy(dst + 144, src, 2);
    put_negated(src + 2, dst + 146);
  }
}

/* The same with 32 bytes of fifth bits in front of the nibbles: bit j of byte i is that of weight
 * 32 j + i. */
static void import_q5_k(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 176, dst += 276) {
    const uint8_t *fifth = src + 16, *q = src + 48;
    for (int j = 0; j < 8; j += 2, q += 32)
      for (int i = 0; i < 32; i++) {
        dst[32 * j + i] = (uint8_t)((q[i] & 15) | (fifth[i] >> j & 1) << 4);
        dst[32 * j + 32 + i] = (uint8_t)(q[i] >> 4 | (fifth[i] >> (j + 1) & 1) << 4);
      }
    six_bits(src + 4, dst + 256);
    memcpy(dst + 272, src, 2);
    put_negated(src + 2, dst + 274);
  }
}

/* 128 bytes of nibbles, 64 of two bits more, 16 factors, f16 scale. Halves of 128 weights: of 64
 * bytes of nibbles the low ones are weights 0...63, the high ones 64...127; bits 2j of 32 bytes are
 * of weights 32 j.... q - 32. */
static void import_q6_k(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 210, dst += 274) {
    for (int half = 0; half < 2; half++) {
      const uint8_t *low = src + 64 * half, *high = src + 128 + 32 * half;
      uint8_t *to = dst + 128 * half;
      for (int i = 0; i < 32; i++) {
        to[i] = (uint8_t)((low[i] & 15) + ((high[i] & 3) << 4) + 32);
        to[32 + i] = (uint8_t)((low[32 + i] & 15) + ((high[i] >> 2 & 3) << 4) + 32);
        to[64 + i] = (uint8_t)((low[i] >> 4) + ((high[i] >> 4 & 3) << 4) + 32);
        to[96 + i] = (uint8_t)((low[32 + i] >> 4) + ((high[i] >> 6) << 4) + 32);
      }
    }
    memcpy(dst + 256, src + 192, 18);
  }
}

/* 2 bits at `shift` of each of 32 bytes, and what `third` adds, become 32 nibbles. */
static void pack_nibbles(const uint8_t *q, int shift, const uint8_t *third, int bit, uint8_t *dst) {
  for (int i = 0; i < 16; i++) {
    int low = q[i] >> shift & 3, high = q[16 + i] >> shift & 3;
    if (third) {
      low += (third[i] >> bit & 1) * 4 + 4;
      high += (third[16 + i] >> bit & 1) * 4 + 4;
    }
    dst[i] = (uint8_t)(low | high << 4);
  }
}

/* 16 bytes of factors (low nibble: scale, high: minimum), 64 bytes, f16 scale, f16 minimum. Halves
 * of 128 weights: bits 2j of 32 bytes are of weights 32 j.... */
static void import_q2_k(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 84, dst += 164) {
    for (int j = 0; j < 8; j++)
      pack_nibbles(src + 16 + j / 4 * 32, j % 4 * 2, NULL, 0, dst + 16 * j);
    for (int i = 0; i < 16; i++) {
      dst[128 + i] = src[i] & 15;
      dst[144 + i] = src[i] >> 4;
    }
    memcpy(dst + 160, src + 80, 2);
    put_negated(src + 82, dst + 162);
  }
}

/* 32 bytes of third bits (as Q5_K's; 0: 4 less), 64 bytes as Q2_K's, 12 bytes of factors of 6 bits
 * (32 is taken off), f16 scale. */
static void import_q3_k(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 110, dst += 146) {
    const uint8_t *factor = src + 96;
    for (int j = 0; j < 8; j++)
      pack_nibbles(src + 32 + j / 4 * 32, j % 4 * 2, src, j, dst + 16 * j);
    for (int i = 0; i < 16; i++) {
      const int low = factor[i % 8] >> i / 8 * 4 & 15, high = factor[8 + i % 4] >> i / 4 * 2 & 3;
      dst[128 + i] = (uint8_t)(low + 16 * high - 32);
    }
    memcpy(dst + 144, src + 108, 2);
  }
}

/* --- v1 ---------------------------------------------------------------------------------------- */

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
