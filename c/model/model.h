/* The struct of a model: configuration, weights, tokenizer, and how much of it has arrived. The
 * loader creates it in one block of memory and owns it. Outside the loader it is read-only, except
 * for pages and clusters. `ready` only increases: a weight may be read once its stage is ready
 * (model/ready.h). */
#ifndef BQ_MODEL_H
#define BQ_MODEL_H

#include "text/tokenizer.h"
#include "types.h"
#include "model/program.h"
#include "model/ready.h"

/* The weights of a module. Vectors are f32, converted at load if the file stores another type. */
typedef struct bq_weights {
  bq_matrix w;    /* a norm has one row; data NULL: absent */
  const float *b; /* bias: [rows of w], of a norm [cols]; NULL: none */
  const float *scale; /* factors of the product's rows, [rows of w]; NULL: none */
} bq_weights;

typedef struct bq_layer {
  const bq_layer_kind *kind;
  uint32_t kv; /* the layer whose keys and values this one attends to */
  bq_weights module[BQ_MODULES]; /* only those that a step uses are set */
} bq_layer;

/* A section's payload; `data` points into the prefix or the manifest. */
typedef struct bq_section {
  uint32_t tag;         /* four characters, the first in the low byte */
  size_t bytes;
  const uint8_t *data;
  uint64_t offset;      /* file offset of the payload, for errors */
} bq_section;

enum { BQ_SECTIONS_MAX = 64 }; /* maximum per file */

struct bq_model {
  bq_config config;
  uint8_t file_id[BQ_FILE_ID_BYTES]; /* zeros: the file has no id */
  const bq_kernels *kernels;
  bq_matrix wte;        /* [vocab][hidden] */
  bq_matrix wpe;        /* [context][hidden]; data NULL unless positions are learned */
  bq_layer *layers;     /* [config.layers] */
  bq_layer_kind *kinds; /* the kinds that occur in this model, by rising number */
  bq_matrix wtt;        /* [token_types][hidden]; data NULL without token types */
  const float *ln_0_w, *ln_0_b; /* norm of the embedding, [hidden]; NULL: none */
  bq_matrix layer_embeds; /* [vocab][layers * layer_embed]: per-layer embeddings; data NULL: none */
  bq_matrix embed_project; /* [layers * layer_embed][hidden] */
  const float *embed_norm_w; /* of the projection, [layer_embed] */
  const float *rope[BQ_ROPE_TABLES]; /* divisors of the angles of global and local layers, [rope_dim
                                        / 2]; NULL: none */
  const float *rope_long; /* divisors for global layers in long sessions (bq_config_long); NULL:
                             none */
  float *slopes;        /* ALiBi slopes, [heads]; NULL: none */
  const float *biases;  /* of attention scores, [bias_buckets][heads]; NULL: none */
  uint8_t bias_bucket[2 * BQ_BIAS_FAR + 1]; /* bq_attend_job.bias_buckets */
  const float *ln_f_w, *ln_f_b; /* final norm, [hidden] */
  bq_matrix head;       /* [vocab][hidden]; the same data as wte when tied */
  const float *head_b;  /* [vocab] or NULL */
  bq_weights dense1, dense2; /* after the pooling: config.dense1, dense2 */
  const float *dense_norm_w, *dense_norm_b; /* norm between them, [dense1]; NULL: none */
  bq_tokenizer *tokenizer; /* NULL: the file has none */
  const bq_section *sections;
  uint32_t n_sections;
  uint32_t ready;       /* number of loading stages that have arrived (model/ready.h) */
  struct bq_pages *pages; /* model/pages.h; NULL: nothing is paged */
  struct bq_clusters *clusters; /* model/clusters.h; NULL: not built. A block of its own */
};

/* Derives from the configuration the programs of the layers, the ALiBi slopes and the buckets of
 * biases. model->layers, model->kinds and, with ALiBi, model->slopes must be allocated. */
void bq_model_program(bq_model *model);

#endif
