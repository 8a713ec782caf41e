/* core/src/device/adaptor_log.c: one line of text for each call to a device.
 *
 * Idea: a line names the call, what went in, the result and what came out, as in
 *     region_alloc size=2097152 -> WEIR_OK address=0x100000000000
 * Guarantee: the sink is called by one thread at a time, after the call it tells of; lines of
 * concurrent calls come in no particular order. The sink must not call the device.
 * Cost: formatting about a hundred bytes, and a lock held during the sink.
 */
#include "adaptor_base.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct logger {
    weir__adaptor base;
    pthread_mutex_t lock; /* one line at a time */
    weir_log_sink sink;
    void *sink_ctx;
} logger;

/* 192 bytes hold the longest line: a name, three numbers of at most 20 digits, and a status. */
typedef struct text_line {
    char text[192];
    size_t length;
} text_line;

__attribute__((format(printf, 2, 3))) static void append(text_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof line->text - line->length;
    const int written = vsnprintf(line->text + line->length, room, format, arguments);
    va_end(arguments);
    if (written > 0) {
        line->length += (size_t)written < room ? (size_t)written : room - 1;
    }
}

static void append_address(text_line *line, const weir__adaptor_call *call)
{
    append(line, " address=0x%" PRIx64, call->address);
}

static void append_size(text_line *line, const weir__adaptor_call *call)
{
    append(line, " size=%" PRIu64, call->size);
}

static void append_handle(text_line *line, const weir__adaptor_call *call)
{
    append(line, " handle=0x%" PRIx64, call->handle);
}

static void append_event(text_line *line, const weir__adaptor_call *call)
{
    append(line, " event=0x%" PRIxPTR, (uintptr_t)call->event);
}

static void append_stream(text_line *line, const weir__adaptor_call *call)
{
    append(line, " stream=0x%" PRIxPTR, (uintptr_t)call->native_stream);
}

static void append_inputs(text_line *line, const weir__adaptor_call *call)
{
    switch (call->kind) {
    case WEIR_CALL_REGION_ALLOC:
    case WEIR_CALL_VM_RESERVE:
    case WEIR_CALL_VM_CREATE:
        append_size(line, call);
        break;
    case WEIR_CALL_REGION_FREE:
    case WEIR_CALL_VM_RELEASE:
    case WEIR_CALL_VM_UNMAP:
        append_address(line, call);
        append_size(line, call);
        break;
    case WEIR_CALL_VM_MAP:
        append_address(line, call);
        append_size(line, call);
        append_handle(line, call);
        break;
    case WEIR_CALL_VM_DESTROY:
        append_handle(line, call);
        break;
    case WEIR_CALL_EVENT_DESTROY:
    case WEIR_CALL_EVENT_QUERY:
    case WEIR_CALL_EVENT_SYNC:
        append_event(line, call);
        break;
    case WEIR_CALL_EVENT_RECORD:
    case WEIR_CALL_STREAM_WAIT_EVENT:
        append_event(line, call);
        append_stream(line, call);
        break;
    case WEIR_CALL_STREAM_SYNC:
        append_stream(line, call);
        break;
    case WEIR_CALL_EVENT_CREATE:
    case WEIR_CALL_COUNT:
        break;
    }
}

static void append_outputs(text_line *line, const weir__adaptor_call *call)
{
    switch (call->kind) {
    case WEIR_CALL_REGION_ALLOC:
    case WEIR_CALL_VM_RESERVE:
        append_address(line, call);
        break;
    case WEIR_CALL_VM_CREATE:
        append_handle(line, call);
        break;
    case WEIR_CALL_EVENT_CREATE:
        append_event(line, call);
        break;
    case WEIR_CALL_EVENT_QUERY:
        append(line, " complete=%s", call->complete ? "true" : "false");
        break;
    default:
        break;
    }
}

static void tell(weir__adaptor *adaptor, const weir__adaptor_call *call, weir_status status)
{
    logger *const self = (logger *)adaptor;
    text_line line = {.length = 0};
    append(&line, "%s", weir_device_call_name(call->kind));
    append_inputs(&line, call);
    append(&line, " -> %s", weir_status_name(status));
    if (status == WEIR_OK) {
        append_outputs(&line, call);
    }
    pthread_mutex_lock(&self->lock);
    self->sink(self->sink_ctx, line.text);
    pthread_mutex_unlock(&self->lock);
}

static void destroy(weir__adaptor *adaptor)
{
    logger *const self = (logger *)adaptor;
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static const weir__adaptor_kind log_kind = {.after = tell, .destroy = destroy};

weir_status weir_log_create(weir_device *device, weir_log_sink sink, void *ctx,
                            weir_device **logging)
{
    if (device == NULL || sink == NULL || logging == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_log_create: %s is NULL",
                           device == NULL ? "device" : sink == NULL ? "sink" : "logging");
    }
    logger *const self = calloc(1, sizeof *self);
    if (self == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    self->base.kind = &log_kind;
    self->base.inner = device;
    self->sink = sink;
    self->sink_ctx = ctx;
    if (pthread_mutex_init(&self->lock, NULL) != 0) {
        free(self);
        return WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = weir__adaptor_device(&self->base, logging);
    if (status != WEIR_OK) {
        destroy(&self->base);
    }
    return status;
}
