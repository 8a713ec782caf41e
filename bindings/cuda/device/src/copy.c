/* bindings/cuda/device/src/copy.c: copies between device and host memory, for the sleep of a pool (weir/sleep.h), by
 * calls of the CUDA driver. */
#include "cuda_internal.h"
#include "shared/copy_streams.h"

enum { CU_STREAM_NON_BLOCKING = 1 }; /* not ordered with the legacy default stream */

static weir_status create(void **stream)
{
    CUstream made = NULL;
    const weir_status status = CUDA(cuStreamCreate, &made, CU_STREAM_NON_BLOCKING);
    *stream = made;
    return status;
}

static weir_status queue(void *stream, const weir_copy *copy)
{
    const size_t size = (size_t)copy->size;
    WEIR_ASSERT(stream != NULL && size != 0);
    if (copy->host == NULL) {
        return CUDA(cuMemsetD8Async, copy->address, copy->value, size, stream);
    }
    return copy->to_host ? CUDA(cuMemcpyDtoHAsync, copy->host, copy->address, size, stream)
                         : CUDA(cuMemcpyHtoDAsync, copy->address, copy->host, size, stream);
}

static weir_status wait_for(void *stream)
{
    return CUDA(cuStreamSynchronize, stream);
}

static weir_status destroy(void *stream)
{
    return CUDA(cuStreamDestroy, stream);
}

weir_status weir__cuda_copy(void *ctx, const weir_copy *copies, size_t count)
{
    static const struct copy_calls calls = {create, queue, wait_for, destroy};
    return count == 0 ? WEIR_OK : IN_CONTEXT(ctx, copy_on_streams(&calls, copies, count));
}
