/* Tables of the types whose weights are codes: 4-bit indices into a table of 16 integers. GGUF's IQ
 * types (codebooks) and 4-bit floats are converted to these types. A weight is table[code] * unit *
 * scale. The unit is a power of 2, chosen so that the scale fits in an f16. */
#ifndef BQ_CODES_H
#define BQ_CODES_H

#include "core/type.h"

/* Zero point: tables store w + 64, a number below 128, in place of w, as types with 7 bits do. */
#define BQ_CODE_ZERO 64

/* X(NAME of the type, unit, the first eight weights): the other eight are the same, negated.
 *   BQC2K_16   IQ2: 8, 25 and 43 eighths; IQ1: -1, 0 or 1, plus or minus an eighth; two are unused
 *   BQC3K_16   IQ3_XXS, in halves
 *   BQC3SK_16  IQ3_S
 *   BQF4_16    4-bit floats (E2M1), times 2 */
#define BQ_CODE_TABLES(X)                            \
  X(BQC2K_16, 0.125f, 8, 25, 43, 1, 7, 9, 0, 0)      \
  X(BQC3K_16, 0.5f, 2, 6, 10, 14, 18, 22, 26, 31)    \
  X(BQC3SK_16, 1.0f, 1, 3, 5, 7, 9, 11, 13, 15)      \
  X(BQF4_16, 1.0f, 0, 1, 2, 3, 4, 6, 8, 12)

/* The 16 bytes of a row of BQ_CODE_TABLES. */
#define BQ_STORED_CODES(a, b, c, d, e, f, g, h)                                                   \
  64 + (a), 64 + (b), 64 + (c), 64 + (d), 64 + (e), 64 + (f), 64 + (g), 64 + (h), 64 - (a),       \
      64 - (b), 64 - (c), 64 - (d), 64 - (e), 64 - (f), 64 - (g), 64 - (h)

typedef struct bq_code_table {
  bq_type type;
  float unit;
  uint8_t stored[16];
} bq_code_table;

/* Returns the table of a type with BQ_CODES; must not be called for another type. */
static inline const bq_code_table *bq_code_table_of(bq_type type) {
#define BQ_X(NAME, unit, ...) {BQ_TYPE_##NAME, unit, {BQ_STORED_CODES(__VA_ARGS__)}},
  static const bq_code_table tables[] = {BQ_CODE_TABLES(BQ_X)};
#undef BQ_X
  const bq_code_table *table = tables;
  while (table->type != type) table++;
  return table;
}

#endif
