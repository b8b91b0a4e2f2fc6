/* What a layer computes, said as steps: made at load from the configuration alone, walked by
 * session/forward.c, and asked by whoever wants to know which weights a layer has (binding, paging,
 * the count of work). A layer's *kind* is its steps and what its attention sees; the layers of one
 * model may be of several kinds.
 *
 * Values flow between buffers, [tokens of a batch][columns] each. A step begins when all threads
 * are done with the one before. */
#ifndef BQ_PROGRAM_H
#define BQ_PROGRAM_H

#include "kernels/kernels.h"
#include "model/config.h"
#include "types.h"

/* Modules of a layer: a matrix or the weight of a norm, and a bias. Their names and shapes:
 * bind.c. */
typedef enum bq_module {
  BQ_LN1, BQ_Q, BQ_K, BQ_V, BQ_Q_NORM, BQ_K_NORM, BQ_O, BQ_LN1_POST,
  BQ_LN2, BQ_GATE, BQ_UP, BQ_DOWN,
  BQ_ROUTER, BQ_EXPERT_GATE, BQ_EXPERT_UP, BQ_EXPERT_DOWN, /* of experts one after the other */
  BQ_SHARED_SWITCH, BQ_SHARED_GATE, BQ_SHARED_UP, BQ_SHARED_DOWN,
  BQ_LN2_POST,
  BQ_MODULES,
  BQ_NO_MODULE = BQ_MODULES
} bq_module;

typedef enum bq_buffer {
  BQ_BUFFER_X,    /* [hidden]: goes from layer to layer */
  BQ_BUFFER_Q,    /* [heads * head_dim] */
  BQ_BUFFER_K,    /* [kv_heads * head_dim] */
  BQ_BUFFER_V,    /* [kv_heads * head_dim] */
  BQ_BUFFER_MIX,  /* [heads * head_dim]: what attention gives */
  BQ_BUFFER_GATE, /* [ffn]; none in a model without gates */
  BQ_BUFFER_UP,   /* [ffn] */
  BQ_BUFFER_OUT,  /* [hidden] */
  BQ_BUFFER_ROUTE,       /* [experts]: scores */
  BQ_BUFFER_SWITCH,      /* [1]: score of the shared expert */
  BQ_BUFFER_SHARED_GATE, /* [shared_ffn] */
  BQ_BUFFER_SHARED_UP,   /* [shared_ffn] */
  BQ_BUFFER_SHARED_OUT,  /* [hidden] */
  /* A row for each token and expert that it goes through, those of an expert together. */
  BQ_BUFFER_EXPERT_IN,   /* [hidden]: normed */
  BQ_BUFFER_EXPERT_GATE, /* [expert_ffn] */
  BQ_BUFFER_EXPERT_UP,   /* [expert_ffn] */
  BQ_BUFFER_EXPERT_OUT,  /* [hidden] */
  BQ_BUFFERS
} bq_buffer;

/* Columns of a buffer, and rows that each token has. */
uint32_t bq_buffer_cols(const bq_config *config, bq_buffer buffer);
uint32_t bq_buffer_rows(const bq_config *config, bq_buffer buffer);

typedef enum bq_op {
  BQ_OP_MATMUL, /* out[i] = norm(in) * module[i]^T + bias; then what `then` says */
  BQ_OP_NORM,   /* in = norm(in), whole rows */
  BQ_OP_ADD,    /* X += norm(in) * residual_scale, whole rows */
  BQ_OP_STORE, /* heads of Q and K normed, where module[0] and [1] say so, and rotated; K and V into
                * the cache */
  BQ_OP_ATTEND,  /* MIX = attention of Q over the cache */
  BQ_OP_ROUTE,   /* chooses experts by ROUTE */
  BQ_OP_EXPERTS, /* as LINEAR, each row with its own expert's part of the modules */
  BQ_OP_COMBINE  /* OUT = what the experts of a token give, weighted; then what `then` says */
} bq_op;

/* What a row group of a LINEAR goes on with, without waiting for others. */
typedef enum bq_epilogue {
  BQ_EPILOGUE_NONE,
  BQ_EPILOGUE_ACTIVATE, /* out[0] = act(out[0]), times out[1] where there is one */
  BQ_EPILOGUE_ADD       /* X += out[0] * residual_scale */
} bq_epilogue;

enum { BQ_STEP_MATRICES = 3, BQ_STEPS_MAX = 16, BQ_PREPARE = 0x80 };

typedef struct bq_layer_step {
  uint8_t op, stage; /* stage: the one that its weights are counted in */
  uint8_t in;        /* buffer */
  uint8_t norm;      /* the input is normed with this module; BQ_NO_MODULE: it is not */
  uint8_t then;
  uint8_t n;         /* modules; those of a LINEAR have as many columns as the input has */
  uint8_t module[BQ_STEP_MATRICES], out[BQ_STEP_MATRICES];
} bq_layer_step;

/* Parts, one after the other with a barrier between them: the number of a step; with BQ_PREPARE
 * only its input is made, for all threads. */
typedef struct bq_phases {
  uint8_t list[2 * BQ_STEPS_MAX];
  uint8_t n;
} bq_phases;

typedef struct bq_layer_kind {
  bq_layer_step steps[BQ_STEPS_MAX];
  uint8_t n;
  uint64_t modules; /* that a step uses, as bits */
  bq_phases alone; /* for one token: each thread makes the input of a LINEAR for itself */
  bq_phases batch; /* for several */
  uint32_t window; /* positions that attention sees; 0: all */
  uint32_t rope;   /* table of rotations; BQ_NO_ROPE: none */
} bq_layer_kind;

enum { BQ_KINDS = 8, BQ_ROPE_TABLES = 2, BQ_NO_ROPE = BQ_ROPE_TABLES };

/* Tables of rotations that layers use: global and local ones, or one for all. */
uint32_t bq_rope_tables(const bq_config *config);
/* The kind of a layer: an index below BQ_KINDS. */
uint32_t bq_layer_kind_of(const bq_config *config, uint32_t layer);
void bq_layer_kind_make(const bq_config *config, uint32_t kind, bq_layer_kind *out);
static inline bool bq_layer_kind_has(const bq_layer_kind *kind, bq_module module) {
  return kind->modules >> module & 1;
}

#endif
