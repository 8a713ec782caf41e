/* device_contract.c: tests that a device keeps the rules of weir/device.h. device_contract.h says how to run it.
 *
 * Each case makes its own device. If a device reports a capacity, the suite fills it up to this capacity. The cases of
 * stream order queue work that takes units of time, let the device under test order it, and check the order in which
 * the work ended.
 */
#include "device_contract.h"

#include "contract.h"

#include <weir/adaptor.h>
#include <weir/caching.h>
#include <weir/pool.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define CAPACITY (UINT64_C(64) << 20)

enum { most_pieces = 64, most_blocks = 40, steps = 600 };

static const weir_tested_device *tested;

/* A device and the facts that it reports. */
struct rig {
    weir_device *device;
    weir_device_info info;
};

static void start(struct rig *rig)
{
    rig->info = (weir_device_info)WEIR_DEVICE_INFO_INIT;
    assert_int_equal(tested->create(CAPACITY, &rig->device), WEIR_OK);
    assert_int_equal(weir_device_get_info(rig->device, &rig->info), WEIR_OK);
}

static void stop(struct rig *rig)
{
    weir_status (*const destroy)(weir_device *) = tested->destroy != NULL ? tested->destroy : weir_device_destroy;
    assert_int_equal(destroy(rig->device), WEIR_OK);
}

/* Destroys the device and skips the case. */
static _Noreturn void stop_and_skip(struct rig *rig, const char *why)
{
    stop(rig);
    contract_skip(why);
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

void *weir_tested_bytes_in_place(weir_device *device, uint64_t address, uint64_t size)
{
    (void)device;
    unsigned char *bytes = (unsigned char *)(uintptr_t)address;
    int ends[2];
    if (pipe(ends) != 0) {
        return NULL;
    }
    /* write() fails without a fault if it cannot read its source. */
    const bool there = write(ends[1], bytes, 1) == 1 && write(ends[1], bytes + size - 1, 1) == 1;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return there ? bytes : NULL;
}

static void write_bytes(const struct rig *rig, uint64_t address, uint64_t size, unsigned char value)
{
    if (tested->bytes != NULL) {
        void *bytes = tested->bytes(rig->device, address, size);
        assert_non_null(bytes);
        memset(bytes, value, size);
    }
}

static void require_bytes(const struct rig *rig, uint64_t address, uint64_t size, unsigned char value)
{
    if (tested->bytes == NULL) {
        return;
    }
    const unsigned char *bytes = tested->bytes(rig->device, address, size);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < size; i += 509) {
        assert_int_equal(bytes[i], value);
    }
    assert_int_equal(bytes[size - 1], value);
}

static void require_nothing_at(const struct rig *rig, uint64_t address)
{
    assert_true(tested->bytes == NULL || tested->bytes(rig->device, address, 1) == NULL);
}

/* --- facts and diagnosis --- */

static void facts_are_sizes_and_do_not_change(void)
{
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
    assert_true(memcmp(&again, &rig.info, sizeof(again)) == 0);
    assert_int_equal(weir_device_region_free(rig.device, address, rig.info.region_granularity_bytes), WEIR_OK);
    stop(&rig);
}

/* Other users of the device may take memory meanwhile, the runtime among them, so only bounds hold. */
static void what_is_left_shrinks_by_a_region(void)
{
    struct rig rig;
    uint64_t before = 0;
    uint64_t after = 0;
    uint64_t total = 0;
    uint64_t address = 0;
    start(&rig);
    const weir_status status = weir_device_memory_info(rig.device, &before, &total);
    if (status != WEIR_OK) {
        assert_int_equal(status, WEIR_ERR_UNSUPPORTED);
        stop_and_skip(&rig, "the device does not tell what is left");
    }
    const uint64_t size = rig.info.region_granularity_bytes;
    assert_true(before <= total && total >= rig.info.capacity_bytes);
    assert_int_equal(weir_device_region_alloc(rig.device, size, &address), WEIR_OK);
    assert_int_equal(weir_device_memory_info(rig.device, &after, &total), WEIR_OK);
    assert_true(after <= before - size);
    assert_int_equal(weir_device_region_free(rig.device, address, size), WEIR_OK);
    assert_int_equal(weir_device_memory_info(rig.device, NULL, &total), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_memory_info(rig.device, &after, NULL), WEIR_ERR_INVALID);
    stop(&rig);
}

/* True if the device is full, or as full as its limit allows. */
static bool is_no_room(weir_status status)
{
    return status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_LIMIT;
}

static void a_failure_can_be_asked_about(void)
{
    struct rig rig;
    start(&rig);
    if (rig.info.capacity_bytes == 0) {
        stop_and_skip(&rig, "the device does not say its capacity");
    }
    const uint64_t step = rig.info.region_granularity_bytes;
    uint64_t address;
    int64_t code = 77;
    const char *text = NULL;
    assert_int_equal(weir_device_error(rig.device, &code, &text), WEIR_OK);
    assert_non_null(text);
    const uint64_t too_much = (rig.info.capacity_bytes / step + 1) * step;
    assert_true(is_no_room(weir_device_region_alloc(rig.device, too_much, &address)));
    assert_int_equal(weir_device_error(rig.device, &code, &text), WEIR_OK);
    assert_true(text != NULL && strlen(text) < 65536);
    stop(&rig);
}

/* --- regions --- */

struct piece {
    uint64_t address;
    uint64_t size;
};

static void require_apart(const struct piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(pieces[i].address != 0);
        for (size_t j = 0; j < i; j++) {
            assert_true(pieces[i].address + pieces[i].size <= pieces[j].address ||
                        pieces[j].address + pieces[j].size <= pieces[i].address);
        }
    }
}

static void regions_are_aligned_and_apart(void)
{
    struct rig rig;
    struct piece pieces[16];
    start(&rig);
    for (size_t i = 0; i < 16; i++) {
        pieces[i].size = (1 + i % 3) * rig.info.region_granularity_bytes;
        assert_int_equal(weir_device_region_alloc(rig.device, pieces[i].size, &pieces[i].address), WEIR_OK);
        assert_true(pieces[i].address % rig.info.region_alignment_bytes == 0);
        write_bytes(&rig, pieces[i].address, pieces[i].size, (unsigned char)i);
    }
    require_apart(pieces, 16);
    for (size_t i = 0; i < 16; i++) {
        require_bytes(&rig, pieces[i].address, pieces[i].size, (unsigned char)i);
        assert_int_equal(weir_device_region_free(rig.device, pieces[i].address, pieces[i].size), WEIR_OK);
    }
    stop(&rig);
}

/* Freeing a region leaves the bytes of other regions unchanged. */
static void a_free_leaves_other_regions_alone(void)
{
    struct rig rig;
    struct piece pieces[8];
    start(&rig);
    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = round == 0 ? 0 : 1; i < 8; i += round == 0 ? 1 : 2) { /* later: the odd ones only */
            pieces[i].size = (1 + i % 3) * rig.info.region_granularity_bytes;
            assert_int_equal(weir_device_region_alloc(rig.device, pieces[i].size, &pieces[i].address), WEIR_OK);
            write_bytes(&rig, pieces[i].address, pieces[i].size, (unsigned char)(10 * round + i));
        }
        require_apart(pieces, 8);
        for (size_t i = 1; i < 8; i += 2) {
            require_bytes(&rig, pieces[i].address, pieces[i].size, (unsigned char)(10 * round + i));
            assert_int_equal(weir_device_region_free(rig.device, pieces[i].address, pieces[i].size), WEIR_OK);
        }
        for (size_t i = 0; i < 8; i += 2) {
            require_bytes(&rig, pieces[i].address, pieces[i].size, (unsigned char)i);
        }
    }
    for (size_t i = 0; i < 8; i += 2) {
        assert_int_equal(weir_device_region_free(rig.device, pieces[i].address, pieces[i].size), WEIR_OK);
    }
    stop(&rig);
}

/* Takes regions of `size` bytes until the device is full, frees them all, and returns their number. */
static size_t fill_up(const struct rig *rig, uint64_t size)
{
    struct piece pieces[most_pieces];
    size_t count = 0;
    weir_status status = WEIR_OK;
    for (; count < most_pieces; count++) {
        pieces[count].size = size;
        status = weir_device_region_alloc(rig->device, size, &pieces[count].address);
        if (status != WEIR_OK) {
            break;
        }
        write_bytes(rig, pieces[count].address, 1, (unsigned char)count);
    }
    assert_true(is_no_room(status));
    require_apart(pieces, count);
    for (size_t i = 0; i < count; i++) {
        require_bytes(rig, pieces[i].address, 1, (unsigned char)i);
        assert_int_equal(weir_device_region_free(rig->device, pieces[i].address, size), WEIR_OK);
    }
    return count;
}

/* Returns a size of which fill_up takes fewer than most_pieces. */
static uint64_t filling_size(const struct rig *rig)
{
    const uint64_t step = rig->info.region_granularity_bytes;
    return (rig->info.capacity_bytes / (most_pieces - 1) + step - 1) / step * step;
}

/* The same number of regions fits each time, also after refused requests. */
static void a_full_device_says_so_and_loses_nothing(void)
{
    struct rig rig;
    start(&rig);
    if (rig.info.capacity_bytes == 0) {
        stop_and_skip(&rig, "the device does not say its capacity");
    }
    const uint64_t step = rig.info.region_granularity_bytes;
    const size_t first = fill_up(&rig, filling_size(&rig));
    assert_true(first > 0);
    for (int round = 0; round < 40; round++) {
        uint64_t untouched = 77;
        assert_true(
            is_no_room(weir_device_region_alloc(rig.device, (rig.info.capacity_bytes / step + 1) * step, &untouched)));
        assert_int_equal(untouched, 77);
    }
    assert_int_equal(fill_up(&rig, filling_size(&rig)), first);
    assert_int_equal(fill_up(&rig, filling_size(&rig)), first);
    stop(&rig);
}

/* --- virtual memory --- */

static void start_with_pages(struct rig *rig)
{
    start(rig);
    if (!has(rig, WEIR_DEVICE_VIRTUAL_MEMORY)) {
        stop_and_skip(rig, "the device has no virtual memory");
    }
}

static void memory_keeps_its_bytes_wherever_it_is_mapped(void)
{
    struct rig rig;
    start_with_pages(&rig);
    const uint64_t page = rig.info.page_bytes;
    uint64_t base;
    weir_vm_handle one;
    weir_vm_handle two;
    assert_int_equal(weir_device_vm_reserve(rig.device, 4 * page, &base), WEIR_OK);
    assert_true(base % page == 0);
    assert_int_equal(weir_device_vm_create(rig.device, page, &one), WEIR_OK);
    assert_int_equal(weir_device_vm_create(rig.device, 2 * page, &two), WEIR_OK);
    assert_true(one != 0 && two != 0 && one != two);
    require_nothing_at(&rig, base);
    assert_int_equal(weir_device_vm_map(rig.device, base, page, one), WEIR_OK);
    assert_int_equal(weir_device_vm_map(rig.device, base + page, 2 * page, two), WEIR_OK);
    write_bytes(&rig, base, page, 1);
    write_bytes(&rig, base + page, 2 * page, 2);
    require_bytes(&rig, base, page, 1);
    require_nothing_at(&rig, base + 3 * page);
    assert_int_equal(weir_device_vm_unmap(rig.device, base, page), WEIR_OK);
    require_nothing_at(&rig, base);
    assert_int_equal(weir_device_vm_map(rig.device, base + 3 * page, page, one), WEIR_OK);
    require_bytes(&rig, base + page, 2 * page, 2);
    require_bytes(&rig, base + 3 * page, page, 1);
    assert_int_equal(weir_device_vm_unmap(rig.device, base + page, 2 * page), WEIR_OK);
    assert_int_equal(weir_device_vm_unmap(rig.device, base + 3 * page, page), WEIR_OK);
    assert_int_equal(weir_device_vm_destroy(rig.device, one), WEIR_OK);
    assert_int_equal(weir_device_vm_destroy(rig.device, two), WEIR_OK);
    assert_int_equal(weir_device_vm_release(rig.device, base, 4 * page), WEIR_OK);
    stop(&rig);
}

/* Reservations and regions of many sizes do not overlap. */
static void addresses_are_apart(void)
{
    struct rig rig;
    start_with_pages(&rig);
    struct piece pieces[24];
    for (size_t i = 0; i < 24; i++) {
        const bool region = i % 4 == 3;
        pieces[i].size = (1 + i % 5) * (region ? rig.info.region_granularity_bytes : rig.info.page_bytes);
        assert_int_equal(region ? weir_device_region_alloc(rig.device, pieces[i].size, &pieces[i].address)
                                : weir_device_vm_reserve(rig.device, pieces[i].size, &pieces[i].address),
                         WEIR_OK);
        assert_true(region || pieces[i].address % rig.info.page_bytes == 0);
    }
    require_apart(pieces, 24);
    for (size_t i = 0; i < 24; i++) {
        assert_int_equal(i % 4 == 3 ? weir_device_region_free(rig.device, pieces[i].address, pieces[i].size)
                                    : weir_device_vm_release(rig.device, pieces[i].address, pieces[i].size),
                         WEIR_OK);
    }
    stop(&rig);
}

static void start_with_counted_pages(struct rig *rig)
{
    start_with_pages(rig);
    if (rig->info.capacity_bytes == 0) {
        stop_and_skip(rig, "the device does not say its capacity");
    }
}

static void physical_memory_has_an_end(void)
{
    struct rig rig;
    start_with_counted_pages(&rig);
    const uint64_t page = rig.info.page_bytes;
    weir_vm_handle handle = 77;
    for (int round = 0; round < 40; round++) { /* a refused call takes nothing */
        assert_true(
            is_no_room(weir_device_vm_create(rig.device, (rig.info.capacity_bytes / page + 1) * page, &handle)));
        assert_int_equal(handle, 77);
    }
    for (int round = 0; round < 3; round++) { /* all memory comes back */
        assert_int_equal(weir_device_vm_create(rig.device, rig.info.capacity_bytes / page * page, &handle), WEIR_OK);
        assert_int_equal(weir_device_vm_destroy(rig.device, handle), WEIR_OK);
    }
    stop(&rig);
}

/* Mapped memory is not available to regions until its handle is destroyed. */
static void regions_and_pages_share_the_memory(void)
{
    struct rig rig;
    start_with_counted_pages(&rig);
    const uint64_t page = rig.info.page_bytes;
    const uint64_t step = rig.info.region_granularity_bytes;
    const uint64_t most = rig.info.capacity_bytes * 3 / 4;
    weir_vm_handle handle;
    uint64_t address;
    assert_int_equal(weir_device_vm_create(rig.device, most / page * page, &handle), WEIR_OK);
    assert_true(is_no_room(weir_device_region_alloc(rig.device, most / step * step, &address)));
    assert_int_equal(weir_device_vm_destroy(rig.device, handle), WEIR_OK);
    assert_int_equal(weir_device_region_alloc(rig.device, most / step * step, &address), WEIR_OK);
    assert_true(is_no_room(weir_device_vm_create(rig.device, most / page * page, &handle)));
    assert_int_equal(weir_device_region_free(rig.device, address, most / step * step), WEIR_OK);
    stop(&rig);
}

/* --- stream order --- */

enum { streams = 3, long_units = 40 };

/* Streams to queue work on. The last one is the default stream. Work on the first two streams runs at the same time. */
struct order {
    struct rig rig;
    void *stream[streams]; /* the last is NULL */
};

/* A piece of work that was queued. It is not in the frame of its case: a case that fails leaves its work behind, which
 * ends later, while other cases run. */
struct queued {
    struct queued *next;
    atomic_uint place;
};

/* A case's name for a piece of work. */
struct work {
    struct queued *queued;
};

static struct queued *all_queued;
static atomic_uint ended_works; /* of all cases */

static void note_end(void *ctx)
{
    struct queued *queued = ctx;
    atomic_store(&queued->place, atomic_fetch_add(&ended_works, 1) + 1);
}

/* Returns the position of a piece of work among all ended pieces of work: 0 means that it has not ended. */
static unsigned place_of(const struct work *work)
{
    return atomic_load(&work->queued->place);
}

static bool has_ended(const struct work *work)
{
    return place_of(work) != 0;
}

static void forget_ended(void)
{
    for (struct queued **link = &all_queued; *link != NULL;) {
        struct queued *queued = *link;
        if (atomic_load(&queued->place) != 0) {
            *link = queued->next;
            free(queued);
        } else {
            link = &queued->next;
        }
    }
}

static void start_with_events(struct rig *rig)
{
    start(rig);
    if (!has(rig, WEIR_DEVICE_ORDERED)) {
        stop_and_skip(rig, "the device has no streams and events");
    }
}

static void start_order(struct order *order)
{
    start_with_events(&order->rig);
    if (tested->queue == NULL || tested->stream_create == NULL || tested->stream_destroy == NULL) {
        stop_and_skip(&order->rig, "STREAM ORDER IS NOT TESTED: weir_tested_device has no way to queue work");
    }
    for (int i = 0; i < streams - 1; i++) {
        assert_int_equal(tested->stream_create(order->rig.device, &order->stream[i]), WEIR_OK);
    }
    order->stream[streams - 1] = NULL;
}

static void stop_order(struct order *order)
{
    for (int i = 0; i < streams; i++) {
        assert_int_equal(weir_device_stream_sync(order->rig.device, order->stream[i]), WEIR_OK);
    }
    for (int i = 0; i < streams - 1; i++) {
        assert_int_equal(tested->stream_destroy(order->rig.device, order->stream[i]), WEIR_OK);
    }
    stop(&order->rig);
    forget_ended();
}

static void queue(struct order *order, void *stream, unsigned units, struct work *work)
{
    work->queued = calloc(1, sizeof(*work->queued));
    assert_non_null(work->queued);
    work->queued->next = all_queued;
    all_queued = work->queued;
    assert_int_equal(tested->queue(order->rig.device, stream, units, note_end, work->queued), WEIR_OK);
}

static weir_event *new_event(struct order *order)
{
    weir_event *event = NULL;
    assert_int_equal(weir_device_event_create(order->rig.device, &event), WEIR_OK);
    return event;
}

static void end_event(struct order *order, weir_event *event)
{
    assert_int_equal(weir_device_event_destroy(order->rig.device, event), WEIR_OK);
}

static void record(struct order *order, weir_event *event, void *stream)
{
    assert_int_equal(weir_device_event_record(order->rig.device, event, stream), WEIR_OK);
}

static void make_wait(struct order *order, void *stream, weir_event *event)
{
    assert_int_equal(weir_device_stream_wait_event(order->rig.device, stream, event), WEIR_OK);
}

static bool is_complete(struct order *order, weir_event *event, bool otherwise)
{
    bool complete = otherwise; /* stays if the query writes nothing */
    assert_int_equal(weir_device_event_query(order->rig.device, event, &complete), WEIR_OK);
    return complete;
}

static void sync_event(struct order *order, weir_event *event)
{
    assert_int_equal(weir_device_event_sync(order->rig.device, event), WEIR_OK);
    assert_true(is_complete(order, event, false));
}

static void sync_stream(struct order *order, void *stream)
{
    assert_int_equal(weir_device_stream_sync(order->rig.device, stream), WEIR_OK);
}

/* Runs `play` with each pair of different streams. Work of the default stream may delay the work of both. */
static void with_each_pair(void (*play)(struct order *order, void *one, void *other))
{
    struct order order;
    start_order(&order);
    for (int i = 0; i < streams; i++) {
        for (int j = 0; j < streams; j++) {
            if (i != j) {
                play(&order, order.stream[i], order.stream[j]);
                sync_stream(&order, order.stream[i]);
                sync_stream(&order, order.stream[j]);
            }
        }
    }
    stop_order(&order);
}

static void an_idle_event_is_complete(void)
{
    struct rig rig;
    start_with_events(&rig);
    weir_event *event;
    bool complete = false;
    assert_int_equal(weir_device_event_create(rig.device, &event), WEIR_OK);
    assert_int_equal(weir_device_event_query(rig.device, event, &complete), WEIR_OK);
    assert_true(complete); /* never recorded */
    assert_int_equal(weir_device_event_sync(rig.device, event), WEIR_OK);
    assert_int_equal(weir_device_stream_wait_event(rig.device, NULL, event), WEIR_OK);
    for (int round = 0; round < 3; round++) {
        complete = false;
        assert_int_equal(weir_device_event_record(rig.device, event, NULL), WEIR_OK);
        assert_int_equal(weir_device_stream_wait_event(rig.device, NULL, event), WEIR_OK);
        assert_int_equal(weir_device_event_sync(rig.device, event), WEIR_OK);
        assert_int_equal(weir_device_event_query(rig.device, event, &complete), WEIR_OK);
        assert_true(complete);
    }
    assert_int_equal(weir_device_stream_sync(rig.device, NULL), WEIR_OK);
    assert_int_equal(weir_device_event_destroy(rig.device, event), WEIR_OK);
    stop(&rig);
}

/* The calls that record and query an event do not block. The event completes with the last piece of work that was
 * queued before the record. */
static void play_event(struct order *order, void *one, void *other)
{
    struct work first;
    struct work last;
    (void)other;
    weir_event *event = new_event(order);
    queue(order, one, 1, &first);
    queue(order, one, 4, &last);
    record(order, event, one);
    assert_false(is_complete(order, event, true));
    make_wait(order, one, event); /* a stream's wait for its own event changes nothing */
    assert_false(has_ended(&last));
    sync_event(order, event);
    assert_true(has_ended(&first) && has_ended(&last));
    end_event(order, event);
}

static void an_event_completes_with_the_work_before_it(void)
{
    with_each_pair(play_event);
}

static void an_event_does_not_wait_for_the_work_after_it(void)
{
    struct order order;
    struct work before;
    struct work after;
    start_order(&order);
    weir_event *event = new_event(&order);
    queue(&order, order.stream[0], 1, &before);
    record(&order, event, order.stream[0]);
    queue(&order, order.stream[0], long_units, &after);
    sync_event(&order, event);
    assert_true(has_ended(&before) && !has_ended(&after));
    end_event(&order, event);
    stop_order(&order);
}

static void play_record_anew(struct order *order, void *one, void *other)
{
    struct work earlier;
    struct work later;
    weir_event *event = new_event(order);
    queue(order, one, 1, &earlier);
    record(order, event, one);
    sync_event(order, event);
    queue(order, one, 4, &later);
    assert_true(is_complete(order, event, false)); /* not recorded since then */
    record(order, event, one);
    assert_false(is_complete(order, event, true));
    sync_event(order, event);
    assert_true(has_ended(&later));
    queue(order, other, 4, &earlier);
    record(order, event, other);
    assert_false(is_complete(order, event, true));
    sync_event(order, event);
    assert_true(has_ended(&earlier));
    end_event(order, event);
}

static void a_later_record_captures_anew(void)
{
    with_each_pair(play_record_anew);
}

/* A second record replaces the first one, even if the first is not complete. */
static void a_later_record_replaces_the_earlier_one(void)
{
    struct order order;
    struct work work;
    start_order(&order);
    weir_event *event = new_event(&order);
    queue(&order, order.stream[0], long_units, &work);
    record(&order, event, order.stream[0]);
    record(&order, event, order.stream[1]);
    sync_event(&order, event);
    assert_false(has_ended(&work));
    end_event(&order, event);
    stop_order(&order);
}

static void events_do_not_share_what_they_captured(void)
{
    struct order order;
    struct work work;
    start_order(&order);
    weir_event *idle = new_event(&order);
    weir_event *busy = new_event(&order);
    assert_true(idle != busy);
    record(&order, idle, order.stream[0]);
    queue(&order, order.stream[0], long_units, &work);
    record(&order, busy, order.stream[0]);
    sync_event(&order, idle);
    assert_false(has_ended(&work));
    assert_false(is_complete(&order, busy, true));
    end_event(&order, idle);
    sync_event(&order, busy);
    assert_true(has_ended(&work));
    end_event(&order, busy);
    stop_order(&order);
}

static void play_wait(struct order *order, void *one, void *other)
{
    struct work first;
    struct work second;
    weir_event *event = new_event(order);
    queue(order, one, 4, &first);
    record(order, event, one);
    make_wait(order, other, event);
    queue(order, other, 1, &second);
    assert_false(has_ended(&first)); /* no call has blocked */
    sync_stream(order, other);
    assert_true(has_ended(&first) && has_ended(&second));
    assert_true(place_of(&first) < place_of(&second));
    end_event(order, event);
}

static void a_stream_waits_for_an_event(void)
{
    with_each_pair(play_wait);
}

/* A stream waits for the record that the event had when the wait was queued. */
static void play_wait_and_record(struct order *order, void *one, void *other)
{
    struct work first;
    struct work second;
    weir_event *event = new_event(order);
    queue(order, one, 4, &first);
    record(order, event, one);
    make_wait(order, other, event);
    record(order, event, other);
    queue(order, other, 1, &second);
    sync_stream(order, other);
    assert_true(has_ended(&first) && place_of(&first) < place_of(&second));
    end_event(order, event);
}

static void a_wait_keeps_what_the_event_had_captured(void)
{
    with_each_pair(play_wait_and_record);
}

/* An event is recorded again after the wait was queued. The stream does not wait for the work of the second record. */
static void a_wait_does_not_wait_for_a_later_record(void)
{
    struct order order;
    struct work long_one;
    struct work short_one;
    start_order(&order);
    weir_event *event = new_event(&order);
    make_wait(&order, order.stream[1], event); /* never recorded */
    record(&order, event, order.stream[1]);
    make_wait(&order, order.stream[1], event);
    queue(&order, order.stream[0], long_units, &long_one);
    record(&order, event, order.stream[0]);
    queue(&order, order.stream[1], 1, &short_one);
    sync_stream(&order, order.stream[1]);
    assert_true(has_ended(&short_one) && !has_ended(&long_one));
    end_event(&order, event);
    stop_order(&order);
}

/* A wait delays neither earlier work of its stream nor work of other streams. */
static void a_wait_holds_up_only_what_follows_it(void)
{
    struct order order;
    struct work long_one;
    struct work before;
    struct work elsewhere;
    void *third = NULL;
    start_order(&order);
    assert_int_equal(tested->stream_create(order.rig.device, &third), WEIR_OK);
    weir_event *event = new_event(&order);
    weir_event *passed = new_event(&order);
    queue(&order, order.stream[0], long_units, &long_one);
    record(&order, event, order.stream[0]);
    queue(&order, order.stream[1], 1, &before);
    record(&order, passed, order.stream[1]);
    make_wait(&order, order.stream[1], event);
    queue(&order, third, 1, &elsewhere);
    sync_event(&order, passed);
    assert_true(has_ended(&before) && !has_ended(&long_one));
    sync_stream(&order, third);
    assert_true(has_ended(&elsewhere) && !has_ended(&long_one));
    end_event(&order, event);
    end_event(&order, passed);
    sync_stream(&order, order.stream[0]);
    assert_int_equal(tested->stream_destroy(order.rig.device, third), WEIR_OK);
    stop_order(&order);
}

/* Order passes through streams without work of their own: the third stream runs after the first. */
static void play_chain(struct order *order, void *one, void *other)
{
    struct work first;
    struct work last;
    void *third = NULL;
    assert_int_equal(tested->stream_create(order->rig.device, &third), WEIR_OK);
    weir_event *event = new_event(order);
    weir_event *passed_on = new_event(order);
    queue(order, one, 4, &first);
    record(order, event, one);
    make_wait(order, other, event);
    record(order, passed_on, other);
    assert_false(is_complete(order, passed_on, true));
    make_wait(order, third, passed_on);
    queue(order, third, 1, &last);
    assert_false(has_ended(&first));
    sync_event(order, passed_on);
    assert_true(has_ended(&first));
    sync_stream(order, third);
    assert_true(has_ended(&last) && place_of(&first) < place_of(&last));
    end_event(order, event);
    end_event(order, passed_on);
    assert_int_equal(tested->stream_destroy(order->rig.device, third), WEIR_OK);
}

static void order_is_passed_on(void)
{
    with_each_pair(play_chain);
}

static void play_sync(struct order *order, void *one, void *other)
{
    struct work works[3];
    (void)other;
    sync_stream(order, one); /* the stream is idle */
    for (unsigned i = 0; i < 3; i++) {
        queue(order, one, 1 + i, &works[i]);
    }
    assert_false(has_ended(&works[0]));
    sync_stream(order, one);
    assert_true(has_ended(&works[0]) && has_ended(&works[1]) && has_ended(&works[2]));
    assert_true(place_of(&works[0]) < place_of(&works[1]));
    assert_true(place_of(&works[1]) < place_of(&works[2]));
}

static void a_stream_is_waited_for_to_its_end(void)
{
    with_each_pair(play_sync);
}

static void other_streams_are_not_waited_for(void)
{
    struct order order;
    struct work long_one;
    struct work short_one;
    start_order(&order);
    queue(&order, order.stream[0], long_units, &long_one);
    queue(&order, order.stream[1], 1, &short_one);
    sync_stream(&order, order.stream[1]);
    assert_true(has_ended(&short_one) && !has_ended(&long_one));
    weir_event *event = new_event(&order);
    queue(&order, order.stream[1], 1, &short_one);
    record(&order, event, order.stream[1]);
    sync_event(&order, event);
    assert_true(has_ended(&short_one) && !has_ended(&long_one));
    end_event(&order, event);
    stop_order(&order);
}

/* --- a pool over the device --- */

/* Runs random traffic on a pool over the device. `may_fail` is true if some device calls are made to fail. The case
 * fails if a call fails that must not. */
static void serve(const struct rig *rig, weir_device *device, bool virtual_memory, uint32_t seed, bool may_fail)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = virtual_memory ? 0 : (uint32_t)WEIR_POOL_REGIONS;
    weir_pool *pool;
    weir_stream *stream;
    weir_block *blocks[most_blocks] = {NULL};
    const char *why = "";
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(pool, NULL, &stream), WEIR_OK);
    const uint64_t capacity = rig->info.capacity_bytes;
    const uint64_t most = capacity != 0 ? capacity / (4 * most_blocks) : UINT64_C(1) << 20;
    for (int step = 0; step < (may_fail ? steps / 10 : steps); step++) {
        seed = seed * 1103515245u + 12345u;
        const size_t i = seed >> 16 & 0x7fff;
        weir_block **block = &blocks[i % most_blocks];
        if (*block != NULL) {
            require_bytes(rig, weir_block_address(*block), weir_block_size(*block), (unsigned char)(i % most_blocks));
            assert_int_equal(weir_pool_free(pool, *block, stream), WEIR_OK);
            *block = NULL;
        } else {
            const weir_status status = weir_pool_alloc(pool, stream, 1 + (seed >> 8) % most, 0, block);
            assert_true(status == WEIR_OK || may_fail);
            if (status != WEIR_OK) {
                *block = NULL;
                continue;
            }
            write_bytes(rig, weir_block_address(*block), weir_block_size(*block), (unsigned char)(i % most_blocks));
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
        {WEIR_CALL_REGION_ALLOC, WEIR_CALL_REGION_FREE},   {WEIR_CALL_VM_RESERVE, WEIR_CALL_VM_RELEASE},
        {WEIR_CALL_VM_CREATE, WEIR_CALL_VM_DESTROY},       {WEIR_CALL_VM_MAP, WEIR_CALL_VM_UNMAP},
        {WEIR_CALL_EVENT_CREATE, WEIR_CALL_EVENT_DESTROY},
    };
    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t failures[WEIR_CALL_COUNT];
    assert_int_equal(weir_count_get(counting, calls, failures), WEIR_OK);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        assert_int_equal(calls[pairs[i][0]] - failures[pairs[i][0]], calls[pairs[i][1]] - failures[pairs[i][1]]);
    }
}

static void serves_a_pool(void)
{
    struct rig rig;
    start(&rig);
    for (uint32_t seed = 1; seed <= 5; seed++) {
        for (int virtual_memory = 0; virtual_memory <= has(&rig, WEIR_DEVICE_VIRTUAL_MEMORY); virtual_memory++) {
            weir_device *counting;
            assert_int_equal(weir_count_create(rig.device, &counting), WEIR_OK);
            serve(&rig, counting, virtual_memory, seed, false);
            require_balance(counting);
            assert_int_equal(weir_device_destroy(counting), WEIR_OK);
        }
    }
    stop(&rig);
}

/* The n-th device call of a pool fails before it reaches the device. The calls that the pool makes afterwards must keep
 * the device's rules too. */
static void serves_a_pool_whose_calls_fail(void)
{
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
            serve(&rig, faulty, virtual_memory, 7, true);
            assert_int_equal(weir_fault_state(faulty, NULL, &struck), WEIR_OK);
            assert_int_equal(weir_device_destroy(faulty), WEIR_OK);
            assert_int_equal(weir_device_destroy(counting), WEIR_OK);
        }
    }
    stop(&rig);
}

/* --- threads --- */

/* Objects that one thread creates and another thread uses and destroys. */
struct shared {
    struct rig *rig;
    void *stream;
    struct piece region;
    weir_event *event;
    uint64_t base;
    weir_vm_handle handle;
    bool failed;
};

static bool make_shared(struct shared *shared)
{
    const struct rig *rig = shared->rig;
    shared->region.size = rig->info.region_granularity_bytes;
    bool made = weir_device_region_alloc(rig->device, shared->region.size, &shared->region.address) == WEIR_OK;
    if (has(rig, WEIR_DEVICE_ORDERED)) {
        made &= weir_device_event_create(rig->device, &shared->event) == WEIR_OK;
        made &= weir_device_event_record(rig->device, shared->event, shared->stream) == WEIR_OK;
    }
    if (has(rig, WEIR_DEVICE_VIRTUAL_MEMORY)) {
        made &= weir_device_vm_reserve(rig->device, rig->info.page_bytes, &shared->base) == WEIR_OK;
        made &= weir_device_vm_create(rig->device, rig->info.page_bytes, &shared->handle) == WEIR_OK;
        made &= weir_device_vm_map(rig->device, shared->base, rig->info.page_bytes, shared->handle) == WEIR_OK;
    }
    return made;
}

static bool end_shared(struct shared *shared)
{
    const struct rig *rig = shared->rig;
    bool complete = false;
    bool ended = weir_device_region_free(rig->device, shared->region.address, shared->region.size) == WEIR_OK;
    if (has(rig, WEIR_DEVICE_ORDERED)) {
        ended &= weir_device_stream_wait_event(rig->device, shared->stream, shared->event) == WEIR_OK;
        ended &= weir_device_event_sync(rig->device, shared->event) == WEIR_OK;
        ended &= weir_device_event_query(rig->device, shared->event, &complete) == WEIR_OK && complete;
        ended &= weir_device_stream_sync(rig->device, shared->stream) == WEIR_OK;
        ended &= weir_device_event_destroy(rig->device, shared->event) == WEIR_OK;
    }
    if (has(rig, WEIR_DEVICE_VIRTUAL_MEMORY)) {
        ended &= weir_device_vm_unmap(rig->device, shared->base, rig->info.page_bytes) == WEIR_OK;
        ended &= weir_device_vm_destroy(rig->device, shared->handle) == WEIR_OK;
        ended &= weir_device_vm_release(rig->device, shared->base, rig->info.page_bytes) == WEIR_OK;
    }
    return ended;
}

static void *make_in_thread(void *ctx)
{
    struct shared *shared = ctx;
    shared->failed = !make_shared(shared);
    return NULL;
}

static void *end_in_thread(void *ctx)
{
    struct shared *shared = ctx;
    shared->failed = !end_shared(shared);
    return NULL;
}

enum { at_once = 4 };

static atomic_uint threads_ready;

static void *make_and_end(void *ctx)
{
    struct shared *shared = ctx;
    atomic_fetch_add(&threads_ready, 1);
    while (atomic_load(&threads_ready) < at_once) {
        (void)sched_yield();
    }
    for (int round = 0; round < 1000 && !shared->failed; round++) {
        shared->failed = !make_shared(shared) || !end_shared(shared);
    }
    return NULL;
}

/* Runs the function in `count` threads, one for each element of `shared`, and joins them. */
static void run_threads(void *(*run)(void *ctx), struct shared *shared, size_t count)
{
    pthread_t threads[at_once];
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run, &shared[i]), 0);
    }
    bool failed = false;
    for (size_t i = 0; i < count; i++) {
        failed |= pthread_join(threads[i], NULL) != 0 || shared[i].failed;
    }
    assert_false(failed);
}

static void any_thread_may_call(void)
{
    struct rig rig;
    start(&rig);
    struct shared shared = {.rig = &rig};
    run_threads(make_in_thread, &shared, 1);
    write_bytes(&rig, shared.region.address, shared.region.size, 7);
    require_bytes(&rig, shared.region.address, shared.region.size, 7);
    assert_true(end_shared(&shared));
    assert_true(make_shared(&shared));
    run_threads(end_in_thread, &shared, 1);
    stop(&rig);
}

/* Concurrent calls lose nothing. A thread sanitizer finds more than this case alone. */
static void threads_may_call_at_the_same_time(void)
{
    struct rig rig;
    start(&rig);
    const bool counted = rig.info.capacity_bytes != 0;
    const size_t before = counted ? fill_up(&rig, filling_size(&rig)) : 0;
    struct shared shared[at_once];
    for (size_t i = 0; i < at_once; i++) {
        shared[i] = (struct shared){.rig = &rig};
    }
    atomic_store(&threads_ready, 0);
    run_threads(make_and_end, shared, at_once);
    assert_int_equal(counted ? fill_up(&rig, filling_size(&rig)) : 0, before);
    stop(&rig);
}

int weir_device_contract(const weir_tested_device *device, int argc, char **argv)
{
    static const struct contract_case cases[] = {
        CONTRACT_CASE(facts_are_sizes_and_do_not_change),
        CONTRACT_CASE(a_failure_can_be_asked_about),
        CONTRACT_CASE(what_is_left_shrinks_by_a_region),
        CONTRACT_CASE(regions_are_aligned_and_apart),
        CONTRACT_CASE(a_free_leaves_other_regions_alone),
        CONTRACT_CASE(a_full_device_says_so_and_loses_nothing),
        CONTRACT_CASE(memory_keeps_its_bytes_wherever_it_is_mapped),
        CONTRACT_CASE(addresses_are_apart),
        CONTRACT_CASE(physical_memory_has_an_end),
        CONTRACT_CASE(regions_and_pages_share_the_memory),
        CONTRACT_CASE(an_idle_event_is_complete),
        CONTRACT_CASE(an_event_completes_with_the_work_before_it),
        CONTRACT_CASE(an_event_does_not_wait_for_the_work_after_it),
        CONTRACT_CASE(a_later_record_captures_anew),
        CONTRACT_CASE(a_later_record_replaces_the_earlier_one),
        CONTRACT_CASE(events_do_not_share_what_they_captured),
        CONTRACT_CASE(a_stream_waits_for_an_event),
        CONTRACT_CASE(a_wait_keeps_what_the_event_had_captured),
        CONTRACT_CASE(a_wait_does_not_wait_for_a_later_record),
        CONTRACT_CASE(a_wait_holds_up_only_what_follows_it),
        CONTRACT_CASE(order_is_passed_on),
        CONTRACT_CASE(a_stream_is_waited_for_to_its_end),
        CONTRACT_CASE(other_streams_are_not_waited_for),
        CONTRACT_CASE(any_thread_may_call),
        CONTRACT_CASE(threads_may_call_at_the_same_time),
        CONTRACT_CASE(serves_a_pool),
        CONTRACT_CASE(serves_a_pool_whose_calls_fail),
    };
    tested = device;
    return contract_run(tested->name, cases, sizeof(cases) / sizeof(cases[0]), argc > 1 ? argv[1] : NULL);
}
