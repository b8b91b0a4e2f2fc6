#include "text/split_passes.h"

#include <string.h>

#include "core/cursor.h"
#include "text/utf8.h"

/* In texts longer than SHORT bytes, a scan is recorded each time that it enters a block of BLOCK
 * bytes. */
enum { BLOCK = 64, SHORT = 4096, HEADER = 16, START = 1, REPLACEMENT = 0xfffd };

static uint32_t run_at(const bq_split_pass *s, uint32_t i) {
  return bq_load32(s->runs + 4 * (size_t)i);
}

static uint32_t class_of(const bq_split_pass *s, uint32_t code_point) {
  uint32_t low = 0, high = s->n_runs; /* the run is in [low, high) */
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (run_at(s, middle) >> 8 <= code_point) low = middle;
    else high = middle;
  }
  return run_at(s, low) & 255;
}

/* Class and length of the character at p. Each byte that is not UTF-8 counts as U+FFFD. */
static uint32_t read_class(const bq_split_pass *s, const uint8_t *p, size_t left,
                           unsigned *length) {
  *length = 1;
  if (*p < 0x80 || s->flags & BQ_SPLIT_PASS_BYTES) return s->low[*p];
  uint32_t code_point;
  *length = bq_utf8_decode(p, left, &code_point);
  return class_of(s, code_point == BQ_UTF8_BAD ? REPLACEMENT : code_point);
}

static uint32_t step(const bq_split_pass *s, uint32_t state, uint32_t class) {
  return bq_load16(s->table + 2 * ((size_t)state * (s->classes + 1) + class));
}

bool bq_split_pass_read(const uint8_t *bytes, size_t n, bq_split_pass *out) {
  if (n < HEADER) return false;
  out->flags = bq_load32(bytes);
  out->classes = bq_load32(bytes + 4);
  out->states = bq_load32(bytes + 8);
  out->n_runs = bq_load32(bytes + 12);
  if (out->flags > BQ_SPLIT_PASS_FLAGS || !out->classes || out->classes > BQ_SPLIT_PASS_CLASSES)
    return false;
  if (out->states < 2 || out->states > BQ_SPLIT_PASS_STATES || !out->n_runs) return false;
  uint64_t cells = (uint64_t)out->states * (out->classes + 1);
  if ((2 * cells + 3) / 4 * 4 + 4 * (uint64_t)out->n_runs + HEADER != n) return false;
  out->runs = bytes + HEADER;
  out->table = out->runs + 4 * (size_t)out->n_runs;
  bool valid = run_at(out, 0) >> 8 == 0;
  for (uint32_t i = 0; i < out->n_runs; i++) {
    valid &= (run_at(out, i) & 255) < out->classes && run_at(out, i) >> 8 <= 0x10ffff;
    if (i) valid &= run_at(out, i - 1) >> 8 < run_at(out, i) >> 8;
  }
  for (size_t i = 0; i < cells; i++) {
    uint32_t next = bq_load16(out->table + 2 * i);
    valid &= (next & ~(uint32_t)BQ_SPLIT_PASS_MATCH) < out->states;
    if (i <= out->classes) valid &= next == 0; /* nothing follows the end */
  }
  /* No match may be empty. */
  for (uint32_t c = 0; c <= out->classes; c++)
    valid &= !(step(out, START, c) & BQ_SPLIT_PASS_MATCH);
  if (!valid) return false;
  for (uint32_t c = 0; c < 256; c++) out->low[c] = (uint8_t)class_of(out, c);
  return true;
}

/* --- scanning --------------------------------------------------------------------------------- */

static uint64_t pass_memory(const bq_split_pass *s, uint64_t bytes) {
  return ((bytes / BLOCK + 1) * s->states + 7) / 8;
}

uint64_t bq_multi_splitter_memory(const bq_split_pass *stages, uint32_t n, uint64_t bytes) {
  uint64_t sum = 0;
  for (uint32_t i = 0; bytes > SHORT && i < n; i++) sum += pass_memory(&stages[i], bytes);
  return sum;
}

void bq_multi_splitter_begin(bq_multi_splitter *c, const bq_split_pass *stages, uint32_t n,
                             const uint8_t *text, size_t bytes, void *memory) {
  *c = (bq_multi_splitter){.stages = stages, .text = text, .bytes = bytes, .n = n};
  if (bytes <= SHORT) return;
  c->seen = memory;
  memset(memory, 0, (size_t)bq_multi_splitter_memory(stages, n, bytes));
}

/* Records that a scan is at this position in this state; returns whether one was there before. */
static bool mark_scanned(const bq_split_pass *s, uint8_t *seen, size_t at, uint32_t state) {
  if (!seen) return false;
  size_t bit = at / BLOCK * s->states + state;
  bool scanned = seen[bit / 8] >> bit % 8 & 1;
  seen[bit / 8] |= (uint8_t)(1u << bit % 8);
  return scanned;
}

/* Length of the match at `at`; 0: none. */
static size_t match_at(const bq_multi_splitter *c, const bq_split_pass *s, uint8_t *seen, size_t at,
                       size_t limit) {
  size_t matched = at;
  uint32_t state = START;
  for (size_t position = at;;) {
    unsigned length = 0;
    uint32_t class = s->classes;
    if (position < limit) class = read_class(s, c->text + position, limit - position, &length);
    uint32_t next = step(s, state, class);
    if (next & BQ_SPLIT_PASS_MATCH) matched = position;
    state = next & ~(uint32_t)BQ_SPLIT_PASS_MATCH;
    if (!state || position == limit) return matched - at;
    size_t block = position / BLOCK;
    position += length;
    if (position / BLOCK != block && mark_scanned(s, seen, position, state)) return matched - at;
  }
}

/* End of the piece of pass i that begins at `at`, at most `limit`; *drop: the piece is dropped. */
static size_t piece_end(bq_multi_splitter *c, uint32_t i, uint8_t *seen, size_t at, size_t limit,
                        bool *drop) {
  const bq_split_pass *s = &c->stages[i];
  if (c->match_end[i] <= at) { /* look for the next match */
    size_t position = at, bytes = 0;
    while (position < limit && !(bytes = match_at(c, s, seen, position, limit))) {
      unsigned length;
      read_class(s, c->text + position, limit - position, &length);
      position += length;
    }
    c->match[i] = position;
    c->match_end[i] = position + bytes;
  }
  bool between = at < c->match[i];
  *drop = s->flags & (between ? BQ_SPLIT_PASS_DROP_BETWEEN : BQ_SPLIT_PASS_DROP_MATCHES);
  return between ? c->match[i] : c->match_end[i];
}

bool bq_multi_splitter_next(bq_multi_splitter *c, size_t *at, size_t *begin) {
  size_t position = *at;
  while (position < c->bytes) {
    size_t limit = c->bytes;
    uint8_t *seen = c->seen;
    bool drop = false;
    for (uint32_t i = 0; i < c->n && !drop; i++) {
      if (c->end[i] <= position) c->end[i] = piece_end(c, i, seen, position, limit, &drop);
      limit = c->end[i];
      if (seen) seen += pass_memory(&c->stages[i], c->bytes);
    }
    *begin = position;
    *at = position = limit;
    if (!drop) return true;
  }
  return false;
}
