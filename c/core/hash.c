#include "core/hash.h"

#include <string.h>

#include "core/cursor.h"

#define PRIME1 0x9E3779B185EBCA87u
#define PRIME2 0xC2B2AE3D27D4EB4Fu
#define PRIME3 0x165667B19E3779F9u
#define PRIME4 0x85EBCA77C2B2AE63u
#define PRIME5 0x27D4EB2F165667C5u

enum { STRIPE = 32 };

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static uint64_t round_lane(uint64_t lane, uint64_t input) {
  return rotate(lane + input * PRIME2, 31) * PRIME1;
}

static uint64_t merge(uint64_t hash, uint64_t lane) {
  return (hash ^ round_lane(0, lane)) * PRIME1 + PRIME4;
}

/* Processes whole stripes of 32 bytes, in four independent chains. */
static const uint8_t *add_stripes(uint64_t lanes[4], const uint8_t *p, size_t stripes) {
  uint64_t a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3];
  for (; stripes; stripes--, p += STRIPE) {
    a = round_lane(a, bq_load64(p));
    b = round_lane(b, bq_load64(p + 8));
    c = round_lane(c, bq_load64(p + 16));
    d = round_lane(d, bq_load64(p + 24));
  }
  lanes[0] = a;
  lanes[1] = b;
  lanes[2] = c;
  lanes[3] = d;
  return p;
}

/* Processes the last total % 32 bytes and mixes the result. */
static uint64_t finish(uint64_t hash, const uint8_t *p, size_t n) {
  for (; n >= 8; n -= 8, p += 8)
    hash = rotate(hash ^ round_lane(0, bq_load64(p)), 27) * PRIME1 + PRIME4;
  if (n >= 4) {
    hash = rotate(hash ^ bq_load32(p) * PRIME1, 23) * PRIME2 + PRIME3;
    p += 4;
    n -= 4;
  }
  for (; n; n--, p++) hash = rotate(hash ^ *p * PRIME5, 11) * PRIME1;
  hash = (hash ^ hash >> 33) * PRIME2;
  hash = (hash ^ hash >> 29) * PRIME3;
  return hash ^ hash >> 32;
}

void bq_xxh64_begin(bq_xxh64_state *s, uint64_t seed) {
  *s = (bq_xxh64_state){.lanes = {seed + PRIME1 + PRIME2, seed + PRIME2, seed, seed - PRIME1},
                        .seed = seed};
}

void bq_xxh64_add(bq_xxh64_state *s, const uint8_t *p, size_t n) {
  if (!n) return;
  size_t fill = s->total % STRIPE;
  s->total += n;
  if (fill) {
    size_t missing = STRIPE - fill, part = n < missing ? n : missing;
    memcpy(s->stripe + fill, p, part);
    if (part < missing) return;
    add_stripes(s->lanes, s->stripe, 1);
    p += part;
    n -= part;
  }
  p = add_stripes(s->lanes, p, n / STRIPE);
  memcpy(s->stripe, p, n % STRIPE);
}

uint64_t bq_xxh64_end(const bq_xxh64_state *s) {
  const uint64_t *l = s->lanes;
  uint64_t hash = s->seed + PRIME5;
  if (s->total >= STRIPE) {
    hash = rotate(l[0], 1) + rotate(l[1], 7) + rotate(l[2], 12) + rotate(l[3], 18);
    for (int i = 0; i < 4; i++) hash = merge(hash, l[i]);
  }
  return finish(hash + s->total, s->stripe, s->total % STRIPE);
}

uint64_t bq_xxh64(const uint8_t *bytes, size_t n, uint64_t seed) {
  bq_xxh64_state s;
  bq_xxh64_begin(&s, seed);
  bq_xxh64_add(&s, bytes, n);
  return bq_xxh64_end(&s);
}
