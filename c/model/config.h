/* The configuration of a model: one structure for every architecture, filled from a file's CONF
 * section. Later architectures add fields; zero means the behaviour of earlier ones. */
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
typedef enum bq_activation {
  BQ_SILU = 0,
  BQ_GELU = 1,
  BQ_RELU = 2,
  BQ_GELU_ERF = 3,
  BQ_RELU2 = 4 /* the square of RELU */
} bq_activation;
typedef enum bq_rope_pairs { BQ_ROPE_HALF = 0, BQ_ROPE_ADJACENT = 1 } bq_rope_pairs;

/* Positions of the norms of attention and MLP: the values that are normed. */
typedef enum bq_norm_place {
  BQ_NORM_PRE = 0,         /* pre-norm: their input */
  BQ_NORM_POST_BRANCH = 1, /* their output, before it is added to the residual */
  BQ_NORM_SANDWICH = 2,    /* sandwich norm: input and output */
  BQ_NORM_POST = 3         /* post-norm: the sum of residual and output */
} bq_norm_place;

/* The input of the MLP. */
typedef enum bq_block {
  BQ_BLOCK_SEQUENTIAL = 0, /* the residual after attention */
  BQ_BLOCK_PARALLEL = 1,   /* the input of attention, with a norm of its own */
  BQ_BLOCK_SHARED = 2      /* the normed input of attention */
} bq_block;

/* Pooling of the hidden states of a text to one vector. */
typedef enum bq_pooling {
  BQ_POOL_NONE = 0,  /* not specified */
  BQ_POOL_MEAN = 1,  /* mean of all tokens */
  BQ_POOL_CLS = 2,   /* the first token */
  BQ_POOL_LAST = 3,  /* the last token */
  BQ_POOL_LABELS = 4 /* the model's own pooling (default: the first token), then the logits of its
                        labels. For requests only; not a value of the key in files */
} bq_pooling;

/* Activation between the first dense layer after the pooling and the second. */
typedef enum bq_dense_activation {
  BQ_DENSE_LINEAR = 0, /* nothing */
  BQ_DENSE_TANH = 1,
  BQ_DENSE_GELU_ERF = 2,
  BQ_DENSE_RELU = 3
} bq_dense_activation;

typedef enum bq_qk_norm {
  BQ_QK_PLAIN = 0,
  BQ_QK_HEADS = 1, /* q and k are normed head by head */
  BQ_QK_ROWS = 2,  /* q and k are normed as whole rows */
  BQ_QK_EACH = 3,  /* as HEADS, with separate weights for each head */
  BQ_QK_ROTATED = 4 /* as HEADS, but after q and k are rotated. The keys of moved sinks
                       (session/sinks.c) are then rotated again together with these weights */
} bq_qk_norm;

/* Combination of y, the result of a Mamba-2 layer's recurrence, with its gate z. */
typedef enum bq_mamba {
  BQ_MAMBA_NONE = 0,      /* recurrent layers are not Mamba-2 layers */
  BQ_MAMBA_GATE = 1,      /* y * silu(z) */
  BQ_MAMBA_GATE_NORM = 2, /* norm(y * silu(z)) */
  BQ_MAMBA_NORM_GATE = 3  /* norm(y) * silu(z) */
} bq_mamba;

/* Gates of attention's output: their sigmoids scale it. */
typedef enum bq_attn_gate {
  BQ_ATTN_GATE_NONE = 0,
  BQ_ATTN_GATE_DIMS = 1, /* one for each dimension: in q, the gates of a head follow its rows */
  BQ_ATTN_GATE_HEADS = 2 /* one for each head, computed by attn.gate (LFM3) */
} bq_attn_gate;

enum { BQ_BIAS_BUCKETS = 32, BQ_LAYERS_MAX = 1024, BQ_CONV_MAX = 16, BQ_STATE_DIM_MAX = 256 };

/* A set of layers: layer i is bit i % 32 of word i / 32. */
typedef struct bq_layer_set {
  uint32_t bits[BQ_LAYERS_MAX / 32];
} bq_layer_set;

static inline bool bq_layer_set_has(const bq_layer_set *set, uint32_t layer) {
  return set->bits[layer / 32] >> layer % 32 & 1;
}

typedef struct bq_config {
  uint32_t arch;       /* model family; informative: the other fields determine the computation */
  uint32_t layers;
  uint32_t hidden;     /* dimensions of the hidden state */
  uint32_t heads, kv_heads;
  uint32_t head_dim;   /* dimensions of a head */
  uint32_t ffn;        /* inner dimensions of the MLP; 0: layers have none */
  uint32_t vocab;      /* number of tokens */
  uint32_t context;    /* maximum positions */
  bq_norm norm;
  float norm_eps;      /* added to the variance */
  bq_position position;
  float rope_theta;    /* base of the rotary frequencies */
  bq_rope_pairs rope_pairs;
  uint32_t rope_dim;   /* dimensions of a head that are rotated */
  uint32_t local_rope_dim; /* rope_dim of local layers; 0: as global ones */
  bq_activation activation;
  bool gated, tied;
  bq_norm_place norm_place;
  bq_block block;
  bq_qk_norm qk_norm;
  uint32_t window;     /* sliding window of local layers, the token itself included; 0: all layers
                          are global */
  uint32_t global_every; /* layer i is global if (i + 1) % this is 0; 0: see global_layers */
  uint32_t unrotated_every; /* layer i has no positional encoding (NoPE) if (i + 1) % this is 0; 0:
                               see unrotated_layers */
  bq_layer_set global_layers, unrotated_layers; /* for sets without a period */
  float local_theta;   /* rope_theta of local layers; 0: as global ones */
  float attn_scale;    /* factor of attention scores; 0: 1 / sqrt(head_dim) */
  float attn_softcap, logit_softcap; /* x = cap * tanh(x / cap); 0: off */
  float embed_scale, residual_scale, logit_scale; /* factors; 0: 1 */
  bool bidirectional;  /* every token attends to all tokens */
  bool embed_norm;     /* the embedding is normed */
  uint32_t token_types; /* rows of the token-type table; row 0 is added to every embedding */
  bool no_head;        /* outputs are hidden states; `tied` is false */
  bq_pooling pooling;  /* the pooling that the model was trained for */
  bool normalize;      /* pooled vectors have length 1 */
  uint32_t text_tokens; /* maximum tokens of an embedded text, special ones included; 0: context */
  float rope_scale;    /* factor of sine and cosine in global layers; 0: 1 */
  uint32_t rope_original; /* sessions with more positions use rope.long_factors; 0: none do */
  float alibi_max, alibi_scale; /* ALiBi: slopes are scale * 2^(-max (i + 1) / n); 0: 8 and 1 */
  float qkv_clip;      /* q, k and v are clamped to -qkv_clip...qkv_clip; 0: not clamped */
  uint32_t experts; /* experts per layer (MoE); 0: every layer has one MLP */
  uint32_t experts_used; /* experts per token: those with the highest scores */
  uint32_t expert_ffn; /* inner dimensions of an expert */
  uint32_t shared_ffn; /* inner dimensions of the shared expert; 0: none */
  bool shared_always;  /* the shared expert is added without a gate (BQ_SHARED_SWITCH) */
  bool experts_sum;    /* norm_topk_prob: weights of the chosen experts sum to 1 */
  bool experts_sigmoid; /* an expert's weight is the sigmoid of its score; the router's bias affects
                           only the choice of experts (LFM2 with experts) */
  bq_layer_set dense_layers; /* layers with one MLP in a model with experts */
  uint32_t conv_size;  /* taps of recurrent layers' convolutions; 0: no layer is recurrent */
  bq_layer_set conv_layers; /* recurrent layers, without attention: short convolutions (LFM2) or, if
                               state_value_heads > 0, gated delta nets (Qwen3.5) or Mamba-2 */
  bool attn_beside;    /* layers in conv_layers have attention and the recurrence (Falcon-H1) */
  bq_mamba mamba;
  /* Heads of the state of a delta net or of Mamba-2. Terms for Mamba-2: groups are key heads, C are
   * queries, B are keys, x are values. The number of value heads is a multiple of the key heads. */
  uint32_t state_key_heads, state_value_heads;
  uint32_t state_key_dim, state_value_dim; /* dimensions of such a head */
  bool state_strided;  /* value head h belongs to key head h mod key heads, not h / (heads of a key
                          head) */
  bq_attn_gate attn_gate;
  uint32_t dense1, dense2; /* rows of the dense layers after the pooling; 0: no layer */
  bq_dense_activation dense_activation; /* between the two */
  bool labels;         /* the result of the dense layers is a logit for each label of a classifier,
                          not a vector of the text */
  bool first_unnormed; /* with pre-norms: attention of layer 0 reads the residual without a norm */
  uint32_t global_head_dim; /* head_dim of global layers, all of it rotated; 0: head_dim */
  uint32_t global_kv_heads; /* kv_heads of global layers; 0: kv_heads */
  uint32_t shared_kv;  /* number of layers at the end without keys and values of their own: each
                          attends to those of the last earlier layer of its kind, local or global
                          (Gemma 4) */
  uint32_t shared_kv_ffn; /* ffn of these layers; 0: ffn */
  bool value_norm;     /* each head of v is normed, without weights */
  bool keys_as_values; /* v of global layers is their k, before it is normed and rotated */
  bool layer_scale;    /* the residual after each layer is multiplied by a factor */
  uint32_t layer_embed; /* dimensions of per-layer embeddings: a token has such a vector for each
                           layer, which is gated and added after the MLP; 0: not used */
  bool layer_embed_projected; /* per-layer embeddings are a projection of the embedding alone,
                                 unscaled; there is no table (EmbeddingGemma 2) */
  bool sub_norms;      /* the inputs of attn.o and mlp.down are normed as whole rows (BitNet) */
  bool attn_sinks;     /* each head has a score to which no key belongs (Granite with windows) */
  uint32_t bias_buckets; /* number of distance buckets with a learned bias of attention scores: 32
                            (MPNet); 0: no biases */
  uint32_t tokens, merges; /* counts of the TOKN section */
} bq_config;

/* Whether dense layers follow the pooling. */
static inline bool bq_config_dense_layers(const bq_config *config) {
  return config->dense1 || config->dense2;
}
/* Columns of a pooled vector, after the dense layers if there are any. */
static inline uint32_t bq_config_vector_cols(const bq_config *config) {
  return config->dense2 ? config->dense2 : config->dense1 ? config->dense1 : config->hidden;
}

/* Sliding window of a layer, the token itself included; 0: none. */
uint32_t bq_config_window(const bq_config *config, uint32_t layer);

/* Whether a layer rotates q and k (in models with RoPE). */
bool bq_config_rotated(const bq_config *config, uint32_t layer);

/* Whether a layer has one MLP instead of experts. */
bool bq_config_dense(const bq_config *config, uint32_t layer);

/* Whether the layer has a recurrence, which keeps a state (session/recurrence.h). */
bool bq_config_recurs(const bq_config *config, uint32_t layer);

/* Whether the layer has attention. */
bool bq_config_attends(const bq_config *config, uint32_t layer);

/* Whether the layer attends to the keys and values of another one. */
bool bq_config_shares(const bq_config *config, uint32_t layer);

/* Whether the layer keeps keys and values of its own. */
bool bq_config_stores(const bq_config *config, uint32_t layer);

/* The layer whose keys and values a layer attends to; `layers` if there is none. */
uint32_t bq_config_kv_layer(const bq_config *config, uint32_t layer);

/* Dimensions of a head, and heads of k and v, in local or global layers. */
uint32_t bq_config_head_dim(const bq_config *config, bool global);
uint32_t bq_config_kv_heads(const bq_config *config, bool global);
/* Maximum of these over all layers. */
uint32_t bq_config_max_head_dim(const bq_config *config);
uint32_t bq_config_max_kv_heads(const bq_config *config);

/* Columns of the table of per-layer embeddings; 0: there is no table. */
static inline uint32_t bq_config_layer_embeds(const bq_config *config) {
  return config->layer_embed_projected ? 0 : config->layers * config->layer_embed;
}

/* Maximum columns of a row that is normed. */
uint32_t bq_config_max_normed_cols(const bq_config *config);

/* Rotated dimensions of a head in the layers that use RoPE table 0 or 1 (model.h, `rope`). */
uint32_t bq_config_rope_dim(const bq_config *config, uint32_t table);

/* Channels of the convolution of a delta net or of Mamba-2: queries and keys of each key head,
 * values. */
static inline uint32_t bq_config_channels(const bq_config *c) {
  return 2 * c->state_key_heads * c->state_key_dim + c->state_value_heads * c->state_value_dim;
}

/* Whether some layer keeps a state. */
static inline bool bq_config_recurrent(const bq_config *config) { return config->conv_size > 0; }

/* Whether a session of `context` positions uses rope.long_factors. */
bool bq_config_long(const bq_config *config, uint32_t context);

/* Reads and checks a CONF payload (docs/FORMAT.md, "CONF keys"). Afterwards every value is in its
 * range and consistent with the others, and no product of two of them overflows 64 bits.
 * `file_offset`: of the payload, for errors. FORMAT, UNSUPPORTED. */
bq_status bq_config_read(const uint8_t *payload, size_t bytes, uint64_t file_offset,
                         bq_config *out, bq_error *err);

#endif
