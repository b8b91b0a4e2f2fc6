/* Changing text before it is cut, in steps that a file brings: lower case, accents off, composed
 * characters, white space. A tokenizer that needs none has none of their tables. */
#ifndef BQ_NORMALIZER_H
#define BQ_NORMALIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BQ_NORMALIZERS = 12 };

typedef enum bq_normalizer_type {
  BQ_NORMALIZER_MAP = 1,      /* characters become texts, one by one */
  BQ_NORMALIZER_PREFIX = 2,   /* a text in front */
  BQ_NORMALIZER_SPACES = 3,   /* spaces at the ends and in rows go */
  BQ_NORMALIZER_CHARSMAP = 4, /* SentencePiece's: the longest text of a trie becomes another */
  BQ_NORMALIZER_ORDER = 5,    /* marks in canonical order */
  BQ_NORMALIZER_COMPOSE = 6,  /* characters and marks become composed characters */
  BQ_NORMALIZER_REPLACE = 7,  /* a text becomes another */
  BQ_NORMALIZER_TYPES
} bq_normalizer_type;

enum { BQ_PREFIX_AT_START = 1, BQ_PREFIX_UNLESS_PRESENT = 2 };
enum {
  BQ_SPACES_LEADING = 1,
  BQ_SPACES_TRAILING = 2,
  BQ_SPACES_REPEATED = 4,
  BQ_SPACES_OF_EACH_PART = 8
};

/* Where a part of a text lies that special tokens cut. */
enum { BQ_TEXT_BEGINS = 1, BQ_TEXT_ENDS = 2, BQ_TEXT_FIRST = 4 /* nothing is before it */ };

typedef struct bq_normalizer {
  bq_normalizer_type type;
  uint32_t n, flags;
  uint32_t growth, extra; /* n bytes become at most growth * n + extra */
  const uint8_t *records; /* [n]; a trie's units, what is replaced */
  const uint8_t *text;
  uint32_t text_bytes;
  uint8_t ascii[128]; /* MAP: what a character becomes; 128: a text */
} bq_normalizer;

#endif
