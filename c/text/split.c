#include "text/split.h"

#include <string.h>

#include "core/cursor.h"
#include "text/unicode_tables.h"
#include "text/utf8.h"

#define NO_MATCH SIZE_MAX

/* Classes of the first 128 code points, 2 bits each. */
static const uint32_t ascii_classes[8] = {0x0ffc0000, 0, 0x3, 0xaaaaa,
                                          0x55555554, 0x155555, 0x55555554, 0x155555};

/* Length of the run at `at`, which advances to the next run. */
static uint32_t run_step(uint32_t *at) {
  const uint8_t *run = bq_char_runs + *at;
  uint32_t step = run[0] & 63;
  *at += step < 62 ? 1 : step == 62 ? 2 : 3;
  return step < 62 ? step : step == 62 ? 62u + run[1] : run[1] | (uint32_t)run[2] << 8;
}

uint32_t bq_char_class(uint32_t code_point) {
  if (code_point < 128) return ascii_classes[code_point / 16] >> code_point % 16 * 2 & 3;
  if (code_point == BQ_UTF8_BAD) return BQ_CHAR_OTHER;
  uint32_t low = 0, high = BQ_CHAR_MARKS; /* from mark low, before mark high */
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (bq_char_marks[middle] >> BQ_CHAR_PLACE_BITS <= code_point) low = middle;
    else high = middle;
  }
  uint32_t at = bq_char_marks[low] & ((1u << BQ_CHAR_PLACE_BITS) - 1);
  uint32_t first = bq_char_marks[low] >> BQ_CHAR_PLACE_BITS, class = bq_char_runs[at] >> 6;
  for (run_step(&at); at < BQ_CHAR_BYTES;) {
    uint32_t next = bq_char_runs[at] >> 6;
    first += run_step(&at);
    if (first > code_point) break;
    class = next;
  }
  return class;
}

/* Bytes of the character at `at`; 0 if it isn't in the set or the text ends. */
static size_t match_character(const bq_splitter *s, size_t at, const bq_split_set *set) {
  if (at == s->bytes) return 0;
  uint32_t code_point;
  size_t length = bq_utf8_decode(s->text + at, s->bytes - at, &code_point);
  if (code_point != BQ_UTF8_BAD)
    for (size_t i = 0; i < BQ_SPLIT_POINTS && set->points[i] != BQ_SPLIT_NONE; i++)
      if (set->points[i] == code_point)
        return set->classes >> bq_char_class(code_point) & 1 ? 0 : length;
  return set->classes && set->classes >> bq_char_class(code_point) & 1 ? length : 0;
}

/* Finds the run of characters of the item's set that begins at `at`. */
static void scan_run(const bq_splitter *s, const bq_split_item *item, size_t at,
                     bq_split_run *run) {
  *run = (bq_split_run){.begin = at, .end = at, .last = at};
  for (size_t length; (length = match_character(s, run->end, &item->set));) {
    run->last = run->end;
    run->end += length;
    if (item->flags & BQ_SPLIT_CUT && match_character(s, run->last, &item->end))
      run->cut = run->end;
  }
}

/* End of an unlimited item that begins at `at`. */
static size_t match_run(const bq_splitter *s, const bq_split_item *item, size_t at,
                        bq_split_run *run) {
  if (at < run->begin || at >= run->end) scan_run(s, item, at, run);
  if (run->end == at) return item->min ? NO_MATCH : at;
  if (item->flags & BQ_SPLIT_CUT) return run->cut > at ? run->cut : NO_MATCH;
  if (!(item->flags & BQ_SPLIT_SPARE) || run->end == s->bytes) return run->end;
  if (match_character(s, run->end, &item->end)) return run->end;
  return run->last > at ? run->last : NO_MATCH;
}

static size_t match_count(const bq_splitter *s, const bq_split_item *item, size_t at) {
  size_t length;
  uint32_t n = 0;
  for (; n < item->max && (length = match_character(s, at, &item->set)); n++) at += length;
  return n < item->min ? NO_MATCH : at;
}

void bq_splitter_begin(bq_splitter *s, const bq_split *split, const uint8_t *text, size_t bytes) {
  s->split = split;
  s->text = text;
  s->bytes = bytes;
  memset(s->runs, 0, split->n * sizeof *s->runs);
}

size_t bq_splitter_next(bq_splitter *s, size_t at) {
  size_t position = at;
  for (uint32_t i = 0; i < s->split->n; i++) {
    const bq_split_item *item = &s->split->items[i];
    if (position != NO_MATCH)
      position = item->max ? match_count(s, item, position)
                           : match_run(s, item, position, &s->runs[i]);
    if (!(item->flags & BQ_SPLIT_LAST)) continue;
    if (position != NO_MATCH && position > at) return position;
    position = at;
  }
  uint32_t code_point;
  return at + bq_utf8_decode(s->text + at, s->bytes - at, &code_point);
}

/* --- programs ------------------------------------------------------------------------------- */

/* classes u8, min u8, max u8, flags u8, code points 4 x u32; of the end: classes u8, 3 zero bytes,
 * code points 2 x u32. */
static bool read_set(const uint8_t *classes, const uint8_t *points, size_t n, bq_split_set *out) {
  bool valid = *classes < 16, ended = false;
  out->classes = *classes;
  for (size_t i = 0; i < BQ_SPLIT_POINTS; i++) {
    const uint32_t point = i < n ? bq_load32(points + 4 * i) : BQ_SPLIT_NONE;
    valid &= point == BQ_SPLIT_NONE || (point <= 0x10ffff && !ended);
    ended |= point == BQ_SPLIT_NONE;
    out->points[i] = point;
  }
  return valid;
}

bool bq_split_read(const uint8_t bytes[BQ_SPLIT_ITEM_BYTES], bq_split_item *out) {
  const uint8_t min = bytes[1], max = bytes[2], flags = bytes[3];
  const uint8_t ends = flags & (BQ_SPLIT_CUT | BQ_SPLIT_SPARE);
  bool valid = read_set(bytes, bytes + 4, 4, &out->set);
  valid &= read_set(bytes + 20, bytes + 24, 2, &out->end);
  valid &= !bytes[21] && !bytes[22] && !bytes[23] && flags <= BQ_SPLIT_FLAGS;
  valid &= max ? min <= max && !ends : min <= 1;
  if (ends) valid &= min == 1 && ends != (BQ_SPLIT_CUT | BQ_SPLIT_SPARE);
  out->min = min;
  out->max = max;
  out->flags = flags;
  return valid;
}

#define NONE BQ_SPLIT_NONE
#define CLASS(name) (1u << BQ_CHAR_##name)
#define POINTS(...) {0, {__VA_ARGS__}}
#define ONE(flags, ...) {POINTS(__VA_ARGS__), {0, {NONE}}, 1, 1, flags}
#define SPACE_IF_ANY {POINTS(' ', NONE), {0, {NONE}}, 0, 1, 0}
#define RUN(name, flags) {{CLASS(name), {NONE}}, {0, {NONE}}, 1, 0, flags}

const bq_split bq_split_gpt2 = {
    19,
    {ONE(0, '\'', NONE), ONE(BQ_SPLIT_LAST, 's', 't', 'm', 'd'),
     ONE(0, '\'', NONE), ONE(0, 'r', NONE), ONE(BQ_SPLIT_LAST, 'e', NONE),
     ONE(0, '\'', NONE), ONE(0, 'v', NONE), ONE(BQ_SPLIT_LAST, 'e', NONE),
     ONE(0, '\'', NONE), ONE(0, 'l', NONE), ONE(BQ_SPLIT_LAST, 'l', NONE),
     SPACE_IF_ANY, RUN(LETTER, BQ_SPLIT_LAST),
     SPACE_IF_ANY, RUN(NUMBER, BQ_SPLIT_LAST),
     SPACE_IF_ANY, RUN(OTHER, BQ_SPLIT_LAST),
     RUN(SPACE, BQ_SPLIT_SPARE | BQ_SPLIT_LAST),
     RUN(SPACE, BQ_SPLIT_LAST)}};
