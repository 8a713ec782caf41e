/* foreign_text.h: for tests of readers of other programs' text: read it, and compare the trace with `.wtr` text. */
#ifndef WEIR_TESTS_UNIT_FOREIGN_TEXT_H
#define WEIR_TESTS_UNIT_FOREIGN_TEXT_H

#include "rig/wtr.h"

#include <stdio.h>

static inline struct trace *read_foreign(const char *bytes, size_t size)
{
    return trace_of_bytes("t.csv", bytes, size);
}

/* Checks that the text gives this trace behind the line "#wtr 1", and that the trace can be read again. */
static inline void becomes(const char *text, const char *expected)
{
    struct trace *trace = read_foreign(text, strlen(text));
    struct trace *again = NULL;
    struct trace_error error;
    char *written = NULL;
    size_t size = 0;
    assert_int_equal(trace_write_memory(trace, &written, &size, &error), WEIR_OK);
    assert_memory_equal(written, "#wtr 1\n", 7);
    assert_string_equal(written + 7, expected);
    assert_int_equal(trace_read_memory("again", written, size, NULL, &again, &error), WEIR_OK);
    assert_int_equal(again->event_count, trace->event_count);
    trace_free(again);
    trace_free(trace);
    free(written);
}

static inline void refused(const char *text, weir_status status, const char *message)
{
    is_refused("t.csv", text, strlen(text), status, message);
}

/* Checks that the file of a header and these lines is refused with the message. */
static inline void refused_lines(const char *header, const char *lines, const char *message)
{
    char text[2048];
    snprintf(text, sizeof(text), "%s\n%s\n", header, lines);
    refused(text, WEIR_ERR_INVALID, message);
}

static inline bool has_note(const struct trace *trace, const char *part)
{
    for (size_t i = 0; i < trace->note_count; i++) {
        if (strstr(trace->notes[i], part) != NULL) {
            return true;
        }
    }
    return false;
}

#endif
