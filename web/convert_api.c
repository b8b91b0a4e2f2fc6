/* What converters do with weights: in bq4-convert.wasm alone, which no page loads. */
#include "api.h"

#include "core/quant.h"
#include "kernels/encoders.h"

BQW(uint32_t)
bqw_encode(uint32_t type, uint32_t layout, const float *src, uint32_t rows, uint32_t cols,
           uint8_t *dst, bqw_encode_errors *errors) {
  if (!bqw_knows_type(type, layout)) return BQ_ARGUMENT;
  bq_error err = {0};
  bq_encode_errors e = {0};
  const bq_status status = bq_encode((bq_type)type, (bq_layout)layout, src, rows, cols,
                                     bq_encoder_best(), dst, errors ? &e : NULL, &err);
  if (errors && !status) {
    errors->sum += e.sum;
    errors->squares += e.squares;
    errors->most = e.most > errors->most ? e.most : errors->most;
  }
  return bqw_report(status, &err);
}

BQW(uint32_t)
bqw_dequantize(uint32_t type, uint32_t layout, const uint8_t *src, uint32_t rows, uint32_t cols,
               float *dst) {
  if (!bqw_knows_type(type, layout)) return BQ_ARGUMENT;
  bq_error err = {0};
  return bqw_report(bq_dequantize((bq_type)type, (bq_layout)layout, src, rows, cols, dst, &err),
                    &err);
}
