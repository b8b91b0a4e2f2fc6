/* Weights that are read from the file again and again instead of staying in memory.
 *
 * Four files make it up: load/residency.c chooses which weights stay, load/page_units.c cuts the
 * others into units, this one gives units to slots, session/page.c says what is needed next.
 *
 * *Units* are what is read at once, in execution order: the matrices of a paged layer, then the
 * head in parts of whole row groups. Two *slots* hold a unit each: one is computed with while the
 * other is read into. Embeddings are looked up in small caches of rows.
 *
 * Who may touch a slot: bq_pages_claim gives it to a unit, from then on it is LOADING and belongs
 * to the host that reads; bq_pages_done makes it FILLED, which it stays until the next claim.
 * Sessions of one model run one at a time and claim only between two slices, and a slice looks for
 * FILLED before it begins; so no slot is written while a slice computes with it. Several sessions
 * may push out each other's units, which costs time, never bits. */
#ifndef BQ_PAGES_H
#define BQ_PAGES_H

#include "model/model.h"

enum { BQ_PAGE_SLOTS = 2, BQ_PAGE_ROWS = 32 };
#define BQ_NO_UNIT UINT32_MAX

typedef enum bq_page_state { BQ_PAGE_EMPTY, BQ_PAGE_LOADING, BQ_PAGE_FILLED } bq_page_state;

/* One matrix of a unit that is a layer. */
typedef struct bq_page_matrix {
  bq_matrix *matrix; /* its `data` follows the slot */
  uint64_t at;       /* where it begins in the unit */
} bq_page_matrix;

typedef struct bq_page_unit {
  uint64_t offset, bytes; /* in the file */
  uint32_t layer;         /* config.layers: a part of the head */
  uint32_t row0, rows;    /* of the head */
  uint32_t n_parts;       /* of a layer */
  bq_page_matrix *parts;
} bq_page_unit;

typedef struct bq_page_slot {
  uint8_t *data; /* [slot_bytes] */
  uint32_t unit;
  bq_page_state state;
} bq_page_slot;

/* Groups of rows of one embedding, each in the one entry that its number allows. */
typedef struct bq_page_rows {
  uint64_t offset;     /* of the tensor in the file; entries == NULL: it is not paged */
  uint32_t group_rows; /* rows that are stored together: 8 in tiles, else 1 */
  size_t group_bytes;
  size_t stride;                /* bytes from one entry to the next, a multiple of 64 */
  uint8_t *entries;             /* [BQ_PAGE_ROWS][stride] */
  uint32_t group[BQ_PAGE_ROWS]; /* in each entry */
  uint8_t state[BQ_PAGE_ROWS];  /* bq_page_state */
} bq_page_rows;

typedef struct bq_pages {
  bq_page_unit *units; /* [n_units] */
  uint32_t n_units;
  bq_page_matrix *parts; /* of all units, one unit's after the other's */
  uint32_t *next_unit; /* [layers + 1]: first unit of this layer or a later one, or n_units; the
                        * last is for the head */
  bq_page_slot slots[BQ_PAGE_SLOTS];
  bq_page_rows tables[2]; /* wte, wpe */
} bq_pages;

/* The unit of a layer (`layers`: the head's first), or BQ_NO_UNIT when it stays in memory. */
uint32_t bq_pages_unit_of(const bq_pages *p, uint32_t layer);
/* Where the unit lies; NULL: it has to be read first. */
const uint8_t *bq_pages_unit_data(const bq_pages *p, uint32_t unit);
/* Gives `unit` a slot when it has none. `other` keeps its own unless there is no other way and
 * `push` says that `unit` is the more urgent one. True: *out is to be read. */
bool bq_pages_claim(bq_pages *p, uint32_t unit, uint32_t other, bool push, bq_page *out);

/* The paged table's row: *part is the group that holds it, *at the row within. False: not there. */
bool bq_pages_row(const bq_pages *p, uint32_t table, const bq_matrix *whole, uint32_t row,
                  bq_matrix *part, uint32_t *at);
/* Gives the row's group an entry, unless it has one or the entry is loading or one of `kept` (a bit
 * for each entry; the row's is added). True: *out is to be read. */
bool bq_pages_claim_row(bq_pages *p, uint32_t table, uint32_t row, uint32_t *kept, bq_page *out);

/* A page that was claimed has been read, or has failed. False: no such page. */
bool bq_pages_done(bq_pages *p, uint32_t id, bool good);

#endif
