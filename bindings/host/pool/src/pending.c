/* pending.c: small blocks that wait for a stream before they may be handed out again.
 *
 * Idea: a weir pool of the node numbers the points in a stream's order (ticks). A block is queued with the stream's
 * current tick, and goes back to its engine when the pool knows that the tick is complete. There is one queue for each
 * stream and node, in the order of ticks, so only its head is checked. Large blocks belong to that pool and need none.
 */
#include "host_internal.h"

#include <stdlib.h>

struct waiting {
    struct waiting *next;
    weir__host_kept kept;
    uint32_t bin;
    weir_tick mark;
};

struct queue {
    struct queue *next;
    weir__host_node *node;
    const void *native;
    struct waiting *first;
    struct waiting **last;
    weir_tick last_mark; /* of the block added last */
    bool is_unused;      /* the stream is retired and no block waits for it */
};

struct weir__host_pending {
    pthread_mutex_t lock;
    _Atomic uint64_t count;
    struct queue *queues;
};

weir_status weir__host_pending_create(weir__host_pending **out)
{
    weir__host_pending *pending = calloc(1, sizeof(*pending));
    if (pending == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    (void)pthread_mutex_init(&pending->lock, NULL);
    *out = pending;
    return WEIR_OK;
}

void weir__host_pending_destroy(weir__host_pending *pending)
{
    if (pending == NULL) {
        return;
    }
    while (pending->queues != NULL) {
        struct queue *q = pending->queues;
        pending->queues = q->next;
        while (q->first != NULL) {
            struct waiting *next = q->first->next;
            free(q->first);
            q->first = next;
        }
        free(q);
    }
    (void)pthread_mutex_destroy(&pending->lock);
    free(pending);
}

static weir_pool *ordering_pool(const weir__host_node *node)
{
    WEIR_ASSERT(node->mapped != NULL || node->given != NULL);
    return node->mapped != NULL ? node->mapped : node->given;
}

/* Finds or makes the queue of freed blocks of a stream and node. NULL: there is no memory. Requires the lock. */
static struct queue *queue_of(weir__host_pending *pending, weir__host_node *node, const void *native)
{
    WEIR_ASSERT_HELD(&pending->lock);
    struct queue *unused = NULL;
    for (struct queue *q = pending->queues; q != NULL; q = q->next) {
        if (q->node == node && q->native == native && !q->is_unused) {
            return q;
        }
        unused = q->is_unused ? q : unused;
    }
    struct queue *q = unused;
    if (q == NULL && (q = calloc(1, sizeof(*q))) != NULL) {
        q->next = pending->queues;
        pending->queues = q;
    }
    if (q != NULL) {
        WEIR_ASSERT(q->first == NULL);
        q->node = node;
        q->native = native;
        q->last = &q->first;
        q->is_unused = false;
    }
    return q;
}

weir_status weir__host_pending_add(weir__host_node *node, weir__host_kept kept, uint32_t bin, void *native_stream)
{
    WEIR_ASSERT(kept.block != NULL && kept.mark != NULL && bin < node->pool->bin_count);
    weir__host_pending *pending = node->pool->pending;
    weir_stream *stream = NULL;
    struct waiting *w = calloc(1, sizeof(*w));
    weir_status status = w != NULL ? weir_pool_stream(ordering_pool(node), native_stream, &stream) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        free(w);
        return status;
    }
    w->kept = kept;
    w->bin = bin;
    (void)pthread_mutex_lock(&pending->lock);
    struct queue *q = queue_of(pending, node, native_stream);
    status = q != NULL ? weir_stream_mark(ordering_pool(node), stream, &w->mark) : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK) {
        *q->last = w;
        q->last = &w->next;
        q->last_mark = w->mark;
        (void)atomic_fetch_add(&pending->count, 1);
        (void)atomic_fetch_add(&node->pending_bytes, node->pool->bins[bin].bytes);
    } else {
        free(w);
    }
    (void)pthread_mutex_unlock(&pending->lock);
    return status;
}

/* Releases blocks from the head of the queue, up to the first block that still has to wait. Does not itself wait.
 * Requires the lock. */
static weir_status collect_queue(weir__host_pending *pending, struct queue *q)
{
    WEIR_ASSERT_HELD(&pending->lock);
    weir_pool *pool = ordering_pool(q->node);
    const weir_host_engine_ops *engine = q->node->pool->config.engine;
    weir_stream *stream = NULL;
    weir_status status = weir_pool_stream(pool, (void *)(uintptr_t)q->native, &stream);
    while (q->first != NULL && status == WEIR_OK) {
        struct waiting *w = q->first;
        bool over = false;
        status = weir_stream_reached(pool, stream, w->mark, false, &over);
        if (status != WEIR_OK || !over) {
            break;
        }
        q->first = w->next;
        q->last = q->first != NULL ? q->last : &q->first;
        const uint64_t size = q->node->pool->bins[w->bin].bytes;
        WEIR_ASSERT(atomic_load(&pending->count) != 0 && atomic_load(&q->node->pending_bytes) >= size);
        (void)atomic_fetch_sub(&pending->count, 1);
        (void)atomic_fetch_sub(&q->node->pending_bytes, size);
        const bool taken = engine->release(q->node->engine, NULL, w->bin, &w->kept, 1);
        WEIR_ASSERT(taken); /* the block was checked when it was freed */
        (void)taken;
        free(w);
    }
    return status;
}

/* Releases the blocks of all queues whose stream work has completed. Requires the lock. */
static weir_status collect(weir__host_pending *pending)
{
    WEIR_ASSERT_HELD(&pending->lock);
    weir_status first = WEIR_OK;
    for (struct queue *q = pending->queues; q != NULL; q = q->next) {
        const weir_status status = q->first != NULL ? collect_queue(pending, q) : WEIR_OK;
        first = first != WEIR_OK ? first : status;
    }
    return first;
}

weir_status weir__host_pending_collect(weir_host_pool *pool)
{
    weir__host_pending *pending = pool->pending;
    if (atomic_load_explicit(&pending->count, memory_order_relaxed) == 0 ||
        pthread_mutex_trylock(&pending->lock) != 0) {
        return WEIR_OK;
    }
    const weir_status status = collect(pending);
    (void)pthread_mutex_unlock(&pending->lock);
    return status;
}

/* Waits without the lock, so that other threads can free meanwhile. Queues are reused but not freed, so a stale queue
 * costs at most an unneeded wait. The stream is looked up only while a block waits for it, and it cannot be retired
 * before that block is released. */
static weir_status wait_for(weir__host_pending *pending, struct queue *q)
{
    weir_stream *stream = NULL;
    weir_pool *pool = NULL;
    weir_status status = WEIR_OK;
    bool reached = false;
    (void)pthread_mutex_lock(&pending->lock);
    const weir_tick mark = q->last_mark;
    if (q->first != NULL) {
        pool = ordering_pool(q->node);
        status = weir_pool_stream(pool, (void *)(uintptr_t)q->native, &stream);
    }
    (void)pthread_mutex_unlock(&pending->lock);
    return stream != NULL ? weir_stream_reached(pool, stream, mark, true, &reached) : status;
}

static struct queue *first_queue(weir__host_pending *pending)
{
    (void)pthread_mutex_lock(&pending->lock);
    struct queue *q = pending->queues;
    (void)pthread_mutex_unlock(&pending->lock);
    return q;
}

weir_status weir__host_pending_wait(weir_host_pool *pool)
{
    weir__host_pending *pending = pool->pending;
    weir_status first = WEIR_OK;
    if (atomic_load_explicit(&pending->count, memory_order_relaxed) == 0) {
        return WEIR_OK;
    }
    for (struct queue *q = first_queue(pending); q != NULL; q = q->next) {
        const weir_status status = wait_for(pending, q);
        first = first != WEIR_OK ? first : status;
    }
    (void)pthread_mutex_lock(&pending->lock);
    const weir_status status = collect(pending);
    (void)pthread_mutex_unlock(&pending->lock);
    return first != WEIR_OK ? first : status;
}

static bool is_of(weir__host_pending *pending, const struct queue *q, const void *native)
{
    (void)pthread_mutex_lock(&pending->lock);
    const bool is = !q->is_unused && q->native == native;
    (void)pthread_mutex_unlock(&pending->lock);
    return is;
}

weir_status weir__host_pending_retire(weir_host_pool *pool, const void *native_stream)
{
    weir__host_pending *pending = pool->pending;
    weir_status first = WEIR_OK;
    for (struct queue *q = first_queue(pending); q != NULL; q = q->next) {
        if (!is_of(pending, q, native_stream)) {
            continue;
        }
        weir_status status = wait_for(pending, q);
        (void)pthread_mutex_lock(&pending->lock);
        if (status == WEIR_OK) {
            status = collect_queue(pending, q);
        }
        q->is_unused = q->first == NULL;
        (void)pthread_mutex_unlock(&pending->lock);
        first = first != WEIR_OK ? first : status;
    }
    return first;
}
