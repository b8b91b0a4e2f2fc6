/* Computes single layers over all tokens of a sequence, from one *cut* to another: for converters,
 * which record the inputs of matmuls on a calibration text and change weights (convert.h).
 *
 * A cut is the index of a layer's step (c/model/program.h): right before its matmuls, whose input
 * is prepared. 0 is also the beginning, and the number of steps the end. At a cut a token *carries*
 * its values of the buffers that later steps read: the residual, then attention's output, then the
 * input of the last matmul, each where it is needed. */
#ifndef BQW_LAYERS_H
#define BQW_LAYERS_H

#include "border.h"

typedef struct bqw_cut { /* 12 bytes */
  uint32_t step;
  uint32_t cols;    /* columns of the input; 0: the layer has no such matmul, and this is its end */
  uint32_t carried; /* floats per token */
} bqw_cut;

/* The cut at the input of a module (c/model/program.h). */
bqw_cut bqw_layer_cut_of(const bq_session *s, uint32_t layer, uint32_t module);
/* Computes what tokens carry at `to` from what they carry at `from` ([tokens][carried]) and, unless
 * `input` is NULL, their input there, [tokens][cols]. "Layer" `layers`: `after` becomes the
 * embedding. WANT_DATA: the layer's weights, or rows of the embedding, have to be read first. */
bq_status bqw_layer_run_part(bq_session *s, uint32_t layer, uint32_t from, uint32_t to,
                             const float *before, float *after, float *input, bq_error *err);
/* Claims a paged layer (c/model/pages.h). Returns true if *out has to be read. Another layer may be
 * displaced, and changes of its weights are lost then. */
bool bqw_layer_claim(const bq_session *s, uint32_t layer, bq_page *out);
/* A layer's module or, in "layer" `layers`, the embedding (0) or the head (1); NULL if there is
 * none. */
const bq_matrix *bqw_layer_matrix(const bq_session *s, uint32_t layer, uint32_t module);

#endif
