/* queue.c: queues of tasks, the scheduler that executes them, and queues of reports.
 *
 * Each device has one thread, its scheduler, which looks at the first task of every queue in turn. A task is executed
 * if nothing keeps it: a wait stays at the head of its queue until its event or notify is there. A queue that was added
 * to a graph keeps its tasks, and executes them from the first to the last each time that the graph is executed. Tasks
 * of kinds that this file does not name, kernels above all, end at once and do nothing.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_condattr_setclock */
#endif

#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUEUES = 4096, DEPTH = 1024, EVENTS = 65536, NOTIFIES = 8192, STREAMS = 4096, TICK_NS = 20 };

typedef struct driver_task {
    uint8_t bytes[HAL_TASK_BYTES];
} driver_task;

/* Tasks between `head` and `tail`, positions in a ring of `depth` slots. */
typedef struct task_queue {
    driver_task *slots;
    uint32_t depth, head, tail;
    uint32_t first; /* of a queue in a graph: the position at which its executions begin */
    uint32_t graph; /* 0: none, else the graph's id + 1 */
    bool is_live, is_enabled;
    bool is_head;    /* of a queue in a graph: an execution of the graph starts it */
    bool is_started; /* of a queue in a graph: an execution is under way */
} task_queue;

/* Reports in a ring that grows. */
typedef struct report_queue {
    hal_report *reports;
    size_t first, count, room;
    bool is_live;
} report_queue;

typedef struct driver_scheduler {
    pthread_t thread;
    bool runs;
    task_queue tasks[QUEUES];
    report_queue reports[QUEUES];
    uint32_t reports_of[STREAMS]; /* a stream's queue of reports */
    uint32_t tasks_of[STREAMS];   /* and of tasks */
    bool events[EVENTS];
    bool notifies[NOTIFIES];
} driver_scheduler;

static driver_scheduler schedulers[DRIVER_DEVICES];
pthread_cond_t driver_changed = PTHREAD_COND_INITIALIZER;

/* --- reading a task --- */

static uint16_t half_at(const driver_task *t, size_t at)
{
    uint16_t value = 0;
    memcpy(&value, t->bytes + at, sizeof(value));
    return value;
}

static uint32_t word_at(const driver_task *t, size_t at)
{
    uint32_t value = 0;
    memcpy(&value, t->bytes + at, sizeof(value));
    return value;
}

static uint64_t long_at(const driver_task *t, size_t at)
{
    uint64_t value = 0;
    memcpy(&value, t->bytes + at, sizeof(value));
    return value;
}

static void *pointer_at(const driver_task *t, size_t at)
{
    return (void *)(uintptr_t)long_at(t, at); /* NOLINT(performance-no-int-to-ptr) */
}

static unsigned kind_of(const driver_task *t)
{
    return t->bytes[0] & 63;
}

/* --- executing a task --- */

/* The runtime resets an event by a write of a value (its sub type), and names the event in a reserved word. A write
 * without a sub type goes to memory. Others go to registers and flags that this driver does not have. */
static void write_value(driver_scheduler *on, const driver_task *t)
{
    enum { ADDRESS = 16, EVENT = 24, SUB_TYPE = 28, VALUE = 32, TO_MEMORY = 0, RESETS_EVENT = 1 };
    enum { ADDRESS_BITS = 49, SIZE_SHIFT = 52, SIZE_MASK = 7, IS_VIRTUAL = 63 };
    const uint64_t where = long_at(t, ADDRESS);
    void *to = (void *)(uintptr_t)(where & ((UINT64_C(1) << ADDRESS_BITS) - 1)); /* NOLINT(performance-no-int-to-ptr) */
    if (word_at(t, SUB_TYPE) == RESETS_EVENT) {
        on->events[word_at(t, EVENT) % EVENTS] = false;
    } else if (word_at(t, SUB_TYPE) == TO_MEMORY && where >> IS_VIRTUAL != 0) {
        memcpy(to, t->bytes + VALUE, (size_t)1 << (where >> SIZE_SHIFT & SIZE_MASK));
    }
}

/* Adds a stream's queue to a graph, or takes it out of one, which drops its tasks. */
static void maintain_graph(driver_scheduler *on, const driver_task *t)
{
    enum {
        WHAT = 2,
        GRAPH = 16,
        STREAM = 18,
        OPERATION = 20,
        IS_NO_HEAD = 22,
        MAINTAINS_GRAPH = 12,
        ADDS = 0,
        TAKES = 1
    };
    if (half_at(t, WHAT) != MAINTAINS_GRAPH || half_at(t, OPERATION) > TAKES) {
        return;
    }
    const bool adds = half_at(t, OPERATION) == ADDS;
    task_queue *queue = &on->tasks[on->tasks_of[half_at(t, STREAM) % STREAMS]];
    queue->graph = adds ? half_at(t, GRAPH) + 1U : 0;
    queue->head = adds ? queue->head : queue->tail;
    queue->first = queue->head;
    queue->is_head = half_at(t, IS_NO_HEAD) == 0;
    queue->is_started = false;
}

/* A conditional task of one kind executes a graph. Returns false while an execution of the graph is under way. */
static bool execute_graph(driver_scheduler *on, const driver_task *t)
{
    enum { CONDITION = 8, GRAPH = 12, EXECUTES_GRAPH = 1 };
    if (t->bytes[CONDITION] != EXECUTES_GRAPH) {
        return true;
    }
    const uint32_t graph = half_at(t, GRAPH) + 1U;
    for (uint32_t number = 0; number < QUEUES; number++) {
        if (on->tasks[number].graph == graph && on->tasks[number].is_started) {
            return false;
        }
    }
    for (uint32_t number = 0; number < QUEUES; number++) {
        task_queue *queue = &on->tasks[number];
        queue->is_started = queue->graph == graph && queue->is_head && queue->head != queue->tail;
    }
    return true;
}

/* The operation of a copy (src/runtime/core/inc/stars/stars_base.hpp): the low four bits are the kind, the others the
 * type of the elements. */
enum { SUM = 1, MAX = 2, MIN = 3, KIND_MASK = 15 };
enum { INT8 = 0x00, INT16 = 0x10, INT32 = 0x20, FP32 = 0x70, TYPE_MASK = 0xf0 };

/* Defines a function that combines elements of one type. Sums are of the type SUMS, in which integers wrap around. */
#define REDUCE(name, type, sums)                                                                                       \
    static void name(unsigned kind, char *to, const char *from, size_t size)                                           \
    {                                                                                                                  \
        for (size_t at = 0; at + sizeof(type) <= size; at += sizeof(type)) {                                           \
            type a, b;                                                                                                 \
            memcpy(&a, to + at, sizeof(a));                                                                            \
            memcpy(&b, from + at, sizeof(b));                                                                          \
            a = kind == SUM ? (type)((sums)a + (sums)b) : (kind == MAX) == (a > b) ? a : b;                            \
            memcpy(to + at, &a, sizeof(a));                                                                            \
        }                                                                                                              \
    }

REDUCE(reduce_int8, int8_t, uint8_t)
REDUCE(reduce_int16, int16_t, uint16_t)
REDUCE(reduce_int32, int32_t, uint32_t)
REDUCE(reduce_fp32, float, float)

/* Elements of the 16-bit float types stay as they are. */
static void reduce(unsigned operation, char *to, const char *from, size_t size)
{
    const unsigned kind = operation & KIND_MASK;
    switch (operation & TYPE_MASK) {
    case INT8:
        reduce_int8(kind, to, from, size);
        break;
    case INT16:
        reduce_int16(kind, to, from, size);
        break;
    case INT32:
        reduce_int32(kind, to, from, size);
        break;
    case FP32:
        reduce_fp32(kind, to, from, size);
        break;
    default:
        break;
    }
}

static void copy(const driver_task *t)
{
    enum { POINTER_MODE = 15, OPERATION = 16, LENGTH = 28, FROM = 32, TO = 40 };
    const uint32_t size = word_at(t, LENGTH);
    const unsigned operation = t->bytes[OPERATION], kind = operation & KIND_MASK;
    const bool is_of_pointers = (t->bytes[POINTER_MODE] & 1) != 0; /* addresses of addresses in device memory */
    if (size == 0 || is_of_pointers) {
        return;
    }
    if (kind == SUM || kind == MAX || kind == MIN) {
        reduce(operation, pointer_at(t, TO), pointer_at(t, FROM), size);
    } else {
        memmove(pointer_at(t, TO), pointer_at(t, FROM), size);
    }
}

static void copy_over_pcie(const driver_task *t)
{
    enum { FROM = 32, TO = 40, LENGTH = 48 };
    const uint64_t size = long_at(t, LENGTH);
    if (size > 0) {
        memmove(pointer_at(t, TO), pointer_at(t, FROM), size);
    }
}

/* Executes a task for a processor. With the topic CALL the task calls a function of the host; a task with another topic
 * does nothing. Returns false if the queue of calls is full. */
static bool call_host(const driver_scheduler *on, const driver_task *t)
{
    enum { QUEUE = 16, STREAM = 22, EVENT = 24, BLOCKS = 26, TASK = 28, FUNCTION = 32, ARGUMENT = 40, TOPIC = 56 };
    enum { TOPIC_SHIFT = 12, TOPIC_MASK = 63, CALL = 26 };
    if ((word_at(t, TOPIC) >> TOPIC_SHIFT & TOPIC_MASK) != CALL) {
        return true;
    }
    const hal_call call = {
        .stream = half_at(t, STREAM),
        .task = half_at(t, TASK),
        .is_blocking = half_at(t, BLOCKS) != 0,
        .event = half_at(t, EVENT),
        .function = long_at(t, FUNCTION),
        .argument = long_at(t, ARGUMENT),
    };
    return driver_call((uint32_t)(on - schedulers), half_at(t, QUEUE), &call);
}

/* Returns false if the task has to wait. */
static bool execute(driver_scheduler *on, const driver_task *t)
{
    enum { ID = 8 };
    bool *event = &on->events[half_at(t, ID)];
    bool *notify = &on->notifies[half_at(t, ID) % NOTIFIES];
    switch (kind_of(t)) {
    case HAL_TASK_PROCESSOR:
        return call_host(on, t);
    case HAL_TASK_EVENT_RECORD:
        *event = true;
        return true;
    case HAL_TASK_EVENT_WAIT:
        return *event;
    case HAL_TASK_NOTIFY_RECORD:
        *notify = true;
        return true;
    case HAL_TASK_NOTIFY_WAIT: {
        const bool there = *notify;
        *notify = false;
        return there;
    }
    case HAL_TASK_WRITE_VALUE:
        write_value(on, t);
        return true;
    case HAL_TASK_PLACEHOLDER:
        maintain_graph(on, t);
        return true;
    case HAL_TASK_CONDITION:
        return execute_graph(on, t);
    case HAL_TASK_COPY:
        copy(t);
        return true;
    case HAL_TASK_PCIE_COPY:
        copy_over_pcie(t);
        return true;
    default:
        return true;
    }
}

void driver_event_set(uint32_t device, uint32_t event, bool is_recorded)
{
    schedulers[device].events[event % EVENTS] = is_recorded;
}

/* --- reports --- */

static bool push(report_queue *queue, const hal_report *report)
{
    if (queue->count == queue->room) {
        const size_t room = queue->room > 0 ? 2 * queue->room : 64;
        hal_report *moved = malloc(room * sizeof(*moved));
        if (moved == NULL) {
            return false;
        }
        for (size_t i = 0; i < queue->count; i++) {
            moved[i] = queue->reports[(queue->first + i) % queue->room];
        }
        free(queue->reports);
        *queue = (report_queue){.reports = moved, .count = queue->count, .room = room, .is_live = queue->is_live};
    }
    queue->reports[(queue->first + queue->count++) % queue->room] = *report;
    return true;
}

static hal_report pop(report_queue *queue)
{
    const hal_report report = queue->reports[queue->first];
    queue->first = (queue->first + 1) % queue->room;
    queue->count--;
    return report;
}

static uint64_t ticks(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) / TICK_NS;
}

/* A bit of the task's header asks for a report. */
static void report_end(driver_scheduler *on, uint32_t number, const driver_task *t)
{
    enum { STREAM = 4, TASK = 6, WANTS_REPORT = 1 << 6 };
    if ((t->bytes[1] & WANTS_REPORT) == 0) {
        return;
    }
    const hal_report report = {
        .stream = half_at(t, STREAM),
        .task = half_at(t, TASK),
        .task_kind = (uint8_t)kind_of(t),
        .tasks = (uint16_t)number,
        .head = (uint16_t)on->tasks[number].head,
        .time = ticks(),
    };
    if (!push(&on->reports[on->reports_of[report.stream % STREAMS]], &report)) {
        abort(); /* without room for the report, the program would wait for the report for ever */
    }
}

/* --- the scheduler --- */

/* Executes the first task of a queue. Returns false if there is none, or if it has to wait. */
static bool step(driver_scheduler *on, uint32_t number)
{
    task_queue *queue = &on->tasks[number];
    if (!queue->is_live || !queue->is_enabled || queue->head == queue->tail ||
        (queue->graph != 0 && !queue->is_started)) {
        return false;
    }
    const driver_task first = queue->slots[queue->head];
    if (!execute(on, &first)) {
        return false;
    }
    queue->head = (queue->head + 1) % queue->depth;
    report_end(on, number, &first);
    if (queue->graph != 0 && queue->head == queue->tail) {
        queue->is_started = false;
        queue->head = queue->first;
    }
    return true;
}

static void *schedule(void *arg)
{
    driver_scheduler *on = arg;
    (void)pthread_mutex_lock(&driver_mutex);
    for (;;) {
        bool any = false;
        for (uint32_t number = 0; number < QUEUES; number++) {
            any |= step(on, number);
        }
        (void)(any ? pthread_cond_broadcast(&driver_changed) : pthread_cond_wait(&driver_changed, &driver_mutex));
    }
    return NULL;
}

static hal_error start(driver_scheduler *on)
{
    if (!on->runs) {
        if (pthread_create(&on->thread, NULL, schedule, on) != 0) {
            return HAL_NO_RESOURCES;
        }
        (void)pthread_detach(on->thread);
        on->runs = true;
    }
    return HAL_OK;
}

/* --- queues --- */

/* Opens a queue of reports for the stream that the first word of `info` names. */
static hal_error take_reports(driver_scheduler *on, const hal_queue_in *in, hal_queue_out *out)
{
    const bool given = (in->flag & HAL_QUEUE_REPORTS_GIVEN) != 0;
    uint32_t number = given ? in->reports : 1;
    while (!given && number < QUEUES && on->reports[number].is_live) {
        number++;
    }
    if (number >= QUEUES) {
        return HAL_NO_RESOURCES;
    }
    on->reports[number].first = on->reports[number].count = 0;
    on->reports[number].is_live = true;
    on->reports_of[in->info[0] % STREAMS] = number;
    out->reports = number;
    out->tasks = HAL_NO_QUEUE;
    return HAL_OK;
}

static hal_error take_tasks(driver_scheduler *on, const hal_queue_in *in, hal_queue_out *out)
{
    static uint8_t shared_page[DRIVER_PAGE];
    const bool given = (in->flag & (HAL_QUEUE_TASKS_GIVEN | HAL_QUEUE_REUSES_TASKS)) != 0;
    uint32_t number = given ? in->tasks : 1;
    while (!given && number < QUEUES && on->tasks[number].is_live) {
        number++;
    }
    const uint32_t depth = in->task_depth > 0 ? in->task_depth : DEPTH;
    driver_task *slots = number < QUEUES ? calloc(depth, sizeof(*slots)) : NULL;
    if (slots == NULL) {
        return HAL_NO_RESOURCES;
    }
    free(on->tasks[number].slots);
    on->tasks[number] = (task_queue){.slots = slots, .depth = depth, .is_live = true, .is_enabled = true};
    on->tasks_of[in->info[0] % STREAMS] = number;
    out->tasks = number;
    out->reports = (in->flag & HAL_QUEUE_REUSES_REPORTS) != 0 ? in->reports : number;
    out->address = (uintptr_t)shared_page;
    return HAL_OK;
}

hal_error halSqCqAllocate(uint32_t device, hal_queue_in *in, hal_queue_out *out)
{
    if (device >= DRIVER_DEVICES) {
        return HAL_INVALID_VALUE;
    }
    DRIVER_HOLD_LOCK();
    memset(out, 0, sizeof(*out));
    const hal_error error = start(&schedulers[device]);
    if (error != HAL_OK) {
        return error;
    }
    if (in->kind == HAL_QUEUE_CALLS) {
        out->tasks = HAL_NO_QUEUE;
        return driver_calls_take(device, in->group, &out->reports);
    }
    return in->kind == HAL_QUEUE_LOGIC ? take_reports(&schedulers[device], in, out)
                                       : take_tasks(&schedulers[device], in, out);
}

static task_queue *queue_of(uint32_t device, uint32_t number)
{
    return device < DRIVER_DEVICES && number < QUEUES ? &schedulers[device].tasks[number] : NULL;
}

hal_error halSqCqFree(uint32_t device, hal_queue_end *end)
{
    DRIVER_HOLD_LOCK();
    task_queue *queue = queue_of(device, end->tasks);
    if (end->kind == HAL_QUEUE_CALLS && device < DRIVER_DEVICES) {
        driver_calls_end(device, end->reports);
    } else if (end->kind == HAL_QUEUE_LOGIC) {
        if (device < DRIVER_DEVICES && end->reports < QUEUES) {
            schedulers[device].reports[end->reports].is_live = false;
        }
    } else if (queue != NULL) {
        free(queue->slots);
        *queue = (task_queue){.is_live = false};
    }
    return HAL_OK;
}

hal_error halSqCqQuery(uint32_t device, hal_queue_prop *prop)
{
    static uint8_t registers[1 << 16];
    DRIVER_HOLD_LOCK();
    const task_queue *queue = queue_of(device, prop->tasks);
    if (queue == NULL) {
        return HAL_INVALID_VALUE;
    }
    const uint64_t address = (uintptr_t)registers;
    switch (prop->prop) {
    case HAL_PROP_STATUS:
        prop->value[0] = queue->is_enabled;
        break;
    case HAL_PROP_HEAD:
        prop->value[0] = queue->head;
        break;
    case HAL_PROP_TAIL:
        prop->value[0] = queue->tail;
        break;
    case HAL_PROP_DEPTH:
        prop->value[0] = queue->depth;
        break;
    case HAL_PROP_REGISTERS:
    case HAL_PROP_BASE:
        prop->value[0] = (uint32_t)address;
        prop->value[1] = (uint32_t)(address >> 32);
        break;
    default:
        prop->value[0] = 0;
        break;
    }
    return HAL_OK;
}

hal_error halSqCqConfig(uint32_t device, hal_queue_prop *prop)
{
    DRIVER_HOLD_LOCK();
    task_queue *queue = queue_of(device, prop->tasks);
    if (queue == NULL || !queue->is_live) {
        return HAL_OK; /* the runtime passes "every queue", which needs no action here */
    }
    if (prop->prop == HAL_PROP_STATUS) {
        queue->is_enabled = prop->value[0] != 0;
    } else if (prop->prop == HAL_PROP_ENABLE) {
        queue->is_enabled = true;
    } else if (prop->prop == HAL_PROP_HEAD) { /* drops the tasks before it */
        if (prop->value[0] >= queue->depth) {
            return HAL_INVALID_VALUE;
        }
        queue->head = prop->value[0];
    }
    (void)pthread_cond_broadcast(&driver_changed);
    return HAL_OK;
}

hal_error halSqTaskSend(uint32_t device, hal_send *send)
{
    DRIVER_HOLD_LOCK();
    task_queue *queue = queue_of(device, send->tasks);
    if (queue == NULL || !queue->is_live) {
        return HAL_INVALID_VALUE;
    }
    const uint32_t held = (queue->tail + queue->depth - queue->head) % queue->depth;
    if (send->count >= queue->depth - held) { /* one slot stays free: a full ring would look empty */
        return HAL_NO_RESOURCES;
    }
    send->position = queue->tail;
    for (uint32_t i = 0; i < send->count; i++) {
        memcpy(queue->slots[queue->tail].bytes, send->first + (size_t)i * HAL_TASK_BYTES, HAL_TASK_BYTES);
        queue->tail = (queue->tail + 1) % queue->depth;
    }
    (void)pthread_cond_broadcast(&driver_changed);
    return HAL_OK;
}

struct timespec driver_deadline(long ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000 + (until.tv_nsec + ms % 1000 * 1000000) / 1000000000;
    until.tv_nsec = (until.tv_nsec + ms % 1000 * 1000000) % 1000000000;
    return until;
}

hal_error halCqReportRecv(uint32_t device, hal_receive *receive)
{
    if (device >= DRIVER_DEVICES || receive->reports >= QUEUES) {
        return HAL_INVALID_VALUE;
    }
    enum { PATIENCE_MS = 1000 }; /* the wait of a call that has no time limit; after it the runtime calls again */
    const struct timespec until = driver_deadline(receive->timeout_ms >= 0 ? receive->timeout_ms : PATIENCE_MS);
    DRIVER_HOLD_LOCK();
    report_queue *queue = &schedulers[device].reports[receive->reports];
    receive->count = 0;
    while (queue->count == 0) {
        if (pthread_cond_timedwait(&driver_changed, &driver_mutex, &until) != 0 && queue->count == 0) {
            return HAL_WAIT_TIMEOUT;
        }
    }
    while (queue->count > 0 && receive->count < receive->room) {
        const hal_report report = pop(queue);
        memcpy(receive->first + sizeof(report) * receive->count++, &report, sizeof(report));
    }
    return HAL_OK;
}

/* --- messages of the firmware: there are none --- */

static void rest(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

hal_error halEschedWaitEvent(uint32_t device, uint32_t group, uint32_t thread, int timeout_ms, void *event)
{
    (void)device;
    (void)group;
    (void)thread;
    (void)event;
    rest(timeout_ms >= 0 && timeout_ms < 100 ? timeout_ms : 100);
    return HAL_WAIT_TIMEOUT;
}

hal_error halReadFaultEvent(int32_t device, int timeout_ms, void *filter, void *event)
{
    (void)device;
    (void)timeout_ms;
    (void)filter;
    (void)event;
    rest(100);
    return HAL_NOT_SUPPORTED;
}
