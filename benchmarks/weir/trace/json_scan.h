/* json_scan.h: reads JSON from memory, value by value, without building a tree.
 *
 * Promise: memory does not grow with the input, no function recurses, and every error names its byte. A value that the
 * caller skips is checked like a value that it reads. Depth is limited to JSON_DEPTH.
 *
 * More than the standard is accepted: NaN, Infinity and -Infinity, which Python writes, are numbers without a value,
 * and strings may hold any byte (clean_text.h makes texts safe to print). Trailing commas and comments are errors.
 */
#ifndef WEIR_BENCHMARKS_JSON_SCAN_H
#define WEIR_BENCHMARKS_JSON_SCAN_H

#include "trace_internal.h"

#define JSON_DEPTH 512u

enum json_kind { JSON_NONE, JSON_STRING, JSON_NUMBER, JSON_TRUE, JSON_FALSE, JSON_NULL, JSON_OBJECT, JSON_ARRAY };

/* A JSON value of the input. `text`: a string without its quotes and with its escapes, or the characters of a number.
 * An object or an array is not read yet. */
struct json_value {
    enum json_kind kind;
    const char *text;
    size_t length;
};

struct json_scan {
    const struct trace_source *source;
    const unsigned char *at;
    const unsigned char *end;
    struct trace_error *error;
};

void json_scan_start(struct json_scan *scan, const struct trace_source *source, struct trace_error *error);

/* Fills in the error for the byte `at`. Returns false. */
bool json_scan_refuse(const struct json_scan *scan, weir_status status, const unsigned char *at, const char *format,
                      ...) TRACE_PRINTF(4, 5);

/* Reads a scalar, or stops in front of a '{' or '['. */
bool json_scan_read(struct json_scan *scan, struct json_value *value);

/* Skips a value of any kind. */
bool json_scan_skip(struct json_scan *scan);

/* Walks an object or an array, which the scan stands in front of. Begin with *step = 0 and call until *step is
 * JSON_STEP_END. Between two calls the caller reads or skips the member's value. */
enum json_step { JSON_STEP_BEGIN, JSON_STEP_ITEM, JSON_STEP_END };
bool json_scan_member(struct json_scan *scan, enum json_step *step, struct json_value *key);
bool json_scan_element(struct json_scan *scan, enum json_step *step);

/* Checks that only blanks follow in the input. */
bool json_scan_end(struct json_scan *scan);

/* Resolves the escapes of a string. Writes at most `size` bytes and returns their number; a longer text is cut. A
 * surrogate without its partner becomes three bytes that are not valid UTF-8. */
size_t json_scan_unescape(const struct json_value *value, char *out, size_t size);

/* True if the string is `text`. Compares the characters of the input: an escaped character does not match. */
bool json_scan_is(const struct json_value *value, const char *text);

/* Reads a number, which may stand in quotes, as an integer times `scale` (a power of ten up to 1000); digits below 1
 * are cut off. Returns false, without an error, if it has no value or the value does not fit. */
bool json_scan_integer(const struct json_value *value, int64_t scale, int64_t *out);
/* Like json_scan_integer with scale 1, for numbers from 0 to 2^64 - 1. */
bool json_scan_unsigned(const struct json_value *value, uint64_t *out);

#endif
