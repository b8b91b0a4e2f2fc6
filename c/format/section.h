/* Sections: the containers of everything in a v2 prefix and in a manifest (docs/FORMAT.md §2). */
#ifndef BQ_SECTION_H
#define BQ_SECTION_H

#include "model/model.h"

#define BQ_TAG(a, b, c, d) \
  ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
#define BQ_TAG_CONF BQ_TAG('C', 'O', 'N', 'F')
#define BQ_TAG_LICE BQ_TAG('L', 'I', 'C', 'E')
#define BQ_TAG_TENS BQ_TAG('T', 'E', 'N', 'S')
#define BQ_TAG_NAME BQ_TAG('N', 'A', 'M', 'E')
#define BQ_TAG_TOKN BQ_TAG('T', 'O', 'K', 'N')
#define BQ_TAG_CHAT BQ_TAG('C', 'H', 'A', 'T')
#define BQ_TAG_TMPL BQ_TAG('T', 'M', 'P', 'L')
#define BQ_TAG_CARD BQ_TAG('C', 'A', 'R', 'D')
#define BQ_TAG_HASH BQ_TAG('H', 'A', 'S', 'H')
#define BQ_TAG_ACTQ BQ_TAG('A', 'C', 'T', 'Q')
#define BQ_TAG_XTRA BQ_TAG('X', 'T', 'R', 'A')
#define BQ_TAG_FILE BQ_TAG('F', 'I', 'L', 'E')
#define BQ_TAG_SUM8 BQ_TAG('S', 'U', 'M', '8')

enum { BQ_SECTION_HEAD = 16, BQ_SUM8_BYTES = 24 };

typedef struct bq_sections {
  bq_section list[BQ_SECTIONS_MAX];
  uint32_t n;
} bq_sections;

/* The part of a file that contains a run of sections; it determines which tags may occur. */
typedef enum bq_place { BQ_IN_PLAN = 1, BQ_IN_REST = 2, BQ_IN_MANIFEST = 4 } bq_place;

/* Appends the sections in bytes [from, to) of `file` to *out; the bytes must not include a SUM8.
 * FORMAT; UNSUPPORTED: a section is required but unknown. */
bq_status bq_sections_read(const uint8_t *file, size_t from, size_t to, bq_place place,
                           bq_sections *out, bq_error *err);
/* Returns the section with this tag, or NULL if the file does not contain it. */
const bq_section *bq_sections_find(const bq_sections *sections, uint32_t tag);

#endif
