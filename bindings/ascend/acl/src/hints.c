/* bindings/ascend/acl/src/hints.c: ACL calls that also tell a pool of the order they create.
 *
 * Guarantee: the pool never assumes more order than ACL has been given (shared/native_hint.h).
 *
 * Cost: the ACL call, and two short locks of the pool.
 */
#include "acl_internal.h"

#include "shared/native_hint.h"

/* Replaces NULL by the handle of the default stream. Each function here does this before it calls the pool, because
 * threads with different contexts have different default streams. */
weir_status weir__acl_resolve(void *acl_stream, void **native)
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

static weir_status record(void *event, void *native)
{
    return ACL(aclrtRecordEvent, event, native);
}

static weir_status wait_for(void *event, void *native)
{
    return ACL(aclrtStreamWaitEvent, native, event);
}

static weir_status sync_stream(void *event, void *native)
{
    (void)event;
    weir__acl_place place = {0};
    (void)weir__acl_noted(native, &place);
    return weir__acl_sync(native, place.context);
}

static weir_status destroy_event(void *event, void *native)
{
    (void)native;
    return ACL(aclrtDestroyEvent, event);
}

static weir_status stream_of(const char *function, weir_pool *pool, void *acl_stream, void **native,
                             weir_stream **stream)
{
    weir_status status = weir__acl_resolve(acl_stream, native);
    if (status == WEIR_OK) {
        status = weir_pool_stream(pool, *native, stream);
    }
    return status == WEIR_ERR_INVALID ? weir__native_refuse_as(function, status) : status;
}

weir_status weir_acl_stream(weir_pool *pool, void *acl_stream, weir_stream **stream)
{
    static const char function[] = "weir_acl_stream";
    void *native = NULL;
    weir_stream *found = NULL;
    weir__acl_place place = {0};
    weir_status status = weir__hint_check(function, pool, stream, "stream");
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
    weir_status status = weir__hint_check(function, pool, acl_event, "acl_event");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, acl_stream, &native, &stream);
    }
    return status == WEIR_OK ? weir__hint_record(pool, stream, record, acl_event, native) : status;
}

weir_status weir_acl_wait_event(weir_pool *pool, void *acl_stream, void *acl_event)
{
    static const char function[] = "weir_acl_wait_event";
    void *native = NULL;
    weir_stream *stream = NULL;
    weir_status status = weir__hint_check(function, pool, acl_event, "acl_event");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, acl_stream, &native, &stream);
    }
    return status == WEIR_OK ? weir__hint_wait(pool, stream, wait_for, acl_event, native) : status;
}

weir_status weir_acl_query_event(weir_pool *pool, void *acl_event, bool *complete)
{
    weir_status status = weir__hint_check("weir_acl_query_event", pool, acl_event, "acl_event");
    if (status == WEIR_OK) {
        status = weir__hint_check("weir_acl_query_event", pool, complete, "complete");
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
        weir__hint_complete(pool, acl_event);
    }
    return WEIR_OK;
}

weir_status weir_acl_sync_event(weir_pool *pool, void *acl_event)
{
    weir_status status = weir__hint_check("weir_acl_sync_event", pool, acl_event, "acl_event");
    if (status == WEIR_OK) {
        status = ACL(aclrtSynchronizeEvent, acl_event);
    }
    if (status == WEIR_OK) {
        weir__hint_complete(pool, acl_event);
    }
    return status;
}

weir_status weir_acl_sync_stream(weir_pool *pool, void *acl_stream)
{
    static const char function[] = "weir_acl_sync_stream";
    void *native = NULL;
    weir_stream *stream = NULL;
    weir_status status = weir__hint_check(function, pool, pool, "pool");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, acl_stream, &native, &stream);
    }
    return status == WEIR_OK ? weir__hint_sync_stream(pool, stream, sync_stream, native) : status;
}

weir_status weir_acl_destroy_event(weir_pool *pool, void *acl_event)
{
    const weir_status status = weir__hint_check("weir_acl_destroy_event", pool, acl_event, "acl_event");
    return status == WEIR_OK ? weir__hint_destroy_event(pool, destroy_event, acl_event) : status;
}
