/* core/src/pool/front_cache.h: a stream's cache of freed blocks by exact size, last in first out; see pool.c for the idea.
 *
 * Inline, because a hit is made of nothing else. All of it happens under the stream's lock.
 */
#ifndef WEIR_CORE_FRONT_CACHE_H
#define WEIR_CORE_FRONT_CACHE_H

#include "pool_internal.h"

/* What the front cache compares: the size in granules, less one. */
static inline uint64_t front_key(const weir_pool *pool, uint64_t size)
{
    return (size - 1) >> pool->granule_shift;
}

static inline struct front_slot *front_slot(weir_stream *stream, uint64_t key)
{
    return &stream->front[key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - FRONT_SLOTS_SHIFT)];
}

/* Takes a cached block of that key, NULL when there is none. */
static inline weir_block *front_pop(weir_stream *stream, uint64_t key)
{
    struct front_slot *slot = front_slot(stream, key);
    if (UNLIKELY(slot->key != key || slot->count == 0)) {
        return NULL;
    }
    weir_block *block = slot->blocks[--slot->count];
    stream->cached_bytes -= block->capacity;
    return block;
}

/* False when no slot has the block's size, or there is no room. */
static inline bool front_push(weir_pool *pool, weir_stream *stream, weir_block *block)
{
    const uint64_t key = front_key(pool, block->size);
    struct front_slot *slot = front_slot(stream, key);
    const uint64_t bytes = stream->cached_bytes + block->capacity;
    if (UNLIKELY(slot->key != key || slot->count >= FRONT_DEPTH ||
                 bytes > atomic_load_explicit(&pool->front_limit, memory_order_relaxed))) {
        return false;
    }
    slot->blocks[slot->count++] = block;
    stream->cached_bytes = bytes;
    atomic_store_explicit(&block->state, BLOCK_CACHED, memory_order_relaxed);
    return true;
}

/* Gives an empty slot to the block's size, which is how sizes enter the cache. */
static bool front_claim(weir_pool *pool, weir_stream *stream, weir_block *block)
{
    const uint64_t key = front_key(pool, block->size);
    struct front_slot *slot = front_slot(stream, key);
    if (slot->count > 0) {
        return false;
    }
    slot->key = key;
    return front_push(pool, stream, block);
}

/* A freed block that no other stream uses: into the cache, or false. */
static inline bool front_keep(weir_pool *pool, weir_stream *stream, weir_block *block)
{
    return block->size <= pool->config.front_cache_block_bytes &&
           (front_push(pool, stream, block) || front_claim(pool, stream, block));
}

#endif
