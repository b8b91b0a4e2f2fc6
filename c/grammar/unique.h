/* Lists whose items must differ, and objects whose names must (marks of grammar.h): what a text has
 * of those that it is in.
 *
 * The text is JSON, whose brackets say where a list ends. Each item is kept as a hash of its bytes:
 * two that differ and hash alike pass for equal, and the later is left out. */
#ifndef BQ_UNIQUE_H
#define BQ_UNIQUE_H

#include <stdbool.h>
#include <stdint.h>

/* Items and open lists at once, those of a token that is being looked at included. */
enum { BQ_UNIQUE_NODES = 2048 };

/* An item, or where a list begins. */
typedef struct bq_unique_node {
  uint64_t hash;  /* of an item */
  uint32_t below; /* 1 + the node before it; 0: it is the first */
  uint32_t depth; /* of a list, how many brackets are open with its own; 0: an item */
} bq_unique_node;

typedef struct bq_unique {
  uint64_t hash;              /* of the item's bytes so far */
  uint32_t head;              /* 1 + the last node; 0: no list is open */
  uint32_t n;                 /* nodes that are written, those of closed lists included */
  uint32_t depth;             /* brackets that are open */
  bool item, string, escaped; /* within an item, a string, behind a backslash */
} bq_unique;

/* Goes on by a byte from a place with these marks. False: it would end an item that the list has,
 * or there is no room for more, and within an item *u is as before. Nodes before u->n stay. */
bool bq_unique_step(bq_unique *u, bq_unique_node *nodes, uint32_t marks, uint8_t byte);

/* Whether the item so far is one of the list's. */
bool bq_unique_contains(const bq_unique *u, const bq_unique_node *nodes);

/* Leaves out the nodes of lists that are closed. */
void bq_unique_compact(bq_unique *u, bq_unique_node *nodes);

#endif
