/* core/src/state/blocks.h: how blocks of a pool come, go and are found by address. block.h describes one block. */
#ifndef WEIR_CORE_STATE_BLOCKS_H
#define WEIR_CORE_STATE_BLOCKS_H

#include "state/locks.h"

/* Requires a block that is not free. */
static inline weir_pool *block_pool(const weir_block *block)
{
    WEIR_ASSERT(block_stream(block) != NULL);
    return block_stream(block)->owner;
}

/* weir__block_enter_locked adds a block to the index by address, if there is an index; it returns false when out of
 * host memory. weir__block_leave_locked removes the block from the index and frees its list of uses. Pool lock held.
 */
bool weir__block_enter_locked(weir_pool *pool, weir_block *block);
void weir__block_leave_locked(weir_pool *pool, weir_block *block);

/* Makes the range, which was just taken, a block for a request of `size` bytes on the stream. Returns NULL when out of
 * host memory. Pool lock held. */
static inline weir_block *block_new(weir_pool *pool, weir_stream *stream, uint64_t size, const weir_range *range)
{
    WEIR_ASSERT(pool_is_locked(pool) && stream->owner == pool);
    weir_block *block = (weir_block *)range->token;
    WEIR_ASSERT(block_address(block) == range->address && block_capacity(block) == range->size);
    if (UNLIKELY(WEIR_CHECKS >= 1 || atomic_load_explicit(&pool->blocks.index, memory_order_relaxed) != NULL) &&
        !weir__block_enter_locked(pool, block)) {
        return NULL;
    }
    pool->blocks.count++;
    block_set_requested(block, size);
    block_set_stream(block, stream);
    block_set_state(block, BLOCK_TAKEN);
    return block;
}

/* Turns a block back into a mere range, still taken in the strategy. Returns the range's token. Pool lock held. */
static inline void *block_delete(weir_pool *pool, weir_block *block)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(block != NULL && state_of(block) != BLOCK_UNUSED);
    if (UNLIKELY((state_word(block) & BLOCK_USED) != 0 ||
                 atomic_load_explicit(&pool->blocks.index, memory_order_relaxed) != NULL)) {
        weir__block_leave_locked(pool, block);
    }
    WEIR_ASSERT(pool->blocks.count > 0);
    pool->blocks.count--;
    block_set_state(block, BLOCK_UNUSED);
    return block;
}

/* Finds the block that starts at `address`; *found is NULL if there is none. Takes no lock once the index exists.
 * Returns WEIR_ERR_NO_MEMORY if there is no host memory for the index. */
weir_status weir__block_find(weir_pool *pool, uint64_t address, weir_block **found);
/* Calls `visit` for every block of the pool. Pool lock held. */
void weir__block_each_locked(const weir_pool *pool, void (*visit)(void *ctx, weir_block *block), void *ctx);
/* Calls `visit` for every block of a pool that is being destroyed: no other thread uses the pool. */
void weir__block_each_alone(const weir_pool *pool, void (*visit)(void *ctx, weir_block *block), void *ctx);
/* Checked builds only: true if the pointer is or was a block of the pool. Does not dereference the pointer. No lock
 * held. */
bool weir__block_is_ours(weir_pool *pool, const weir_block *block);
void weir__block_fini(weir_pool *pool);

#endif
