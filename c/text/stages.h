/* Cutting text into pieces by automata that a file brings, one after the other: each stage cuts
 * what the one before it left. A stage is a regular expression that was compiled when the file was
 * made (js/text/tokenizers/automaton.js): what matches is a piece, and so is what lies between.
 *
 * A character is of a class; table[state][class] is the next state, with BQ_STAGE_MATCH where a
 * match ends before the character; column `classes` is the end of the text. The match is the
 * longest that the table names, which is the one that a backtracking matcher would have found
 * first. State 0 is the end, state 1 the start.
 *
 * A long text is read once per stage and state: where a scan has come past a place in some state, a
 * later one that comes there in the same state stops, for it would find nothing either. */
#ifndef BQ_STAGES_H
#define BQ_STAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BQ_STAGES = 8, BQ_STAGE_STATES = 4096, BQ_STAGE_CLASSES = 254, BQ_STAGE_MATCH = 0x8000 };

enum {
  BQ_STAGE_DROP_MATCHES = 1, /* white space around words, say */
  BQ_STAGE_DROP_BETWEEN = 2,
  BQ_STAGE_BYTES = 4, /* each byte is a character, whatever it belongs to */
  BQ_STAGE_FLAGS = 7
};

typedef struct bq_cut_stage {
  const uint8_t *runs;  /* [n_runs] u32, rising: first code point << 8 | class */
  const uint8_t *table; /* [states][classes + 1] u16 */
  uint32_t flags, classes, states, n_runs;
  uint8_t low[256]; /* classes of U+0000 to U+00FF */
} bq_cut_stage;

/* Reads a stage of a file (docs/FORMAT.md, TOKN), which is used in place. False: it isn't valid. */
bool bq_cut_stage_read(const uint8_t *bytes, size_t n, bq_cut_stage *out);

/* One text on its way through the stages; each keeps the match that it found last. */
typedef struct bq_cutter {
  const bq_cut_stage *stages;
  const uint8_t *text;
  uint8_t *seen; /* NULL: the text is short */
  size_t bytes;
  uint32_t n;
  size_t end[BQ_STAGES]; /* of the piece that the stage is at */
  size_t match[BQ_STAGES], match_end[BQ_STAGES];
} bq_cutter;

/* Bytes of memory for texts up to `bytes`. */
uint64_t bq_cutter_memory(const bq_cut_stage *stages, uint32_t n, uint64_t bytes);
void bq_cutter_begin(bq_cutter *c, const bq_cut_stage *stages, uint32_t n, const uint8_t *text,
                     size_t bytes, void *memory);
/* The piece at *at < bytes or behind it, whose end becomes *at; false: no more. */
bool bq_cutter_next(bq_cutter *c, size_t *at, size_t *begin);

#endif
