/* The KV cache of a session: for each layer a table that says which block of a pool holds which
 * positions. A layer with a window holds only what its next tokens see; blocks that a fork shares
 * with the session it comes from are copied by whoever writes to them first.
 *
 * A block holds BQ_KV_BLOCK positions of one layer: [kv_heads] shares of a head (kernels/kv.h).
 * What block a position is in depends on the position alone, so that blocks can go, move and be
 * shared without a trace in the bits. They are taken and given back between slices, on the thread
 * that called the session. */
#ifndef BQ_CACHE_H
#define BQ_CACHE_H

#include "bq.h"
#include "session/options.h"

/* The blocks that a session and its forks share: memory of its own, freed with the last of these
 * sessions. */
typedef struct bq_kv_pool {
  bq_allocator allocator;
  uint32_t sessions;  /* that use it */
  uint32_t n_blocks, n_free;
  size_t block_bytes;
  uint8_t *data;      /* [n_blocks + 1][block_bytes]; the last one is lent to bq_session_save */
  uint32_t *free;     /* [n_free]: numbers of the blocks that nobody has */
  uint32_t *users;    /* [n_blocks]: tables that name the block */
} bq_kv_pool;

typedef struct bq_kv_cache {
  const bq_config *config;
  bq_kv_pool *pool;
  uint8_t **blocks;   /* [layers][entries]: block i of a layer's positions; NULL: not held. The
                         blocks that a layer holds follow each other, without a gap */
  uint32_t entries;
  size_t head_bytes;  /* of one head in a block */
  uint32_t window;    /* bq_session_options.kv_window, where the oldest leave */
  uint32_t gone;      /* positions that left, where others do (evict.c), a multiple of BQ_KV_BLOCK:
                         without a window of the layer's own position p is at place p - gone */
} bq_kv_cache;

/* `options` have their defaults here: bq_session_options_resolve. */
/* Bytes that the positions of a session take, without its forks and what is left over in blocks. */
uint64_t bq_cache_bytes(const bq_config *config, const bq_session_options *options);
/* Bytes of the pool of a session with all its forks; UINT64_MAX: more than can be addressed. */
uint64_t bq_kv_pool_bytes(const bq_config *config, const bq_session_options *options);
bq_status bq_kv_pool_create(const bq_config *config, const bq_session_options *options,
                            bq_allocator allocator, bq_kv_pool **out, bq_error *err);

/* Takes the tables from a session's arena. They are empty, and of no pool, until bq_cache_join. */
bq_kv_cache bq_cache_lay_out(bq_arena *arena, const bq_config *config,
                             const bq_session_options *options);
void bq_cache_join(bq_kv_cache *cache, bq_kv_pool *pool);
/* Gives everything back, and the pool too if no other session uses it. */
void bq_cache_leave(bq_kv_cache *cache);

/* The positions from...end - 1 may be written to; given back is what no position from `from` - 1 on
 * sees, and what is after `end`. Everything that positions from `from` on see of those before it
 * has to be held. NOMEM: the pool is used up, by forks; nothing that is held is lost. */
bq_status bq_cache_open(bq_kv_cache *cache, uint32_t from, uint32_t end, bq_error *err);
/* All blocks of layers without a window of their own can be written to. NOMEM. */
bq_status bq_cache_own_all(bq_kv_cache *cache, bq_error *err);
/* Whether everything is there that positions from `n` on see of those before `n`. */
bool bq_cache_holds(const bq_kv_cache *cache, uint32_t n);
/* Gives back what holds no position before `n`. */
void bq_cache_truncate(bq_kv_cache *cache, uint32_t n);
/* `to`, which is empty, shares what `from` holds. */
void bq_cache_share(bq_kv_cache *to, const bq_kv_cache *from);

/* --- for saved sessions: of a timeline of `tokens` whose first `computed` are computed the blocks
 * that it goes on with, layer by layer. Where all are computed, the last token may be computed
 * again, for its result; then its sight counts, else that of the first token to be computed. */

uint64_t bq_cache_count(const bq_kv_cache *cache, uint32_t computed, uint32_t tokens);
/* Takes all of them for an empty cache. NOMEM. */
bq_status bq_cache_fill(bq_kv_cache *cache, uint32_t computed, uint32_t tokens, bq_error *err);
/* Block `index` of them; *rest: its last positions, so many, are not computed. */
uint8_t *bq_cache_block(const bq_kv_cache *cache, uint32_t computed, uint32_t tokens,
                        uint64_t index, uint32_t *layer, uint32_t *rest);
/* Room for one block, until the next call. */
static inline uint8_t *bq_pool_spare(const bq_kv_pool *pool) {
  return pool->data + pool->n_blocks * pool->block_bytes;
}

/* One head's cache in one layer. */
static inline bq_kv_view bq_cache_view(const bq_kv_cache *cache, uint32_t layer, uint32_t head) {
  return (bq_kv_view){cache->blocks + (size_t)layer * cache->entries, head * cache->head_bytes,
                      cache->config->head_dim};
}

#endif
