/* detect.c: tells the format of a file by its first bytes. */
#include "csv.h"
#include "trace.h"

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
    if (begins(bytes, size, "#wtr", 4)) {
        return TRACE_FORMAT_WTR;
    }
    if (bytes[0] == 0x80 || begins_old_pickle(bytes, size)) {
        return TRACE_FORMAT_PICKLE;
    }
    size_t blanks = 0;
    while (blanks < size && blanks < 64 && strchr(" \t\r\n", bytes[blanks]) != NULL && bytes[blanks] != 0) {
        blanks++;
    }
    if (blanks < size && (bytes[blanks] == '{' || bytes[blanks] == '[')) {
        return TRACE_FORMAT_JSON;
    }
    if (csv_begins(bytes, size)) {
        return TRACE_FORMAT_CSV;
    }
    return TRACE_FORMAT_UNKNOWN;
}
