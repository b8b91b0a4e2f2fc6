/* Computes parts of single layers over all tokens of a sequence. Converters use it to record the
 * inputs of matmuls on a calibration text and to change weights layer by layer (convert.h).
 *
 * A *cut* is the index of a step of a layer (c/model/program.h). It denotes the point right before
 * the step's matmuls, when their input is prepared. Cut 0 is also the beginning of the layer, and
 * the number of steps its end. The *carried* floats of a token at a cut are its values in those
 * buffers that later steps read: the residual, attention's output, or the input of the last matmul,
 * wherever a later step needs them. */
#ifndef BQW_LAYERS_H
#define BQW_LAYERS_H

#include "border.h"

typedef struct bqw_cut { /* 12 bytes */
  uint32_t step;
  uint32_t cols;    /* columns of the input; 0: the layer has no such matmul, and this is its end */
  uint32_t carried; /* carried floats per token */
} bqw_cut;

/* Returns the cut at the input of a module (c/model/program.h). */
bqw_cut bqw_layer_cut_of(const bq_session *s, uint32_t layer, uint32_t module);
/* Computes the carried floats at cut `to` (`after`) from those at cut `from` (`before`), each
 * [tokens][carried], and, unless `input` is NULL, the input of the matmul at `to`, [tokens][cols].
 * With layer = number of layers, writes the embedding to `after`. WANT_DATA: the layer's weights,
 * or rows of the embedding, have to be read first. ARGUMENT, UNSUPPORTED. */
bq_status bqw_layer_run_part(bq_session *s, uint32_t layer, uint32_t from, uint32_t to,
                             const float *before, float *after, float *input, bq_error *err);
/* Claims a buffer for a paged layer (c/model/pages.h). Returns true if *out has to be read. The
 * buffer may have held another layer; changes of that layer's weights are lost then. */
bool bqw_layer_claim(const bq_session *s, uint32_t layer, bq_page *out);
/* The weights of a layer's module or, with layer = number of layers, of the embedding (module 0) or
 * the head (1); NULL if there are none. */
const bq_matrix *bqw_layer_matrix(const bq_session *s, uint32_t layer, uint32_t module);

#endif
