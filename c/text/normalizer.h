/* Normalizers: steps by which a file's tokenizer changes text before it is split, such as
 * lower-casing, removing accents, composing characters, and collapsing white space. */
#ifndef BQ_NORMALIZER_H
#define BQ_NORMALIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BQ_NORMALIZERS = 12 };

typedef enum bq_normalizer_type {
  BQ_NORMALIZER_MAP = 1,      /* replaces characters one by one */
  BQ_NORMALIZER_PREFIX = 2,   /* adds a text in front */
  BQ_NORMALIZER_SPACES = 3,   /* removes leading, trailing or repeated spaces */
  BQ_NORMALIZER_CHARSMAP = 4, /* SentencePiece's: replaces the longest key of a trie */
  BQ_NORMALIZER_ORDER = 5,    /* puts marks in canonical order */
  BQ_NORMALIZER_COMPOSE = 6,  /* composes characters and marks */
  BQ_NORMALIZER_REPLACE = 7,  /* replaces a text by another */
  BQ_NORMALIZER_TRIM = 8,     /* removes white space at the ends of each part */
  BQ_NORMALIZER_TYPES
} bq_normalizer_type;

enum { BQ_PREFIX_AT_START = 1, BQ_PREFIX_UNLESS_PRESENT = 2 };
enum {
  BQ_SPACES_LEADING = 1,
  BQ_SPACES_TRAILING = 2,
  BQ_SPACES_REPEATED = 4,
  BQ_SPACES_OF_EACH_PART = 8
};

/* Position of a part of a text, as flags. Special tokens delimit the parts. */
enum { BQ_TEXT_BEGINS = 1, BQ_TEXT_ENDS = 2, BQ_TEXT_FIRST = 4 /* nothing precedes it */ };

typedef struct bq_normalizer {
  bq_normalizer_type type;
  uint32_t n, flags;
  uint32_t growth, extra; /* the result for n bytes has at most growth * n + extra bytes */
  const uint8_t *records; /* [n]: records, a trie's units, or the replaced text */
  const uint8_t *text;
  uint32_t text_bytes;
  uint8_t ascii[128]; /* MAP: replacement of ASCII characters; 128: it is in the records */
} bq_normalizer;

#endif
