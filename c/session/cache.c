#include "session/cache.h"

#include <string.h>

#include "core/assert.h"
#include "core/minmax.h"

/* The slot of position `n` in a layer. */
static uint32_t slot_of(const bq_kv_cache *cache, uint32_t layer, uint32_t n) {
  if (bq_config_window(cache->config, layer)) return n;
  return n > cache->evicted ? n - cache->evicted : 0;
}

/* The slot of the first position that positions from `n` on attend to in a layer, except sinks. */
static uint32_t first_visible_slot(const bq_kv_cache *cache, uint32_t layer, uint32_t n) {
  const uint32_t window = bq_config_window(cache->config, layer);
  if (!window) return bq_window_start(cache->window, n);
  return n + 1 > window ? n + 1 - window : 0;
}

/* --- pool ------------------------------------------------------------------------------------- */

static uint64_t blocks_of(uint64_t positions) {
  return (positions + BQ_KV_BLOCK - 1) / BQ_KV_BLOCK;
}

/* Maximum number of blocks that `positions` consecutive positions touch. */
static uint64_t blocks_touched(uint64_t positions) {
  return blocks_of(positions + BQ_KV_BLOCK - 1);
}

/* Maximum number of blocks of one layer that a session holds. With a window, these are the blocks
 * of the open batch, of the positions that it attends to, and of one more position, since the last
 * token may be recomputed. */
static uint64_t layer_blocks(const bq_config *c, const bq_session_options *o, uint32_t layer) {
  if (!bq_config_stores(c, layer)) return 0;
  const uint64_t all = blocks_of(o->context), own = bq_config_window(c, layer);
  if (o->evict && !own) return bq_min64(all, blocks_of(o->kv_window) + 1);
  const uint64_t window = own ? own : o->kv_window;
  return window ? bq_min64(all, blocks_touched(window + o->prefill_window)) : all;
}

static uint64_t class_blocks(const bq_config *c, const bq_session_options *o, uint32_t size_class) {
  uint64_t sum = 0;
  for (uint32_t layer = 0; layer < c->layers; layer++) {
    if (bq_kv_class_of(c, layer) != size_class) continue;
    const uint64_t own = layer_blocks(c, o, layer), forked = blocks_touched(o->fork_positions);
    /* Eviction moves positions, so a fork needs copies of all blocks. */
    const bool moves = o->evict && !bq_config_window(c, layer);
    sum += own + o->forks * (moves ? own : bq_min64(own, forked));
  }
  return sum;
}

/* Bytes of one head in a block, at most 2^31. */
static uint64_t head_bytes(const bq_config *c, const bq_session_options *o, uint32_t size_class) {
  return bq_kv_bytes(o->kv_type, BQ_KV_BLOCK, bq_config_head_dim(c, size_class));
}

uint64_t bq_cache_bytes(const bq_config *c, const bq_session_options *o) {
  uint64_t sum = 0;
  for (uint32_t layer = 0; layer < c->layers; layer++) {
    const uint64_t positions = layer_blocks(c, o, layer) * BQ_KV_BLOCK;
    const uint32_t size_class = bq_kv_class_of(c, layer);
    sum += bq_config_kv_heads(c, size_class) *
           bq_kv_bytes(o->kv_type, bq_min64(positions, o->context),
                       bq_config_head_dim(c, size_class));
  }
  return sum;
}

static bq_kv_class class_lay_out(bq_arena *arena, const bq_config *c, const bq_session_options *o,
                                 uint32_t number) {
  bq_kv_class size_class = {0};
  const uint64_t n = class_blocks(c, o, number), head = head_bytes(c, o, number);
  const uint64_t block = bq_config_kv_heads(c, number) * head;
  if (n >= UINT32_MAX || head == UINT64_MAX || block > SIZE_MAX) arena->overflow = true;
  size_class.n_blocks = (uint32_t)n;
  size_class.block_bytes = (size_t)block;
  size_class.free = bq_arena_take(arena, n, sizeof *size_class.free);
  size_class.users = bq_arena_take(arena, n, sizeof *size_class.users);
  size_class.data = bq_arena_take(arena, n, size_class.block_bytes);
  return size_class;
}

/* Lays the pool out, in the same order for planning and for creation. */
static bq_kv_pool *pool_lay_out(bq_arena *arena, const bq_config *c, const bq_session_options *o) {
  bq_kv_pool pool = {0}, *placed = bq_arena_take(arena, 1, sizeof *placed);
  size_t max_bytes = 0;
  for (uint32_t i = 0; i < BQ_KV_CLASSES; i++) {
    pool.classes[i] = class_lay_out(arena, c, o, i);
    if (pool.classes[i].block_bytes > max_bytes) max_bytes = pool.classes[i].block_bytes;
  }
  pool.spare = bq_arena_take(arena, 1, max_bytes);
  if (placed) *placed = pool;
  return placed;
}

uint64_t bq_kv_pool_bytes(const bq_config *c, const bq_session_options *o) {
  bq_arena arena = {0};
  pool_lay_out(&arena, c, o);
  return arena.overflow ? UINT64_MAX : arena.used;
}

bq_status bq_kv_pool_create(const bq_config *c, const bq_session_options *o,
                            bq_allocator allocator, bq_kv_pool **out, bq_error *err) {
  const uint64_t bytes = bq_kv_pool_bytes(c, o);
  void *memory = bytes <= SIZE_MAX ? allocator.alloc(allocator.ctx, (size_t)bytes) : NULL;
  if (!memory)
    return bq_fail(err, BQ_NO_SESSION, BQ_NO_OFFSET,
                   "the KV cache of a session of context %u needs %l bytes: the plan has no room "
                   "for another session; raise `sessions`, or close one",
                   o->context, bytes);
  bq_arena arena = {memory, (size_t)bytes, 0, false};
  bq_kv_pool *pool = pool_lay_out(&arena, c, o);
  pool->allocator = allocator;
  for (bq_kv_class *size_class = pool->classes; size_class < pool->classes + BQ_KV_CLASSES;
       size_class++) {
    size_class->n_free = size_class->n_blocks;
    /* Blocks are allocated from the end of the list, so block 0 is the first. */
    for (uint32_t i = 0; i < size_class->n_blocks; i++) {
      size_class->free[i] = size_class->n_blocks - 1 - i;
      size_class->users[i] = 0;
    }
  }
  *out = pool;
  return BQ_OK;
}

static bq_kv_class *class_of(const bq_kv_cache *cache, uint32_t layer) {
  return &cache->pool->classes[bq_kv_class_of(cache->config, layer)];
}

static uint32_t number_of(const bq_kv_class *size_class, const uint8_t *block) {
  return (uint32_t)((size_t)(block - size_class->data) / size_class->block_bytes);
}

/* Allocates a block; returns NULL if all are in use. */
static uint8_t *take_block(bq_kv_class *size_class) {
  if (size_class->n_free == 0) return NULL;
  const uint32_t number = size_class->free[--size_class->n_free];
  size_class->users[number] = 1;
  return size_class->data + number * size_class->block_bytes;
}

static void release_block(bq_kv_class *size_class, uint8_t **entry) {
  if (!*entry) return;
  const uint32_t number = number_of(size_class, *entry);
  if (--size_class->users[number] == 0) size_class->free[size_class->n_free++] = number;
  *entry = NULL;
}

/* --- tables ----------------------------------------------------------------------------------- */

bq_kv_cache bq_cache_lay_out(bq_arena *arena, const bq_config *c, const bq_session_options *o) {
  bq_kv_cache cache = {.config = c,
                       .entries = (uint32_t)blocks_of(o->context),
                       .head_bytes = {(size_t)head_bytes(c, o, 0), (size_t)head_bytes(c, o, 1)},
                       .window = bq_sliding_window(o)};
  cache.blocks =
      bq_arena_take(arena, (uint64_t)c->layers * cache.entries, sizeof *cache.blocks);
  return cache;
}

static uint8_t **table_of(const bq_kv_cache *cache, uint32_t layer) {
  return cache->blocks + (size_t)layer * cache->entries;
}

void bq_cache_join(bq_kv_cache *cache, bq_kv_pool *pool) {
  const size_t n = (size_t)cache->config->layers * cache->entries;
  for (size_t i = 0; i < n; i++) cache->blocks[i] = NULL;
  cache->pool = pool;
  pool->sessions++;
}

void bq_cache_leave(bq_kv_cache *cache) {
  bq_kv_pool *pool = cache->pool;
  bq_cache_truncate(cache, 0);
  if (--pool->sessions == 0) pool->allocator.free(pool->allocator.ctx, pool);
}

/* Makes a table's block writable: allocates it, or replaces a shared block by a copy. `keep`:
 * whether the contents are needed. Returns false if the pool is used up. */
static bool own_block(bq_kv_class *size_class, uint8_t **entry, bool keep) {
  uint8_t *old = *entry;
  if (old && size_class->users[number_of(size_class, old)] == 1) return true;
  uint8_t *block = take_block(size_class);
  if (!block) return false;
  if (old && keep) memcpy(block, old, size_class->block_bytes);
  release_block(size_class, entry);
  *entry = block;
  return true;
}

/* Blocks [first, end) of a layer's table. */
typedef struct block_range {
  uint32_t first, end;
} block_range;

/* The blocks that hold the positions before `n` that positions from `next` on attend to. This
 * function alone determines which blocks are allocated, freed, checked and saved. */
static block_range visible_blocks(const bq_kv_cache *cache, uint32_t layer, uint32_t next,
                                  uint32_t n) {
  if (!bq_config_stores(cache->config, layer)) return (block_range){0, 0};
  const uint32_t end = (uint32_t)blocks_of(slot_of(cache, layer, n));
  return (block_range){bq_min32(first_visible_slot(cache, layer, next) / BQ_KV_BLOCK, end), end};
}

/* The earliest position to compute next: the last token of a completely computed sequence may be
 * recomputed for its output. */
static uint32_t next_position(uint32_t computed, uint32_t tokens) {
  return computed && computed == tokens ? computed - 1 : computed;
}

static bool table_holds(uint8_t *const *table, block_range range) {
  for (uint32_t i = range.first; i < range.end; i++)
    if (!table[i]) return false;
  return true;
}

static bq_status fail_pool_used_up(const bq_kv_cache *cache, bq_error *err) {
  bq_assert(cache->pool->sessions > 1); /* the pool has enough blocks for one session */
  return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET,
                 "all %u blocks of the KV cache that a session shares with its forks are in use: "
                 "raise `forks` or `forkPositions`, or close one",
                 cache->pool->classes[0].n_blocks + cache->pool->classes[1].n_blocks);
}

bq_status bq_cache_open(bq_kv_cache *cache, uint32_t from, uint32_t end, bq_error *err) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++) {
    uint8_t **table = table_of(cache, layer);
    const uint32_t first = slot_of(cache, layer, from) / BQ_KV_BLOCK;
    const block_range keep = visible_blocks(cache, layer, next_position(from, from), end);
    bq_assert(table_holds(table, visible_blocks(cache, layer, from, from)));
    bq_kv_class *size_class = class_of(cache, layer);
    for (uint32_t i = keep.first; i-- > 0 && table[i];) release_block(size_class, &table[i]);
    for (uint32_t i = keep.end; i < cache->entries && table[i]; i++)
      release_block(size_class, &table[i]);
    for (uint32_t i = first; i < keep.end; i++)
      if (!own_block(size_class, &table[i], i == first && from % BQ_KV_BLOCK))
        return fail_pool_used_up(cache, err);
  }
  return BQ_OK;
}

bq_status bq_cache_own_all(bq_kv_cache *cache, bq_error *err) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++) {
    uint8_t **table = table_of(cache, layer);
    if (bq_config_window(cache->config, layer)) continue;
    for (uint32_t i = 0; i < cache->entries && table[i]; i++)
      if (!own_block(class_of(cache, layer), &table[i], true)) return fail_pool_used_up(cache, err);
  }
  return BQ_OK;
}

bool bq_cache_holds(const bq_kv_cache *cache, uint32_t n) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++)
    if (!table_holds(table_of(cache, layer), visible_blocks(cache, layer, n, n))) return false;
  return true;
}

void bq_cache_truncate(bq_kv_cache *cache, uint32_t n) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++)
    for (uint32_t i = visible_blocks(cache, layer, n, n).end; i < cache->entries; i++)
      release_block(class_of(cache, layer), &table_of(cache, layer)[i]);
}

void bq_cache_share(bq_kv_cache *to, const bq_kv_cache *from) {
  for (uint32_t layer = 0; layer < from->config->layers; layer++) {
    const bq_kv_class *size_class = class_of(from, layer);
    for (uint32_t i = 0; i < from->entries; i++) {
      uint8_t *block = table_of(from, layer)[i];
      table_of(to, layer)[i] = block;
      if (block) size_class->users[number_of(size_class, block)]++;
    }
  }
}

/* --- for saved sessions ----------------------------------------------------------------------- */

/* The saved blocks of one layer. */
static block_range saved_blocks(const bq_kv_cache *cache, uint32_t layer, uint32_t computed,
                                uint32_t tokens) {
  return visible_blocks(cache, layer, next_position(computed, tokens), computed);
}

uint64_t bq_cache_saved_bytes(const bq_kv_cache *cache, uint32_t computed, uint32_t tokens) {
  uint64_t sum = 0;
  for (uint32_t layer = 0; layer < cache->config->layers; layer++) {
    const block_range range = saved_blocks(cache, layer, computed, tokens);
    sum += (uint64_t)(range.end - range.first) * class_of(cache, layer)->block_bytes;
  }
  return sum;
}

bq_status bq_cache_fill(bq_kv_cache *cache, uint32_t computed, uint32_t tokens, bq_error *err) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++) {
    const block_range range = saved_blocks(cache, layer, computed, tokens);
    for (uint32_t i = range.first; i < range.end; i++) {
      uint8_t **entry = &table_of(cache, layer)[i];
      bq_assert(!*entry);
      if (!own_block(class_of(cache, layer), entry, false)) return fail_pool_used_up(cache, err);
    }
  }
  return BQ_OK;
}

bq_saved_block bq_cache_block(const bq_kv_cache *cache, uint32_t computed, uint32_t tokens,
                              uint64_t at) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++) {
    const block_range range = saved_blocks(cache, layer, computed, tokens);
    const size_t bytes = class_of(cache, layer)->block_bytes;
    const uint64_t count = range.end - range.first, index = at / bytes;
    if (index < count) {
      bq_assert(table_holds(table_of(cache, layer), range));
      return (bq_saved_block){.data = table_of(cache, layer)[range.first + index],
                              .in = (size_t)(at % bytes),
                              .bytes = bytes,
                              .layer = layer,
                              .rest = index + 1 == count ? -computed % BQ_KV_BLOCK : 0};
    }
    at -= count * bytes;
  }
  bq_assert(!"an offset below bq_cache_saved_bytes");
  return (bq_saved_block){0};
}
