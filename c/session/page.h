/* Weights that are read on demand (model/pages.h): determines the pages that the next work unit of
 * a session needs and those to read ahead. Implements of bq.h: bq_session_pages. */
#ifndef BQ_PAGE_H
#define BQ_PAGE_H

#include "session/session.h"

/* These functions return the weights of a work unit, whether they are paged or not. WANT_DATA: they
 * have to be read first. */

/* Copies row `token` of the token embedding to `wte` and, unless they are NULL, row `position` of
 * the position embedding to `wpe` and row `token` of per-layer embeddings to `layer_embeds`. */
bq_status bq_paged_embedding(bq_session *s, uint32_t token, uint32_t position, float *wte,
                             float *wpe, float *layer_embeds, bq_error *err);
/* Checks that layer s->batch.layer is in memory. */
bq_status bq_paged_layer(const bq_session *s, bq_error *err);
/* Returns the head or, if it is paged, its next page: *part has the rows from *row0 on. */
bq_status bq_paged_head(const bq_session *s, bq_matrix *part, uint32_t *row0, bq_error *err);

#endif
