/* core/src/state/front_cache.h: a stream's cache of freed blocks, last in first out; see pool.c for the idea.
 *
 * The block freed last waits in a register, `last`, for a request of as many granules of 512 bytes. All other blocks
 * wait by capacity:
 *
 *     small      up to 1/8192 of the reserved bytes (64 KiB at least). Requests are rounded up to bins: exact up to
 *                63 granules, 32 bins for each doubling above. A block lies in the slot of the largest bin that it
 *                can serve. A request takes a block of its own bin or of the next higher bin that holds one, up to
 *                1/16 larger. A slot keeps up to 1/2048 of the reserved bytes.
 *     large      above that, in a short list: a request takes a block of exactly its size. If the list has none, all
 *                large blocks go back to the strategy and coalesce before the request looks for memory. With
 *                virtual memory no request takes them from the list: the key of each is 0, and all go to the strategy
 *                before the next miss of any size.
 *
 * All functions are inline, because a hit consists of nothing else. The caller holds the stream's lock.
 */
#ifndef WEIR_CORE_FRONT_CACHE_H
#define WEIR_CORE_FRONT_CACHE_H

#include "state/blocks.h"
#include "state/clock.h"

/* Returns the size in granules, rounded up, minus one. For size 0, returns a number that equals no block's key. */
static inline uint64_t front_granules(const weir_pool *pool, uint64_t size)
{
    return (size - 1) >> pool->granule_shift;
}

static inline uint64_t front_small(const weir_pool *pool)
{
    return atomic_load_explicit(&pool->front.small, memory_order_relaxed);
}

static inline unsigned front_shift(uint64_t granules)
{
    return (63u ^ (unsigned)__builtin_clzll(granules | 32u)) - 5u;
}

/* Returns the largest size class (bin) of at most `granules` granules. */
static inline unsigned front_bin(uint64_t granules)
{
    const unsigned shift = front_shift(granules);
    return 32u * shift + (unsigned)(granules >> shift);
}

/* Returns the size in granules of the largest size class of at most `granules` granules. */
static inline uint64_t front_floor(uint64_t granules)
{
    return granules >> front_shift(granules) << front_shift(granules);
}

/* Returns the size class of a small request, in granules. The front cache looks for this number. */
static inline uint64_t front_small_key(const weir_pool *pool, uint64_t size)
{
    const uint64_t granules = front_granules(pool, size) + 1;
    const uint64_t mask = (UINT64_C(1) << front_shift(granules)) - 1;
    return (granules + mask) & ~mask;
}

/* Returns the key of a request in the front cache: its size in granules, rounded up to a size class if it is small. */
static inline uint64_t front_key(const weir_pool *pool, uint64_t size)
{
    const uint64_t granules = front_granules(pool, size) + 1;
    return granules > front_small(pool) ? granules : front_small_key(pool, size);
}

static inline uint64_t front_capacity(const weir_pool *pool, const weir_block *block)
{
    return block_capacity(block) >> pool->granule_shift;
}

/* --- small --- */

/* Returns the slot of a size class; the group of the slot has memory. */
static inline struct front_slot *front_slot_of(const struct front_cache *front, uint64_t bin)
{
    WEIR_ASSERT(bin < FRONT_BINS && front->groups[bin / FRONT_GROUP] != NULL);
    return &front->groups[bin / FRONT_GROUP][bin % FRONT_GROUP];
}

/* Gives a group of empty slots memory. Returns false when out of host memory. */
bool weir__front_begin_group(struct front_cache *front, size_t group);
void weir__front_fini(struct front_cache *front);

static inline weir_block *front_pop_at(struct front_cache *front, uint64_t bin)
{
    struct front_slot *slot = front_slot_of(front, bin);
    WEIR_ASSERT(slot->count > 0);
    const uint64_t left = slot->count - UINT64_C(1);
    weir_block *block = slot->blocks[left];
    slot->count = (uint16_t)left;
    WEIR_ASSERT(state_of(block) == BLOCK_CACHED);
    WEIR_ASSERT(front->bytes >= block_capacity(block));
    front->held[bin / 64] ^= (uint64_t)(left == 0) << bin % 64;
    front->bytes -= block_capacity(block);
    return block;
}

/* A request takes a block of its own size class (bin) or of at most this many bins above. */
#define FRONT_REACH 3u

/* Values that are not the number of a bin. Each differs from every bin by more than FRONT_REACH. */
#define FRONT_NO_BIN ((uint64_t)1 << 62) /* no bin has a block that fits, or the block is large */
#define FRONT_FULL ((uint64_t)2 << 62)

/* Returns the lowest size class (bin) with a cached block for a request of size class `own`, or FRONT_NO_BIN. Looks
 * only at bins in the same word of `held`. A block may be 1/16 larger than the request. So two bins above `own` are in
 * reach in the lower half of a doubling, three in the upper half, and fewer where a bin is one granule. Looks at all of
 * them without a branch, because the size of the next request is not predictable. */
static inline uint64_t front_near(const struct front_cache *front, uint64_t own)
{
    /* A mask for each half of a doubling (16 bins): bit n is set if a request may take a block n bins above its own. */
    static const uint8_t reach[FRONT_BINS / 16 + 1] = {1, 3,  7, 15, 7, 15, 7, 15, 7, 15, 7, 15, 7, 15,
                                                       7, 15, 7, 15, 7, 15, 7, 15, 7, 15, 7, 15, 7};
    WEIR_ASSERT(own < FRONT_BINS);
    const uint64_t held = front->held[own / 64] >> own % 64 & reach[own / 16];
    return held != 0 ? own + (uint64_t)__builtin_ctzll(held) : FRONT_NO_BIN;
}

static inline weir_block *front_pop_small(struct front_cache *front, uint64_t own)
{
    const uint64_t bin = front_near(front, own);
    return bin != FRONT_NO_BIN ? front_pop_at(front, bin) : NULL;
}

/* Recomputes how many blocks of `capacity` granules the slot of size class `bin` may hold, if the pool's bound has
 * changed. A slot without memory gets it, or holds none. */
static inline void front_learn(const weir_pool *pool, struct front_cache *front, unsigned bin, uint64_t capacity)
{
    WEIR_ASSERT(capacity != 0);
    if (UNLIKELY(front->groups[bin / FRONT_GROUP] == NULL) && !weir__front_begin_group(front, bin / FRONT_GROUP)) {
        return;
    }
    struct front_slot *slot = front_slot_of(front, bin);
    const uint32_t epoch = atomic_load_explicit(&pool->front.epoch, memory_order_relaxed);
    if (LIKELY(slot->epoch == epoch)) {
        return;
    }
    const uint64_t room = atomic_load_explicit(&pool->front.slot, memory_order_relaxed) / capacity;
    slot->room = (uint16_t)(room < FRONT_DEPTH ? room : FRONT_DEPTH);
    slot->epoch = epoch;
}

/* Pushes a block of `capacity` bytes onto the slot (stack) of size class `bin`. Returns false if the slot is full, or
 * if it has no memory or its room has to be computed anew first. */
static inline bool front_push_small(const weir_pool *pool, struct front_cache *front, weir_block *block,
                                    uint64_t capacity, unsigned bin)
{
    if (UNLIKELY(front->groups[bin / FRONT_GROUP] == NULL)) {
        return false;
    }
    struct front_slot *slot = front_slot_of(front, bin);
    const uint64_t bytes = front->bytes + capacity;
    if (UNLIKELY(slot->epoch != atomic_load_explicit(&pool->front.epoch, memory_order_relaxed) ||
                 slot->count >= slot->room || bytes > atomic_load_explicit(&pool->front.limit, memory_order_relaxed))) {
        return false;
    }
    slot->blocks[slot->count++] = block;
    front->bytes = bytes;
    front->held[bin / 64] |= UINT64_C(1) << bin % 64;
    return true;
}

/* --- large --- */

/* Removes the block at index `i` from the list of large blocks and returns it. The blocks above it move down. */
static inline weir_block *front_take_large(struct front_cache *front, uint32_t i)
{
    WEIR_ASSERT(i < front->large_count && state_of(front->large[i]) == BLOCK_CACHED);
    uint32_t last = front->large_count - 1;
    __atomic_store_n(&front->large_count, last, __ATOMIC_RELAXED);
    weir_block *block = front->large[last];
    uint32_t key = front->large_keys[last];
    while (last > i) {
        last--;
        weir_block *const below = front->large[last];
        const uint32_t key_below = front->large_keys[last];
        front->large[last] = block;
        front->large_keys[last] = key;
        block = below;
        key = key_below;
    }
    return block;
}

/* Returns the index of the large block of `key` granules that was freed last; FRONT_LARGE if there is none. */
static inline uint32_t front_find_large(const struct front_cache *front, uint64_t key)
{
    for (uint32_t i = front->large_count; i-- > 0;) {
        if (front->large_keys[i] == key) {
            return i;
        }
    }
    return FRONT_LARGE;
}

static inline weir_block *front_pop_large(struct front_cache *front, uint64_t key)
{
    const uint32_t i = front_find_large(front, key);
    return i != FRONT_LARGE ? front_take_large(front, i) : NULL;
}

/* Returns the large block number i in the order in which all of them go to the strategy: the last one first, or, with
 * virtual memory, as they were freed. */
static inline weir_block *front_large_in_turn(const weir_pool *pool, const struct front_cache *front, uint32_t i)
{
    WEIR_ASSERT(i < front->large_count);
    return front->large[pool->front.large_keys != 0 ? front->large_count - 1 - i : i];
}

static inline bool front_push_large(const weir_pool *pool, struct front_cache *front, weir_block *block,
                                    uint64_t capacity)
{
    WEIR_ASSERT(capacity >> pool->granule_shift <= UINT32_MAX);
    if (front->large_count == FRONT_LARGE) {
        return false;
    }
    const uint32_t at = front->large_count;
    front->large[at] = block;
    front->large_keys[at] = (uint32_t)(capacity >> pool->granule_shift) & pool->front.large_keys;
    __atomic_store_n(&front->large_count, at + 1, __ATOMIC_RELAXED);
    return true;
}

/* --- all --- */

/* Returns the size of the largest request for a front cache now: 0 while the pool has an observer. Pool lock held. */
static inline uint64_t weir__stream_front_block_bytes(const weir_stream *stream)
{
    const weir_pool *pool = stream->owner;
    WEIR_ASSERT(pool_is_locked(pool));
    return is_stand_in(stream) ? 0 : is_watched(pool) ? 0 : pool->front.largest;
}

static inline void front_set_last(struct front_cache *front, uint64_t key)
{
    __atomic_store_n(&front->last_key, key, __ATOMIC_RELAXED);
}

/* Returns the block in `last`, or NULL if there is none. The counters still count this block as live. */
static inline const weir_block *front_freed(const struct front_cache *front)
{
    return front->last_key != FRONT_EMPTY ? front->last : NULL;
}

/* Returns the bytes of all cached blocks except the block in `last`. */
static inline uint64_t front_all_bytes(const struct front_cache *front)
{
    uint64_t bytes = front->bytes;
    for (uint32_t i = 0; i < front->large_count; i++) {
        bytes += block_capacity(front->large[i]);
    }
    return bytes;
}

/* True if the cache holds large blocks: their frees are not stamped with a tick yet. Needs no lock. */
static inline bool front_defers(const weir_pool *pool, const struct front_cache *front)
{
    const uint64_t key = __atomic_load_n(&front->last_key, __ATOMIC_RELAXED);
    return (key != FRONT_EMPTY && key >= front_small(pool)) ||
           __atomic_load_n(&front->large_count, __ATOMIC_RELAXED) != 0;
}

/* Adds the stream to lane_group.waiting before its cache gets a large block. */
static inline void front_wait(weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    if (UNLIKELY(!stream->front.waits)) {
        mark_waiting(stream);
        stream->front.waits = true;
    }
}

/* Takes a cached block for a request with front_granules() = `granules`. Returns NULL if none fits. */
static inline weir_block *front_pop(const weir_pool *pool, weir_stream *stream, uint64_t granules)
{
    WEIR_ASSERT(stream_is_locked(stream));
    return granules >= front_small(pool) ? front_pop_large(&stream->front, granules + 1)
                                         : front_pop_small(&stream->front, front_bin(granules) + 1);
}

/* Caches a freed block that no other stream uses. Its request is at most front_block_bytes. The caller sets its state.
 * Calls no function out of line. Returns the block's size class, FRONT_NO_BIN for a large block, or FRONT_FULL if the
 * block is not cached: there is no room, or only front_push can find out if there is. */
static inline uint64_t front_push_quick(weir_pool *pool, weir_stream *stream, weir_block *block, uint64_t capacity)
{
    WEIR_ASSERT(stream_is_locked(stream) && stream->owner == pool);
    WEIR_ASSERT((state_word(block) & BLOCK_USED) == 0 && capacity == block_capacity(block));
    const uint64_t granules = capacity >> pool->granule_shift;
    struct front_cache *front = &stream->front;
    if (LIKELY(granules <= front_small(pool))) {
        const unsigned bin = front_bin(granules);
        return front_push_small(pool, front, block, capacity, bin) ? bin : FRONT_FULL;
    }
    front_wait(stream);
    return front_push_large(pool, front, block, capacity) ? FRONT_NO_BIN : FRONT_FULL;
}

/* Caches a freed block as front_push_quick does. Returns false only if there is no room, or no host memory for it. */
static inline bool front_push(weir_pool *pool, weir_stream *stream, weir_block *block)
{
    const uint64_t capacity = front_capacity(pool, block);
    if (capacity <= front_small(pool)) {
        front_learn(pool, &stream->front, front_bin(capacity), capacity);
    }
    if (front_push_quick(pool, stream, block, block_capacity(block)) == FRONT_FULL) {
        return false;
    }
    block_set_state(block, BLOCK_CACHED);
    return true;
}

#endif
