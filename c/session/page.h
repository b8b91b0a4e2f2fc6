/* Weights that are read on demand (model/pages.h): what the next slice of a session needs, and what
 * to read ahead. Implements of bq.h: bq_session_pages. */
#ifndef BQ_PAGE_H
#define BQ_PAGE_H

#include "session/session.h"

/* The weights of a slice, wherever they lie. Each returns WANT_DATA if they have to be read first.
 */
/* Row `token` of the token embedding and, unless they are NULL, row `position` of the position
 * embedding and row `token` of per-layer embeddings. */
bq_status bq_paged_embedding(bq_session *s, uint32_t token, uint32_t position, float *wte,
                             float *wpe, float *layer_embeds, bq_error *err);
/* Whether layer s->batch.layer is in memory. */
bq_status bq_paged_layer(const bq_session *s, bq_error *err);
/* The head, or its next page: *part has the rows from *row0 on. */
bq_status bq_paged_head(const bq_session *s, bq_matrix *part, uint32_t *row0, bq_error *err);

#endif
