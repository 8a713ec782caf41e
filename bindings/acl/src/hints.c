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

static weir_status stream_of(weir_pool *pool, void *acl_stream, void **native, weir_stream **stream)
{
    if (pool == NULL) {
        return WEIR_ERR_INVALID;
    }
    const weir_status status = resolve(acl_stream, native);
    return status == WEIR_OK ? weir_pool_stream(pool, *native, stream) : status;
}

weir_status weir_acl_stream(weir_pool *pool, void *acl_stream, weir_stream **stream)
{
    void *native = NULL;
    weir_stream *found = NULL;
    if (stream == NULL) {
        return WEIR_ERR_INVALID;
    }
    weir_status status = stream_of(pool, acl_stream, &native, &found);
    if (status == WEIR_OK) {
        status = weir__acl_watch(native, weir__acl_current(), false);
    }
    if (status == WEIR_OK) {
        *stream = found;
    }
    return status;
}

weir_status weir_acl_record_event(weir_pool *pool, void *acl_event, void *acl_stream)
{
    void *native = NULL;
    weir_stream *stream = NULL;
    weir_status status = acl_event != NULL ? stream_of(pool, acl_stream, &native, &stream) : WEIR_ERR_INVALID;
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
    void *native = NULL;
    weir_stream *stream = NULL;
    weir_status status = acl_event != NULL ? stream_of(pool, acl_stream, &native, &stream) : WEIR_ERR_INVALID;
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
    if (pool == NULL || acl_event == NULL || complete == NULL) {
        return WEIR_ERR_INVALID;
    }
    aclrtEventRecordedStatus recorded = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    const weir_status status = ACL(aclrtQueryEventStatus, acl_event, &recorded);
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
    if (pool == NULL || acl_event == NULL) {
        return WEIR_ERR_INVALID;
    }
    const weir_status status = ACL(aclrtSynchronizeEvent, acl_event);
    if (status == WEIR_OK) {
        told(weir_event_synced(pool, acl_event));
    }
    return status;
}

/* A mark in the place of an event says up to where the stream had come when the wait began: other threads may free on
 * it meanwhile. */
weir_status weir_acl_sync_stream(weir_pool *pool, void *acl_stream)
{
    void *native = NULL;
    weir_stream *stream = NULL;
    weir_status status = stream_of(pool, acl_stream, &native, &stream);
    if (status != WEIR_OK) {
        return status;
    }
    const char mark = 0;
    told(weir_stream_recorded(pool, &mark, stream));
    status = weir__acl_sync(native, weir__acl_context_of(native));
    if (status == WEIR_OK) {
        told(weir_event_synced(pool, &mark));
    }
    told(weir_event_forgotten(pool, &mark));
    return status;
}

weir_status weir_acl_destroy_event(weir_pool *pool, void *acl_event)
{
    if (pool == NULL || acl_event == NULL) {
        return WEIR_ERR_INVALID;
    }
    told(weir_event_forgotten(pool, acl_event)); /* before the handle can come again */
    return ACL(aclrtDestroyEvent, acl_event);
}
