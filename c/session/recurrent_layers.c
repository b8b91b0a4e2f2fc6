#include "session/recurrent_layers.h"

#include <string.h>

#include "core/fmath.h"
#include "session/delta_update.h"

uint64_t bq_delta_channels(const bq_config *c) {
  return 2 * (uint64_t)c->delta_key_heads * c->delta_key_dim +
         (uint64_t)c->delta_value_heads * c->delta_value_dim;
}

uint64_t bq_state_floats(const bq_config *c) {
  const uint64_t past = c->conv_size - 1;
  if (!c->delta_value_heads) return past * c->hidden;
  return past * bq_delta_channels(c) +
         (uint64_t)c->delta_value_heads * c->delta_key_dim * c->delta_value_dim;
}

void bq_convolve(const bq_config *c, const float *taps, float *state, const float *in, float *out,
                 size_t tokens, size_t from, size_t to) {
  const size_t hidden = c->hidden, past = c->conv_size - 1;
  for (size_t t = 0; t < tokens; t++) {
    const float *gate_in = in + t * 3 * hidden, *gate_out = gate_in + hidden;
    const float *x = gate_out + hidden;
    float *y = out + t * hidden;
    for (size_t i = from; i < to; i++) {
      const float *tap = taps + i * (past + 1), v = gate_in[i] * x[i];
      float sum = 0;
      for (size_t k = 0; k < past; k++) sum += tap[k] * state[k * hidden + i];
      for (size_t k = 0; k + 1 < past; k++) state[k * hidden + i] = state[(k + 1) * hidden + i];
      state[(past - 1) * hidden + i] = v;
      y[i] = gate_out[i] * (sum + tap[past] * v);
    }
  }
}

/* --- gated delta nets ------------------------------------------------------------------------- */

static float sigmoid(float x) { return 1.0f / (1.0f + bq_expf(-x)); }

/* log(1 + exp(x)); from 20 on x, as PyTorch has it. */
static float softplus(float x) {
  return x > 20.0f ? x : (float)bq_log(1.0 + (double)bq_expf(x));
}

/* silu of the convolution of n channels from `first` on, for one row; their states move on. */
static void convolve_row(const bq_config *c, const bq_delta *d, const float *in, size_t first,
                         size_t n, float *out) {
  const size_t channels = (size_t)bq_delta_channels(c), past = c->conv_size - 1;
  for (size_t i = first; i < first + n; i++) {
    const float *tap = d->taps + i * (past + 1);
    float sum = 0;
    for (size_t k = 0; k < past; k++) sum += tap[k] * d->state[k * channels + i];
    for (size_t k = 0; k + 1 < past; k++)
      d->state[k * channels + i] = d->state[(k + 1) * channels + i];
    d->state[(past - 1) * channels + i] = in[i];
    sum += tap[past] * in[i];
    out[i - first] = sum * sigmoid(sum);
  }
}

/* x of length 1, times a factor. */
static void normalize(float *x, size_t n, float factor) {
  float sum = 0;
  for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
  const float scale = factor / bq_sqrtf(sum + 1e-6f);
  for (size_t i = 0; i < n; i++) x[i] *= scale;
}

/* out = norm(out) * silu(z) */
static void gate(const bq_config *c, const float *norm, const float *z, float *out) {
  const size_t n = c->delta_value_dim;
  float sum = 0;
  for (size_t j = 0; j < n; j++) sum += out[j] * out[j];
  const float scale = 1.0f / bq_sqrtf(sum / (float)n + c->norm_eps);
  for (size_t j = 0; j < n; j++) out[j] = norm[j] * (out[j] * scale) * (z[j] * sigmoid(z[j]));
}

/* Value head `j` of a key head. */
static size_t value_head(const bq_config *c, size_t key_head, size_t j) {
  const size_t group = c->delta_value_heads / c->delta_key_heads;
  return c->delta_strided ? j * c->delta_key_heads + key_head : key_head * group + j;
}

void bq_delta_reset(const bq_config *c, float *state, uint32_t key_head) {
  const size_t key = c->delta_key_dim, value = c->delta_value_dim, past = c->conv_size - 1;
  const size_t keys = c->delta_key_heads * key, channels = (size_t)bq_delta_channels(c);
  for (size_t p = 0; p < past; p++) {
    memset(state + p * channels + key_head * key, 0, key * sizeof *state);
    memset(state + p * channels + keys + key_head * key, 0, key * sizeof *state);
  }
  for (size_t j = 0; j < c->delta_value_heads / c->delta_key_heads; j++) {
    const size_t h = value_head(c, key_head, j);
    for (size_t p = 0; p < past; p++)
      memset(state + p * channels + 2 * keys + h * value, 0, value * sizeof *state);
    memset(state + past * channels + h * key * value, 0, key * value * sizeof *state);
  }
}

void bq_delta_head(const bq_config *c, const bq_delta *d, uint32_t key_head) {
  const size_t heads = c->delta_value_heads, group = heads / c->delta_key_heads;
  const size_t key = c->delta_key_dim, value = c->delta_value_dim;
  const size_t keys = c->delta_key_heads * key, channels = (size_t)bq_delta_channels(c);
  float q[BQ_DELTA_DIM_MAX], k[BQ_DELTA_DIM_MAX], v[BQ_DELTA_DIM_MAX], delta[BQ_DELTA_DIM_MAX];
  float *states = d->state + (c->conv_size - 1) * channels;
  for (size_t t = 0; t < d->tokens; t++) {
    const float *in = d->in + t * channels;
    convolve_row(c, d, in, key_head * key, key, q);
    convolve_row(c, d, in, keys + key_head * key, key, k);
    normalize(q, key, 1.0f / bq_sqrtf((float)key));
    normalize(k, key, 1);
    for (size_t j = 0; j < group; j++) {
      const size_t h = value_head(c, key_head, j), row = t * heads + h;
      float *out = d->out + row * value;
      convolve_row(c, d, in, 2 * keys + h * value, value, v);
      const float decay = bq_expf(d->decay[h] * softplus(d->a[row] + d->dt[h]));
      bq_delta_update(c, states + h * key * value, decay, sigmoid(d->b[row]), q, k, v, delta, out);
      gate(c, d->norm, d->z + row * value, out);
    }
  }
}
