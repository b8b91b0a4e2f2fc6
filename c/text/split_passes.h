/* Cutting text into pieces by automata that a file brings, one after the other: each stage cuts
 * what the one before it left. A stage is a regular expression that was compiled when the file was
 * made (js/convert/tokenizers/automaton.js): what matches is a piece, and so is what lies between.
 *
 * A character is of a class; table[state][class] is the next state, with BQ_SPLIT_PASS_MATCH where
 * a match ends before the character; column `classes` is the end of the text. The match is the
 * longest that the table names, which is the one that a backtracking matcher would have found
 * first. State 0 is the end, state 1 the start.
 *
 * A long text is read once per stage and state: where a scan has come past a place in some state, a
 * later one that comes there in the same state stops, for it would find nothing either. */
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
  BQ_SPLIT_PASS_DROP_MATCHES = 1, /* white space around words, say */
  BQ_SPLIT_PASS_DROP_BETWEEN = 2,
  BQ_SPLIT_PASS_BYTES = 4, /* each byte is a character, whatever it belongs to */
  BQ_SPLIT_PASS_FLAGS = 7
};

typedef struct bq_split_pass {
  const uint8_t *runs;  /* [n_runs] u32, rising: first code point << 8 | class */
  const uint8_t *table; /* [states][classes + 1] u16 */
  uint32_t flags, classes, states, n_runs;
  uint8_t low[256]; /* classes of U+0000 to U+00FF */
} bq_split_pass;

/* Reads a stage of a file (docs/FORMAT.md, TOKN), which is used in place. False: it isn't valid. */
bool bq_split_pass_read(const uint8_t *bytes, size_t n, bq_split_pass *out);

/* One text on its way through the stages; each keeps the match that it found last. */
typedef struct bq_multi_splitter {
  const bq_split_pass *stages;
  const uint8_t *text;
  uint8_t *seen; /* NULL: the text is short */
  size_t bytes;
  uint32_t n;
  size_t end[BQ_SPLIT_PASSES]; /* of the piece that the stage is at */
  size_t match[BQ_SPLIT_PASSES], match_end[BQ_SPLIT_PASSES];
} bq_multi_splitter;

/* Bytes of memory for texts up to `bytes`. */
uint64_t bq_multi_splitter_memory(const bq_split_pass *stages, uint32_t n, uint64_t bytes);
void bq_multi_splitter_begin(bq_multi_splitter *c, const bq_split_pass *stages, uint32_t n,
                             const uint8_t *text, size_t bytes, void *memory);
/* The piece at *at < bytes or behind it, whose end becomes *at; false: no more. */
bool bq_multi_splitter_next(bq_multi_splitter *c, size_t *at, size_t *begin);

#endif
