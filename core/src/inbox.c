/* core/src/inbox.c: what threads free on a stream that another thread feeds.
 *
 * Idea: one thread allocates on a stream, another frees there what the first has passed on. The second one does not need
 * the stream's lock: it leaves the block in the stream's inbox, a stack that anyone may push to without a lock, and the
 * thread that feeds the stream takes the whole stack when its front cache has nothing for it. So the lock stays where it
 * is cheap, and a block goes round without touching the strategy.
 *
 * Guarantee: a block is stamped when it is taken out, under the stream's lock, with a tick at or above the one it had when
 * it was freed: an event that covers it was recorded after the free. Counters, the recorder and the front cache hear of
 * the free in that moment; until then the block counts as live. No memory is kept from anybody: whoever flushes, polls,
 * reads statistics or is about to grow empties the inboxes first, and a thread that finds more in one than a front
 * cache may hold empties it itself.
 *
 * Cost: two compare-and-exchanges for the one that frees, an exchange per stack for the one that takes.
 */
#include "front_cache.h"
#include "pool_internal.h"

static uint64_t pile_under(const weir_block *block)
{
    return block != NULL ? atomic_load_explicit(&block->pile, memory_order_relaxed) : 0;
}

/* Stream lock held. */
static bool is_returned(const weir_stream *stream)
{
    return stream->returned != NULL || !inbox_is_empty(stream);
}

bool weir__inbox_put(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    uint32_t state = BLOCK_LIVE;
    if (block->size > front_block_bytes(stream) || stream_lock_owned(&stream->lock) ||
        !atomic_compare_exchange_strong_explicit(&block->state, &state, BLOCK_RETURNED, memory_order_relaxed,
                                                 memory_order_relaxed)) {
        return false;
    }
    weir_block *top = atomic_load_explicit(&stream->inbox, memory_order_relaxed);
    uint64_t pile;
    do {
        block->next = top;
        pile = pile_under(top) + block->capacity;
        atomic_store_explicit(&block->pile, pile, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&stream->inbox, &top, block, memory_order_release,
                                                    memory_order_relaxed));
    if (UNLIKELY(pile > pool->config.front_cache_bytes)) {
        stream_visit(stream);
        (void)weir__inbox_clear(pool, stream);
        stream_unlock(stream);
    }
    return true;
}

/* Stream lock held, and something is there: one block, whose free is thereby made known. */
static weir_block *take_one(weir_pool *pool, weir_stream *stream)
{
    if (stream->returned == NULL) {
        stream->returned = atomic_exchange_explicit(&stream->inbox, NULL, memory_order_acquire);
    }
    weir_block *block = stream->returned;
    stream->returned = block->next;
    count_free(stream, block);
    weir_recorder *recorder = atomic_load_explicit(&pool->recorder, memory_order_acquire);
    if (recorder != NULL) {
        weir__record_free(recorder, block->id, stream->lane);
    }
    return block;
}

static void give_back(weir_pool *pool, weir_stream *stream, weir_block *block)
{
    if (stream->pool == NULL) {
        weir__order_free_idle(block); /* retired: all work that was queued on it is complete */
    } else if (!front_keep(pool, stream, block)) {
        weir__order_free(block, stream);
    }
}

weir_block *weir__inbox_take(weir_pool *pool, weir_stream *stream, uint64_t granules)
{
    while (is_returned(stream)) {
        weir_block *block = take_one(pool, stream);
        if (granules_of(pool, block->size) == granules) {
            return block;
        }
        give_back(pool, stream, block);
    }
    return NULL;
}

bool weir__inbox_clear(weir_pool *pool, weir_stream *stream)
{
    const bool any = is_returned(stream);
    while (is_returned(stream)) {
        give_back(pool, stream, take_one(pool, stream));
    }
    return any;
}
