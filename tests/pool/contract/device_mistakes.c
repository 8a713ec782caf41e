/* device_mistakes.c: mistakes that the contract suite of devices finds. A correct device, the simulator's with bytes
 * behind its addresses, is wrapped by a table in which one slot is wrong in one way. mistakes.h says how to run it.
 *
 * The table below numbers the mistakes, says each in words, and names the case that finds it. Each slot asks is(...)
 * for the mistakes that it can make.
 */
#include "device_makers.h"
#include "mistakes.h"

#include <pthread.h>
#include <stdatomic.h>

/* X(NAME, the mistake in words, the case that fails) */
#define MISTAKES(X)                                                                                                    \
    X(ALIGNMENT, "regions are aligned to less than the facts say", "regions_are_aligned_and_apart")                    \
    X(NO_NAME, "the device has no name", "facts_are_sizes_and_do_not_change")                                          \
    X(NATIVE_ERROR_FAILS, "native_error has no answer", "a_failure_can_be_asked_about")                                \
    X(LEFT_STALE, "memory_info does not count regions", "what_is_left_shrinks_by_a_region")                            \
    X(REGION_TWICE, "region_alloc gives the last region again", "regions_are_aligned_and_apart")                       \
    X(REGION_OVERLAP, "a region begins before the end of the one before", "regions_are_aligned_and_apart")             \
    X(REGION_FULL_STATUS, "a full device is WEIR_ERR_DEVICE", "a_full_device_says_so_and_loses_nothing")               \
    X(REGION_REFUSAL_COUNTS, "a refused region takes room all the same", "a_full_device_says_so_and_loses_nothing")    \
    X(REGION_KEPT, "region_free gives nothing back", "a_full_device_says_so_and_loses_nothing")                        \
    X(REGION_OTHER_FREED, "region_free gives back another region", "a_free_leaves_other_regions_alone")                \
    X(NO_CAPACITY, "the device gives more than its capacity", "a_full_device_says_so_and_loses_nothing")               \
    X(RESERVE_UNALIGNED, "a reservation starts inside a page", "memory_keeps_its_bytes_wherever_it_is_mapped")         \
    X(RESERVE_OVERLAP, "a reservation is given twice", "addresses_are_apart")                                          \
    X(RESERVE_SHORT, "a reservation of several pages has one", "addresses_are_apart")                                  \
    X(CREATE_SAME, "vm_create gives the last handle again", "memory_keeps_its_bytes_wherever_it_is_mapped")            \
    X(CREATE_ZERO, "a handle is 0", "memory_keeps_its_bytes_wherever_it_is_mapped")                                    \
    X(CREATE_FULL_STATUS, "too much physical memory is WEIR_ERR_DEVICE", "physical_memory_has_an_end")                 \
    X(CREATE_REFUSAL_COUNTS, "refused physical memory is counted", "physical_memory_has_an_end")                       \
    X(CREATE_UNCOUNTED, "physical memory is missing nowhere", "regions_and_pages_share_the_memory")                    \
    X(HANDLE_KEPT, "vm_destroy gives nothing back", "physical_memory_has_an_end")                                      \
    X(MAP_NOTHING, "vm_map maps nothing", "memory_keeps_its_bytes_wherever_it_is_mapped")                              \
    X(MAP_FRESH, "vm_map puts fresh memory there", "memory_keeps_its_bytes_wherever_it_is_mapped")                     \
    X(MAP_PART, "vm_map maps the first half of a handle", "memory_keeps_its_bytes_wherever_it_is_mapped")              \
    X(UNMAP_NOTHING, "vm_unmap leaves the memory there", "memory_keeps_its_bytes_wherever_it_is_mapped")               \
    X(UNMAP_CLEARS, "vm_unmap loses the bytes", "memory_keeps_its_bytes_wherever_it_is_mapped")                        \
    X(UNMAP_TWO, "vm_unmap takes the mapping behind as well", "memory_keeps_its_bytes_wherever_it_is_mapped")          \
    X(EVENT_SHARED, "all events are one", "events_do_not_share_what_they_captured")                                    \
    X(QUERY_TRUE, "event_query always says true", "an_event_completes_with_the_work_before_it")                        \
    X(QUERY_FALSE, "event_query always says false", "an_idle_event_is_complete")                                       \
    X(QUERY_NOTHING, "event_query writes nothing", "an_idle_event_is_complete")                                        \
    X(QUERY_BLOCKS, "event_query waits for the event", "an_event_completes_with_the_work_before_it")                   \
    X(QUERY_UNRECORDED_FALSE, "an event never recorded is not complete", "an_idle_event_is_complete")                  \
    X(QUERY_REMEMBERS, "an event that was complete once stays so", "a_later_record_captures_anew")                     \
    X(QUERY_CONSUMES, "an event that was complete is not when it is asked again", "a_later_record_captures_anew")      \
    X(RECORD_NOTHING, "event_record records nothing", "an_event_completes_with_the_work_before_it")                    \
    X(RECORD_ONCE, "event_record does not record anew", "a_later_record_captures_anew")                                \
    X(RECORD_ADDS, "a later record keeps what the earlier one captured", "a_later_record_replaces_the_earlier_one")    \
    X(RECORD_DEFAULT, "event_record takes the default stream", "an_event_completes_with_the_work_before_it")           \
    X(RECORD_NOT_DEFAULT, "event_record ignores the default stream", "an_event_completes_with_the_work_before_it")     \
    X(RECORD_BLOCKS, "event_record waits for the stream", "an_event_completes_with_the_work_before_it")                \
    X(RECORD_LATE, "an event captures the stream when it is asked, not when it is recorded",                           \
      "an_event_does_not_wait_for_the_work_after_it")                                                                  \
    X(RECORD_LESS, "an event does not capture the last piece of work", "an_event_completes_with_the_work_before_it")   \
    X(RECORD_FIRST_STREAM, "an event stays with the stream that it was recorded on first",                             \
      "a_later_record_captures_anew")                                                                                  \
    X(EVENT_SYNC_NOTHING, "event_sync does not wait", "an_event_completes_with_the_work_before_it")                    \
    X(EVENT_SYNC_ALL, "event_sync waits for every stream", "an_event_does_not_wait_for_the_work_after_it")             \
    X(EVENT_SYNC_FOREVER, "waiting for an event never recorded has no end", "an_idle_event_is_complete")               \
    X(WAIT_NOTHING, "stream_wait_event does nothing", "a_stream_waits_for_an_event")                                   \
    X(WAIT_BLOCKS, "stream_wait_event waits on the host", "a_stream_waits_for_an_event")                               \
    X(WAIT_DEFAULT, "stream_wait_event makes the default stream wait", "a_stream_waits_for_an_event")                  \
    X(WAIT_NOT_DEFAULT, "the default stream never waits", "a_stream_waits_for_an_event")                               \
    X(WAIT_EVERY_STREAM, "stream_wait_event makes every stream wait", "a_wait_holds_up_only_what_follows_it")          \
    X(WAIT_SELF, "a stream may not wait for its own event", "an_event_completes_with_the_work_before_it")              \
    X(WAIT_FORGOTTEN, "a wait is lost when the event is recorded again", "a_wait_keeps_what_the_event_had_captured")   \
    X(WAIT_ONLY_WORK, "an event does not cover a wait that no work follows", "order_is_passed_on")                     \
    X(STREAM_SYNC_NOTHING, "stream_sync does not wait", "a_stream_is_waited_for_to_its_end")                           \
    X(STREAM_SYNC_DEFAULT, "stream_sync waits for the default stream", "a_stream_is_waited_for_to_its_end")            \
    X(STREAM_SYNC_NOT_DEFAULT, "stream_sync passes over the default stream", "a_stream_is_waited_for_to_its_end")      \
    X(STREAM_SYNC_ALL, "stream_sync waits for every stream", "other_streams_are_not_waited_for")                       \
    X(ONE_THREAD, "only the thread that made the device may call", "any_thread_may_call")                              \
    X(THREAD_OWNS_EVENT, "only the thread that recorded an event may ask about it", "any_thread_may_call")             \
    X(LOST_COUNT, "two threads at once lose a count of bytes", "threads_may_call_at_the_same_time")

enum {
    NO_MISTAKE,
#define MISTAKE_ENUM(name, what, found_by) name,
    MISTAKES(MISTAKE_ENUM)
};

static const struct mistake mistakes[] = {
#define MISTAKE_ENTRY(name, what, found_by) {what, found_by},
    MISTAKES(MISTAKE_ENTRY)};

static int built_in;

static bool is(int mistake)
{
    return built_in == mistake;
}

/* --- the device inside, and the memory of the mistakes --- */

#define MIB (UINT64_C(1) << 20)
#define CAPACITY_BYTES (64 * MIB)

enum { most_streams = 8, most_noted = 64 };

static weir_device *inner;
static void *known_streams[most_streams]; /* the first is the default stream */
static int stream_count;
static pthread_t maker;
static struct noted {
    uint64_t address;
    uint64_t size;
} noted[most_noted]; /* regions, oldest first */
static int noted_count;
static struct noted mapped; /* the last mapping */
static uint64_t last_reservation;
static weir_vm_handle last_handle;

struct event {
    weir_event *real;
    weir_event *earlier; /* holds the earlier record */
    bool recorded;
    bool was_complete;
    void *stream;
    pthread_t recorder;
};

static weir_event *shared_event;
/* for each stream, the event of a wait that the mistake makes only when work is queued on the stream */
static struct event *held_back[most_streams];
/* for each stream an event that was recorded before the last piece of work was queued */
static weir_event *before_last_work[most_streams];
static atomic_uint_fast64_t counted_bytes; /* bytes of all regions */
static atomic_int counting_threads;

static bool wrong_thread(void)
{
    return is(ONE_THREAD) && !pthread_equal(maker, pthread_self());
}

static int stream_index(const void *native_stream)
{
    int i = 0;
    while (i < stream_count - 1 && known_streams[i] != native_stream) {
        i++;
    }
    return i;
}

/* --- facts --- */

static weir_status get_info(void *ctx, weir_device_info *info)
{
    (void)ctx;
    const weir_status status = weir_device_get_info(inner, info);
    if (is(NO_NAME)) {
        info->name[0] = '\0';
    }
    if (is(ALIGNMENT)) {
        info->region_alignment_bytes = 64 * MIB;
    }
    info->capacity_bytes = CAPACITY_BYTES;
    return status;
}

static weir_status native_error(void *ctx, int64_t *code, const char **text)
{
    (void)ctx;
    return is(NATIVE_ERROR_FAILS) ? WEIR_ERR_UNSUPPORTED : weir_device_error(inner, code, text);
}

static weir_status memory_info(void *ctx, uint64_t *free_bytes, uint64_t *total_bytes)
{
    (void)ctx;
    const weir_status status = weir_device_memory_info(inner, free_bytes, total_bytes);
    *free_bytes = is(LEFT_STALE) ? *total_bytes : *free_bytes;
    return status;
}

/* --- regions --- */

/* Takes memory and never gives it back. */
static void lose_memory(bool lose)
{
    uint64_t address;
    if (lose) {
        (void)!weir_device_region_alloc(inner, 2 * MIB, &address);
    }
}

/* Loses the count of an allocation if another thread counts at the same time. Frees are always counted: losses in both
 * directions could cancel out. */
static void count_bytes(uint64_t change, bool allocated)
{
    if (is(LOST_COUNT)) {
        const bool lost = atomic_fetch_add(&counting_threads, 1) != 0 && allocated;
        (void)usleep(10);
        (void)atomic_fetch_add(&counted_bytes, lost ? 0 : change);
        (void)atomic_fetch_sub(&counting_threads, 1);
    }
}

static weir_status region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    (void)ctx;
    if (wrong_thread()) {
        return WEIR_ERR_DEVICE;
    }
    if (is(REGION_TWICE) && noted_count > 0 && noted[noted_count - 1].size >= size) {
        *address = noted[noted_count - 1].address;
        return WEIR_OK;
    }
    if (is(LOST_COUNT) && atomic_load(&counted_bytes) + size > CAPACITY_BYTES) {
        return WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = weir_device_region_alloc(inner, size, address);
    if (status == WEIR_OK) {
        count_bytes(size, true);
    }
    if (status != WEIR_OK) {
        lose_memory(is(REGION_REFUSAL_COUNTS));
        return is(REGION_FULL_STATUS) ? WEIR_ERR_DEVICE : status;
    }
    if ((is(REGION_TWICE) || is(REGION_OTHER_FREED)) && noted_count < most_noted) {
        noted[noted_count++] = (struct noted){*address, size};
    }
    *address -= is(REGION_OVERLAP) && size > 2 * MIB ? MIB : 0;
    return WEIR_OK;
}

static weir_status region_free(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx;
    count_bytes(0 - size, false);
    if (wrong_thread()) {
        return WEIR_ERR_DEVICE;
    }
    if (is(REGION_KEPT)) {
        return WEIR_OK;
    }
    for (int i = 0; i < noted_count; i++) {
        const struct noted one = noted[i];
        const bool frees = is(REGION_OTHER_FREED) ? one.address != address && one.size == size : one.address == address;
        if (frees) {
            memmove(&noted[i], &noted[i + 1], (size_t)(--noted_count - i) * sizeof(noted[0]));
            return weir_device_region_free(inner, one.address, one.size);
        }
    }
    const bool unknown = is(REGION_OTHER_FREED) || is(REGION_TWICE) || is(REGION_OVERLAP);
    return unknown ? WEIR_OK : weir_device_region_free(inner, address, size);
}

/* --- virtual memory --- */

static weir_status vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    (void)ctx;
    if (is(RESERVE_OVERLAP) && last_reservation != 0) {
        *address = last_reservation;
        return WEIR_OK;
    }
    const weir_status status = weir_device_vm_reserve(inner, is(RESERVE_SHORT) ? 2 * MIB : size, address);
    if (status == WEIR_OK) {
        if (is(RESERVE_OVERLAP)) {
            last_reservation = *address;
        }
        *address += is(RESERVE_UNALIGNED) ? MIB : 0;
    }
    return status;
}

static weir_status vm_release(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx;
    if (is(RESERVE_OVERLAP)) {
        last_reservation = 0;
    }
    return weir_device_vm_release(inner, is(RESERVE_UNALIGNED) ? address - MIB : address, size);
}

static weir_status vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    (void)ctx;
    if (wrong_thread()) {
        return WEIR_ERR_DEVICE;
    }
    if (is(CREATE_SAME) && last_handle != 0) {
        *handle = last_handle;
        return WEIR_OK;
    }
    const weir_status status = weir_device_vm_create(inner, size, handle);
    if (status != WEIR_OK) {
        lose_memory(is(CREATE_REFUSAL_COUNTS));
        return is(CREATE_FULL_STATUS) ? WEIR_ERR_DEVICE : status;
    }
    if (is(CREATE_UNCOUNTED)) {
        weir_sim_set_capacity(made_sim, 2 * CAPACITY_BYTES);
    }
    if (is(CREATE_SAME)) {
        last_handle = *handle;
    }
    *handle = is(CREATE_ZERO) ? 0 : *handle;
    return WEIR_OK;
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    (void)ctx;
    return is(HANDLE_KEPT) ? WEIR_OK : weir_device_vm_destroy(inner, handle);
}

static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    (void)ctx;
    if (is(MAP_NOTHING)) {
        return WEIR_OK;
    }
    size /= is(MAP_PART) && size > 2 * MIB ? 2 : 1;
    if ((is(MAP_FRESH) || is(MAP_PART)) && weir_device_vm_create(inner, size, &handle) != WEIR_OK) {
        return WEIR_ERR_DEVICE;
    }
    if (is(UNMAP_TWO)) {
        mapped = (struct noted){address, size};
    }
    return weir_device_vm_map(inner, address, size, handle);
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx;
    if (is(UNMAP_NOTHING)) {
        return WEIR_OK;
    }
    void *bytes = weir_sim_bytes(made_sim, address, size);
    if (is(UNMAP_CLEARS) && bytes != NULL) {
        memset(bytes, 0, size);
    }
    if (is(UNMAP_TWO) && mapped.address == address + size) {
        (void)weir_device_vm_unmap(inner, mapped.address, mapped.size);
    }
    return weir_device_vm_unmap(inner, address, size);
}

/* --- events --- */

static weir_status event_create(void *ctx, weir_event **event)
{
    (void)ctx;
    struct event *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = weir_device_event_create(inner, &made->earlier);
    if (status == WEIR_OK) {
        status = weir_device_event_create(inner, &made->real);
    }
    if (is(EVENT_SHARED)) {
        shared_event = shared_event != NULL ? shared_event : made->real;
        made->real = shared_event;
    }
    *event = (weir_event *)made;
    return status;
}

static void forget_wait(const struct event *event)
{
    for (int i = 0; i < most_streams; i++) {
        if (held_back[i] == event) {
            held_back[i] = NULL;
        }
    }
}

static weir_status event_destroy(void *ctx, weir_event *given)
{
    (void)ctx;
    struct event *event = (struct event *)given;
    forget_wait(event);
    weir_status status = weir_device_event_destroy(inner, event->earlier);
    if (status == WEIR_OK && !is(EVENT_SHARED)) {
        status = weir_device_event_destroy(inner, event->real);
    }
    free(event);
    return status;
}

static void *stream_to_record(struct event *event, void *native_stream)
{
    if (is(RECORD_DEFAULT)) {
        return NULL;
    }
    if (is(RECORD_FIRST_STREAM) && event->recorded) {
        return event->stream;
    }
    return native_stream;
}

static weir_status event_record(void *ctx, weir_event *given, void *native_stream)
{
    (void)ctx;
    struct event *event = (struct event *)given;
    if (is(RECORD_NOTHING) || (is(RECORD_ONCE) && event->recorded) ||
        (is(RECORD_NOT_DEFAULT) && native_stream == NULL)) {
        return WEIR_OK;
    }
    if (is(RECORD_BLOCKS)) {
        (void)!weir_device_stream_sync(inner, native_stream);
    }
    if (is(RECORD_ADDS)) {
        weir_event *const before = event->earlier;
        event->earlier = event->real;
        event->real = before;
    }
    if (is(WAIT_FORGOTTEN)) {
        forget_wait(event);
    }
    if (is(RECORD_LESS) && before_last_work[stream_index(native_stream)] != NULL) {
        event->real = before_last_work[stream_index(native_stream)];
        return WEIR_OK;
    }
    event->stream = stream_to_record(event, native_stream);
    event->recorded = true;
    event->was_complete = is(QUERY_REMEMBERS) && event->was_complete;
    event->recorder = pthread_self();
    return weir_device_event_record(inner, event->real, event->stream);
}

static void capture_now(struct event *event)
{
    if (is(RECORD_LATE) && event->recorded) {
        (void)!weir_device_event_record(inner, event->real, event->stream);
    }
}

static weir_status event_query(void *ctx, weir_event *given, bool *complete)
{
    (void)ctx;
    struct event *event = (struct event *)given;
    bool earlier = true;
    capture_now(event);
    if (is(THREAD_OWNS_EVENT) && event->recorded && !pthread_equal(event->recorder, pthread_self())) {
        return WEIR_ERR_DEVICE;
    }
    if (is(QUERY_TRUE) || is(QUERY_FALSE) || is(QUERY_NOTHING) || (is(QUERY_REMEMBERS) && event->was_complete)) {
        *complete = is(QUERY_NOTHING) ? *complete : !is(QUERY_FALSE);
        return WEIR_OK;
    }
    if (is(QUERY_UNRECORDED_FALSE) && !event->recorded) {
        *complete = false;
        return WEIR_OK;
    }
    if (is(QUERY_BLOCKS)) {
        (void)!weir_device_event_sync(inner, event->real);
    }
    weir_status status = weir_device_event_query(inner, event->real, complete);
    if (status == WEIR_OK && is(RECORD_ADDS)) {
        status = weir_device_event_query(inner, event->earlier, &earlier);
        *complete = *complete && earlier;
    }
    *complete = *complete && !(is(QUERY_CONSUMES) && event->was_complete);
    event->was_complete = status == WEIR_OK && *complete;
    return status;
}

static weir_status sync_all(void)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < stream_count && status == WEIR_OK; i++) {
        status = weir_device_stream_sync(inner, known_streams[i]);
    }
    return status;
}

static weir_status event_sync(void *ctx, weir_event *given)
{
    (void)ctx;
    struct event *event = (struct event *)given;
    if (is(EVENT_SYNC_NOTHING)) {
        return WEIR_OK;
    }
    if (is(EVENT_SYNC_ALL)) {
        return sync_all();
    }
    while (is(EVENT_SYNC_FOREVER) && !event->recorded) {
        (void)pause();
    }
    capture_now(event);
    if (is(RECORD_ADDS)) {
        (void)!weir_device_event_sync(inner, event->earlier);
    }
    return weir_device_event_sync(inner, event->real);
}

/* --- streams --- */

static weir_status stream_wait_event(void *ctx, void *native_stream, weir_event *given)
{
    (void)ctx;
    struct event *event = (struct event *)given;
    if (is(WAIT_NOTHING) || (is(WAIT_NOT_DEFAULT) && native_stream == NULL)) {
        return WEIR_OK;
    }
    if (is(WAIT_SELF) && event->recorded && event->stream == native_stream) {
        return WEIR_ERR_INVALID;
    }
    if (is(WAIT_BLOCKS)) {
        return weir_device_event_sync(inner, event->real);
    }
    if (is(WAIT_FORGOTTEN) || is(WAIT_ONLY_WORK)) {
        held_back[stream_index(native_stream)] = event;
        return WEIR_OK;
    }
    for (int i = 0; is(WAIT_EVERY_STREAM) && i < stream_count; i++) {
        (void)!weir_device_stream_wait_event(inner, known_streams[i], event->real);
    }
    return weir_device_stream_wait_event(inner, is(WAIT_DEFAULT) ? NULL : native_stream, event->real);
}

static weir_status stream_sync(void *ctx, void *native_stream)
{
    (void)ctx;
    if (is(STREAM_SYNC_NOTHING) || (is(STREAM_SYNC_NOT_DEFAULT) && native_stream == NULL)) {
        return WEIR_OK;
    }
    if (is(STREAM_SYNC_ALL)) {
        return sync_all();
    }
    return weir_device_stream_sync(inner, is(STREAM_SYNC_DEFAULT) ? NULL : native_stream);
}

/* --- the device as the suite gets it --- */

static const weir_device_ops ops = {
    .struct_size = sizeof(weir_device_ops),
    .get_info = get_info,
    .region_alloc = region_alloc,
    .region_free = region_free,
    .vm_reserve = vm_reserve,
    .vm_release = vm_release,
    .vm_create = vm_create,
    .vm_destroy = vm_destroy,
    .vm_map = vm_map,
    .vm_unmap = vm_unmap,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_sync = event_sync,
    .stream_wait_event = stream_wait_event,
    .stream_sync = stream_sync,
    .native_error = native_error,
    .memory_info = memory_info,
};

/* The simulator of a case that failed. Its work ends while the next case runs, as on a device in real time. */
static weir_sim *left_over;

static void finish_left_over(void)
{
    if (left_over != NULL) {
        weir_sim_advance(left_over, 100 * SIM_UNIT_NS);
        left_over = NULL;
    }
}

static weir_status end_wrong(weir_device *device)
{
    const weir_status status = end_limited(device);
    made_sim = status == WEIR_OK ? NULL : made_sim;
    return status;
}

static weir_status make_wrong(uint64_t capacity_bytes, weir_device **device)
{
    left_over = made_sim;
    const weir_status status = make_sim_backed(is(NO_CAPACITY) ? 2 * capacity_bytes : capacity_bytes, &inner);
    maker = pthread_self();
    stream_count = 1;
    noted_count = 0;
    last_reservation = last_handle = 0;
    mapped = (struct noted){0, 0};
    shared_event = NULL;
    memset(held_back, 0, sizeof(held_back));
    memset(before_last_work, 0, sizeof(before_last_work));
    atomic_store(&counted_bytes, 0);
    return status == WEIR_OK ? weir_device_create(&ops, NULL, device) : status;
}

static weir_status make_known_stream(weir_device *device, void **native_stream)
{
    const weir_status status = make_sim_stream(device, native_stream);
    if (status == WEIR_OK && stream_count < most_streams) {
        known_streams[stream_count++] = *native_stream;
    }
    return status;
}

static weir_status end_known_stream(weir_device *device, void *native_stream)
{
    known_streams[stream_index(native_stream)] = known_streams[stream_count - 1];
    stream_count--;
    return end_sim_stream(device, native_stream);
}

static weir_status queue_after_waits(weir_device *device, void *native_stream, unsigned units, void (*ended)(void *ctx),
                                     void *ctx)
{
    struct event **event = &held_back[stream_index(native_stream)];
    finish_left_over();
    if (*event != NULL) {
        (void)!weir_device_stream_wait_event(inner, native_stream, (*event)->real);
        *event = NULL;
    }
    if (is(RECORD_LESS)) {
        weir_event **before = &before_last_work[stream_index(native_stream)];
        if (weir_device_event_create(inner, before) != WEIR_OK ||
            weir_device_event_record(inner, *before, native_stream) != WEIR_OK) {
            return WEIR_ERR_DEVICE;
        }
    }
    return queue_on_sim(device, native_stream, units, ended, ctx);
}

static int run(int number, const char *only)
{
    const weir_tested_device wrong = {
        .name = "a device with a mistake",
        .create = make_wrong,
        .destroy = end_wrong,
        .bytes = sim_bytes,
        .stream_create = make_known_stream,
        .stream_destroy = end_known_stream,
        .queue = queue_after_waits,
    };
    char *arguments[] = {NULL, (char *)(uintptr_t)only};
    built_in = number;
    return weir_device_contract(&wrong, only != NULL ? 2 : 1, arguments);
}

int main(int argc, char **argv)
{
    const int count = sizeof(mistakes) / sizeof(mistakes[0]);
    const int result = prove_mistakes(mistakes, count, run, argc, argv);
    const bool goes_on = argc > 1 || prove_going_on(count, run, "an_event");
    return goes_on ? result : EXIT_FAILURE;
}
