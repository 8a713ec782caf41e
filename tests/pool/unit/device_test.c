/* tests/pool/unit/device_test.c: the tables that weir_device_create accepts, the slots that it fills in, and its
 * checks. */
#include "rig/test.h"
#include "device/device_internal.h"
#include "fake_device.h"

static weir_device *create(struct fake_device *fake)
{
    weir_device *device = NULL;
    assert_int_equal(weir_device_create(&fake->ops, fake, &device), WEIR_OK);
    assert_non_null(device);
    return device;
}

static void assert_refused(struct fake_device *fake, weir_status expected)
{
    weir_device *const untouched = (weir_device *)(uintptr_t)0x1;
    weir_device *device = untouched;
    assert_int_equal(weir_device_create(&fake->ops, fake, &device), expected);
    assert_ptr_equal(device, untouched);
    assert_int_equal(fake->destroyed, 0);
}

TEST(test_every_call_arrives_once)
{
    struct fake_device fake;
    fake_init(&fake);
    weir_device *const device = create(&fake);
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        assert_int_equal(fake_make_call(device, (weir_device_call)i), WEIR_OK);
        for (int j = 0; j < WEIR_CALL_COUNT; j++) {
            assert_int_equal(fake.calls[j], j <= i ? 1 : 0);
        }
    }
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    assert_int_equal(fake.destroyed, 1);
}

TEST(test_a_held_device_is_not_destroyed)
{
    struct fake_device fake;
    fake_init(&fake);
    weir_device *const device = create(&fake);
    assert_int_equal(weir_device_hold(device), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_ERR_BUSY);
    assert_non_null(strstr(weir_last_error(), "weir_device_destroy: "));
    assert_int_equal(fake.destroyed, 0);
    weir_device *limited = NULL;
    assert_int_equal(weir_limit_create(device, UINT64_MAX, &limited), WEIR_OK);
    assert_int_equal(weir_device_release(device), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_ERR_BUSY); /* the adaptor holds the device */
    assert_int_equal(weir_device_destroy(limited), WEIR_OK);
    assert_int_equal(weir_device_release(device), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_hold(NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_release(NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    assert_int_equal(fake.destroyed, 1);
}

TEST(test_arguments_arrive)
{
    struct fake_device fake;
    fake_init(&fake);
    weir_device *const device = create(&fake);
    weir_event *const event = (weir_event *)(uintptr_t)0xabc;
    void *const stream = (void *)(uintptr_t)0xdef;
    assert_int_equal(weir_device_vm_map(device, 0x123000, 2 * FAKE_PAGE, 9), WEIR_OK);
    assert_int_equal(fake.address, 0x123000);
    assert_int_equal(fake.size, 2 * FAKE_PAGE);
    assert_int_equal(fake.handle, 9);
    assert_int_equal(weir_device_stream_wait_event(device, stream, event), WEIR_OK);
    assert_ptr_equal(fake.event, event);
    assert_ptr_equal(fake.native_stream, stream);
    assert_int_equal(weir_device_event_record(device, event, NULL), WEIR_OK);
    assert_null(fake.native_stream);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_results_come_back)
{
    struct fake_device fake;
    fake_init(&fake);
    weir_device *const device = create(&fake);
    uint64_t address = 0;
    weir_vm_handle handle = 0;
    weir_event *event = NULL;
    bool complete = false;
    assert_int_equal(weir_device_region_alloc(device, FAKE_GRANULE, &address), WEIR_OK);
    assert_int_equal(address, 0x10000000);
    assert_int_equal(weir_device_vm_reserve(device, FAKE_PAGE, &address), WEIR_OK);
    assert_int_equal(address, 0x7000000);
    assert_int_equal(weir_device_vm_create(device, FAKE_PAGE, &handle), WEIR_OK);
    assert_int_equal(handle, 1);
    assert_int_equal(weir_device_event_create(device, &event), WEIR_OK);
    assert_ptr_equal(event, (weir_event *)(uintptr_t)0xe1);
    fake.event_complete = true;
    assert_int_equal(weir_device_event_query(device, event, &complete), WEIR_OK);
    assert_true(complete);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_failure_leaves_results_untouched)
{
    struct fake_device fake;
    fake_init(&fake);
    weir_device *const device = create(&fake);
    fake.answer = WEIR_ERR_NO_MEMORY;
    fake.event_complete = true;
    uint64_t address = 42;
    weir_vm_handle handle = 43;
    weir_event *const before = (weir_event *)(uintptr_t)44;
    weir_event *event = before;
    bool complete = false;
    assert_int_equal(weir_device_region_alloc(device, FAKE_GRANULE, &address), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_device_vm_reserve(device, FAKE_PAGE, &address), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_device_vm_create(device, FAKE_PAGE, &handle), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_device_event_create(device, &event), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_device_event_query(device, before, &complete), WEIR_ERR_NO_MEMORY);
    assert_int_equal(address, 42);
    assert_int_equal(handle, 43);
    assert_ptr_equal(event, before);
    assert_false(complete);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_missing_groups_say_unsupported)
{
    struct fake_device fake;
    fake_init(&fake);
    fake_without_ordering(&fake);
    fake_without_virtual_memory(&fake);
    weir_device *const device = create(&fake);
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        const bool there = i == WEIR_CALL_REGION_ALLOC || i == WEIR_CALL_REGION_FREE || i == WEIR_CALL_COPY;
        assert_int_equal(fake_make_call(device, (weir_device_call)i), there ? WEIR_OK : WEIR_ERR_UNSUPPORTED);
        assert_int_equal(fake.calls[i], there ? 1 : 0);
    }
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    fake_init(&fake);
    fake.ops.copy = NULL;
    weir_device *const without = create(&fake);
    assert_int_equal(fake_make_call(without, WEIR_CALL_COPY), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(weir_device_destroy(without), WEIR_OK);
}

/* Takes one slot away at a time: each slot is part of a group, or required. */
TEST(test_partial_groups_are_refused)
{
    struct fake_device fake;
#define WITHOUT(name, slot, ...)                                                                                       \
    fake_init(&fake);                                                                                                  \
    fake.ops.slot = NULL;                                                                                              \
    assert_refused(&fake, WEIR_ERR_INVALID);
    WEIR__REGION_CALLS(WITHOUT, WITHOUT)
    WEIR__VM_CALLS(WITHOUT, WITHOUT)
    WEIR__ORDERING_CALLS(WITHOUT, WITHOUT)
#undef WITHOUT
    fake_init(&fake);
    fake.ops.get_info = NULL;
    assert_refused(&fake, WEIR_ERR_INVALID);
}

TEST(test_abilities_must_match_groups)
{
    struct fake_device fake;
    fake_init(&fake);
    fake.info.abilities = WEIR_DEVICE_VIRTUAL_MEMORY;
    assert_refused(&fake, WEIR_ERR_INVALID);
    fake_init(&fake);
    fake.info.abilities = WEIR_DEVICE_ORDERED;
    assert_refused(&fake, WEIR_ERR_INVALID);
    fake_init(&fake);
    fake_without_ordering(&fake);
    fake.info.abilities |= WEIR_DEVICE_ORDERED;
    assert_refused(&fake, WEIR_ERR_INVALID);
    fake_init(&fake);
    fake_without_virtual_memory(&fake);
    fake.info.abilities |= WEIR_DEVICE_VIRTUAL_MEMORY;
    assert_refused(&fake, WEIR_ERR_INVALID);
}

TEST(test_odd_facts_are_refused)
{
    static const uint64_t odd[] = {0, 3, 6, 4097, UINT64_MAX};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct fake_device fake;
        fake_init(&fake);
        fake.info.region_granularity_bytes = odd[i];
        assert_refused(&fake, WEIR_ERR_INVALID);
        fake_init(&fake);
        fake.info.region_alignment_bytes = odd[i];
        assert_refused(&fake, WEIR_ERR_INVALID);
        fake_init(&fake);
        fake.info.page_bytes = odd[i];
        assert_refused(&fake, WEIR_ERR_INVALID);
    }
}

TEST(test_failure_of_get_info_is_passed_on)
{
    struct fake_device fake;
    fake_init(&fake);
    fake.info_status = WEIR_ERR_DEVICE;
    assert_refused(&fake, WEIR_ERR_DEVICE);
}

TEST(test_facts_are_copied_once)
{
    struct fake_device fake;
    fake_init(&fake);
    memset(fake.info.name, 'x', sizeof(fake.info.name)); /* no NUL */
    weir_device *const device = create(&fake);
    fake.info.capacity_bytes = 1;
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    assert_int_equal(weir_device_get_info(device, &info), WEIR_OK);
    assert_int_equal(info.struct_size, sizeof(info));
    assert_int_equal(info.capacity_bytes, UINT64_C(1) << 30);
    assert_int_equal(info.region_granularity_bytes, FAKE_GRANULE);
    assert_int_equal(info.page_bytes, FAKE_PAGE);
    assert_int_equal(info.host_numa_node, 3);
    assert_int_equal(strlen(info.name), sizeof(info.name) - 1);
    assert_int_equal(weir__device_info(device)->capacity_bytes, UINT64_C(1) << 30);
    assert_int_equal(weir_device_get_info(NULL, &info), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_get_info(device, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_older_table)
{
    struct fake_device fake;
    fake_init(&fake);
    fake_without_ordering(&fake);
    fake_without_virtual_memory(&fake);
    /* Bytes beyond an older table are not part of it: weir must not read them. */
    const size_t older_size = offsetof(weir_device_ops, vm_reserve);
    weir_device_ops *const older = malloc(older_size);
    assert_non_null(older);
    fake.ops.struct_size = older_size;
    memcpy(older, &fake.ops, older_size);
    weir_device *device = NULL;
    assert_int_equal(weir_device_create(older, &fake, &device), WEIR_OK);
    assert_int_equal(fake_make_call(device, WEIR_CALL_REGION_ALLOC), WEIR_OK);
    assert_int_equal(fake_make_call(device, WEIR_CALL_VM_MAP), WEIR_ERR_UNSUPPORTED);
    assert_string_equal(weir_last_error(), "weir_device_vm_map: the device has no virtual memory");
    assert_int_equal(weir_device_vm_destroy(device, 1), WEIR_ERR_UNSUPPORTED);
    assert_string_equal(weir_last_error(), "weir_device_vm_destroy: the device has no virtual memory");
    assert_int_equal(fake_make_call(device, WEIR_CALL_STREAM_SYNC), WEIR_ERR_UNSUPPORTED);
    assert_string_equal(weir_last_error(),
                        "weir_device_stream_sync: the device has no streams and events; it is synchronous");
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    assert_int_equal(fake.destroyed, 0);
    free(older);
}

TEST(test_newer_table)
{
    struct fake_device fake;
    fake_init(&fake);
    struct {
        weir_device_ops ops;
        void *unknown;
    } newer = {.ops = fake.ops};
    newer.ops.struct_size = sizeof(newer);
    weir_device *device = NULL;
    assert_int_equal(weir_device_create(&newer.ops, &fake, &device), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    newer.unknown = &fake;
    assert_int_equal(weir_device_create(&newer.ops, &fake, &device), WEIR_ERR_UNSUPPORTED);
}

TEST(test_native_error)
{
    struct fake_device fake;
    fake_init(&fake);
    int64_t code = -1;
    const char *text = NULL;
    weir_device *device = create(&fake);
    assert_int_equal(weir_device_error(device, &code, &text), WEIR_OK);
    assert_int_equal(code, 507);
    assert_string_equal(text, "fake trouble");
    assert_int_equal(weir_device_error(NULL, &code, &text), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_error(device, NULL, &text), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_error(device, &code, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);

    fake.ops.native_error = NULL;
    device = create(&fake);
    assert_int_equal(weir_device_error(device, &code, &text), WEIR_OK);
    assert_int_equal(code, 0);
    assert_string_equal(text, "");
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_bad_sizes_never_arrive)
{
    struct fake_device fake;
    fake_init(&fake);
    weir_device *const device = create(&fake);
    static const uint64_t regions[] = {0, 1, FAKE_GRANULE - 1, FAKE_GRANULE + 1, UINT64_MAX};
    static const uint64_t pages[] = {0, 1, FAKE_GRANULE, FAKE_PAGE + 1, UINT64_MAX};
    for (size_t i = 0; i < 5; i++) {
        uint64_t out = 0;
        assert_int_equal(weir_device_region_alloc(device, regions[i], &out), WEIR_ERR_INVALID);
        assert_int_equal(weir_device_region_free(device, 0x1000, regions[i]), WEIR_ERR_INVALID);
        assert_int_equal(weir_device_vm_reserve(device, pages[i], &out), WEIR_ERR_INVALID);
        assert_int_equal(weir_device_vm_release(device, 0x1000, pages[i]), WEIR_ERR_INVALID);
        assert_int_equal(weir_device_vm_create(device, pages[i], &out), WEIR_ERR_INVALID);
        assert_int_equal(weir_device_vm_map(device, 0x1000, pages[i], 1), WEIR_ERR_INVALID);
        assert_int_equal(weir_device_vm_unmap(device, 0x1000, pages[i]), WEIR_ERR_INVALID);
    }
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        assert_int_equal(fake.calls[i], 0);
    }
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_null_arguments_never_arrive)
{
    struct fake_device fake;
    fake_init(&fake);
    weir_device *const device = create(&fake);
    weir_event *const event = (weir_event *)(uintptr_t)1;
    bool complete = false;
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        assert_int_equal(fake_make_call(NULL, (weir_device_call)i), WEIR_ERR_INVALID);
    }
    assert_int_equal(weir_device_region_alloc(device, FAKE_GRANULE, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_vm_reserve(device, FAKE_PAGE, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_vm_create(device, FAKE_PAGE, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_vm_destroy(device, 0), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_vm_map(device, 0x1000, FAKE_PAGE, 0), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_event_create(device, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_event_destroy(device, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_event_record(device, NULL, device), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_event_query(device, NULL, &complete), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_event_query(device, event, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_event_sync(device, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_stream_wait_event(device, device, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_copy(device, NULL, 1), WEIR_ERR_INVALID);
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        assert_int_equal(fake.calls[i], 0);
    }
    assert_int_equal(weir_device_destroy(device), WEIR_OK);

    weir_device *made = NULL;
    assert_int_equal(weir_device_create(NULL, &fake, &made), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_create(&fake.ops, &fake, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_destroy(NULL), WEIR_OK);
}

TEST(test_context_only_for_its_own_table)
{
    struct fake_device fake;
    fake_init(&fake);
    weir_device *const device = create(&fake);
    const weir_device_ops copy = fake.ops;
    assert_ptr_equal(weir__device_context(device, &fake.ops), &fake);
    assert_null(weir__device_context(device, &copy));
    assert_null(weir__device_context(NULL, &fake.ops));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}
