/* What a model will take, told from the first bytes of its file. */
#include "bq.h"
#include "format/loader.h"
#include "session/session.h"

/* A session's block must do for every table that may come to run in this build. */
static uint64_t session_bytes(const bq_config *c, const bq_session_options *o, uint64_t *kv) {
  const bq_kernels *tables[] = {bq_kernels_scalar(), bq_kernels_simd128(), bq_kernels_relaxed()};
  uint64_t most = 0;
  for (int i = 0; i < 3; i++) {
    uint64_t bytes = tables[i] ? bq_session_memory(c, tables[i], o, kv) : 0;
    if (bytes > most) most = bytes;
  }
  return most;
}

bq_status bq_plan_make(const uint8_t *bytes, size_t n, uint64_t file_bytes,
                       const uint8_t *companion, size_t companion_bytes,
                       const bq_session_options *options, uint64_t *need, bq_plan *out,
                       bq_error *err) {
  bq_prefix_input in = {bytes, n, file_bytes, companion, companion_bytes};
  bq_prefix p;
  bq_session_options o;
  uint64_t wanted = 0;
  bq_status status = bq_prefix_read(&in, false, &wanted, &p, err);
  if (status == BQ_WANT_DATA && need) *need = wanted;
  if (!status) status = bq_session_options_resolve(&p.config, options, &o, err);
  if (status) return status;
  bq_plan plan = {
      .version = p.version,
      .file_bytes = p.file_bytes ? p.file_bytes : p.data_end,
      .prefix_bytes = p.prefix_bytes,
      .loader_bytes = bq_loader_bytes(),
      .prefix_block = bq_prefix_block_bytes(companion ? companion_bytes : 0, p.prefix_bytes),
      .config = p.config};
  plan.model_bytes = bq_model_bytes(&p, &(bq_residency){0}, &plan.weight_bytes);
  plan.session_bytes = session_bytes(&p.config, &o, &plan.kv_bytes);
  if (plan.model_bytes == UINT64_MAX || plan.session_bytes == UINT64_MAX)
    return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET,
                   "%l bytes of weights and a context of %u are more than this machine can address",
                   plan.weight_bytes, o.context);
  *out = plan;
  return BQ_OK;
}

bq_status bq_plan_paging(const uint8_t *bytes, size_t n, uint64_t file_bytes, const uint8_t *companion,
                         size_t companion_bytes, uint64_t budget, uint32_t beside, bq_paging *out,
                         bq_error *err) {
  bq_prefix_input in = {bytes, n, file_bytes, companion, companion_bytes};
  bq_prefix p;
  uint64_t wanted = 0;
  bq_status status = bq_prefix_read(&in, false, &wanted, &p, err);
  return status ? status : bq_paging_choose(&p, budget, beside, out, err);
}
