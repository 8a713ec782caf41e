/* exhaustion.c: a GPU runs out of memory.
 *
 * The program takes most of the GPU's free memory away, so that a pool fills the rest until the driver refuses. The
 * pool must report that memory ran out, keep every block's contents, serve again after a free, and grow once the memory
 * is there again.
 */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <weir/budget.h>
#include <weir/caching.h>
#include <weir/pool.h>

enum { most_blocks = 64 };

#define MIB (UINT64_C(1) << 20)
#define ROOM (256 * MIB) /* bytes left for the pool */
#define SIZE (24 * MIB)  /* bytes of a block */

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, weir_last_error());              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

struct owned {
    weir_block *block;
    uint32_t owner;
};

static size_t free_bytes(void)
{
    size_t left = 0;
    size_t total = 0;
    GPU(cuMemGetInfo, &left, &total);
    return left;
}

/* Takes all but ROOM of the device's free memory, in one piece or in smaller ones. */
static size_t take_most(CUdeviceptr *pieces, size_t most)
{
    size_t count = 0;
    size_t size = free_bytes() > ROOM ? (free_bytes() - ROOM) / (2 * MIB) * (2 * MIB) : 0;
    while (size >= 2 * MIB && count < most && free_bytes() > ROOM) {
        const size_t above = free_bytes() - ROOM;
        size = size < above ? size : above / (2 * MIB) * (2 * MIB);
        if (size != 0 && gpu.cuMemAlloc(&pieces[count], size) == CU_SUCCESS) {
            count++;
        } else {
            size /= 2;
        }
    }
    return count;
}

static bool take_block(weir_pool *pool, weir_stream *stream, CUstream native, struct owned *owned, uint32_t owner)
{
    const weir_status status = weir_pool_alloc(pool, stream, SIZE, 0, &owned->block);
    MUST(status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
    if (status != WEIR_OK) {
        owned->block = NULL;
        return false;
    }
    owned->owner = owner * 2654435761u;
    gpu_write(native, weir_block_address(owned->block), SIZE / 4, owned->owner);
    return true;
}

static void give_block(weir_pool *pool, weir_stream *stream, CUstream native, struct owned *owned, CUdeviceptr counter)
{
    gpu_verify(native, weir_block_address(owned->block), SIZE / 4, owned->owner, counter);
    MUST(weir_pool_free(pool, owned->block, stream) == WEIR_OK);
    owned->block = NULL;
}

static void run(weir_device *device, uint32_t flags, const char *kind)
{
    static CUdeviceptr pieces[256];
    static struct owned blocks[most_blocks];
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_pool *pool = NULL;
    weir_stream *stream = NULL;
    CUstream native = NULL;
    CUdeviceptr counter = 0;
    uint32_t mismatches = 1;
    size_t count = 0;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = flags;
    const size_t before = free_bytes();
    GPU(cuMemAlloc, &counter, 4);
    GPU(cuStreamCreate, &native, 1);
    GPU(cuMemsetD8Async, counter, 0, 4, native);
    const size_t taken = take_most(pieces, sizeof(pieces) / sizeof(pieces[0]));
    MUST(weir_pool_create(&config, &pool) == WEIR_OK);
    MUST(weir_pool_stream(pool, native, &stream) == WEIR_OK);

    while (count < most_blocks && take_block(pool, stream, native, &blocks[count], (uint32_t)count + 1)) {
        count++;
    }
    MUST(count > 1 && count < most_blocks); /* the driver has refused */
    int code = 0;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    MUST(weir_pool_get_oom(pool, &record) == WEIR_OK && record.failure != 0);
    (void)!weir_cuda_error(&code, NULL);
    MUST(code == CU_ERROR_OUT_OF_MEMORY);

    for (size_t i = 0; i < count; i += 2) { /* a freed block's memory serves again while it is still being verified */
        give_block(pool, stream, native, &blocks[i], counter);
        MUST(take_block(pool, stream, native, &blocks[i], (uint32_t)(1000 + i)));
    }
    for (size_t i = 0; i < taken; i++) {
        GPU(cuMemFree, pieces[i]);
    }
    const size_t full = count;
    if (taken != 0) { /* the driver has memory again */
        MUST(take_block(pool, stream, native, &blocks[count], 5000));
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        give_block(pool, stream, native, &blocks[i], counter);
    }
    GPU(cuMemcpyDtoHAsync, &mismatches, counter, 4, native);
    GPU(cuStreamSynchronize, native);
    MUST(mismatches == 0);
    MUST(weir_pool_destroy(pool) == WEIR_OK);
    GPU(cuStreamDestroy, native);
    GPU(cuMemFree, counter);
    const size_t after = free_bytes();
    (void)printf("%s: %zu blocks of 24 MiB, then the driver refused; every word as written\n", kind, full);
    MUST(after + 64 * MIB >= before); /* the driver may keep some memory of its own */
}

int main(void)
{
    weir_device *device = NULL;
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    if (!gpu_open(&device)) {
        return 77;
    }
    (void)printf("%s\n", gpu_text());
    MUST(weir_device_get_info(device, &info) == WEIR_OK);
    run(device, WEIR_POOL_REGIONS, "regions");
    if ((info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) != 0) {
        run(device, 0, "virtual memory");
    }
    gpu_close(device);
    return 0;
}
