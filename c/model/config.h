/* What a model is: one structure for every architecture, filled from a file's CONF section.
 * Later architectures add fields; zero means what the ones before did. */
#ifndef BQ_CONFIG_H
#define BQ_CONFIG_H

#include "core/cursor.h"
#include "core/status.h"

typedef enum bq_norm { BQ_NORM_RMS = 0, BQ_NORM_LAYER = 1 } bq_norm;
typedef enum bq_position {
  BQ_POSITION_ROPE = 0,
  BQ_POSITION_LEARNED = 1,
  BQ_POSITION_ALIBI = 2,
  BQ_POSITION_NONE = 3
} bq_position;
typedef enum bq_activation { BQ_SILU = 0, BQ_GELU = 1, BQ_RELU = 2, BQ_GELU_ERF = 3 } bq_activation;
typedef enum bq_rope_pairs { BQ_ROPE_HALF = 0, BQ_ROPE_ADJACENT = 1 } bq_rope_pairs;

/* Where attention and MLP are normed. */
typedef enum bq_norm_place {
  BQ_NORM_PRE = 0,   /* their input */
  BQ_NORM_POST_BRANCH = 1,    /* their output, before it is added */
  BQ_NORM_SANDWICH = 2,   /* both */
  BQ_NORM_POST = 3 /* the sum */
} bq_norm_place;

/* What the MLP reads. */
typedef enum bq_block {
  BQ_BLOCK_SEQUENTIAL = 0, /* the sum with attention's output */
  BQ_BLOCK_PARALLEL = 1,   /* what attention reads, through a norm of its own */
  BQ_BLOCK_SHARED = 2      /* what attention reads, through the same norm */
} bq_block;

/* What makes one vector of a text's hidden states. */
typedef enum bq_pooling {
  BQ_POOL_NONE = 0, /* the file doesn't tell */
  BQ_POOL_MEAN = 1,   /* of all its tokens */
  BQ_POOL_CLS = 2,    /* the first token's */
  BQ_POOL_LAST = 3    /* the last token's */
} bq_pooling;

typedef enum bq_qk_norm {
  BQ_QK_PLAIN = 0,
  BQ_QK_HEADS = 1, /* each head of q and k is normed by itself */
  BQ_QK_ROWS = 2,  /* all heads of q are normed together, and all of k */
  BQ_QK_EACH = 3   /* as HEADS, with weights for each head of its own */
} bq_qk_norm;

enum { BQ_LAYERS_MAX = 1024, BQ_CONV_MAX = 16 };

/* Some layers of a model: layer i is bit i % 32 of word i / 32. */
typedef struct bq_layer_set {
  uint32_t bits[BQ_LAYERS_MAX / 32];
} bq_layer_set;

static inline bool bq_layer_set_has(const bq_layer_set *set, uint32_t layer) {
  return set->bits[layer / 32] >> layer % 32 & 1;
}

typedef struct bq_config {
  uint32_t arch;       /* the family it comes from; what is computed follows from the rest alone */
  uint32_t layers;
  uint32_t hidden;     /* dimensions of the hidden state */
  uint32_t heads, kv_heads;
  uint32_t head_dim;   /* dimensions of a head */
  uint32_t ffn;        /* dimensions inside the MLP */
  uint32_t vocab;      /* tokens */
  uint32_t context;    /* positions */
  bq_norm norm;
  float norm_eps;      /* added to the variance */
  bq_position position;
  float rope_theta;    /* base of the rotary frequencies */
  bq_rope_pairs rope_pairs;
  uint32_t rope_dim;   /* dimensions of a head that are rotated */
  bq_activation activation;
  bool gated, tied;
  bq_norm_place norm_place;
  bq_block block;
  bq_qk_norm qk_norm;
  uint32_t window;     /* positions that a token of a local layer sees, itself included; 0: all
                          layers are global */
  uint32_t global_every; /* layer i is global if (i + 1) % this is 0; 0: global_layers are */
  uint32_t unrotated_every; /* layer i isn't rotated if (i + 1) % this is 0; 0: unrotated_layers
                               aren't */
  bq_layer_set global_layers, unrotated_layers; /* where no period tells */
  float local_theta;   /* rope_theta of local layers; 0: the same */
  float attn_scale;    /* of the scores; 0: 1 / sqrt(head_dim) */
  float attn_softcap, logit_softcap; /* x = cap * tanh(x / cap); 0: none */
  float embed_scale, residual_scale, logit_scale; /* factors; 0: 1 */
  bool bidirectional;  /* every token sees all tokens */
  bool embed_norm;     /* the embedding is normed */
  uint32_t token_types; /* rows of a table of which row 0 is added to every token's embedding */
  bool no_head;        /* its results are hidden states; `tied` is false */
  bq_pooling pooling;  /* what its embeddings were trained for */
  bool normalize;      /* they have length 1 */
  uint32_t text_tokens; /* of a text that is embedded, specials included; 0: context */
  float rope_scale;    /* factor of the rotations' cosine and sine, of global layers; 0: 1 */
  uint32_t rope_original; /* sessions of more positions rotate by rope.long_factors; 0: none */
  float alibi_max, alibi_scale; /* ALiBi's slopes are scale * 2^(-max (i + 1) / n); 0: 8, and 1 */
  float qkv_clip;      /* q, k and v stay within -qkv_clip...qkv_clip; 0: they needn't */
  uint32_t experts; /* MLPs of a layer of which each token goes through a few; 0: it has one MLP */
  uint32_t experts_used; /* that a token goes through, those of the highest scores */
  uint32_t expert_ffn; /* dimensions inside an expert */
  uint32_t shared_ffn; /* inside one more, that all tokens go through; 0: there is none */
  bool experts_sum;    /* the weights of those that are used have the sum 1 */
  bq_layer_set dense_layers; /* with one MLP, although others have experts */
  uint32_t conv_size;  /* taps of a short convolution (LFM2); 0: no layer has one */
  bq_layer_set conv_layers; /* have a short convolution in place of attention */
  uint32_t tokens, merges; /* of the TOKN section */
} bq_config;

/* Positions that a token of the layer sees, itself included; 0: all up to its own. */
uint32_t bq_config_window(const bq_config *config, uint32_t layer);

/* Whether the layer's q and k are rotated, where positions are RoPE. */
bool bq_config_rotated(const bq_config *config, uint32_t layer);

/* Whether all tokens go through the layer's one MLP. */
bool bq_config_dense(const bq_config *config, uint32_t layer);

/* Whether the layer mixes positions by a short convolution, not by attention. It then keeps no keys
 * and values but a state: its last conv_size - 1 inputs (session/recurrence.h). */
bool bq_config_convolves(const bq_config *config, uint32_t layer);

/* Whether some layer keeps a state. */
static inline bool bq_config_recurrent(const bq_config *config) { return config->conv_size > 0; }

/* Whether a session of so many positions rotates by rope.long_factors. */
bool bq_config_long(const bq_config *config, uint32_t context);

/* Reads and checks a CONF payload (docs/FORMAT.md, "CONF keys"): every value in its range and
 * fitting the others, so that no product of two of them overflows 64 bits later.
 * FORMAT, UNSUPPORTED. */
bq_status bq_config_read(const uint8_t *payload, size_t bytes, uint64_t file_offset,
                         bq_config *out, bq_error *err);

#endif
