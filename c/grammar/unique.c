#include "grammar/unique.h"

#include "grammar/grammar.h"

/* FNV-1a, 64 bits. */
#define SEED 0xcbf29ce484222325u
#define PRIME 0x100000001b3u

bool bq_unique_had(const bq_unique *u, const uint64_t *items) {
  for (uint32_t i = 0; i < u->n; i++)
    if (items[u->first + i] == u->hash) return true;
  return false;
}

static bool end_item(bq_unique *u, uint64_t *items) {
  if (bq_unique_had(u, items) || u->first + u->n == BQ_UNIQUE_ITEMS) return false;
  items[u->first + u->n++] = u->hash;
  u->item = false;
  return true;
}

bool bq_unique_step(bq_unique *u, uint64_t *items, uint32_t marks, uint8_t byte) {
  if (u->item) {
    if (byte == '"' && marks & BQ_STATE_CLOSE) return end_item(u, items);
    u->hash = (u->hash ^ byte) * PRIME;
  } else if (byte == '[' && marks & BQ_STATE_LIST) {
    *u = (bq_unique){.first = u->first + u->n, .list = true};
  } else if (byte == '"' && marks & BQ_STATE_OPEN) {
    u->item = u->list;
    u->hash = SEED;
  } else if (byte == ']' && marks & BQ_STATE_SHUT) {
    *u = (bq_unique){.first = u->first + u->n};
  }
  return true;
}
