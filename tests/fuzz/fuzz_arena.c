/* Any requests to the arena and the heap, the largest there are among them: what is handed out lies
 * inside and apart, and no sum wraps. */
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/cursor.h"

static void require(bool ok) {
  if (!ok) abort();
}

/* A number near one of the ends of what 64 or a size_t's bits can say, or a small one. */
static uint64_t number(bq_cursor *c) {
  const uint64_t ends[] = {0,        SIZE_MAX, UINT64_MAX, UINT64_C(1) << 32, SIZE_MAX / 2,
                           BQ_ALIGN, 4096,     1 << 20};
  uint8_t choice = bq_cursor_u8(c);
  int16_t near = (int16_t)bq_cursor_u16(c);
  return ends[choice % 8] + (uint64_t)(int64_t)(choice & 8 ? near : near % 130);
}

static void measure(bq_cursor c) {
  bq_arena a = {0};
  while (bq_cursor_left(&c)) {
    const size_t before = a.used;
    const uint64_t count = number(&c), size = number(&c);
    const bool failed = a.overflow;
    require(!bq_arena_take(&a, count, size));
    require(a.used % BQ_ALIGN == 0 && a.used >= before);
    require(!a.overflow || a.used == before);
    require(!failed || a.overflow);
    if (a.overflow) continue;
    require(!size || count <= (a.used - before) / size);
  }
}

static void hand_out(bq_cursor c) {
  enum { BYTES = 8192 };
  static _Alignas(64) uint8_t block[BYTES];
  bq_arena a = {.base = block, .size = (size_t)bq_cursor_u16(&c) % BYTES / BQ_ALIGN * BQ_ALIGN};
  while (bq_cursor_left(&c)) {
    const uint8_t *end = block + a.used;
    const uint64_t count = number(&c), size = number(&c);
    uint8_t *p = bq_arena_take(&a, count, size);
    require(!p == a.overflow && a.used <= a.size);
    if (p) require(p == end && count * size <= a.used);
    if (p) memset(p, 1, (size_t)(count * size));
  }
}

/* Blocks keep what is written in them until they are given back. */
static void keep(bq_cursor c) {
  enum { BYTES = 16384, BLOCKS = 8 };
  static uint8_t region[BYTES + BQ_ALIGN];
  struct {
    uint8_t *at;
    size_t bytes;
  } blocks[BLOCKS] = {{0}};
  bq_heap *heap = bq_heap_create(region + bq_cursor_u8(&c) % BQ_ALIGN, bq_cursor_u16(&c) % BYTES);
  if (!heap) return;
  const bq_allocator m = bq_heap_allocator(heap);
  while (bq_cursor_left(&c)) {
    const uint32_t k = bq_cursor_u8(&c) % BLOCKS;
    for (size_t j = 0; j < blocks[k].bytes; j++) require(blocks[k].at[j] == k);
    m.free(m.ctx, blocks[k].at);
    const uint64_t bytes = number(&c);
    blocks[k].at = bytes <= SIZE_MAX ? m.alloc(m.ctx, (size_t)bytes) : NULL;
    blocks[k].bytes = blocks[k].at ? (size_t)bytes : 0;
    require(blocks[k].bytes <= BYTES && (uintptr_t)blocks[k].at % BQ_ALIGN == 0);
    if (blocks[k].at) memset(blocks[k].at, (int)k, blocks[k].bytes);
  }
  for (uint32_t k = 0; k < BLOCKS; k++) m.free(m.ctx, blocks[k].at);
  require(bq_heap_used(heap) == bq_heap_overhead());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  const bq_cursor c = {data, n, 0, false};
  measure(c);
  hand_out(c);
  keep(c);
  return 0;
}
