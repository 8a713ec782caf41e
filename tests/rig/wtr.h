/* tests/rig/wtr.h: traces of the command's reader, and their text in the format .wtr. */
#ifndef WEIR_RIG_WTR_H
#define WEIR_RIG_WTR_H

#include "test.h"

#include "trace/trace.h"

#include <string.h>

/* Reads memory of exactly this size, so that a sanitizer sees a read beyond it. */
static inline weir_status read_exactly(const char *name, const void *bytes, size_t size,
                                       const struct trace_limits *limits, struct trace **trace,
                                       struct trace_error *error)
{
    char *exact = malloc(size > 0 ? size : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    const weir_status status = trace_read_memory(name, exact, size, limits, trace, error);
    free(exact);
    return status;
}

/* Fails the test with the reader's message if there is no trace. */
static inline struct trace *trace_of_bytes(const char *name, const void *bytes, size_t size)
{
    struct trace *trace = NULL;
    struct trace_error error;
    if (read_exactly(name, bytes, size, NULL, &trace, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return trace;
}

static inline struct trace *trace_of_text(const char *text)
{
    return trace_of_bytes("t.wtr", text, strlen(text));
}

static inline void is_written_as(const struct trace *trace, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    struct trace_error error;
    assert_int_equal(trace_write_memory(trace, &text, &size, &error), WEIR_OK);
    assert_int_equal(size, strlen(text));
    assert_string_equal(text, expected);
    free(text);
}

/* Checks that the file is refused with this message. */
static inline void is_refused(const char *name, const void *bytes, size_t size, weir_status status, const char *message)
{
    struct trace *trace = NULL;
    struct trace_error error;
    assert_int_equal(read_exactly(name, bytes, size, NULL, &trace, &error), status);
    assert_null(trace);
    assert_string_equal(error.message, message);
}

#endif
