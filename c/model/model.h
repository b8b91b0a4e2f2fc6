/* The inside of a model: configuration, weights in slots, tokenizer, what has arrived.
 *
 * Made by the loader in one block of memory and immutable for everyone else, but for `ready`,
 * which only grows: a weight may be read once its stage is ready (model/ready.h). */
#ifndef BQ_MODEL_H
#define BQ_MODEL_H

#include "text/tokenizer.h"
#include "types.h"
#include "model/program.h"
#include "model/ready.h"

/* Vectors are f32 whatever the file stored. */
typedef struct bq_weights {
  bq_matrix w;    /* of a norm: one row; data NULL: there is none */
  const float *b; /* [rows of w], of a norm [cols]; NULL: there is none */
  const float *scale; /* [rows of w]: factors of the product's rows; NULL: there are none */
} bq_weights;

typedef struct bq_layer {
  const bq_layer_kind *kind;
  bq_weights module[BQ_MODULES]; /* those that a step of its kind uses */
} bq_layer;

/* A section's payload, in place. */
typedef struct bq_section {
  uint32_t tag;         /* four characters, the first in the low byte */
  size_t bytes;
  const uint8_t *data;
  uint64_t offset;      /* of the payload in the file, for errors */
} bq_section;

enum { BQ_SECTIONS_MAX = 64 }; /* in one file */

struct bq_model {
  bq_config config;
  uint8_t file_id[BQ_FILE_ID_BYTES]; /* zeros: the file has none */
  const bq_kernels *kernels;
  bq_matrix wte;        /* [vocab][hidden] */
  bq_matrix wpe;        /* [context][hidden]; data NULL unless positions are learned */
  bq_layer *layers;     /* [config.layers] */
  bq_layer_kind *kinds; /* [BQ_KINDS] */
  bq_matrix wtt;        /* [token_types][hidden]; data NULL without token types */
  const float *ln_0_w, *ln_0_b; /* [hidden]: of the embedding; NULL unless that is normed */
  const float *rope[BQ_ROPE_TABLES]; /* [rope_dim / 2]: divisors of the angles of global and of
                                      * local layers; NULL: none */
  const float *rope_long; /* [rope_dim / 2]: of global layers in long sessions; NULL: none */
  float *slopes;        /* [heads] of ALiBi; NULL without */
  const float *ln_f_w, *ln_f_b; /* [hidden] */
  bq_matrix head;       /* [vocab][hidden]; the same data as wte when tied */
  const float *head_b;  /* [vocab] or NULL */
  bq_tokenizer *tokenizer; /* NULL: the file has none */
  const bq_section *sections;
  uint32_t n_sections;
  uint32_t ready;       /* stages: see model/ready.h */
  struct bq_pages *pages; /* model/pages.h; NULL: all weights stay in memory */
  struct bq_clusters *clusters; /* model/clusters.h; NULL: not made. A block of its own */
};

/* Makes the program of the layers from the configuration, and what its attention needs.
 * model->layers, model->kinds and, with ALiBi, model->slopes are there. */
void bq_model_program(bq_model *model);

#endif
