/* The mathematics of recurrent layers, over consecutive rows. The order of each sum is fixed, so
 * the bits do not depend on the division of rows into batches or of work among threads.
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

/* Number of floats of a layer's state, and of the inputs of convolutions at its beginning. */
uint64_t bq_state_past(const bq_config *c);
uint64_t bq_state_floats(const bq_config *c);

/* Computes channels from...to - 1 of `tokens` rows of a short convolution of K taps (LFM2), and
 * updates its state:
 *
 *   v = in[0] * in[2];  out = in[1] * (taps[0] * v of K - 1 rows ago + ... + taps[K - 1] * v)
 *
 * in: [tokens][3][hidden]; taps: [hidden][K]; out: [tokens][hidden]. */
void bq_convolve(const bq_config *c, const float *taps, float *state, const float *in, float *out,
                 size_t tokens, size_t from, size_t to);

/* A gated delta net (Qwen3.5; Yang et al., Gated Delta Networks, 2024), one key head with its value
 * heads:
 *
 *   q, k, v = silu(convolution of in); q and k are scaled to length 1, then q to 1 / sqrt(key_dim)
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
  float *in;          /* [tokens][channels]: q, k, v before the convolution; overwritten */
  float *z;           /* [tokens][value_heads][value_dim]; overwritten */
  const float *a, *b; /* [tokens][value_heads] */
  const float *from;  /* the state before the first row; only its matrices are read */
  float *state;       /* the state after the last row; its convolution's inputs are those before the
                         first. May be `from` */
  float *out;         /* [tokens][value_heads][value_dim] */
  size_t tokens;
} bq_delta;
/* Resets the state of a key head and its value heads to that before the first position. */
void bq_delta_reset(const bq_config *c, float *state, uint32_t key_head);
void bq_delta_head(const bq_config *c, const bq_delta *d, uint32_t key_head);

/* Mamba-2 (Dao and Gu, Transformers are SSMs, 2024). A row of `in` is z, x, B, C, dt:
 *
 *   x, B, C = silu(convolution of x, B, C)
 *   step = softplus(dt + dt_bias)
 *   S = exp(decay * step) * S + B (step * x)^T
 *   out = S^T C + skip * x
 *
 * for each head with its S; a group of heads shares B and C. The combination of out and z is
 * bq_mamba in model/config.h. */
typedef struct bq_mamba_rows {
  const float *vectors[3]; /* the vectors that the comment of each function lists */
  float *in;               /* [tokens][values + channels + value_heads] */
  const float *from;       /* as bq_delta.from */
  float *state;
  float *out;              /* [tokens][value_heads][value_dim] */
  size_t tokens;
  bool first;              /* the rows begin a text: the state is zeros */
  const bq_kernels *kernels;
} bq_mamba_rows;
/* Computes the convolution of channels from...to - 1, in place. Vectors: taps [channels][K], bias
 * [channels]. */
void bq_mamba_convolve(const bq_config *c, const bq_mamba_rows *m, size_t from, size_t to);
/* Computes the recurrence of a head and, unless the norm comes first, its gate. Vectors: dt_bias,
 * decay (negative), skip, each [value_heads]. */
void bq_mamba_head(const bq_config *c, const bq_mamba_rows *m, uint32_t head);
/* Computes the norm of a group of heads, and the gate if it follows the norm. Vectors: weights of
 * all heads. */
void bq_mamba_normalize(const bq_config *c, const bq_mamba_rows *m, uint32_t group);

#endif
