/* Lists whose items must differ (marks of grammar.h): what a text has of the list it is in.
 *
 * Items are strings, so a list lies in no other and one is open at most. Each item is kept as a
 * hash of its bytes: two that differ and hash alike pass for equal, and the later is left out. */
#ifndef BQ_UNIQUE_H
#define BQ_UNIQUE_H

#include <stdbool.h>
#include <stdint.h>

/* Items of lists at once, those of a token that is being looked at included. */
enum { BQ_UNIQUE_ITEMS = 2048 };

typedef struct bq_unique {
  uint64_t hash;     /* of the item's bytes so far */
  uint32_t first, n; /* the list's items lie so in the table */
  bool list, item;   /* within a list, an item */
} bq_unique;

/* Goes on by a byte from a place with these marks. False: it would end an item that the list has,
 * or there is no room for more. What lies in `items` before u->first + u->n stays. */
bool bq_unique_step(bq_unique *u, uint64_t *items, uint32_t marks, uint8_t byte);

/* Whether the item so far is one of the list's. */
bool bq_unique_had(const bq_unique *u, const uint64_t *items);

#endif
