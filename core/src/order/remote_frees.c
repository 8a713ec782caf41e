/* core/src/order/remote_frees.c: remote frees: blocks that threads free on a stream that another thread feeds.
 *
 * Idea: one thread allocates on a stream, and another thread frees there the blocks that it was given. The second
 * thread does not need the stream's lock: it pushes the block onto the stream's remote free list, a lock-free stack.
 * The thread that feeds the stream takes the whole stack when its front cache misses. So the lock stays cheap for its
 * owner, and a block is recycled without touching the strategy.
 *
 * Guarantee: a block is stamped when it is taken out of the remote free list, under the stream's lock, with a tick at
 * or above the tick of its free: an event that covers the stamp was recorded after the free. The free reaches the
 * counters, the observers and the front cache at that moment; until then the block counts as live. No free is missed: a
 * thread that records an event on the stream, or is told of one, first empties the remote free list. No memory stays
 * hidden: a flush, a poll, statistics and growth empty the remote free lists first, and a thread that pushes past the
 * bound empties the remote free list itself.
 *
 * Cost: two compare-and-exchanges for the thread that frees, one exchange per stack for the thread that takes. One call
 * takes no more than the blocks left over from the last call and one stack, because other threads may free faster than
 * one thread can sort.
 */
#include "base/tuning.h"
#include "order/order.h"

bool weir__remote_frees_put(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    WEIR_ASSERT(stream->owner == pool && block_stream(block) != NULL);
    uint32_t word = state_word(block); /* the state includes the tag, which is dropped when the block is taken out */
    const uint32_t returned = BLOCK_WORD(BLOCK_RETURNED) | (word & BLOCK_TAG_MASK);
    const uint64_t capacity = block_capacity(block);
    if (block_requested(block) > front_block_bytes(stream) || stream_lock_owned(&stream->lock) ||
        state_in(word) != BLOCK_LIVE || (word & BLOCK_USED) != 0 ||
        !__atomic_compare_exchange_n(&block->record.state, &word, returned, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
        return false;
    }
    weir_block *top = atomic_load_explicit(&stream->remote_frees, memory_order_relaxed);
    do {
        block_set_next(block, top);
    } while (!atomic_compare_exchange_weak_explicit(&stream->remote_frees, &top, block, memory_order_seq_cst,
                                                    memory_order_relaxed));
    mark_waiting(stream);
    /* The bound on the list's bytes is not exact: if another thread takes out the list at this moment, the last block's
     * bytes may be missed. */
    const uint64_t queued_bytes =
        atomic_fetch_add_explicit(&stream->remote_frees_bytes, capacity, memory_order_relaxed) + capacity;
    if (UNLIKELY(queued_bytes > remote_frees_most_bytes)) {
        stream_visit(stream);
        (void)weir__remote_frees_clear(pool, stream);
        stream_unlock(stream);
    }
    return true;
}

/* Returns the first block in stream->returned. If there is none, takes out the whole remote free list, once per caller
 * (*fetched), and returns its first block. Returns NULL if both are empty. Stream lock held. */
static weir_block *top_of(weir_stream *stream, bool *fetched)
{
    WEIR_ASSERT(stream_is_locked(stream));
    weir_block *block = atomic_load_explicit(&stream->returned, memory_order_relaxed);
    if (block == NULL && !*fetched && atomic_load_explicit(&stream->remote_frees, memory_order_relaxed) != NULL) {
        block = atomic_exchange_explicit(&stream->remote_frees, NULL, memory_order_acquire);
        atomic_store_explicit(&stream->remote_frees_bytes, 0, memory_order_relaxed);
        *fetched = true;
    }
    return block;
}

/* Pops one block and accounts its free (counters, tag, observers). Returns NULL if there is none. Stream lock held. */
static weir_block *take_one(weir_pool *pool, weir_stream *stream, bool *fetched)
{
    WEIR_ASSERT(stream_is_locked(stream));
    weir_block *block = top_of(stream, fetched);
    WEIR_ASSERT(block == NULL || state_of(block) == BLOCK_RETURNED);
    if (block == NULL) {
        return NULL;
    }
    atomic_store_explicit(&stream->returned, block_next(block), memory_order_relaxed);
    block_set_next(block, NULL);
    count_free(stream, block);
    drop_tag(stream, block);
    if (UNLIKELY(is_watched(pool))) {
        weir__watch_free(block, stream);
    }
    return block;
}

static void give_back(weir_pool *pool, weir_stream *stream, weir_block *block)
{
    WEIR_ASSERT(stream_is_locked(stream) && stream->owner == pool);
    if (stream->pool == NULL) {
        weir__order_free_idle(block); /* the stream is retired, so all work that was queued on it is complete */
    } else if (block_requested(block) > front_block_bytes(stream) || !front_push(pool, stream, block)) {
        weir__order_free(block, stream);
    }
}

weir_block *weir__remote_frees_take(weir_pool *pool, weir_stream *stream, uint64_t key)
{
    WEIR_ASSERT(stream_is_locked(stream));
    bool fetched = false;
    weir_block *block;
    while ((block = take_one(pool, stream, &fetched)) != NULL && front_capacity(pool, block) - key > key / 16) {
        give_back(pool, stream, block); /* the block is too small, or more than 1/16 larger than the request */
    }
    if (atomic_load_explicit(&stream->returned, memory_order_relaxed) != NULL) {
        mark_waiting(stream);
    }
    return block;
}

bool weir__remote_frees_clear(weir_pool *pool, weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    bool any = false;
    bool fetched = false;
    weir_block *block;
    while ((block = take_one(pool, stream, &fetched)) != NULL) {
        give_back(pool, stream, block);
        any = true;
    }
    return any;
}

void weir__front_unload(weir_pool *pool, weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(stream->front.last_key != FRONT_EMPTY);
    weir_block *block = stream->front.last;
    front_set_last(&stream->front, FRONT_EMPTY);
    WEIR_ASSERT(block != NULL);
    count_free(stream, block);
    give_back(pool, stream, block);
}
