#include "core/arena.h"

static size_t round_up(size_t n) { return (n + BQ_ALIGN - 1) & ~(size_t)(BQ_ALIGN - 1); }

void *bq_arena_take(bq_arena *arena, uint64_t count, uint64_t size) {
  /* `limit` is a multiple of BQ_ALIGN, as `used` is, so a size within it stays so when rounded up.
   */
  uint64_t limit = SIZE_MAX - (BQ_ALIGN - 1) - arena->used;
  if (arena->overflow || (size && count > limit / size)) {
    arena->overflow = true;
    return NULL;
  }
  size_t bytes = round_up((size_t)(count * size));
  if (!arena->base) {
    arena->used += bytes;
    return NULL;
  }
  if (bytes > arena->size - arena->used) {
    arena->overflow = true;
    return NULL;
  }
  void *p = arena->base + arena->used;
  arena->used += bytes;
  return p;
}

/* Header of a block. Blocks follow each other without gaps. Adjacent free blocks are joined when
 * the search of an allocation reaches them. */
typedef struct block {
  size_t bytes; /* header included; a multiple of BQ_ALIGN */
  bool taken;
} block;

struct bq_heap {
  uint8_t *begin, *end; /* the blocks */
  size_t used, peak;
};

size_t bq_heap_cost(size_t bytes) { return round_up(bytes) + BQ_ALIGN; }
size_t bq_heap_overhead(void) { return round_up(sizeof(bq_heap)) + BQ_ALIGN; }

bq_heap *bq_heap_create(void *region, size_t bytes) {
  uintptr_t from = ((uintptr_t)region + BQ_ALIGN - 1) & ~(uintptr_t)(BQ_ALIGN - 1);
  uintptr_t to = ((uintptr_t)region + bytes) & ~(uintptr_t)(BQ_ALIGN - 1);
  if (!region || (uintptr_t)region + bytes < (uintptr_t)region || to < from + 4 * BQ_ALIGN)
    return NULL;
  bq_heap *heap = (bq_heap *)from;
  heap->begin = (uint8_t *)from + round_up(sizeof *heap);
  heap->end = (uint8_t *)to;
  heap->used = heap->peak = bq_heap_overhead();
  *(block *)heap->begin = (block){(size_t)(heap->end - heap->begin), false};
  return heap;
}

/* Joins the free blocks that follow b. */
static void join_free_blocks(bq_heap *heap, block *b) {
  for (;;) {
    block *next = (block *)((uint8_t *)b + b->bytes);
    if ((uint8_t *)next >= heap->end || next->taken) return;
    b->bytes += next->bytes;
  }
}

static void *heap_alloc(void *ctx, size_t bytes) {
  bq_heap *heap = ctx;
  if (bytes > SIZE_MAX - 2 * BQ_ALIGN) return NULL;
  size_t need = bq_heap_cost(bytes);
  for (uint8_t *at = heap->begin; at < heap->end; at += ((block *)at)->bytes) {
    block *b = (block *)at;
    if (b->taken) continue;
    join_free_blocks(heap, b);
    if (b->bytes < need) continue;
    if (b->bytes > need) {
      *(block *)(at + need) = (block){b->bytes - need, false};
      b->bytes = need;
    }
    b->taken = true;
    heap->used += need;
    if (heap->used > heap->peak) heap->peak = heap->used;
    return at + BQ_ALIGN;
  }
  return NULL;
}

static void heap_free(void *ctx, void *ptr) {
  bq_heap *heap = ctx;
  if (!ptr) return;
  block *b = (block *)((uint8_t *)ptr - BQ_ALIGN);
  b->taken = false;
  heap->used -= b->bytes;
}

bq_allocator bq_heap_allocator(bq_heap *heap) {
  return (bq_allocator){heap, heap_alloc, heap_free};
}

size_t bq_heap_used(const bq_heap *heap) { return heap->used; }
size_t bq_heap_peak(const bq_heap *heap) { return heap->peak; }
