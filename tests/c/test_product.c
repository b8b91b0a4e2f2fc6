/* Products with 16-bit activations are close to sums in double precision of the same weights.
 * test_session.c shows that their bits do not depend on batches. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "session/matmul.h"
#include "session/session.h"
#include "tiny_model.h"

enum { HIDDEN = 200, FFN = 264, TOKENS = 21 };

static bq_config config(void) {
  return (bq_config){.layers = 1, .hidden = HIDDEN, .heads = 4, .kv_heads = 2, .head_dim = 10,
                     .ffn = FFN, .vocab = 61, .context = 64, .gated = true, .tied = true};
}

/* The largest error of the products of n tokens with a matrix. */
static double max_error(const bq_session *s, const bq_matrix *w, size_t n) {
  static float x[TOKENS * HIDDEN], y[TOKENS * FFN], row[HIDDEN];
  for (size_t i = 0; i < n * HIDDEN; i++) x[i] = (float)((i * 7919 + 13) % 2003) / 1000.0f - 1.0f;
  for (size_t i = 64; i < 96; i++) x[i] = 0; /* a block of zeros */
  x[100] = 90;                               /* and one with an outlier */
  bq_matmul_quantize(s, x, HIDDEN, 0, n, 0, s->scratch.panel);
  const bq_batch batch = {x, HIDDEN, s->scratch.panel, n};
  memset(y, 0, sizeof y);
  bq_matmul(s, w, &batch, 8, FFN, 0, y, FFN);
  double error = 0;
  for (size_t r = 8; r < FFN; r++) {
    w->ops->row(w, r, row);
    for (size_t t = 0; t < n; t++) {
      double sum = 0;
      for (size_t i = 0; i < HIDDEN; i++) sum += (double)row[i] * (double)x[t * HIDDEN + i];
      error = fmax(error, fabs(sum - (double)y[t * FFN + r]));
    }
  }
  return error;
}

static void check_type(bq_type type) {
  tiny_model t;
  tiny_create(&t, config(), type, bq_kernels_best(), false);
  const bq_matrix *w = &t.model.layers[0].module[BQ_UP].w;
  static const size_t tokens[] = {1, 2, 8, TOKENS};
  bq_session *session_i8 = tiny_session(&t, (bq_session_options){0});
  bq_session *session_i16 =
      tiny_session(&t, (bq_session_options){.activations = BQ_ACTIVATIONS_I16});
  for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
    const double i8 = max_error(session_i8, w, tokens[i]),
                 i16 = max_error(session_i16, w, tokens[i]);
    if (!CHECK(i16 * 80 < i8))
      printf("%s, %zu tokens: %g, %g\n", bq_type_get(type)->name, tokens[i], i8, i16);
  }
  bq_session_free(session_i8);
  bq_session_free(session_i16);
  tiny_free(&t);
}

static void test_i16_activations_are_more_precise(void) {
  check_type(BQ_TYPE_BQ4_16);
  check_type(BQ_TYPE_BQ4H_32);
  check_type(BQ_TYPE_BQ4A_32);
  check_type(BQ_TYPE_BQ8_32);
}

int main(void) {
  RUN(test_i16_activations_are_more_precise);
  return check_summary();
}
