#include "grammar/unique.h"

#include "grammar/grammar.h"

/* FNV-1a, 64 bits. */
#define SEED 0xcbf29ce484222325u
#define PRIME 0x100000001b3u

bool bq_unique_contains(const bq_unique *u, const bq_unique_node *nodes) {
  for (uint32_t i = u->head; i && !nodes[i - 1].depth; i = nodes[i - 1].below)
    if (nodes[i - 1].hash == u->hash) return true;
  return false;
}

static bool add(bq_unique *u, bq_unique_node *nodes, uint64_t hash, uint32_t depth) {
  if (u->n == BQ_UNIQUE_NODES) return false;
  nodes[u->n++] = (bq_unique_node){hash, u->head, depth};
  u->head = u->n;
  return true;
}

/* Depth of the innermost open list; 0: none. */
static uint32_t list_depth(const bq_unique *u, const bq_unique_node *nodes) {
  uint32_t i = u->head;
  while (i && !nodes[i - 1].depth) i = nodes[i - 1].below;
  return i ? nodes[i - 1].depth : 0;
}

static void close_bracket(bq_unique *u, const bq_unique_node *nodes) {
  if (u->depth) u->depth--;
  if (list_depth(u, nodes) <= u->depth) return;
  while (!nodes[u->head - 1].depth) u->head = nodes[u->head - 1].below;
  u->head = nodes[u->head - 1].below;
}

static bool in_string(bq_unique *u, bq_unique_node *nodes, uint8_t byte) {
  const bool ends = byte == '"' && !u->escaped;
  if (ends && u->item && (bq_unique_contains(u, nodes) || !add(u, nodes, u->hash, 0))) return false;
  u->escaped = byte == '\\' && !u->escaped;
  u->hash = (u->hash ^ byte) * PRIME;
  u->string = !ends;
  u->item = u->item && !ends;
  return true;
}

bool bq_unique_step(bq_unique *u, bq_unique_node *nodes, uint32_t marks, uint8_t byte) {
  if (u->string) return in_string(u, nodes, byte);
  if (byte == '[' || byte == '{') {
    u->depth++;
    return !(marks & BQ_STATE_LIST) || add(u, nodes, 0, u->depth);
  }
  if (byte == ']' || byte == '}') close_bracket(u, nodes);
  u->string = byte == '"';
  u->item = u->string && marks & BQ_STATE_OPEN && list_depth(u, nodes) == u->depth;
  if (u->item) u->hash = SEED;
  return true;
}

void bq_unique_compact(bq_unique *u, bq_unique_node *nodes) {
  /* Reverses the links, then copies from the first node on. A node is after all nodes below it, so
   * none is overwritten before it is read. */
  uint32_t above = 0, i = u->head;
  while (i) {
    const uint32_t below = nodes[i - 1].below;
    nodes[i - 1].below = above;
    above = i;
    i = below;
  }
  u->n = 0;
  for (i = above; i; i = above) {
    bq_unique_node node = nodes[i - 1];
    above = node.below;
    node.below = u->n;
    nodes[u->n++] = node;
  }
  u->head = u->n;
}
