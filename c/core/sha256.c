/* SHA-256, written from FIPS 180-4, sections 4.1.2, 5.3.3 and 6.2.2. */
#include <string.h>

#include "core/hash.h"

enum { BLOCK = 64, LENGTH_AT = 56 };

static const uint32_t ROUND_CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static uint32_t load_big(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_big(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* The message schedule of one block. */
static void expand(uint32_t w[64], const uint8_t *p) {
  for (int t = 0; t < 16; t++) w[t] = load_big(p + 4 * t);
  for (int t = 16; t < 64; t++) {
    uint32_t a = w[t - 15], b = w[t - 2];
    uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
    uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
}

static void add_block(uint32_t h[8], const uint8_t *p) {
  uint32_t w[64], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], k = h[7];
  expand(w, p);
  for (int t = 0; t < 64; t++) {
    uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25), choice = (e & f) ^ (~e & g);
    uint32_t t1 = k + s1 + choice + ROUND_CONSTANTS[t] + w[t];
    uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    k = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e, h[5] += f, h[6] += g, h[7] += k;
}

void bq_sha256_begin(bq_sha256_state *s) {
  *s = (bq_sha256_state){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                               0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void bq_sha256_add(bq_sha256_state *s, const uint8_t *p, size_t n) {
  if (!n) return;
  size_t fill = s->total % BLOCK;
  s->total += n;
  if (fill) {
    size_t missing = BLOCK - fill, part = n < missing ? n : missing;
    memcpy(s->block + fill, p, part);
    if (part < missing) return;
    add_block(s->h, s->block);
    p += part;
    n -= part;
  }
  for (; n >= BLOCK; n -= BLOCK, p += BLOCK) add_block(s->h, p);
  memcpy(s->block, p, n);
}

void bq_sha256_end(const bq_sha256_state *state, uint8_t out[BQ_SHA256_BYTES]) {
  bq_sha256_state s = *state;
  const uint64_t bits = s.total * 8;
  size_t fill = s.total % BLOCK;
  s.block[fill++] = 0x80;
  memset(s.block + fill, 0, BLOCK - fill);
  if (fill > LENGTH_AT) {
    add_block(s.h, s.block);
    memset(s.block, 0, BLOCK);
  }
  store_big(s.block + LENGTH_AT, (uint32_t)(bits >> 32));
  store_big(s.block + LENGTH_AT + 4, (uint32_t)bits);
  add_block(s.h, s.block);
  for (int i = 0; i < 8; i++) store_big(out + 4 * i, s.h[i]);
}

void bq_sha256(const uint8_t *bytes, size_t n, uint8_t out[BQ_SHA256_BYTES]) {
  bq_sha256_state s;
  bq_sha256_begin(&s);
  bq_sha256_add(&s, bytes, n);
  bq_sha256_end(&s, out);
}
