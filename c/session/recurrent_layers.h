/* The mathematics of layers with a state, over rows that follow each other. Each sum is added up in
 * one order, so bits do not depend on how rows are cut into passes or work into shares.
 *
 *   state of a short convolution   f32 [taps - 1][hidden], its last inputs, oldest first
 *   state of a gated delta net     f32 [taps - 1][channels], the last inputs of its convolution,
 *   or of Mamba-2                  then [value_heads][key_dim][value_dim]
 *
 * All are zeros before the first position. */
#ifndef BQ_RECURRENT_LAYERS_H
#define BQ_RECURRENT_LAYERS_H

#include "kernels/kernels.h"
#include "model/config.h"

/* Floats of a layer's state. */
uint64_t bq_state_floats(const bq_config *c);

/* Channels from...to - 1 of `tokens` rows of a short convolution of K taps (LFM2):
 *
 *   v = in[0] * in[2];  out = in[1] * (taps[0] * v of K - 1 rows ago + ... + taps[K - 1] * v)
 *
 * in: [tokens][3][hidden]; taps: [hidden][K]; out: [tokens][hidden]. */
void bq_convolve(const bq_config *c, const float *taps, float *state, const float *in, float *out,
                 size_t tokens, size_t from, size_t to);

/* A gated delta net (Qwen3.5; Yang et al., Gated Delta Networks, 2024), one key head with its value
 * heads:
 *
 *   q, k, v = silu(convolution of in); q and k made of length 1, q / sqrt(key_dim)
 *   S = exp(decay * softplus(a + dt)) * S
 *   S = S + k (sigmoid(b) * (v - S^T k))^T
 *   out = norm(S^T q) * silu(z)
 *
 * for each value head with its S. */
typedef struct bq_delta {
  const float *taps;  /* [channels][K] */
  const float *dt;    /* [value_heads] */
  const float *decay; /* [value_heads], negative */
  const float *norm;  /* [value_dim] */
  const float *in;    /* [tokens][channels]: q, k, v before the convolution */
  const float *z;     /* [tokens][value_heads][value_dim] */
  const float *a, *b; /* [tokens][value_heads] */
  float *state;
  float *out;         /* [tokens][value_heads][value_dim] */
  size_t tokens;
} bq_delta;
/* The state of this key head and its value heads as before the first position. */
void bq_delta_reset(const bq_config *c, float *state, uint32_t key_head);
void bq_delta_head(const bq_config *c, const bq_delta *d, uint32_t key_head);

/* Mamba-2 (Dao and Gu, Transformers are SSMs, 2024). A row of `in` is z, x, B, C, dt:
 *
 *   x, B, C = silu(convolution of x, B, C)
 *   step = softplus(dt + dt_bias)
 *   S = exp(decay * step) * S + B (step * x)^T
 *   out = S^T C + skip * x
 *
 * for each head with its S; a group of heads shares B and C. What is done with out and z: bq_mamba
 * in model/config.h. */
typedef struct bq_mamba_rows {
  const float *vectors[3]; /* as each function says */
  float *in;               /* [tokens][values + channels + value_heads] */
  float *state;
  float *out;              /* [tokens][value_heads][value_dim] */
  size_t tokens;
  bool first;              /* the rows begin a text: the state is zeros */
  const bq_kernels *kernels;
} bq_mamba_rows;
/* The convolution of channels from...to - 1, in place. Vectors: taps [channels][K], bias. */
void bq_mamba_convolve(const bq_config *c, const bq_mamba_rows *m, size_t from, size_t to);
/* The recurrence of a head; with its gate, unless the norm comes first. Vectors: dt_bias, decay
 * (negative), skip, each [value_heads]. */
void bq_mamba_head(const bq_config *c, const bq_mamba_rows *m, uint32_t head);
/* The norm of a group of heads, and the gate that follows it, if one does. Vectors: weights of all
 * heads. */
void bq_mamba_normalize(const bq_config *c, const bq_mamba_rows *m, uint32_t group);

#endif
