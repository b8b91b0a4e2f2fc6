#include "session/recurrent_layers.h"

#include <string.h>

#include "core/fmath.h"
#include "session/state_update.h"

uint64_t bq_state_past(const bq_config *c) {
  const uint64_t past = c->conv_size - 1;
  return past * (c->state_value_heads ? bq_config_channels(c) : c->hidden);
}

uint64_t bq_state_floats(const bq_config *c) {
  return bq_state_past(c) +
         (uint64_t)c->state_value_heads * c->state_key_dim * c->state_value_dim;
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

/* --- heads with a matrix as state ------------------------------------------------------------- */

static float sigmoid(float x) { return 1.0f / (1.0f + bq_expf(-x)); }

/* log(1 + exp(x)); x above 20, as in PyTorch. */
static float softplus(float x) {
  return x > 20.0f ? x : (float)bq_log(1.0 + (double)bq_expf(x));
}

/* Whether the loops of state_update.h compute a size. */
static bool in_lanes(size_t n) { return n % BQ_STATE_LANES == 0; }
static bool state_in_lanes(const bq_config *c) {
  return in_lanes(c->state_key_dim) && in_lanes(c->state_value_dim);
}

/* bq_state_update for a state of any size. */
static void update(const bq_config *c, const float *from, float *to, float decay, const float *q,
                   const float *k, const float *v, float *out) {
  const size_t rows = c->state_key_dim, cols = c->state_value_dim;
  if (state_in_lanes(c)) {
    bq_state_update(from, to, rows, cols, decay, q, k, v, out);
    return;
  }
  for (size_t j = 0; j < cols; j++) {
    out[j] = 0;
    for (size_t i = 0; i < rows; i++) {
      const float s = from[i * cols + j] * decay + k[i] * v[j];
      to[i * cols + j] = s;
      out[j] += s * q[i];
    }
  }
}

/* Computes the convolution of channels from...to - 1 for one row of inputs, in place, and updates
 * its state. */
static void convolve_row(const bq_config *c, const float *taps, float *state, float *row,
                         size_t from, size_t to) {
  const size_t channels = bq_config_channels(c), past = c->conv_size - 1;
  if (past == 3 && in_lanes(to - from)) {
    bq_convolve_4(taps + 4 * from, state + from, channels, row + from, to - from);
    return;
  }
  for (size_t i = from; i < to; i++) {
    const float *tap = taps + i * (past + 1), x = row[i];
    float sum = 0;
    for (size_t k = 0; k < past; k++) sum += tap[k] * state[k * channels + i];
    for (size_t k = 0; k + 1 < past; k++) state[k * channels + i] = state[(k + 1) * channels + i];
    state[(past - 1) * channels + i] = x;
    row[i] = sum + tap[past] * x;
  }
}

/* --- gated delta nets ------------------------------------------------------------------------- */

/* x = silu(x) */
static void swish(float *x, size_t n) {
  if (in_lanes(n)) bq_swish(x, n);
  else
    for (size_t i = 0; i < n; i++) x[i] *= sigmoid(x[i]);
}

/* silu of the convolution of n channels from `first` on, for one row, in place. Returns them. */
static float *convolve_part(const bq_config *c, const bq_delta *d, float *in, size_t first,
                            size_t n) {
  convolve_row(c, d->taps, d->state, in, first, first + n);
  swish(in + first, n);
  return in + first;
}

/* Scales x to length `factor`. */
static void normalize(float *x, size_t n, float factor) {
  float sum = 0;
  for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
  const float scale = factor / bq_sqrtf(sum + 1e-6f);
  for (size_t i = 0; i < n; i++) x[i] *= scale;
}

/* out = norm(out) * silu(z); z is overwritten. */
static void gate(const bq_config *c, const float *norm, float *z, float *out) {
  const size_t n = c->state_value_dim;
  float sum = 0;
  for (size_t j = 0; j < n; j++) sum += out[j] * out[j];
  const float scale = 1.0f / bq_sqrtf(sum / (float)n + c->norm_eps);
  swish(z, n);
  for (size_t j = 0; j < n; j++) out[j] = norm[j] * (out[j] * scale) * z[j];
}

/* bq_state_multiply for a state of any size. */
static void multiply(const bq_config *c, const float *s, float decay, const float *k, float *sum) {
  const size_t rows = c->state_key_dim, cols = c->state_value_dim;
  if (state_in_lanes(c)) {
    bq_state_multiply(s, rows, cols, decay, k, sum);
    return;
  }
  for (size_t j = 0; j < cols; j++) {
    sum[j] = 0;
    for (size_t i = 0; i < rows; i++) sum[j] += s[i * cols + j] * decay * k[i];
  }
}

/* Value head `j` of a key head. */
static size_t value_head(const bq_config *c, size_t key_head, size_t j) {
  const size_t group = c->state_value_heads / c->state_key_heads;
  return c->state_strided ? j * c->state_key_heads + key_head : key_head * group + j;
}

void bq_delta_reset(const bq_config *c, float *state, uint32_t key_head) {
  const size_t key = c->state_key_dim, value = c->state_value_dim, past = c->conv_size - 1;
  const size_t keys = c->state_key_heads * key, channels = bq_config_channels(c);
  for (size_t p = 0; p < past; p++) {
    memset(state + p * channels + key_head * key, 0, key * sizeof *state);
    memset(state + p * channels + keys + key_head * key, 0, key * sizeof *state);
  }
  for (size_t j = 0; j < c->state_value_heads / c->state_key_heads; j++) {
    const size_t h = value_head(c, key_head, j);
    for (size_t p = 0; p < past; p++)
      memset(state + p * channels + 2 * keys + h * value, 0, value * sizeof *state);
    memset(state + past * channels + h * key * value, 0, key * value * sizeof *state);
  }
}

void bq_delta_head(const bq_config *c, const bq_delta *d, uint32_t key_head) {
  const size_t heads = c->state_value_heads, group = heads / c->state_key_heads;
  const size_t key = c->state_key_dim, value = c->state_value_dim;
  const size_t keys = c->state_key_heads * key, channels = bq_config_channels(c);
  const size_t past = (size_t)bq_state_past(c);
  float delta[BQ_STATE_DIM_MAX];
  for (size_t t = 0; t < d->tokens; t++) {
    float *in = d->in + t * channels;
    float *q = convolve_part(c, d, in, key_head * key, key);
    float *k = convolve_part(c, d, in, keys + key_head * key, key);
    normalize(q, key, 1.0f / bq_sqrtf((float)key));
    normalize(k, key, 1);
    for (size_t j = 0; j < group; j++) {
      const size_t h = value_head(c, key_head, j), row = t * heads + h;
      const size_t at = past + h * key * value;
      float *out = d->out + row * value;
      const float *v = convolve_part(c, d, in, 2 * keys + h * value, value);
      const float decay = bq_expf(d->decay[h] * softplus(d->a[row] + d->dt[h]));
      const float beta = sigmoid(d->b[row]);
      float *state = d->state + at;
      /* Faster than reading a state from memory twice, although this writes it twice. */
      if (t == 0 && d->from != d->state) memcpy(state, d->from + at, key * value * sizeof *state);
      multiply(c, state, decay, k, delta);
      for (size_t i = 0; i < value; i++) delta[i] = (v[i] - delta[i]) * beta;
      update(c, state, state, decay, q, k, delta, out);
      gate(c, d->norm, d->z + row * value, out);
    }
  }
}

/* --- Mamba-2 ---------------------------------------------------------------------------------- */

/* Number of floats of z, which is also that of x, in a row of `in`; and of the row. */
static size_t values_of(const bq_config *c) {
  return (size_t)c->state_value_heads * c->state_value_dim;
}
static size_t row_of(const bq_config *c) {
  return values_of(c) + bq_config_channels(c) + c->state_value_heads;
}

void bq_mamba_convolve(const bq_config *c, const bq_mamba_rows *m, size_t from, size_t to) {
  const size_t channels = bq_config_channels(c);
  for (size_t k = 0; m->first && k + 1 < c->conv_size; k++)
    memset(m->state + k * channels + from, 0, (to - from) * sizeof *m->state);
  for (size_t t = 0; t < m->tokens; t++) {
    float *in = m->in + t * row_of(c) + values_of(c);
    convolve_row(c, m->vectors[0], m->state, in, from, to);
    for (size_t i = from; i < to; i++) in[i] += m->vectors[1][i];
    m->kernels->silu_mul(in + from, NULL, to - from);
  }
}

/* Computes y = y * silu(z); z is overwritten. */
static void gate_by(const bq_mamba_rows *m, float *z, float *y, size_t n) {
  m->kernels->silu_mul(z, y, n);
  memcpy(y, z, n * sizeof *y);
}

void bq_mamba_head(const bq_config *c, const bq_mamba_rows *m, uint32_t head) {
  const size_t key = c->state_key_dim, value = c->state_value_dim, values = values_of(c);
  const size_t group = head / (c->state_value_heads / c->state_key_heads);
  const float dt_bias = m->vectors[0][head], decay = m->vectors[1][head];
  const float skip = m->vectors[2][head];
  const size_t at = (size_t)bq_state_past(c) + head * key * value;
  float *state = m->state + at;
  float v[BQ_STATE_DIM_MAX];
  if (m->first) memset(state, 0, key * value * sizeof *state);
  for (size_t t = 0; t < m->tokens; t++) {
    float *row = m->in + t * row_of(c), *z = row + head * value;
    float *out = m->out + t * values + head * value;
    const float *x = z + values, *k = row + 2 * values + group * key;
    const float *q = k + c->state_key_heads * key;
    const float step = softplus(row[row_of(c) - c->state_value_heads + head] + dt_bias);
    for (size_t j = 0; j < value; j++) v[j] = step * x[j];
    update(c, t ? state : m->from + at, state, bq_expf(decay * step), q, k, v, out);
    for (size_t j = 0; j < value; j++) out[j] += skip * x[j];
    if (c->mamba != BQ_MAMBA_NORM_GATE) gate_by(m, z, out, value);
  }
}

void bq_mamba_normalize(const bq_config *c, const bq_mamba_rows *m, uint32_t group) {
  const size_t n = values_of(c) / c->state_key_heads, at = group * n;
  for (size_t t = 0; t < m->tokens; t++) {
    float *out = m->out + t * values_of(c) + at;
    m->kernels->rmsnorm(out, m->vectors[0] + at, c->norm_eps, n, out);
    if (c->mamba == BQ_MAMBA_NORM_GATE) gate_by(m, m->in + t * row_of(c) + at, out, n);
  }
}
