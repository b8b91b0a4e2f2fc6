/* The KV cache of a session: for each layer a table of the pool blocks that hold its positions. A
 * layer with a sliding window holds only the blocks that its next tokens attend to. Blocks that a
 * fork shares with its origin are copied before they are written to (copy on write).
 *
 * A block holds BQ_KV_BLOCK positions of one layer: [kv_heads] parts of a head (kernels/kv.h). The
 * index of a position in its block depends on the position alone, so freeing, moving or sharing
 * blocks doesn't change results. Blocks are allocated and freed between work units, on the thread
 * that called the session. */
#ifndef BQ_CACHE_H
#define BQ_CACHE_H

#include "bq.h"
#include "session/options.h"

/* A size class: the part of the pool with the blocks of one size. */
typedef struct bq_kv_class {
  uint32_t n_blocks, n_free;
  size_t block_bytes;
  uint8_t *data;      /* [n_blocks][block_bytes] */
  uint32_t *free;     /* [n_free]: numbers of the free blocks */
  uint32_t *users;    /* [n_blocks]: number of tables that refer to the block */
} bq_kv_class;

/* Number of size classes. If the heads of global layers have another shape, the blocks of these
 * layers have another size, and belong to the second class. */
enum { BQ_KV_CLASSES = 2 };

/* The blocks that a session and its forks share. The pool is freed with the last of these sessions.
 */
typedef struct bq_kv_pool {
  bq_allocator allocator;
  uint32_t sessions;  /* number of sessions that use the pool */
  bq_kv_class classes[BQ_KV_CLASSES]; /* index: bq_kv_class_of */
  uint8_t *spare;     /* a block of the largest size, scratch for bq_session_save */
} bq_kv_pool;

typedef struct bq_kv_cache {
  const bq_config *config;
  bq_kv_pool *pool;
  uint8_t **blocks;   /* [layers][entries]: entry i is the block of a layer's positions from
                         i * BQ_KV_BLOCK on; NULL: not held. The held blocks of a layer are
                         consecutive */
  uint32_t entries;
  size_t head_bytes[BQ_KV_CLASSES]; /* bytes of one head in a block */
  uint32_t window;    /* sliding window of layers that have no window in the model; 0: none */
  uint32_t evicted;      /* Number of evicted positions (multiple of BQ_KV_BLOCK). In layers without
                         sliding window, position p is in slot p - evicted. */
} bq_kv_cache;

/* The size class of a layer's blocks. */
static inline uint32_t bq_kv_class_of(const bq_config *config, uint32_t layer) {
  return (config->global_head_dim || config->global_kv_heads) && !bq_config_window(config, layer);
}

/* In these functions, `options` must be resolved (options.h). */

/* Bytes of the positions of a session, without forks and without unused slots of blocks. */
uint64_t bq_cache_bytes(const bq_config *config, const bq_session_options *options);
/* Bytes of the pool of a session with all its forks; UINT64_MAX: more than the machine can address.
 */
uint64_t bq_kv_pool_bytes(const bq_config *config, const bq_session_options *options);
bq_status bq_kv_pool_create(const bq_config *config, const bq_session_options *options,
                            bq_allocator allocator, bq_kv_pool **out, bq_error *err);

/* Allocates the tables from a session's arena. The cache has no pool and no blocks until
 * bq_cache_join. */
bq_kv_cache bq_cache_lay_out(bq_arena *arena, const bq_config *config,
                             const bq_session_options *options);
void bq_cache_join(bq_kv_cache *cache, bq_kv_pool *pool);
/* Frees all blocks, and the pool if no other session uses it. */
void bq_cache_leave(bq_kv_cache *cache);

/* Makes the positions [from, end) writable. Frees the blocks that no position from `from` - 1 on
 * attends to, and those after `end`. The cache must hold all positions before `from` that positions
 * from `from` on attend to. NOMEM: forks have used up the pool; no held position is lost. */
bq_status bq_cache_open(bq_kv_cache *cache, uint32_t from, uint32_t end, bq_error *err);
/* Makes all blocks of layers that have no window in the model writable. NOMEM as above. */
bq_status bq_cache_own_all(bq_kv_cache *cache, bq_error *err);
/* Whether the cache holds all positions before `n` that positions from `n` on attend to. */
bool bq_cache_holds(const bq_kv_cache *cache, uint32_t n);
/* Frees the blocks that hold no position before `n`. */
void bq_cache_truncate(bq_kv_cache *cache, uint32_t n);
/* Adds all blocks of `from` to the empty cache `to`, which then shares them. */
void bq_cache_share(bq_kv_cache *to, const bq_kv_cache *from);

/* --- for saved sessions ---
 * A saved session has the blocks that it needs to continue, layer by layer: those that the next
 * token attends to. `computed` of its `tokens` tokens are computed. If all are, the next token is
 * the last one, which may be recomputed for its output. */

/* Bytes of all saved blocks. */
uint64_t bq_cache_saved_bytes(const bq_kv_cache *cache, uint32_t computed, uint32_t tokens);
/* Allocates the saved blocks in an empty cache. NOMEM as above. */
bq_status bq_cache_fill(bq_kv_cache *cache, uint32_t computed, uint32_t tokens, bq_error *err);
/* The saved block that contains byte `at` of the concatenation of all saved blocks. */
typedef struct bq_saved_block {
  uint8_t *data;
  size_t in, bytes;     /* index of the byte in the block; size of the block */
  uint32_t layer, rest; /* the last `rest` positions of the block are not computed */
} bq_saved_block;
bq_saved_block bq_cache_block(const bq_kv_cache *cache, uint32_t computed, uint32_t tokens,
                              uint64_t at);

/* The cache of one head in one layer, for kernels. */
static inline bq_kv_view bq_cache_view(const bq_kv_cache *cache, uint32_t layer, uint32_t head) {
  const uint32_t size_class = bq_kv_class_of(cache->config, layer);
  return (bq_kv_view){cache->blocks + (size_t)layer * cache->entries,
                      head * cache->head_bytes[size_class],
                      bq_config_head_dim(cache->config, size_class)};
}

#endif
