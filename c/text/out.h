/* A bounded text buffer, which normalizers write to. */
#ifndef BQ_OUT_H
#define BQ_OUT_H

#include <stddef.h>
#include <stdint.h>

/* A text that is written piece by piece to a buffer of limited size. `n` counts all bytes of the
 * text, including those that didn't fit. */
typedef struct bq_out {
  uint8_t *to; /* [room] */
  size_t room, n;
} bq_out;

static inline void bq_out_byte(bq_out *out, uint8_t byte) {
  if (out->n < out->room) out->to[out->n] = byte;
  out->n++;
}
void bq_out_text(bq_out *out, const uint8_t *text, size_t bytes);
void bq_out_character(bq_out *out, uint32_t code_point);

#endif
