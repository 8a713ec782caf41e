/* core/src/device/adaptor_log.c: one line of text for each call to a device.
 *
 * Idea: a line names the call, its inputs, its result and its outputs:
 *     region_alloc size=2097152 -> WEIR_OK address=0x100000000000
 * Guarantee: the sink is called by one thread at a time, after the call that the line describes. Lines of concurrent
 * calls come in no particular order. The sink must not call the device.
 * Cost: formatting about a hundred bytes, and a lock held while the sink runs.
 */
#include "adaptor_base.h"
#include "shared/device_calls.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct logger {
    weir__adaptor base;
    pthread_mutex_t lock; /* held while the sink gets one line */
    weir_log_sink sink;
    void *sink_ctx;
};

/* 192 bytes hold the longest line: a name, three numbers of at most 20 digits, and a status. */
struct text_line {
    char text[192];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void append(struct text_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof(line->text) - line->length;
    const int written = vsnprintf(line->text + line->length, room, format, arguments);
    va_end(arguments);
    if (written > 0) {
        line->length += (size_t)written < room ? (size_t)written : room - 1;
    }
}

/* Appends the members that `letters` names by initials: address, size, handle, event, native stream, complete, pieces
 * of a copy. */
static void append_members(struct text_line *line, const weir__adaptor_call *call, const char *letters)
{
    for (; *letters != '\0'; letters++) {
        switch (*letters) {
        case 'a':
            append(line, " address=0x%" PRIx64, call->address);
            break;
        case 's':
            append(line, " size=%" PRIu64, call->size);
            break;
        case 'h':
            append(line, " handle=0x%" PRIx64, call->handle);
            break;
        case 'e':
            append(line, " event=0x%" PRIxPTR, (uintptr_t)call->event);
            break;
        case 'n':
            append(line, " stream=0x%" PRIxPTR, (uintptr_t)call->native_stream);
            break;
        case 'p':
            append(line, " pieces=%zu", call->count);
            break;
        default:
            append(line, " complete=%s", call->complete ? "true" : "false");
            break;
        }
    }
}

#define LETTER(word) LETTER_##word
#define LETTER_address "a"
#define LETTER_size "s"
#define LETTER_handle "h"
#define LETTER_event "e"
#define LETTER_native_stream "n"
#define LETTER_complete "c"
#define LETTER_copies
#define LETTER_count "p"
#define CALL(NAME, slot, n, ...) [WEIR_CALL_##NAME] = {"" WEIR__EACH(n, LETTER, __VA_ARGS__), ""},
#define GIVING(NAME, slot, result, n, ...)                                                                             \
    [WEIR_CALL_##NAME] = {"" WEIR__EACH(n, LETTER, __VA_ARGS__), LETTER_##result},
static const struct {
    const char *inputs;
    const char *outputs;
} members[WEIR_CALL_COUNT] = {WEIR__DEVICE_CALLS(CALL, GIVING)};
#undef CALL
#undef GIVING

static void tell(weir__adaptor *adaptor, const weir__adaptor_call *call, weir_status status)
{
    struct logger *const self = (struct logger *)adaptor;
    struct text_line line = {.length = 0};
    append(&line, "%s", weir_device_call_name(call->kind));
    append_members(&line, call, members[call->kind].inputs);
    append(&line, " -> %s", weir_status_name(status));
    if (status == WEIR_OK) {
        append_members(&line, call, members[call->kind].outputs);
    }
    pthread_mutex_lock(&self->lock);
    self->sink(self->sink_ctx, line.text);
    pthread_mutex_unlock(&self->lock);
}

static void destroy(weir__adaptor *adaptor)
{
    struct logger *const self = (struct logger *)adaptor;
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static const weir__adaptor_kind log_kind = {.after = tell, .destroy = destroy};

weir_status weir_log_create(weir_device *device, weir_log_sink sink, void *ctx, weir_device **logging)
{
    if (device == NULL || sink == NULL || logging == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_log_create: %s is NULL",
                           device == NULL ? "device"
                           : sink == NULL ? "sink"
                                          : "logging");
    }
    struct logger *const self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    self->sink = sink;
    self->sink_ctx = ctx;
    if (pthread_mutex_init(&self->lock, NULL) != 0) {
        free(self);
        return WEIR_ERR_NO_MEMORY;
    }
    return weir__adaptor_device(&self->base, &log_kind, device, logging);
}
