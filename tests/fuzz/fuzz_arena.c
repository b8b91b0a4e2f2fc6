/* Any requests to the arena and the heap, also the largest ones: blocks are inside the memory and
 * do not overlap, and no sum overflows. */
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/cursor.h"

static void require(bool ok) {
  if (!ok) abort();
}

/* Reads a number near the limits of 64 bits or of size_t, or a small one. */
static uint64_t read_number(bq_cursor *c) {
  const uint64_t ends[] = {0,        SIZE_MAX, UINT64_MAX, UINT64_C(1) << 32, SIZE_MAX / 2,
                           BQ_ALIGN, 4096,     1 << 20};
  uint8_t choice = bq_cursor_u8(c);
  int16_t offset = (int16_t)bq_cursor_u16(c);
  return ends[choice % 8] + (uint64_t)(int64_t)(choice & 8 ? offset : offset % 130);
}

static void check_measuring(bq_cursor c) {
  bq_arena a = {0};
  while (bq_cursor_left(&c)) {
    const size_t used_before = a.used;
    const uint64_t count = read_number(&c), size = read_number(&c);
    const bool failed = a.overflow;
    require(!bq_arena_take(&a, count, size));
    require(a.used % BQ_ALIGN == 0 && a.used >= used_before);
    require(!a.overflow || a.used == used_before);
    require(!failed || a.overflow);
    if (a.overflow) continue;
    require(!size || count <= (a.used - used_before) / size);
  }
}

static void check_arena(bq_cursor c) {
  enum { BYTES = 8192 };
  static _Alignas(64) uint8_t block[BYTES];
  bq_arena a = {.base = block, .size = (size_t)bq_cursor_u16(&c) % BYTES / BQ_ALIGN * BQ_ALIGN};
  while (bq_cursor_left(&c)) {
    const uint8_t *end = block + a.used;
    const uint64_t count = read_number(&c), size = read_number(&c);
    uint8_t *p = bq_arena_take(&a, count, size);
    require(!p == a.overflow && a.used <= a.size);
    if (p) require(p == end && count * size <= a.used);
    if (p) memset(p, 1, (size_t)(count * size));
  }
}

/* Blocks keep their contents until they are freed. */
static void check_heap(bq_cursor c) {
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
    const uint64_t bytes = read_number(&c);
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
  check_measuring(c);
  check_arena(c);
  check_heap(c);
  return 0;
}
