/* Normalizes text: applies a file's normalizers one after the other. */
#ifndef BQ_NORMALIZE_H
#define BQ_NORMALIZE_H

#include "text/normalizer.h"

/* Reads a normalizer from a file (docs/FORMAT.md, TOKN). Its bytes are used in place and must live
 * as long. Returns false if it isn't valid. */
bool bq_normalizer_read(uint32_t type, const uint8_t *bytes, size_t n, bq_normalizer *out);

/* Maximum size that a text of `bytes` bytes has at any time during normalization; UINT64_MAX on
 * overflow. */
uint64_t bq_normalize_limit(const bq_normalizer *steps, uint32_t n, uint64_t bytes);
/* Returns the normalized text: in one of the two buffers of `room` bytes, or `text` itself if n is
 * 0; NULL if the buffers are too small. *bytes: its length, before and after. `position`: flags
 * BQ_TEXT_*. */
const uint8_t *bq_normalize(const bq_normalizer *steps, uint32_t n, uint32_t position,
                            const uint8_t *text, size_t *bytes, uint8_t *const buffers[2],
                            size_t room);

#endif
