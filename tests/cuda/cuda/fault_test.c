/* fault_test.c: each call of the driver fails once, in turn; then each function fails in every call.
 *
 * The scenario uses all of weir::cuda. It repeats a failed call, and accepts only results that weir may return. At the
 * end all memory must be back, and the thread's contexts and its capture mode must be as before.
 */
#include "rig/retry.h"
#include "rig/seeds.h"
#include "cuda_test.h"

#include <stdio.h>
#include <weir/host.h>

static unsigned wrongs;

static void wrong(const char *what, int result)
{
    (void)fprintf(stderr, "%s gave %d: %s\n", what, result, weir_last_error());
    wrongs++;
}

#define TRY_CUDA(call) TRY_NATIVE(call)

static void work(weir_pool *pool, CUstream native, int rounds)
{
    weir_stream *stream = NULL;
    TRY(weir_pool_stream(pool, native, &stream));
    for (int i = 0; stream != NULL && i < rounds; i++) {
        weir_block *block = NULL;
        TRY(weir_pool_alloc(pool, stream, (uint64_t)(1 + i % 3) * 3700 * 1024, 0, &block));
        if (block != NULL) {
            TRY_CUDA(cuMemsetD8Async(address_of(block), 1, 4096, native));
            TRY(weir_pool_free(pool, block, stream));
        }
    }
}

static void use_hints(weir_pool *pool, CUstream first, CUstream second)
{
    CUevent event = NULL;
    bool complete = false;
    TRY_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (event != NULL) {
        TRY(weir_cuda_record_event(pool, event, first));
        TRY(weir_cuda_stream_wait_event(pool, second, event));
        TRY(weir_cuda_query_event(pool, event, &complete));
        TRY(weir_cuda_sync_event(pool, event));
        TRY(weir_cuda_destroy_event(pool, event));
    }
    TRY(weir_cuda_sync_stream(pool, second));
}

static void use_pool(weir_device *device, uint32_t flags)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_pool *pool = NULL;
    CUstream native[2] = {NULL, NULL};
    const char *why = "";
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = flags;
    TRY(weir_pool_create(&config, &pool));
    TRY_CUDA(cuStreamCreate(&native[0], 1));
    TRY_CUDA(cuStreamCreate(&native[1], 1));
    if (pool != NULL && native[0] != NULL && native[1] != NULL) {
        work(pool, native[0], 4);
        work(pool, native[1], 4);
        use_hints(pool, native[0], native[1]);
        work(pool, native[1], 3);
        TRY(weir_pool_trim(pool, 0, WEIR_TRIM_WAIT, NULL));
        work(pool, native[0], 3);
        if (weir_pool_check(pool, &why) == WEIR_ERR_INTERNAL) {
            wrong(why, WEIR_ERR_INTERNAL);
        }
        TRY(weir_cuda_destroy_stream(pool, native[0]));
    }
    const weir_status status = pool != NULL ? weir_pool_destroy(pool) : WEIR_OK;
    if (status != WEIR_OK && !may_fail_with(status)) {
        wrong("weir_pool_destroy", status);
    }
    given_up |= status != WEIR_OK;
}

static void use_host_pool(weir_device *device, weir_host_kind kind)
{
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    void *memory = NULL;
    TRY(weir_cuda_host_runtime(device, &runtime));
    config.runtime = &runtime;
    config.kinds = 1u << kind;
    TRY(weir_host_pool_create(&config, &pool));
    if (pool != NULL) {
        TRY(weir_host_alloc(pool, 100000, WEIR_HOST_THREAD_NODE, &memory));
        if (memory != NULL) {
            TRY(weir_host_free_after(pool, memory, NULL));
        }
        given_up |= weir_host_pool_destroy(pool) != WEIR_OK; /* the pool is gone after a failure too */
    }
}

static void scenario(void)
{
    weir_device *device = NULL;
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    weir_cuda_device_info facts = WEIR_CUDA_DEVICE_INFO_INIT;
    CUcontext popped = NULL;
    given_up = false;
    TRY(weir_cuda_device_create(NULL, &device));
    if (device == NULL || weir_device_get_info(device, &info) != WEIR_OK ||
        weir_cuda_device_get_info(device, &facts) != WEIR_OK) {
        return;
    }
    TRY_CUDA(cuCtxPushCurrent(facts.context));
    use_pool(device, 0);
    if ((info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) != 0) {
        use_pool(device, WEIR_POOL_VIRTUAL_MEMORY);
    }
    use_host_pool(device, WEIR_HOST_RUNTIME);
    use_host_pool(device, WEIR_HOST_REGISTERED);
    TRY_CUDA(cuCtxPopCurrent(&popped));
    given_up |= weir_device_destroy(device) != WEIR_OK;
}

/* Plays the scenario. Returns false if a result was wrong, or if memory or contexts are left after it. */
static bool play(const char *function, unsigned nth, bool lasting, bool *struck)
{
    fake_cuda_start(64 * MIB, 0);
    fake_cuda_fail(function, nth, lasting ? CU_ERROR_INVALID_HANDLE : CU_ERROR_OUT_OF_MEMORY, lasting);
    wrongs = 0;
    scenario();
    (void)fake_cuda_calls(struck);
    const bool clean = given_up || lasting ||
                       (fake_cuda_held_bytes(0) == 0 && fake_cuda_retained() == 0 && fake_cuda_depth() == 0 &&
                        fake_cuda_capture_mode() == CU_CAPTURE_MODE_GLOBAL && fake_cuda_findings(true) == 0);
    const bool sound = fake_cuda_findings(false) == 0;
    if (!clean || (!given_up && !sound) || wrongs != 0) {
        (void)fprintf(stderr, "call %u of \"%s\": held %llu, retained %u, depth %u, wrong %u\n", nth, function,
                      (unsigned long long)fake_cuda_held_bytes(0), fake_cuda_retained(), fake_cuda_depth(), wrongs);
        return false;
    }
    return true;
}

TEST(test_each_call_fails_once)
{
    unsigned failures = 0;
    unsigned refused = 0;
    unsigned n = 1;
    bool struck = false;
    const unsigned step = (unsigned)seeds_read("WEIR_FAULT_STEP", 1);
    assert_true(step > 0 && play("", 0, false, &struck) && !given_up);
    for (struck = true; struck; n += step) {
        failures += !play("", n, false, &struck);
        refused += given_up;
    }
    print_message("%u calls, one in %u failed; after %u of them something was refused for good\n", n - step - 1, step,
                  refused);
    assert_true(n > 300);
    assert_true(refused * step < n / 10 + 10 * (step - 1));
    assert_int_equal(failures, 0);
}

/* If the driver never takes memory back, memory may be left; but no run may crash or use memory too early. */
TEST(test_each_function_fails_for_good)
{
#define NAME(name, suffix, parameters) #name,
    static const char *const functions[] = {WEIR_CUDA_DRIVER_LIST(NAME)};
#undef NAME
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        for (unsigned from = 1; from <= 9; from += 4) {
            bool struck = false;
            assert_true(play(functions[i], from, true, &struck));
            if (fake_cuda_findings(false) != 0) { /* leaks are not counted */
                fail_msg("%s failed from call %u on", functions[i], from);
            }
        }
    }
}
