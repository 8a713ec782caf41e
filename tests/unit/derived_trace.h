/* derived_trace.h: for tests of traces that are made from a trace: one device, or a part. Include trace.h first. */
#ifndef WEIR_TEST_DERIVED_TRACE_H
#define WEIR_TEST_DERIVED_TRACE_H

#include "../rig/test.h"

/* Checks the text of the trace and the numbers of its events, and frees it. */
static inline void expect_derived(struct trace *one, const char *text, const uint64_t *numbers, size_t count)
{
    char *written = NULL;
    size_t size = 0;
    struct trace_error error = {0};
    assert_int_equal(trace_write_memory(one, &written, &size, &error), WEIR_OK);
    assert_string_equal(written, text);
    assert_int_equal(one->event_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(trace_event_number(one, i), numbers[i]);
    }
    free(written);
    trace_free(one);
}

#endif
