/* Normalizes text: applies a file's normalizers one after the other. */
#ifndef BQ_NORMALIZE_H
#define BQ_NORMALIZE_H

#include "text/normalizer.h"

/* Reads a step of a file (docs/FORMAT.md, TOKN), which is used in place. False: it isn't valid. */
bool bq_normalizer_read(uint32_t type, const uint8_t *bytes, size_t n, bq_normalizer *out);

/* Bytes that `steps` make at most of so many, at any time. UINT64_MAX on overflow. */
uint64_t bq_normalize_limit(const bq_normalizer *steps, uint32_t n, uint64_t bytes);
/* The text that the steps make of this one: in one of the two buffers of `room` bytes, or the text
 * itself. NULL: there is not enough room. */
const uint8_t *bq_normalize(const bq_normalizer *steps, uint32_t n, uint32_t where,
                            const uint8_t *text, size_t *bytes, uint8_t *const buffers[2],
                            size_t room);

#endif
