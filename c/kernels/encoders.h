/* Selects an encoder of quant/encoder.h by instruction set. */
#ifndef BQ_ENCODERS_H
#define BQ_ENCODERS_H

#include "quant/encoder.h"

/* The SIMD encoder; NULL where the compiler's flags don't allow SIMD. */
const bq_encoder *bq_encoder_simd128(void);
/* The fastest encoder of this build; never NULL. */
const bq_encoder *bq_encoder_best(void);

#endif
