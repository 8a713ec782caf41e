/* bindings/cuda/device/src/hints.c: calls of the driver that also tell a pool of the order they create.
 *
 * Guarantee: the pool never assumes more order than the driver has been given (shared/native_hint.h). An order between
 * streams that are being captured holds within the graph only (weir/capture.h).
 *
 * Cost: the call, one query of the stream's capture state, and two short locks of the pool.
 */
#include "cuda_internal.h"

#include "shared/native_hint.h"

static weir_status record(void *event, void *stream)
{
    WEIR_ASSERT(event != NULL);
    return CUDA(cuEventRecord, event, stream);
}

static weir_status wait_for(void *event, void *stream)
{
    WEIR_ASSERT(event != NULL);
    return CUDA(cuStreamWaitEvent, stream, event, 0);
}

static weir_status sync_stream(void *event, void *stream)
{
    (void)event;
    return CUDA(cuStreamSynchronize, stream);
}

static weir_status destroy_event(void *event, void *stream)
{
    WEIR_ASSERT(event != NULL);
    (void)stream;
    return CUDA(cuEventDestroy, event);
}

/* Checks the arguments and loads the driver, which nothing has loaded yet if the pool's device is of another kind. */
static weir_status check(const char *function, const void *pool, const void *other, const char *name)
{
    const weir_status status = weir__hint_check(function, pool, other, name);
    return status == WEIR_OK ? weir__cuda_load(function) : status;
}

static weir_status stream_of(const char *function, weir_pool *pool, void *native, weir_stream **stream)
{
    const weir_status status = weir_pool_stream(pool, native, stream);
    return status == WEIR_ERR_INVALID ? weir__native_refuse_as(function, status) : status;
}

weir_status weir_cuda_record_event(weir_pool *pool, void *event, void *stream)
{
    static const char function[] = "weir_cuda_record_event";
    weir_stream *found = NULL;
    weir_status status = check(function, pool, event, "event");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, stream, &found);
    }
    return status == WEIR_OK ? weir__hint_record(pool, found, record, event, stream) : status;
}

weir_status weir_cuda_stream_wait_event(weir_pool *pool, void *stream, void *event)
{
    static const char function[] = "weir_cuda_stream_wait_event";
    weir_stream *found = NULL;
    weir_status status = check(function, pool, event, "event");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, stream, &found);
    }
    return status == WEIR_OK ? weir__hint_wait(pool, found, wait_for, event, stream) : status;
}

weir_status weir_cuda_query_event(weir_pool *pool, void *event, bool *complete)
{
    weir_status status = check("weir_cuda_query_event", pool, event, "event");
    if (status == WEIR_OK) {
        status = check("weir_cuda_query_event", pool, complete, "complete");
    }
    if (status != WEIR_OK) {
        return status;
    }
    const CUresult code = UNCANCELLED(weir__cuda.cuEventQuery(event));
    if (code == CU_ERROR_NOT_READY) {
        *complete = false;
        return WEIR_OK;
    }
    status = weir__cuda_result("cuEventQuery", code);
    if (status == WEIR_OK) {
        *complete = true;
        weir__hint_complete(pool, event);
    }
    return status;
}

weir_status weir_cuda_sync_event(weir_pool *pool, void *event)
{
    weir_status status = check("weir_cuda_sync_event", pool, event, "event");
    if (status == WEIR_OK) {
        status = CUDA(cuEventSynchronize, event);
    }
    if (status == WEIR_OK) {
        weir__hint_complete(pool, event);
    }
    return status;
}

weir_status weir_cuda_sync_stream(weir_pool *pool, void *stream)
{
    static const char function[] = "weir_cuda_sync_stream";
    weir_stream *found = NULL;
    weir_status status = check(function, pool, pool, "pool");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, stream, &found);
    }
    return status == WEIR_OK ? weir__hint_sync_stream(pool, found, sync_stream, stream) : status;
}

weir_status weir_cuda_destroy_event(weir_pool *pool, void *event)
{
    const weir_status status = check("weir_cuda_destroy_event", pool, event, "event");
    return status == WEIR_OK ? weir__hint_destroy_event(pool, destroy_event, event) : status;
}

/* Needs no wait of its own for the stream: weir_stream_retire waits. */
weir_status weir_cuda_destroy_stream(weir_pool *pool, void *stream)
{
    static const char function[] = "weir_cuda_destroy_stream";
    weir_stream *found = NULL;
    weir_status status = check(function, pool, stream, "stream");
    if (status == WEIR_OK) {
        status = stream_of(function, pool, stream, &found);
    }
    if (status == WEIR_OK) {
        status = weir_stream_retire(pool, found);
    }
    return status == WEIR_OK ? CUDA(cuStreamDestroy, stream) : status;
}
