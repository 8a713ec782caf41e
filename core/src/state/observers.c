/* core/src/state/observers.c: calls a pool's observers.
 *
 * Idea: while a pool has observers, front_block_bytes is 0 on every stream, so every alloc and free takes the slow
 * path. There a single flag (pool->watch.any) leads here. Without an observer nothing in this file runs.
 *
 * Guarantee: the list of observers changes under every lock of the pool and `growing` (services/observe.c). So a call
 * that holds a stream's lock, or that grows the pool, finds each observer either attached or not, and reports each
 * event once. An alloc is reported without a lock, to the observers that were attached under the lock. A use, an event
 * and a trim are reported without any lock. `reporting` counts the threads that report without a lock, on one of two
 * sides. The end of an observation removes its observer from the list, switches new threads to the other side, waits
 * until the first side is empty, and does the same once more (await_reporting). A thread is counted before it reads the
 * list, so it either has not seen the observer or is waited for. Threads that begin to report meanwhile do not delay
 * the end.
 */
#include "state/observers.h"
#include "shared/cancel.h"

#include <stdlib.h>

/* Returns the observer to which `link` points. An observer that is removed from the list keeps its own `next`, for
 * threads that still iterate over it. The load is sequentially consistent, like the accesses to `reporting`. */
static const struct pool_observer *after(const _Atomic(struct pool_observer *) *link)
{
    return atomic_load(link);
}

#define EACH_OBSERVER(observer, first)                                                                                 \
    (const struct pool_observer *observer = (first); observer != NULL; observer = after(&observer->next))

/* Counts the calling thread among those that report to observers. Returns the counter, for end_reporting. */
static _Atomic uint32_t *begin_reporting(weir_pool *pool)
{
    _Atomic uint32_t *reporting = &pool->watch.reporting[atomic_load(&pool->watch.side) % 2];
    (void)atomic_fetch_add(reporting, 1);
    return reporting;
}

static void end_reporting(_Atomic uint32_t *reporting)
{
    WEIR_ASSERT(atomic_load(reporting) != 0);
    (void)atomic_fetch_sub_explicit(reporting, 1, memory_order_release);
}

/* --- one call --- */

void weir__observer_tell_memory(const struct pool_observer *observer, bool given, uint64_t address, uint64_t size)
{
    void (*slot)(void *, uint64_t, uint64_t) = given ? observer->ops.memory_given : observer->ops.memory_taken;
    if (slot != NULL) {
        const int cancel_state = cancel_disable();
        slot(observer->ctx, address, size);
        cancel_restore(cancel_state);
    }
}

static void tell_of_block(const struct pool_observer *observer,
                          void (*slot)(void *ctx, const weir_observed_block *block), const weir_observed_block *block)
{
    if (slot != NULL) {
        const int cancel_state = cancel_disable();
        slot(observer->ctx, block);
        cancel_restore(cancel_state);
    }
}

/* `stream` is NULL for a free without a stream (weir_pool_free_idle). */
static weir_observed_block observed(const weir_block *block, const weir_stream *stream)
{
    WEIR_ASSERT(state_of(block) != BLOCK_UNUSED);
    stream = program_stream(stream);
    return (weir_observed_block){
        .struct_size = sizeof(weir_observed_block),
        .address = block_address(block),
        .size = block_requested(block),
        .capacity = block_capacity(block),
        .native_stream = stream != NULL ? stream->native : NULL,
        .stream = stream != NULL ? stream->lane : 0,
        .tag = tag_of(block),
    };
}

/* True if observers know the block as live. A block in the remote free list is one of these: its free has not been
 * reported yet. */
static bool is_told(const weir_block *block)
{
    const weir_block_state state = state_of(block);
    return is_held(state) || state == BLOCK_RETURNED;
}

/* Describes the first part of a block in [*at, end) that observers know as a block: the block itself, or a unit of a
 * reserved block that is committed, or is not. Moves *at behind the part. Returns false if there is none. */
static bool next_part(const weir_block *block, uint64_t *at, uint64_t end, bool committed, weir_observed_block *known)
{
    const struct reservation *reserved = reservation_of(block);
    WEIR_ASSERT(*at <= end && end <= block_end(block));
    if (reserved == NULL) {
        const bool found = *at < end;
        *at = end;
        return found;
    }
    while (*at < end && (unit_state(reserved, unit_at(reserved, *at)) == UNIT_COMMITTED) != committed) {
        *at += reserved->unit;
    }
    known->address = *at;
    known->size = reserved->unit;
    known->capacity = reserved->unit;
    known->unit = true;
    *at += reserved->unit;
    return known->address < end;
}

void weir__observer_list_block(const struct pool_observer *observer, const weir_block *block)
{
    if (is_told(block)) {
        WEIR_ASSERT(pool_is_locked(block_pool(block)));
        weir_observed_block known = observed(block, block_stream(block));
        known.listed = true;
        for (uint64_t at = known.address; next_part(block, &at, block_end(block), true, &known);) {
            tell_of_block(observer, observer->ops.block_alloc, &known);
        }
    }
}

static void tell_capture(const struct pool_observer *observer, const weir_observed_capture *capture)
{
    if (observer->ops.capture != NULL) {
        const int cancel_state = cancel_disable();
        observer->ops.capture(observer->ctx, capture);
        cancel_restore(cancel_state);
    }
}

weir_observed_capture weir__observed_capture(const struct weir_capture_pool *captures, weir_observed_capture_kind kind)
{
    WEIR_ASSERT(captures->first != NULL || kind == WEIR_OBSERVED_CAPTURES_GONE);
    const weir_stream *stream = kind != WEIR_OBSERVED_CAPTURES_GONE ? program_stream(captures->first) : NULL;
    return (weir_observed_capture){
        .struct_size = sizeof(weir_observed_capture),
        .kind = kind,
        .stream = stream != NULL ? stream->lane : 0,
        .native_stream = stream != NULL ? stream->native : NULL,
        .captures = captures->number,
    };
}

void weir__observer_list_capture(const struct pool_observer *observer, const struct weir_capture_pool *captures)
{
    WEIR_ASSERT(pool_is_locked(captures->pool) && captures->open);
    const weir_observed_capture known = weir__observed_capture(captures, WEIR_OBSERVED_CAPTURE_BEGUN);
    tell_capture(observer, &known);
}

/* --- stream lock held --- */

void weir__watch_alloc_unlock(weir_stream *stream, weir_block *block, uint64_t align)
{
    WEIR_ASSERT(stream_is_locked(stream));
    weir_pool *pool = stream->owner;
    weir_observed_block known = observed(block, stream);
    known.align = align;
    _Atomic uint32_t *reporting = begin_reporting(pool);
    const struct pool_observer *first = after(&pool->watch.observers);
    stream_unlock(stream);
    for
        EACH_OBSERVER(observer, first)
        {
            tell_of_block(observer, observer->ops.block_alloc, &known);
        }
    end_reporting(reporting);
}

/* What happens to a block. */
enum event { GETS_MEMORY, IS_FREED, IS_USED, SLEEPS, WAKES };

static void tell_of_event(const struct pool_observer *observer, enum event event, const weir_observed_block *block)
{
    const weir_observer_ops *ops = &observer->ops;
    tell_of_block(observer,
                  event == GETS_MEMORY ? ops->block_alloc
                  : event == IS_FREED  ? ops->block_free
                  : event == IS_USED   ? ops->block_use
                  : event == SLEEPS    ? ops->block_sleep
                                       : ops->block_wake,
                  block);
}

/* Tells observers of the parts of a block in [address, end) that they know as blocks; of memory, for the units there
 * that are not committed yet. */
static void tell_of_parts(const weir_block *block, uint64_t address, uint64_t end, const weir_stream *stream,
                          enum event event)
{
    if (!is_watched(block_pool(block))) {
        return;
    }
    weir_observed_block known = observed(block, stream);
    while (next_part(block, &address, end, event != GETS_MEMORY, &known)) {
        for
            EACH_OBSERVER(observer, after(&block_pool(block)->watch.observers))
            {
                tell_of_event(observer, event, &known);
            }
    }
}

void weir__watch_free_part(const weir_block *block, uint64_t address, uint64_t end, const weir_stream *stream)
{
    WEIR_ASSERT(stream == NULL || stream_is_locked(stream));
    tell_of_parts(block, address, end, stream, IS_FREED);
}

void weir__watch_free(const weir_block *block, const weir_stream *stream)
{
    weir__watch_free_part(block, block_address(block), block_end(block), stream);
}

void weir__watch_commit(const weir_block *block, uint64_t address, uint64_t end, const weir_stream *stream)
{
    WEIR_ASSERT(reservation_of(block) != NULL && outside_pool_lock(block_pool(block)));
    tell_of_parts(block, address, end, stream, GETS_MEMORY);
}

void weir__watch_sleep(const weir_block *block, uint64_t address, uint64_t end, bool sleeps)
{
    WEIR_ASSERT(outside_pool_lock(block_pool(block)));
    tell_of_parts(block, address, end, block_stream(block), sleeps ? SLEEPS : WAKES);
}

void weir__watch_given(const weir_pool *pool, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    for
        EACH_OBSERVER(observer, after(&pool->watch.observers))
        {
            weir__observer_tell_memory(observer, true, address, size);
        }
}

void weir__watch_taken(const weir_pool *pool, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    for
        EACH_OBSERVER(observer, after(&pool->watch.observers))
        {
            weir__observer_tell_memory(observer, false, address, size);
        }
}

/* --- no lock held: a call that overlaps the attach of an observer may be reported to it or not --- */

void weir__watch_use(const weir_block *block, uint64_t address, uint64_t end, const weir_stream *stream)
{
    if (is_watched(block_pool(block))) {
        _Atomic uint32_t *reporting = begin_reporting(block_pool(block));
        tell_of_parts(block, address, end, stream, IS_USED);
        end_reporting(reporting);
    }
}

void weir__watch_event(weir_pool *pool, weir_observed_kind kind, const void *event, const weir_stream *stream)
{
    if (is_watched(pool)) {
        _Atomic uint32_t *reporting = begin_reporting(pool);
        const weir_observed_event known = {
            .struct_size = sizeof(known),
            .kind = kind,
            .event = event,
            .native_stream = stream != NULL ? stream->native : NULL,
            .stream = stream != NULL ? stream->lane : 0,
        };
        const int cancel_state = cancel_disable();
        for
            EACH_OBSERVER(observer, after(&pool->watch.observers))
            {
                if (observer->ops.event != NULL) {
                    observer->ops.event(observer->ctx, &known);
                }
            }
        cancel_restore(cancel_state);
        end_reporting(reporting);
    }
}

void weir__watch_trim(weir_pool *pool)
{
    if (is_watched(pool)) {
        _Atomic uint32_t *reporting = begin_reporting(pool);
        const int cancel_state = cancel_disable();
        for
            EACH_OBSERVER(observer, after(&pool->watch.observers))
            {
                if (observer->ops.trim != NULL) {
                    observer->ops.trim(observer->ctx);
                }
            }
        cancel_restore(cancel_state);
        end_reporting(reporting);
    }
}

void weir__watch_capture(weir_pool *pool, const weir_observed_capture *capture)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    if (is_watched(pool)) {
        _Atomic uint32_t *reporting = begin_reporting(pool);
        for
            EACH_OBSERVER(observer, after(&pool->watch.observers))
            {
                tell_capture(observer, capture);
            }
        end_reporting(reporting);
    }
}

/* --- called when the pool is destroyed: no other thread uses the pool --- */

static void tell_free(void *ctx, weir_block *block)
{
    (void)ctx;
    if (is_told(block)) {
        weir__watch_free(block, NULL);
    }
}

void weir__watch_end_blocks(weir_pool *pool)
{
    if (is_watched(pool)) {
        weir__block_each_alone(pool, tell_free, NULL);
    }
}

void weir__watch_end(weir_pool *pool)
{
    struct pool_observer *observer = atomic_load(&pool->watch.observers);
    const int cancel_state = cancel_disable();
    while (observer != NULL) {
        struct pool_observer *next = atomic_load(&observer->next);
        if (observer->ops.pool_gone != NULL) {
            observer->ops.pool_gone(observer->ctx);
        }
        free(observer);
        observer = next;
    }
    cancel_restore(cancel_state);
}
