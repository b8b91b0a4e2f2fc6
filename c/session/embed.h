/* The embedding of a forward batch: token (and position) embeddings, and the rotary angles of each
 * row. */
#ifndef BQ_EMBED_H
#define BQ_EMBED_H

#include "session/session.h"

/* Embeds the rows from s->batch.embedded on. WANT_DATA: a row of the embedding has to be read; then
 * call again. */
bq_status bq_forward_embed(bq_session *s, bq_error *err);

#endif
