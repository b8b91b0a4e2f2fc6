/* Facts about a model, and the layers' programs. */
#include "model/model.h"

#include "bq.h"

#include <string.h>

#include "core/fmath.h"

/* ALiBi slopes. With n heads, n a power of two, head i has the slope scale * 2^(-max (i + 1) / n).
 * For other numbers the remaining heads take every other slope of twice the power of two. */
static void make_slopes(const bq_config *c, float *slopes) {
  const double max = c->alibi_max > 0 ? (double)c->alibi_max : 8.0;
  const double scale = c->alibi_scale > 0 ? (double)c->alibi_scale : 1.0;
  uint32_t n = 1;
  while (2 * n <= c->heads) n *= 2;
  for (uint32_t i = 0; i < c->heads; i++) {
    const double steps = i < n ? max * (i + 1) / n : max / 2 * (2 * (i - n) + 1) / n;
    slopes[i] = (float)(scale * bq_exp(-steps * 0.69314718055994530942));
  }
}

/* Buckets of MPNet. One half of the buckets is for positions before the query, the other for
 * positions after it. In each half, the first eight buckets are for one distance each; then each
 * bucket covers a factor of sqrt(2). */
static void make_bias_buckets(uint8_t *bucket) {
  enum { HALF = BQ_BIAS_BUCKETS / 2, EXACT = HALF / 2 };
  for (int32_t away = -BQ_BIAS_FAR; away <= BQ_BIAS_FAR; away++) {
    const int32_t n = away < 0 ? -away : away;
    int32_t b = n < EXACT ? n : EXACT;
    while (n >= EXACT && b < HALF - 1 && n * n >= (EXACT * EXACT) << (b + 1 - EXACT)) b++;
    bucket[away + BQ_BIAS_FAR] = (uint8_t)(b + (away > 0 ? HALF : 0));
  }
}

void bq_model_program(bq_model *m) {
  make_bias_buckets(m->bias_bucket);
  if (m->slopes) make_slopes(&m->config, m->slopes);
  const uint64_t kinds = bq_layer_kinds_of(&m->config);
  for (uint32_t i = 0, n = 0; i < BQ_KINDS; i++)
    if (kinds >> i & 1) bq_layer_kind_make(&m->config, i, &m->kinds[n++]);
  for (uint32_t i = 0; i < m->config.layers; i++) {
    const uint32_t kind = bq_layer_kind_of(&m->config, i);
    m->layers[i].kind = &m->kinds[bq_layer_kinds_below(kinds, kind)];
    m->layers[i].kv = bq_config_kv_layer(&m->config, i);
  }
}

const bq_config *bq_model_config(const bq_model *m) { return &m->config; }
const bq_tokenizer *bq_model_tokenizer(const bq_model *m) { return m->tokenizer; }

const uint8_t *bq_model_file_id(const bq_model *m) {
  static const uint8_t none[BQ_FILE_ID_BYTES] = {0};
  return memcmp(m->file_id, none, sizeof none) ? m->file_id : NULL;
}

uint32_t bq_model_ready(const bq_model *m) { return m->ready; }

const uint8_t *bq_model_section(const bq_model *m, const char tag[4], size_t *bytes) {
  const uint32_t wanted = bq_load32((const uint8_t *)tag);
  for (uint32_t i = 0; i < m->n_sections; i++)
    if (m->sections[i].tag == wanted) {
      *bytes = m->sections[i].bytes;
      return m->sections[i].data;
    }
  return NULL;
}
