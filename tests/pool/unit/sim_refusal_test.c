/* sim_refusal_test.c: the refusals of the simulator: each sentence names the function and the argument or state. */
#include "rig/test.h"

#include <string.h>
#include <weir/adaptor.h>
#include <weir/caching.h>
#include <weir/pool.h>
#include <weir/sim.h>

#define ok(call) assert_int_equal((call), WEIR_OK)

/* Checks that the call returns the status, and that its sentence begins with the function and contains `part`. */
#define refuses(status, function, part, call)                                                                          \
    do {                                                                                                               \
        assert_int_equal((call), (status));                                                                            \
        const char *sentence_ = weir_last_error();                                                                     \
        if (strncmp(sentence_, function ": ", sizeof(function ": ") - 1) != 0 || strstr(sentence_, part) == NULL) {    \
            fail_msg("\"%s\" is not of %s with \"%s\"", sentence_, function, part);                                    \
        }                                                                                                              \
    } while (0)

#define BAD WEIR_ERR_INVALID

static void nothing(void *ctx)
{
    (void)ctx;
}

TEST(test_configs)
{
    weir_sim *sim = NULL;
    static const struct {
        weir_sim_config config;
        const char *part;
    } rows[] = {
        {{.struct_size = sizeof(weir_sim_config), .mode = (weir_sim_mode)3}, "mode 3"},
        {{.struct_size = sizeof(weir_sim_config), .region_granularity_bytes = 3000}, "region_granularity_bytes 3000"},
        {{.struct_size = sizeof(weir_sim_config), .mode = WEIR_SIM_BACKED, .page_bytes = 16}, "page_bytes 16"},
        {{.struct_size = sizeof(weir_sim_config), .capacity_bytes = 4096}, "capacity_bytes 4096"},
        {{.struct_size = sizeof(weir_sim_config), .capacity_bytes = UINT64_MAX}, "capacity_bytes 18446744073709551615"},
        {{.struct_size = sizeof(weir_sim_config), .address_base = 4096}, "address_base 4096"},
    };
    refuses(BAD, "weir_sim_create", "sim is NULL", weir_sim_create(NULL, NULL));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(weir_sim_create(&rows[i].config, &sim), BAD);
        assert_memory_equal(weir_last_error(), "weir_sim_create: ", 17);
        assert_non_null(strstr(weir_last_error(), rows[i].part));
    }
    assert_null(sim);
}

TEST(test_arguments)
{
    weir_sim *sim = NULL;
    weir_sim_stream *gone = NULL;
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    char bytes[8] = "";
    ok(weir_sim_create(NULL, &sim));
    ok(weir_sim_stream_create(sim, &gone));
    ok(weir_sim_stream_destroy(sim, gone));
    static const char was[] = "was destroyed";

    refuses(BAD, "weir_sim_sync", "sim is NULL", weir_sim_sync(NULL));
    refuses(BAD, "weir_sim_stream_create", "stream is NULL", weir_sim_stream_create(sim, NULL));
    refuses(BAD, "weir_sim_stream_destroy", "sim is NULL", weir_sim_stream_destroy(NULL, gone));
    refuses(BAD, "weir_sim_stream_destroy", was, weir_sim_stream_destroy(sim, gone));
    refuses(BAD, "weir_sim_stream_destroy", "default", weir_sim_stream_destroy(sim, weir_sim_default_stream(sim)));
    refuses(BAD, "weir_sim_stream_break", "sim is NULL", weir_sim_stream_break(NULL, NULL));
    refuses(BAD, "weir_sim_stream_break", was, weir_sim_stream_break(sim, gone));
    refuses(BAD, "weir_sim_launch", "work is NULL", weir_sim_launch(sim, NULL, NULL));
    refuses(BAD, "weir_sim_launch", was, weir_sim_launch(sim, gone, &work));
    work.access_count = 2;
    refuses(BAD, "weir_sim_launch", "access_count is 2", weir_sim_launch(sim, NULL, &work));
    work.access_count = 0;
    work.dropped = nothing;
    refuses(BAD, "weir_sim_launch", "host_function is NULL", weir_sim_launch(sim, NULL, &work));
    refuses(BAD, "weir_sim_fill", "sim is NULL", weir_sim_fill(NULL, NULL, 0, 1, 0, NULL));
    refuses(BAD, "weir_sim_fill", was, weir_sim_fill(sim, gone, 0, 0, 0, NULL));
    refuses(BAD, "weir_sim_copy", "sim is NULL", weir_sim_copy(NULL, NULL, 0, 0, 1, NULL));
    refuses(BAD, "weir_sim_copy", was, weir_sim_copy(sim, gone, 0, 0, 1, NULL));
    refuses(BAD, "weir_sim_copy_from_host", "from is NULL", weir_sim_copy_from_host(sim, NULL, 0, NULL, 1, NULL));
    refuses(BAD, "weir_sim_copy_from_host", was, weir_sim_copy_from_host(sim, gone, 0, bytes, 1, NULL));
    refuses(BAD, "weir_sim_copy_to_host", "to is NULL", weir_sim_copy_to_host(sim, NULL, NULL, 0, 1, NULL));
    refuses(BAD, "weir_sim_copy_to_host", was, weir_sim_copy_to_host(sim, gone, bytes, 0, 1, NULL));
    refuses(BAD, "weir_sim_fault_arm", "sim is NULL", weir_sim_fault_arm(NULL, &fault));
    fault.call = (weir_device_call)77;
    refuses(BAD, "weir_sim_fault_arm", "fault.call is 77", weir_sim_fault_arm(sim, &fault));
    refuses(BAD, "weir_sim_get_stats", "stats is NULL", weir_sim_get_stats(sim, NULL));
    refuses(BAD, "weir_sim_get_stats", "sim is NULL", weir_sim_get_stats(NULL, &stats));
    ok(weir_sim_destroy(sim));
}

/* The device of a simulator: sentences of the functions that pools and device tests call. */
TEST(test_device)
{
    weir_sim *sim = NULL;
    weir_sim_stream *gone = NULL;
    weir_event *event = NULL;
    uint64_t region = 0;
    uint64_t reserved = 0;
    weir_vm_handle handle = 0;
    bool complete = false;
    const uint64_t size = 2 << 20;
    ok(weir_sim_create(NULL, &sim));
    weir_device *device = weir_sim_device(sim);
    ok(weir_sim_stream_create(sim, &gone));
    ok(weir_sim_stream_destroy(sim, gone));
    ok(weir_device_event_create(device, &event));
    ok(weir_device_region_alloc(device, size, &region));
    ok(weir_device_vm_reserve(device, 4 * size, &reserved));
    ok(weir_device_vm_create(device, size, &handle));
    ok(weir_device_vm_map(device, reserved, size, handle));

    refuses(BAD, "weir_device_region_free", "no region", weir_device_region_free(device, region + size, size));
    refuses(BAD, "weir_device_vm_release", "no reservation", weir_device_vm_release(device, reserved, size));
    refuses(WEIR_ERR_BUSY, "weir_device_vm_release", "is mapped", weir_device_vm_release(device, reserved, 4 * size));
    refuses(BAD, "weir_device_vm_destroy", "handle 0x99", weir_device_vm_destroy(device, 0x99));
    refuses(WEIR_ERR_BUSY, "weir_device_vm_destroy", "is mapped", weir_device_vm_destroy(device, handle));
    refuses(BAD, "weir_device_vm_map", "handle 0x99", weir_device_vm_map(device, reserved + size, size, 0x99));
    refuses(BAD, "weir_device_vm_map", "mapped already", weir_device_vm_map(device, reserved + size, size, handle));
    refuses(BAD, "weir_device_vm_unmap", "no mapping", weir_device_vm_unmap(device, reserved + size, size));
    ok(weir_device_vm_unmap(device, reserved, size));
    refuses(BAD, "weir_device_vm_map", "another size", weir_device_vm_map(device, reserved, 2 * size, handle));
    refuses(BAD, "weir_device_vm_map", "not all reserved",
            weir_device_vm_map(device, reserved + 4 * size, size, handle));
    refuses(BAD, "weir_device_event_record", "stream", weir_device_event_record(device, event, gone));
    refuses(BAD, "weir_device_stream_wait_event", "stream", weir_device_stream_wait_event(device, gone, event));
    refuses(BAD, "weir_device_stream_sync", "stream", weir_device_stream_sync(device, gone));
    ok(weir_device_event_destroy(device, event));
    refuses(BAD, "weir_device_event_destroy", "event", weir_device_event_destroy(device, event));
    refuses(BAD, "weir_device_event_query", "event", weir_device_event_query(device, event, &complete));
    refuses(BAD, "weir_device_event_sync", "event", weir_device_event_sync(device, event));
    refuses(BAD, "weir_device_event_record", "event", weir_device_event_record(device, event, NULL));
    refuses(BAD, "weir_device_stream_wait_event", "event", weir_device_stream_wait_event(device, NULL, event));
    refuses(BAD, "weir_device_stream_check", "device is NULL", weir_device_stream_check(NULL, NULL));
    ok(weir_sim_destroy(sim));
}

/* A pool refuses a stream of another simulator, directly or through an adaptor, and does not remember it. */
TEST(test_stream_of_another_simulator)
{
    weir_sim *sims[2] = {NULL, NULL};
    weir_sim_stream *streams[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        ok(weir_sim_create(NULL, &sims[i]));
        ok(weir_sim_stream_create(sims[i], &streams[i]));
    }
    weir_device *counted = NULL;
    ok(weir_count_create(weir_sim_device(sims[0]), &counted));
    weir_device *const devices[] = {weir_sim_device(sims[0]), counted};
    for (int i = 0; i < 2; i++) {
        weir_pool_config config = WEIR_POOL_CONFIG_INIT;
        weir_pool *pool = NULL;
        weir_stream *stream = NULL;
        config.device = devices[i];
        config.strategy = weir_caching_strategy();
        ok(weir_pool_create(&config, &pool));
        refuses(BAD, "weir_pool_stream", "not one of this simulator's", weir_pool_stream(pool, streams[1], &stream));
        assert_null(stream);
        ok(weir_pool_stream(pool, streams[0], &stream));
        ok(weir_pool_destroy(pool));
    }
    ok(weir_device_destroy(counted));
    for (int i = 0; i < 2; i++) {
        ok(weir_sim_destroy(sims[i]));
    }
}
