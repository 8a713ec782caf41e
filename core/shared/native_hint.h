/* core/shared/native_hint.h: makes a call of a vendor's runtime and gives the pool the hint for it.
 *
 * Guarantee: the pool never assumes more order than the runtime has been given. A record is announced before it is
 * made, which covers less than the record will, and withdrawn if the record fails. A wait is announced after it has
 * been queued. A synchronisation covers the blocks that had been freed when it began. A hint is dropped if there is no
 * host memory for it, which is safe: the pool then knows less order.
 *
 * Each function takes the runtime's call as a function of the event and the native stream.
 */
#ifndef WEIR_SHARED_NATIVE_HINT_H
#define WEIR_SHARED_NATIVE_HINT_H

#include <weir/pool.h>

typedef weir_status (*weir__native_call)(void *event, void *native_stream);

static inline void weir__hint_told(weir_status status)
{
    (void)status;
}

/* Refuses a NULL pool or other argument of a public function. */
static inline weir_status weir__hint_check(const char *function, const void *pool, const void *other, const char *name)
{
    if (pool == NULL || other == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", function, pool == NULL ? "pool" : name);
    }
    return WEIR_OK;
}

static inline weir_status weir__hint_record(weir_pool *pool, weir_stream *stream, weir__native_call record, void *event,
                                            void *native)
{
    weir__hint_told(weir_stream_recorded(pool, event, stream));
    const weir_status status = record(event, native);
    if (status != WEIR_OK) {
        weir__hint_told(weir_event_forgotten(pool, event));
    }
    return status;
}

static inline weir_status weir__hint_wait(weir_pool *pool, weir_stream *stream, weir__native_call wait, void *event,
                                          void *native)
{
    const weir_status status = wait(event, native);
    if (status == WEIR_OK) {
        weir__hint_told(weir_stream_waited(pool, stream, event));
    }
    return status;
}

/* Tells the pool that an event is complete, after the runtime has reported its completion. */
static inline void weir__hint_complete(weir_pool *pool, const void *event)
{
    weir__hint_told(weir_event_synced(pool, event));
}

/* Synchronises a stream. Other threads may free on the stream meanwhile, so the pool is told of an event at the
 * position where the wait begins. The address of a local variable serves as that event. */
static inline weir_status weir__hint_sync_stream(weir_pool *pool, weir_stream *stream, weir__native_call sync,
                                                 void *native)
{
    char mark = 0;
    weir__hint_told(weir_stream_recorded(pool, &mark, stream));
    const weir_status status = sync(NULL, native);
    if (status == WEIR_OK) {
        weir__hint_told(weir_event_synced(pool, &mark));
    }
    weir__hint_told(weir_event_forgotten(pool, &mark));
    return status;
}

/* Destroys an event. The pool forgets the event first, before its handle can be used again. */
static inline weir_status weir__hint_destroy_event(weir_pool *pool, weir__native_call destroy, void *event)
{
    weir__hint_told(weir_event_forgotten(pool, event));
    return destroy(event, NULL);
}

#endif
