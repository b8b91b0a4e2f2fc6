#include "text/out.h"

#include <string.h>

#include "text/utf8.h"

void bq_out_text(bq_out *out, const uint8_t *text, size_t bytes) {
  if (out->n <= out->room && bytes <= out->room - out->n) memcpy(out->to + out->n, text, bytes);
  out->n += bytes;
}

void bq_out_character(bq_out *out, uint32_t code_point) {
  uint8_t bytes[4];
  bq_out_text(out, bytes, bq_utf8_encode(code_point, bytes));
}
