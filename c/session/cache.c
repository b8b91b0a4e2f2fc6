#include "session/cache.h"

#include <string.h>

#include "core/assert.h"
#include "core/minmax.h"

/* The slot of position `n` in a layer. */
static uint32_t slot_of(const bq_kv_cache *cache, uint32_t layer, uint32_t n) {
  if (bq_config_window(cache->config, layer)) return n;
  return n > cache->evicted ? n - cache->evicted : 0;
}

/* The slot of the first position that positions from `n` on attend to in a layer, sinks excepted.
 */
static uint32_t first_seen(const bq_kv_cache *cache, uint32_t layer, uint32_t n) {
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

/* Maximum number of blocks of one layer that a session holds. With a window: the open chunk, what
 * it attends to, and one position more, since the last token may be recomputed. */
static uint64_t layer_blocks(const bq_config *c, const bq_session_options *o, uint32_t layer) {
  if (!bq_config_attends(c, layer)) return 0;
  const uint64_t all = blocks_of(o->context), own = bq_config_window(c, layer);
  if (o->evict && !own) return bq_min64(all, blocks_of(o->kv_window) + 1);
  const uint64_t window = own ? own : o->kv_window;
  return window ? bq_min64(all, blocks_touched(window + o->chunk)) : all;
}

static uint64_t pool_blocks(const bq_config *c, const bq_session_options *o) {
  uint64_t sum = 0;
  for (uint32_t layer = 0; layer < c->layers; layer++) {
    const uint64_t own = layer_blocks(c, o, layer), forked = blocks_touched(o->fork_positions);
    /* eviction moves positions, whatever a fork shares */
    const bool moves = o->evict && !bq_config_window(c, layer);
    sum += own + o->forks * (moves ? own : bq_min64(own, forked));
  }
  return sum;
}

/* Bytes of one head in a block, at most 2^31. */
static uint64_t head_bytes(const bq_config *c, const bq_session_options *o) {
  return bq_kv_bytes(o->kv_type, BQ_KV_BLOCK, c->head_dim);
}

uint64_t bq_cache_bytes(const bq_config *c, const bq_session_options *o) {
  uint64_t sum = 0;
  for (uint32_t layer = 0; layer < c->layers; layer++) {
    const uint64_t seen = layer_blocks(c, o, layer) * BQ_KV_BLOCK;
    sum += c->kv_heads * bq_kv_bytes(o->kv_type, bq_min64(seen, o->context), c->head_dim);
  }
  return sum;
}

/* Lays the pool out, in the same order for planning and for creation. */
static bq_kv_pool *pool_lay_out(bq_arena *arena, const bq_config *c, const bq_session_options *o) {
  bq_kv_pool pool = {0}, *home = bq_arena_take(arena, 1, sizeof *home);
  const uint64_t n = pool_blocks(c, o);
  const uint64_t head = head_bytes(c, o), block = c->kv_heads * head;
  if (n >= UINT32_MAX || head == UINT64_MAX || block > SIZE_MAX) arena->overflow = true;
  pool.n_blocks = (uint32_t)n;
  pool.block_bytes = (size_t)block;
  pool.free = bq_arena_take(arena, n, sizeof *pool.free);
  pool.users = bq_arena_take(arena, n, sizeof *pool.users);
  pool.data = bq_arena_take(arena, n + 1, pool.block_bytes);
  if (home) *home = pool;
  return home;
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
  pool->n_free = pool->n_blocks;
  for (uint32_t i = 0; i < pool->n_blocks; i++) { /* blocks are taken from the end of the list: the
                                                     first one first */
    pool->free[i] = pool->n_blocks - 1 - i;
    pool->users[i] = 0;
  }
  *out = pool;
  return BQ_OK;
}

static uint32_t number_of(const bq_kv_pool *pool, const uint8_t *block) {
  return (uint32_t)((size_t)(block - pool->data) / pool->block_bytes);
}

/* Returns NULL if the pool is used up. */
static uint8_t *take_block(bq_kv_pool *pool) {
  if (pool->n_free == 0) return NULL;
  const uint32_t number = pool->free[--pool->n_free];
  pool->users[number] = 1;
  return pool->data + number * pool->block_bytes;
}

static void give_block(bq_kv_pool *pool, uint8_t **entry) {
  if (!*entry) return;
  const uint32_t number = number_of(pool, *entry);
  if (--pool->users[number] == 0) pool->free[pool->n_free++] = number;
  *entry = NULL;
}

/* --- tables ----------------------------------------------------------------------------------- */

bq_kv_cache bq_cache_lay_out(bq_arena *arena, const bq_config *c, const bq_session_options *o) {
  bq_kv_cache cache = {.config = c,
                       .entries = (uint32_t)blocks_of(o->context),
                       .head_bytes = (size_t)head_bytes(c, o),
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

/* Makes a table's block writable: takes a block, or copies a shared one. `keep`: its contents are
 * needed. */
static bool own_block(bq_kv_cache *cache, uint8_t **entry, bool keep) {
  bq_kv_pool *pool = cache->pool;
  uint8_t *old = *entry;
  if (old && pool->users[number_of(pool, old)] == 1) return true;
  uint8_t *block = take_block(pool);
  if (!block) return false;
  if (old && keep) memcpy(block, old, pool->block_bytes);
  give_block(pool, entry);
  *entry = block;
  return true;
}

/* Blocks [first, end) of a layer's table. */
typedef struct block_range {
  uint32_t first, end;
} block_range;

/* The blocks that hold the positions before `n` that positions from `next` on attend to. Which
 * blocks are taken, freed, looked up and saved follows from this function alone. */
static block_range blocks_seen(const bq_kv_cache *cache, uint32_t layer, uint32_t next,
                               uint32_t n) {
  if (!bq_config_attends(cache->config, layer)) return (block_range){0, 0};
  const uint32_t end = (uint32_t)blocks_of(slot_of(cache, layer, n));
  return (block_range){bq_min32(first_seen(cache, layer, next) / BQ_KV_BLOCK, end), end};
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

static bq_status pool_used_up(const bq_kv_cache *cache, bq_error *err) {
  bq_assert(cache->pool->sessions > 1); /* the pool has all blocks that one session attends to and
                                           writes */
  return bq_fail(err, BQ_NOMEM, BQ_NO_OFFSET,
                 "all %u blocks of the KV cache that a session shares with its forks are in use: "
                 "raise `forks` or `forkPositions`, or close one",
                 cache->pool->n_blocks);
}

bq_status bq_cache_open(bq_kv_cache *cache, uint32_t from, uint32_t end, bq_error *err) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++) {
    uint8_t **table = table_of(cache, layer);
    const uint32_t first = slot_of(cache, layer, from) / BQ_KV_BLOCK;
    const block_range keep = blocks_seen(cache, layer, next_position(from, from), end);
    bq_assert(table_holds(table, blocks_seen(cache, layer, from, from)));
    for (uint32_t i = keep.first; i-- > 0 && table[i];) give_block(cache->pool, &table[i]);
    for (uint32_t i = keep.end; i < cache->entries && table[i]; i++)
      give_block(cache->pool, &table[i]);
    for (uint32_t i = first; i < keep.end; i++)
      if (!own_block(cache, &table[i], i == first && from % BQ_KV_BLOCK))
        return pool_used_up(cache, err);
  }
  return BQ_OK;
}

bq_status bq_cache_own_all(bq_kv_cache *cache, bq_error *err) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++) {
    uint8_t **table = table_of(cache, layer);
    if (bq_config_window(cache->config, layer)) continue;
    for (uint32_t i = 0; i < cache->entries && table[i]; i++)
      if (!own_block(cache, &table[i], true)) return pool_used_up(cache, err);
  }
  return BQ_OK;
}

bool bq_cache_holds(const bq_kv_cache *cache, uint32_t n) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++)
    if (!table_holds(table_of(cache, layer), blocks_seen(cache, layer, n, n))) return false;
  return true;
}

void bq_cache_truncate(bq_kv_cache *cache, uint32_t n) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++)
    for (uint32_t i = blocks_seen(cache, layer, n, n).end; i < cache->entries; i++)
      give_block(cache->pool, &table_of(cache, layer)[i]);
}

void bq_cache_share(bq_kv_cache *to, const bq_kv_cache *from) {
  const size_t n = (size_t)from->config->layers * from->entries;
  for (size_t i = 0; i < n; i++) {
    to->blocks[i] = from->blocks[i];
    if (to->blocks[i]) from->pool->users[number_of(from->pool, to->blocks[i])]++;
  }
}

/* --- for saved sessions ----------------------------------------------------------------------- */

/* The saved blocks of one layer. */
static block_range saved_blocks(const bq_kv_cache *cache, uint32_t layer, uint32_t computed,
                                uint32_t tokens) {
  return blocks_seen(cache, layer, next_position(computed, tokens), computed);
}

uint64_t bq_cache_count(const bq_kv_cache *cache, uint32_t computed, uint32_t tokens) {
  uint64_t sum = 0;
  for (uint32_t layer = 0; layer < cache->config->layers; layer++) {
    const block_range range = saved_blocks(cache, layer, computed, tokens);
    sum += range.end - range.first;
  }
  return sum;
}

bq_status bq_cache_fill(bq_kv_cache *cache, uint32_t computed, uint32_t tokens, bq_error *err) {
  for (uint32_t layer = 0; layer < cache->config->layers; layer++) {
    const block_range range = saved_blocks(cache, layer, computed, tokens);
    for (uint32_t i = range.first; i < range.end; i++) {
      uint8_t **entry = &table_of(cache, layer)[i];
      bq_assert(!*entry);
      if (!own_block(cache, entry, false)) return pool_used_up(cache, err);
    }
  }
  return BQ_OK;
}

uint8_t *bq_cache_block(const bq_kv_cache *cache, uint32_t computed, uint32_t tokens,
                        uint64_t index, uint32_t *layer, uint32_t *rest) {
  for (*layer = 0; *layer < cache->config->layers; ++*layer) {
    const block_range range = saved_blocks(cache, *layer, computed, tokens);
    const uint64_t count = range.end - range.first;
    *rest = index + 1 == count ? -computed % BQ_KV_BLOCK : 0;
    if (index < count) {
      bq_assert(table_holds(table_of(cache, *layer), range));
      return table_of(cache, *layer)[range.first + index];
    }
    index -= count;
  }
  bq_assert(!"an index below bq_cache_count");
  return NULL;
}
