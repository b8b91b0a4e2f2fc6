/* Uniqueness of the items of lists, or the names of objects, where the grammar has marks
 * (grammar.h): stores the items that the text contains so far.
 *
 * The text is JSON, whose brackets delimit lists. Each item is stored as a hash of its bytes:
 * different items with equal hashes count as equal, and the later one is rejected. */
#ifndef BQ_UNIQUE_H
#define BQ_UNIQUE_H

#include <stdbool.h>
#include <stdint.h>

/* Maximum number of items and open lists at once, including those of a token that is being checked.
 */
enum { BQ_UNIQUE_NODES = 2048 };

/* An item, or the beginning of a list. */
typedef struct bq_unique_node {
  uint64_t hash;  /* of an item */
  uint32_t below; /* 1 + the node before it; 0: it is the first */
  uint32_t depth; /* of a list: number of open brackets, its own included; 0: an item */
} bq_unique_node;

typedef struct bq_unique {
  uint64_t hash;              /* of the item's bytes so far */
  uint32_t head;              /* 1 + the last node; 0: no list is open */
  uint32_t n;                 /* nodes in use, those of closed lists included */
  uint32_t depth;             /* brackets that are open */
  bool item, string, escaped; /* within an item, a string, after a backslash */
} bq_unique;

/* Advances by a byte from a state with these marks. Returns false if the byte would end an item
 * that the list already has, or if there are BQ_UNIQUE_NODES nodes; within an item *u is then
 * unchanged. Nodes before u->n are not changed. */
bool bq_unique_step(bq_unique *u, bq_unique_node *nodes, uint32_t marks, uint8_t byte);

/* Whether the list already contains the item as written so far. */
bool bq_unique_contains(const bq_unique *u, const bq_unique_node *nodes);

/* Removes the nodes of closed lists. */
void bq_unique_compact(bq_unique *u, bq_unique_node *nodes);

#endif
