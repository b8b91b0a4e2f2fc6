/* What a model tells about itself. */
#include "model/model.h"

#include <string.h>

void bq_model_program(bq_model *m) {
  bq_layer_kind_make(&m->config, m->kinds);
  for (uint32_t i = 0; i < m->config.layers; i++) m->layers[i].kind = m->kinds;
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
