/* core/src/services/trace_format.c: formats one event as one line of `.wtr`, version 1.
 *
 * Guarantee: the reader of benchmarks/weir/trace accepts the line and reads it back as the same event, if the event's
 * numbers are in range and its tag is defined. A name cannot break the line: control characters in it become '?'. Uses
 * no allocation, no locale and no stdio, and writes nothing beyond `size`.
 */
#include <weir/trace.h>

#include "shared/trace_fields.h"

#include <string.h>

/* `length` is the length of the whole line, even if the line does not fit. */
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
    size_t first = sizeof(digits);
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    put_bytes(line, digits + first, sizeof(digits) - first);
}

static void put_field(struct line *line, uint64_t number)
{
    put(line, ' ');
    put_number(line, number);
}

static void put_address(struct line *line, const char *key, uint64_t address)
{
    put_text(line, key);
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

static void put_advice(struct line *line, char advice)
{
    put_text(line, advice == 's'   ? " adv=short"
                   : advice == 't' ? " adv=step"
                   : advice == 'l' ? " adv=long"
                   : advice == 'p' ? " adv=persistent"
                                   : "");
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
    const bool named = event->name != NULL && *event->name != '\0';
    const char mode = event->mode == 'B' || event->mode == 'E' ? event->mode : 'I';
    put(line, ' ');
    put(line, mode);
    put(line, ' ');
    for (const char *c = named ? event->name : "-"; *c != '\0'; c++) {
        const bool control = (unsigned char)*c < 0x20 || *c == 0x7f;
        put(line, control ? '?' : *c);
    }
}

static void put_required(struct line *line, const weir_trace_event *event, char letter)
{
    switch (letter) {
    case 't':
        put_field(line, event->time_ns);
        break;
    case 'n':
    case 'i':
    case 'e':
        put_field(line, event->id);
        break;
    case 'o':
        put_field(line, event->old_id);
        break;
    case 'z':
    case 'b':
    case 'q':
        put_field(line, event->size);
        break;
    case 'x':
        put_field(line, event->extra);
        break;
    case 'h':
        put_field(line, event->thread);
        break;
    case 'p':
        put_field(line, event->pool);
        break;
    case 's':
    case 'f':
        if (event->stream != WEIR_TRACE_NONE) {
            put_field(line, event->stream);
        } else {
            put_text(line, " -");
        }
        break;
    case 'a':
        put_address(line, " ", event->address);
        break;
    case 'y':
        put_sync(line, event);
        break;
    case 'm':
        put_mark(line, event);
        break;
    case 'k':
        put(line, ' ');
        put(line, event->mode == 'B' || event->mode == 'E' ? event->mode : 'R');
        break;
    default:
        put_text(line, event->mode == '-' ? " -" : " +");
        break;
    }
}

static void put_optional(struct line *line, const weir_trace_event *event, char letter)
{
    if (letter == 'S' && event->stream != WEIR_TRACE_NONE) {
        put_field(line, event->stream);
    } else if (letter == 'A' && event->address != 0) {
        put_address(line, " ", event->address);
    } else if (letter == 'R' && event->address != 0) {
        put_address(line, " addr=", event->address);
    } else if (letter == 'L' && event->extra != 0) {
        put_option(line, " al=", event->extra);
    } else if (letter == 'P' && event->pool != WEIR_TRACE_NONE) {
        put_option(line, " pool=", event->pool);
    } else if (letter == 'D' && event->device != 0) {
        put_option(line, " d=", event->device);
    } else if (letter == 'G' && event->tag != WEIR_TRACE_NONE) {
        put_option(line, " @", event->tag);
    } else if (letter == 'V') {
        put_advice(line, event->mode);
    } else if (letter == 'U' && (event->mode == 'r' || event->mode == 'w')) {
        put_text(line, event->mode == 'r' ? " r" : " w");
    }
}

static void put_rest(struct line *line, const weir_trace_event *event)
{
    const char *letters = (unsigned)event->kind < 128 ? weir__trace_lines[event->kind].fields : NULL;
    for (; letters != NULL && *letters != '\0'; letters++) {
        if (*letters >= 'A' && *letters <= 'Z') {
            put_optional(line, event, *letters);
        } else {
            put_required(line, event, *letters);
        }
    }
}

size_t weir_trace_format(const weir_trace_event *event, char *text, size_t size)
{
    struct line line = {.text = text, .size = size};
    put(&line, (char)event->kind);
    put_rest(&line, event);
    put(&line, '\n');
    if (size > 0) {
        text[line.length < size ? line.length : size - 1] = '\0';
    }
    return line.length;
}
