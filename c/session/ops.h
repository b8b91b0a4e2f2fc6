/* Operations on rows that depend on the model's configuration: norms, activation functions, scaling
 * and capping of logits. */
#ifndef BQ_OPS_H
#define BQ_OPS_H

#include "session/session.h"

/* Computes y = norm(x) over n values: RMSNorm or LayerNorm, as the model has. b may be NULL. y may
 * be x. */
void bq_apply_norm(const bq_session *s, const float *x, const float *w, const float *b, size_t n,
                   float *y);
/* The model's gated activation: x = act(x) * y, or act(x) if y is NULL. */
typedef void bq_activate_fn(float *x, const float *y, size_t n);
bq_activate_fn *bq_activation_of(const bq_session *s);
/* Applies logit_scale and logit_softcap to n logits. */
void bq_scale_logits(const bq_config *c, float *y, size_t n);
/* An optional factor of a configuration, whose 0 means 1. */
static inline float bq_factor_or_one(float factor) { return factor > 0 ? factor : 1.0f; }
/* Computes x *= factor. It is no kernel, because an elementwise product has the same bits
 * everywhere.
 */
static inline void bq_scale_by(float *x, size_t n, float factor) {
  if (factor == 1.0f) return;
  for (size_t i = 0; i < n; i++) x[i] *= factor;
}

#endif
