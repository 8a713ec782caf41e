/* derived_trace.h: for tests of traces that are made from a trace: one device, or a part. */
#ifndef WEIR_TEST_DERIVED_TRACE_H
#define WEIR_TEST_DERIVED_TRACE_H

#include "rig/wtr.h"

/* Checks the text of the trace and the numbers of its events, and frees it. */
static inline void expect_derived(struct trace *one, const char *text, const uint64_t *numbers, size_t count)
{
    is_written_as(one, text);
    assert_int_equal(one->event_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(trace_event_number(one, i), numbers[i]);
    }
    trace_free(one);
}

#endif
