/* Paged weights: matrices that are read from the file each time they are needed instead of staying
 * in memory.
 *
 * load/residency.c chooses which weights stay in memory, load/page_units.c divides the others into
 * units, this file assigns units to slots, session/page.c determines which units are needed next.
 *
 * A *unit* is the amount that is read at once: all matrices of a paged layer, or a page of the head
 * (a multiple of 8 rows). Units are numbered in execution order. Two *slots* hold a unit each:
 * while the engine computes with one, the host reads into the other. Embeddings use small caches of
 * rows.
 *
 * Ownership of a slot: bq_pages_claim assigns it to a unit; it is then LOADING and belongs to the
 * host, which reads. bq_pages_done makes it FILLED, until the next claim. Sessions of one model run
 * one at a time and claim slots only between two work units. A work unit checks for FILLED before
 * it begins, so no slot is written while a work unit computes with it. If several sessions displace
 * each other's units, this costs time but doesn't change results. */
#ifndef BQ_PAGES_H
#define BQ_PAGES_H

#include "model/model.h"

enum { BQ_PAGE_SLOTS = 2, BQ_PAGE_ROWS = 32, BQ_PAGE_TABLES = 3 };
#define BQ_NO_UNIT UINT32_MAX

typedef enum bq_page_state { BQ_PAGE_EMPTY, BQ_PAGE_LOADING, BQ_PAGE_FILLED } bq_page_state;

/* One matrix of a unit that is a layer. */
typedef struct bq_page_matrix {
  bq_matrix *matrix; /* its `data` is set to the slot */
  uint64_t at;       /* its offset in the unit */
} bq_page_matrix;

typedef struct bq_page_unit {
  uint64_t offset, bytes; /* in the file */
  uint32_t layer;         /* config.layers: the unit is a page of the head */
  uint32_t row0, rows;    /* rows of a page of the head */
  uint32_t n_matrices;    /* matrices of a layer */
  bq_page_matrix *matrices;
} bq_page_unit;

typedef struct bq_page_slot {
  uint8_t *data; /* [slot_bytes] */
  uint32_t unit;
  bq_page_state state;
} bq_page_slot;

/* A direct-mapped cache of row groups of one embedding. */
typedef struct bq_page_rows {
  uint64_t offset;     /* of the tensor in the file */
  uint32_t group_rows; /* rows that are stored together: 8 in tiles, else 1 */
  size_t group_bytes;
  size_t stride;                /* bytes from one entry to the next, a multiple of 64 */
  uint8_t *entries;             /* [BQ_PAGE_ROWS][stride]; NULL: the embedding isn't paged */
  uint32_t group[BQ_PAGE_ROWS]; /* row group of each entry */
  uint8_t state[BQ_PAGE_ROWS];  /* bq_page_state */
} bq_page_rows;

typedef struct bq_pages {
  bq_page_unit *units; /* [n_units] */
  uint32_t n_units;
  bq_page_matrix *parts; /* of all units, one unit after the other */
  uint32_t *next_unit; /* [layers + 1]: first unit of this or a later layer, or n_units; entry
                          `layers` is for the head */
  bq_page_slot slots[BQ_PAGE_SLOTS];
  bq_page_rows tables[BQ_PAGE_TABLES]; /* wte, wpe, layer_embeds */
} bq_pages;

/* The unit of a layer (`layers`: the first one of the head); BQ_NO_UNIT if it stays in memory. */
uint32_t bq_pages_unit_of(const bq_pages *p, uint32_t layer);
/* Address of a unit in memory; NULL if it has to be read first. */
const uint8_t *bq_pages_unit_data(const bq_pages *p, uint32_t unit);
/* Assigns a slot to `unit` unless it has one. Returns true if *out has to be read. The slot of unit
 * `keep` is reused only if no other one is free and `urgent` is true. */
bool bq_pages_claim(bq_pages *p, uint32_t unit, uint32_t keep, bool urgent, bq_page *out);

/* Looks a row of an embedding (`matrix`) up: *part is the row group that contains it, *at its index
 * in the group. Returns false if the row isn't in memory. */
bool bq_pages_row(const bq_pages *p, uint32_t table, const bq_matrix *matrix, uint32_t row,
                  bq_matrix *part, uint32_t *at);
/* Assigns a cache entry to the row's group, unless the group has it already, or the entry is
 * loading or reserved. `reserved` has a bit per entry; the bit of the row's entry is added. Returns
 * true if *out has to be read. */
bool bq_pages_claim_row(bq_pages *p, uint32_t table, uint32_t row, uint32_t *reserved,
                        bq_page *out);

/* Reports that a claimed page has been read or, if not `good`, that reading failed. Returns false
 * if no such page is loading. */
bool bq_pages_done(bq_pages *p, uint32_t id, bool good);

#endif
