/* fault_test.c: the driver fails for a time: from each call of a scenario on, in all calls or in those of one function.
 *
 * The scenario uses all of weir::cuda. It repeats a failed call, and accepts only results that weir may return. At the
 * end all memory must be back, and the thread's contexts and its capture mode must be as before. With
 * WEIR_FAULT_STEP=n in the environment, outages begin at every n-th call.
 */
#include "rig/retry.h"
#include "rig/seeds.h"
#include "cuda_test.h"

#include <limits.h>
#include <stdio.h>
#include <weir/host.h>

static unsigned wrongs;
static weir_device *device;
static weir_topology *topology; /* of all host pools: to read it takes longer than the rest of a scenario */

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

static void use_pool(uint32_t flags)
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
    /* the pool is gone after a failure too, and the device remembers what it held */
    const weir_status status = pool != NULL ? weir_pool_destroy(pool) : WEIR_OK;
    if (status != WEIR_OK && !may_fail_with(status)) {
        wrong("weir_pool_destroy", status);
    }
}

static void use_host_pool(weir_host_kind kind)
{
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    void *memory = NULL;
    TRY(weir_cuda_host_runtime(device, &runtime));
    if (topology == NULL) {
        ok(weir_topology_create(NULL, &topology));
    }
    config.runtime = &runtime;
    config.topology = topology;
    config.kinds = 1u << kind;
    TRY(weir_host_pool_create(&config, &pool));
    if (pool != NULL) {
        const weir_status status = weir_host_alloc(pool, 100000, WEIR_HOST_THREAD_NODE, &memory);
        if (status != WEIR_OK && !may_fail_with(status)) { /* after a failure the pool refuses for a while */
            wrong("weir_host_alloc", status);
        }
        if (memory != NULL) {
            TRY(weir_host_free_after(pool, memory, NULL));
        }
        (void)!weir_host_pool_destroy(pool); /* the pool is gone after a failure too, and the device remembers it */
    }
}

/* Ends what the last scenario could not end. */
static void recover(void)
{
    weir_device *next = NULL;
    if (weir_device_destroy(device) != WEIR_OK || weir_cuda_device_create(NULL, &next) != WEIR_OK ||
        weir_device_destroy(next) != WEIR_OK) {
        wrong("the end of a device", 0);
    }
    device = NULL;
}

static void scenario(void)
{
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
    use_pool(WEIR_POOL_REGIONS);
    use_pool(0);
    use_host_pool(WEIR_HOST_RUNTIME);
    use_host_pool(WEIR_HOST_REGISTERED);
    TRY_CUDA(cuCtxPopCurrent(&popped));
    const weir_status ended = weir_device_destroy(device);
    device = ended == WEIR_OK ? NULL : device;
}

/* Plays the scenario with an outage: `count` calls of `function`, from call `first` on, fail. Then the driver works
 * again. Returns false if a result was wrong, or if memory or contexts are left. */
static bool play(const char *function, unsigned first, unsigned count, bool *struck)
{
    const bool lasting = count == UINT_MAX;
    fake_cuda_outage(function, first, count, first % 2 == 0 ? CU_ERROR_INVALID_HANDLE : CU_ERROR_OUT_OF_MEMORY);
    wrongs = 0;
    scenario();
    (void)fake_cuda_calls(struck);
    fake_cuda_outage(NULL, 0, 0, CU_SUCCESS);
    recover();
    /* a scenario that was refused for good has left its own streams and events */
    const bool clean = lasting || (!given_up && fake_cuda_depth() == 0 && fake_cuda_findings(true) == 0 &&
                                   fake_cuda_capture_mode() == CU_CAPTURE_MODE_GLOBAL);
    if (clean && fake_cuda_held_bytes(0) == 0 && fake_cuda_retained() == 0 && fake_cuda_findings(false) == 0 &&
        wrongs == 0) {
        return true;
    }
    (void)fprintf(stderr, "%u calls of \"%s\" from %u on: held %llu, retained %u, depth %u, wrong %u, given up %d\n",
                  count, function, first, (unsigned long long)fake_cuda_held_bytes(0), fake_cuda_retained(),
                  fake_cuda_depth(), wrongs, given_up);
    fake_cuda_start(64 * MIB, 0);
    return false;
}

/* Outages of 1 to 4 calls and of one more, drawn from the number of the first call. */
static unsigned outages_from(const char *function, unsigned first, bool *struck)
{
    unsigned failures = 0;
    for (unsigned count = 1; count <= 4; count++) {
        failures += !play(function, first, count, struck);
    }
    return failures + !play(function, first, 5 + first * 2654435761u % 3, struck);
}

TEST(test_outages_of_the_driver)
{
    unsigned failures = 0;
    unsigned first = 1;
    bool struck = false;
    const unsigned step = (unsigned)seeds_read("WEIR_FAULT_STEP", 1);
    fake_cuda_start(64 * MIB, 0);
    assert_true(step > 0 && play("", 0, 0, &struck) && !struck);
    for (struck = true; struck; first += step) {
        failures += outages_from("", first, &struck);
    }
    print_message("outages from each of %u calls on, one in %u tried\n", first - step - 1, step);
    assert_true(first > 300);
    assert_int_equal(failures, 0);
}

#define NAME(name, suffix, parameters) #name,
static const char *const functions[] = {WEIR_CUDA_DRIVER_LIST(NAME)};
#undef NAME

/* The first call of each function is always among them: a step would leave out functions that are called once. */
TEST(test_outages_of_one_function)
{
    unsigned failures = 0;
    const unsigned step = (unsigned)seeds_read("WEIR_FAULT_STEP", 1);
    fake_cuda_start(64 * MIB, 0);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        bool struck = true;
        for (unsigned first = 1; struck; first = first == 1 ? 2 + (unsigned)i % step : first + step) {
            failures += outages_from(functions[i], first, &struck);
        }
    }
    assert_int_equal(failures, 0);
}

/* No run may crash or use memory too early while a function fails in every call, and memory is back when it works. */
TEST(test_each_function_fails_for_long)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        for (unsigned from = 1; from <= 9; from += 4) {
            bool struck = false;
            fake_cuda_start(64 * MIB, 0);
            if (!play(functions[i], from, UINT_MAX, &struck)) {
                fail_msg("%s failed from call %u on", functions[i], from);
            }
        }
    }
}
