/* pickle_writer.h: writes the opcodes of a pickle into a buffer, so that tests make their own snapshots. Protocol 4
 * unless a test writes other opcodes itself. Header only; the functions are inline so that a test may leave some out.
 */
#ifndef WEIR_TESTS_PICKLE_WRITER_H
#define WEIR_TESTS_PICKLE_WRITER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct pickle_writer {
    unsigned char *bytes;
    size_t size;
    size_t capacity;
};

static inline void pw_raw(struct pickle_writer *writer, const void *bytes, size_t size)
{
    if (writer->capacity - writer->size < size) {
        writer->capacity = (writer->capacity + size) * 2;
        writer->bytes = realloc(writer->bytes, writer->capacity);
        if (writer->bytes == NULL) {
            abort();
        }
    }
    if (size > 0) {
        memcpy(writer->bytes + writer->size, bytes, size);
    }
    writer->size += size;
}

static inline void pw_op(struct pickle_writer *writer, unsigned opcode)
{
    unsigned char byte = (unsigned char)opcode;
    pw_raw(writer, &byte, 1);
}

/* Writes a little-endian number of `size` bytes. */
static inline void pw_number(struct pickle_writer *writer, uint64_t number, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        pw_op(writer, (unsigned)(number >> (8 * i)) & 0xff);
    }
}

static inline void pw_begin(struct pickle_writer *writer)
{
    memset(writer, 0, sizeof(*writer));
    pw_raw(writer, "\x80\x04", 2);
}

static inline void pw_end(struct pickle_writer *writer)
{
    pw_op(writer, '.');
}

static inline void pw_free(struct pickle_writer *writer)
{
    free(writer->bytes);
    memset(writer, 0, sizeof(*writer));
}

/* SHORT_BINUNICODE */
static inline void pw_str(struct pickle_writer *writer, const char *text)
{
    size_t length = strlen(text);
    pw_op(writer, 0x8c);
    pw_op(writer, (unsigned)length & 0xff);
    pw_raw(writer, text, length);
}

/* Writes BININT1, BININT or LONG1, as Python does. */
static inline void pw_int(struct pickle_writer *writer, uint64_t number)
{
    if (number < 256) {
        pw_op(writer, 'K');
        pw_number(writer, number, 1);
    } else if (number <= INT32_MAX) {
        pw_op(writer, 'J');
        pw_number(writer, number, 4);
    } else {
        pw_op(writer, 0x8a);
        pw_number(writer, 9, 1);
        pw_number(writer, number, 8);
        pw_op(writer, 0);
    }
}

static inline void pw_bool(struct pickle_writer *writer, int truth)
{
    pw_op(writer, truth ? 0x88 : 0x89);
}

static inline void pw_pair(struct pickle_writer *writer, uint64_t first, uint64_t second)
{
    pw_int(writer, first);
    pw_int(writer, second);
    pw_op(writer, 0x86);
}

/* Opens a dict or list. The caller then writes keys and values or items, and closes it. */
static inline void pw_dict(struct pickle_writer *writer)
{
    pw_raw(writer, "}(", 2);
}

static inline void pw_dict_end(struct pickle_writer *writer)
{
    pw_op(writer, 'u');
}

static inline void pw_list(struct pickle_writer *writer)
{
    pw_raw(writer, "](", 2);
}

static inline void pw_list_end(struct pickle_writer *writer)
{
    pw_op(writer, 'e');
}

static inline void pw_key_int(struct pickle_writer *writer, const char *key, uint64_t number)
{
    pw_str(writer, key);
    pw_int(writer, number);
}

static inline void pw_key_str(struct pickle_writer *writer, const char *key, const char *text)
{
    pw_str(writer, key);
    pw_str(writer, text);
}

/* --- the parts of a snapshot --- */

#define PW_NO_TIME UINT64_MAX

/* Writes one entry of a history, left open for more keys. */
static inline void pw_entry_open(struct pickle_writer *writer, const char *action, uint64_t address, uint64_t size,
                                 uint64_t stream, uint64_t time_us)
{
    pw_dict(writer);
    pw_key_str(writer, "action", action);
    pw_key_int(writer, "addr", address);
    pw_key_int(writer, "size", size);
    pw_key_int(writer, "stream", stream);
    if (time_us != PW_NO_TIME) {
        pw_key_int(writer, "time_us", time_us);
    }
}

static inline void pw_entry(struct pickle_writer *writer, const char *action, uint64_t address, uint64_t size,
                            uint64_t stream, uint64_t time_us)
{
    pw_entry_open(writer, action, address, size, stream, time_us);
    pw_dict_end(writer);
}

static inline void pw_frame(struct pickle_writer *writer, const char *file, const char *function)
{
    pw_dict(writer);
    pw_key_str(writer, "filename", file);
    pw_key_int(writer, "line", 1);
    pw_key_str(writer, "name", function);
    pw_dict_end(writer);
}

/* Opens a segment and its list of blocks. The caller then calls pw_block for each block, and pw_segment_end. */
static inline void pw_segment(struct pickle_writer *writer, uint64_t device, uint64_t address, uint64_t size,
                              uint64_t stream, int expandable)
{
    pw_dict(writer);
    pw_key_int(writer, "device", device);
    pw_key_int(writer, "address", address);
    pw_key_int(writer, "total_size", size);
    pw_key_int(writer, "stream", stream);
    pw_str(writer, "is_expandable");
    pw_bool(writer, expandable);
    pw_str(writer, "blocks");
    pw_list(writer);
}

static inline void pw_block(struct pickle_writer *writer, uint64_t address, uint64_t size, uint64_t requested,
                            const char *state)
{
    pw_dict(writer);
    if (address != 0) {
        pw_key_int(writer, "address", address);
    }
    pw_key_int(writer, "size", size);
    pw_key_int(writer, "requested_size", requested);
    pw_key_str(writer, "state", state);
    pw_dict_end(writer);
}

static inline void pw_segment_end(struct pickle_writer *writer)
{
    pw_list_end(writer);
    pw_dict_end(writer);
}

/* {"segments": [ ... */
static inline void pw_snapshot(struct pickle_writer *writer)
{
    pw_begin(writer);
    pw_dict(writer);
    pw_str(writer, "segments");
    pw_list(writer);
}

/* Ends the list of segments and opens the list "device_traces". The caller then writes one list for each device. */
static inline void pw_histories(struct pickle_writer *writer)
{
    pw_list_end(writer);
    pw_str(writer, "device_traces");
    pw_list(writer);
}

/* Like pw_histories, and opens the history of device 0. */
static inline void pw_history(struct pickle_writer *writer)
{
    pw_histories(writer);
    pw_list(writer);
}

/* A snapshot without segments, up to the open history of device 0. */
static inline void pw_history_alone(struct pickle_writer *writer)
{
    pw_snapshot(writer);
    pw_history(writer);
}

static inline void pw_snapshot_end(struct pickle_writer *writer)
{
    pw_list_end(writer);
    pw_dict_end(writer);
    pw_end(writer);
}

/* Closes the open history and the snapshot. */
static inline void pw_history_end(struct pickle_writer *writer)
{
    pw_list_end(writer);
    pw_snapshot_end(writer);
}

#endif
