/* Arena: one block of memory handed out front to back, 64-byte aligned.
 *
 * Sizes are planned by running the same code twice: once over an arena without
 * memory (base NULL), which only counts, then over a block of exactly `used`
 * bytes. So the plan and the allocation can't disagree. */
#ifndef BQ_ARENA_H
#define BQ_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BQ_ALIGN 64u

typedef struct bq_arena {
  uint8_t *base; /* NULL: measuring only */
  size_t size;   /* bytes at base */
  size_t used;   /* bytes handed out, a multiple of BQ_ALIGN */
  bool overflow; /* a request did not fit, or its size overflowed: sticky */
} bq_arena;

/* count * size bytes, aligned to BQ_ALIGN, not cleared. NULL while measuring and
 * on overflow: check `overflow` once at the end. */
void *bq_arena_take(bq_arena *arena, uint64_t count, uint64_t size);

/* Source of large blocks. alloc returns BQ_ALIGN-aligned memory or NULL; free takes what alloc
 * returned, and accepts NULL. */
typedef struct bq_allocator {
  void *ctx;
  void *(*alloc)(void *ctx, size_t bytes);
  void (*free)(void *ctx, void *ptr);
} bq_allocator;

/* A first-fit heap over one fixed region, for few and large blocks (models,
 * sessions). The heap's own record lies at the start of the region. */
typedef struct bq_heap bq_heap;
bq_heap *bq_heap_create(void *region, size_t bytes); /* NULL: region too small */
bq_allocator bq_heap_allocator(bq_heap *heap);
size_t bq_heap_used(const bq_heap *heap); /* bytes in use now, headers included */
size_t bq_heap_peak(const bq_heap *heap); /* high-water mark of bq_heap_used */
size_t bq_heap_cost(size_t bytes);        /* bytes that a block of `bytes` takes from the region */
size_t bq_heap_overhead(void);            /* bytes of the record itself */

#endif
