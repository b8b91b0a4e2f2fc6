#include "session/work.h"

#include "core/minmax.h"
#include "session/batch.h"

static void add_matrix(bq_work *work, const bq_matrix *m, uint64_t tokens) {
  if (!m->data) return;
  work->weight_bytes += bq_type_bytes(m->type, bq_type_compute_layout(m->type), m->rows, m->cols);
  work->macs += (uint64_t)m->rows * m->cols * tokens;
}

/* Adds the work of experts. Several tokens may share experts: the weights are an upper bound. */
static void add_experts(bq_work *work, const bq_matrix *m, const bq_config *c, uint64_t tokens) {
  bq_work one = {0};
  const uint64_t pairs = tokens * c->experts_used;
  add_matrix(&one, m, 1);
  work->weight_bytes += one.weight_bytes / c->experts * (pairs < c->experts ? pairs : c->experts);
  work->macs += one.macs / c->experts * pairs;
}

/* Adds the work of the clustered head. Each row has clusters of its own. */
static void add_clusters(bq_work *work, const bq_session *s, uint64_t tokens) {
  const bq_clusters *c = s->model->clusters;
  bq_matrix part = c->rows;
  part.rows = bq_min32(bq_clusters_share(c->n, s->options.head) * BQ_CLUSTER_ROWS, part.rows);
  for (uint64_t i = 0; i < tokens; i++) {
    add_matrix(work, &c->means, 1);
    add_matrix(work, &part, 1);
  }
}

/* Adds the work of an embedding: one row per token is read, without a multiplication. */
static void add_rows(bq_work *work, const bq_matrix *m, uint64_t tokens) {
  if (!m->data) return;
  const bq_type_facts *f = bq_type_get(m->type);
  work->weight_bytes += tokens * ((m->cols + f->block - 1) / f->block * f->block_bytes);
}

bq_work bq_step_work(const bq_session *s, const bq_layer *layer, const bq_layer_step *step,
                     uint32_t position, uint32_t tokens) {
  const bq_config *c = &s->model->config;
  const bq_layer_kind *kind = layer->kind;
  const bq_kv_type kv = s->options.kv_type;
  const uint64_t state = (uint64_t)c->state_value_heads * c->state_key_dim * c->state_value_dim;
  bq_work work = {0};
  switch ((bq_op)step->op) {
  case BQ_OP_MATMUL:
    for (uint32_t i = 0; i < step->n; i++)
      add_matrix(&work, &layer->module[step->module[i]].w, tokens);
    break;
  case BQ_OP_EXPERTS:
    for (uint32_t i = 0; i < step->n; i++)
      add_experts(&work, &layer->module[step->module[i]].w, c, tokens);
    break;
  case BQ_OP_STORE:
    if (kind->stores) work.kv_bytes = kind->kv_heads * bq_kv_bytes(kv, tokens, kind->head_dim);
    break;
  case BQ_OP_ATTEND: /* token t attends to position + t + 1 positions */
    if (s->options.evict) position = bq_min32(position, s->options.kv_window + BQ_KV_BLOCK);
    else if (s->options.kv_window)
      position = bq_min32(position, bq_attention_span(&s->options));
    work.kv_bytes =
        kind->kv_heads * bq_kv_bytes(kv, (uint64_t)position + tokens, kind->head_dim);
    work.macs = (tokens * (uint64_t)position + (uint64_t)tokens * (tokens + 1) / 2) * 2 * c->heads *
                kind->head_dim;
    break;
  case BQ_OP_DELTA: /* the state is scaled, multiplied with k, added to, multiplied with q */
    work.macs = 4 * state * tokens;
    break;
  case BQ_OP_MAMBA: /* the same without k */
    work.macs = 3 * state * tokens;
    break;
  case BQ_OP_MAMBA_CONVOLVE:
  case BQ_OP_MAMBA_NORM:
  case BQ_OP_GATE:
  case BQ_OP_EMBED:
  case BQ_OP_CONVOLVE:
  case BQ_OP_NORM:
  case BQ_OP_ROUTE:
  case BQ_OP_COMBINE:
  case BQ_OP_ADD: break; /* no weights worth counting */
  }
  return work;
}


bq_work bq_session_work(const bq_session *s, bq_stage stage, uint32_t layer, uint32_t position,
                        uint32_t tokens) {
  const bq_model *m = s->model;
  const bq_layer *l = &m->layers[layer < m->config.layers ? layer : 0];
  bq_work work = {0};
  if (stage == BQ_STAGE_EMBED) {
    add_rows(&work, &m->wte, tokens);
    add_rows(&work, &m->wpe, tokens);
    add_rows(&work, &m->wtt, tokens);
    add_rows(&work, &m->layer_embeds, tokens);
  } else if (stage == BQ_STAGE_HEAD) {
    if (bq_head_is_clustered(s) && m->clusters) add_clusters(&work, s, tokens);
    else add_matrix(&work, &m->head, tokens);
  } else {
    for (uint32_t i = 0; i < l->kind->n; i++)
      if (stage == BQ_STAGE_COUNT || l->kind->steps[i].stage == stage)
        bq_work_add(&work, bq_step_work(s, l, &l->kind->steps[i], position, tokens));
  }
  return work;
}

bq_work bq_batch_work(const bq_session *s, bq_stage stage, uint32_t layer, uint32_t row,
                      uint32_t rows) {
  bq_work sum = {0};
  for (uint32_t done = 0; done < rows;) {
    const bq_row at = bq_row_at(s, row + done);
    const uint32_t n = at.remaining < rows - done ? at.remaining : rows - done;
    bq_work work = bq_session_work(at.s, stage, layer, at.position, n);
    if (done > 0) work.weight_bytes = 0; /* weights are read once for all */
    bq_work_add(&sum, work);
    done += n;
  }
  return sum;
}
