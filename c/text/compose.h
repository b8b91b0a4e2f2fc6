/* The normalizers ORDER and COMPOSE: Unicode's canonical order and composition. */
#ifndef BQ_COMPOSE_H
#define BQ_COMPOSE_H

#include "text/normalizer.h"
#include "text/out.h"

/* The read functions read a normalizer from a file and return false if it isn't valid; the others
 * apply it. */
bool bq_order_read(const uint8_t *bytes, size_t n, bq_normalizer *out);
void bq_order(const bq_normalizer *s, const uint8_t *text, size_t bytes, bq_out *out);
bool bq_compose_read(const uint8_t *bytes, size_t n, bq_normalizer *out);
void bq_compose(const bq_normalizer *s, const uint8_t *text, size_t bytes, bq_out *out);

#endif
