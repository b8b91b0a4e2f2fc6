/* Splits text into pieces by passes, which are stored in the file: each pass splits the pieces of
 * the previous one. A pass is a regular expression, compiled to an automaton when the file was made
 * (js/text/tokenizers/automaton.js). Its matches are pieces, and so is the text between them.
 *
 * A character has a class; table[state][class] is the next state, with BQ_SPLIT_PASS_MATCH if a
 * match ends before the character; column `classes` is the end of the text. The match is the
 * longest one in the table; the compiler makes tables in which this is the match that a
 * backtracking matcher finds first. State 0 is the end, state 1 the start.
 *
 * A long text is read once per pass and state: a scan stops where an earlier scan was at the same
 * position in the same state, because neither finds a match from there. */
#ifndef BQ_SPLIT_PASSES_H
#define BQ_SPLIT_PASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  BQ_SPLIT_PASSES = 8,
  BQ_SPLIT_PASS_STATES = 4096,
  BQ_SPLIT_PASS_CLASSES = 254,
  BQ_SPLIT_PASS_MATCH = 0x8000
};

enum {
  BQ_SPLIT_PASS_DROP_MATCHES = 1, /* such as white space around words */
  BQ_SPLIT_PASS_DROP_BETWEEN = 2,
  BQ_SPLIT_PASS_BYTES = 4, /* each byte is a character of its own */
  BQ_SPLIT_PASS_FLAGS = 7
};

typedef struct bq_split_pass {
  const uint8_t *runs;  /* [n_runs] u32, rising: first code point << 8 | class */
  const uint8_t *table; /* [states][classes + 1] u16 */
  uint32_t flags, classes, states, n_runs;
  uint8_t low[256]; /* classes of U+0000 to U+00FF */
} bq_split_pass;

/* Reads a pass from a file (docs/FORMAT.md, TOKN). Its bytes are used in place and must live as
 * long. Returns false if it isn't valid. */
bool bq_split_pass_read(const uint8_t *bytes, size_t n, bq_split_pass *out);

/* A text that is being split, with the last match of each pass. */
typedef struct bq_multi_splitter {
  const bq_split_pass *stages;
  const uint8_t *text;
  uint8_t *seen; /* set of (position, state) that scans have reached; NULL: the text is short */
  size_t bytes;
  uint32_t n;
  size_t end[BQ_SPLIT_PASSES]; /* of the current piece of each pass */
  size_t match[BQ_SPLIT_PASSES], match_end[BQ_SPLIT_PASSES];
} bq_multi_splitter;

/* Bytes of memory for texts up to `bytes`. */
uint64_t bq_multi_splitter_memory(const bq_split_pass *stages, uint32_t n, uint64_t bytes);
void bq_multi_splitter_begin(bq_multi_splitter *c, const bq_split_pass *stages, uint32_t n,
                             const uint8_t *text, size_t bytes, void *memory);
/* Returns the next piece at or after *at < bytes: it begins at *begin, and *at becomes its end.
 * Returns false if there are no more. */
bool bq_multi_splitter_next(bq_multi_splitter *c, size_t *at, size_t *begin);

#endif
