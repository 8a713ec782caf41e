/* driver_test.c: the driver's functions, called as the vendor's runtime calls them. */
#include "rig/test.h"

#include "driver/hal.h"

#include <string.h>

#define CAPACITY 67108864 /* 64 MiB */
#define TEXT(value) #value
#define TEXT_OF(macro) TEXT(macro)

static unsigned long used(uint32_t device)
{
    hal_mem_info info;
    assert_int_equal(halMemGetInfo(device, 0, &info), HAL_OK);
    return info.physical.huge_total - info.physical.huge_free;
}

TEST(memory_counts_for_its_device_until_it_is_freed)
{
    hal_attribute attribute;
    void *block = NULL;
    void *host = NULL;
    uintptr_t base = 0;
    size_t size = 0;
    assert_int_equal(halMemAlloc(&block, 3 * MIB, HAL_MEM_HUGE | 1), HAL_OK);
    assert_int_equal(used(0), 0);
    assert_int_equal(used(1), 4 * MIB);
    assert_int_equal((uintptr_t)block % (2 * MIB), 0);
    memset(block, 1, 3 * MIB);
    assert_int_equal(drvMemGetAttribute((uintptr_t)block + MIB, &attribute), HAL_OK);
    assert_int_equal(attribute.type, HAL_TYPE_DEVICE);
    assert_int_equal(attribute.device, 1);
    assert_int_equal(attribute.page_size, 2 * MIB);
    assert_int_equal(drvMemGetAddressRange((uintptr_t)block + MIB, &base, &size), HAL_OK);
    assert_ptr_equal((void *)base, block); /* NOLINT(performance-no-int-to-ptr) */
    assert_int_equal(size, 4 * MIB);

    assert_int_equal(halMemAlloc(&host, 100, (uint64_t)HAL_SIDE_HOST << HAL_MEM_SIDE_BIT), HAL_OK);
    assert_int_equal(used(0), 0);
    assert_int_equal(drvMemGetAttribute((uintptr_t)host, &attribute), HAL_OK);
    assert_int_equal(attribute.type, HAL_TYPE_HOST);
    assert_int_equal(drvMemGetAttribute((uintptr_t)&host, &attribute), HAL_OK);
    assert_int_equal(attribute.type, HAL_TYPE_UNKNOWN);

    assert_int_equal(halMemFree((char *)block + 4096), HAL_INVALID_VALUE);
    assert_int_equal(halMemFree(block), HAL_OK);
    assert_int_equal(halMemFree(block), HAL_INVALID_VALUE);
    assert_int_equal(halMemFree(host), HAL_OK);
    assert_int_equal(used(1), 0);
}

TEST(memory_of_the_runtime_can_be_left_out)
{
    const unsigned long long flag = (unsigned long long)HAL_MODULE_OF_RUNTIME << HAL_MEM_MODULE_BIT;
    void *block = NULL;
    assert_int_equal(halMemAlloc(&block, MIB, flag), HAL_OK);
    assert_int_equal(used(0), MIB);
    assert_int_equal(halMemFree(block), HAL_OK);
    assert_int_equal(setenv("WEIR_DRIVER_RUNTIME_MEMORY", "0", 1), 0);
    assert_int_equal(halMemAlloc(&block, MIB, flag), HAL_OK);
    assert_int_equal(used(0), 0);
    assert_int_equal(halMemFree(block), HAL_OK);
    assert_int_equal(halMemAlloc(&block, MIB, 0), HAL_OK);
    assert_int_equal(used(0), MIB);
    assert_int_equal(unsetenv("WEIR_DRIVER_RUNTIME_MEMORY"), 0);
    assert_int_equal(halMemFree(block), HAL_OK);
    assert_int_equal(used(0), 0);
}

TEST(a_closed_device_has_its_memory_back)
{
    void *mine = NULL;
    void *others = NULL;
    assert_int_equal(halDeviceOpen(0, NULL, NULL), HAL_OK);
    assert_int_equal(halDeviceOpen(2, NULL, NULL), HAL_INVALID_VALUE);
    assert_int_equal(halMemAlloc(&mine, MIB, 0), HAL_OK);
    assert_int_equal(halMemAlloc(&others, MIB, 1), HAL_OK);
    assert_int_equal(halDeviceClose(0, NULL), HAL_OK);
    assert_int_equal(used(0), 0);
    assert_int_equal(used(1), MIB);
    assert_int_equal(halMemFree(mine), HAL_INVALID_VALUE);
    assert_int_equal(halMemFree(others), HAL_OK);
}

TEST(memory_runs_out)
{
    void *all = NULL;
    void *more = NULL;
    assert_int_equal(halMemAlloc(&all, 0, 0), HAL_INVALID_VALUE);
    assert_int_equal(halMemAlloc(&all, CAPACITY + 1, 0), HAL_OUT_OF_MEMORY);
    assert_int_equal(halMemAlloc(&all, UINT64_MAX, 0), HAL_OUT_OF_MEMORY);
    assert_int_equal(halMemAlloc(&all, CAPACITY, 0), HAL_OK);
    assert_int_equal(halMemAlloc(&more, 1, 0), HAL_OUT_OF_MEMORY);
    assert_int_equal(halMemAlloc(&more, 1, 1), HAL_OK); /* the other device has its own */
    assert_int_equal(halMemFree(all), HAL_OK);
    assert_int_equal(halMemFree(more), HAL_OK);
}

TEST(two_mappings_of_a_handle_show_the_same_bytes)
{
    const hal_mem_prop prop = {.side = HAL_PROP_DEVICE, .device = 0, .pages = HAL_PAGES_HUGE};
    const size_t size = 2 * MIB;
    char *place = NULL;
    void *handle = NULL;
    assert_int_equal(halMemAddressReserve((void **)&place, 3 * size, 0, NULL, 0), HAL_OK);
    assert_int_equal(halMemCreate(&handle, size - 1, &prop, 0), HAL_WRONG_PARAMETER);
    assert_int_equal(halMemCreate(&handle, size, &prop, 0), HAL_OK);
    assert_int_equal(used(0), size);
    assert_int_equal(halMemMap(place, size, 4096, handle, 0), HAL_INVALID_VALUE);
    assert_int_equal(halMemMap(place + 2 * size + 4096, size, 0, handle, 0), HAL_WRONG_PARAMETER);
    assert_int_equal(halMemMap(place, size, 0, handle, 0), HAL_OK);
    assert_int_equal(halMemMap(place, size, 0, handle, 0), HAL_WRONG_PARAMETER);
    assert_int_equal(halMemMap(place + 2 * size, size, 0, handle, 0), HAL_OK);
    place[5] = 9;
    assert_int_equal(place[2 * size + 5], 9);
    assert_int_equal(halMemAddressFree(place), HAL_BUSY);
    assert_int_equal(halMemRelease(handle), HAL_OK);
    assert_int_equal(used(0), size); /* the mappings hold it */
    assert_int_equal(halMemUnmap(place), HAL_OK);
    assert_int_equal(halMemUnmap(place), HAL_WRONG_PARAMETER);
    assert_int_equal(place[2 * size + 5], 9);
    assert_int_equal(halMemUnmap(place + 2 * size), HAL_OK);
    assert_int_equal(used(0), 0);
    assert_int_equal(halMemAddressFree(place), HAL_OK);
    assert_int_equal(halMemAddressFree(place), HAL_INVALID_VALUE);
}

TEST(the_first_memory_settles_the_side_of_a_reservation)
{
    const hal_mem_prop on_device = {.side = HAL_PROP_DEVICE, .device = 1, .pages = HAL_PAGES_HUGE};
    const hal_mem_prop on_host = {.side = HAL_PROP_HOST, .pages = HAL_PAGES_HUGE};
    const size_t size = 2 * MIB;
    char *place = NULL;
    void *ours = NULL, *hosts = NULL;
    assert_int_equal(halMemAddressReserve((void **)&place, 2 * size, 0, NULL, 0), HAL_OK);
    assert_int_equal(halMemCreate(&ours, size, &on_device, 0), HAL_OK);
    assert_int_equal(halMemCreate(&hosts, size, &on_host, 0), HAL_OK);
    assert_int_equal(halMemMap(place, size, 0, ours, 0), HAL_OK);
    assert_int_equal(halMemUnmap(place), HAL_OK);
    assert_int_equal(halMemMap(place + size, size, 0, hosts, 0), HAL_WRONG_PARAMETER);
    assert_int_equal(halMemMap(place + size, size, 0, ours, 0), HAL_OK);
    assert_int_equal(halMemUnmap(place + size), HAL_OK);
    assert_int_equal(halMemRelease(ours), HAL_OK);
    assert_int_equal(halMemRelease(hosts), HAL_OK);
    assert_int_equal(halMemAddressFree(place), HAL_OK);
}

TEST(host_memory_is_registered_once)
{
    static char pages[3 * 4096] __attribute__((aligned(4096)));
    hal_attribute attribute;
    void *mapped = NULL;
    assert_int_equal(halHostRegister(pages + 1, 4096, 0, 0, &mapped), HAL_WRONG_PARAMETER);
    assert_int_equal(halHostRegister(pages, 8192, 0, 0, &mapped), HAL_OK);
    assert_ptr_equal(mapped, pages);
    assert_int_equal(halHostRegister(pages + 4096, 8192, 0, 0, &mapped), HAL_WRONG_PARAMETER);
    assert_int_equal(halHostRegister(pages + 8192, 4096, 0, 0, &mapped), HAL_OK);
    assert_int_equal(drvMemGetAttribute((uintptr_t)pages + 8191, &attribute), HAL_OK);
    assert_int_equal(attribute.type, HAL_TYPE_REGISTERED);
    assert_int_equal(halHostUnregister(pages + 4096, 0), HAL_INVALID_VALUE);
    assert_int_equal(halHostUnregister(pages, 0), HAL_OK);
    assert_int_equal(halHostUnregister(pages + 8192, 0), HAL_OK);
    assert_int_equal(drvMemGetAttribute((uintptr_t)pages, &attribute), HAL_OK);
    assert_int_equal(attribute.type, HAL_TYPE_UNKNOWN);
}

TEST(copies_stay_in_their_room)
{
    char from[4] = "abc", to[4] = "xyz";
    assert_int_equal(drvMemcpy((uintptr_t)to, 3, (uintptr_t)from, 4), HAL_INVALID_VALUE);
    assert_string_equal(to, "xyz");
    assert_int_equal(drvMemcpy((uintptr_t)to, 4, (uintptr_t)from, 4), HAL_OK);
    assert_string_equal(to, "abc");
    assert_int_equal(drvMemsetD8((uintptr_t)to, 4, 'd', 5), HAL_INVALID_VALUE);
    assert_int_equal(drvMemsetD8((uintptr_t)to, 4, 'd', 3), HAL_OK);
    assert_string_equal(to, "ddd");
}

TEST(the_devices_are_two_of_the_kind_910B3)
{
    uint32_t count = 0;
    int64_t value = 0;
    assert_int_equal(drvGetDevNum(&count), HAL_OK);
    assert_int_equal(count, 2);
    assert_int_equal(halGetDeviceInfo(0, HAL_MODULE_SYSTEM, HAL_FACT_VERSION, &value), HAL_OK);
    assert_int_equal(value, 0x503);
    assert_int_equal(halGetDeviceInfo(0, HAL_MODULE_CUBE, HAL_FACT_CORES, &value), HAL_OK);
    assert_int_equal(value, 20);
    assert_true(halSupportFeature(0, 0));
    assert_int_equal(setenv("WEIR_DRIVER_FEATURES", "0", 1), 0);
    assert_false(halSupportFeature(0, 0));
    assert_int_equal(unsetenv("WEIR_DRIVER_FEATURES"), 0);
}

TEST(numbers_run_out_and_come_back)
{
    hal_id_in in = {.kind = HAL_ID_STREAM};
    hal_id_out out = {.id = 0};
    hal_id_figures figures;
    uint32_t taken = 0;
    hal_error error = HAL_OK;
    while ((error = halResourceIdAlloc(0, &in, &out)) == HAL_OK) {
        taken++;
    }
    assert_int_equal(error, HAL_NO_STREAMS);
    assert_int_equal(halResourceInfoQuery(0, 0, HAL_ID_STREAM, &figures), HAL_OK);
    assert_int_equal(figures.used, taken);
    in.id = 7;
    assert_int_equal(halResourceIdFree(0, &in), HAL_OK);
    assert_int_equal(halResourceIdAlloc(0, &in, &out), HAL_OK);
    assert_int_equal(out.id, 7);
    for (in.id = 1; in.id <= taken; in.id++) {
        assert_int_equal(halResourceIdFree(0, &in), HAL_OK);
    }
    in.kind = HAL_ID_KINDS;
    assert_int_equal(halResourceIdAlloc(0, &in, &out), HAL_INVALID_VALUE);
}

/* --- tasks --- */

enum { DEPTH = 8, WANTS_REPORT = 1 << 6 };

/* The numbers of a stream, of its queue of tasks and of its queue of reports. */
typedef struct test_lane {
    uint32_t stream, tasks, reports;
} test_lane;

static test_lane lane_open(uint32_t stream)
{
    test_lane made = {.stream = stream};
    hal_queue_out out;
    hal_queue_in in = {.kind = HAL_QUEUE_NORMAL, .task_depth = DEPTH, .info = {stream}};
    assert_int_equal(halSqCqAllocate(0, &in, &out), HAL_OK);
    made.tasks = out.tasks;
    in = (hal_queue_in){.kind = HAL_QUEUE_LOGIC, .info = {stream}};
    assert_int_equal(halSqCqAllocate(0, &in, &out), HAL_OK);
    made.reports = out.reports;
    return made;
}

static void lane_close(test_lane closed)
{
    hal_queue_end end = {.kind = HAL_QUEUE_NORMAL, .tasks = closed.tasks};
    assert_int_equal(halSqCqFree(0, &end), HAL_OK);
    end = (hal_queue_end){.kind = HAL_QUEUE_LOGIC, .reports = closed.reports};
    assert_int_equal(halSqCqFree(0, &end), HAL_OK);
}

typedef union any_task {
    uint8_t bytes[HAL_TASK_BYTES];
    uint16_t halves[HAL_TASK_BYTES / 2];
    uint32_t words[HAL_TASK_BYTES / 4];
    uint64_t longs[HAL_TASK_BYTES / 8];
} any_task;

static any_task task_of(test_lane to, uint8_t kind, uint16_t number, uint16_t id)
{
    any_task made = {.bytes = {kind, WANTS_REPORT}};
    made.halves[2] = (uint16_t)to.stream;
    made.halves[3] = number;
    made.halves[4] = id;
    return made;
}

static hal_error lane_send(test_lane to, any_task *first, uint32_t count)
{
    hal_send send = {.tasks = to.tasks, .first = first->bytes, .count = count};
    return halSqTaskSend(0, &send);
}

static void lane_do(test_lane to, uint8_t kind, uint16_t number, uint16_t id)
{
    any_task one = task_of(to, kind, number, id);
    assert_int_equal(lane_send(to, &one, 1), HAL_OK);
}

/* Waits for the next report on a lane. Returns the number of the task that has ended. */
static uint16_t lane_next(test_lane from)
{
    hal_report report = {.task = 0};
    hal_receive receive = {
        .reports = from.reports, .timeout_ms = 10000, .first = (uint8_t *)(void *)&report, .room = 1};
    assert_int_equal(halCqReportRecv(0, &receive), HAL_OK);
    assert_int_equal(receive.count, 1);
    assert_int_equal(report.stream, from.stream);
    assert_int_equal(report.tasks, from.tasks);
    return report.task;
}

static void lane_is_silent(test_lane from)
{
    hal_report report;
    hal_receive receive = {.reports = from.reports, .timeout_ms = 20, .first = (uint8_t *)(void *)&report, .room = 1};
    assert_int_equal(halCqReportRecv(0, &receive), HAL_WAIT_TIMEOUT);
}

/* A task that calls a function of the host, and how the runtime's thread answers it. */
TEST(a_stream_waits_for_a_function_of_the_host)
{
    enum { GROUP = 7, EVENT = 40, RETURNED = 15, CALL_TOPIC = 26 << 12 };
    test_lane a = lane_open(1);
    hal_queue_out calls;
    hal_queue_in in = {.kind = HAL_QUEUE_CALLS, .group = GROUP};
    uint64_t bits[16] = {0};
    hal_ready ready = {.bits = bits, .size = 16};
    hal_ready_in wait = {.kind = HAL_QUEUE_CALLS, .group = GROUP, .timeout_ms = 20};
    assert_int_equal(halSqCqAllocate(0, &in, &calls), HAL_OK);
    assert_int_equal(halCqReportIrqWait(0, &wait, &ready), HAL_WAIT_TIMEOUT);
    any_task call = task_of(a, HAL_TASK_PROCESSOR, 5, 0);
    call.halves[8] = (uint16_t)calls.reports;
    call.halves[12] = EVENT;
    call.halves[13] = 1;
    call.longs[4] = 0x123456789a;
    call.longs[5] = 99;
    call.words[14] = CALL_TOPIC;
    assert_int_equal(lane_send(a, &call, 1), HAL_OK);
    lane_do(a, HAL_TASK_EVENT_WAIT, 6, EVENT);
    assert_int_equal(lane_next(a), 5);
    lane_is_silent(a);
    wait.timeout_ms = -1;
    wait.group = GROUP + 1; /* has no queue: nothing to wait for */
    assert_int_equal(halCqReportIrqWait(0, &wait, &ready), HAL_WAIT_TIMEOUT);
    wait.group = GROUP;
    assert_int_equal(halCqReportIrqWait(0, &wait, &ready), HAL_OK);
    assert_int_equal(bits[calls.reports / 64], UINT64_C(1) << (calls.reports % 64));
    hal_reports_in get = {.kind = HAL_QUEUE_CALLS, .reports = calls.reports};
    hal_reports got;
    assert_int_equal(halCqReportGet(0, &get, &got), HAL_OK);
    assert_int_equal(got.count, 1);
    const hal_call *first = got.first;
    assert_true(first->function == 0x123456789a && first->argument == 99 && first->event == EVENT &&
                first->is_blocking);
    hal_slots_in slots_in = {.count = 1};
    hal_slots_out slots;
    assert_int_equal(halSqMemGet(0, &slots_in, &slots), HAL_OK);
    ((volatile uint8_t *)slots.first)[4] = RETURNED;
    ((volatile uint8_t *)slots.first)[10] = EVENT;
    assert_int_equal(halSqMsgSend(0, NULL), HAL_OK);
    assert_int_equal(lane_next(a), 6);
    hal_release release = {.kind = HAL_QUEUE_CALLS, .reports = calls.reports, .count = 1};
    assert_int_equal(halReportRelease(0, &release), HAL_OK);
    assert_int_equal(halCqReportGet(0, &get, &got), HAL_OK);
    assert_int_equal(got.count, 0);
    hal_queue_end end = {.kind = HAL_QUEUE_CALLS, .reports = calls.reports};
    assert_int_equal(halSqCqFree(0, &end), HAL_OK);
    lane_close(a);
}

TEST(a_wait_stays_until_the_event_is_recorded)
{
    test_lane a = lane_open(1), b = lane_open(2);
    lane_do(a, HAL_TASK_EVENT_WAIT, 10, 5);
    lane_do(a, HAL_TASK_PLACEHOLDER, 11, 0);
    lane_is_silent(a);
    lane_do(b, HAL_TASK_EVENT_RECORD, 20, 5);
    assert_int_equal(lane_next(a), 10);
    assert_int_equal(lane_next(a), 11);
    assert_int_equal(lane_next(b), 20);
    lane_do(a, HAL_TASK_EVENT_WAIT, 12, 5); /* an event stays recorded */
    assert_int_equal(lane_next(a), 12);

    any_task reset = task_of(b, HAL_TASK_WRITE_VALUE, 21, 0);
    reset.words[6] = 5;
    reset.words[7] = 1; /* the reset of an event, and no other write */
    assert_int_equal(lane_send(b, &reset, 1), HAL_OK);
    assert_int_equal(lane_next(b), 21);
    lane_do(a, HAL_TASK_EVENT_WAIT, 13, 5);
    lane_is_silent(a);
    lane_do(b, HAL_TASK_EVENT_RECORD, 22, 5);
    assert_int_equal(lane_next(a), 13);

    hal_id_in event = {.kind = HAL_ID_EVENT, .id = 5};
    /* the next owner of the event's number must not find the event recorded */
    assert_int_equal(halResourceIdFree(0, &event), HAL_OK);
    lane_do(a, HAL_TASK_EVENT_WAIT, 14, 5);
    lane_is_silent(a);
    lane_close(a);
    lane_close(b);
}

TEST(a_notify_is_one_bit_that_a_wait_takes)
{
    test_lane a = lane_open(1), b = lane_open(2);
    lane_do(b, HAL_TASK_NOTIFY_RECORD, 20, 3);
    lane_do(b, HAL_TASK_NOTIFY_RECORD, 21, 3);
    assert_int_equal(lane_next(b), 20);
    assert_int_equal(lane_next(b), 21);
    lane_do(a, HAL_TASK_NOTIFY_WAIT, 10, 3);
    lane_do(a, HAL_TASK_NOTIFY_WAIT, 11, 3);
    assert_int_equal(lane_next(a), 10);
    lane_is_silent(a);
    lane_close(a);
    lane_close(b);
}

/* Adds a lane to a graph, or takes it out, by a task of another lane. */
static void lane_joins(test_lane by, test_lane joins, uint16_t graph, bool adds)
{
    any_task one = task_of(by, HAL_TASK_PLACEHOLDER, 90, 0);
    one.halves[1] = 12;
    one.halves[8] = graph;
    one.halves[9] = (uint16_t)joins.stream;
    one.halves[10] = adds ? 0 : 1;
    assert_int_equal(lane_send(by, &one, 1), HAL_OK);
    assert_int_equal(lane_next(by), 90);
}

static void lane_executes(test_lane by, uint16_t number, uint16_t graph)
{
    any_task one = task_of(by, HAL_TASK_CONDITION, number, 1);
    one.halves[6] = graph;
    assert_int_equal(lane_send(by, &one, 1), HAL_OK);
    assert_int_equal(lane_next(by), number);
}

TEST(a_graph_runs_its_tasks_at_each_execution)
{
    enum { GRAPH = 5, OTHER = 6, GATE = 1 };
    test_lane a = lane_open(1), captured = lane_open(2);
    lane_joins(a, captured, GRAPH, true);
    lane_do(captured, HAL_TASK_PLACEHOLDER, 20, 0);
    lane_do(captured, HAL_TASK_NOTIFY_WAIT, 21, GATE);
    lane_executes(a, 10, OTHER);
    lane_is_silent(captured);
    for (uint16_t round = 0; round < 2; round++) {
        lane_executes(a, 11, GRAPH);
        assert_int_equal(lane_next(captured), 20);
        lane_is_silent(captured); /* it waits */
        lane_do(a, HAL_TASK_NOTIFY_RECORD, 12, GATE);
        assert_int_equal(lane_next(a), 12);
        assert_int_equal(lane_next(captured), 21);
        lane_is_silent(captured);
    }
    lane_joins(a, captured, GRAPH, false); /* its tasks go */
    lane_is_silent(captured);
    lane_do(captured, HAL_TASK_PLACEHOLDER, 22, 0);
    assert_int_equal(lane_next(captured), 22);
    lane_close(a);
    lane_close(captured);
}

TEST(a_value_is_written_to_memory)
{
    static uint64_t words[2] = {1, 2};
    enum { EIGHT_BYTES = 3 };
    test_lane a = lane_open(1);
    any_task one = task_of(a, HAL_TASK_WRITE_VALUE, 1, 0);
    one.longs[2] = (uintptr_t)words | (uint64_t)EIGHT_BYTES << 52; /* not a virtual address */
    one.longs[4] = 77;
    assert_int_equal(lane_send(a, &one, 1), HAL_OK);
    assert_int_equal(lane_next(a), 1);
    assert_int_equal(words[0], 1);
    one.longs[2] |= UINT64_C(1) << 63;
    assert_int_equal(lane_send(a, &one, 1), HAL_OK);
    assert_int_equal(lane_next(a), 1);
    assert_int_equal(words[0], 77);
    assert_int_equal(words[1], 2);
    lane_close(a);
}

TEST(copies_are_done_in_the_order_of_their_queue)
{
    static const char from[] = "first";
    char middle[8] = "", to[8] = "";
    test_lane a = lane_open(1);
    any_task two[2] = {task_of(a, HAL_TASK_COPY, 1, 0), task_of(a, HAL_TASK_PCIE_COPY, 2, 0)};
    two[0].bytes[1] = 0; /* no report */
    two[0].words[7] = sizeof(from);
    two[0].longs[4] = (uintptr_t)from;
    two[0].longs[5] = (uintptr_t)middle;
    two[1].longs[4] = (uintptr_t)middle;
    two[1].longs[5] = (uintptr_t)to;
    two[1].longs[6] = sizeof(from);
    assert_int_equal(lane_send(a, two, 2), HAL_OK);
    assert_int_equal(lane_next(a), 2);
    assert_string_equal(to, "first");
    lane_close(a);
}

/* Executes a copy with an operation, and waits for its end. */
static void lane_copies(test_lane to, uint8_t operation, void *target, const void *source, uint32_t bytes)
{
    any_task one = task_of(to, HAL_TASK_COPY, 9, 0);
    one.bytes[16] = operation;
    one.words[7] = bytes;
    one.longs[4] = (uintptr_t)source;
    one.longs[5] = (uintptr_t)target;
    assert_int_equal(lane_send(to, &one, 1), HAL_OK);
    assert_int_equal(lane_next(to), 9);
}

TEST(a_copy_can_combine_what_is_there_with_what_comes)
{
    enum { SUM = 1, MAX = 2, MIN = 3, INT16 = 0x10, INT32 = 0x20, FP16 = 0x60, FP32 = 0x70 };
    test_lane a = lane_open(1);
    int8_t tiny[] = {100, -3};
    lane_copies(a, SUM, tiny, (const int8_t[]){100, 1}, sizeof(tiny));
    assert_memory_equal(tiny, ((const int8_t[]){-56, -2}), sizeof(tiny));
    int16_t small[] = {7, -7};
    lane_copies(a, INT16 | MAX, small, (const int16_t[]){-8, 8}, sizeof(small));
    assert_memory_equal(small, ((const int16_t[]){7, 8}), sizeof(small));
    int32_t whole[] = {INT32_MAX, 2};
    lane_copies(a, INT32 | SUM, whole, (const int32_t[]){1, 3}, sizeof(whole));
    assert_memory_equal(whole, ((const int32_t[]){INT32_MIN, 5}), sizeof(whole));
    float real[] = {0.5F, -1};
    lane_copies(a, FP32 | MIN, real, (const float[]){2, -4}, sizeof(real));
    assert_memory_equal(real, ((const float[]){0.5F, -4}), sizeof(real));
    uint16_t half[] = {0x3c00};
    lane_copies(a, FP16 | SUM, half, (const uint16_t[]){0x3c00}, sizeof(half));
    assert_int_equal(half[0], 0x3c00); /* not computed */
    lane_close(a);
}

TEST(a_queue_is_a_ring_with_a_head_that_moves)
{
    test_lane a = lane_open(1);
    hal_queue_prop prop = {.tasks = a.tasks, .prop = HAL_PROP_STATUS};
    any_task tasks[DEPTH];
    for (uint16_t i = 0; i < DEPTH; i++) {
        tasks[i] = task_of(a, HAL_TASK_PLACEHOLDER, i, 0);
    }
    assert_int_equal(halSqCqConfig(0, &prop), HAL_OK); /* value 0: stops it */
    assert_int_equal(lane_send(a, tasks, DEPTH), HAL_NO_RESOURCES);
    assert_int_equal(lane_send(a, tasks, DEPTH - 1), HAL_OK);
    assert_int_equal(lane_send(a, tasks, 1), HAL_NO_RESOURCES);
    lane_is_silent(a);
    prop.prop = HAL_PROP_HEAD;
    prop.value[0] = 5; /* drops five */
    assert_int_equal(halSqCqConfig(0, &prop), HAL_OK);
    prop.prop = HAL_PROP_ENABLE;
    assert_int_equal(halSqCqConfig(0, &prop), HAL_OK);
    assert_int_equal(lane_next(a), 5);
    assert_int_equal(lane_next(a), 6);
    assert_int_equal(lane_send(a, tasks, 4), HAL_OK);
    for (uint16_t i = 0; i < 4; i++) {
        assert_int_equal(lane_next(a), i);
    }
    prop.prop = HAL_PROP_HEAD;
    assert_int_equal(halSqCqQuery(0, &prop), HAL_OK);
    assert_int_equal(prop.value[0], (DEPTH - 1 + 4) % DEPTH);
    lane_close(a);
    assert_int_equal(lane_send(a, tasks, 1), HAL_INVALID_VALUE);
}

TEST(many_reports_wait_for_their_reader)
{
    test_lane a = lane_open(1);
    enum { MANY = 500 };
    for (uint16_t i = 0; i < MANY;) {
        any_task one = task_of(a, HAL_TASK_PLACEHOLDER, i, 0);
        i = (uint16_t)(i + (lane_send(a, &one, 1) == HAL_OK ? 1 : 0));
    }
    for (uint16_t i = 0; i < MANY; i++) {
        assert_int_equal(lane_next(a), i);
    }
    lane_close(a);
}

TEST(queues_that_were_freed_are_given_again)
{
    for (int i = 0; i < 5000; i++) { /* more than there are */
        lane_close(lane_open(1));
    }
}

int main(void)
{
    if (setenv("WEIR_DRIVER_CAPACITY", TEXT_OF(CAPACITY), 1) != 0) {
        return 1;
    }
    return run_all_tests("driver");
}
