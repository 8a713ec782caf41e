/* random_programs.c: random programs over the public ACL functions without captures. They print each answer of the
 * runtime (random.h). Whether a stream is held up by an event is a state that does not depend on the device's speed.
 *
 *   vendor_random_programs COUNT [FIRST_SEED]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nanosleep */
#endif

#include "random.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* aclrtQueryEvent is compared, too */

enum { STREAMS = 4, EVENTS = 6, BLOCKS = 8, SLOTS = 4, STEPS = 200, ROOM = 1 << 16, ABSENT = 9 };
enum { PLAIN, FLAG, EX };

typedef struct event_state {
    aclrtEvent handle;
    unsigned kind;
    bool is_recorded; /* and not reset since */
} event_state;

typedef struct block_state {
    void *address;
    size_t size;
    bool on_host;
} block_state;

typedef struct slot_state { /* an address range, physical memory and a mapping */
    void *address;
    aclrtDrvMemHandle handle;
    bool is_mapped;
} slot_state;

static aclrtStream streams[STREAMS];
static event_state events[EVENTS];
static block_state blocks[BLOCKS];
static slot_state slots[SLOTS];
static char host[ROOM] __attribute__((aligned(4096)));
static bool is_registered;

static void settle(void)
{
    const aclError error = aclrtSynchronizeDevice();
    if (error != ACL_SUCCESS) {
        say("settle: %d", error);
    }
}

/* After a wait for the device or an event, the vendor's host may need a moment until it knows the state and time of an
 * event. A call that answers "not yet" is repeated after a pause, at most this often. */
enum { TRIES = 500 };

static void pause_between_tries(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static aclError old_status(aclrtEvent event, aclrtEventStatus *status)
{
    aclError error = aclrtQueryEvent(event, status);
    for (int i = 0; i < TRIES && error == ACL_SUCCESS && *status != ACL_EVENT_STATUS_COMPLETE; i++) {
        pause_between_tries();
        error = aclrtQueryEvent(event, status);
    }
    return error;
}

static aclError elapsed_time(aclrtEvent from, aclrtEvent to)
{
    float ms = 0;
    aclError error = aclrtEventElapsedTime(&ms, from, to);
    for (int i = 0; i < TRIES && error == ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID; i++) {
        pause_between_tries();
        error = aclrtEventElapsedTime(&ms, from, to);
    }
    return error;
}

/* --- streams --- */

static void stream_comes_or_goes(void)
{
    const unsigned i = any(STREAMS);
    if (streams[i] == NULL) {
        say("create stream %u: %d", i, aclrtCreateStream(&streams[i]));
    } else if (any(4) == 0) {
        say("destroy stream %u: %d", i, aclrtDestroyStream(streams[i]));
        streams[i] = NULL;
    }
}

static void stream_is_synchronized(void)
{
    const aclrtStream stream = streams[any(STREAMS)];
    if (stream != NULL) {
        aclrtStreamStatus status = (aclrtStreamStatus)ABSENT;
        const aclError error = aclrtSynchronizeStream(stream);
        const aclError asked = aclrtStreamQuery(stream, &status);
        say("synchronize stream: %d %d %d", error, asked, (int)status);
    }
}

static void stream_is_described(void)
{
    const aclrtStream stream = streams[any(STREAMS)];
    uint32_t priority = ABSENT;
    uint32_t flags = ABSENT;
    if (stream != NULL) {
        const aclError first = aclrtStreamGetPriority(stream, &priority);
        const aclError second = aclrtStreamGetFlags(stream, &flags);
        say("describe stream: %d %u %d %u", first, priority, second, flags);
    }
}

static void device_is_synchronized(void)
{
    say("synchronize device: %d", aclrtSynchronizeDevice());
}

/* --- events --- */

static void event_comes_or_goes(void)
{
    const unsigned i = any(EVENTS);
    event_state *event = &events[i];
    if (event->handle == NULL) {
        const uint32_t flags = ACL_EVENT_SYNC | (any(2) != 0 ? ACL_EVENT_TIME_LINE : 0);
        *event = (event_state){.kind = any(3)};
        const aclError error = event->kind == PLAIN  ? aclrtCreateEvent(&event->handle)
                               : event->kind == FLAG ? aclrtCreateEventWithFlag(&event->handle, flags)
                                                     : aclrtCreateEventExWithFlag(&event->handle, flags);
        say("create event %u kind %u: %d", i, event->kind, error);
    } else if (any(3) == 0) {
        settle();
        say("destroy event %u: %d", i, aclrtDestroyEvent(event->handle));
        event->handle = NULL;
    }
}

static void event_flags_are_tried(void)
{
    static const uint32_t unusual[] = {0, 1, 2, 3, 4, 8, 16, 0x20, 0x40, 0x80, 0x400, 0xffffffff};
    const uint32_t flags = unusual[any(sizeof(unusual) / sizeof(unusual[0]))];
    const bool ex = any(2) != 0;
    aclrtEvent event = NULL;
    const aclError error = ex ? aclrtCreateEventExWithFlag(&event, flags) : aclrtCreateEventWithFlag(&event, flags);
    say("create event %s with 0x%x: %d", ex ? "ex" : "plain", flags, error);
    if (error == ACL_SUCCESS) {
        say("destroy it: %d", aclrtDestroyEvent(event));
    }
}

static void event_is_recorded(void)
{
    const unsigned i = any(EVENTS);
    const aclrtStream stream = any(8) != 0 ? streams[any(STREAMS)] : NULL;
    if (events[i].handle != NULL) {
        const aclError error = aclrtRecordEvent(events[i].handle, stream);
        say("record event %u: %d", i, error);
        events[i].is_recorded |= error == ACL_SUCCESS;
    }
}

/* Makes a stream wait for an event, unless nothing could end this wait. */
static void event_is_waited_for(void)
{
    const unsigned i = any(EVENTS);
    const aclrtStream stream = streams[any(STREAMS)];
    if (stream != NULL && events[i].handle != NULL && (events[i].is_recorded || events[i].kind != FLAG)) {
        if (events[i].is_recorded || events[i].kind == EX) {
            say("wait for event %u kind %u: %d", i, events[i].kind, aclrtStreamWaitEvent(stream, events[i].handle));
        }
    }
}

/* Makes a stream wait for an event with a flag that was reset or never recorded; another stream then records the event.
 * Events of aclrtCreateEvent are left out, because nothing would end the wait. */
static void stream_is_held_up(void)
{
    const unsigned i = any(EVENTS);
    const unsigned s = any(STREAMS);
    const aclrtStream stream = streams[s];
    const aclrtStream other = streams[(s + 1) % STREAMS];
    event_state *event = &events[i];
    if (stream == NULL || other == NULL || event->handle == NULL || event->kind != FLAG) {
        return;
    }
    if (event->is_recorded) {
        settle();
        const aclError reset = aclrtResetEvent(event->handle, other);
        settle();
        say("reset event %u: %d", i, reset);
    }
    aclrtStreamStatus status = (aclrtStreamStatus)ABSENT;
    settle();
    const aclError wait = aclrtStreamWaitEvent(stream, event->handle);
    const aclError asked = aclrtStreamQuery(stream, &status);
    say("wait for event %u kind %u, which is not recorded: %d %d %d", i, event->kind, wait, asked, (int)status);
    say("record event %u: %d", i, aclrtRecordEvent(event->handle, other));
    event->is_recorded = true;
    say("synchronize the held stream: %d", aclrtSynchronizeStream(stream));
}

static void event_is_reset(void)
{
    const unsigned i = any(EVENTS);
    const aclrtStream stream = streams[any(STREAMS)];
    if (stream != NULL && events[i].handle != NULL && events[i].is_recorded) {
        settle();
        const aclError error = aclrtResetEvent(events[i].handle, stream);
        settle();
        say("reset event %u kind %u: %d", i, events[i].kind, error);
        events[i].is_recorded = events[i].is_recorded && error != ACL_SUCCESS;
    }
}

static void event_is_asked(void)
{
    const unsigned i = any(EVENTS);
    const event_state *event = &events[i];
    if (event->handle == NULL) {
        return;
    }
    settle();
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)ABSENT;
    aclrtEventStatus old = (aclrtEventStatus)ABSENT;
    aclrtEventWaitStatus waited = (aclrtEventWaitStatus)ABSENT;
    aclError error = aclrtQueryEventStatus(event->handle, &status);
    say("status of event %u kind %u: %d %d", i, event->kind, error, error == ACL_SUCCESS ? (int)status : ABSENT);
    error = old_status(event->handle, &old);
    say("old status of event %u kind %u: %d %d", i, event->kind, error, error == ACL_SUCCESS ? (int)old : ABSENT);
    error = aclrtQueryEventWaitStatus(event->handle, &waited);
    say("wait status of event %u kind %u: %d %d", i, event->kind, error, error == ACL_SUCCESS ? (int)waited : ABSENT);
}

static void event_is_synchronized(void)
{
    const unsigned i = any(EVENTS);
    if (events[i].handle != NULL) {
        say("synchronize event %u kind %u: %d", i, events[i].kind, aclrtSynchronizeEvent(events[i].handle));
    }
}

static void time_passes(void)
{
    const unsigned i = any(EVENTS);
    const unsigned k = any(EVENTS);
    if (events[i].handle != NULL && events[k].handle != NULL) {
        settle();
        say("time from event %u kind %u to %u kind %u: %d", i, events[i].kind, k, events[k].kind,
            elapsed_time(events[i].handle, events[k].handle));
    }
}

/* --- memory --- */

static void block_comes_or_goes(void)
{
    const unsigned i = any(BLOCKS);
    block_state *block = &blocks[i];
    if (block->address != NULL) {
        if (any(2) == 0) {
            settle();
            const aclError error = block->on_host ? aclrtFreeHost(block->address) : aclrtFree(block->address);
            say("free block %u: %d", i, error);
            block->address = NULL;
        }
        return;
    }
    const aclrtMemMallocPolicy policy = (aclrtMemMallocPolicy)any(3);
    const unsigned how = any(5);
    *block = (block_state){.size = any(3) != 0 ? 1 + any(1 << 22) : 1 + any(4096), .on_host = how == 4};
    const aclError error = how == 4   ? aclrtMallocHost(&block->address, block->size)
                           : how == 3 ? aclrtMallocCached(&block->address, block->size, policy)
                           : how == 2 ? aclrtMallocAlign32(&block->address, block->size, policy)
                                      : aclrtMalloc(&block->address, block->size, policy);
    say("block %u of %zu bytes, form %u, policy %d: %d aligned %d", i, block->size, how, (int)policy, error,
        (int)((uintptr_t)block->address % 64));
}

static void size_is_refused(void)
{
    static const size_t sizes[] = {0, SIZE_MAX, SIZE_MAX - 31, (size_t)1 << 50};
    void *address = NULL;
    const unsigned which = any(sizeof(sizes) / sizeof(sizes[0]));
    say("allocate too much (%u): %d", which, aclrtMalloc(&address, sizes[which], ACL_MEM_MALLOC_HUGE_FIRST));
}

static void bad_address_is_freed(void)
{
    say("free NULL: %d", aclrtFree(NULL));
    say("free host memory NULL: %d", aclrtFreeHost(NULL));
    say("release addresses NULL: %d", aclrtReleaseMemAddress(NULL));
}

static void block_is_filled(void)
{
    const unsigned i = any(BLOCKS);
    const aclrtStream stream = streams[any(STREAMS)];
    const block_state *block = &blocks[i];
    if (block->address == NULL || block->on_host || stream == NULL) {
        return;
    }
    const size_t count = any(5) != 0 ? any((unsigned)block->size) + 1 : block->size + 1 + any(1000);
    const aclError error = aclrtMemsetAsync(block->address, block->size, (int)any(256), count, stream);
    say("fill block %u, %s: %d", i, count <= block->size ? "inside" : "beyond", error);
}

/* Copies a byte pattern to the device and back, and prints a sum of the bytes that were copied back. */
static void bytes_go_around(void)
{
    const unsigned i = any(BLOCKS);
    const aclrtStream stream = streams[any(STREAMS)];
    const block_state *block = &blocks[i];
    if (block->address == NULL || block->on_host || stream == NULL) {
        return;
    }
    const size_t size = block->size < ROOM / 2 ? block->size : ROOM / 2;
    const bool async = any(2) != 0;
    memset(host, (int)any(256), size);
    memset(host + ROOM / 2, 0, size);
    settle();
    const aclError there =
        async ? aclrtMemcpyAsync(block->address, block->size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream)
              : aclrtMemcpy(block->address, block->size, host, size, ACL_MEMCPY_HOST_TO_DEVICE);
    settle();
    const aclError back =
        async ? aclrtMemcpyAsync(host + ROOM / 2, size, block->address, size, ACL_MEMCPY_DEVICE_TO_HOST, stream)
              : aclrtMemcpy(host + ROOM / 2, size, block->address, size, ACL_MEMCPY_DEVICE_TO_HOST);
    settle();
    say("bytes to block %u and back%s: %d %d %s", i, async ? " in stream order" : "", there, back,
        memcmp(host, host + ROOM / 2, size) == 0 ? "the same" : "others");
}

static void block_is_copied(void)
{
    const unsigned from = any(BLOCKS);
    const unsigned to = any(BLOCKS);
    const aclrtStream stream = streams[any(STREAMS)];
    if (from == to || stream == NULL || blocks[from].address == NULL || blocks[to].address == NULL ||
        blocks[from].on_host || blocks[to].on_host) {
        return;
    }
    const size_t size = blocks[from].size < blocks[to].size ? blocks[from].size : blocks[to].size;
    say("copy block %u to %u: %d", from, to,
        aclrtMemcpyAsync(blocks[to].address, blocks[to].size, blocks[from].address, size, ACL_MEMCPY_DEVICE_TO_DEVICE,
                         stream));
}

static void block_is_reduced(void)
{
    static const aclDataType types[] = {ACL_INT8,    ACL_INT16, ACL_INT32, ACL_FLOAT,
                                        ACL_FLOAT16, ACL_BF16,  ACL_UINT8, ACL_DOUBLE};
    enum { TYPES = sizeof(types) / sizeof(types[0]), COMPUTED = 3, KINDS = 5, MOST = 256 };
    const unsigned from = any(BLOCKS);
    const unsigned to = any(BLOCKS);
    const aclrtStream stream = streams[any(STREAMS)];
    if (from == to || stream == NULL || blocks[from].address == NULL || blocks[to].address == NULL ||
        blocks[from].on_host || blocks[to].on_host || blocks[from].size < MOST || blocks[to].size < MOST) {
        return;
    }
    const unsigned type = any(TYPES), kind = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM + any(KINDS);
    const unsigned at = any(2) != 0 ? 0 : any(4);
    const size_t size = any(9) != 0 ? 1 + any(MOST - at) : 0;
    settle();
    for (size_t i = 0; i < 2 * MOST; i++) {
        host[i] = (char)any(256);
    }
    const aclError there = aclrtMemcpy(blocks[to].address, MOST, host, MOST, ACL_MEMCPY_HOST_TO_DEVICE);
    const aclError also = aclrtMemcpy(blocks[from].address, MOST, host + MOST, MOST, ACL_MEMCPY_HOST_TO_DEVICE);
    const aclError error = aclrtReduceAsync((char *)blocks[to].address + at, blocks[from].address, size,
                                            (aclrtReduceKind)kind, types[type], stream, NULL);
    settle();
    const aclError back = aclrtMemcpy(host, MOST, blocks[to].address, MOST, ACL_MEMCPY_DEVICE_TO_HOST);
    unsigned sum = 0;
    for (size_t i = 0; i < MOST && type < COMPUTED; i++) {
        sum = 31 * sum + (unsigned char)host[i];
    }
    say("reduce block %u into %u at %u, %zu bytes, type %d, kind %u: %d, copies %d %d %d, %u", from, to, at, size,
        (int)types[type], kind, error, there, also, back, sum);
}

static void address_is_described(void)
{
    const unsigned i = any(BLOCKS);
    aclrtPtrAttributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    const aclError error = aclrtPointerGetAttributes(blocks[i].address != NULL ? blocks[i].address : host, &attributes);
    const char *what = blocks[i].address == NULL ? is_registered ? "registered" : "the program's"
                       : blocks[i].on_host       ? "pinned"
                                                 : "the device's";
    say("describe memory, %s: %d %d", what, error, (int)attributes.location.type);
}

static void host_is_registered_or_not(void)
{
    void *mapped = NULL;
    if (any(6) == 0) {
        say("register at an odd address: %d", aclrtHostRegister(host + 1, 4096, ACL_HOST_REGISTER_MAPPED, &mapped));
    } else if (!is_registered || any(4) == 0) {
        const aclError error = aclrtHostRegister(host, ROOM, ACL_HOST_REGISTER_MAPPED, &mapped);
        say("register%s: %d %s", is_registered ? " again" : "", error, mapped == host ? "in place" : "elsewhere");
        is_registered |= error == ACL_SUCCESS;
    } else {
        settle();
        say("unregister: %d", aclrtHostUnregister(host));
        is_registered = false;
    }
}

/* --- virtual memory --- */

static void addresses_come_or_go(void)
{
    const unsigned i = any(SLOTS);
    slot_state *slot = &slots[i];
    if (slot->address == NULL) {
        const uint64_t pages = any(2);
        const aclError error = aclrtReserveMemAddress(&slot->address, (size_t)8 << 20, 0, NULL, pages);
        say("reserve %u, pages %u: %d aligned %d", i, (unsigned)pages, error,
            (int)((uintptr_t)slot->address % ((size_t)2 << 20)));
    } else if (!slot->is_mapped && any(2) != 0) {
        say("release %u: %d", i, aclrtReleaseMemAddress(slot->address));
        slot->address = NULL;
    }
}

static void physical_comes_or_goes(void)
{
    const unsigned i = any(SLOTS);
    slot_state *slot = &slots[i];
    if (slot->handle == NULL) {
        static const aclrtMemAttr attributes[] = {ACL_HBM_MEM, ACL_DDR_MEM, ACL_HBM_MEM_HUGE, ACL_HBM_MEM_NORMAL};
        const bool on_host = any(6) == 0;
        /* Left out: other attributes of host memory, and pages of 1 GiB. The driver alone decides about these. */
        const aclrtPhysicalMemProp prop = {
            .handleType = ACL_MEM_HANDLE_TYPE_NONE,
            .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
            .memAttr = on_host || any(3) != 0 ? ACL_HBM_MEM_HUGE : attributes[any(4)],
            .location = {.id = 0, .type = on_host ? (aclrtMemLocationType)any(5) : ACL_MEM_LOCATION_TYPE_DEVICE},
        };
        const aclError error = aclrtMallocPhysical(&slot->handle, (size_t)4 << 20, &prop, any(10) == 0);
        say("physical %u, attribute %d, location %d: %d", i, (int)prop.memAttr, (int)prop.location.type, error);
        if (error != ACL_SUCCESS) {
            slot->handle = NULL;
        }
    } else if (!slot->is_mapped && any(2) != 0) {
        say("free physical %u: %d", i, aclrtFreePhysical(slot->handle));
        slot->handle = NULL;
    }
}

static void mapping_comes(void)
{
    const unsigned i = any(SLOTS);
    slot_state *slot = &slots[i];
    if (slot->address != NULL && slot->handle != NULL && !slot->is_mapped) {
        const size_t size = any(5) != 0 ? (size_t)4 << 20 : (size_t)2 << 20;
        const size_t offset = any(8) != 0 ? 0 : 4096;
        const uint64_t flags = any(8) == 0;
        const aclError error = aclrtMapMem(slot->address, size, offset, slot->handle, flags);
        say("map %u, %zu bytes from %zu, flags %u: %d", i, size, offset, (unsigned)flags, error);
        slot->is_mapped = error == ACL_SUCCESS;
    }
}

static void mapping_goes(void)
{
    const unsigned i = any(SLOTS);
    slot_state *slot = &slots[i];
    if (slot->address != NULL) {
        const aclError error = aclrtUnmapMem(slot->address);
        say("unmap %u, which is %smapped: %d", i, slot->is_mapped ? "" : "not ", error);
        slot->is_mapped = slot->is_mapped && error != ACL_SUCCESS;
    }
}

/* --- functions of the host --- */

enum { CALLS = 4 };
static int numbers[CALLS] = {1, 2, 3, 4};
static int called[CALLS]; /* in order */
static atomic_uint called_count;

static void function_of_the_host(void *number)
{
    called[atomic_load(&called_count)] = *(int *)number;
    (void)atomic_fetch_add(&called_count, 1);
}

static void say_calls(void)
{
    char text[2 * CALLS + 1] = "";
    for (unsigned i = 0; i < atomic_load(&called_count); i++) {
        (void)snprintf(text + 2 * i, sizeof(text) - 2 * i, " %d", called[i]);
    }
    say("called:%s", text);
    atomic_store(&called_count, 0);
}

/* Only one of ten programs calls functions of the host, because the vendor's runtime then takes a second to reset the
 * device. */
static void host_functions_are_called(void)
{
    const aclrtStream stream = streams[any(STREAMS)];
    if (stream == NULL || seed % 10 != 0) {
        return;
    }
    const unsigned count = 1 + any(CALLS);
    for (unsigned i = 0; i < count; i++) {
        say("launch host function: %d", aclrtLaunchHostFunc(stream, function_of_the_host, &numbers[i]));
    }
    say("synchronize: %d", aclrtSynchronizeStream(stream));
    say_calls();
}

/* This thread subscribes and processes the reports itself. */
static void reports_are_processed(void)
{
    const uint64_t self = (uint64_t)pthread_self();
    const aclrtStream stream = streams[any(STREAMS)];
    if (stream == NULL) {
        return;
    }
    const bool is_subscribed = any(6) != 0;
    aclError error = is_subscribed ? aclrtSubscribeReport(self, stream) : ACL_SUCCESS;
    say("subscribe: %d", error);
    unsigned launched = 0;
    for (unsigned count = 1 + any(CALLS); error == ACL_SUCCESS && count > 0; count--) {
        const aclrtCallbackBlockType type = any(2) != 0 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK;
        error = aclrtLaunchCallback(function_of_the_host, &numbers[launched], type, stream);
        say("launch report: %d", error);
        launched += error == ACL_SUCCESS ? 1 : 0;
    }
    while (error == ACL_SUCCESS && atomic_load(&called_count) < launched) {
        error = aclrtProcessReport(10000);
    }
    say("process reports: %d", error);
    say_calls();
    say("no more reports: %d", aclrtProcessReport(1));
    say("synchronize: %d", aclrtSynchronizeStream(stream));
    say("unsubscribe: %d", aclrtUnSubscribeReport(self, stream));
}

/* --- programs --- */

static void (*const steps[])(void) = {
    stream_comes_or_goes,
    stream_comes_or_goes,
    stream_is_synchronized,
    stream_is_described,
    device_is_synchronized,
    event_comes_or_goes,
    event_comes_or_goes,
    event_flags_are_tried,
    event_is_recorded,
    event_is_recorded,
    event_is_waited_for,
    event_is_waited_for,
    stream_is_held_up,
    event_is_reset,
    event_is_asked,
    event_is_synchronized,
    time_passes,
    block_comes_or_goes,
    block_comes_or_goes,
    size_is_refused,
    bad_address_is_freed,
    block_is_filled,
    bytes_go_around,
    block_is_copied,
    block_is_reduced,
    address_is_described,
    host_is_registered_or_not,
    addresses_come_or_go,
    physical_comes_or_goes,
    mapping_comes,
    mapping_goes,
    host_functions_are_called,
    reports_are_processed,
};

static void end_all(void)
{
    settle();
    for (unsigned i = 0; i < STREAMS; i++) {
        if (streams[i] != NULL) {
            say("end stream %u: %d", i, aclrtDestroyStream(streams[i]));
        }
    }
    for (unsigned i = 0; i < EVENTS; i++) {
        if (events[i].handle != NULL) {
            say("end event %u: %d", i, aclrtDestroyEvent(events[i].handle));
        }
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i].address != NULL) {
            say("end block %u: %d", i,
                blocks[i].on_host ? aclrtFreeHost(blocks[i].address) : aclrtFree(blocks[i].address));
        }
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i].is_mapped) {
            say("end mapping %u: %d", i, aclrtUnmapMem(slots[i].address));
        }
        if (slots[i].address != NULL) {
            say("end addresses %u: %d", i, aclrtReleaseMemAddress(slots[i].address));
        }
        if (slots[i].handle != NULL) {
            say("end physical %u: %d", i, aclrtFreePhysical(slots[i].handle));
        }
    }
    if (is_registered) {
        say("end registration: %d", aclrtHostUnregister(host));
    }
    memset(streams, 0, sizeof(streams));
    memset(events, 0, sizeof(events));
    memset(blocks, 0, sizeof(blocks));
    memset(slots, 0, sizeof(slots));
    is_registered = false;
}

static void run_program(void)
{
    say("set device: %d", aclrtSetDevice(0));
    for (step = 1; step <= STEPS; step++) {
        steps[any(sizeof(steps) / sizeof(steps[0]))]();
    }
    end_all();
    say("reset device: %d", aclrtResetDevice(0));
}

int main(int argc, char **argv)
{
    return run_programs(argc, argv, run_program);
}
