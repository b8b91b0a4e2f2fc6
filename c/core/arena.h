/* Memory: arenas, allocators, and a heap over one fixed region.
 *
 * An arena is one block of memory from which parts are allocated front to back, 64-byte aligned.
 * Nothing in it is freed alone. The size of an arena is planned by running the same code twice:
 * first over an arena without memory (base NULL), which only counts, then over a block of exactly
 * `used` bytes. So the plan and the allocation always agree. */
#ifndef BQ_ARENA_H
#define BQ_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BQ_ALIGN 64u

typedef struct bq_arena {
  uint8_t *base; /* NULL: measuring only */
  size_t size;   /* bytes at base */
  size_t used;   /* bytes allocated, a multiple of BQ_ALIGN */
  bool overflow; /* an allocation did not fit, or its size overflowed; stays true */
} bq_arena;

/* Allocates count * size bytes, aligned to BQ_ALIGN, not cleared. Returns NULL while measuring and
 * on overflow: check `overflow` once, after all allocations. */
void *bq_arena_take(bq_arena *arena, uint64_t count, uint64_t size);

/* Source of large blocks. alloc returns memory aligned to BQ_ALIGN, or NULL. free accepts a block
 * of alloc, or NULL. */
typedef struct bq_allocator {
  void *ctx;
  void *(*alloc)(void *ctx, size_t bytes);
  void (*free)(void *ctx, void *ptr);
} bq_allocator;

/* A first-fit heap over one fixed region, for few and large blocks (models, sessions). Its own
 * record is at the start of the region. It lives as long as the region; there is no free. */
typedef struct bq_heap bq_heap;
bq_heap *bq_heap_create(void *region, size_t bytes); /* NULL: the region is too small */
bq_allocator bq_heap_allocator(bq_heap *heap);
size_t bq_heap_used(const bq_heap *heap); /* bytes in use, headers of blocks included */
size_t bq_heap_peak(const bq_heap *heap); /* maximum of bq_heap_used so far */
size_t bq_heap_cost(size_t bytes);        /* bytes that a block of `bytes` takes from the region */
size_t bq_heap_overhead(void);            /* bytes of the record itself */

#endif
