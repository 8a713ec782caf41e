/* tests/pool/unit/adaptor_test.c: devices that wrap a device, alone, stacked and from many threads. */
#include "rig/test.h"
#include "fake_device.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static struct fake_device fake;
static weir_device *inner; /* the device of `fake`, for each test */

static void close_inner(void)
{
    assert_int_equal(weir_device_destroy(inner), WEIR_OK);
    inner = NULL;
}

static void open_inner(void)
{
    assert_int_equal(weir_device_create(&fake.ops, &fake, &inner), WEIR_OK);
}

static int begin(void **unused)
{
    (void)unused;
    fake_init(&fake);
    open_inner();
    return 0;
}

static int end(void **unused)
{
    (void)unused;
    if (test_passed) {
        close_inner();
    }
    return 0;
}

static void renew(void)
{
    close_inner();
    (void)begin(NULL);
}

static uint64_t held(weir_device *limited)
{
    uint64_t bytes = UINT64_MAX;
    assert_int_equal(weir_limit_held(limited, &bytes), WEIR_OK);
    return bytes;
}

static void ignore_line(void *ctx, const char *line)
{
    (void)ctx;
    (void)line;
}

/* Makes one adaptor of each kind over `device`. */
#define KINDS 4
static weir_device *wrap(int kind, weir_device *device)
{
    weir_device *wrapped = NULL;
    switch (kind) {
    case 0:
        assert_int_equal(weir_limit_create(device, UINT64_C(1) << 29, &wrapped), WEIR_OK);
        break;
    case 1:
        assert_int_equal(weir_fault_create(device, &wrapped), WEIR_OK);
        break;
    case 2:
        assert_int_equal(weir_count_create(device, &wrapped), WEIR_OK);
        break;
    default:
        assert_int_equal(weir_log_create(device, ignore_line, NULL, &wrapped), WEIR_OK);
        break;
    }
    return wrapped;
}

/* --- all kinds --- */

TEST(test_call_names)
{
#define CHECK(name, slot) assert_string_equal(weir_device_call_name(WEIR_CALL_##name), #slot);
    WEIR_DEVICE_CALL_LIST(CHECK)
#undef CHECK
    assert_string_equal(weir_device_call_name(WEIR_CALL_ANY), "any");
    assert_non_null(weir_device_call_name((weir_device_call)(WEIR_CALL_ANY + 1)));
    assert_non_null(weir_device_call_name((weir_device_call)-1));
}

TEST(test_every_kind_passes_everything_on)
{
    for (int kind = 0; kind < KINDS; kind++) {
        renew();
        weir_device *const outer = wrap(kind, inner);
        for (int i = 0; i < WEIR_CALL_COUNT; i++) {
            assert_int_equal(fake_make_call(outer, (weir_device_call)i), WEIR_OK);
            assert_int_equal(fake.calls[i], 1);
        }
        assert_int_equal(weir_device_destroy(outer), WEIR_OK);
        assert_int_equal(fake.destroyed, 0); /* the wrapped device is borrowed */
        close_inner();
        assert_int_equal(fake.destroyed, 1);
        open_inner();
    }
}

TEST(test_every_kind_passes_arguments_and_results)
{
    for (int kind = 0; kind < KINDS; kind++) {
        renew();
        weir_device *const outer = wrap(kind, inner);
        weir_event *const event = (weir_event *)(uintptr_t)0xabc;
        void *const stream = (void *)(uintptr_t)0xdef;
        uint64_t address = 0;
        weir_vm_handle handle = 0;
        weir_event *made = NULL;
        bool complete = false;

        assert_int_equal(weir_device_region_alloc(outer, 2 * FAKE_GRANULE, &address), WEIR_OK);
        assert_int_equal(address, 0x10000000);
        assert_int_equal(fake.size, 2 * FAKE_GRANULE);
        assert_int_equal(weir_device_region_free(outer, address, 2 * FAKE_GRANULE), WEIR_OK);
        assert_int_equal(fake.address, 0x10000000);
        assert_int_equal(fake.size, 2 * FAKE_GRANULE);
        assert_int_equal(weir_device_vm_reserve(outer, FAKE_PAGE, &address), WEIR_OK);
        assert_int_equal(address, 0x7000000);
        assert_int_equal(weir_device_vm_create(outer, FAKE_PAGE, &handle), WEIR_OK);
        assert_int_equal(handle, 1);
        assert_int_equal(weir_device_vm_map(outer, 0x7000, FAKE_PAGE, 6), WEIR_OK);
        assert_int_equal(fake.address, 0x7000);
        assert_int_equal(fake.handle, 6);
        assert_int_equal(weir_device_vm_unmap(outer, 0x8000, FAKE_PAGE), WEIR_OK);
        assert_int_equal(fake.address, 0x8000);
        assert_int_equal(weir_device_vm_release(outer, 0x9000, FAKE_PAGE), WEIR_OK);
        assert_int_equal(fake.address, 0x9000);
        assert_int_equal(weir_device_vm_destroy(outer, 5), WEIR_OK);
        assert_int_equal(fake.handle, 5);

        assert_int_equal(weir_device_event_create(outer, &made), WEIR_OK);
        assert_ptr_equal(made, (weir_event *)(uintptr_t)0xe1);
        assert_int_equal(weir_device_event_record(outer, event, stream), WEIR_OK);
        assert_ptr_equal(fake.event, event);
        assert_ptr_equal(fake.native_stream, stream);
        fake.event_complete = true;
        assert_int_equal(weir_device_event_query(outer, event, &complete), WEIR_OK);
        assert_true(complete);
        assert_int_equal(weir_device_stream_wait_event(outer, stream, made), WEIR_OK);
        assert_ptr_equal(fake.event, made);
        assert_ptr_equal(fake.native_stream, stream);
        assert_int_equal(weir_device_stream_sync(outer, inner), WEIR_OK);
        assert_ptr_equal(fake.native_stream, inner);
        assert_int_equal(weir_device_event_sync(outer, event), WEIR_OK);
        assert_ptr_equal(fake.event, event);
        assert_int_equal(weir_device_event_destroy(outer, made), WEIR_OK);
        assert_ptr_equal(fake.event, made);
        assert_int_equal(weir_device_destroy(outer), WEIR_OK);
    }
}

TEST(test_every_kind_passes_failures_and_their_reason)
{
    for (int kind = 0; kind < KINDS; kind++) {
        renew();
        weir_device *const outer = wrap(kind, inner);
        fake.answer = WEIR_ERR_BUSY;
        for (int i = 0; i < WEIR_CALL_COUNT; i++) {
            assert_int_equal(fake_make_call(outer, (weir_device_call)i), WEIR_ERR_BUSY);
        }
        int64_t code = 0;
        const char *text = "";
        assert_int_equal(weir_device_error(outer, &code, &text), WEIR_OK);
        assert_int_equal(code, 507);
        assert_string_equal(text, "fake trouble");
        assert_int_equal(weir_device_destroy(outer), WEIR_OK);
    }
}

/* Over each combination of groups the adaptor has exactly the groups of the wrapped device. */
TEST(test_every_kind_lacks_what_the_device_lacks)
{
    for (int round = 0; round < KINDS * 4; round++) {
        const int kind = round / 4;
        close_inner();
        fake_init(&fake);
        if ((round & 1) != 0) {
            fake_without_ordering(&fake);
        }
        if ((round & 2) != 0) {
            fake_without_virtual_memory(&fake);
        }
        open_inner();
        weir_device *const outer = wrap(kind, inner);
        weir_device_info info = WEIR_DEVICE_INFO_INIT;
        assert_int_equal(weir_device_get_info(outer, &info), WEIR_OK);
        assert_int_equal(info.abilities, fake.info.abilities);
        assert_int_equal(info.page_bytes, fake.info.page_bytes);
        assert_string_equal(info.name, "fake");
        for (int i = 0; i < WEIR_CALL_COUNT; i++) {
            const weir_status expected = fake_make_call(inner, (weir_device_call)i);
            assert_int_equal(fake_make_call(outer, (weir_device_call)i), expected);
        }
        assert_int_equal(weir_device_destroy(outer), WEIR_OK);
    }
}

TEST(test_functions_know_their_own_kind)
{
    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t number = 0;
    for (int kind = -1; kind < KINDS; kind++) {
        weir_device *const device = kind < 0 ? inner : wrap(kind, inner);
        assert_int_equal(weir_limit_held(device, &number), kind == 0 ? WEIR_OK : WEIR_ERR_INVALID);
        assert_int_equal(weir_fault_state(device, &number, NULL), kind == 1 ? WEIR_OK : WEIR_ERR_INVALID);
        assert_int_equal(weir_fault_arm(device, WEIR_CALL_ANY, 0, WEIR_OK), kind == 1 ? WEIR_OK : WEIR_ERR_INVALID);
        assert_int_equal(weir_count_get(device, calls, NULL), kind == 2 ? WEIR_OK : WEIR_ERR_INVALID);
        if (kind >= 0) {
            assert_int_equal(weir_device_destroy(device), WEIR_OK);
        }
    }
    assert_int_equal(weir_limit_held(NULL, &number), WEIR_ERR_INVALID);
    assert_int_equal(weir_fault_state(NULL, &number, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_count_get(NULL, calls, NULL), WEIR_ERR_INVALID);
}

TEST(test_null_arguments)
{
    weir_device *made = NULL;
    assert_int_equal(weir_limit_create(NULL, 1, &made), WEIR_ERR_INVALID);
    assert_int_equal(weir_limit_create(inner, 1, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_fault_create(NULL, &made), WEIR_ERR_INVALID);
    assert_int_equal(weir_fault_create(inner, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_count_create(NULL, &made), WEIR_ERR_INVALID);
    assert_int_equal(weir_count_create(inner, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_log_create(NULL, ignore_line, NULL, &made), WEIR_ERR_INVALID);
    assert_int_equal(weir_log_create(inner, NULL, NULL, &made), WEIR_ERR_INVALID);
    assert_int_equal(weir_log_create(inner, ignore_line, NULL, NULL), WEIR_ERR_INVALID);
    assert_null(made);
    weir_device *const limited = wrap(0, inner);
    weir_device *const counting = wrap(2, inner);
    assert_int_equal(weir_limit_held(limited, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_count_get(counting, NULL, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_destroy(limited), WEIR_OK);
    assert_int_equal(weir_device_destroy(counting), WEIR_OK);
}

/* --- fault --- */

TEST(test_fault_strikes_the_nth_call_of_each_kind)
{
    weir_device *const faulty = wrap(1, inner);
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        const weir_device_call kind = (weir_device_call)i;
        const weir_device_call other = (weir_device_call)((i + 1) % WEIR_CALL_COUNT);
        for (uint64_t n = 1; n <= 3; n++) {
            assert_int_equal(weir_fault_arm(faulty, kind, n, WEIR_ERR_DEVICE), WEIR_OK);
            const uint64_t before = fake.calls[kind];
            for (uint64_t call = 1; call <= 4; call++) {
                bool struck = false;
                assert_int_equal(fake_make_call(faulty, kind), call == n ? WEIR_ERR_DEVICE : WEIR_OK);
                assert_int_equal(fake_make_call(faulty, other), WEIR_OK);
                assert_int_equal(weir_fault_state(faulty, NULL, &struck), WEIR_OK);
                assert_int_equal(struck, call >= n);
            }
            uint64_t calls = 0;
            assert_int_equal(weir_fault_state(faulty, &calls, NULL), WEIR_OK);
            assert_int_equal(calls, 4);
            assert_int_equal(fake.calls[kind] - before, 3); /* one call did not reach the device */
        }
    }
    assert_int_equal(weir_device_destroy(faulty), WEIR_OK);
}

TEST(test_fault_of_any_kind)
{
    weir_device *const faulty = wrap(1, inner);
    assert_int_equal(weir_fault_arm(faulty, WEIR_CALL_ANY, 4, WEIR_ERR_NO_MEMORY), WEIR_OK);
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        assert_int_equal(fake_make_call(faulty, (weir_device_call)i), i == 3 ? WEIR_ERR_NO_MEMORY : WEIR_OK);
    }
    assert_int_equal(weir_device_destroy(faulty), WEIR_OK);
}

TEST(test_fault_disarmed_and_misused)
{
    weir_device *const faulty = wrap(1, inner);
    assert_int_equal(weir_fault_arm(faulty, WEIR_CALL_REGION_ALLOC, 2, WEIR_ERR_BUSY), WEIR_OK);
    assert_int_equal(fake_make_call(faulty, WEIR_CALL_REGION_ALLOC), WEIR_OK);
    assert_int_equal(weir_fault_arm(faulty, WEIR_CALL_REGION_ALLOC, 0, WEIR_OK), WEIR_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fake_make_call(faulty, WEIR_CALL_REGION_ALLOC), WEIR_OK);
    }
    uint64_t calls = 0;
    bool struck = true;
    assert_int_equal(weir_fault_state(faulty, &calls, &struck), WEIR_OK);
    assert_int_equal(calls, 5); /* weir_fault_arm resets the count, and calls are counted even without a fault */
    assert_false(struck);
    assert_int_equal(weir_fault_arm(faulty, WEIR_CALL_ANY, 1, WEIR_OK), WEIR_ERR_INVALID);
    const weir_device_call beyond = (weir_device_call)(WEIR_CALL_ANY + 1);
    assert_int_equal(weir_fault_arm(faulty, beyond, 1, WEIR_ERR_BUSY), WEIR_ERR_INVALID);
    assert_int_equal(fake_make_call(faulty, WEIR_CALL_REGION_ALLOC), WEIR_OK);
    assert_int_equal(weir_device_destroy(faulty), WEIR_OK);
}

/* --- count --- */

TEST(test_count)
{
    weir_device *const counting = wrap(2, inner);
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        for (int repeat = 0; repeat <= i; repeat++) {
            fake.answer = repeat == 0 ? WEIR_ERR_DEVICE : WEIR_OK;
            (void)!fake_make_call(counting, (weir_device_call)i);
        }
    }
    uint64_t out = 0;
    assert_int_equal(weir_device_region_alloc(counting, 1, &out), WEIR_ERR_INVALID);
    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t failures[WEIR_CALL_COUNT];
    assert_int_equal(weir_count_get(counting, calls, failures), WEIR_OK);
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        assert_int_equal(calls[i], i + 1);
        assert_int_equal(failures[i], 1);
    }
    assert_int_equal(weir_count_get(counting, calls, NULL), WEIR_OK);
    assert_int_equal(weir_device_destroy(counting), WEIR_OK);
}

/* --- log --- */

struct last_line {
    char text[256];
    int lines;
};

static void keep_line(void *ctx, const char *line)
{
    struct last_line *const last = ctx;
    snprintf(last->text, sizeof(last->text), "%s", line);
    last->lines++;
}

TEST(test_log)
{
    weir_device *logging = NULL;
    struct last_line last = {.lines = 0};
    assert_int_equal(weir_log_create(inner, keep_line, &last, &logging), WEIR_OK);
    static const char *const expected[WEIR_CALL_COUNT] = {
        "region_alloc size=65536 -> WEIR_OK address=0x10000000",
        "region_free address=0x3000 size=65536 -> WEIR_OK",
        "vm_reserve size=65536 -> WEIR_OK address=0x7000000",
        "vm_release address=0x3000 size=65536 -> WEIR_OK",
        "vm_create size=65536 -> WEIR_OK handle=0x1",
        "vm_destroy handle=0x4e -> WEIR_OK",
        "vm_map address=0x3000 size=65536 handle=0x4e -> WEIR_OK",
        "vm_unmap address=0x3000 size=65536 -> WEIR_OK",
        "event_create -> WEIR_OK event=0xe1",
        "event_destroy event=0xe2 -> WEIR_OK",
        "event_record event=0xe2 stream=0x57 -> WEIR_OK",
        "event_query event=0xe2 -> WEIR_OK complete=false",
        "event_sync event=0xe2 -> WEIR_OK",
        "stream_wait_event stream=0x57 event=0xe2 -> WEIR_OK",
        "stream_sync stream=0x57 -> WEIR_OK",
        "copy pieces=1 -> WEIR_OK",
    };
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        assert_int_equal(fake_make_call(logging, (weir_device_call)i), WEIR_OK);
        assert_string_equal(last.text, expected[i]);
        assert_int_equal(last.lines, i + 1);
    }
    fake.answer = WEIR_ERR_NO_MEMORY;
    assert_int_equal(fake_make_call(logging, WEIR_CALL_REGION_ALLOC), WEIR_ERR_NO_MEMORY);
    assert_string_equal(last.text, "region_alloc size=65536 -> WEIR_ERR_NO_MEMORY");
    fake.answer = WEIR_OK;
    const uint64_t largest = UINT64_MAX - FAKE_PAGE + 1;
    assert_int_equal(weir_device_vm_map(logging, UINT64_MAX, largest, UINT64_MAX), WEIR_OK);
    assert_string_equal(last.text, "vm_map address=0xffffffffffffffff size=18446744073709486080 "
                                   "handle=0xffffffffffffffff -> WEIR_OK");
    assert_int_equal(weir_device_destroy(logging), WEIR_OK);
}

/* --- limit --- */

TEST(test_limit_is_exact)
{
    weir_device *limited = NULL;
    assert_int_equal(weir_limit_create(inner, 4 * FAKE_GRANULE, &limited), WEIR_OK);
    uint64_t a = 0;
    uint64_t b = 0;
    uint64_t c = 7;
    assert_int_equal(weir_device_region_alloc(limited, 3 * FAKE_GRANULE, &a), WEIR_OK);
    assert_int_equal(weir_device_region_alloc(limited, 2 * FAKE_GRANULE, &c), WEIR_ERR_LIMIT);
    assert_int_equal(c, 7);
    assert_int_equal(fake.calls[WEIR_CALL_REGION_ALLOC], 1); /* refused without a call of the device */
    assert_int_equal(held(limited), 3 * FAKE_GRANULE);
    assert_int_equal(weir_device_region_alloc(limited, FAKE_GRANULE, &b), WEIR_OK);
    assert_int_equal(held(limited), 4 * FAKE_GRANULE);
    assert_int_equal(weir_device_region_alloc(limited, FAKE_GRANULE, &c), WEIR_ERR_LIMIT);
    assert_int_equal(weir_device_region_free(limited, a, 3 * FAKE_GRANULE), WEIR_OK);
    assert_int_equal(held(limited), FAKE_GRANULE);
    assert_int_equal(weir_device_region_alloc(limited, 3 * FAKE_GRANULE, &c), WEIR_OK);
    const uint64_t huge = UINT64_MAX - FAKE_GRANULE + 1; /* must not wrap around */
    assert_int_equal(weir_device_region_alloc(limited, huge, &c), WEIR_ERR_LIMIT);
    assert_int_equal(weir_device_destroy(limited), WEIR_OK);
}

TEST(test_limit_keeps_count_when_the_device_fails)
{
    weir_device *limited = NULL;
    assert_int_equal(weir_limit_create(inner, 2 * FAKE_PAGE, &limited), WEIR_OK);
    uint64_t address = 0;
    weir_vm_handle handle = 0;
    assert_int_equal(weir_device_region_alloc(limited, FAKE_PAGE, &address), WEIR_OK);
    assert_int_equal(weir_device_vm_create(limited, FAKE_PAGE, &handle), WEIR_OK);
    assert_int_equal(held(limited), 2 * FAKE_PAGE);
    fake.answer = WEIR_ERR_DEVICE;
    assert_int_equal(weir_device_region_free(limited, address, FAKE_PAGE), WEIR_ERR_DEVICE);
    assert_int_equal(weir_device_vm_destroy(limited, handle), WEIR_ERR_DEVICE);
    assert_int_equal(held(limited), 2 * FAKE_PAGE);
    fake.answer = WEIR_OK;
    assert_int_equal(weir_device_vm_destroy(limited, handle), WEIR_OK);
    assert_int_equal(held(limited), FAKE_PAGE);
    fake.answer = WEIR_ERR_NO_MEMORY;
    assert_int_equal(weir_device_region_alloc(limited, FAKE_PAGE, &address), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_device_vm_create(limited, FAKE_PAGE, &handle), WEIR_ERR_NO_MEMORY);
    assert_int_equal(held(limited), FAKE_PAGE);
    fake.answer = WEIR_OK;
    assert_int_equal(weir_device_vm_create(limited, FAKE_PAGE, &handle), WEIR_OK);
    assert_int_equal(held(limited), 2 * FAKE_PAGE);
    assert_int_equal(weir_device_destroy(limited), WEIR_OK);
}

/* A handle does not show its size, so the adaptor remembers sizes; the order of handles does not matter. */
TEST(test_limit_remembers_sizes_of_handles)
{
    enum { COUNT = 300 };
    weir_device *limited = NULL;
    assert_int_equal(weir_limit_create(inner, UINT64_C(1) << 40, &limited), WEIR_OK);
    weir_vm_handle handles[COUNT];
    uint64_t expected = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        fake.next_handle = (i + 1) * UINT64_C(0x100000001);
        assert_int_equal(weir_device_vm_create(limited, (i + 1) * FAKE_PAGE, &handles[i]), WEIR_OK);
        expected += (i + 1) * FAKE_PAGE;
    }
    for (uint64_t step = 0; step < COUNT; step++) {
        const uint64_t i = step * 7 % COUNT; /* 7 and 300 share no factor */
        assert_int_equal(held(limited), expected);
        assert_int_equal(weir_device_vm_destroy(limited, handles[i]), WEIR_OK);
        expected -= (i + 1) * FAKE_PAGE;
        assert_int_equal(weir_device_vm_destroy(limited, handles[i]), WEIR_OK); /* counts once */
    }
    assert_int_equal(held(limited), 0);
    assert_int_equal(weir_device_vm_destroy(limited, 12345), WEIR_OK); /* not created here */
    assert_int_equal(held(limited), 0);
    assert_int_equal(weir_device_destroy(limited), WEIR_OK);
}

TEST(test_limit_lowers_the_capacity)
{
    static const uint64_t cases[][3] = {
        /* device, limit, seen */
        {1u << 30, 1u << 20, 1u << 20},
        {1u << 30, UINT64_MAX, 1u << 30},
        {0, 1u << 20, 1u << 20},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        close_inner();
        fake_init(&fake);
        fake.info.capacity_bytes = cases[i][0];
        open_inner();
        weir_device *limited = NULL;
        weir_device_info info = WEIR_DEVICE_INFO_INIT;
        assert_int_equal(weir_limit_create(inner, cases[i][1], &limited), WEIR_OK);
        assert_int_equal(weir_device_get_info(limited, &info), WEIR_OK);
        assert_int_equal(info.capacity_bytes, cases[i][2]);
        assert_int_equal(weir_device_destroy(limited), WEIR_OK);
    }
}

/* Some threads request too much in a loop while one thread requests little: the little request always fits. Long enough
 * for many turns of the scheduler, so that the race also shows on one core. */
struct greedy {
    weir_device *device;
    atomic_bool stop;
    atomic_int other_answers;
};

static void *ask_too_much(void *ctx)
{
    struct greedy *const self = ctx;
    while (!atomic_load(&self->stop)) {
        uint64_t address = 0;
        if (weir_device_region_alloc(self->device, 4 * FAKE_GRANULE, &address) != WEIR_ERR_LIMIT) {
            atomic_fetch_add(&self->other_answers, 1);
        }
    }
    return NULL;
}

static int ask_little(weir_device *limited, int rounds)
{
    int refused = 0;
    for (int i = 0; i < rounds; i++) {
        uint64_t address = 0;
        const weir_status taken = weir_device_region_alloc(limited, FAKE_GRANULE, &address);
        refused += taken != WEIR_OK;
        if (taken == WEIR_OK) {
            refused += weir_device_region_free(limited, address, FAKE_GRANULE) != WEIR_OK;
        }
    }
    return refused;
}

TEST(test_limit_doomed_requests_harm_no_one)
{
    weir_device *limited = NULL;
    assert_int_equal(weir_limit_create(inner, 3 * FAKE_GRANULE, &limited), WEIR_OK);
    struct greedy others = {.device = limited};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_too_much, &others), 0);
    }
    int refused = 0;
    for (const clock_t begin = clock(); clock() - begin < CLOCKS_PER_SEC / 2;) {
        refused += ask_little(limited, 100);
    }
    atomic_store(&others.stop, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(refused, 0);
    assert_int_equal(atomic_load(&others.other_answers), 0);
    assert_int_equal(held(limited), 0);
    assert_int_equal(weir_device_destroy(limited), WEIR_OK);
}

/* The device is slow to refuse a request that the limit allows. A smaller request must wait for that refusal and then
 * succeed; it must not fail because of bytes that the large request will not hold. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool entered;
    bool open;
    weir_status verdict; /* result of the large request */
};

static weir_status hold_large_requests(struct fake_device *asked, uint64_t size)
{
    struct gate *const g = asked->on_take_ctx;
    if (size == FAKE_GRANULE) {
        return WEIR_OK;
    }
    pthread_mutex_lock(&g->lock);
    g->entered = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->open) {
        pthread_cond_wait(&g->changed, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
    return g->verdict;
}

struct request {
    weir_device *device;
    uint64_t size;
    weir_status status;
};

static void *ask(void *ctx)
{
    struct request *const self = ctx;
    uint64_t address = 0;
    self->status = weir_device_region_alloc(self->device, self->size, &address);
    return NULL;
}

static void check_small_beside_large(weir_status large_verdict, weir_status small_expected, uint64_t held_expected)
{
    struct gate g = {.verdict = large_verdict};
    pthread_mutex_init(&g.lock, NULL);
    pthread_cond_init(&g.changed, NULL);
    renew();
    fake.on_take = hold_large_requests;
    fake.on_take_ctx = &g;
    weir_device *limited = NULL;
    assert_int_equal(weir_limit_create(inner, 4 * FAKE_GRANULE, &limited), WEIR_OK);
    struct request large = {.device = limited, .size = 4 * FAKE_GRANULE};
    struct request small = {.device = limited, .size = FAKE_GRANULE};
    pthread_t large_thread;
    pthread_t small_thread;
    assert_int_equal(pthread_create(&large_thread, NULL, ask, &large), 0);
    pthread_mutex_lock(&g.lock);
    while (!g.entered) {
        pthread_cond_wait(&g.changed, &g.lock);
    }
    pthread_mutex_unlock(&g.lock);
    assert_int_equal(held(limited), 0); /* a pending request does not count as held */
    assert_int_equal(pthread_create(&small_thread, NULL, ask, &small), 0);
    for (int i = 0; i < 1000; i++) {
        sched_yield(); /* the pause lets the small request begin while the large one is pending, in most runs */
    }
    pthread_mutex_lock(&g.lock);
    g.open = true;
    pthread_cond_broadcast(&g.changed);
    pthread_mutex_unlock(&g.lock);
    pthread_join(large_thread, NULL);
    pthread_join(small_thread, NULL);
    assert_int_equal(large.status, large_verdict);
    assert_int_equal(small.status, small_expected);
    assert_int_equal(held(limited), held_expected);
    assert_int_equal(weir_device_destroy(limited), WEIR_OK);
    pthread_cond_destroy(&g.changed);
    pthread_mutex_destroy(&g.lock);
}

TEST(test_limit_waits_for_undecided_requests)
{
    check_small_beside_large(WEIR_ERR_NO_MEMORY, WEIR_OK, FAKE_GRANULE);
    check_small_beside_large(WEIR_OK, WEIR_ERR_LIMIT, 4 * FAKE_GRANULE);
}

/* A device may hand out a destroyed handle again, for memory of another size. */
struct reuse {
    weir_device *limited;
    weir_vm_handle handle;
};

static weir_status destroy_and_reuse(void *ctx, weir_vm_handle handle)
{
    struct fake_device *const asked = ctx;
    struct reuse *const self = asked->on_take_ctx;
    asked->next_handle = handle;
    return weir_device_vm_create(self->limited, 3 * FAKE_PAGE, &self->handle);
}

TEST(test_limit_survives_reuse_of_a_handle)
{
    close_inner();
    fake_init(&fake);
    fake.ops.vm_destroy = destroy_and_reuse;
    open_inner();
    struct reuse self = {.limited = NULL};
    fake.on_take_ctx = &self;
    assert_int_equal(weir_limit_create(inner, 8 * FAKE_PAGE, &self.limited), WEIR_OK);
    weir_vm_handle handle = 0;
    assert_int_equal(weir_device_vm_create(self.limited, FAKE_PAGE, &handle), WEIR_OK);
    assert_int_equal(weir_device_vm_destroy(self.limited, handle), WEIR_OK);
    assert_int_equal(self.handle, handle);
    assert_int_equal(held(self.limited), 3 * FAKE_PAGE);
    assert_int_equal(weir_device_destroy(self.limited), WEIR_OK);
}

/* --- stacks and threads --- */

TEST(test_stack_of_adaptors)
{
    weir_device *limited = NULL;
    weir_device *faulty = NULL;
    weir_device *counting = NULL;
    weir_device *logging = NULL;
    struct last_line last = {.lines = 0};
    assert_int_equal(weir_limit_create(inner, 2 * FAKE_GRANULE, &limited), WEIR_OK);
    assert_int_equal(weir_fault_create(limited, &faulty), WEIR_OK);
    assert_int_equal(weir_count_create(faulty, &counting), WEIR_OK);
    assert_int_equal(weir_log_create(counting, keep_line, &last, &logging), WEIR_OK);

    uint64_t address = 0;
    assert_int_equal(weir_device_region_alloc(logging, 2 * FAKE_GRANULE, &address), WEIR_OK);
    assert_int_equal(weir_device_region_alloc(logging, FAKE_GRANULE, &address), WEIR_ERR_LIMIT);
    assert_string_equal(last.text, "region_alloc size=4096 -> WEIR_ERR_LIMIT");
    assert_int_equal(weir_fault_arm(faulty, WEIR_CALL_REGION_FREE, 1, WEIR_ERR_DEVICE), WEIR_OK);
    assert_int_equal(weir_device_region_free(logging, address, 2 * FAKE_GRANULE), WEIR_ERR_DEVICE);
    assert_int_equal(held(limited), 2 * FAKE_GRANULE); /* the fault adaptor lies above the limit */
    assert_int_equal(weir_device_region_free(logging, address, 2 * FAKE_GRANULE), WEIR_OK);
    assert_int_equal(held(limited), 0);

    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t failures[WEIR_CALL_COUNT];
    assert_int_equal(weir_count_get(counting, calls, failures), WEIR_OK);
    assert_int_equal(calls[WEIR_CALL_REGION_ALLOC], 2);
    assert_int_equal(failures[WEIR_CALL_REGION_ALLOC], 1);
    assert_int_equal(calls[WEIR_CALL_REGION_FREE], 2);
    assert_int_equal(failures[WEIR_CALL_REGION_FREE], 1);
    assert_int_equal(fake.calls[WEIR_CALL_REGION_ALLOC], 1);
    assert_int_equal(fake.calls[WEIR_CALL_REGION_FREE], 1);
    assert_int_equal(last.lines, 4);
    assert_int_equal(weir_device_destroy(logging), WEIR_OK);
    assert_int_equal(weir_device_destroy(counting), WEIR_OK);
    assert_int_equal(weir_device_destroy(faulty), WEIR_OK);
    assert_int_equal(weir_device_destroy(limited), WEIR_OK);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *churn(void *ctx)
{
    weir_device *const device = ctx;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t address = 0;
        weir_vm_handle handle = 0;
        if (weir_device_region_alloc(device, FAKE_GRANULE, &address) == WEIR_OK) {
            (void)!weir_device_region_free(device, address, FAKE_GRANULE);
        }
        if (weir_device_vm_create(device, FAKE_PAGE, &handle) == WEIR_OK) {
            (void)!weir_device_vm_destroy(device, handle);
        }
    }
    return NULL;
}

TEST(test_stack_from_several_threads)
{
    weir_device *limited = NULL;
    weir_device *faulty = NULL;
    weir_device *counting = NULL;
    weir_device *logging = NULL;
    struct last_line last = {.lines = 0};
    assert_int_equal(weir_log_create(inner, keep_line, &last, &logging), WEIR_OK);
    assert_int_equal(weir_fault_create(logging, &faulty), WEIR_OK);
    assert_int_equal(weir_limit_create(faulty, 2 * FAKE_PAGE, &limited), WEIR_OK);
    assert_int_equal(weir_count_create(limited, &counting), WEIR_OK);
    assert_int_equal(weir_fault_arm(faulty, WEIR_CALL_VM_CREATE, ROUNDS, WEIR_ERR_BUSY), WEIR_OK);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, counting), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t failures[WEIR_CALL_COUNT];
    assert_int_equal(weir_count_get(counting, calls, failures), WEIR_OK);
    assert_int_equal(calls[WEIR_CALL_REGION_ALLOC], THREADS * ROUNDS);
    assert_int_equal(calls[WEIR_CALL_VM_CREATE], THREADS * ROUNDS);
    const uint64_t destroyed = calls[WEIR_CALL_VM_DESTROY];
    assert_int_equal(calls[WEIR_CALL_VM_CREATE] - failures[WEIR_CALL_VM_CREATE], destroyed);
    assert_int_equal(held(limited), 0);
    uint64_t through = 0;
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        through += fake.calls[i];
    }
    assert_int_equal(last.lines, through);
    assert_int_equal(weir_device_destroy(counting), WEIR_OK);
    assert_int_equal(weir_device_destroy(limited), WEIR_OK);
    assert_int_equal(weir_device_destroy(faulty), WEIR_OK);
    assert_int_equal(weir_device_destroy(logging), WEIR_OK);
}

EACH_TEST(begin, end)
