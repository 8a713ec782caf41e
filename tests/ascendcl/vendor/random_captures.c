/* random_captures.c: random programs of captures: modes, forks and joins, mistakes in a capture, replays of graphs with
 * the bytes that they leave, and the calls that a capture forbids, on captured streams and on others. They print each
 * answer of the runtime (random.h).
 *
 *   vendor_random_captures COUNT [FIRST_SEED]
 *
 * A call that queues work on a stream which is not captured is followed by a wait for that stream, and so is an
 * execution of a graph. So the order of work, and with it each byte, does not depend on the device's speed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nanosleep */
#endif

#include "random.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* aclrtQueryEvent is compared, too */

enum { STREAMS = 4, EVENTS = 6, BLOCKS = 4, GRAPHS = 4, GROUPS = 2, STEPS = 120, SIZE = 4096, ABSENT = 9 };
enum { PLAIN, FLAG, EX };

struct event_state {
    aclrtEvent handle;
    unsigned kind;
    bool is_recorded; /* outside of captures, and not reset since */
};

static aclrtContext context;
static aclrtStream streams[STREAMS];
static struct event_state events[EVENTS];
static char *blocks[BLOCKS]; /* of the device */
static char *pinned[BLOCKS];
static char pageable[SIZE];
static aclmdlRI graphs[GRAPHS];
static aclrtTaskGrp groups[GROUPS];
static aclrtNotify notify;
static unsigned farewells; /* calls of functions that were registered for the end of a graph */

/* --- which streams are captured --- */

static bool is_captured(aclrtStream stream)
{
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    return stream != NULL && aclmdlRICaptureGetInfo(stream, &status, NULL) == ACL_SUCCESS &&
           status != ACL_MODEL_RI_CAPTURE_STATUS_NONE;
}

static bool any_is_captured(void)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        if (is_captured(streams[i])) {
            return true;
        }
    }
    return false;
}

/* The vendor's runtime reads a garbled address after it has refused a copy on a captured stream, in
 * MemcpyAsyncTaskUnInit. So there are no copies on captured streams once a task group has begun or a call of a capture
 * has failed. */
static bool copies_may_fail;

static bool takes_copies(aclrtStream stream)
{
    copies_may_fail = copies_may_fail && any_is_captured();
    return !copies_may_fail || !is_captured(stream);
}

/* Notes the failure of a call that can spoil a capture. */
static aclError noted(aclError error)
{
    copies_may_fail |= error != ACL_SUCCESS;
    return error;
}

static bool is_of_program(unsigned i)
{
    return streams[i] != NULL;
}

/* Waits for work that was queued on a stream, unless it was captured. NULL is the default stream. */
static void follow(aclrtStream stream)
{
    if (!is_captured(stream)) {
        const aclError error = aclrtSynchronizeStream(stream);
        if (error != ACL_SUCCESS) {
            say("follow: %d", error);
        }
    }
}

/* --- captures --- */

static void capture_begins(void)
{
    const unsigned i = any(STREAMS);
    const unsigned mode = any(12) != 0 ? any(3) : 3;
    if (is_of_program(i)) {
        say("begin on %u, mode %u: %d", i, mode, aclmdlRICaptureBegin(streams[i], (aclmdlRICaptureMode)mode));
    }
}

static unsigned place_for_a_graph(void)
{
    unsigned at = 0;
    while (at < GRAPHS && graphs[at] != NULL) {
        at++;
    }
    return at;
}

static void capture_ends_on(unsigned i)
{
    const unsigned at = place_for_a_graph();
    aclmdlRI graph = NULL;
    const aclError error = aclmdlRICaptureEnd(streams[i], &graph);
    say("end on %u: %d %s", i, error, graph != NULL ? "a graph" : "none");
    if (error == ACL_SUCCESS && at < GRAPHS) {
        graphs[at] = graph;
    } else if (error == ACL_SUCCESS) {
        say("no place for the graph: %d", aclmdlRIDestroy(graph));
    }
}

static void capture_ends(void)
{
    const unsigned i = any(STREAMS);
    if (is_of_program(i) && (is_captured(streams[i]) || any(6) == 0)) {
        capture_ends_on(i);
    }
}

static void capture_is_described(void)
{
    const unsigned i = any(STREAMS);
    if (is_of_program(i)) {
        aclmdlRICaptureStatus status = (aclmdlRICaptureStatus)ABSENT;
        aclmdlRI graph = NULL;
        const aclError error = aclmdlRICaptureGetInfo(streams[i], &status, &graph);
        say("capture of %u: %d %d %s", i, error, (int)status, graph != NULL ? "a graph" : "none");
        if (graph != NULL && any(3) == 0) {
            say("execute what is captured: %d", aclmdlRIExecuteAsync(graph, streams[any(STREAMS)]));
            say("destroy what is captured: %d", aclmdlRIDestroy(graph));
        }
    }
}

static void mode_is_exchanged(void)
{
    aclmdlRICaptureMode mode = (aclmdlRICaptureMode)(any(10) != 0 ? any(3) : 3);
    const unsigned wanted = (unsigned)mode;
    const aclError error = aclmdlRICaptureThreadExchangeMode(&mode);
    say("exchange mode %u: %d %d", wanted, error, (int)mode);
}

/* --- events --- */

static void event_comes_or_goes(void)
{
    const unsigned i = any(EVENTS);
    struct event_state *event = &events[i];
    if (event->handle == NULL) {
        *event = (struct event_state){.kind = any(5) > 1 ? EX : any(2)};
        const uint32_t flags = ACL_EVENT_SYNC | (any(3) == 0 ? ACL_EVENT_TIME_LINE : 0);
        const aclError error = event->kind == PLAIN  ? aclrtCreateEvent(&event->handle)
                               : event->kind == FLAG ? aclrtCreateEventWithFlag(&event->handle, flags)
                                                     : aclrtCreateEventExWithFlag(&event->handle, flags);
        say("create event %u kind %u: %d", i, event->kind, error);
    } else if (any(3) == 0) {
        const aclError error = aclrtDestroyEvent(event->handle);
        say("destroy event %u kind %u: %d", i, event->kind, error);
        event->handle = error == ACL_SUCCESS ? NULL : event->handle;
    }
}

static aclError record(unsigned i, aclrtStream stream)
{
    const bool captured = is_captured(stream);
    const aclError error = noted(aclrtRecordEvent(events[i].handle, stream));
    events[i].is_recorded |= error == ACL_SUCCESS && !captured;
    return error;
}

static void event_is_recorded(void)
{
    const unsigned i = any(EVENTS);
    const aclrtStream stream = any(8) != 0 ? streams[any(STREAMS)] : NULL;
    if (events[i].handle != NULL) {
        say("record event %u kind %u: %d", i, events[i].kind, record(i, stream));
        follow(stream);
    }
}

/* Makes a stream wait for an event, unless nothing could end this wait. */
static void event_is_waited_for(void)
{
    const unsigned i = any(EVENTS);
    const aclrtStream stream = any(10) != 0 ? streams[any(STREAMS)] : NULL;
    if (events[i].handle != NULL && (events[i].kind == EX || events[i].is_recorded || is_captured(stream))) {
        const bool is_external = any(10) == 0;
        const aclError error = is_external
                                   ? aclrtStreamWaitEventWithFlag(stream, events[i].handle, 0, ACL_EVENT_WAIT_EXTERNAL)
                                   : aclrtStreamWaitEvent(stream, events[i].handle);
        say("wait for event %u kind %u%s: %d", i, events[i].kind, is_external ? " as external" : "", noted(error));
        follow(stream);
    }
}

static void event_is_reset(void)
{
    const unsigned i = any(EVENTS);
    const aclrtStream stream = streams[any(STREAMS)];
    if (events[i].handle != NULL && stream != NULL) {
        const aclError error = aclrtResetEvent(events[i].handle, stream);
        say("reset event %u kind %u: %d", i, events[i].kind, error);
        events[i].is_recorded = events[i].is_recorded && error != ACL_SUCCESS;
        follow(stream);
    }
}

static void event_is_asked(void)
{
    const unsigned i = any(EVENTS);
    if (events[i].handle == NULL) {
        return;
    }
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)ABSENT;
    aclrtEventWaitStatus waited = (aclrtEventWaitStatus)ABSENT;
    const aclError error = aclrtQueryEventStatus(events[i].handle, &status);
    const aclError also = aclrtQueryEventWaitStatus(events[i].handle, &waited);
    say("status of event %u kind %u: %d %d", i, events[i].kind, error, error == ACL_SUCCESS ? (int)status : ABSENT);
    say("wait status of event %u kind %u: %d %d", i, events[i].kind, also, also == ACL_SUCCESS ? (int)waited : ABSENT);
    const aclError third = any(2) != 0 ? aclrtSynchronizeEvent(events[i].handle)
                                       : aclrtSynchronizeEventWithTimeout(events[i].handle, 5000);
    say("synchronize event %u kind %u: %d", i, events[i].kind, third);
}

static void time_passes(void)
{
    const unsigned i = any(EVENTS), k = any(EVENTS);
    float ms = 0;
    if (events[i].handle != NULL && events[k].handle != NULL) {
        aclError error = aclrtEventElapsedTime(&ms, events[i].handle, events[k].handle);
        for (int tries = 0; tries < 20 && error == ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID; tries++) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            error = aclrtEventElapsedTime(&ms, events[i].handle, events[k].handle);
        }
        say("time from event %u kind %u to %u kind %u: %d", i, events[i].kind, k, events[k].kind, error);
    }
}

/* --- work --- */

static void bytes_are_copied(void)
{
    const unsigned from = any(BLOCKS), to = any(BLOCKS), how = any(5);
    const aclrtStream stream = any(12) != 0 ? streams[any(STREAMS)] : NULL;
    const size_t size = 1 + any(SIZE);
    aclError error = ACL_SUCCESS;
    if (!takes_copies(stream)) {
        return;
    }
    switch (how) {
    case 0:
        pinned[from][any(SIZE)] = (char)any(256);
        error = aclrtMemcpyAsync(blocks[to], SIZE, pinned[from], size, ACL_MEMCPY_HOST_TO_DEVICE, stream);
        break;
    case 1:
        error = aclrtMemcpyAsync(pinned[to], SIZE, blocks[from], size, ACL_MEMCPY_DEVICE_TO_HOST, stream);
        break;
    case 2:
        error = aclrtMemcpyAsync(blocks[to], SIZE, pageable, size, ACL_MEMCPY_HOST_TO_DEVICE, stream);
        break;
    case 3:
        error = aclrtMemcpyAsync(pageable, SIZE, blocks[from], size, ACL_MEMCPY_DEVICE_TO_HOST, stream);
        break;
    default:
        if (from != to) {
            error = aclrtMemcpyAsync(blocks[to], SIZE, blocks[from], size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
        }
        break;
    }
    say("copy %u, from %u to %u: %d", how, from, to, error);
    follow(stream);
}

static void copy_is_made_at_once(void)
{
    const unsigned at = any(BLOCKS), how = any(5);
    aclError error = ACL_SUCCESS;
    switch (how) {
    case 0:
        error = aclrtMemcpy(blocks[at], SIZE, pageable, SIZE, ACL_MEMCPY_HOST_TO_DEVICE);
        break;
    case 1:
        error = aclrtMemcpy(pinned[at], SIZE, blocks[at], SIZE, ACL_MEMCPY_DEVICE_TO_HOST);
        break;
    case 2:
        error = aclrtMemcpy(blocks[at], SIZE, blocks[(at + 1) % BLOCKS], SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE);
        break;
    case 3:
        error = aclrtMemcpy(pageable, SIZE, pinned[at], SIZE, ACL_MEMCPY_HOST_TO_HOST);
        break;
    default:
        error = aclrtMemset(blocks[at], SIZE, (int)any(256), SIZE);
        break;
    }
    say("copy at once %u, block %u: %d", how, at, error);
}

static void block_is_filled(void)
{
    const unsigned at = any(BLOCKS);
    const aclrtStream stream = any(12) != 0 ? streams[any(STREAMS)] : NULL;
    if (takes_copies(stream)) {
        say("fill block %u: %d", at, aclrtMemsetAsync(blocks[at], SIZE, (int)any(256), 1 + any(SIZE), stream));
        follow(stream);
    }
}

static void value_is_written(void)
{
    const unsigned at = any(BLOCKS), value = any(1000);
    const aclrtStream stream = any(12) != 0 ? streams[any(STREAMS)] : NULL;
    char *word = blocks[at] + 8 * (size_t)any(SIZE / 8);
    const aclError written = aclrtValueWrite(word, value, 0, stream);
    say("write a value to block %u: %d", at, written);
    if (written == ACL_SUCCESS && any(2) != 0) {
        say("wait for the value: %d", aclrtValueWait(word, value, ACL_STREAM_WAIT_VALUE_EQ, stream));
    }
    follow(stream);
}

static void notify_is_recorded_and_awaited(void)
{
    const aclrtStream stream = streams[any(STREAMS)];
    const bool waits = any(4) != 0;
    if (stream != NULL) {
        const aclError recorded = aclrtRecordNotify(notify, stream);
        const aclError waited = waits ? aclrtWaitAndResetNotify(notify, stream, 0) : ABSENT;
        say("notify: %d %d", recorded, waited);
        follow(stream);
    }
}

static void facts_are_asked(void)
{
    uint32_t devices = 0, flags = 0;
    int32_t active = ABSENT, can = ABSENT, least = ABSENT, greatest = ABSENT;
    aclrtRunMode mode = (aclrtRunMode)ABSENT;
    const aclError first = aclrtGetDeviceCount(&devices);
    const aclError second = aclrtGetRunMode(&mode);
    say("devices: %d %u, %d %d", first, devices, second, (int)mode);
    const aclError third = aclrtGetPrimaryCtxState(0, &flags, &active);
    const aclError fourth = aclrtDeviceCanAccessPeer(&can, 0, 1);
    say("contexts: %d %u %d, %d %d", third, flags, active, fourth, can);
    const aclError fifth = aclrtDeviceGetStreamPriorityRange(&least, &greatest);
    say("priorities: %d %d %d", fifth, least, greatest);
}

static unsigned event_for_captures(unsigned at)
{
    while (at < EVENTS && (events[at].handle == NULL || events[at].kind != EX)) {
        at++;
    }
    return at;
}

static void copy_in_a_fork(const char *what, unsigned to, unsigned from, size_t size, aclrtStream stream)
{
    if (takes_copies(stream)) {
        say("%s: %d", what, aclrtMemcpyAsync(blocks[to], SIZE, pinned[from], size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    }
}

/* A stream forks off a captured one, works, and comes back or not. */
static void stream_forks(void)
{
    const unsigned i = any(STREAMS), k = any(STREAMS), out = event_for_captures(0), back = event_for_captures(out + 1);
    if (i == k || streams[i] == NULL || streams[k] == NULL || !is_captured(streams[i]) || back >= EVENTS) {
        return;
    }
    const bool comes_back = any(6) != 0, ends_with_work = any(8) == 0;
    const unsigned to = any(BLOCKS), from = any(BLOCKS);
    say("fork: record %d", record(out, streams[i]));
    say("fork: wait %d", noted(aclrtStreamWaitEvent(streams[k], events[out].handle)));
    copy_in_a_fork("fork: work", to, from, 1 + any(SIZE), streams[k]);
    if (comes_back) {
        say("join: record %d", record(back, streams[k]));
        say("join: wait %d", noted(aclrtStreamWaitEvent(streams[i], events[back].handle)));
    }
    if (ends_with_work) {
        copy_in_a_fork("work behind the join", to, from, 1, streams[k]);
    }
    follow(streams[k]);
}

/* --- streams --- */

static void stream_comes_or_goes(void)
{
    const unsigned i = any(STREAMS);
    if (streams[i] == NULL) {
        say("create stream %u: %d", i, aclrtCreateStream(&streams[i]));
    } else if (any(5) == 0) {
        const aclError error = aclrtDestroyStream(streams[i]);
        say("destroy stream %u: %d", i, error);
        streams[i] = error == ACL_SUCCESS ? NULL : streams[i];
    }
}

static void stream_is_waited_for(void)
{
    const unsigned i = any(STREAMS);
    aclrtStreamStatus status = (aclrtStreamStatus)ABSENT;
    switch (any(6)) {
    case 0:
        say("synchronize device: %d", aclrtSynchronizeDevice());
        break;
    case 5:
        say("synchronize device for a while: %d", aclrtSynchronizeDeviceWithTimeout(5000));
        break;
    case 1:
        say("synchronize the default stream: %d", aclrtSynchronizeStream(NULL));
        break;
    case 2:
        if (is_of_program(i)) {
            say("synchronize %u for a while: %d", i, aclrtSynchronizeStreamWithTimeout(streams[i], 5000));
        }
        break;
    default:
        if (is_of_program(i)) {
            const aclError error = aclrtSynchronizeStream(streams[i]);
            const aclError asked = aclrtStreamQuery(streams[i], &status);
            say("synchronize and query %u: %d %d %d", i, error, asked, (int)status);
        }
        break;
    }
}

static void stream_is_described(void)
{
    const unsigned i = any(STREAMS);
    if (is_of_program(i)) {
        uint32_t priority = ABSENT, flags = ABSENT;
        const aclError first = aclrtStreamGetPriority(streams[i], &priority);
        const aclError second = aclrtStreamGetFlags(streams[i], &flags);
        say("describe stream %u: %d %u %d %u", i, first, priority, second, flags);
    }
}

/* --- memory --- */

static void memory_comes_and_goes(void)
{
    void *block = NULL;
    const bool on_host = any(2) != 0;
    const size_t size = 1 + any(1 << 20);
    const aclError made =
        on_host ? aclrtMallocHost(&block, size) : aclrtMalloc(&block, size, ACL_MEM_MALLOC_HUGE_FIRST);
    const aclError gone = made != ACL_SUCCESS ? ABSENT : on_host ? aclrtFreeHost(block) : aclrtFree(block);
    say("memory %s: %d %d", on_host ? "of the host" : "of the device", made, gone);
}

/* --- graphs --- */

static void graph_is_executed(void)
{
    const aclmdlRI graph = graphs[any(GRAPHS)];
    const aclrtStream stream = any(10) != 0 ? streams[any(STREAMS)] : NULL;
    if (graph != NULL) {
        say("execute a graph: %d", aclmdlRIExecuteAsync(graph, stream));
        follow(stream);
    }
}

static void farewell(void *count)
{
    (*(unsigned *)count)++;
}

static void graph_goes(void)
{
    const unsigned at = any(GRAPHS);
    if (graphs[at] != NULL) {
        uint32_t id = 0;
        const bool registers = any(2) != 0;
        say("id of graph %u: %d", at, aclmdlRIGetId(graphs[at], &id));
        if (registers) {
            say("register a farewell: %d", aclmdlRIDestroyRegisterCallback(graphs[at], farewell, &farewells));
            say("and again: %d", aclmdlRIDestroyRegisterCallback(graphs[at], farewell, &farewells));
        }
        if (any(4) == 0) {
            say("withdraw a farewell: %d", aclmdlRIDestroyUnregisterCallback(graphs[at], farewell));
        }
        say("destroy graph %u: %d", at, aclmdlRIDestroy(graphs[at]));
        say("farewells so far: %u", farewells);
        graphs[at] = NULL;
    }
}

static void task_group_begins_or_ends(void)
{
    const unsigned i = any(STREAMS), at = any(GROUPS);
    if (!is_of_program(i) || seed % 4 != 0) {
        return;
    }
    if (any(2) != 0) {
        const aclError error = aclmdlRICaptureTaskGrpBegin(streams[i]);
        say("begin a task group on %u: %d", i, error);
        copies_may_fail |= error == ACL_SUCCESS;
    } else {
        aclrtTaskGrp group = NULL;
        const aclError error = aclmdlRICaptureTaskGrpEnd(streams[i], &group);
        say("end a task group on %u: %d %s", i, error, group != NULL ? "a group" : "none");
        groups[at] = error == ACL_SUCCESS ? group : groups[at];
    }
}

/* Only the end of an update is asked for: the vendor's runtime does not check handles of groups. */
static void task_update_ends(void)
{
    const unsigned i = any(STREAMS);
    if (is_of_program(i)) {
        say("end an update on %u: %d", i, aclmdlRICaptureTaskUpdateEnd(streams[i]));
    }
}

/* --- another thread --- */

struct errand {
    unsigned what, number;
    aclError error, more;
};

static void *goes_elsewhere(void *argument)
{
    struct errand *e = argument;
    aclmdlRI graph = NULL;
    (void)aclrtSetCurrentContext(context);
    switch (e->what) {
    case 0:
        e->error = aclrtMemcpy(pinned[0], SIZE, blocks[0], SIZE, ACL_MEMCPY_DEVICE_TO_HOST);
        break;
    case 1: {
        aclmdlRICaptureMode mode = (aclmdlRICaptureMode)(e->number % 3);
        e->more = aclmdlRICaptureThreadExchangeMode(&mode);
        e->error = aclrtMemset(blocks[1], SIZE, 1, SIZE);
        break;
    }
    case 2:
        e->error = aclmdlRICaptureBegin(streams[e->number % STREAMS], (aclmdlRICaptureMode)(e->number / STREAMS % 3));
        break;
    case 3:
        e->error = aclmdlRICaptureEnd(streams[e->number % STREAMS], &graph);
        e->more = graph != NULL ? aclmdlRIDestroy(graph) : ABSENT;
        break;
    default:
        e->error =
            aclrtMemcpyAsync(blocks[0], SIZE, pageable, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, streams[e->number % STREAMS]);
        follow(streams[e->number % STREAMS]);
        break;
    }
    return NULL;
}

static void another_thread_calls(void)
{
    struct errand e = {.what = any(5), .number = any(12)};
    pthread_t thread;
    if (e.what > 1 && streams[e.number % STREAMS] == NULL) {
        return;
    }
    if (pthread_create(&thread, NULL, goes_elsewhere, &e) == 0) {
        (void)pthread_join(thread, NULL);
    }
    say("another thread, call %u, number %u: %d %d", e.what, e.number, e.error, e.more);
}

/* --- contents --- */

static unsigned sum_of(const char *bytes)
{
    unsigned sum = 0;
    for (size_t i = 0; i < SIZE; i++) {
        sum = 31 * sum + (unsigned char)bytes[i];
    }
    return sum;
}

static void bytes_are_compared(void)
{
    static char copy[SIZE];
    if (any_is_captured()) {
        return;
    }
    say("settle: %d", aclrtSynchronizeDevice());
    for (unsigned i = 0; i < BLOCKS; i++) {
        memset(copy, 0, SIZE);
        const aclError error = aclrtMemcpy(copy, SIZE, blocks[i], SIZE, ACL_MEMCPY_DEVICE_TO_HOST);
        say("bytes of %u: %d %u %u", i, error, sum_of(copy), sum_of(pinned[i]));
    }
}

/* --- programs --- */

static void (*const steps[])(void) = {
    capture_begins,
    capture_begins,
    capture_begins,
    capture_ends,
    capture_ends,
    capture_ends,
    capture_is_described,
    mode_is_exchanged,
    event_comes_or_goes,
    event_comes_or_goes,
    event_is_recorded,
    event_is_waited_for,
    event_is_reset,
    event_is_asked,
    time_passes,
    bytes_are_copied,
    bytes_are_copied,
    bytes_are_copied,
    copy_is_made_at_once,
    block_is_filled,
    value_is_written,
    notify_is_recorded_and_awaited,
    facts_are_asked,
    stream_forks,
    stream_forks,
    stream_forks,
    stream_forks,
    stream_comes_or_goes,
    stream_is_waited_for,
    stream_is_described,
    memory_comes_and_goes,
    graph_is_executed,
    graph_is_executed,
    graph_is_executed,
    graph_goes,
    task_group_begins_or_ends,
    task_update_ends,
    another_thread_calls,
    bytes_are_compared,
    bytes_are_compared,
};

static void begin_all(void)
{
    farewells = 0;
    copies_may_fail = false;
    say("set device: %d", aclrtSetDevice(0));
    (void)aclrtGetCurrentContext(&context);
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    (void)aclmdlRICaptureThreadExchangeMode(&mode); /* a thread keeps its mode */
    for (unsigned i = 0; i < BLOCKS; i++) {
        const aclError there = aclrtMalloc((void **)&blocks[i], SIZE, ACL_MEM_MALLOC_HUGE_FIRST);
        const aclError here = aclrtMallocHost((void **)&pinned[i], SIZE);
        memset(pinned[i], (int)('a' + i), SIZE);
        const aclError filled = aclrtMemcpy(blocks[i], SIZE, pinned[i], SIZE, ACL_MEMCPY_HOST_TO_DEVICE);
        say("block %u: %d %d %d", i, there, here, filled);
    }
    memset(pageable, 'p', SIZE);
    say("create notify: %d", aclrtCreateNotify(&notify, 0));
    for (unsigned i = 0; i < STREAMS - 1; i++) {
        say("create stream %u: %d", i, aclrtCreateStream(&streams[i]));
    }
}

static void end_all(void)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        if (streams[i] != NULL && is_captured(streams[i])) {
            capture_ends_on(i);
        }
    }
    bytes_are_compared();
    for (unsigned i = 0; i < GRAPHS; i++) {
        if (graphs[i] != NULL) {
            say("end graph %u: %d", i, aclmdlRIDestroy(graphs[i]));
        }
    }
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
    say("end notify: %d", aclrtDestroyNotify(notify));
    for (unsigned i = 0; i < BLOCKS; i++) {
        const aclError there = aclrtFree(blocks[i]);
        const aclError here = aclrtFreeHost(pinned[i]);
        say("end block %u: %d %d", i, there, here);
    }
    memset(streams, 0, sizeof(streams));
    memset(events, 0, sizeof(events));
    memset(graphs, 0, sizeof(graphs));
    memset(groups, 0, sizeof(groups));
    say("reset device: %d", aclrtResetDevice(0));
}

static void run_program(void)
{
    begin_all();
    for (step = 1; step <= STEPS; step++) {
        steps[any(sizeof(steps) / sizeof(steps[0]))]();
    }
    end_all();
}

int main(int argc, char **argv)
{
    return run_programs(argc, argv, run_program);
}
