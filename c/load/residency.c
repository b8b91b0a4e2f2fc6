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
static uint64_t all_bytes(const bq_paging *p, uint32_t beside) {
  const uint64_t room = UINT64_MAX - p->model_bytes;
  if (beside && p->slot_bytes > room / beside) return UINT64_MAX;
  return p->model_bytes + p->slot_bytes * beside;
}

/* Keeps as many layers in memory as the budget allows. Returns NOMEM, with *out for no layers, if
 * not even that fits. */
static bq_status most_layers(const bq_prefix *p, bool head, uint64_t budget, uint32_t beside,
                             bq_paging *out, bq_error *err) {
  bq_status status = measure(p, (bq_residency){.paged = true, .head = head}, out, err);
  if (status) return status;
  if (all_bytes(out, beside) > budget) return BQ_NOMEM;
  uint32_t fits = 0, less = p->config.layers + 1; /* the smallest number that doesn't fit */
  while (fits + 1 < less) {
    bq_paging tried;
    uint32_t layers = fits + (less - fits) / 2;
    status = measure(p, (bq_residency){true, head, layers}, &tried, err);
    if (status) return status;
    if (all_bytes(&tried, beside) <= budget) {
      fits = layers;
      *out = tried;
    } else {
      less = layers;
    }
  }
  return BQ_OK;
}

bq_status bq_paging_choose(const bq_prefix *p, uint64_t budget, uint32_t beside, bq_paging *out,
                           bq_error *err) {
  bq_paging all, with_head, without;
  bq_status status = measure(p, (bq_residency){0}, &all, err);
  if (status) return status;
  if (all.model_bytes <= budget) {
    *out = all;
    return BQ_OK;
  }
  status = most_layers(p, false, budget, beside, &without, err);
  if (status == BQ_NOMEM) {
    bq_status none = most_layers(p, true, budget, beside, &with_head, err);
    if (none == BQ_NOMEM) {
      uint64_t a = all_bytes(&without, beside), b = all_bytes(&with_head, beside);
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
  bool both = most_layers(p, true, budget, beside, &with_head, err) == BQ_OK;
  *out = both && with_head.streamed_bytes <= without.streamed_bytes ? with_head : without;
  return BQ_OK;
}
