#ifndef BQ_ENCODERS_H
#define BQ_ENCODERS_H

#include "quant/encoder.h"

/* NULL where the compiler's flags don't allow it. */
const bq_encoder *bq_encoder_simd128(void);
/* Never NULL. */
const bq_encoder *bq_encoder_best(void);

#endif
