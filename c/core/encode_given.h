/* A matrix whose integers, scales and minima somebody has chosen, as bytes of a type. */
#ifndef BQ_ENCODE_GIVEN_H
#define BQ_ENCODE_GIVEN_H

#include "core/status.h"
#include "core/type.h"

/* Blocks of a row: cols / block, rounded up. */
typedef struct bq_given {
  int8_t *q;    /* [rows][cols]: what the type has, signed or, with a minimum, not */
  float *scale; /* [rows][blocks] */
  float *min;   /* [rows][blocks]; of types without a minimum it is not read */
} bq_given;

/* As bq_encode (quant.h) lays them out. Scales and minima that f16 can't hold are rounded.
 * ARGUMENT, UNSUPPORTED: as there. */
bq_status bq_encode_given(bq_type type, bq_layout layout, const bq_given *from, size_t rows,
                          size_t cols, uint8_t *dst, bq_error *err);

#endif
