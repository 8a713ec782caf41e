/* core/src/pool/inbox.c: what threads free on a stream that another thread feeds.
 *
 * Idea: one thread allocates on a stream, another frees there what the first has passed on. The second one does not need
 * the stream's lock: it leaves the block in the stream's inbox, a stack that anyone may push to without a lock, and the
 * thread that feeds the stream takes the whole stack when its front cache has nothing for it. So the lock stays where it
 * is cheap, and a block goes round without touching the strategy.
 *
 * Guarantee: a block is stamped when it is taken out, under the stream's lock, with a tick at or above the one it had when
 * it was freed: an event that covers it was recorded after the free. Counters, whoever watches and the front cache hear of
 * the free in that moment; until then the block counts as live. Nothing is lost by it: whoever records an event on the
 * stream or hears of one takes in first what lies there. No memory is kept from anybody: whoever flushes, polls, reads
 * statistics or is about to grow empties the inboxes first, and a thread that finds more in one than a front cache is
 * configured to hold empties it itself.
 *
 * Cost: two compare-and-exchanges for the one that frees, an exchange per stack for the one that takes. One call takes no
 * more than what the last one left over and one stack: others may free faster than anyone can sort.
 */
#include "front_cache.h"
#include "order/order.h"
#include "pool_internal.h"

static const uint64_t most_bytes = UINT64_C(32) << 20;

bool weir__inbox_put(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    uint32_t word = state_word(block); /* with the tag, which is dropped when the block is taken out */
    const uint32_t returned = BLOCK_WORD(BLOCK_RETURNED) | (word & BLOCK_TAG_MASK);
    const uint64_t capacity = block_capacity(block);
    if (block_requested(block) > front_block_bytes(stream) || stream_lock_owned(&stream->lock) ||
        state_in(word) != BLOCK_LIVE || (word & BLOCK_USED) != 0 ||
        !__atomic_compare_exchange_n(&block->record.state, &word, returned, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        return false;
    }
    weir_block *top = atomic_load_explicit(&stream->inbox, memory_order_relaxed);
    do {
        block_set_next(block, top);
    } while (!atomic_compare_exchange_weak_explicit(&stream->inbox, &top, block, memory_order_seq_cst,
                                                    memory_order_relaxed));
    mark_waiting(stream);
    /* A bound: a thread that takes the stack out at this moment may miss the last block's bytes. */
    const uint64_t pile = atomic_fetch_add_explicit(&stream->inbox_bytes, capacity, memory_order_relaxed) + capacity;
    if (UNLIKELY(pile > most_bytes)) {
        stream_visit(stream);
        (void)weir__inbox_clear(pool, stream);
        stream_unlock(stream);
    }
    return true;
}

/* Stream lock held: what was left over, or else what has come in, which a caller may ask for once. */
static weir_block *top_of(weir_stream *stream, bool *fetched)
{
    weir_block *block = atomic_load_explicit(&stream->returned, memory_order_relaxed);
    if (block == NULL && !*fetched && atomic_load_explicit(&stream->inbox, memory_order_relaxed) != NULL) {
        block = atomic_exchange_explicit(&stream->inbox, NULL, memory_order_acquire);
        atomic_store_explicit(&stream->inbox_bytes, 0, memory_order_relaxed);
        *fetched = true;
    }
    return block;
}

/* Stream lock held: one block, whose free is thereby made known; NULL when there is none. */
static weir_block *take_one(weir_pool *pool, weir_stream *stream, bool *fetched)
{
    weir_block *block = top_of(stream, fetched);
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
    if (stream->pool == NULL) {
        weir__order_free_idle(block); /* retired: all work that was queued on it is complete */
    } else if (block_requested(block) > front_block_bytes(stream) || !front_push(pool, stream, block)) {
        weir__order_free(block, stream);
    }
}

weir_block *weir__inbox_take(weir_pool *pool, weir_stream *stream, uint64_t key)
{
    bool fetched = false;
    weir_block *block;
    while ((block = take_one(pool, stream, &fetched)) != NULL && front_capacity(pool, block) - key > key / 16) {
        give_back(pool, stream, block); /* too small, or larger by more than 1/16 */
    }
    if (atomic_load_explicit(&stream->returned, memory_order_relaxed) != NULL) {
        mark_waiting(stream);
    }
    return block;
}

bool weir__inbox_clear(weir_pool *pool, weir_stream *stream)
{
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
    weir_block *block = stream->front.last;
    front_set_last(&stream->front, FRONT_EMPTY);
    count_free(stream, block);
    give_back(pool, stream, block);
}
