/* Configurations for tests of sessions. Header-only. */
#ifndef TINY_CONFIGS_H
#define TINY_CONFIGS_H

#include "model/config.h"

static inline bq_config tiny_llama(uint32_t vocab, uint32_t context) {
  return (bq_config){.layers = 3, .hidden = 40, .heads = 4, .kv_heads = 2, .head_dim = 10,
                     .ffn = 72, .vocab = vocab, .context = context, .gated = true, .tied = true};
}

/* Two kinds of layers, one with a window. */
static inline bq_config tiny_windowed(bq_config c, uint32_t window) {
  c.window = window;
  c.global_every = 2;
  c.local_theta = 500;
  return c;
}

/* Every second layer, from the first on, is a short convolution of four taps; attention has a gate
 * for each head. */
static inline bq_config tiny_convolving(bq_config c) {
  c.conv_size = 4;
  c.attn_gate = BQ_ATTN_GATE_HEADS;
  for (uint32_t i = 0; i < c.layers; i += 2) c.conv_layers.bits[i / 32] |= 1u << i % 32;
  return c;
}

/* Every second layer is a gated delta net with two value heads for each key head; attention layers
 * have a gate for each dimension. */
static inline bq_config tiny_delta(bq_config c) {
  c = tiny_convolving(c);
  c.state_key_heads = 2;
  c.state_value_heads = 4;
  c.state_key_dim = 6;
  c.state_value_dim = 8;
  c.attn_gate = BQ_ATTN_GATE_DIMS;
  return c;
}

/* Every second layer is Mamba-2 with three heads, which share B and C, with attention in the same
 * layer or without. */
static inline bq_config tiny_mamba(bq_config c, bool with_attention) {
  c = tiny_convolving(c);
  c.mamba = with_attention ? BQ_MAMBA_GATE : BQ_MAMBA_GATE_NORM;
  c.attn_beside = with_attention;
  c.state_key_heads = 1;
  c.state_value_heads = 3;
  c.state_key_dim = 6;
  c.state_value_dim = 20;
  return c;
}

/* As Gemma 4: global layers of another shape, two last layers that share keys and values, and
 * per-layer embeddings. Four layers: local, global, local, global. */
static inline bq_config tiny_layered(bq_config c, uint32_t window) {
  c = tiny_windowed(c, window);
  c.layers = 4;
  c.norm_place = BQ_NORM_SANDWICH;
  c.qk_norm = BQ_QK_HEADS;
  c.attn_scale = 1;
  c.global_head_dim = 2 * c.head_dim;
  c.global_kv_heads = 1;
  c.shared_kv = 2;
  c.shared_kv_ffn = 2 * c.ffn;
  c.value_norm = c.keys_as_values = c.layer_scale = true;
  c.layer_embed = 8;
  return c;
}

/* As EmbeddingGemma 2: the layers of tiny_layered() in an encoder, without shared keys and without
 * a table of per-layer embeddings. */
static inline bq_config tiny_layered_encoder(bq_config c, uint32_t window) {
  c = tiny_layered(c, window);
  c.shared_kv = c.shared_kv_ffn = 0;
  c.keys_as_values = false;
  c.layer_embed_projected = c.bidirectional = true;
  return c;
}

/* As BitNet: norms before the last product of attention and MLP, and squared ReLU. The MLP is the
 * widest vector. */
static inline bq_config tiny_sub_normed(bq_config c) {
  c.sub_norms = true;
  c.activation = BQ_RELU2;
  c.ffn = 3 * c.hidden;
  return c;
}

/* As Granite with windows and Spark: a score without a key in each head, and global layers of which
 * fewer dimensions are rotated. */
static inline bq_config tiny_sinking(bq_config c, uint32_t window) {
  c = tiny_windowed(c, window);
  c.attn_sinks = true;
  c.rope_dim = 4;
  c.local_rope_dim = 8;
  return c;
}

static inline bq_config tiny_learned(bq_config c) {
  c.norm = BQ_NORM_LAYER;
  c.position = BQ_POSITION_LEARNED;
  c.gated = false;
  return c;
}

static inline bq_config tiny_encoder(bq_config c) {
  c = tiny_learned(c);
  c.norm_place = BQ_NORM_POST;
  c.bidirectional = true;
  return c;
}

#endif
