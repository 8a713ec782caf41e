/* bindings/ascend/acl/src/copy.c: copies between device and host memory, for the sleep of a pool (weir/sleep.h), by the
 * calls of the ACL runtime. The destruction of a stream waits for its copies, too. */
#include "acl_internal.h"
#include "shared/copy_streams.h"

static weir_status create(void **stream)
{
    return ACL(aclrtCreateStream, stream);
}

static weir_status queue(void *stream, const weir_copy *copy)
{
    void *device = (void *)(uintptr_t)copy->address;
    const size_t size = (size_t)copy->size;
    WEIR_ASSERT(stream != NULL && size != 0);
    if (copy->host == NULL) {
        return ACL(aclrtMemsetAsync, device, size, copy->value, size, stream);
    }
    return copy->to_host ? ACL(aclrtMemcpyAsync, copy->host, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST, stream)
                         : ACL(aclrtMemcpyAsync, device, size, copy->host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}

static weir_status wait_for(void *stream)
{
    return ACL(aclrtSynchronizeStream, stream);
}

static weir_status destroy(void *stream)
{
    return ACL(aclrtDestroyStream, stream);
}

weir_status weir__acl_copy(void *ctx, const weir_copy *copies, size_t count)
{
    static const struct copy_calls calls = {create, queue, wait_for, destroy};
    if (count == 0) {
        return WEIR_OK;
    }
    if (weir__acl_is_lost(ctx)) {
        return weir__acl_result("aclrtMemcpyAsync", ACL_ERROR_RT_CONTEXT_NULL);
    }
    return IN_CONTEXT(ctx, copy_on_streams(&calls, copies, count));
}
