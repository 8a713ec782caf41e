/* callback.c: functions of the host that a queue of tasks calls.
 *
 * A task of this kind puts a call into a queue of calls. Each queue of calls belongs to a group, and one thread of the
 * runtime serves the group: it waits for the group's queues, takes their calls, runs the functions and releases each
 * call. If the stream has to stand still until the function has returned, the stream waits for an event. The thread
 * then records this event by a command to the scheduler's firmware.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum { CALL_QUEUES = 1024, CALLS = 512 };

typedef struct call_queue {
    hal_call *calls; /* a ring; NULL: the queue is free */
    uint32_t first, count, group;
} call_queue;

static call_queue queues[DRIVER_DEVICES][CALL_QUEUES];

hal_error driver_calls_take(uint32_t device, uint32_t group, uint32_t *number)
{
    for (uint32_t i = 0; i < CALL_QUEUES; i++) {
        call_queue *queue = &queues[device][i];
        if (queue->calls == NULL) {
            *queue = (call_queue){.calls = calloc(CALLS, sizeof(hal_call)), .group = group};
            *number = i;
            return queue->calls != NULL ? HAL_OK : HAL_OUT_OF_MEMORY;
        }
    }
    return HAL_NO_RESOURCES;
}

static call_queue *queue_of(uint32_t device, uint32_t number)
{
    call_queue *queue = device < DRIVER_DEVICES && number < CALL_QUEUES ? &queues[device][number] : NULL;
    return queue != NULL && queue->calls != NULL ? queue : NULL;
}

void driver_calls_end(uint32_t device, uint32_t number)
{
    call_queue *queue = queue_of(device, number);
    if (queue != NULL) {
        free(queue->calls);
        *queue = (call_queue){.calls = NULL};
    }
}

bool driver_call(uint32_t device, uint32_t number, const hal_call *call)
{
    call_queue *queue = queue_of(device, number);
    if (queue == NULL) {
        return true; /* the thread has been unsubscribed */
    }
    if (queue->count == CALLS) {
        return false;
    }
    queue->calls[(queue->first + queue->count++) % CALLS] = *call;
    return true;
}

/* Sets the bits of the group's queues that hold a call. Returns the number of its queues, with calls or without. */
static uint32_t look(uint32_t device, uint32_t group, hal_ready *out, bool *any)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < CALL_QUEUES && i / 64 < out->size; i++) {
        const call_queue *queue = &queues[device][i];
        if (queue->calls != NULL && queue->group == group) {
            live++;
            if (queue->count > 0) {
                out->bits[i / 64] |= UINT64_C(1) << (i % 64);
                *any = true;
            }
        }
    }
    return live;
}

/* A group without queues gets no call: the wait for it is short, so that a thread that serves it may end soon. */
hal_error halCqReportIrqWait(uint32_t device, hal_ready_in *in, hal_ready *out)
{
    enum { REST_MS = 20 };
    const bool is_ours = device < DRIVER_DEVICES && in->kind == HAL_QUEUE_CALLS;
    const bool has_limit = in->timeout_ms >= 0;
    const struct timespec limit = driver_deadline(has_limit ? in->timeout_ms : 0);
    bool any = false;
    DRIVER_HOLD_LOCK();
    for (;;) {
        const uint32_t live = is_ours ? look(device, in->group, out, &any) : 0;
        if (any) {
            return HAL_OK;
        }
        const struct timespec until = has_limit && live > 0 ? limit : driver_deadline(REST_MS);
        const bool is_late = pthread_cond_timedwait(&driver_changed, &driver_mutex, &until) != 0;
        if (is_late && (has_limit || live == 0)) {
            return is_ours && look(device, in->group, out, &any) > 0 && any ? HAL_OK : HAL_WAIT_TIMEOUT;
        }
    }
}

/* Gives all calls up to the end of the ring. */
hal_error halCqReportGet(uint32_t device, hal_reports_in *in, hal_reports *out)
{
    DRIVER_HOLD_LOCK();
    call_queue *queue = queue_of(device, in->reports);
    const bool any = in->kind == HAL_QUEUE_CALLS && queue != NULL && queue->count > 0;
    out->count = !any ? 0 : queue->count < CALLS - queue->first ? queue->count : CALLS - queue->first;
    out->first = any ? &queue->calls[queue->first] : NULL;
    return HAL_OK;
}

hal_error halReportRelease(uint32_t device, hal_release *release)
{
    DRIVER_HOLD_LOCK();
    call_queue *queue = queue_of(device, release->reports);
    if (release->kind == HAL_QUEUE_CALLS && queue != NULL && queue->count >= release->count) {
        queue->first = (queue->first + release->count) % CALLS;
        queue->count -= release->count;
        (void)pthread_cond_broadcast(&driver_changed); /* a task may wait for room */
    }
    return HAL_OK;
}

/* --- commands to the firmware: one says that a function has returned; the driver drops all other commands --- */

static _Thread_local uint8_t command[HAL_TASK_BYTES];

hal_error halSqMemGet(uint32_t device, hal_slots_in *in, hal_slots_out *out)
{
    (void)device;
    if (in->count > 1) {
        return HAL_NO_RESOURCES;
    }
    memset(command, 0, sizeof(command));
    out->count = in->count;
    out->first = command;
    out->position = 0;
    return HAL_OK;
}

hal_error halSqMsgSend(uint32_t device, void *message)
{
    enum { KIND = 4, EVENT = 10, FUNCTION_HAS_RETURNED = 15 };
    uint16_t event = 0;
    (void)message;
    memcpy(&event, command + EVENT, sizeof(event));
    DRIVER_HOLD_LOCK();
    if (device < DRIVER_DEVICES && command[KIND] == FUNCTION_HAS_RETURNED) {
        driver_event_set(device, event, true);
        (void)pthread_cond_broadcast(&driver_changed);
    }
    return HAL_OK;
}
