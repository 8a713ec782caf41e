/* device_test.c: the CUDA device beyond the contract of devices: the driver and the kind of handles it takes,
 * contexts and capture modes of threads, peers, captures, hints, host memory, refusals. */
#include "cuda_test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <weir/host.h>

static void expect_sentence(const char *beginning, const char *part)
{
    const char *sentence = weir_last_error();
    const char *text = NULL;
    if (strncmp(sentence, beginning, strlen(beginning)) != 0 || strstr(sentence, part) == NULL) {
        fail_msg("\"%s\" does not begin with \"%s\" and have \"%s\"", sentence, beginning, part);
    }
    ok(weir_cuda_error(NULL, &text));
    assert_string_equal(text, sentence);
}

#define refuses(status, call, beginning, part)                                                                         \
    do {                                                                                                               \
        assert_int_equal(call, status);                                                                                \
        expect_sentence(beginning, part);                                                                              \
    } while (0)
#define BAD WEIR_ERR_INVALID
#define NONE WEIR_ERR_UNSUPPORTED

static const char creating[] = "weir_cuda_device_create: ";

/* --- loading the driver: these tests come first, because a process opens the driver once --- */

TEST(test_unusable_drivers)
{
    weir_device *device = NULL;
    fake_cuda_start(0, FAKE_CUDA_OLD);
    refuses(NONE, weir_cuda_device_create(NULL, &device), creating, "supports CUDA 10.2, and weir needs 11.3");
    fake_cuda_start(0, FAKE_CUDA_NO_GPU);
    refuses(NONE, weir_cuda_device_create(NULL, &device), creating, "cuInit gave 100 CUDA_ERROR_NO_DEVICE");
    assert_null(device);
    fake_cuda_start(0, 0);
    ok(weir_cuda_device_create(NULL, &device)); /* a failure is not for good */
    ok(weir_device_destroy(device));
}

/* --- kinds of handles --- */

TEST(test_chain_of_handle_types)
{
    static const struct {
        unsigned lacks;
        weir_cuda_handle_type type;
        bool rdma;
        bool virtual_memory;
    } cases[] = {
        {0, WEIR_CUDA_HANDLE_FABRIC, true, true},
        {FAKE_CUDA_NO_RDMA, WEIR_CUDA_HANDLE_FABRIC, false, true},
        {FAKE_CUDA_RDMA_REFUSED, WEIR_CUDA_HANDLE_FABRIC, false, true},
        {FAKE_CUDA_NO_FABRIC, WEIR_CUDA_HANDLE_FILE, true, true},
        {FAKE_CUDA_FABRIC_REFUSED, WEIR_CUDA_HANDLE_FILE, true, true},
        {FAKE_CUDA_FABRIC_REFUSED | FAKE_CUDA_RDMA_REFUSED, WEIR_CUDA_HANDLE_FILE, false, true},
        {FAKE_CUDA_NO_FABRIC | FAKE_CUDA_NO_FILE, WEIR_CUDA_HANDLE_NONE, true, true},
        {FAKE_CUDA_NO_FABRIC | FAKE_CUDA_NO_FILE | FAKE_CUDA_NO_RDMA, WEIR_CUDA_HANDLE_NONE, false, true},
        {FAKE_CUDA_NO_VIRTUAL_MEMORY, WEIR_CUDA_HANDLE_NONE, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weir_device *device = NULL;
        weir_device_info info = WEIR_DEVICE_INFO_INIT;
        weir_cuda_device_info facts = WEIR_CUDA_DEVICE_INFO_INIT;
        fake_cuda_start(0, cases[i].lacks);
        ok(weir_cuda_device_create(NULL, &device));
        ok(weir_cuda_device_get_info(device, &facts));
        ok(weir_device_get_info(device, &info));
        assert_int_equal(facts.handle_type, cases[i].type);
        assert_int_equal(facts.rdma_capable, cases[i].rdma);
        assert_int_equal((info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) != 0, cases[i].virtual_memory);
        assert_int_equal(fake_cuda_held_bytes(0), 0);
        ok(weir_device_destroy(device));
        assert_int_equal(fake_cuda_findings(true), 0);
    }
}

/* The driver announces virtual memory and supports no handle of it. */
TEST(test_virtual_memory_that_the_driver_refuses)
{
    weir_device *device = NULL;
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    weir_cuda_device_config config = WEIR_CUDA_DEVICE_CONFIG_INIT;
    fake_cuda_start(0, 0);
    fake_cuda_fail("cuMemCreate", 1, CU_ERROR_NOT_SUPPORTED, true);
    ok(weir_cuda_device_create(&config, &device));
    ok(weir_device_get_info(device, &info));
    assert_int_equal(info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY, 0);
    ok(weir_device_destroy(device));
    config.handle_type = WEIR_CUDA_HANDLE_FILE;
    assert_int_equal(weir_cuda_device_create(&config, &device), WEIR_ERR_UNSUPPORTED);
    fake_cuda_fail("", 0, CU_SUCCESS, false);
}

TEST(test_a_handle_type_that_was_asked_for)
{
    weir_device *device = NULL;
    weir_cuda_device_info facts = WEIR_CUDA_DEVICE_INFO_INIT;
    weir_cuda_device_config config = WEIR_CUDA_DEVICE_CONFIG_INIT;
    config.handle_type = WEIR_CUDA_HANDLE_FILE;
    fake_cuda_start(0, 0);
    ok(weir_cuda_device_create(&config, &device));
    ok(weir_cuda_device_get_info(device, &facts));
    assert_int_equal(facts.handle_type, WEIR_CUDA_HANDLE_FILE);
    assert_string_equal(facts.pci_bus_id, "0000:01:00.0");
    assert_int_equal(facts.driver_version, 12040);
    ok(weir_device_destroy(device));
    fake_cuda_start(0, FAKE_CUDA_NO_FILE);
    refuses(NONE, weir_cuda_device_create(&config, &device), creating, "handle_type 2");
    fake_cuda_start(0, FAKE_CUDA_NO_VIRTUAL_MEMORY);
    assert_int_not_equal(weir_cuda_device_create(&config, &device), WEIR_OK);
    assert_int_equal(fake_cuda_retained(), 0);
}

/* --- contexts --- */

TEST(test_threads_keep_their_context_and_capture_mode)
{
    weir_device *device = NULL;
    CUcontext other = NULL;
    CUcontext current = NULL;
    uint64_t address = 0;
    weir_event *event = NULL;
    bool complete = false;
    fake_cuda_start(0, 0);
    ok(weir_cuda_device_create(NULL, &device));
    assert_int_equal(fake_cuda_retained(), 1);
    /* round 0: the thread has no current context; round 1: a context of the other device is current */
    for (int round = 0; round < 2; round++) {
        if (round == 1) {
            cu_ok(cuCtxCreate(&other, 0, 1));
        }
        ok(weir_device_region_alloc(device, 2 * MIB, &address));
        ok(weir_device_event_create(device, &event));
        ok(weir_device_event_record(device, event, NULL));
        ok(weir_device_event_query(device, event, &complete));
        ok(weir_device_stream_sync(device, NULL));
        ok(weir_device_event_destroy(device, event));
        ok(weir_device_region_free(device, address, 2 * MIB));
        cu_ok(cuCtxGetCurrent(&current));
        assert_ptr_equal(current, other);
        assert_int_equal(fake_cuda_depth(), round);
        assert_int_equal(fake_cuda_capture_mode(), CU_CAPTURE_MODE_GLOBAL);
    }
    assert_int_equal(fake_cuda_held_bytes(1), 0);
    cu_ok(cuCtxDestroy(other));
    ok(weir_device_destroy(device));
    assert_int_equal(fake_cuda_retained(), 0);
}

TEST(test_a_context_of_the_program)
{
    weir_device *device = NULL;
    weir_device *primary = NULL;
    CUcontext own = NULL;
    CUstream native = NULL;
    weir_stream *stream = NULL;
    weir_cuda_device_info facts = WEIR_CUDA_DEVICE_INFO_INIT;
    weir_cuda_device_config config = WEIR_CUDA_DEVICE_CONFIG_INIT;
    config.flags = WEIR_CUDA_CURRENT_CONTEXT;
    fake_cuda_start(0, 0);
    refuses(BAD, weir_cuda_device_create(&config, &device), creating, "this thread has no context");
    cu_ok(cuCtxCreate(&own, 0, 1));
    refuses(BAD, weir_cuda_device_create(&config, &device), creating,
            "ordinal is 0, and the current context is of device 1");
    config.ordinal = 1;
    ok(weir_cuda_device_create(&config, &device));
    ok(weir_cuda_device_get_info(device, &facts));
    assert_ptr_equal(facts.context, own);
    assert_int_equal(fake_cuda_retained(), 0);

    /* A pool on the primary context refuses a stream of another context of the same device. */
    config.flags = 0;
    ok(weir_cuda_device_create(&config, &primary));
    cu_ok(cuStreamCreate(&native, 1));
    weir_pool *pool = make_pool(primary, 0);
    refuses(BAD, weir_pool_stream(pool, native, &stream), "weir_pool_stream: ", "is of context");
    refuses(BAD, weir_pool_stream(pool, (void *)2, &stream), "weir_pool_stream: ", "CU_STREAM_PER_THREAD");
    refuses(BAD, weir_cuda_sync_stream(pool, native), "weir_cuda_sync_stream: ", "is of context");
    ok(weir_pool_destroy(pool));
    pool = make_pool(device, 0);
    ok(weir_pool_stream(pool, native, &stream));
    ok(weir_pool_destroy(pool));
    cu_ok(cuStreamDestroy(native));
    ok(weir_device_destroy(primary));
    ok(weir_device_destroy(device));
    cu_ok(cuCtxDestroy(own));
}

/* --- access --- */

TEST(test_access_of_peers)
{
    static const int32_t peers[] = {1};
    weir_cuda_device_config config = WEIR_CUDA_DEVICE_CONFIG_INIT;
    for (size_t count = 0; count < 4; count++) {
        weir_device *device = NULL;
        uint64_t base = 0;
        weir_vm_handle handle = 0;
        config.peers = peers;
        config.peer_count = count % 2;
        config.flags = count >= 2 ? (uint32_t)WEIR_CUDA_ALL_PEERS : 0; /* with a peer that is named as well */
        fake_cuda_start(0, 0);
        ok(weir_cuda_device_create(&config, &device));
        ok(weir_device_vm_reserve(device, 2 * MIB, &base));
        ok(weir_device_vm_create(device, 2 * MIB, &handle));
        ok(weir_device_vm_map(device, base, 2 * MIB, handle));
        assert_true(fake_cuda_reaches(0, base, 2 * MIB));
        assert_int_equal(fake_cuda_reaches(1, base, 2 * MIB), count > 0);
        ok(weir_device_vm_unmap(device, base, 2 * MIB));

        fake_cuda_fail("cuMemSetAccess", 1, CU_ERROR_OUT_OF_MEMORY, false); /* after the failure nothing stays mapped */
        assert_int_equal(weir_device_vm_map(device, base, 2 * MIB, handle), WEIR_ERR_NO_MEMORY);
        int code = 0;
        ok(weir_cuda_error(&code, NULL));
        assert_int_equal(code, CU_ERROR_OUT_OF_MEMORY);
        expect_sentence("cuMemSetAccess: 2 CUDA_ERROR_OUT_OF_MEMORY, ", "out of memory");
        ok(weir_device_vm_map(device, base, 2 * MIB, handle));
        ok(weir_device_vm_unmap(device, base, 2 * MIB));
        ok(weir_device_vm_destroy(device, handle));
        ok(weir_device_vm_release(device, base, 2 * MIB));
        ok(weir_device_destroy(device));
        assert_int_equal(fake_cuda_findings(true), 0);
    }
}

/* --- captures --- */

static weir_block *alloc(weir_pool *pool, weir_stream *stream, uint64_t size)
{
    weir_block *block = NULL;
    ok(weir_pool_alloc(pool, stream, size, 0, &block));
    return block;
}

TEST(test_a_pool_serves_during_a_capture)
{
    for (int pages = 0; pages < 2; pages++) {
        struct world w = make_world(pages != 0 ? 0 : (uint32_t)WEIR_POOL_REGIONS);
        void *graph = NULL;
        weir_block *before = alloc(w.pool, w.stream[1], 8 * MIB);
        cu_ok(fake_cuda_work(w.native[1], 1000000, address_of(before), 8 * MIB, NULL, NULL));
        ok(weir_pool_free(w.pool, before, w.stream[1]));
        cu_ok(cuStreamBeginCapture(w.native[0], CU_CAPTURE_MODE_GLOBAL));
        weir_block *blocks[8];
        /* more memory than the device has, so the pool makes device calls, polls and waits */
        for (size_t i = 0; i < 8; i++) {
            blocks[i] = alloc(w.pool, w.stream[i % 2], (4 + 4 * i) * MIB);
            cu_ok(cuMemsetD8Async(address_of(blocks[i]), 1, MIB, w.native[i % 2]));
        }
        for (size_t i = 0; i < 8; i++) {
            ok(weir_pool_free(w.pool, blocks[i], w.stream[i % 2]));
        }
        (void)!weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL);
        cu_ok(cuStreamEndCapture(w.native[0], &graph)); /* the capture is whole */
        cu_ok(cuGraphDestroy(graph));
        ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
        assert_int_equal(fake_cuda_held_bytes(0), 0);
        end_world(&w);
    }
}

TEST(test_a_captured_stream_is_not_touched)
{
    struct world w = make_world(0);
    CUstream blocking = NULL;
    weir_event *event = NULL;
    weir_event *foreign = NULL;
    bool complete = false;
    void *graph = NULL;
    ok(weir_device_event_create(w.device, &event));
    ok(weir_device_event_create(w.device, &foreign));
    ok(weir_device_event_record(w.device, foreign, w.native[1]));
    cu_ok(cuStreamCreate(&blocking, 0));
    for (int round = 0; round < 2; round++) {
        void *captured = round == 0 ? w.native[0] : blocking;
        /* round 1: the legacy stream, because a blocking stream waits for it implicitly */
        void *forbidden = round == 0 ? w.native[0] : NULL;
        cu_ok(cuStreamBeginCapture(captured, CU_CAPTURE_MODE_GLOBAL));
        refuses(NONE, weir_device_event_record(w.device, event, forbidden), "weir_device_event_record: ", "captured");
        refuses(NONE, weir_device_stream_wait_event(w.device, forbidden, foreign),
                "weir_device_stream_wait_event: ", "captured");
        refuses(NONE, weir_device_stream_sync(w.device, forbidden), "weir_device_stream_sync: ", "captured");
        ok(weir_device_event_query(w.device, foreign, &complete));
        ok(weir_device_event_sync(w.device, foreign));
        cu_ok(cuStreamEndCapture(captured, &graph));
        cu_ok(cuGraphDestroy(graph));
    }
    ok(weir_device_event_record(w.device, event, w.native[0]));
    ok(weir_device_event_destroy(w.device, event));
    ok(weir_device_event_destroy(w.device, foreign));
    cu_ok(cuStreamDestroy(blocking));
    end_world(&w);
}

/* --- failures --- */

static void note_end(void *ctx)
{
    atomic_store((atomic_bool *)ctx, true);
}

TEST(test_waits_are_made_and_failures_told)
{
    struct world w = make_world(0);
    weir_event *event = NULL;
    CUevent own = NULL;
    bool complete = true;
    atomic_bool ended = false;
    ok(weir_device_event_create(w.device, &event));
    ok(weir_device_event_record(w.device, event, w.native[0]));
    fake_cuda_fail("cuEventQuery", 1, CU_ERROR_INVALID_HANDLE, false);
    assert_int_equal(weir_device_event_query(w.device, event, &complete), WEIR_ERR_DEVICE);
    ok(weir_device_event_destroy(w.device, event));

    /* A stream whose capture state is unknown is waited for. */
    cu_ok(fake_cuda_work(w.native[0], 1000000, 0, 0, note_end, &ended));
    fake_cuda_fail("cuStreamGetCaptureInfo_v2", 1, CU_ERROR_INVALID_HANDLE, false);
    ok(weir_device_stream_sync(w.device, w.native[0]));
    assert_true(atomic_load(&ended));

    atomic_store(&ended, false);
    cu_ok(cuEventCreate(&own, CU_EVENT_DISABLE_TIMING));
    cu_ok(fake_cuda_work(w.native[0], 1000000, 0, 0, note_end, &ended));
    cu_ok(cuEventRecord(own, w.native[0]));
    ok(weir_cuda_sync_event(w.pool, own));
    assert_true(atomic_load(&ended));
    cu_ok(cuEventDestroy(own));
    end_world(&w);
}

/* --- hints --- */

/* Frees a block with work on stream 0, optionally orders stream 1 after this work, and allocates a block of the same
 * size on stream 1. Returns true if both blocks have the same address. */
static bool reused_after(struct world *w, CUevent event, bool hinted)
{
    weir_block *block = alloc(w->pool, w->stream[0], 8 * MIB);
    const CUdeviceptr address = address_of(block);
    cu_ok(fake_cuda_work(w->native[0], UINT64_C(1) << 40, address, 8 * MIB, NULL, NULL));
    ok(weir_pool_free(w->pool, block, w->stream[0]));
    if (hinted) {
        ok(weir_cuda_record_event(w->pool, event, w->native[0]));
        ok(weir_cuda_stream_wait_event(w->pool, w->native[1], event));
    }
    block = alloc(w->pool, w->stream[1], 8 * MIB);
    cu_ok(cuMemsetD8Async(address_of(block), 1, 8 * MIB, w->native[1]));
    const bool reused = address_of(block) == address;
    ok(weir_pool_free(w->pool, block, w->stream[1]));
    ok(weir_cuda_sync_stream(w->pool, w->native[0]));
    ok(weir_cuda_sync_stream(w->pool, w->native[1]));
    ok(weir_pool_trim(w->pool, 0, WEIR_TRIM_WAIT, NULL));
    return reused;
}

TEST(test_hints)
{
    fake_cuda_start(0, 0);
    struct world w = {.device = NULL};
    weir_cuda_device_info info = WEIR_CUDA_DEVICE_INFO_INIT;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    CUevent event = NULL;
    CUcontext popped = NULL;
    bool complete = false;
    ok(weir_cuda_device_create(NULL, &w.device));
    ok(weir_cuda_device_get_info(w.device, &info));
    cu_ok(cuCtxPushCurrent(info.context));
    config.device = w.device;
    config.strategy = weir_caching_strategy();
    /* the pool prefers growth, so it reuses memory across streams only if it knows an order */
    config.growth = WEIR_GROWTH_GROW_FIRST;
    ok(weir_pool_create(&config, &w.pool));
    for (int i = 0; i < 2; i++) {
        cu_ok(cuStreamCreate(&w.native[i], 1));
        ok(weir_pool_stream(w.pool, w.native[i], &w.stream[i]));
    }
    cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_false(reused_after(&w, event, false));
    assert_true(reused_after(&w, event, true));
    ok(weir_cuda_query_event(w.pool, event, &complete));
    assert_true(complete);
    ok(weir_cuda_sync_event(w.pool, event));

    /* During a capture the hints make their driver calls, but the pool assumes no order from them: the captured work
     * has not run. */
    void *graph = NULL;
    weir_block *block = alloc(w.pool, w.stream[0], 8 * MIB);
    const CUdeviceptr address = address_of(block);
    cu_ok(fake_cuda_work(w.native[0], UINT64_C(1) << 40, address, 8 * MIB, NULL, NULL));
    ok(weir_pool_free(w.pool, block, w.stream[0]));
    cu_ok(cuStreamBeginCapture(w.native[0], CU_CAPTURE_MODE_THREAD));
    ok(weir_cuda_record_event(w.pool, event, w.native[0]));
    ok(weir_cuda_stream_wait_event(w.pool, w.native[1], event));
    cu_ok(cuStreamEndCapture(w.native[0], &graph));
    cu_ok(cuGraphDestroy(graph));
    block = alloc(w.pool, w.stream[1], 8 * MIB);
    assert_true(address_of(block) != address);
    ok(weir_pool_free(w.pool, block, w.stream[1]));

    ok(weir_cuda_destroy_event(w.pool, event));
    ok(weir_cuda_destroy_stream(w.pool, w.native[0]));
    ok(weir_cuda_destroy_stream(w.pool, w.native[1]));
    ok(weir_pool_destroy(w.pool));
    cu_ok(cuCtxPopCurrent(&popped));
    ok(weir_device_destroy(w.device));
    assert_int_equal(fake_cuda_findings(true), 0);
}

/* --- host memory --- */

static void use_host_pool(unsigned lacks, uint32_t kinds, weir_host_kind wanted)
{
    weir_device *device = NULL;
    weir_host_pool *pool = NULL;
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_info info = WEIR_HOST_INFO_INIT;
    void *memory = NULL;
    fake_cuda_start(0, lacks);
    ok(weir_cuda_device_create(NULL, &device));
    ok(weir_cuda_host_runtime(device, &runtime));
    config.runtime = &runtime;
    config.kinds = kinds;
    ok(weir_host_pool_create(&config, &pool));
    ok(weir_host_alloc(pool, 100000, WEIR_HOST_THREAD_NODE, &memory));
    ok(weir_host_query(pool, memory, &info));
    assert_int_equal(info.kind, wanted);
    memset(memory, 1, 100000);
    ok(weir_host_free_after(pool, memory, NULL));
    ok(weir_host_pool_destroy(pool));
    ok(weir_device_destroy(device));
    assert_int_equal(fake_cuda_findings(true), 0);
}

TEST(test_host_memory)
{
    const uint32_t both = 1u << WEIR_HOST_RUNTIME | 1u << WEIR_HOST_REGISTERED;
    use_host_pool(0, both, WEIR_HOST_RUNTIME);
    use_host_pool(0, 1u << WEIR_HOST_REGISTERED, WEIR_HOST_REGISTERED);
    use_host_pool(FAKE_CUDA_ODD_HOST, both, WEIR_HOST_REGISTERED);
}

/* --- refusals --- */

TEST(test_refusals)
{
    struct world w = make_world(0);
    weir_device *device = NULL;
    weir_cuda_device_config config = WEIR_CUDA_DEVICE_CONFIG_INIT;
    weir_cuda_device_info facts = WEIR_CUDA_DEVICE_INFO_INIT;
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    static const int32_t peers[] = {1, 9};
    bool complete = false;
    char nothing = 0;
    refuses(BAD, weir_cuda_device_create(NULL, NULL), creating, "device is NULL");
    config.ordinal = -1;
    refuses(BAD, weir_cuda_device_create(&config, &device), creating, "ordinal is -1");
    config.ordinal = 2;
    refuses(BAD, weir_cuda_device_create(&config, &device), creating, "ordinal is 2, and there are 2 devices");
    config.ordinal = 0;
    config.flags = 1u << 9;
    refuses(BAD, weir_cuda_device_create(&config, &device), creating, "flags 0x200");
    config.flags = 0;
    config.handle_type = (weir_cuda_handle_type)7;
    refuses(BAD, weir_cuda_device_create(&config, &device), creating, "handle_type 7");
    config.handle_type = WEIR_CUDA_HANDLE_BEST;
    config.peer_count = 2;
    refuses(BAD, weir_cuda_device_create(&config, &device), creating, "peers is");
    config.peers = peers;
    refuses(BAD, weir_cuda_device_create(&config, &device), creating, "peers[1] is 9");
    config.struct_size = 2;
    refuses(BAD, weir_cuda_device_create(&config, &device), creating, "config");
    refuses(BAD, weir_cuda_device_get_info(NULL, &facts), "weir_cuda_device_get_info: ", "device is NULL");
    refuses(BAD, weir_cuda_device_get_info((weir_device *)(void *)&nothing, &facts),
            "weir_cuda_device_get_info: ", "device is not of");
    refuses(BAD, weir_cuda_device_get_info(w.device, NULL), "weir_cuda_device_get_info: ", "info");
    refuses(BAD, weir_cuda_host_runtime(NULL, &runtime), "weir_cuda_host_runtime: ", "device is NULL");
    refuses(BAD, weir_cuda_host_runtime(w.device, NULL), "weir_cuda_host_runtime: ", "runtime is NULL");
    refuses(BAD, weir_cuda_record_event(NULL, &nothing, NULL), "weir_cuda_record_event: ", "pool is NULL");
    refuses(BAD, weir_cuda_record_event(w.pool, NULL, NULL), "weir_cuda_record_event: ", "event is NULL");
    refuses(BAD, weir_cuda_stream_wait_event(w.pool, NULL, NULL), "weir_cuda_stream_wait_event: ", "event is NULL");
    refuses(BAD, weir_cuda_query_event(w.pool, NULL, &complete), "weir_cuda_query_event: ", "event is NULL");
    refuses(BAD, weir_cuda_query_event(w.pool, &nothing, NULL), "weir_cuda_query_event: ", "complete is NULL");
    refuses(BAD, weir_cuda_sync_event(w.pool, NULL), "weir_cuda_sync_event: ", "event is NULL");
    refuses(BAD, weir_cuda_sync_stream(NULL, NULL), "weir_cuda_sync_stream: ", "pool is NULL");
    refuses(BAD, weir_cuda_destroy_event(w.pool, NULL), "weir_cuda_destroy_event: ", "event is NULL");
    refuses(BAD, weir_cuda_destroy_stream(w.pool, NULL), "weir_cuda_destroy_stream: ", "stream is NULL");
    assert_int_equal(fake_cuda_retained(), 1);
    end_world(&w);
}
