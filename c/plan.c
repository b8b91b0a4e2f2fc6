/* Plans: the memory that a model and its sessions take, computed from the first bytes of the file.
 */
#include "bq.h"
#include "core/minmax.h"
#include "format/read.h"
#include "load/block.h"
#include "load/residency.h"
#include "model/clusters.h"
#include "session/create.h"
#include "session/options.h"

/* Plans everything except the model's block. */
static bq_status plan_rest(const bq_prefix_input *in, const bq_session_options *options,
                           uint64_t *need, bq_prefix *p, bq_plan *out, bq_error *err) {
  bq_session_options o;
  uint64_t wanted = 0;
  bq_status status = bq_prefix_read(in, false, &wanted, p, err);
  if (status == BQ_WANT_DATA && need) *need = wanted;
  if (!status) status = bq_session_options_resolve(&p->config, options, &o, err);
  if (status) return status;
  bq_plan plan = {.foreign = p->foreign,
                  .file_bytes = p->file_bytes ? p->file_bytes : p->data_end,
                  .prefix_bytes = p->prefix_bytes,
                  .loader_bytes = bq_loader_bytes(),
                  .prefix_block = bq_prefix_block_bytes(in->manifest_bytes, p->prefix_bytes),
                  .config = p->config};
  plan.session_bytes = bq_session_memory(&p->config, bq_kernels_best(), &o, &plan.kv_bytes);
  *out = plan;
  if (plan.session_bytes != UINT64_MAX) return BQ_OK;
  return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET,
                 "a context of %u is more than this machine can address", o.context);
}

static void plan_weights(const bq_model_block *block, const bq_session_options *o, bq_plan *plan) {
  const bq_kernels *k = bq_kernels_best();
  const bool clusters = o && o->head > 0 && !plan->config.no_head;
  plan->cluster_bytes = clusters ? bq_clusters_bytes(&plan->config, block->head) : 0;
  plan->weight_bytes = block->weight_bytes;
  plan->token_weights = block->token_weights;
  plan->key_bias = block->key_bias;
  _Static_assert(BQ_TYPE_COUNT <= 64, "a type has one bit of a u64");
  for (uint32_t type = 0; type < BQ_TYPE_COUNT; type++)
    if (block->types >> type & 1 && !k->matrix[type].matmul) plan->lacks_kernels = true;
}

bq_status bq_plan_make(const uint8_t *bytes, size_t n, uint64_t file_bytes, const uint8_t *manifest,
                       size_t manifest_bytes, const bq_session_options *options, uint64_t *need,
                       bq_plan *out, bq_error *err) {
  bq_prefix_input in = {bytes, n, file_bytes, manifest_bytes ? manifest : NULL, manifest_bytes};
  bq_prefix p;
  bq_plan plan;
  bq_status status = plan_rest(&in, options, need, &p, &plan, err);
  if (status) return status;
  bq_model_block block = {0};
  plan.model_bytes = bq_model_bytes(&p, &(bq_residency){0}, &block);
  plan_weights(&block, options, &plan);
  if (plan.model_bytes == UINT64_MAX || plan.cluster_bytes == UINT64_MAX)
    return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET,
                   "%l bytes of weights are more than this machine can address", plan.weight_bytes);
  *out = plan;
  return BQ_OK;
}

bq_status bq_plan_paging(const uint8_t *bytes, size_t n, uint64_t file_bytes,
                         const uint8_t *manifest, size_t manifest_bytes,
                         const bq_session_options *options, const bq_budget *budget, uint64_t *need,
                         bq_plan *out, bq_paging *paging, bq_error *err) {
  bq_prefix_input in = {bytes, n, file_bytes, manifest_bytes ? manifest : NULL, manifest_bytes};
  bq_prefix p;
  bq_plan plan;
  bq_status status = plan_rest(&in, options, need, &p, &plan, err);
  if (status) return status;
  bq_model_block block = {0};
  bq_model_bytes(&p, &(bq_residency){0}, &block);
  plan_weights(&block, options, &plan);
  /* keeps all sums below 2^62 */
  const uint64_t clusters = bq_min64(plan.cluster_bytes, UINT64_MAX / 4);
  const uint64_t rest = plan.loader_bytes + plan.prefix_block + clusters;
  bool fits =
      rest <= budget->bytes &&
      plan.session_bytes <= (budget->bytes - rest) / (budget->sessions ? budget->sessions : 1);
  if (!fits)
    return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET,
                   "%u sessions of %l bytes each leave no room for a model in %l bytes",
                   budget->sessions, plan.session_bytes, budget->bytes);
  uint64_t room = budget->bytes - rest - plan.session_bytes * budget->sessions;
  bq_paging chosen;
  status = bq_paging_choose(&p, room, budget->host_slots, &chosen, err);
  if (status) return status;
  if (chosen.residency.paged && plan.cluster_bytes)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET,
                   "a head by clusters needs all weights in memory, none of them paged");
  block = (bq_model_block){0};
  bq_model_bytes(&p, &chosen.residency, &block);
  plan_weights(&block, options, &plan);
  plan.model_bytes = chosen.model_bytes;
  *out = plan;
  *paging = chosen;
  return BQ_OK;
}
