/* device_test.c: the device over ACL: facts, regions, virtual memory, events, contexts of threads, errors. */
#include "acl_test.h"

#include "../../../bindings/ascend/acl/src/error_list.h"

#include <dirent.h>
#include <dlfcn.h>

#include <pthread.h>
#include <string.h>

static weir_device *make_device(int32_t id)
{
    weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
    config.device_id = id;
    weir_device *device = NULL;
    ok(weir_acl_device_create(&config, &device));
    return device;
}

TEST(test_facts)
{
    acl_ok(aclrtSetDevice(1));
    weir_device *device = make_device(0);
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_get_info(device, &info));
    assert_int_equal(info.capacity_bytes, 256 * MIB);
    assert_int_equal(info.region_granularity_bytes, 2 * MIB);
    assert_int_equal(info.region_alignment_bytes, 512);
    assert_true((info.abilities & WEIR_DEVICE_ORDERED) != 0);
    assert_true((info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0 || info.page_bytes == 2 * MIB);
    assert_non_null(strstr(info.name, "device 0"));
    int32_t current = -1;
    acl_ok(aclrtGetDevice(&current));
    assert_int_equal(current, 1); /* unchanged */
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    acl_ok(aclrtGetDevice(&current));
    assert_int_equal(current, 1);
    acl_ok(aclrtResetDevice(1));
}

TEST(test_bad_configs)
{
    weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
    weir_device *device = NULL;
    fails(weir_acl_device_create(&config, NULL), WEIR_ERR_INVALID);
    config.device_id = 7;
    fails(weir_acl_device_create(&config, &device), WEIR_ERR_INVALID);
    int code = 0;
    const char *text = "";
    ok(weir_acl_error(&code, &text));
    assert_int_equal(code, ACL_ERROR_RT_INVALID_DEVICEID);
    assert_non_null(strstr(text, "aclrtSetDevice: 107001 ACL_ERROR_RT_INVALID_DEVICEID"));
    config.device_id = -1;
    fails(weir_acl_device_create(&config, &device), WEIR_ERR_INVALID);
    config = (weir_acl_device_config)WEIR_ACL_DEVICE_CONFIG_INIT;
    config.flags = 1u << 30;
    fails(weir_acl_device_create(&config, &device), WEIR_ERR_INVALID);
    config.flags = 0;
    config.pages = (weir_acl_pages)9;
    fails(weir_acl_device_create(&config, &device), WEIR_ERR_INVALID);
    config.pages = WEIR_ACL_PAGES_HUGE_FIRST;
    config.memory = WEIR_ACL_MEMORY_HOST;
    fails(weir_acl_device_create(&config, &device), WEIR_ERR_UNSUPPORTED);
    config.memory = (weir_acl_memory)5;
    fails(weir_acl_device_create(&config, &device), WEIR_ERR_INVALID);
    config.struct_size = 3;
    fails(weir_acl_device_create(&config, &device), WEIR_ERR_INVALID);
    struct {
        weir_acl_device_config known;
        uint64_t newer;
    } longer = {.known = WEIR_ACL_DEVICE_CONFIG_INIT};
    longer.known.struct_size = sizeof(longer);
    longer.newer = 1;
    fails(weir_acl_device_create(&longer.known, &device), WEIR_ERR_UNSUPPORTED);
    longer.newer = 0;
    ok(weir_acl_device_create(&longer.known, &device));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

/* A region of n MiB costs n MiB: no extra page for padding. */
TEST(test_regions_cost_no_more_than_their_size)
{
    acl_ok(aclrtSetDevice(0));
    static const weir_acl_pages pages[] = {WEIR_ACL_PAGES_HUGE_FIRST, WEIR_ACL_PAGES_HUGE, WEIR_ACL_PAGES_SMALL};
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
        config.pages = pages[i];
        config.flags = WEIR_ACL_NO_VIRTUAL_MEMORY;
        weir_device *device = NULL;
        ok(weir_acl_device_create(&config, &device));
        const size_t before = free_bytes();
        uint64_t address = 0;
        ok(weir_device_region_alloc(device, 40 * MIB, &address));
        assert_int_equal(before - free_bytes(), 40 * MIB);
        assert_int_equal(address % 512, 0);
        ok(weir_device_region_free(device, address, 40 * MIB)); /* the driver keeps none of this size */
        assert_int_equal(free_bytes(), before);
        weir_device_info info = WEIR_DEVICE_INFO_INIT;
        ok(weir_device_get_info(device, &info));
        assert_true((info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0);
        assert_int_equal(weir_device_destroy(device), WEIR_OK);
    }
    acl_ok(aclrtResetDevice(0));
}

TEST(test_running_out_is_no_memory)
{
    weir_device *device = make_device(0);
    uint64_t address = 0;
    fails(weir_device_region_alloc(device, 258 * MIB, &address), WEIR_ERR_NO_MEMORY);
    int64_t code = 0;
    const char *text = "";
    ok(weir_device_error(device, &code, &text));
    assert_int_equal(code, 207001);
    assert_string_equal(text, "aclrtMallocAlign32: 207001 ACL_ERROR_RT_MEMORY_ALLOCATION, out of memory");
    fails(weir_device_region_free(device, UINT64_C(0x12345000), 2 * MIB), WEIR_ERR_DEVICE);
    ok(weir_device_error(device, &code, &text));
    assert_true(code != 207001 && code != 0);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_events)
{
    acl_ok(aclrtSetDevice(0));
    weir_device *device = make_device(0);
    aclrtStream stream[2];
    uint64_t address = 0;
    weir_event *event = NULL;
    bool complete = false;
    acl_ok(aclrtCreateStream(&stream[0]));
    acl_ok(aclrtCreateStream(&stream[1]));
    ok(weir_device_region_alloc(device, 64 * MIB, &address));
    ok(weir_device_event_create(device, &event));
    ok(weir_device_event_query(device, event, &complete));
    assert_true(complete); /* a query reports an event that was never recorded as complete */
    ok(weir_device_stream_wait_event(device, stream[1], event));
    ok(weir_device_event_sync(device, event));

    void *memory = (void *)(uintptr_t)address;
    /* stream 0 waits for this event, so its work is still pending below, however fast the device is */
    aclrtEvent gate = NULL;
    acl_ok(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    acl_ok(aclrtStreamWaitEvent(stream[0], gate));
    acl_ok(aclrtMemsetAsync(memory, 64 * MIB, 1, 64 * MIB, stream[0]));
    ok(weir_device_event_record(device, event, stream[0]));
    ok(weir_device_event_query(device, event, &complete));
    assert_false(complete);
    acl_ok(aclrtRecordEvent(gate, stream[1]));
    ok(weir_device_stream_wait_event(device, stream[1], event));
    acl_ok(aclrtMemsetAsync(memory, 64 * MIB, 2, 64 * MIB, stream[1])); /* the auditor would find a missing wait */
    ok(weir_device_event_sync(device, event));
    ok(weir_device_event_query(device, event, &complete));
    assert_true(complete);
    ok(weir_device_stream_sync(device, stream[1]));
    acl_ok(aclrtDestroyEvent(gate));
    ok(weir_device_event_destroy(device, event));
    ok(weir_device_region_free(device, address, 64 * MIB));
    acl_ok(aclrtDestroyStream(stream[0]));
    acl_ok(aclrtDestroyStream(stream[1]));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    acl_ok(aclrtResetDevice(0));
}

/* --- contexts --- */

struct job {
    weir_device *device;
    void *stream;
    int32_t current; /* the device that is current before the test; -1: none */
    weir_status status;
    int32_t device_after;
    bool same_context;
};

static weir_status use_everything(weir_device *device, void *stream)
{
    uint64_t address = 0;
    weir_event *event = NULL;
    weir_status status = weir_device_region_alloc(device, 4 * MIB, &address);
    if (status == WEIR_OK) {
        status = weir_device_event_create(device, &event);
    }
    if (status == WEIR_OK) {
        status = weir_device_event_record(device, event, stream);
    }
    if (status == WEIR_OK) {
        status = weir_device_stream_wait_event(device, stream, event);
    }
    if (status == WEIR_OK) {
        status = weir_device_event_sync(device, event);
    }
    if (status == WEIR_OK) {
        status = weir_device_stream_sync(device, stream);
    }
    if (status == WEIR_OK) {
        status = weir_device_event_destroy(device, event);
    }
    return status == WEIR_OK ? weir_device_region_free(device, address, 4 * MIB) : status;
}

static void *do_job(void *argument)
{
    struct job *job = argument;
    aclrtContext before = NULL;
    aclrtContext after = NULL;
    if (job->current >= 0 &&
        (aclrtSetDevice(job->current) != ACL_SUCCESS || aclrtGetCurrentContext(&before) != ACL_SUCCESS)) {
        return NULL;
    }
    job->status = use_everything(job->device, job->stream);
    job->device_after = -1;
    (void)aclrtGetDevice(&job->device_after);
    (void)aclrtGetCurrentContext(&after);
    job->same_context = before == after;
    if (job->current >= 0) {
        (void)aclrtResetDevice(job->current);
    }
    return NULL;
}

TEST(test_any_thread_may_call)
{
    acl_ok(aclrtSetDevice(0));
    weir_device *device = make_device(0);
    aclrtStream stream = new_stream();
    for (int32_t current = -1; current <= 1; current++) {
        for (int i = 0; i < 2; i++) {
            struct job job = {
                .device = device, .stream = i == 0 ? stream : NULL, .current = current, .status = WEIR_ERR_INTERNAL};
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, NULL, do_job, &job), 0);
            assert_int_equal(pthread_join(thread, NULL), 0);
            assert_int_equal(job.status, WEIR_OK);
            assert_int_equal(job.device_after, current >= 0 ? current : 0);
            assert_true(current < 0 || job.same_context);
        }
    }
    acl_ok(aclrtDestroyStream(stream));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    acl_ok(aclrtResetDevice(0));
}

/* Two contexts of one device have streams in one pool. If a stream was first used while its own context was current,
 * weir knows the context of this stream. */
TEST(test_streams_of_another_context)
{
    acl_ok(aclrtSetDevice(0));
    aclrtContext home = NULL;
    acl_ok(aclrtGetCurrentContext(&home));
    weir_device *device = make_device(0);
    weir_pool *pool = make_pool(device);
    aclrtContext own = NULL;
    aclrtStream stream = NULL;
    weir_stream *known = NULL;
    acl_ok(aclrtCreateContext(&own, 0));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtSetCurrentContext(home));
    weir_event *event = NULL;
    ok(weir_device_event_create(device, &event));
    fails(weir_device_event_record(device, event, stream), WEIR_ERR_DEVICE);
    int code = 0;
    ok(weir_acl_error(&code, NULL));
    assert_int_equal(code, 107003);

    acl_ok(aclrtSetCurrentContext(own));
    ok(weir_acl_stream(pool, stream, &known));
    acl_ok(aclrtSetCurrentContext(home));
    ok(weir_device_event_record(device, event, stream));
    ok(weir_device_stream_wait_event(device, stream, event));
    ok(weir_device_stream_sync(device, stream));
    aclrtContext now = NULL;
    acl_ok(aclrtGetCurrentContext(&now));
    assert_ptr_equal(now, home);
    /* NULL is the default stream of the current context: the first record is in the context `home`, the second one in
     * `own` */
    ok(weir_device_event_record(device, event, NULL));
    acl_ok(aclrtSetCurrentContext(own));
    ok(weir_device_event_record(device, event, NULL));
    acl_ok(aclrtGetCurrentContext(&now));
    assert_ptr_equal(now, own);

    ok(weir_device_event_destroy(device, event));
    ok(weir_stream_retire(pool, known));
    ok(weir_pool_destroy(pool));
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtDestroyContext(own));
    acl_ok(aclrtSetCurrentContext(home));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    acl_ok(aclrtResetDevice(0));
}

TEST(test_a_reset_by_the_program_leaves_weirs_reference)
{
    acl_ok(aclrtSetDevice(0));
    weir_device *device = make_device(0);
    acl_ok(aclrtResetDevice(0)); /* the program's own reference */
    assert_int_equal(use_everything(device, NULL), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    size_t left = 0;
    size_t total = 0;
    assert_int_not_equal(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total), ACL_SUCCESS); /* weir's reference is gone too */
}

/* --- kinds of memory --- */

static aclrtMemMallocPolicy asked_policy;
static aclrtPhysicalMemProp asked_prop;
static const char *refused_call = ""; /* the name of a function that fails */
static aclError refused_code;

static bool is_refused(const char *function)
{
    return strcmp(function, refused_call) == 0;
}

/* The following functions take the place of the runtime's functions of the same name and call those, in builds with
 * shared libraries too. */
__attribute__((visibility("default"))) aclError aclrtMallocAlign32(void **address, size_t size,
                                                                   aclrtMemMallocPolicy policy)
{
    aclError (*call)(void **, size_t, aclrtMemMallocPolicy) = NULL;
    *(void **)&call = dlsym(RTLD_NEXT, "aclrtMallocAlign32");
    asked_policy = policy;
    return call(address, size, policy);
}

__attribute__((visibility("default"))) aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                                                                    const aclrtPhysicalMemProp *prop, uint64_t flags)
{
    aclError (*call)(aclrtDrvMemHandle *, size_t, const aclrtPhysicalMemProp *, uint64_t) = NULL;
    *(void **)&call = dlsym(RTLD_NEXT, "aclrtMallocPhysical");
    asked_prop = *prop;
    return is_refused("aclrtMallocPhysical") ? refused_code : call(handle, size, prop, flags);
}

__attribute__((visibility("default"))) aclError aclrtReserveMemAddress(void **address, size_t size, size_t alignment,
                                                                       void *expected, uint64_t flags)
{
    aclError (*call)(void **, size_t, size_t, void *, uint64_t) = NULL;
    *(void **)&call = dlsym(RTLD_NEXT, "aclrtReserveMemAddress");
    return is_refused("aclrtReserveMemAddress") ? refused_code : call(address, size, alignment, expected, flags);
}

__attribute__((visibility("default"))) aclError aclrtMapMem(void *address, size_t size, size_t offset,
                                                            aclrtDrvMemHandle handle, uint64_t flags)
{
    aclError (*call)(void *, size_t, size_t, aclrtDrvMemHandle, uint64_t) = NULL;
    *(void **)&call = dlsym(RTLD_NEXT, "aclrtMapMem");
    return is_refused("aclrtMapMem") ? refused_code : call(address, size, offset, handle, flags);
}

static void require_memory_for_peers(weir_acl_pages pages, uint32_t flags, aclrtMemMallocPolicy policy,
                                     aclrtMemAttr attribute)
{
    weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
    config.pages = pages;
    config.flags = flags;
    weir_device *device = NULL;
    ok(weir_acl_device_create(&config, &device));
    uint64_t address = 0;
    ok(weir_device_region_alloc(device, 2 * MIB, &address));
    ok(weir_device_region_free(device, address, 2 * MIB));
    assert_int_equal(asked_policy, policy);
    weir_vm_handle handle = 0;
    const weir_status status = weir_device_vm_create(device, 4 * MIB, &handle);
    if (status != WEIR_ERR_UNSUPPORTED) {
        ok(status);
        assert_int_equal(asked_prop.memAttr, attribute);
        assert_int_equal(asked_prop.handleType, ACL_MEM_HANDLE_TYPE_NONE);
        uint64_t shareable = 0;
        acl_ok(aclrtMemExportToShareableHandle((aclrtDrvMemHandle)(uintptr_t)handle, ACL_MEM_HANDLE_TYPE_NONE, 0,
                                               &shareable));
        ok(weir_device_vm_destroy(device, handle));
    }
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_memory_for_peers_is_created_for_peers)
{
    const uint32_t peers = WEIR_ACL_PEER_MEMORY;
    require_memory_for_peers(WEIR_ACL_PAGES_HUGE_FIRST, 0, ACL_MEM_MALLOC_HUGE_FIRST, ACL_HBM_MEM_HUGE);
    require_memory_for_peers(WEIR_ACL_PAGES_HUGE_FIRST, peers, ACL_MEM_MALLOC_HUGE_FIRST_P2P, ACL_MEM_P2P_HUGE);
    require_memory_for_peers(WEIR_ACL_PAGES_HUGE, peers, ACL_MEM_MALLOC_HUGE_ONLY_P2P, ACL_MEM_P2P_HUGE);
    require_memory_for_peers(WEIR_ACL_PAGES_SMALL, peers, ACL_MEM_MALLOC_NORMAL_ONLY_P2P, ACL_MEM_P2P_HUGE);
}

/* --- the place in the machine --- */

static aclError bus_id_error;
static const char *bus_id; /* NULL: the runtime's own */

__attribute__((visibility("default"))) aclError aclrtDeviceGetPCIBusId(int32_t device, char *text, int32_t size)
{
    aclError (*call)(int32_t, char *, int32_t) = NULL;
    *(void **)&call = dlsym(RTLD_NEXT, "aclrtDeviceGetPCIBusId");
    if (bus_id_error != ACL_SUCCESS || bus_id == NULL) {
        return bus_id_error != ACL_SUCCESS ? bus_id_error : call(device, text, size);
    }
    assert_true(size > (int32_t)strlen(bus_id));
    memcpy(text, bus_id, strlen(bus_id) + 1);
    return ACL_SUCCESS;
}

static void require_place(int32_t id, const char *expected_bus_id, int32_t expected_node)
{
    weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
    weir_acl_device_info info = WEIR_ACL_DEVICE_INFO_INIT;
    weir_device_info general = WEIR_DEVICE_INFO_INIT;
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool_config host = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    weir_device *device = NULL;
    config.device_id = id;
    ok(weir_acl_device_create(&config, &device));
    ok(weir_acl_device_get_info(device, &info));
    assert_int_equal(info.device_id, id);
    assert_string_equal(info.pci_bus_id, expected_bus_id);
    assert_int_equal(info.numa_node, expected_node);
    assert_non_null(info.context);
    assert_non_null(info.default_stream);
    ok(weir_device_get_info(device, &general));
    assert_int_equal(general.host_numa_node, expected_node);
    ok(weir_acl_host_runtime(device, &runtime));
    host.runtime = &runtime;
    ok(weir_host_pool_create(&host, &pool));
    if (expected_node < 0) {
        assert_int_equal(weir_host_device_node(pool), WEIR_HOST_THREAD_NODE);
    }
    ok(weir_host_pool_destroy(pool));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

/* Returns the bus id of a device of this machine, or NULL. */
static const char *some_device(void)
{
    static char name[16];
    DIR *folder = opendir("/sys/bus/pci/devices");
    const struct dirent *entry = folder != NULL ? readdir(folder) : NULL;
    while (entry != NULL && strlen(entry->d_name) != 12) {
        entry = readdir(folder);
    }
    if (entry != NULL) {
        memcpy(name, entry->d_name, 13);
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return entry != NULL ? name : NULL;
}

TEST(test_the_place_of_a_device)
{
    require_place(0, "ffff:c1:00.0", WEIR_NODE_NONE); /* not a device of this machine */
    require_place(1, "ffff:c2:00.0", WEIR_NODE_NONE);
    bus_id_error = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    require_place(0, "", WEIR_NODE_NONE);
    bus_id_error = ACL_ERROR_RT_INTERNAL_ERROR;
    require_place(0, "", WEIR_NODE_NONE);
    bus_id_error = ACL_SUCCESS;
    bus_id = "../../etc/x";
    require_place(0, "../../etc/x", WEIR_NODE_NONE);
    bus_id = some_device();
    if (bus_id != NULL) {
        int32_t node = -77;
        ok(weir_topology_device_node(bus_id, &node));
        require_place(0, bus_id, node);
    }
    bus_id = NULL;
    weir_acl_device_info info = WEIR_ACL_DEVICE_INFO_INIT;
    fails(weir_acl_device_get_info(NULL, &info), WEIR_ERR_INVALID);
    fails(weir_acl_device_get_info((const weir_device *)(const void *)&info, &info), WEIR_ERR_INVALID);
}

/* --- virtual memory --- */

TEST(test_virtual_memory)
{
    acl_ok(aclrtSetDevice(0));
    weir_device *device = make_device(0);
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_get_info(device, &info));
    if ((info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0) {
        print_message("skipped: the runtime has no virtual memory\n");
        assert_int_equal(weir_device_destroy(device), WEIR_OK);
        skip();
    }
    const size_t before = free_bytes();
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    weir_pool *pool = NULL;
    ok(weir_pool_create(&config, &pool));
    aclrtStream native = NULL;
    weir_stream *stream = NULL;
    acl_ok(aclrtCreateStream(&native));
    ok(weir_acl_stream(pool, native, &stream));
    weir_block *blocks[20];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 20; i++) {
            const uint64_t size = (uint64_t)(1 + (i * 7 + round) % 9) * MIB;
            ok(weir_pool_alloc(pool, stream, size, 0, &blocks[i]));
            acl_ok(aclrtMemsetAsync((void *)(uintptr_t)weir_block_address(blocks[i]), size, i, size, native));
        }
        assert_true(free_bytes() < before);
        for (int i = 0; i < 20; i++) {
            ok(weir_pool_free(pool, blocks[(i * 3) % 20], stream));
        }
    }
    /* A request for the whole device in one piece: the pool must move its scattered memory together. */
    ok(weir_pool_alloc(pool, stream, 250 * MIB, 0, &blocks[0]));
    acl_ok(aclrtMemsetAsync((void *)(uintptr_t)weir_block_address(blocks[0]), 250 * MIB, 1, 250 * MIB, native));
    ok(weir_pool_free(pool, blocks[0], stream));
    ok(weir_stream_retire(pool, stream));
    ok(weir_pool_destroy(pool));
    assert_int_equal(free_bytes(), before);
    acl_ok(aclrtDestroyStream(native));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    acl_ok(aclrtResetDevice(0));
}

/* Each of the calls by which memory is mapped fails while the device is created. */
TEST(test_virtual_memory_is_tried)
{
    static const char *const calls[] = {"aclrtReserveMemAddress", "aclrtMallocPhysical", "aclrtMapMem"};
    acl_ok(aclrtSetDevice(0));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
        weir_device_info info = WEIR_DEVICE_INFO_INIT;
        weir_device *device = NULL;
        weir_stream *stream = NULL;
        weir_block *block = NULL;
        const size_t before = free_bytes(); /* the driver keeps a small region that a pool has returned */
        refused_call = calls[i];
        refused_code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        ok(weir_acl_device_create(&config, &device));
        ok(weir_device_get_info(device, &info));
        assert_int_equal(info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY, 0);
        assert_int_equal(info.page_bytes, 0);
        assert_int_equal(free_bytes(), before);
        weir_pool *pool = make_pool(device); /* takes regions */
        ok(weir_pool_stream(pool, NULL, &stream));
        ok(weir_pool_alloc(pool, stream, 3 * MIB, 0, &block));
        assert_int_equal(pool_stats(pool).region_allocs, 1);
        ok(weir_pool_destroy(pool));
        ok(weir_device_destroy(device));

        refused_code = ACL_ERROR_RT_MEMORY_ALLOCATION; /* a full device has the calls */
        ok(weir_acl_device_create(&config, &device));
        ok(weir_device_get_info(device, &info));
        assert_int_not_equal(info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY, 0);
        ok(weir_device_destroy(device));

        refused_code = ACL_ERROR_RT_DRV_INTERNAL_ERROR;
        fails(weir_acl_device_create(&config, &device), WEIR_ERR_DEVICE);
    }
    refused_call = "";
    acl_ok(aclrtResetDevice(0));
}

/* --- errors --- */

/* The list of error codes is searched by bisection, so it must be sorted. */
TEST(test_error_list_is_in_order)
{
#define CODE(code, name, text) {code, #name, text},
    static const struct {
        int code;
        const char *name;
        const char *text;
    } known[] = {WEIR_ACL_ERROR_LIST(CODE)};
    const size_t count = sizeof(known) / sizeof(known[0]);
    assert_true(count >= 200);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || known[i - 1].code < known[i].code);
        assert_int_equal(strncmp(known[i].name, "ACL_ERROR_", 10), 0);
        assert_true(strlen(known[i].text) > 0);
    }
}

/* A device without a PCI device on this machine is created, and the sentence of an earlier refusal stays. */
TEST(test_success_leaves_no_sentence)
{
    const char *text = NULL;
    int code = -1;
    fails(weir_acl_device_create(NULL, NULL), WEIR_ERR_INVALID);
    weir_device *device = make_device(0);
    ok(weir_acl_error(&code, &text));
    assert_string_equal(text, "weir_acl_device_create: device is NULL");
    assert_int_equal(code, 0);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    ok(weir_acl_error(&code, &text));
    assert_string_equal(text, "weir_acl_device_create: device is NULL");
}

static void *ask_error(void *argument)
{
    int *code = argument;
    *code = weir_acl_error(code, NULL) == WEIR_OK ? *code : -1;
    return NULL;
}

TEST(test_errors_are_each_threads_own)
{
    weir_device *device = make_device(0);
    fails(weir_device_region_free(device, UINT64_C(0x999000), 2 * MIB), WEIR_ERR_DEVICE);
    int other = -1;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask_error, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(other, 0);
    int own = 0;
    ok(weir_acl_error(&own, NULL));
    assert_int_not_equal(own, 0);
    ok(weir_acl_error(NULL, NULL));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_block_bytes)
{
    assert_int_equal(weir_acl_block_bytes(1), 64);
    assert_int_equal(weir_acl_block_bytes(32), 64);
    assert_int_equal(weir_acl_block_bytes(33), 96);
    assert_int_equal(weir_acl_block_bytes(65536), 65568);
    assert_int_equal(weir_acl_block_bytes(UINT64_MAX), 0);
    assert_int_equal(weir_acl_block_bytes(UINT64_MAX - 63), 0);
}
