/* Layers by themselves, over all tokens of a timeline, from one *cut* to another: what converters
 * read a text with, who want to see what goes into products, and change these (convert.h).
 *
 * A cut is a number of a layer's steps (c/model/program.h): right before that step's products,
 * whose input is made. 0 is the beginning, too, and the number of steps the end. What a token
 * *carries* there are its numbers in the buffers that later steps read: the residual, behind it
 * what attention gave, behind that what goes into the last product; each where it is needed. */
#ifndef BQW_LAYERS_H
#define BQW_LAYERS_H

#include "border.h"

typedef struct bqw_cut { /* 12 bytes */
  uint32_t step;
  uint32_t cols;    /* of the input; 0: the layer has no such product, and this is its end */
  uint32_t carried; /* floats per token */
} bqw_cut;

/* At the input of a module (c/model/program.h). */
bqw_cut bqw_layer_cut_of(const bq_session *s, uint32_t layer, uint32_t module);
/* From what tokens carry at `from` [tokens][carried] to what they carry at `to`, and their input
 * there [tokens][cols], unless it is NULL. "Layer" `layers`: `after` becomes the embedding.
 * WANT_DATA: the layer's weights, or rows of the embedding, have to be read first. */
bq_status bqw_layer_run_part(bq_session *s, uint32_t layer, uint32_t from, uint32_t to,
                             const float *before, float *after, float *input, bq_error *err);
/* Of a layer that doesn't stay in memory (c/model/pages.h). True: *out is to be read. Another one
 * may be pushed out, and what was changed in that one with it. */
bool bqw_layer_claim(const bq_session *s, uint32_t layer, bq_page *out);
/* A layer's module, or in "layer" `layers` the embedding (0) or the head (1). NULL: there is
 * none. */
const bq_matrix *bqw_layer_matrix(const bq_session *s, uint32_t layer, uint32_t module);

#endif
