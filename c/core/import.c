#include "core/import.h"

#include <string.h>

/* A u64 with this byte eight times. Bytes are processed eight at a time: no sum or product below
 * carries from one byte into the next. */
#define EACH(byte) ((byte) * UINT64_C(0x0101010101010101))

static uint64_t load8(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}
static void store8(uint8_t *p, uint64_t v) { memcpy(p, &v, sizeof v); }

static uint64_t low_nibbles(uint64_t v) { return v & EACH(15); }
static uint64_t high_nibbles(uint64_t v) { return v >> 4 & EACH(15); }

/* Expands 8 bits to 8 bytes: byte i is 16 where bit i is set, else 0. */
static uint64_t expand_bits(uint8_t bits) {
  const uint64_t own = EACH((uint64_t)bits) & UINT64_C(0x8040201008040201);
  return ((own + EACH(127)) & EACH(128)) >> 3;
}

/* Input: 4 bytes of fifth bits (bit i belongs to weight i), then 16 bytes whose byte i has weight i
 * in the low nibble and weight 16 + i in the high one. Output: 32 bytes. `is_signed`: a weight
 * whose fifth bit is 0 gets 0xf0 instead, that is, 16 less in two's complement. */
static void import_fifths(const uint8_t *src, bool is_signed, uint8_t *dst) {
  for (int i = 0; i < 4; i++, dst += 8) {
    const uint64_t v = load8(src + 4 + i % 2 * 8), fifth = expand_bits(src[i]);
    store8(dst, (i < 2 ? low_nibbles(v) : high_nibbles(v)) |
                    (is_signed ? (fifth ^ EACH(16)) * 15 : fifth));
  }
}

/* Q5_0: f16 scale, fifth bits, nibbles. The weight is q - 16. */
static void import_q5_0(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 22, dst += 34) {
    import_fifths(src + 2, true, dst);
    memcpy(dst + 32, src, 2);
  }
}

/* Q5_1: f16 scale, f16 minimum, fifth bits, nibbles. q is unsigned. */
static void import_q5_1(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 24, dst += 36) {
    import_fifths(src + 4, false, dst);
    memcpy(dst + 32, src, 4);
  }
}

/* Replaces 16 bytes of nibbles, which are indices of a table, by 32 weights. */
static void look_up(const uint8_t *src, uint8_t *dst) {
  static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
  for (int i = 0; i < 16; i++) {
    dst[i] = (uint8_t)values[src[i] & 15];
    dst[16 + i] = (uint8_t)values[src[i] >> 4];
  }
}

/* IQ4_NL: f16 scale, nibbles. */
static void import_iq4_nl(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 18, dst += 34) {
    look_up(src + 2, dst);
    memcpy(dst + 32, src, 2);
  }
}

/* --- K-quants: 256 weights, with sub-block scales and minimums --------------------------------
 * These formats subtract the minimum, the compute types add it, so its f16 is negated. */

static void put_negated(const uint8_t *src, uint8_t *dst) {
  dst[0] = src[0];
  dst[1] = src[1] ^ 0x80;
}

/* Unpacks 12 bytes into eight 6-bit sub-block scales, then eight 6-bit sub-block minimums. */
static void unpack_six_bits(const uint8_t *src, uint8_t *dst) {
  for (int i = 0; i < 4; i++) {
    dst[i] = src[i] & 63;
    dst[4 + i] = (src[8 + i] & 15) | (src[i] >> 6 << 4);
    dst[8 + i] = src[4 + i] & 63;
    dst[12 + i] = (uint8_t)(src[8 + i] >> 4 | (src[4 + i] >> 6 << 4));
  }
}

/* Q4_K: f16 scale, f16 minimum, 12 bytes of sub-block scales, 128 bytes of nibbles: of each 64
 * weights the first 32 are in the low nibbles, the others in the high ones. */
static void import_q4_k(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 144, dst += 148) {
    for (int i = 0; i < 128; i += i % 16 ? 24 : 8) {
      const uint64_t a = load8(src + 16 + i), b = load8(src + 32 + i);
      store8(dst + i, low_nibbles(a) | low_nibbles(b) << 4);
      store8(dst + 16 + i, high_nibbles(a) | (b & EACH(0xf0)));
    }
    unpack_six_bits(src + 4, dst + 128);
    memcpy(dst + 144, src, 2);
    put_negated(src + 2, dst + 146);
  }
}

/* Q5_K: as Q4_K, with 32 bytes of fifth bits before the nibbles: bit j of byte i belongs to weight
 * 32 j + i. */
static void import_q5_k(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 176, dst += 276) {
    for (int j = 0; j < 8; j++)
      for (int i = 0; i < 32; i += 8) {
        const uint64_t q = load8(src + 48 + j / 2 * 32 + i), fifth = load8(src + 16 + i) >> j;
        store8(dst + 32 * j + i, (q >> j % 2 * 4 & EACH(15)) | (fifth & EACH(1)) << 4);
      }
    unpack_six_bits(src + 4, dst + 256);
    memcpy(dst + 272, src, 2);
    put_negated(src + 2, dst + 274);
  }
}

/* Q6_K: 128 bytes of nibbles, 64 bytes with two more bits per weight, 16 sub-block scales, f16
 * scale. In each half of 128 weights the low nibbles of 64 bytes are weights 0...63, the high ones
 * 64...127; bits 2j of 32 bytes belong to weights 32 j, 32 j + 1, .... The weight is q - 32. */
static void import_q6_k(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 210, dst += 274) {
    for (int j = 0; j < 8; j++)
      for (int i = 0; i < 32; i += 8) {
        const uint64_t low = load8(src + j / 4 * 64 + j % 2 * 32 + i) >> j % 4 / 2 * 4;
        const uint64_t high = load8(src + 128 + j / 4 * 32 + i) >> j % 4 * 2;
        store8(dst + 32 * j + i, ((low & EACH(15)) | (high & EACH(3)) << 4) + EACH(32));
      }
    memcpy(dst + 256, src + 192, 18);
  }
}

/* Two bits of each weight: in each half of 128 weights, bits 2j of 32 bytes belong to weights 32 j,
 * 32 j + 1, .... `third`: 32 bytes of third bits, as Q5_K's fifth bits (a bit of 0 means 4 less),
 * or NULL. */
static void import_two_bits(const uint8_t *src, const uint8_t *third, uint8_t *dst) {
  for (int j = 0; j < 8; j++)
    for (int i = 0; i < 16; i += 8) {
      uint64_t v[2];
      for (int h = 0; h < 2; h++) {
        const int at = 16 * h + i;
        v[h] = load8(src + j / 4 * 32 + at) >> j % 4 * 2 & EACH(3);
        if (third) v[h] += (load8(third + at) >> j & EACH(1)) * 4 + EACH(4);
      }
      store8(dst + 16 * j + i, v[0] | v[1] << 4);
    }
}

/* Q2_K: 16 bytes of sub-block scales (low nibble) and minimums (high nibble), 64 bytes of weights,
 * f16 scale, f16 minimum. */
static void import_q2_k(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 84, dst += 164) {
    import_two_bits(src + 16, NULL, dst);
    for (int i = 0; i < 16; i += 8) {
      store8(dst + 128 + i, low_nibbles(load8(src + i)));
      store8(dst + 144 + i, high_nibbles(load8(src + i)));
    }
    memcpy(dst + 160, src + 80, 2);
    put_negated(src + 82, dst + 162);
  }
}

/* Q3_K: 32 bytes of third bits, 64 bytes of weights, 12 bytes of 6-bit sub-block scales (32 is
 * subtracted), f16 scale. */
static void import_q3_k(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 110, dst += 146) {
    const uint8_t *factor = src + 96;
    import_two_bits(src + 32, src, dst);
    for (int i = 0; i < 16; i++) {
      const int low = factor[i % 8] >> i / 8 * 4 & 15, high = factor[8 + i % 4] >> i / 4 * 2 & 3;
      dst[128 + i] = (uint8_t)(low + 16 * high - 32);
    }
    memcpy(dst + 144, src + 108, 2);
  }
}

/* IQ4_XS: f16 scale, eight 6-bit sub-block scales (32 is subtracted): the upper two bits of each,
 * then the lower four; then nibbles as in IQ4_NL. */
static void import_iq4_xs(const uint8_t *src, size_t n, uint8_t *dst) {
  for (; n; n--, src += 136, dst += 266) {
    for (int i = 0; i < 8; i++) {
      look_up(src + 8 + 16 * i, dst + 32 * i);
      const int low = src[4 + i / 2] >> i % 2 * 4 & 15, high = src[2 + i / 4] >> i % 4 * 2 & 3;
      dst[256 + i] = (uint8_t)(low + 16 * high - 32);
    }
    memcpy(dst + 264, src, 2);
  }
}

/* --- v1 --------------------------------------------------------------------------------------- */

/* Splits blocks of `from` 4-bit weights into blocks of `to` weights with the same f32 scale. */
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
      {BQ_TYPE_Q5_0, BQ_TYPE_BQ8_32, import_q5_0},
      {BQ_TYPE_Q5_1, BQ_TYPE_BQ7A_32, import_q5_1},
      {BQ_TYPE_Q2_K, BQ_TYPE_BQ4KA_16, import_q2_k},
      {BQ_TYPE_Q3_K, BQ_TYPE_BQ4K_16, import_q3_k},
      {BQ_TYPE_Q4_K, BQ_TYPE_BQ4KA_32, import_q4_k},
      {BQ_TYPE_Q5_K, BQ_TYPE_BQ7KA_32, import_q5_k},
      {BQ_TYPE_Q6_K, BQ_TYPE_BQ7K_16, import_q6_k},
      {BQ_TYPE_IQ4_NL, BQ_TYPE_BQ8_32, import_iq4_nl},
      {BQ_TYPE_IQ4_XS, BQ_TYPE_BQ8K_32, import_iq4_xs},
      /* v1's blocks may straddle rows whose length they don't divide */
      {BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_16, split_32_16},
      {BQ_TYPE_BQ4_64, BQ_TYPE_BQ4_16, split_64_16},
      {BQ_TYPE_BQ4_64, BQ_TYPE_BQ4_32, split_64_32},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].stored == stored && rows[i].run == run) return rows[i].import;
  return NULL;
}
