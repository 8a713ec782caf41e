/* core/src/pool/front_cache.h: a stream's cache of freed blocks, last in first out; see pool.c for the idea.
 *
 * The block freed last waits in a register, `last`, and all others in slots, one for each bin of sizes: exact up to 63
 * granules of 512 bytes, 32 bins for each doubling above.
 *
 *     small      up to 1/1024 of what is reserved (64 KiB at least): a request is rounded up to the size of its bin, so that all
 *                requests of a bin may have each other's blocks; a slot keeps up to 1/2048 of what is reserved
 *     large      above: exact sizes, kept until a large request finds no block of its size; then all of them go back and join
 *
 * Inline, because a hit is made of nothing else. All of it happens under the stream's lock.
 */
#ifndef WEIR_CORE_FRONT_CACHE_H
#define WEIR_CORE_FRONT_CACHE_H

#include "pool/pool_internal.h"

/* A request in granules, less one; size 0 gives a number that no block has. */
static inline uint64_t front_granules(const weir_pool *pool, uint64_t size)
{
    return (size - 1) >> pool->granule_shift;
}

static inline uint64_t front_small(const weir_pool *pool)
{
    return atomic_load_explicit(&pool->front_small, memory_order_relaxed);
}

static inline unsigned front_shift(uint64_t granules)
{
    return 58u - (unsigned)__builtin_clzll(granules | 32u);
}

static inline unsigned front_bin(uint64_t key)
{
    const unsigned shift = front_shift(key);
    return 32u * shift + (unsigned)(key >> shift);
}

/* What slots are asked for: the request in granules, rounded up to its bin when it is small. */
static inline uint64_t front_key(const weir_pool *pool, uint64_t size)
{
    const uint64_t granules = front_granules(pool, size) + 1;
    if (granules < 64 || granules > front_small(pool)) {
        return granules;
    }
    const uint64_t mask = (UINT64_C(1) << front_shift(granules)) - 1;
    return (granules + mask) & ~mask;
}

/* The key of a block: the same, unless the block was made while requests of its size were not rounded. */
static inline uint64_t front_key_of(const weir_pool *pool, const weir_block *block)
{
    const uint64_t key = front_key(pool, block_requested(block));
    return key << pool->granule_shift <= block_capacity(block) ? key : front_granules(pool, block_requested(block)) + 1;
}

static inline weir_block *front_pop_at(weir_stream *stream, struct front_slot *slot)
{
    weir_block *block = slot->blocks[--slot->count];
    stream->front.bytes -= block_capacity(block);
    return block;
}

/* Takes the large block number `i`. */
static inline weir_block *front_take_large(struct front_cache *front, uint32_t i)
{
    weir_block *block = front->large[i];
    const uint32_t last = --front->large_count;
    front->large_bytes -= block_capacity(block);
    for (; i < last; i++) {
        front->large[i] = front->large[i + 1];
        front->large_keys[i] = front->large_keys[i + 1];
    }
    return block;
}

static inline weir_block *front_pop_large(struct front_cache *front, uint64_t key)
{
    for (uint32_t i = front->large_count; i-- > 0;) {
        if (front->large_keys[i] == key) {
            return front_take_large(front, i);
        }
    }
    return NULL;
}

/* Takes a cached block of that key, NULL when there is none. */
static inline weir_block *front_pop(const weir_pool *pool, weir_stream *stream, uint64_t key)
{
    if (key > front_small(pool)) {
        return front_pop_large(&stream->front, key);
    }
    struct front_slot *slot = &stream->front.slots[front_bin(key)];
    return slot->key == key && slot->count != 0 ? front_pop_at(stream, slot) : NULL;
}

/* Gives an empty slot to that key, or finds out anew what a full one may keep. False: it may not keep more. */
static bool front_claim(const weir_pool *pool, struct front_slot *slot, uint64_t key)
{
    if (slot->count != 0 && slot->key != key) {
        return false;
    }
    const uint64_t room = atomic_load_explicit(&pool->front_slot, memory_order_relaxed) / key;
    slot->key = (uint32_t)key;
    slot->room = (uint16_t)(room < FRONT_DEPTH ? room : FRONT_DEPTH);
    return slot->count < slot->room;
}

static inline bool front_push_large(struct front_cache *front, weir_block *block, uint64_t key)
{
    if (front->large_count == FRONT_LARGE) {
        return false;
    }
    front->large[front->large_count] = block;
    front->large_keys[front->large_count++] = (uint32_t)key;
    front->large_bytes += block_capacity(block);
    return true;
}

static inline bool front_push_small(const weir_pool *pool, struct front_cache *front, weir_block *block, uint64_t key)
{
    const unsigned bin = front_bin(key);
    struct front_slot *slot = &front->slots[bin];
    if (UNLIKELY(slot->key != key || slot->count >= slot->room) && !front_claim(pool, slot, key)) {
        return false;
    }
    if (UNLIKELY(front->bytes > atomic_load_explicit(&pool->front_limit, memory_order_relaxed))) {
        return false;
    }
    slot->blocks[slot->count++] = block;
    front->bytes += block_capacity(block);
    front->held[bin / 64] |= UINT64_C(1) << bin % 64;
    return true;
}

/* A freed block that no other stream uses and whose request is at most front_block_bytes. False: there is no room for it. */
static inline bool front_push(weir_pool *pool, weir_stream *stream, weir_block *block)
{
    struct front_cache *front = &stream->front;
    const uint64_t key = front_key_of(pool, block);
    if (!(key > front_small(pool) ? front_push_large(front, block, key) : front_push_small(pool, front, block, key))) {
        return false;
    }
    block_set_state(block, BLOCK_CACHED);
    return true;
}

/* The first slot from `bin` up to `last` that holds a block; FRONT_BINS when there is none. Forgets those that have become
 * empty. */
static inline unsigned front_next(struct front_cache *front, unsigned bin, unsigned last)
{
    while (bin <= last) {
        const unsigned word = bin / 64;
        const uint64_t held = front->held[word] & UINT64_MAX << bin % 64;
        if (held == 0) {
            bin = (word + 1) * 64;
            continue;
        }
        bin = word * 64 + (unsigned)__builtin_ctzll(held);
        if (front->slots[bin].count != 0) {
            return bin <= last ? bin : FRONT_BINS;
        }
        front->held[word] &= ~(held & -held);
        bin++;
    }
    return FRONT_BINS;
}

/* A block that is up to 1/8 larger than a small request; NULL when there is none. */
static inline weir_block *front_pop_near(const weir_pool *pool, weir_stream *stream, uint64_t key)
{
    if (key > front_small(pool)) {
        return NULL;
    }
    const unsigned bin = front_next(&stream->front, front_bin(key) + 1, front_bin(key + key / 8));
    return bin < FRONT_BINS && stream->front.slots[bin].key <= key + key / 8 ? front_pop_at(stream, &stream->front.slots[bin])
                                                                             : NULL;
}

#endif
