/* Changing text before it is cut, in steps that a file brings: lower case, accents off, composed
 * characters, white space. A tokenizer that needs none has none of their tables. */
#ifndef BQ_NORMALIZE_H
#define BQ_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BQ_STEPS = 8 };

typedef enum bq_step_type {
  BQ_STEP_MAP = 1, /* characters become texts, one by one */
  BQ_STEP_TYPES
} bq_step_type;

typedef struct bq_step {
  bq_step_type type;
  uint32_t n, flags;
  uint32_t growth;       /* a byte becomes at most so many */
  const uint8_t *records; /* [n] */
  const uint8_t *text;
  uint32_t text_bytes;
  uint8_t ascii[128]; /* what a character becomes; 128: a text */
} bq_step;

/* Reads a step of a file (docs/FORMAT.md, TOKN), which is used in place. False: it isn't valid. */
bool bq_step_read(uint32_t type, const uint8_t *bytes, size_t n, bq_step *out);

/* Bytes that `steps` make at most of so many, at any time. UINT64_MAX on overflow. */
uint64_t bq_normalize_limit(const bq_step *steps, uint32_t n, uint64_t bytes);
/* The text that the steps make of this one: in one of the two buffers of bq_normalize_limit bytes, or
 * the text itself. */
const uint8_t *bq_normalize(const bq_step *steps, uint32_t n, const uint8_t *text, size_t *bytes,
                            uint8_t *buffers[2]);

#endif
