/* The program of a layer: the steps that compute it. It is derived from the configuration at load
 * and run by session/forward.c. Binding, paging and counting of work use it to find out which
 * weights a layer has. A layer's *kind* is its steps and its attention pattern; the layers of one
 * model may be of several kinds.
 *
 * Steps read and write buffers, [tokens of a micro-batch][columns] each. A step begins when all
 * threads have finished the previous one. */
#ifndef BQ_PROGRAM_H
#define BQ_PROGRAM_H

#include "kernels/kernels.h"
#include "model/config.h"
#include "types.h"

/* Modules of a layer: a matrix or the weight of a norm, with an optional bias. bind.c has their
 * names and shapes. */
typedef enum bq_module {
  BQ_LN1, BQ_Q, BQ_K, BQ_V, BQ_Q_NORM, BQ_K_NORM, BQ_O, BQ_LN1_POST,
  BQ_LN2, BQ_GATE, BQ_UP, BQ_DOWN,
  /* matrices of all experts, one after the other */
  BQ_ROUTER, BQ_EXPERT_GATE, BQ_EXPERT_UP, BQ_EXPERT_DOWN,
  BQ_SHARED_SWITCH, BQ_SHARED_GATE, BQ_SHARED_UP, BQ_SHARED_DOWN,
  BQ_LN2_POST,
  BQ_CONV_IN, BQ_CONV_TAPS, BQ_CONV_OUT, /* of a short convolution, in place of attention */
  /* of a gated delta net: session/recurrent_layers.h */
  BQ_DELTA_QKV, BQ_DELTA_Z, BQ_DELTA_A, BQ_DELTA_B, BQ_DELTA_TAPS, BQ_DELTA_DT, BQ_DELTA_DECAY,
  BQ_DELTA_NORM, BQ_DELTA_OUT,
  /* of a Mamba-2 layer: session/recurrent_layers.h */
  BQ_MAMBA_IN, BQ_MAMBA_TAPS, BQ_MAMBA_BIAS, BQ_MAMBA_DT, BQ_MAMBA_DECAY, BQ_MAMBA_SKIP,
  BQ_MAMBA_NORM, BQ_MAMBA_OUT,
  /* of per-layer embeddings; the projection is the layer's part of a tensor of the model */
  BQ_EMBED_PROJECT, BQ_EMBED_GATE, BQ_EMBED_OUT, BQ_EMBED_POST,
  BQ_LAYER_SCALE,
  BQ_O_NORM, BQ_DOWN_NORM, /* of the inputs of O and DOWN */
  BQ_ATTN_GATE, /* gates for the heads of attention's output */
  BQ_ATTN_SINKS, /* a score for each head, to which no key belongs */
  BQ_MODULES,
  BQ_NO_MODULE = BQ_MODULES
} bq_module;

typedef enum bq_buffer {
  /* Buffers of the forward batch, with a row for each of its rows. */
  BQ_BUFFER_X,    /* [hidden]: the residual stream */
  BQ_BUFFER_EMBEDDED, /* [hidden]: X before the first layer; absent without layer_embed */
  BQ_BUFFER_LAYER_EMBEDS, /* [layers * layer_embed]: the row of embed.layers */
  /* Buffers of the micro-batch. */
  BQ_BUFFER_Q,    /* [heads * head_dim] */
  BQ_BUFFER_K,    /* [kv_heads * head_dim] */
  BQ_BUFFER_V,    /* [kv_heads * head_dim] */
  BQ_BUFFER_MIX,  /* [heads * head_dim]: output of attention */
  BQ_BUFFER_GATE, /* [ffn]; absent without a gate */
  BQ_BUFFER_UP,   /* [ffn] */
  BQ_BUFFER_OUT,  /* [hidden] */
  BQ_BUFFER_EMBED_IN, /* [layer_embed]: the layer's embedding of the token */
  BQ_BUFFER_EMBED_GATE, /* [layer_embed] */
  BQ_BUFFER_CONV_IN, /* [3 * hidden]: two gates and the input of a short convolution */
  BQ_BUFFER_CONV_OUT, /* [hidden]: its gated result */
  BQ_BUFFER_GATED_Q, /* [heads][2][head_dim]: q and the gates of attention's output */
  BQ_BUFFER_HEAD_GATES, /* [heads]: gates of attention's output */
  BQ_BUFFER_DELTA_QKV, /* [channels of a delta net] */
  BQ_BUFFER_DELTA_Z, /* [state_value_heads * state_value_dim] */
  BQ_BUFFER_DELTA_A, BQ_BUFFER_DELTA_B, /* [state_value_heads] */
  BQ_BUFFER_MAMBA_IN, /* z, x, B, C and dt of a Mamba-2 layer, in this order */
  BQ_BUFFER_STATE_OUT, /* [state_value_heads * state_value_dim]: of a delta net, of Mamba-2 */
  BQ_BUFFER_ROUTE,       /* [experts]: router logits */
  BQ_BUFFER_SWITCH,      /* [1]: gate logit of the shared expert */
  BQ_BUFFER_SHARED_GATE, /* [shared_ffn] */
  BQ_BUFFER_SHARED_UP,   /* [shared_ffn] */
  BQ_BUFFER_SHARED_OUT,  /* [hidden] */
  /* Buffers with a row per (token, expert) pair, sorted by expert. */
  BQ_BUFFER_EXPERT_IN,   /* [hidden]: normed */
  BQ_BUFFER_EXPERT_GATE, /* [expert_ffn] */
  BQ_BUFFER_EXPERT_UP,   /* [expert_ffn] */
  BQ_BUFFER_EXPERT_OUT,  /* [hidden] */
  BQ_BUFFERS
} bq_buffer;

/* Maximum columns of a buffer over all layers, and its rows per token. */
uint32_t bq_buffer_cols(const bq_config *config, bq_buffer buffer);
uint32_t bq_buffer_rows(const bq_config *config, bq_buffer buffer);

typedef enum bq_op {
  BQ_OP_MATMUL, /* out[i] = norm(in) * module[i]^T + bias, then the epilogue */
  BQ_OP_NORM,   /* in = norm(in), whole rows */
  BQ_OP_ADD,    /* X += norm(in) * residual_scale, whole rows; then X *= module[0], if given */
  BQ_OP_STORE, /* norms heads of Q and K, where module[0] and [1] are given, rotates them, and
                  stores K and V in the cache */
  BQ_OP_ATTEND,  /* MIX = attention of Q over the cache */
  BQ_OP_EMBED,   /* EMBED_GATE = act(EMBED_GATE) * the token's per-layer embedding */
  BQ_OP_CONVOLVE, /* CONV_OUT = short convolution of CONV_IN; updates the layer's state */
  BQ_OP_DELTA,    /* STATE_OUT = gated delta net of DELTA_QKV, Z, A, B; updates the state */
  BQ_OP_MAMBA_CONVOLVE, /* x, B and C in MAMBA_IN = their convolutions; updates their state */
  BQ_OP_MAMBA,      /* STATE_OUT = recurrence of MAMBA_IN; updates the state */
  BQ_OP_MAMBA_NORM, /* STATE_OUT = norm(STATE_OUT), groups of heads */
  BQ_OP_GATE,     /* MIX *= sigmoid of the gates in GATED_Q or HEAD_GATES */
  BQ_OP_ROUTE,   /* chooses experts by the ROUTE logits */
  BQ_OP_EXPERTS, /* as MATMUL, each row with the matrices of its own expert */
  BQ_OP_COMBINE  /* OUT = weighted sum of a token's experts, then the epilogue */
} bq_op;

/* Operation that a thread applies to the rows of a MATMUL that it computed, without a barrier. */
typedef enum bq_epilogue {
  BQ_EPILOGUE_NONE,
  BQ_EPILOGUE_ACTIVATE, /* out[0] = act(out[0]), times out[1] if there are two */
  BQ_EPILOGUE_ADD       /* X += out[0] * residual_scale */
} bq_epilogue;

enum { BQ_STEP_MATRICES = 5, BQ_STEPS_MAX = 20, BQ_PREPARE = 0x80, BQ_PASS = 0x20 };

typedef struct bq_layer_step {
  uint8_t op, stage; /* bq_op; stage: the bq_stage of the step in a trace */
  uint8_t in;        /* input buffer */
  uint8_t norm;      /* module that norms the input; BQ_NO_MODULE: none */
  uint8_t epilogue;
  uint8_t n;         /* number of modules; those of a MATMUL have as many columns as the input */
  uint8_t module[BQ_STEP_MATRICES], out[BQ_STEP_MATRICES];
} bq_layer_step;

/* The phases of a program in order, with a barrier after each. A phase is the number of a step,
 * below BQ_PASS. With the bit BQ_PREPARE, the phase only prepares the step's input, for all
 * threads. With BQ_PASS * bq_attend_pass added, the phase is one pass of an ATTEND step. */
typedef struct bq_phases {
  uint8_t list[2 * BQ_STEPS_MAX];
  uint8_t n;
} bq_phases;

typedef struct bq_layer_kind {
  bq_layer_step steps[BQ_STEPS_MAX];
  uint8_t n;
  uint64_t modules; /* set of modules that a step uses, as bits */
  bq_phases one_token; /* for one token: each thread prepares the input of a MATMUL for itself */
  bq_phases shared_attention; /* as one_token, with a phase for each pass of ATTEND */
  bq_phases many_tokens; /* for several tokens */
  uint32_t window; /* sliding window of attention; 0: none */
  uint32_t rope;   /* index of the RoPE table; BQ_NO_ROPE: none (NoPE) */
  uint32_t head_dim, kv_heads, rope_dim;
  bool stores;     /* the layer has keys and values of its own */
  bool keys_as_values; /* v is k before its norm */
  uint32_t cols[BQ_BUFFERS]; /* columns of the buffers in this layer */
} bq_layer_kind;

enum { BQ_KINDS = 64, BQ_ROPE_TABLES = 2, BQ_NO_ROPE = BQ_ROPE_TABLES };

/* Number of RoPE tables: global and local ones, or one for all layers. */
uint32_t bq_rope_tables(const bq_config *config);
/* The kind of a layer: a number below BQ_KINDS. */
uint32_t bq_layer_kind_of(const bq_config *config, uint32_t layer);
/* The set of the kinds of all layers, as bits. */
uint64_t bq_layer_kinds_of(const bq_config *config);
/* Number of kinds below `kind` in a set; BQ_KINDS: of all. */
uint32_t bq_layer_kinds_below(uint64_t set, uint32_t kind);
/* Makes the program of a kind. */
void bq_layer_kind_make(const bq_config *config, uint32_t kind, bq_layer_kind *out);
static inline bool bq_layer_kind_has(const bq_layer_kind *kind, bq_module module) {
  return kind->modules >> module & 1;
}

#endif
