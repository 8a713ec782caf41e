/* pending.c: small blocks that wait for a stream before they may be handed out again.
 *
 * Idea: a weir pool of the node knows the stream and its ticks; a block is noted with the tick that the stream has
 * reached, and goes back to its engine when the pool has learnt that the tick is over. One list for each stream and node, in
 * the order of its ticks, so only the heads are asked about. Large blocks need none of this: they are blocks of that pool.
 */
#include "host_internal.h"

#include <stdlib.h>

typedef struct waiting {
    struct waiting *next;
    void *block;
    uint64_t size;
    weir_tick mark;
} waiting;

typedef struct queue {
    struct queue *next;
    weir__host_node *node;
    const void *native;
    waiting *first;
    waiting **last;
} queue;

struct weir__host_pending {
    pthread_mutex_t lock;
    _Atomic uint64_t count;
    queue *queues;
};

weir_status weir__host_pending_create(weir__host_pending **out)
{
    weir__host_pending *pending = calloc(1, sizeof *pending);
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
        queue *q = pending->queues;
        pending->queues = q->next;
        while (q->first != NULL) {
            waiting *next = q->first->next;
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
    return node->mapped != NULL ? node->mapped : node->given;
}

/* The lock is held. */
static queue *queue_of(weir__host_pending *pending, weir__host_node *node, const void *native)
{
    queue *q = pending->queues;
    while (q != NULL && (q->node != node || q->native != native)) {
        q = q->next;
    }
    if (q == NULL && (q = calloc(1, sizeof *q)) != NULL) {
        q->node = node;
        q->native = native;
        q->last = &q->first;
        q->next = pending->queues;
        pending->queues = q;
    }
    return q;
}

weir_status weir__host_pending_add(weir__host_node *node, void *block, uint64_t size, void *native_stream)
{
    weir__host_pending *pending = node->pool->pending;
    weir_stream *stream = NULL;
    waiting *w = calloc(1, sizeof *w);
    weir_status status = w != NULL ? weir_pool_stream(ordering_pool(node), native_stream, &stream) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        free(w);
        return status;
    }
    w->block = block;
    w->size = size;
    (void)pthread_mutex_lock(&pending->lock);
    queue *q = queue_of(pending, node, native_stream);
    status = q != NULL ? weir_stream_mark(ordering_pool(node), stream, &w->mark) : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK) {
        *q->last = w;
        q->last = &w->next;
        (void)atomic_fetch_add(&pending->count, 1);
        (void)atomic_fetch_add(&node->pending_bytes, size);
    } else {
        free(w);
    }
    (void)pthread_mutex_unlock(&pending->lock);
    return status;
}

/* The lock is held. Takes off what is over. */
static weir_status collect_queue(weir__host_pending *pending, queue *q, bool wait)
{
    weir_pool *pool = ordering_pool(q->node);
    weir_stream *stream = NULL;
    weir_status status = weir_pool_stream(pool, (void *)(uintptr_t)q->native, &stream);
    while (q->first != NULL && status == WEIR_OK) {
        waiting *w = q->first;
        bool over = false;
        status = weir_stream_reached(pool, stream, w->mark, wait, &over);
        if (status != WEIR_OK || !over) {
            break;
        }
        q->first = w->next;
        if (q->first == NULL) {
            q->last = &q->first;
        }
        (void)atomic_fetch_sub(&pending->count, 1);
        (void)atomic_fetch_sub(&q->node->pending_bytes, w->size);
        const bool taken = q->node->pool->config.engine->release(q->node->engine, NULL, &w->block, 1);
        (void)taken; /* it was looked up when it was freed */
        free(w);
    }
    return status;
}

weir_status weir__host_pending_collect(weir_host_pool *pool, bool wait, const void *native_stream, bool only_stream)
{
    weir__host_pending *pending = pool->pending;
    weir_status first = WEIR_OK;
    if (atomic_load_explicit(&pending->count, memory_order_relaxed) == 0) {
        return WEIR_OK;
    }
    (void)pthread_mutex_lock(&pending->lock);
    for (queue *q = pending->queues; q != NULL; q = q->next) {
        if (q->first != NULL && (!only_stream || q->native == native_stream)) {
            const weir_status status = collect_queue(pending, q, wait);
            first = first != WEIR_OK ? first : status;
        }
    }
    (void)pthread_mutex_unlock(&pending->lock);
    return first;
}
