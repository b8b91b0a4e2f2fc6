/* Any bytes as the beginning of a file: planning returns a plan, the number of needed bytes or an
 * error, and reads nothing past the end. */
#include "format/read.h"
#include "format_input.h"
#include "format/prefix.h"

static void require(bool ok) {
  if (!ok) abort();
}

/* Reads the complete header from growing lengths: each needed length is larger than the one before,
 * and at most the length of the file. */
static void read_growing(const format_input *in, uint64_t file_bytes) {
  for (size_t n = 0; n <= in->n;) {
    uint8_t *bytes = check_allocation(malloc(n ? n : 1));
    memcpy(bytes, in->file, n);
    bq_prefix_input input = {bytes, n, file_bytes, in->manifest, in->manifest_bytes};
    bq_prefix prefix;
    bq_error err = {0};
    uint64_t needed = 0;
    bq_status status = bq_prefix_read(&input, true, &needed, &prefix, &err);
    free(bytes);
    require(status == BQ_OK || err.status == status);
    if (status != BQ_WANT_DATA) return;
    require(needed > n && (!file_bytes || needed <= file_bytes));
    n = needed < in->n || n == in->n ? (size_t)(needed < SIZE_MAX ? needed : SIZE_MAX) : in->n;
  }
}

/* Memory budgets around the memory of the plan are either kept or refused. */
static void plan_budgets(const format_input *in, uint64_t file_bytes,
                         const bq_session_options *options, const bq_plan *resident) {
  uint64_t resident_bytes = resident->loader_bytes + resident->prefix_block +
                            resident->model_bytes + resident->session_bytes;
  for (uint64_t eighths = 1; eighths <= 8; eighths += 2) {
    bq_budget budget = {resident_bytes / 8 * eighths, 1, in->choices >> 4 & 3};
    bq_plan plan;
    bq_paging paging;
    bq_error err = {0};
    bq_status status = bq_plan_paging(in->file, in->n, file_bytes, in->manifest, in->manifest_bytes,
                                      options, &budget, NULL, &plan, &paging, &err);
    require(status == BQ_OK ||
            (err.status == status && (status == BQ_NOMEM || status == BQ_UNSUPPORTED)));
    if (status) continue;
    require(plan.loader_bytes + plan.prefix_block + plan.model_bytes + plan.session_bytes +
                budget.host_slots * paging.slot_bytes <= budget.bytes);
    require(plan.weight_bytes == resident->weight_bytes);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  format_input in;
  if (!format_input_read(data, size, &in)) return 0;
  uint64_t file_bytes = in.choices & 1 ? 0 : in.n;
  bq_session_options options = {.context = in.choices >> 1 & 3, .kv_type = in.choices >> 3 & 1};
  bq_plan plan;
  bq_error err = {0};
  uint64_t needed = 0;
  bq_status status = bq_plan_make(in.file, in.n, file_bytes, in.manifest, in.manifest_bytes,
                                  &options, &needed, &plan, &err);
  require(status == BQ_OK || err.status == status);
  if (status == BQ_WANT_DATA) require(needed > in.n);
  if (status == BQ_OK) {
    require(plan.weight_bytes <= plan.model_bytes && plan.kv_bytes <= plan.session_bytes);
    require(plan.prefix_bytes <= in.n || !plan.foreign);
    require(!file_bytes || plan.file_bytes == file_bytes);
  }
  if (status == BQ_OK) plan_budgets(&in, file_bytes, &options, &plan);
  read_growing(&in, file_bytes);
  free(in.file);
  return 0;
}
