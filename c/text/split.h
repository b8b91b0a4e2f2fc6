/* Splits text into words before byte-level BPE, by a pattern from the file: the pre-tokenizer's
 * regular expression in a form that takes linear time.
 *
 * A pattern is a list of items; consecutive items form an alternative. The word at a position is
 * the match of the first alternative that matches at least one character, item by item. If there is
 * none, the word is one character. An item is possessive: it matches as many characters of its set
 * as possible and never fewer for the sake of a later item. The two cases that need backtracking in
 * practice are flags of an item:
 *
 *   CUT    \s*[\r\n]+   the match ends after the last character of the end set
 *   SPARE  \s+(?!\S)    the match omits its last character, unless the text ends or a character of
 *                       the end set follows
 *
 * The positions at which an item is tried never decrease, and its last run is stored. So each item
 * reads a text once, for any pattern. */
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

/* A set of characters: those of some classes (bit c: bq_char c), with the membership of the code
 * points `points` inverted. Bytes that are not UTF-8 have the class BQ_CHAR_OTHER. */
typedef struct bq_split_set {
  uint8_t classes;
  uint32_t points[BQ_SPLIT_POINTS]; /* BQ_SPLIT_NONE after the last */
} bq_split_set;

#define BQ_SPLIT_NONE UINT32_MAX

typedef struct bq_split_item {
  bq_split_set set, end; /* `end`: the end set of CUT and SPARE */
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

/* Reads an item from a file (docs/FORMAT.md, TOKN). Returns false if it isn't valid. */
bool bq_split_read(const uint8_t bytes[BQ_SPLIT_ITEM_BYTES], bq_split_item *out);

/* The last run that an item matched, as positions in the text. */
typedef struct bq_split_run {
  size_t begin, end;
  size_t last; /* where its last character begins */
  size_t cut;  /* end of its last character of the end set; 0: none */
} bq_split_run;

/* A text that is being split by a pattern. */
typedef struct bq_splitter {
  const bq_split *split;
  const uint8_t *text;
  size_t bytes;
  bq_split_run runs[BQ_SPLIT_ITEMS];
} bq_splitter;

void bq_splitter_begin(bq_splitter *s, const bq_split *split, const uint8_t *text, size_t bytes);
/* Returns the end of the word that begins at `at` < bytes; `at` must be the end of the previous
 * word, or 0. */
size_t bq_splitter_next(bq_splitter *s, size_t at);

#endif
