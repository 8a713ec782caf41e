/* trace_format.c: one event as one line of `.wtr`, version 1.
 *
 * Promise: the line is what the reader of benchmarks/trace accepts and reads back as the same event, as long as the
 * event's numbers are in range and its tag is defined. A name cannot break the line: control characters in it become
 * '?'. No allocation, no locale, no stdio; nothing is written beyond `size`.
 */
#include <weir/trace.h>

#include <string.h>

/* `length` counts what the whole line takes, also where it no longer fits. */
struct line {
    char *text;
    size_t size;
    size_t length;
};

static void put(struct line *line, char c)
{
    if (line->length + 1 < line->size) {
        line->text[line->length] = c;
    }
    line->length++;
}

static void put_bytes(struct line *line, const char *bytes, size_t count)
{
    if (line->length + count < line->size) {
        memcpy(line->text + line->length, bytes, count);
        line->length += count;
        return;
    }
    while (count-- > 0) {
        put(line, *bytes++);
    }
}

static void put_text(struct line *line, const char *text)
{
    put_bytes(line, text, strlen(text));
}

static void put_number(struct line *line, uint64_t number)
{
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    put_bytes(line, digits + first, sizeof digits - first);
}

static void put_field(struct line *line, uint64_t number)
{
    put(line, ' ');
    put_number(line, number);
}

static void put_address(struct line *line, uint64_t address)
{
    put_text(line, "0x");
    unsigned shift = 60;
    while (shift > 0 && address >> shift == 0) {
        shift -= 4;
    }
    for (;;) {
        put(line, "0123456789abcdef"[(address >> shift) & 15]);
        if (shift == 0) {
            return;
        }
        shift -= 4;
    }
}

static void put_option(struct line *line, const char *key, uint64_t number)
{
    put_text(line, key);
    put_number(line, number);
}

static void put_stream(struct line *line, uint32_t stream)
{
    put(line, ' ');
    if (stream == WEIR_TRACE_NONE) {
        put(line, '-');
    } else {
        put_number(line, stream);
    }
}

static void put_optional_stream(struct line *line, uint32_t stream)
{
    if (stream != WEIR_TRACE_NONE) {
        put_field(line, stream);
    }
}

static void put_device(struct line *line, uint32_t device)
{
    if (device != 0) {
        put_option(line, " d=", device);
    }
}

static void put_tag(struct line *line, uint32_t tag)
{
    if (tag != WEIR_TRACE_NONE) {
        put_option(line, " @", tag);
    }
}

static void put_sign(struct line *line, char mode)
{
    put(line, ' ');
    put(line, mode == '-' ? '-' : '+');
}

static void put_advice(struct line *line, char advice)
{
    switch (advice) {
    case 's':
        put_text(line, " adv=short");
        break;
    case 't':
        put_text(line, " adv=step");
        break;
    case 'l':
        put_text(line, " adv=long");
        break;
    case 'p':
        put_text(line, " adv=persistent");
        break;
    default:
        break;
    }
}

/* p ID SIZE S [ADDR] [d=DEV] */
static void put_prior(struct line *line, const weir_trace_event *event)
{
    put_field(line, event->id);
    put_field(line, event->size);
    put_stream(line, event->stream);
    if (event->address != 0) {
        put(line, ' ');
        put_address(line, event->address);
    }
    put_device(line, event->device);
}

/* a T ID SIZE S TH [al=N] [pool=P] [adv=...] [d=DEV] [addr=A] [@N] */
static void put_alloc(struct line *line, const weir_trace_event *event)
{
    put_field(line, event->id);
    put_field(line, event->size);
    put_stream(line, event->stream);
    put_field(line, event->thread);
    if (event->extra != 0) {
        put_option(line, " al=", event->extra);
    }
    if (event->pool != WEIR_TRACE_NONE) {
        put_option(line, " pool=", event->pool);
    }
    put_advice(line, event->mode);
    put_device(line, event->device);
    if (event->address != 0) {
        put_text(line, " addr=");
        put_address(line, event->address);
    }
    put_tag(line, event->tag);
}

/* y T *|S|eEV */
static void put_sync(struct line *line, const weir_trace_event *event)
{
    put(line, ' ');
    if (event->mode == 's') {
        put_number(line, event->stream);
    } else if (event->mode == 'e') {
        put_option(line, "e", event->id);
    } else {
        put(line, '*');
    }
}

/* m T B|E|I name */
static void put_mark(struct line *line, const weir_trace_event *event)
{
    bool paired = event->mode == 'B' || event->mode == 'E';
    bool named = event->name != NULL && *event->name != '\0';
    char mode = 'I';
    if (paired) {
        mode = event->mode;
    }
    put(line, ' ');
    put(line, mode);
    put(line, ' ');
    for (const char *c = named ? event->name : "-"; *c != '\0'; c++) {
        bool control = (unsigned char)*c < 0x20 || *c == 0x7f;
        if (control) {
            put(line, '?');
        } else {
            put(line, *c);
        }
    }
}

/* s|z T +|- ADDR SIZE [S] [d=DEV] */
static void put_range(struct line *line, const weir_trace_event *event)
{
    put_sign(line, event->mode);
    put(line, ' ');
    put_address(line, event->address);
    put_field(line, event->size);
    put_optional_stream(line, event->stream);
    put_device(line, event->device);
}

static void put_rest(struct line *line, const weir_trace_event *event)
{
    switch (event->kind) {
    case WEIR_TRACE_PRIOR:
        put_prior(line, event);
        break;
    case WEIR_TRACE_ALLOC:
        put_alloc(line, event);
        break;
    case WEIR_TRACE_FREE:
        put_field(line, event->id);
        put_stream(line, event->stream);
        put_field(line, event->thread);
        break;
    case WEIR_TRACE_REALLOC:
        put_field(line, event->old_id);
        put_field(line, event->id);
        put_field(line, event->size);
        put_field(line, event->thread);
        break;
    case WEIR_TRACE_USE:
        put_field(line, event->id);
        put_stream(line, event->stream);
        if (event->mode == 'r' || event->mode == 'w') {
            put(line, ' ');
            put(line, event->mode);
        }
        break;
    case WEIR_TRACE_WORK:
        put_stream(line, event->stream);
        put_field(line, event->size);
        put_tag(line, event->tag);
        break;
    case WEIR_TRACE_RECORD:
    case WEIR_TRACE_WAIT:
        put_field(line, event->id);
        put_stream(line, event->stream);
        break;
    case WEIR_TRACE_SYNC:
        put_sync(line, event);
        break;
    case WEIR_TRACE_TRIM:
        put_optional_stream(line, event->stream);
        break;
    case WEIR_TRACE_CAPACITY:
        put_field(line, event->size);
        break;
    case WEIR_TRACE_MARK:
        put_mark(line, event);
        break;
    case WEIR_TRACE_POOL:
        put_sign(line, event->mode);
        put_field(line, event->pool);
        break;
    case WEIR_TRACE_SEGMENT:
    case WEIR_TRACE_MAPPING:
        put_range(line, event);
        break;
    case WEIR_TRACE_OOM:
        put_field(line, event->size);
        put_field(line, event->extra);
        put_device(line, event->device);
        break;
    case WEIR_TRACE_COUNTERS:
        put_field(line, event->size);
        put_field(line, event->extra);
        break;
    }
}

size_t weir_trace_format(const weir_trace_event *event, char *text, size_t size)
{
    struct line line = {.text = text, .size = size};
    put(&line, (char)event->kind);
    if (event->kind != WEIR_TRACE_PRIOR) {
        put_field(&line, event->time_ns);
    }
    put_rest(&line, event);
    put(&line, '\n');
    if (size > 0) {
        text[line.length < size ? line.length : size - 1] = '\0';
    }
    return line.length;
}
