/* context.c: a thread's current context. A generation number tells that context from a later one at the same
 * address. */
#include "streams/streams.h"

static _Thread_local struct {
    acl__context *context;
    uint32_t generation;
} current;

void acl__context_make_current(acl__context *context)
{
    WEIR_ASSERT_HELD(acl__mutex());
    current.context = context;
    current.generation = context != NULL ? context->generation : 0;
}

acl__context *acl__context_current(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__context *context = current.context;
    return context != NULL && context->live && context->generation == current.generation ? context : NULL;
}

aclError acl__context_need(acl__context **context)
{
    WEIR_ASSERT_HELD(acl__mutex());
    *context = acl__context_current();
    return *context != NULL
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_RT_CONTEXT_NULL,
                           "this thread has no context: call aclrtSetDevice or aclrtSetCurrentContext first");
}

ACL_EXPORT aclError aclrtGetCurrentContext(aclrtContext *context)
{
    ACL_ENTER_LOCKED(aclrtGetCurrentContext);
    ACL_NEED(context);
    /* *context becomes NULL on failure too, because clients check it instead of the result */
    *context = acl__context_current();
    acl__context *now = NULL;
    return acl__context_need(&now);
}

ACL_EXPORT aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream)
{
    ACL_ENTER_LOCKED(aclrtCtxGetCurrentDefaultStream);
    ACL_NEED(stream);
    ACL_NEED_CONTEXT(now);
    *stream = now->default_stream;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetDevice(int32_t *deviceId)
{
    ACL_ENTER_LOCKED(aclrtGetDevice);
    ACL_NEED(deviceId);
    ACL_NEED_CONTEXT(now);
    *deviceId = now->device;
    return ACL_SUCCESS;
}
