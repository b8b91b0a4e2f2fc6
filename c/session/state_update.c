#include "session/state_update.h"

void bq_delta_update(const bq_config *c, float *restrict s, float decay, float beta, const float *q,
                     const float *k, const float *v, float *restrict delta, float *restrict out) {
  const size_t rows = c->state_key_dim, cols = c->state_value_dim;
  for (size_t j = 0; j < cols; j++) delta[j] = out[j] = 0;
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < cols; j++) {
      s[i * cols + j] *= decay;
      delta[j] += s[i * cols + j] * k[i];
    }
  for (size_t j = 0; j < cols; j++) delta[j] = (v[j] - delta[j]) * beta;
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < cols; j++) {
      s[i * cols + j] += k[i] * delta[j];
      out[j] += s[i * cols + j] * q[i];
    }
}

void bq_mamba_update(const bq_config *c, float *restrict s, float decay, const float *q,
                     const float *k, const float *restrict v, float *restrict out) {
  const size_t rows = c->state_key_dim, cols = c->state_value_dim;
  for (size_t j = 0; j < cols; j++) out[j] = 0;
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < cols; j++) {
      s[i * cols + j] = s[i * cols + j] * decay + k[i] * v[j];
      out[j] += s[i * cols + j] * q[i];
    }
}
