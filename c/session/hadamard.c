#include "session/hadamard.h"

#include "kernels/kv.h"

/* Multiplies by a Hadamard matrix (sums and differences) of size n, the largest power of 2 that
 * divides dim, then by `scale`. Large values of a few dimensions are distributed over all of them.
 */
static void rotate_dims(float *x, size_t dim, float scale) {
  for (size_t half = 1; dim % (2 * half) == 0; half *= 2)
    for (size_t i = 0; i < dim; i++)
      if (!(i & half)) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
  for (size_t i = 0; i < dim; i++) x[i] *= scale; /* a power of 2: exact */
}

/* Whether a layer's keys are rotated. This is so if they are quantized so coarsely that large
 * dimensions would reduce the precision of the others: always with 4 bits or fewer, with 8 bits if
 * keys have a bias. Qwen 2's biases are up to 50 times as large as the values that they are added
 * to, and 32 dimensions share a scale. */
static bool rotates_keys(const bq_layer_run *p) {
  const bq_kv_type type = p->s->options.kv_type;
  return bq_kv_bits(type) < 8 || (type == BQ_KV_I8 && p->w->module[BQ_K].b);
}

void bq_hadamard_heads(const bq_layer_run *p, float *x, size_t stride, size_t n, bool key) {
  const size_t dim = p->w->kind->head_dim;
  for (size_t t = 0; t < n && rotates_keys(p); t++)
    rotate_dims(x + t * stride, dim, key ? 1.0f : 1.0f / (float)(dim & (~dim + 1)));
}
