/* wtr_write.c: writes a trace as `.wtr` text, to a file (plain, gzip, xz) or to memory.
 *
 * Promise: reading the text back gives the same events in the same order, with tags of the same text and stacks. Each
 * tag is defined right before its first use, so the text can be read while it is written. A failure is reported once
 * and leaves an existing file unchanged (out_file.h).
 */
#include "out_file.h"
#include "trace_internal.h"

#include "shared/descriptor.h"

#include <errno.h>
#include <inttypes.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define OUT_BUFFER ((size_t)1 << 16)
#define XZ_PRESET 0 /* preset of xz, chosen by the measurement in benchmarks/weir/trace/README.md */
#define GZIP_MODE "wb6"

enum packing { PACK_PLAIN, PACK_GZIP, PACK_XZ, PACK_MEMORY };

struct writer {
    enum packing packing;
    const char *path;
    struct trace_error *error;
    struct out_file out; /* unused for standard output and memory */
    bool opened;         /* `out` is open */
    FILE *file;          /* PACK_PLAIN and PACK_XZ */
    gzFile gzip;         /* PACK_GZIP */
    lzma_stream lzma;    /* PACK_XZ */
    char *memory;        /* PACK_MEMORY */
    size_t memory_size;
    size_t memory_capacity;
    char pending[OUT_BUFFER];
    size_t pending_size;
    bool failed;
};

/* --- sinks --- */

static void fail_system(struct writer *writer)
{
    if (!writer->failed) {
        (void)trace_say(writer->error, WEIR_ERR_DEVICE, writer->path, "cannot write: %s",
                        errno != 0 ? strerror(errno) : "the data could not be packed");
    }
    writer->failed = true;
}

static void fail_memory(struct writer *writer)
{
    if (!writer->failed) {
        (void)trace_say(writer->error, WEIR_ERR_NO_MEMORY, writer->path, "out of memory");
    }
    writer->failed = true;
}

static void write_xz(struct writer *writer, const char *bytes, size_t size, lzma_action action)
{
    unsigned char packed[4096];
    lzma_ret result = LZMA_OK;
    writer->lzma.next_in = (const uint8_t *)bytes;
    writer->lzma.avail_in = size;
    do {
        writer->lzma.next_out = packed;
        writer->lzma.avail_out = sizeof(packed);
        result = lzma_code(&writer->lzma, action);
        size_t made = sizeof(packed) - writer->lzma.avail_out;
        if ((result != LZMA_OK && result != LZMA_STREAM_END) || fwrite(packed, 1, made, writer->file) != made) {
            fail_system(writer);
            return;
        }
    } while (action == LZMA_FINISH ? result != LZMA_STREAM_END : writer->lzma.avail_in > 0);
}

static void write_memory(struct writer *writer, const char *bytes, size_t size)
{
    if (size >= writer->memory_capacity - writer->memory_size) {
        size_t larger = (writer->memory_capacity + size + 1) * 2;
        char *moved = realloc(writer->memory, larger);
        if (moved == NULL) {
            fail_memory(writer);
            return;
        }
        writer->memory = moved;
        writer->memory_capacity = larger;
    }
    memcpy(writer->memory + writer->memory_size, bytes, size);
    writer->memory_size += size;
    writer->memory[writer->memory_size] = '\0';
}

static void flush_pending(struct writer *writer)
{
    size_t size = writer->pending_size;
    writer->pending_size = 0;
    if (writer->failed || size == 0) {
        return;
    }
    errno = 0;
    switch (writer->packing) {
    case PACK_PLAIN:
        if (fwrite(writer->pending, 1, size, writer->file) != size) {
            fail_system(writer);
        }
        break;
    case PACK_GZIP:
        if (gzwrite(writer->gzip, writer->pending, (unsigned)size) != (int)size) {
            fail_system(writer);
        }
        break;
    case PACK_XZ:
        write_xz(writer, writer->pending, size, LZMA_RUN);
        break;
    case PACK_MEMORY:
        write_memory(writer, writer->pending, size);
        break;
    }
}

static void put(struct writer *writer, const char *text, size_t size)
{
    while (size > 0) {
        size_t room = OUT_BUFFER - writer->pending_size;
        size_t part = size < room ? size : room;
        memcpy(writer->pending + writer->pending_size, text, part);
        writer->pending_size += part;
        text += part;
        size -= part;
        if (writer->pending_size == OUT_BUFFER) {
            flush_pending(writer);
        }
    }
}

static void put_text(struct writer *writer, const char *text)
{
    put(writer, text, strlen(text));
}

static void put_number(struct writer *writer, const char *before, uint64_t number)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    put_text(writer, before);
    put(writer, digits, (size_t)length);
}

/* --- the text --- */

static void put_device(struct writer *writer, uint32_t number, const struct trace_device *device)
{
    put_number(writer, "#dev ", number);
    if (device->capacity != 0) {
        put_number(writer, " cap=", device->capacity);
    }
    if (device->granularity != 0) {
        put_number(writer, " gran=", device->granularity);
    }
    if (device->name[0] != '\0') {
        put_text(writer, " name=\"");
        for (const char *c = device->name; *c != '\0'; c++) {
            put(writer, *c == '"' ? "'" : c, 1);
        }
        put_text(writer, "\"");
    }
    put_text(writer, "\n");
}

static void put_head(struct writer *writer, const struct trace *trace)
{
    static const char *const clocks[] = {"ns", "logical", "order"};
    put_text(writer, "#wtr 1\n");
    if (trace->source[0] != '\0') {
        put_text(writer, "#src ");
        put_text(writer, trace->source);
        put_text(writer, "\n");
    }
    put_text(writer, "#clock ");
    put_text(writer, clocks[trace->clock]);
    put_text(writer, "\n");
    for (uint32_t d = 0; d < trace->device_count; d++) {
        if (trace->devices[d].declared) {
            put_device(writer, d, &trace->devices[d]);
        }
    }
    for (size_t i = 0; i < trace->note_count; i++) {
        put_text(writer, "#note ");
        put_text(writer, trace->notes[i]);
        put_text(writer, "\n");
    }
    if (trace->recorded_note != NULL) {
        put_text(writer, "#note recorded: ");
        put_text(writer, trace->recorded_note);
        put_text(writer, "\n");
    }
    if (trace->allocator_settings != NULL) {
        put_text(writer, "#note allocator settings: ");
        put_text(writer, trace->allocator_settings);
        put_text(writer, "\n");
    }
}

/* Writes an event with a name too long for the line buffer: formats the line again, into memory from malloc. */
static void put_long_event(struct writer *writer, const weir_trace_event *event, size_t length)
{
    char *line = malloc(length + 1);
    if (line == NULL) {
        fail_memory(writer);
        return;
    }
    weir_trace_format(event, line, length + 1);
    put(writer, line, length);
    free(line);
}

static void put_event(struct writer *writer, const weir_trace_event *event)
{
    char line[512];
    size_t length = weir_trace_format(event, line, sizeof(line));
    if (length < sizeof(line)) {
        put(writer, line, length);
    } else {
        put_long_event(writer, event, length);
    }
}

/* Writes a `#stack` line for each frame. */
static void put_stack(struct writer *writer, uint32_t tag, const char *stack)
{
    while (*stack != '\0') {
        const size_t length = strcspn(stack, "\n");
        put_number(writer, "#stack ", tag);
        put_text(writer, " ");
        put(writer, stack, length);
        put_text(writer, "\n");
        stack += length + (stack[length] == '\n');
    }
}

static void put_tag(struct writer *writer, const struct trace *trace, uint32_t tag)
{
    put_number(writer, "@", tag);
    put_text(writer, " ");
    put_text(writer, trace->tags[tag]);
    put_text(writer, "\n");
    if (trace->stacks != NULL && trace->stacks[tag] != NULL) {
        put_stack(writer, tag, trace->stacks[tag]);
    }
}

static void put_trace(struct writer *writer, const struct trace *trace)
{
    bool *defined = calloc((size_t)trace->tag_count + 1, sizeof(*defined));
    if (defined == NULL) {
        fail_memory(writer);
        return;
    }
    put_head(writer, trace);
    for (size_t i = 0; i < trace->event_count && !writer->failed; i++) {
        const weir_trace_event *event = &trace->events[i].event;
        if (event->tag != WEIR_TRACE_NONE && !defined[event->tag]) {
            defined[event->tag] = true;
            put_tag(writer, trace, event->tag);
        }
        put_event(writer, event);
    }
    flush_pending(writer);
    free(defined);
}

/* --- files --- */

static bool ends_with(const char *path, const char *suffix)
{
    size_t length = strlen(path);
    size_t tail = strlen(suffix);
    return length >= tail && strcmp(path + length - tail, suffix) == 0;
}

static void open_stream(struct writer *writer)
{
    const int fd = writer->out.fd;
    if (writer->packing == PACK_GZIP) {
        writer->gzip = gzdopen(fd, GZIP_MODE);
    } else {
        writer->file = fdopen(fd, "wb");
    }
    if (writer->gzip == NULL && writer->file == NULL) {
        fail_memory(writer);
        return;
    }
    (void)out_file_take(&writer->out); /* the stream closes it */
    if (writer->packing == PACK_XZ && lzma_easy_encoder(&writer->lzma, XZ_PRESET, LZMA_CHECK_CRC64) != LZMA_OK) {
        fail_memory(writer);
    }
}

static void open_file(struct writer *writer)
{
    if (strcmp(writer->path, "-") == 0) {
        writer->file = stdout;
        return;
    }
    writer->opened = out_file_open(&writer->out, writer->path);
    if (writer->opened) {
        open_stream(writer);
    } else {
        (void)trace_say(writer->error, WEIR_ERR_DEVICE, writer->path, "cannot open for writing: %s", strerror(errno));
        writer->failed = true;
    }
}

static void close_file(struct writer *writer)
{
    errno = 0;
    if (writer->packing == PACK_XZ) {
        if (!writer->failed) {
            write_xz(writer, NULL, 0, LZMA_FINISH);
        }
        lzma_end(&writer->lzma);
    }
    if (writer->gzip != NULL && gzclose(writer->gzip) != Z_OK) {
        fail_system(writer);
    }
    if (writer->file == stdout) {
        if (fflush(stdout) != 0) {
            fail_system(writer);
        }
    } else if (writer->file != NULL && fclose(writer->file) != 0) {
        fail_system(writer);
    }
    if (writer->opened && !writer->failed && !out_file_finish(&writer->out)) {
        fail_system(writer);
    }
    if (writer->opened && writer->failed) {
        out_file_drop(&writer->out);
    }
}

static struct writer *make_writer(const char *path, enum packing packing, struct trace_error *error)
{
    struct writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        (void)trace_say(error, WEIR_ERR_NO_MEMORY, path, "out of memory");
        return NULL;
    }
    writer->packing = packing;
    writer->path = path;
    writer->error = error;
    return writer;
}

static enum packing packing_of(const char *path)
{
    if (ends_with(path, ".xz")) {
        return PACK_XZ;
    }
    return ends_with(path, ".gz") ? PACK_GZIP : PACK_PLAIN;
}

bool trace_packs(const char *path)
{
    return packing_of(path) != PACK_PLAIN;
}

/* Writes the bytes of the file `from`. */
static void put_file(struct writer *writer, const char *from)
{
    char part[4096];
    FILE *file = open_stream_above_standard(from, O_RDONLY, "rb");
    size_t count = 1;
    while (file != NULL && count > 0 && !writer->failed) {
        count = fread(part, 1, sizeof(part), file);
        put(writer, part, count);
    }
    if (file == NULL || ferror(file)) {
        (void)trace_say(writer->error, WEIR_ERR_DEVICE, from, "cannot read: %s", strerror(errno));
        writer->failed = true;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    flush_pending(writer);
}

/* Opens the file, writes `trace` or the bytes of the file `from`, and closes the file. */
static weir_status write_path(const struct trace *trace, const char *from, const char *path, struct trace_error *error)
{
    error->status = WEIR_OK;
    struct writer *writer = make_writer(path, packing_of(path), error);
    if (writer == NULL) {
        return error->status;
    }
    open_file(writer);
    if (!writer->failed && trace != NULL) {
        put_trace(writer, trace);
    } else if (!writer->failed) {
        put_file(writer, from);
    }
    close_file(writer);
    free(writer);
    return error->status;
}

weir_status trace_write(const struct trace *trace, const char *path, struct trace_error *error)
{
    return write_path(trace, NULL, path, error);
}

weir_status trace_pack(const char *from, const char *path, struct trace_error *error)
{
    return write_path(NULL, from, path, error);
}

weir_status trace_write_memory(const struct trace *trace, char **text, size_t *size, struct trace_error *error)
{
    error->status = WEIR_OK;
    struct writer *writer = make_writer(trace->path, PACK_MEMORY, error);
    if (writer == NULL) {
        return error->status;
    }
    put_trace(writer, trace);
    if (writer->failed) {
        free(writer->memory);
    } else {
        *text = writer->memory;
        *size = writer->memory_size;
    }
    free(writer);
    return error->status;
}
