/* The arena and the heap: allocations are aligned and inside the block, and no sum overflows,
 * however large the requests are. `size_t` has 32 bits in the wasm builds of this test. */
#include <stdlib.h>

#include "check.h"
#include "core/arena.h"

/* The largest multiple of BQ_ALIGN that fits in a size_t. */
#define TOP (SIZE_MAX - (BQ_ALIGN - 1))

static void test_count(void) {
  bq_arena a = {0};
  CHECK(!bq_arena_take(&a, 3, 5));
  CHECK_EQ(a.used, BQ_ALIGN);
  CHECK(!bq_arena_take(&a, 0, 8));
  CHECK(!bq_arena_take(&a, 8, 0));
  CHECK_EQ(a.used, BQ_ALIGN);
  CHECK(!bq_arena_take(&a, BQ_ALIGN, 2));
  CHECK_EQ(a.used, 3 * BQ_ALIGN);
  CHECK(!a.overflow);
}

/* Whether one allocation fits in an arena of which `used` bytes are in use. */
static bool fits(size_t used, uint64_t count, uint64_t size) {
  bq_arena a = {.used = used};
  bq_arena_take(&a, count, size);
  if (a.overflow) CHECK_EQ(a.used, used);
  else CHECK(a.used >= used && a.used - used >= count * size);
  return !a.overflow;
}

static void test_top(void) {
  CHECK(fits(0, 1, TOP));
  CHECK(!fits(0, 1, TOP + 1));
  CHECK(!fits(0, 1, SIZE_MAX));
  CHECK(!fits(0, UINT64_MAX, 1));
  CHECK(!fits(0, UINT64_MAX, UINT64_MAX));
  CHECK(!fits(0, (uint64_t)SIZE_MAX / 2 + 1, 2));
  for (size_t left = 0; left <= 4 * BQ_ALIGN; left += BQ_ALIGN)
    for (uint64_t size = 0; size <= 5 * BQ_ALIGN; size++)
      if (!CHECK_EQ(fits(TOP - left, 1, size), size <= left)) return;
  CHECK(!fits(TOP, 1, SIZE_MAX));
  CHECK(!fits(TOP, 1, (uint64_t)SIZE_MAX - BQ_ALIGN));
}

/* After an allocation that did not fit, all further ones fail. */
static void test_overflow_is_final(void) {
  bq_arena a = {0};
  bq_arena_take(&a, 1, SIZE_MAX);
  CHECK(a.overflow);
  CHECK(!bq_arena_take(&a, 1, 1));
  CHECK(a.overflow);
  CHECK_EQ(a.used, 0);
}

static void test_memory(void) {
  uint8_t *block = aligned_alloc(BQ_ALIGN, 4 * BQ_ALIGN);
  bq_arena a = {.base = block, .size = 4 * BQ_ALIGN};
  CHECK(bq_arena_take(&a, 1, 1) == block);
  CHECK(bq_arena_take(&a, 2, BQ_ALIGN) == block + BQ_ALIGN);
  CHECK(!bq_arena_take(&a, 1, BQ_ALIGN + 1));
  CHECK(a.overflow);
  CHECK(!bq_arena_take(&a, 1, 1));
  free(block);
}

static void test_heap(void) {
  enum { BYTES = 4096 };
  uint8_t *region = aligned_alloc(BQ_ALIGN, BYTES);
  CHECK(!bq_heap_create(region, 3 * BQ_ALIGN));
  CHECK(!bq_heap_create(region, SIZE_MAX));
  bq_heap *heap = bq_heap_create(region, BYTES);
  bq_allocator m = bq_heap_allocator(heap);
  const size_t huge[] = {BYTES, SIZE_MAX / 2, TOP - BQ_ALIGN, TOP, SIZE_MAX - 1, SIZE_MAX};
  for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) CHECK(!m.alloc(m.ctx, huge[i]));
  CHECK_EQ(bq_heap_used(heap), bq_heap_overhead());
  uint8_t *a = m.alloc(m.ctx, 1), *b = m.alloc(m.ctx, 1000);
  CHECK(a && b && (uintptr_t)a % BQ_ALIGN == 0 && (uintptr_t)b % BQ_ALIGN == 0);
  CHECK_EQ(bq_heap_used(heap), bq_heap_overhead() + bq_heap_cost(1) + bq_heap_cost(1000));
  m.free(m.ctx, a);
  m.free(m.ctx, b);
  m.free(m.ctx, NULL);
  CHECK_EQ(bq_heap_used(heap), bq_heap_overhead());
  size_t all = BYTES - bq_heap_overhead(); /* An aligned region loses no bytes to alignment. */
  void *block = m.alloc(m.ctx, all);       /* Adjacent free blocks were joined. */
  CHECK(block && !m.alloc(m.ctx, 0));
  CHECK_EQ(bq_heap_peak(heap), bq_heap_overhead() + bq_heap_cost(all));
  free(region);
}

int main(void) {
  RUN(test_count);
  RUN(test_top);
  RUN(test_overflow_is_final);
  RUN(test_memory);
  RUN(test_heap);
  return check_summary();
}
