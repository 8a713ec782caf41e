/* bindings/cuda/device/src/copy.c: copies between device and host memory, for the sleep of a pool (weir/sleep.h).
 *
 * Idea: two streams, which are not ordered with the program's, are busy all the time. They exist during the call only.
 */
#include "cuda_internal.h"
#include "shared/copy_pieces.h"

enum {
    copy_streams = 2,
    most_waits = 16,            /* tries to wait for a stream whose wait fails */
    CU_STREAM_NON_BLOCKING = 1, /* not ordered with the legacy default stream */
};

static weir_status queue_one(CUstream stream, const weir_copy *copy)
{
    const size_t size = (size_t)copy->size;
    WEIR_ASSERT(stream != NULL && size != 0);
    if (copy->host == NULL) {
        return CUDA(cuMemsetD8Async, copy->address, copy->value, size, stream);
    }
    return copy->to_host ? CUDA(cuMemcpyDtoHAsync, copy->host, copy->address, size, stream)
                         : CUDA(cuMemcpyHtoDAsync, copy->address, copy->host, size, stream);
}

static weir_status queue_all(const CUstream *streams, const weir_copy *copies, size_t count)
{
    struct copy_pieces pieces = {.copies = copies, .count = count};
    weir_status status = WEIR_OK;
    weir_copy piece;
    for (unsigned turn = 0; status == WEIR_OK && copy_next_piece(&pieces, &piece); turn++) {
        status = queue_one(streams[turn % copy_streams], &piece);
    }
    return status;
}

/* Waits for the stream's copies and destroys the stream. A wait that fails may leave copies under way, so it is tried
 * again; the copies count as failed all the same. */
static weir_status end_stream(CUstream stream)
{
    const weir_status status = CUDA(cuStreamSynchronize, stream);
    weir_status waited = status;
    for (int i = 1; i < most_waits && waited != WEIR_OK; i++) {
        waited = CUDA(cuStreamSynchronize, stream);
    }
    weir_status destroyed = WEIR_ERR_DEVICE;
    for (int i = 0; i < most_waits && destroyed != WEIR_OK; i++) {
        destroyed = CUDA(cuStreamDestroy, stream);
    }
    return status;
}

static weir_status copy_all(const weir_copy *copies, size_t count)
{
    CUstream streams[copy_streams] = {NULL};
    weir_status status = WEIR_OK;
    int made = 0;
    while (made < copy_streams && status == WEIR_OK) {
        status = CUDA(cuStreamCreate, &streams[made], CU_STREAM_NON_BLOCKING);
        made += status == WEIR_OK;
    }
    status = status == WEIR_OK ? queue_all(streams, copies, count) : status;
    for (int i = 0; i < made; i++) {
        const weir_status ended = end_stream(streams[i]);
        status = status == WEIR_OK ? ended : status;
    }
    return status;
}

weir_status weir__cuda_copy(void *ctx, const weir_copy *copies, size_t count)
{
    return count == 0 ? WEIR_OK : IN_CONTEXT(ctx, copy_all(copies, count));
}
