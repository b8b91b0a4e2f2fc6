/* The parts of a TOKN section besides its vocabulary. */
#ifndef BQ_PARTS_H
#define BQ_PARTS_H

#include "text/vocab.h"

/* Reads the parts of a TOKN section with `tokens` tokens: normalizers, split passes, and flags of
 * added tokens (docs/FORMAT.md, TOKN). FORMAT, UNSUPPORTED. */
bq_status bq_parts_read(bq_cursor *at, uint64_t file_offset, uint32_t tokens, bq_tokenizer *t,
                        bq_error *err);

#endif
