/* Second moments of what goes into a session's products (convert.h: bqw_inputs_watch). */
#ifndef BQW_INPUTS_H
#define BQW_INPUTS_H

#include "border.h"

/* Columns of the module's input; 0: the layer has no such product of its own, or too many are
 * watched. */
uint32_t bqw_inputs_add(bq_session *s, uint32_t layer, uint32_t module, float *moments);
void bqw_inputs_stop(bq_session *s);
/* NULL: there is none. */
const bq_matrix *bqw_inputs_matrix(const bq_session *s, uint32_t layer, uint32_t module);

#endif
