#include "load/residency.h"

#include "load/block.h"

/* Sizes of the model with a residency. Every tensor has been checked. */
static bq_status measure(const bq_prefix *p, bq_residency r, bq_paging *out, bq_error *err) {
  bq_arena arena = {0};
  bq_model_block block;
  bq_status status = bq_model_block_make(&arena, p, &r, NULL, &block, err);
  if (status) return status;
  *out = block.paging;
  out->model_bytes = arena.overflow ? UINT64_MAX : arena.used;
  return BQ_OK;
}

/* Memory that the model and the host's own buffers take together. */
static uint64_t all_bytes(const bq_paging *p, uint32_t host_slots) {
  const uint64_t room = UINT64_MAX - p->model_bytes;
  if (host_slots && p->slot_bytes > room / host_slots) return UINT64_MAX;
  return p->model_bytes + p->slot_bytes * host_slots;
}

/* Finds the residency that keeps the most layers in memory within the budget (binary search).
 * Returns NOMEM, with the residency of 0 layers in *out, if not even that fits. */
static bq_status fit_layers(const bq_prefix *p, bool head, uint64_t budget, uint32_t host_slots,
                            bq_paging *out, bq_error *err) {
  bq_status status = measure(p, (bq_residency){.paged = true, .head = head}, out, err);
  if (status) return status;
  if (all_bytes(out, host_slots) > budget) return BQ_NOMEM;
  uint32_t fits = 0, too_many = p->config.layers + 1; /* the smallest number that doesn't fit */
  while (fits + 1 < too_many) {
    bq_paging tried;
    uint32_t layers = fits + (too_many - fits) / 2;
    status = measure(p, (bq_residency){true, head, layers}, &tried, err);
    if (status) return status;
    if (all_bytes(&tried, host_slots) <= budget) {
      fits = layers;
      *out = tried;
    } else {
      too_many = layers;
    }
  }
  return BQ_OK;
}

bq_status bq_paging_choose(const bq_prefix *p, uint64_t budget, uint32_t host_slots, bq_paging *out,
                           bq_error *err) {
  bq_paging all, with_head, without;
  bq_status status = measure(p, (bq_residency){0}, &all, err);
  if (status) return status;
  if (all.model_bytes <= budget) {
    *out = all;
    return BQ_OK;
  }
  status = fit_layers(p, false, budget, host_slots, &without, err);
  if (status == BQ_NOMEM) {
    bq_status none = fit_layers(p, true, budget, host_slots, &with_head, err);
    if (none == BQ_NOMEM) {
      uint64_t a = all_bytes(&without, host_slots), b = all_bytes(&with_head, host_slots);
      return bq_fail(
          err, BQ_NOMEM, BQ_NO_OFFSET,
          "the model takes %l bytes at least even when its weights are streamed, there is "
          "room for %l",
          a < b ? a : b, budget);
    }
    if (!none) *out = with_head;
    return none;
  }
  if (status) return status;
  bool both = fit_layers(p, true, budget, host_slots, &with_head, err) == BQ_OK;
  *out = both && with_head.streamed_bytes <= without.streamed_bytes ? with_head : without;
  return BQ_OK;
}
