/* bindings/acl/src/hints.c: ACL calls that also tell a pool what they order.
 *
 * Guarantee: the pool never believes more than ACL has been told. So a record is announced before it is made, which
 * covers less than it will, and taken back if it fails; a wait is announced after it has been queued; a synchronisation
 * covers what had been freed when it began.
 *
 * Cost: the ACL call, and two short locks of the pool.
 */
#include "acl_internal.h"

/* NULL as ACL means it: the default stream of the calling thread's context, by its own handle. Resolved once for the
 * process it would be one stream for threads whose default streams are several. */
static weir_status resolve(void *acl_stream, void **native)
{
    *native = acl_stream;
    if (acl_stream != NULL) {
        return WEIR_OK;
    }
    aclrtStream own = NULL;
    weir_status status = ACL(aclrtCtxGetCurrentDefaultStream, &own);
    if (status == WEIR_OK && own == NULL) {
        status = weir__acl_result("aclrtCtxGetCurrentDefaultStream", ACL_ERROR_RT_CONTEXT_NULL);
    }
    *native = own;
    return status;
}

/* A hint says what is known; what there is no memory to note is not known. */
static void told(weir_status status)
{
    (void)status;
}

/* Refuses a NULL pool or other argument of a public function. */
static weir_status check(const char *function, const void *pool, const void *other, const char *name)
{
    if (pool == NULL || other == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", function, pool == NULL ? "pool" : name);
    }
    return WEIR_OK;
}

static weir_status stream_of(const char *function, weir_pool *pool, void *acl_stream, void **native, weir_stream **stream)
{
    weir_status status = resolve(acl_stream, native);
    if (status == WEIR_OK) {
        status = weir_pool_stream(pool, *native, stream);
    }
    return status == WEIR_ERR_INVALID ? weir__acl_refuse_as(function, status) : status;
}

weir_status weir_acl_stream(weir_pool *pool, void *acl_stream, weir_stream **stream)
{
    static const char function[] = "weir_acl_stream";
    void *native = NULL;
    weir_stream *found = NULL;
    weir__acl_place place = { 0 };
    weir_status status = check(function, pool, stream, "stream");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, acl_stream, &native, &found);
    }
    if (status == WEIR_OK) {
        status = weir__acl_find(function, native, &place);
    }
    if (status == WEIR_OK) {
        status = weir__acl_watch(native, &place, false);
    }
    if (status == WEIR_OK) {
        *stream = found;
    }
    return status;
}

weir_status weir_acl_record_event(weir_pool *pool, void *acl_event, void *acl_stream)
{
    static const char function[] = "weir_acl_record_event";
    void *native = NULL;
    weir_stream *stream = NULL;
    weir_status status = check(function, pool, acl_event, "acl_event");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, acl_stream, &native, &stream);
    }
    if (status != WEIR_OK) {
        return status;
    }
    told(weir_stream_recorded(pool, acl_event, stream));
    status = ACL(aclrtRecordEvent, acl_event, native);
    if (status != WEIR_OK) {
        told(weir_event_forgotten(pool, acl_event));
    }
    return status;
}

weir_status weir_acl_wait_event(weir_pool *pool, void *acl_stream, void *acl_event)
{
    static const char function[] = "weir_acl_wait_event";
    void *native = NULL;
    weir_stream *stream = NULL;
    weir_status status = check(function, pool, acl_event, "acl_event");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, acl_stream, &native, &stream);
    }
    if (status == WEIR_OK) {
        status = ACL(aclrtStreamWaitEvent, native, acl_event);
    }
    if (status == WEIR_OK) {
        told(weir_stream_waited(pool, stream, acl_event));
    }
    return status;
}

weir_status weir_acl_query_event(weir_pool *pool, void *acl_event, bool *complete)
{
    weir_status status = check("weir_acl_query_event", pool, acl_event, "acl_event");
    if (status == WEIR_OK) {
        status = check("weir_acl_query_event", pool, complete, "complete");
    }
    aclrtEventRecordedStatus recorded = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    if (status == WEIR_OK) {
        status = ACL(aclrtQueryEventStatus, acl_event, &recorded);
    }
    if (status != WEIR_OK) {
        return status;
    }
    *complete = recorded == ACL_EVENT_RECORDED_STATUS_COMPLETE;
    if (*complete) {
        told(weir_event_synced(pool, acl_event));
    }
    return WEIR_OK;
}

weir_status weir_acl_sync_event(weir_pool *pool, void *acl_event)
{
    weir_status status = check("weir_acl_sync_event", pool, acl_event, "acl_event");
    if (status == WEIR_OK) {
        status = ACL(aclrtSynchronizeEvent, acl_event);
    }
    if (status == WEIR_OK) {
        told(weir_event_synced(pool, acl_event));
    }
    return status;
}

/* A mark in the place of an event says up to where the stream had come when the wait began: other threads may free on
 * it meanwhile. */
weir_status weir_acl_sync_stream(weir_pool *pool, void *acl_stream)
{
    static const char function[] = "weir_acl_sync_stream";
    void *native = NULL;
    weir_stream *stream = NULL;
    weir_status status = check(function, pool, pool, "pool");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, acl_stream, &native, &stream);
    }
    if (status != WEIR_OK) {
        return status;
    }
    const char mark = 0;
    weir__acl_place place = { 0 };
    (void)weir__acl_noted(native, &place);
    told(weir_stream_recorded(pool, &mark, stream));
    status = weir__acl_sync(native, place.context);
    if (status == WEIR_OK) {
        told(weir_event_synced(pool, &mark));
    }
    told(weir_event_forgotten(pool, &mark));
    return status;
}

weir_status weir_acl_destroy_event(weir_pool *pool, void *acl_event)
{
    const weir_status status = check("weir_acl_destroy_event", pool, acl_event, "acl_event");
    if (status != WEIR_OK) {
        return status;
    }
    told(weir_event_forgotten(pool, acl_event)); /* before the handle can come again */
    return ACL(aclrtDestroyEvent, acl_event);
}
