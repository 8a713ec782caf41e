/* device_contract.c: what every device owes its callers (weir/device.h).
 *
 * Built once per device:
 *   DEVICE_HEADER       the header to include, "memfd_device.h"
 *   DEVICE_CREATE       what makes the device: weir_status DEVICE_CREATE(uint64_t capacity_bytes, weir_device **device)
 * and, where it applies:
 *   DEVICE_DESTROY      how it ends; default weir_device_destroy(device)
 *   DEVICE_HOST_ACCESS  1: the host can read and write its memory, which is then tested by its bytes; default 0
 *   DEVICE_STREAM       an expression for a native stream; default NULL
 *
 * A device that says that it has a capacity is filled up to it.
 */
#include DEVICE_HEADER

#include <weir/adaptor.h>
#include <weir/caching.h>
#include <weir/pool.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef DEVICE_DESTROY
#define DEVICE_DESTROY(device) assert_int_equal(weir_device_destroy(device), WEIR_OK)
#endif
#ifndef DEVICE_HOST_ACCESS
#define DEVICE_HOST_ACCESS 0
#endif
#ifndef DEVICE_STREAM
#define DEVICE_STREAM NULL
#endif

#define CAPACITY (UINT64_C(64) << 20)

enum { most_pieces = 64, most_blocks = 40, steps = 600 };

/* A device and what it says of itself. */
struct rig {
    weir_device *device;
    weir_device_info info;
};

static void start(struct rig *rig)
{
    rig->info = (weir_device_info)WEIR_DEVICE_INFO_INIT;
    assert_int_equal(DEVICE_CREATE(CAPACITY, &rig->device), WEIR_OK);
    assert_int_equal(weir_device_get_info(rig->device, &rig->info), WEIR_OK);
}

static void stop(struct rig *rig)
{
    DEVICE_DESTROY(rig->device);
}

static bool has(const struct rig *rig, uint32_t ability)
{
    return (rig->info.abilities & ability) != 0;
}

static bool is_power_of_two(uint64_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

/* --- bytes, where the host may look --- */

static void write_bytes(uint64_t address, uint64_t size, unsigned char value)
{
    if (DEVICE_HOST_ACCESS) {
        memset((void *)(uintptr_t)address, value, size);
    }
}

static void require_bytes(uint64_t address, uint64_t size, unsigned char value)
{
    const unsigned char *bytes = (const unsigned char *)(uintptr_t)address;
    for (uint64_t i = 0; DEVICE_HOST_ACCESS && i < size; i += 509) {
        assert_int_equal(bytes[i], value);
    }
}

/* The kernel says so without a fault: it cannot copy from where nothing is. */
static void require_nothing_at(uint64_t address)
{
    int ends[2];
    if (DEVICE_HOST_ACCESS) {
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], (const void *)(uintptr_t)address, 1), -1);
        assert_int_equal(errno, EFAULT);
        assert_int_equal(close(ends[0]) | close(ends[1]), 0);
    }
}

/* --- facts --- */

static void test_facts_are_sizes_and_do_not_change(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    assert_true(is_power_of_two(rig.info.region_granularity_bytes));
    assert_true(is_power_of_two(rig.info.region_alignment_bytes));
    assert_true(has(&rig, WEIR_DEVICE_VIRTUAL_MEMORY) == (rig.info.page_bytes != 0));
    assert_true(rig.info.page_bytes == 0 || is_power_of_two(rig.info.page_bytes));
    assert_true(memchr(rig.info.name, '\0', sizeof(rig.info.name)) != NULL && rig.info.name[0] != '\0');
    weir_device_info again = WEIR_DEVICE_INFO_INIT;
    uint64_t address;
    assert_int_equal(weir_device_region_alloc(rig.device, rig.info.region_granularity_bytes, &address), WEIR_OK);
    assert_int_equal(weir_device_get_info(rig.device, &again), WEIR_OK);
    assert_memory_equal(&again, &rig.info, sizeof(again));
    assert_int_equal(weir_device_region_free(rig.device, address, rig.info.region_granularity_bytes), WEIR_OK);
    stop(&rig);
}

/* Full, or as full as somebody allows. */
static bool is_no_room(weir_status status)
{
    return status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_LIMIT;
}

/* --- regions --- */

struct piece {
    uint64_t address;
    uint64_t size;
};

static void require_apart(const struct piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_true(pieces[i].address + pieces[i].size <= pieces[j].address ||
                        pieces[j].address + pieces[j].size <= pieces[i].address);
        }
    }
}

static void test_regions_are_aligned_and_apart(void **state)
{
    (void)state;
    struct rig rig;
    struct piece pieces[16];
    start(&rig);
    for (size_t i = 0; i < 16; i++) {
        pieces[i].size = (1 + i % 3) * rig.info.region_granularity_bytes;
        assert_int_equal(weir_device_region_alloc(rig.device, pieces[i].size, &pieces[i].address), WEIR_OK);
        assert_true(pieces[i].address % rig.info.region_alignment_bytes == 0);
        write_bytes(pieces[i].address, pieces[i].size, (unsigned char)i);
    }
    require_apart(pieces, 16);
    for (size_t i = 0; i < 16; i++) {
        require_bytes(pieces[i].address, pieces[i].size, (unsigned char)i);
        assert_int_equal(weir_device_region_free(rig.device, pieces[i].address, pieces[i].size), WEIR_OK);
    }
    stop(&rig);
}

static void test_a_full_device_says_so_and_loses_nothing(void **state)
{
    (void)state;
    struct rig rig;
    struct piece pieces[most_pieces];
    start(&rig);
    if (rig.info.capacity_bytes == 0) {
        stop(&rig);
        skip();
    }
    const uint64_t step = rig.info.region_granularity_bytes;
    const uint64_t size = (rig.info.capacity_bytes / (most_pieces - 1) + step - 1) / step * step;
    uint64_t untouched = 77;
    assert_true(
        is_no_room(weir_device_region_alloc(rig.device, (rig.info.capacity_bytes / step + 1) * step, &untouched)));
    assert_int_equal(untouched, 77);
    size_t first = 0;
    for (int round = 0; round < 3; round++) { /* as much fits each time */
        size_t count = 0;
        weir_status status = WEIR_OK;
        for (; count < most_pieces; count++) {
            pieces[count].size = size;
            status = weir_device_region_alloc(rig.device, size, &pieces[count].address);
            if (status != WEIR_OK) {
                break;
            }
        }
        assert_true(is_no_room(status));
        assert_true(count > 0 && (round == 0 || count == first));
        first = count;
        require_apart(pieces, count);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(weir_device_region_free(rig.device, pieces[i].address, size), WEIR_OK);
        }
    }
    stop(&rig);
}

/* --- virtual memory --- */

static void test_memory_keeps_its_bytes_wherever_it_is_mapped(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    if (!has(&rig, WEIR_DEVICE_VIRTUAL_MEMORY)) {
        stop(&rig);
        skip();
    }
    const uint64_t page = rig.info.page_bytes;
    uint64_t base;
    weir_vm_handle one;
    weir_vm_handle two;
    assert_int_equal(weir_device_vm_reserve(rig.device, 4 * page, &base), WEIR_OK);
    assert_true(base % page == 0);
    assert_int_equal(weir_device_vm_create(rig.device, page, &one), WEIR_OK);
    assert_int_equal(weir_device_vm_create(rig.device, 2 * page, &two), WEIR_OK);
    assert_true(one != 0 && two != 0 && one != two);
    assert_int_equal(weir_device_vm_map(rig.device, base, page, one), WEIR_OK);
    assert_int_equal(weir_device_vm_map(rig.device, base + page, 2 * page, two), WEIR_OK);
    write_bytes(base, page, 1);
    write_bytes(base + page, 2 * page, 2);
    require_bytes(base, page, 1);
    require_nothing_at(base + 3 * page);
    assert_int_equal(weir_device_vm_unmap(rig.device, base, page), WEIR_OK);
    require_nothing_at(base);
    assert_int_equal(weir_device_vm_map(rig.device, base + 3 * page, page, one), WEIR_OK);
    require_bytes(base + page, 2 * page, 2);
    require_bytes(base + 3 * page, page, 1);
    assert_int_equal(weir_device_vm_unmap(rig.device, base + page, 2 * page), WEIR_OK);
    assert_int_equal(weir_device_vm_unmap(rig.device, base + 3 * page, page), WEIR_OK);
    assert_int_equal(weir_device_vm_destroy(rig.device, one), WEIR_OK);
    assert_int_equal(weir_device_vm_destroy(rig.device, two), WEIR_OK);
    assert_int_equal(weir_device_vm_release(rig.device, base, 4 * page), WEIR_OK);
    stop(&rig);
}

static void test_physical_memory_has_an_end(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    if (!has(&rig, WEIR_DEVICE_VIRTUAL_MEMORY) || rig.info.capacity_bytes == 0) {
        stop(&rig);
        skip();
    }
    const uint64_t page = rig.info.page_bytes;
    weir_vm_handle handle = 77;
    assert_true(is_no_room(weir_device_vm_create(rig.device, (rig.info.capacity_bytes / page + 1) * page, &handle)));
    assert_int_equal(handle, 77);
    for (int round = 0; round < 3; round++) { /* all of it comes back */
        assert_int_equal(weir_device_vm_create(rig.device, rig.info.capacity_bytes / page * page, &handle), WEIR_OK);
        assert_int_equal(weir_device_vm_destroy(rig.device, handle), WEIR_OK);
    }
    stop(&rig);
}

/* --- ordering --- */

static void test_events_complete(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    if (!has(&rig, WEIR_DEVICE_ORDERED)) {
        stop(&rig);
        skip();
    }
    void *stream = DEVICE_STREAM;
    weir_event *event;
    bool complete = false;
    assert_int_equal(weir_device_event_create(rig.device, &event), WEIR_OK);
    assert_int_equal(weir_device_event_query(rig.device, event, &complete), WEIR_OK);
    assert_true(complete); /* never recorded */
    assert_int_equal(weir_device_event_sync(rig.device, event), WEIR_OK);
    for (int round = 0; round < 3; round++) {
        complete = false;
        assert_int_equal(weir_device_event_record(rig.device, event, stream), WEIR_OK);
        assert_int_equal(weir_device_stream_wait_event(rig.device, stream, event), WEIR_OK);
        assert_int_equal(weir_device_event_sync(rig.device, event), WEIR_OK);
        assert_int_equal(weir_device_event_query(rig.device, event, &complete), WEIR_OK);
        assert_true(complete);
    }
    assert_int_equal(weir_device_stream_sync(rig.device, stream), WEIR_OK);
    assert_int_equal(weir_device_event_destroy(rig.device, event), WEIR_OK);
    stop(&rig);
}

/* --- a pool over it --- */

/* Random traffic; false when a call that must not fail has. `may_fail`: some device call is made to. */
static void serve(weir_device *device, const weir_device_info *info, bool virtual_memory, uint32_t seed, bool may_fail)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = virtual_memory ? (uint32_t)WEIR_POOL_VIRTUAL_MEMORY : 0;
    weir_pool *pool;
    weir_stream *stream;
    weir_block *blocks[most_blocks] = { NULL };
    const char *why = "";
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(pool, DEVICE_STREAM, &stream), WEIR_OK);
    const uint64_t most = info->capacity_bytes != 0 ? info->capacity_bytes / (4 * most_blocks) : UINT64_C(1) << 20;
    for (int step = 0; step < (may_fail ? steps / 10 : steps); step++) {
        seed = seed * 1103515245u + 12345u;
        const size_t i = seed >> 16 & 0x7fff;
        weir_block **block = &blocks[i % most_blocks];
        if (*block != NULL) {
            require_bytes(weir_block_address(*block), weir_block_size(*block), (unsigned char)(i % most_blocks));
            assert_int_equal(weir_pool_free(pool, *block, stream), WEIR_OK);
            *block = NULL;
        } else {
            const weir_status status = weir_pool_alloc(pool, stream, 1 + (seed >> 8) % most, 0, block);
            assert_true(status == WEIR_OK || may_fail);
            if (status != WEIR_OK) {
                *block = NULL;
                continue;
            }
            write_bytes(weir_block_address(*block), weir_block_size(*block), (unsigned char)(i % most_blocks));
        }
        if (step % 100 == 0) {
            (void)!weir_pool_trim(pool, 0, WEIR_TRIM_WAIT, NULL);
        }
        if (weir_pool_check(pool, &why) != WEIR_OK) {
            fail_msg("step %d: %s", step, why);
        }
    }
    (void)!weir_pool_trim(pool, 0, WEIR_TRIM_WAIT, NULL);
    assert_true(weir_pool_destroy(pool) == WEIR_OK || may_fail);
}

static void require_balance(weir_device *counting)
{
    static const weir_device_call pairs[][2] = {
        { WEIR_CALL_REGION_ALLOC, WEIR_CALL_REGION_FREE }, { WEIR_CALL_VM_RESERVE, WEIR_CALL_VM_RELEASE },
        { WEIR_CALL_VM_CREATE, WEIR_CALL_VM_DESTROY },     { WEIR_CALL_VM_MAP, WEIR_CALL_VM_UNMAP },
        { WEIR_CALL_EVENT_CREATE, WEIR_CALL_EVENT_DESTROY },
    };
    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t failures[WEIR_CALL_COUNT];
    assert_int_equal(weir_count_get(counting, calls, failures), WEIR_OK);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        assert_int_equal(calls[pairs[i][0]] - failures[pairs[i][0]], calls[pairs[i][1]] - failures[pairs[i][1]]);
    }
}

static void test_serves_a_pool(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    for (uint32_t seed = 1; seed <= 5; seed++) {
        for (int virtual_memory = 0; virtual_memory <= has(&rig, WEIR_DEVICE_VIRTUAL_MEMORY); virtual_memory++) {
            weir_device *counting;
            assert_int_equal(weir_count_create(rig.device, &counting), WEIR_OK);
            serve(counting, &rig.info, virtual_memory, seed, false);
            require_balance(counting);
            assert_int_equal(weir_device_destroy(counting), WEIR_OK);
        }
    }
    stop(&rig);
}

/* The n-th call of a pool fails before it reaches the device: what the pool then does must be right for the device too. */
static void test_serves_a_pool_whose_calls_fail(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig);
    for (int virtual_memory = 0; virtual_memory <= has(&rig, WEIR_DEVICE_VIRTUAL_MEMORY); virtual_memory++) {
        bool struck = true;
        for (uint64_t n = 1; struck; n++) {
            weir_device *counting;
            weir_device *faulty;
            assert_int_equal(weir_count_create(rig.device, &counting), WEIR_OK);
            assert_int_equal(weir_fault_create(counting, &faulty), WEIR_OK);
            assert_int_equal(weir_fault_arm(faulty, WEIR_CALL_ANY, n, WEIR_ERR_DEVICE), WEIR_OK);
            serve(faulty, &rig.info, virtual_memory, 7, true);
            assert_int_equal(weir_fault_state(faulty, NULL, &struck), WEIR_OK);
            assert_int_equal(weir_device_destroy(faulty), WEIR_OK);
            assert_int_equal(weir_device_destroy(counting), WEIR_OK);
        }
    }
    stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts_are_sizes_and_do_not_change),
        cmocka_unit_test(test_regions_are_aligned_and_apart),
        cmocka_unit_test(test_a_full_device_says_so_and_loses_nothing),
        cmocka_unit_test(test_memory_keeps_its_bytes_wherever_it_is_mapped),
        cmocka_unit_test(test_physical_memory_has_an_end),
        cmocka_unit_test(test_events_complete),
        cmocka_unit_test(test_serves_a_pool),
        cmocka_unit_test(test_serves_a_pool_whose_calls_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
