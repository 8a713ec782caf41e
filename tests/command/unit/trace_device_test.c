/* trace_device_test.c: the trace of one device has the events of that device, with the numbers of the file. */
#include "rig/wtr.h"

#include <stdio.h>
#include <string.h>

#include "derived_trace.h"

static struct trace *device_of(const struct trace *trace, uint32_t device)
{
    struct trace *one = NULL;
    struct trace_error error = {0};
    if (trace_of_device(trace, device, &one, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(one->device, device);
    assert_int_equal(one->file_event_count, trace->event_count);
    return one;
}

/* Checks the text of the trace of one device and the numbers of its events. */
static void expect(const struct trace *trace, uint32_t device, const char *text, const uint64_t *numbers, size_t count)
{
    expect_derived(device_of(trace, device), text, numbers, count);
}

#define NUMBERS(...) (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)

TEST(test_each_device_gets_its_events)
{
    struct trace *trace =
        trace_of_text("#wtr 1\n#src s\n#clock order\n#dev 0 cap=1024\n#dev 2 cap=4096 name=\"two\"\n#note n\n"
                      "#note recorded: r\n"
                      "s 0 + 0x1000 8192 5 d=2\n" /* 0 */
                      "z 0 + 0x1000 8192 d=2\n"   /* 1 */
                      "p 70 512 5 0x1000 d=2\n"   /* 2 */
                      "p 71 512 0 0x1000\n"       /* 3 */
                      "@4 here\n"
                      "a 1 72 100 5 3 pool=9 d=2 @4\n" /* 4 */
                      "a 2 73 100 0 0\n"               /* 5 */
                      "r 3 72 74 200 0\n"              /* 6 */
                      "u 4 74 5 w\n"                   /* 7 */
                      "w 5 5 10\n"                     /* 8 */
                      "w 5 0 10\n"                     /* 9 */
                      "e 6 1 5\n"                      /* 10 */
                      "e 6 0 0\n"                      /* 11 */
                      "x 7 1 5\n"                      /* 12 */
                      "y 8 *\n"                        /* 13 */
                      "y 8 5\n"                        /* 14 */
                      "y 8 e1\n"                       /* 15 */
                      "c 9\n"                          /* 16 */
                      "c 9 5\n"                        /* 17 */
                      "l 10 99\n"                      /* 18 */
                      "m 11 I the middle\n"            /* 19 */
                      "o 12 7 8 d=2\n"                 /* 20 */
                      "f 13 74 5 0\n"                  /* 21 */
                      "f 14 73 - 0\n");                /* 22 */
    assert_int_equal(trace->device, TRACE_NO_INDEX);
    assert_true(trace->devices[0].used && !trace->devices[1].used && trace->devices[2].used);
    expect(trace, 0,
           "#wtr 1\n#src s\n#clock order\n#dev 0 cap=1024\n#note n\n#note recorded: r\n"
           "p 71 512 0 0x1000\n"
           "a 2 73 100 0 0\n"
           "w 5 0 10\n"
           "e 6 0 0\n"
           "y 8 *\n"
           "c 9\n"
           "l 10 99\n"
           "m 11 I the middle\n"
           "f 14 73 - 0\n",
           NUMBERS(3, 5, 9, 11, 13, 16, 18, 19, 22));
    expect(trace, 2,
           "#wtr 1\n#src s\n#clock order\n#dev 2 cap=4096 name=\"two\"\n#note n\n#note recorded: r\n"
           "s 0 + 0x1000 8192 0 d=2\n"
           "z 0 + 0x1000 8192 d=2\n"
           "p 70 512 0 0x1000 d=2\n"
           "@0 here\n"
           "a 1 72 100 0 3 pool=9 d=2 @0\n"
           "r 3 72 74 200 0\n"
           "u 4 74 0 w\n"
           "w 5 0 10\n"
           "e 6 1 0\n"
           "x 7 1 0\n"
           "y 8 *\n"
           "y 8 0\n"
           "y 8 e1\n"
           "c 9\n"
           "c 9 0\n"
           "l 10 99\n"
           "m 11 I the middle\n"
           "o 12 7 8 d=2\n"
           "f 13 74 0 0\n",
           NUMBERS(0, 1, 2, 4, 6, 7, 8, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21));
    trace_free(trace);
}

/* Uses, records and waits across devices stay out, because a replay does not model them. */
TEST(test_events_across_devices_are_left_out)
{
    struct trace *trace = trace_of_text("#wtr 1\n"
                                        "a 0 0 100 0 0\n"
                                        "a 0 1 100 1 0 d=1\n"
                                        "u 1 0 1\n"   /* a block of device 0 on a stream of device 1 */
                                        "e 2 7 1\n"   /* an object of device 1 */
                                        "x 3 7 0\n"   /* awaited on device 0 */
                                        "y 4 e7\n"    /* device 1 */
                                        "y 5 e8\n"    /* an object of no device */
                                        "f 6 0 1 0\n" /* freed in the order of a stream of device 1 */
                                        "f 7 1 - 0\n");
    expect(trace, 0, "#wtr 1\n#clock ns\na 0 0 100 0 0\nf 6 0 0 0\n", NUMBERS(0, 7));
    expect(trace, 1, "#wtr 1\n#clock ns\na 0 1 100 0 0 d=1\ne 2 7 0\ny 4 e7\nf 7 1 - 0\n", NUMBERS(1, 3, 5, 8));
    trace_free(trace);
}

/* A stream belongs to one device. A replay would take the blocks of two devices for blocks of one. */
TEST(test_streams_that_mix_devices)
{
    static const char *const texts[] = {
        "#wtr 1\na 0 0 100 0 0 d=1\na 1 1 100 0 0 d=2\na 2 2 100 1 0\n",
        "#wtr 1\np 0 100 0 d=1\ns 0 + 0x1000 8192 0 d=2\n",
        "#wtr 1\na 0 0 100 0 0 d=1\na 1 1 100 0 0\n", /* no d= is device 0 */
    };
    static const char *const names[] = {"device 2 in this line and of device 1",
                                        "device 2 in this line and of device 1",
                                        "device 0 in this line and of device 1"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct trace *trace = NULL;
        struct trace_error error;
        assert_int_equal(trace_read_memory("t.wtr", texts[i], strlen(texts[i]), NULL, &trace, &error),
                         WEIR_ERR_INVALID);
        assert_true(strstr(error.message, "t.wtr:3: stream 0 is of ") == error.message);
        assert_non_null(strstr(error.message, names[i]));
    }
}

/* A trace that uses one device needs no split. The device may have any number. */
TEST(test_a_single_device)
{
    struct trace *trace = trace_of_text("#wtr 1\n#dev 0 cap=1024\nw 0 4 10\na 1 0 100 1 0 d=3\nu 2 0 4\n");
    assert_int_equal(trace->device, 3);
    assert_int_equal(trace->stream_device[4], 3); /* no line names the device of stream 4 */
    expect(trace, 3, "#wtr 1\n#clock ns\nw 0 1 10\na 1 0 100 0 0 d=3\nu 2 0 1\n", NUMBERS(0, 1, 2));
    trace_free(trace);
    trace = trace_of_text("#wtr 1\n#dev 4\n");
    assert_int_equal(trace->device, 0);
    assert_true(trace->devices[0].used && !trace->devices[4].used);
    trace_free(trace);
}

TEST(test_refusals)
{
    struct trace_error error = {0};
    struct trace *one = NULL;
    struct trace *trace = trace_of_text("#wtr 1\n#dev 1\na 0 0 100 0 0\na 1 1 100 1 0 d=2\n");
    for (uint32_t device = 1; device < 4; device += 2) {
        char expected[120];
        assert_int_equal(trace_of_device(trace, device, &one, &error), WEIR_ERR_INVALID);
        assert_null(one);
        snprintf(expected, sizeof(expected), "t.wtr: no event is of device %u; the trace uses the devices 0, 2",
                 (unsigned)device);
        assert_string_equal(error.message, expected);
    }
    trace_free(trace);
}

/* A message that lists thousands of devices is cut. */
TEST(test_many_devices)
{
    struct trace_error error = {0};
    struct trace *one = NULL;
    char *text = malloc(400000);
    assert_non_null(text);
    char *at = text + sprintf(text, "#wtr 1\n");
    for (unsigned d = 0; d < TRACE_MAX_DEVICES - 1; d++) {
        at += sprintf(at, "a %u %u 1 %u 0 d=%u\n", d, d, d, d);
    }
    struct trace *trace = trace_of_text(text);
    assert_int_equal(trace_of_device(trace, TRACE_MAX_DEVICES - 1, &one, &error), WEIR_ERR_INVALID);
    assert_string_equal(error.message + strlen(error.message) - 5, ", ...");
    assert_int_equal(trace_of_device(trace, UINT32_MAX - 1, &one, &error), WEIR_ERR_INVALID);
    one = device_of(trace, 4000);
    assert_int_equal(one->event_count, 1);
    assert_int_equal(trace_event_number(one, 0), 4000);
    trace_free(one);
    trace_free(trace);
    free(text);
}
