#include "session/ops.h"

#include "core/fmath.h"

void bq_apply_norm(const bq_session *s, const float *x, const float *w, const float *b, size_t n,
                   float *y) {
  const bq_kernels *k = s->model->kernels;
  const bq_config *c = &s->model->config;
  if (c->norm == BQ_NORM_RMS) k->rmsnorm(x, w, c->norm_eps, n, y);
  else k->layernorm(x, w, b, c->norm_eps, n, y);
}

/* As the kernel relu_mul, squared. It is no kernel, because it takes little time compared with the
 * matmuls. */
static void relu2_mul(float *gate, const float *up, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const float g = gate[i] > 0.0f ? gate[i] : 0.0f, v = g * g;
    gate[i] = up ? v * up[i] : v;
  }
}

bq_activate_fn *bq_activation_of(const bq_session *s) {
  const bq_kernels *k = s->model->kernels;
  bq_activate_fn *const act[] = {[BQ_SILU] = k->silu_mul, [BQ_GELU] = k->gelu_mul,
                                 [BQ_RELU] = k->relu_mul, [BQ_GELU_ERF] = k->gelu_erf_mul,
                                 [BQ_RELU2] = relu2_mul};
  return act[s->model->config.activation];
}

void bq_scale_logits(const bq_config *c, float *y, size_t n) {
  bq_scale_by(y, n, bq_factor_or_one(c->logit_scale));
  const float cap = c->logit_softcap;
  for (size_t i = 0; cap > 0 && i < n; i++) y[i] = cap * bq_tanhf(y[i] / cap);
}
