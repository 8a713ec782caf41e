/* tests/cuda/cuda/cuda_test.h: a device and a pool over the double of the driver. */
#ifndef CUDA_TEST_H
#define CUDA_TEST_H

#include "rig/test.h"

#include <fake_names.h>
#include <string.h>
#include <weir/caching.h>
#include <weir/cuda.h>
#include <weir/pool.h>

#define ok(call) assert_int_equal(call, WEIR_OK)
#define cu_ok(call) assert_int_equal(call, CU_SUCCESS)

/* The device's context is current in the test's thread. Two streams of this context do not wait for the legacy
 * stream. */
struct world {
    weir_device *device;
    weir_pool *pool;
    CUcontext context;
    CUstream native[2];
    weir_stream *stream[2];
};

static inline weir_pool *make_pool(weir_device *device, uint32_t flags)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_pool *pool = NULL;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = flags;
    ok(weir_pool_create(&config, &pool));
    return pool;
}

static inline struct world make_world(uint32_t pool_flags)
{
    struct world w = {.device = NULL};
    weir_cuda_device_info info = WEIR_CUDA_DEVICE_INFO_INIT;
    fake_cuda_start(256 * MIB, 0);
    ok(weir_cuda_device_create(NULL, &w.device));
    ok(weir_cuda_device_get_info(w.device, &info));
    w.context = info.context;
    cu_ok(cuCtxPushCurrent(w.context));
    w.pool = make_pool(w.device, pool_flags);
    for (int i = 0; i < 2; i++) {
        cu_ok(cuStreamCreate(&w.native[i], 1));
        ok(weir_pool_stream(w.pool, w.native[i], &w.stream[i]));
    }
    return w;
}

static inline void end_world(struct world *w)
{
    CUcontext popped = NULL;
    const char *why = "";
    assert_int_equal(weir_pool_check(w->pool, &why), WEIR_OK);
    ok(weir_pool_destroy(w->pool));
    for (int i = 0; i < 2; i++) {
        cu_ok(cuStreamDestroy(w->native[i]));
    }
    cu_ok(cuCtxPopCurrent(&popped));
    ok(weir_device_destroy(w->device));
    assert_int_equal(fake_cuda_depth(), 0);
    assert_int_equal(fake_cuda_retained(), 0);
    assert_int_equal(fake_cuda_findings(true), 0);
}

static inline CUdeviceptr address_of(const weir_block *block)
{
    return weir_block_address(block);
}

#endif
