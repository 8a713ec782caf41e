/* detect.c: tells the format of a file by its first bytes. */
#include "csv.h"
#include "trace_internal.h"

#include <string.h>

static bool begins(const unsigned char *bytes, size_t size, const char *magic, size_t length)
{
    return size >= length && memcmp(bytes, magic, length) == 0;
}

/* True if the bytes can be a pickle of protocol 0 or 1. These have no magic number, but a snapshot is a dict or a list,
 * which begins with "(d", "}", "(l" or "]". */
static bool begins_old_pickle(const unsigned char *bytes, size_t size)
{
    if (size < 2) {
        return false;
    }
    return (bytes[0] == '(' && (bytes[1] == 'd' || bytes[1] == 'l')) ||
           ((bytes[0] == '}' || bytes[0] == ']') && (bytes[1] == 'q' || bytes[1] == '(' || bytes[1] == '.'));
}

static bool is_utf16(const unsigned char *bytes, size_t size)
{
    return begins(bytes, size, "\xff\xfe", 2) || begins(bytes, size, "\xfe\xff", 2);
}

enum trace_format trace_detect(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    if (size == 0) {
        return TRACE_FORMAT_UNKNOWN;
    }
    if (begins(bytes, size,
               "\xfd"
               "7zXZ\0",
               6)) {
        return TRACE_FORMAT_XZ;
    }
    if (begins(bytes, size, "\x1f\x8b", 2)) {
        return TRACE_FORMAT_GZIP;
    }
    if (begins(bytes, size, "\x28\xb5\x2f\xfd", 4)) {
        return TRACE_FORMAT_ZSTD;
    }
    if (begins(bytes, size, "PK\x03\x04", 4)) {
        return TRACE_FORMAT_ZIP;
    }
    if (begins(bytes, size, "SQLite format 3\0", 16)) {
        return TRACE_FORMAT_SQLITE;
    }
    const size_t mark = trace_mark_bytes(bytes, size);
    if (begins(bytes + mark, size - mark, "#wtr", 4)) {
        return TRACE_FORMAT_WTR;
    }
    if (bytes[0] == 0x80 || begins_old_pickle(bytes, size)) {
        return TRACE_FORMAT_PICKLE;
    }
    size_t blanks = mark;
    while (blanks < size && blanks < mark + 64 && strchr(" \t\r\n", bytes[blanks]) != NULL && bytes[blanks] != 0) {
        blanks++;
    }
    if (blanks < size && (bytes[blanks] == '{' || bytes[blanks] == '[')) {
        return TRACE_FORMAT_JSON;
    }
    if (!is_utf16(bytes, size) && csv_begins(bytes, size)) {
        return TRACE_FORMAT_CSV;
    }
    return TRACE_FORMAT_UNKNOWN;
}
