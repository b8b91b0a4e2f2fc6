/* What goes into a session's products: its second moments, itself, or how it differs from what was
 * there before (convert.h: bqw_inputs_watch); and layers by themselves. */
#ifndef BQW_INPUTS_H
#define BQW_INPUTS_H

#include "border.h"

/* What is wanted of an input: each may be NULL. */
typedef struct bqw_watch {
  float *moments; /* [cols][cols], added to */
  float *rows;    /* [tokens][cols]: written, or, where there is a drift, used up */
  float *drift;   /* [cols][cols], added to: from what it is now to those rows */
} bqw_watch;

/* Columns of the module's input; 0: the layer has no such product of its own, or too many are
 * watched. */
uint32_t bqw_inputs_add(bq_session *s, uint32_t layer, uint32_t module, bqw_watch watch);
void bqw_inputs_stop(bq_session *s);
/* convert.h: bqw_layer_run. */
bq_status bqw_inputs_layer(bq_session *s, uint32_t layer, uint32_t module, float *x,
                           bq_error *err);
/* NULL: there is none. */
const bq_matrix *bqw_inputs_matrix(const bq_session *s, uint32_t layer, uint32_t module);

#endif
