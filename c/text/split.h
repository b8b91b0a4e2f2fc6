/* Cutting text into words before byte-level BPE merges within them, as a program that a file
 * brings: what models say as a regular expression, in a form that can't hang.
 *
 * A program is a list of items; some in a row are an alternative. The word at a place is what the
 * first alternative takes whose items match one after the other; where none matches, or takes
 * nothing, it is one character. An item takes as many characters of its set as there are and it
 * may, and never gives one back for a later item; the two that regular expressions give back in
 * practice are kinds of ends:
 *
 *   CUT    \s*[\r\n]+    all up to the last one of the end set
 *   SPARE  \s+(?!\S)     all, but the last one only if the text ends or one of the end set follows
 *
 * The places at which an item is tried never go back, and it remembers the run that it measured
 * last: so each item reads a text once, whatever the program. */
#ifndef BQ_SPLIT_H
#define BQ_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BQ_SPLIT_ITEMS = 48, BQ_SPLIT_POINTS = 4, BQ_SPLIT_ITEM_BYTES = 32 };

enum {
  BQ_SPLIT_LAST = 1,  /* the last item of its alternative */
  BQ_SPLIT_CUT = 2,   /* see above; both only without a limit and with min 1 */
  BQ_SPLIT_SPARE = 4,
  BQ_SPLIT_FLAGS = 7
};

/* Characters: those of some classes (bit c: bq_char c), except that these code points are in if
 * their class is not, and the other way round. Bytes of no character are BQ_CHAR_OTHER. */
typedef struct bq_split_set {
  uint8_t classes;
  uint32_t points[BQ_SPLIT_POINTS]; /* BQ_SPLIT_NONE behind the last */
} bq_split_set;

#define BQ_SPLIT_NONE UINT32_MAX

typedef struct bq_split_item {
  bq_split_set set, end; /* `end`: of CUT and SPARE */
  uint8_t min, max;      /* characters; max 0: no limit, min is then 0 or 1 */
  uint8_t flags;
} bq_split_item;

typedef struct bq_split {
  uint32_t n;
  bq_split_item items[BQ_SPLIT_ITEMS];
} bq_split;

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
extern const bq_split bq_split_gpt2;

/* Class of a code point; of BQ_UTF8_BAD: other. */
enum { BQ_CHAR_CLASS_LETTER = 1, BQ_CHAR_CLASS_NUMBER = 2, BQ_CHAR_CLASS_SPACE = 3 };
uint32_t bq_char_class(uint32_t code_point);

/* Reads an item as files have it (docs/FORMAT.md, TOKN). False: it isn't valid. */
bool bq_split_read(const uint8_t bytes[BQ_SPLIT_ITEM_BYTES], bq_split_item *out);

/* The run of an item's set that it measured last; all are places in the text. */
typedef struct bq_split_run {
  size_t begin, end;
  size_t last; /* where its last character begins */
  size_t cut;  /* behind its last character of the end set; 0 without one */
} bq_split_run;

/* One text on its way through a program. */
typedef struct bq_splitter {
  const bq_split *split;
  const uint8_t *text;
  size_t bytes;
  bq_split_run runs[BQ_SPLIT_ITEMS];
} bq_splitter;

void bq_splitter_begin(bq_splitter *s, const bq_split *split, const uint8_t *text, size_t bytes);
/* Where the word ends that begins at `at` < bytes, the end of the word before it. */
size_t bq_splitter_next(bq_splitter *s, size_t at);

#endif
