/* The normalizer CHARSMAP: SentencePiece's "precompiled_charsmap". */
#ifndef BQ_CHARSMAP_H
#define BQ_CHARSMAP_H

#include "text/normalizer.h"
#include "text/out.h"

/* Reads the normalizer from a file; returns false if it isn't valid. bq_charsmap applies it. */
bool bq_charsmap_read(const uint8_t *bytes, size_t n, bq_normalizer *out);
void bq_charsmap(const bq_normalizer *s, const uint8_t *text, size_t bytes, bq_out *out);

#endif
