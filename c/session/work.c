/* How many bytes and multiplications a stage takes: counted from shapes, so that rates and shares of
 * the machine's limit can be told from times, and tests can count without a clock. */
#include "session/session.h"

static void add_matrix(bq_work *work, const bq_matrix *m, uint64_t tokens) {
  if (!m->data) return;
  work->weight_bytes += bq_type_bytes(m->type, bq_type_run_layout(m->type), m->rows, m->cols);
  work->macs += (uint64_t)m->rows * m->cols * tokens;
}

/* Looked up, not multiplied: one row per token. */
static void add_rows(bq_work *work, const bq_matrix *m, uint64_t tokens) {
  if (!m->data) return;
  const bq_type_facts *f = bq_type_get(m->type);
  work->weight_bytes += tokens * ((m->cols + f->block - 1) / f->block * f->block_bytes);
}

bq_work bq_session_work(const bq_session *s, bq_stage stage, uint32_t layer, uint32_t position,
                        uint32_t tokens) {
  const bq_model *m = s->model;
  const bq_config *c = &m->config;
  const bq_layer *w = &m->layers[layer < c->layers ? layer : 0];
  const bq_kv_type kv = s->options.kv_type;
  const uint64_t seen = (uint64_t)position + tokens;
  bq_work work = {0};
  switch (stage) {
  case BQ_STAGE_EMBED:
    add_rows(&work, &m->wte, tokens);
    add_rows(&work, &m->wpe, tokens);
    break;
  case BQ_STAGE_QKV:
    add_matrix(&work, &w->q, tokens);
    add_matrix(&work, &w->k, tokens);
    add_matrix(&work, &w->v, tokens);
    break;
  case BQ_STAGE_KV:
    work.kv_bytes = c->kv_heads * bq_kv_bytes(kv, tokens, c->head_dim);
    break;
  case BQ_STAGE_ATTEND: /* token t has position + t + 1 in sight */
    work.kv_bytes = c->kv_heads * bq_kv_bytes(kv, seen, c->head_dim);
    work.macs = (tokens * (uint64_t)position + (uint64_t)tokens * (tokens + 1) / 2) * 2 * c->heads *
                c->head_dim;
    break;
  case BQ_STAGE_O:
    add_matrix(&work, &w->o, tokens);
    break;
  case BQ_STAGE_MLP_IN:
    add_matrix(&work, &w->gate, tokens);
    add_matrix(&work, &w->up, tokens);
    break;
  case BQ_STAGE_DOWN:
    add_matrix(&work, &w->down, tokens);
    break;
  case BQ_STAGE_HEAD:
    add_matrix(&work, &m->head, 1);
    break;
  default:
    break;
  }
  return work;
}
