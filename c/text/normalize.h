/* Normalizes text: applies a file's normalizers one after the other. */
#ifndef BQ_NORMALIZE_H
#define BQ_NORMALIZE_H

#include "text/normalizer.h"

/* Reads a normalizer from a file (docs/FORMAT.md, TOKN), which is used in place. Returns false if
 * it isn't valid. */
bool bq_normalizer_read(uint32_t type, const uint8_t *bytes, size_t n, bq_normalizer *out);

/* Maximum bytes of a text of `bytes` bytes at any time during normalization; UINT64_MAX on
 * overflow. */
uint64_t bq_normalize_limit(const bq_normalizer *steps, uint32_t n, uint64_t bytes);
/* The normalized text: in one of the two buffers of `room` bytes, or `text` itself. NULL: there is
 * not enough room. */
const uint8_t *bq_normalize(const bq_normalizer *steps, uint32_t n, uint32_t where,
                            const uint8_t *text, size_t *bytes, uint8_t *const buffers[2],
                            size_t room);

#endif
