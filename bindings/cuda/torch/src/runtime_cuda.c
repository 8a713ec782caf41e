/* bindings/cuda/torch/src/runtime_cuda.c: runtime.h over the CUDA driver.
 *
 * The driver does not tell when a stream ends or a device is reset, so a followed stream counts as alive until
 * weir_torch_shutdown. torch does not destroy the streams of its own pool. A program that destroys a stream of its own
 * must first free or release the blocks that the stream used, and wait for the stream.
 */
#include "shared/runtime.h"

#include "shared/assert.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <weir/cuda.h>

struct torch_follower {
    weir_pool *pool;
    weir_stream *stream;
};

static _Atomic uint64_t epoch; /* ties that have ended */

weir_status weir__torch_runtime_device(int device, int pages, weir_device **made)
{
    (void)pages;
    weir_cuda_device_config config = WEIR_CUDA_DEVICE_CONFIG_INIT;
    config.ordinal = device;
    config.flags = WEIR_CUDA_ALL_PEERS; /* torch copies between devices as it pleases */
    return weir_cuda_device_create(&config, made);
}

bool weir__torch_runtime_pages(const char *text, int *pages)
{
    (void)text, (void)pages;
    return false;
}

uint64_t weir__torch_runtime_epoch(void)
{
    return atomic_load(&epoch);
}

bool weir__torch_runtime_lost(const weir_device *device)
{
    (void)device;
    return false;
}

/* Always false, so pools keep no device memory free: torch takes its workspaces from its allocator, not from the
 * device. */
bool weir__torch_runtime_free_bytes(int device, uint64_t *bytes)
{
    (void)device;
    *bytes = 0;
    return false;
}

uint64_t weir__torch_runtime_block_bytes(uint64_t size)
{
    return size;
}

/* Both torch's NULL and weir's NULL stand for the legacy default stream of the device's primary context. */
void *weir__torch_runtime_default_stream(int device)
{
    (void)device;
    return NULL;
}

weir_status weir__torch_runtime_follow(weir_pool *pool, void *native, struct torch_follower **follower)
{
    WEIR_ASSERT(native != NULL);
    struct torch_follower *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    made->pool = pool;
    const weir_status status = weir_pool_stream(pool, native, &made->stream);
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    *follower = made;
    return WEIR_OK;
}

bool weir__torch_runtime_followed(struct torch_follower *follower, struct torch_followed *followed)
{
    WEIR_ASSERT(follower != NULL && follower->stream != NULL);
    *followed = (struct torch_followed){follower->stream, false};
    return true;
}

weir_status weir__torch_runtime_unfollow(struct torch_follower *follower)
{
    if (follower == NULL) {
        return WEIR_OK;
    }
    WEIR_ASSERT(follower->pool != NULL);
    (void)atomic_fetch_add(&epoch, 1); /* so that the epoch changes before the stream ends */
    const weir_status status = weir_stream_retire(follower->pool, follower->stream);
    if (status == WEIR_OK) {
        free(follower);
    }
    return status;
}
