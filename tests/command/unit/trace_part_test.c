/* trace_part_test.c: a trace of a window has the state at the start of the window first; a trace of a stream's blocks
 * has the events that concern these blocks. */
#include "rig/wtr.h"

#include <stdio.h>
#include <string.h>

#include "derived_trace.h"

static struct trace *part_of(const struct trace *trace, struct trace_filter filter)
{
    struct trace *part = NULL;
    struct trace_error error = {0};
    if (trace_filtered(trace, &filter, &part, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(part->file_event_count, trace->file_event_count);
    return part;
}

/* Checks the text of a part and the numbers of its events. */
static void expect(const struct trace *trace, struct trace_filter filter, const char *text, const uint64_t *numbers,
                   size_t count)
{
    expect_derived(part_of(trace, filter), text, numbers, count);
}

static void expect_refusal(const char *text, struct trace_filter filter, const char *message)
{
    struct trace *trace = trace_of_text(text);
    struct trace *part = NULL;
    struct trace_error error = {0};
    assert_int_equal(trace_filtered(trace, &filter, &part, &error), WEIR_ERR_INVALID);
    assert_null(part);
    assert_string_equal(error.message, message);
    trace_free(trace);
}

#define NUMBERS(...) (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)
#define EVENTS(a, b) .from = {TRACE_BOUND_EVENT, a}, .to = {TRACE_BOUND_EVENT, b}
#define TIMES(a, b) .from = {TRACE_BOUND_TIME, a}, .to = {TRACE_BOUND_TIME, b}
#define STREAMS(...) .streams = (const uint32_t[]){__VA_ARGS__}, .stream_count = sizeof((uint32_t[]){__VA_ARGS__}) / 4

static const char plain[] = "#wtr 1\n"
                            "p 9 512 0\n"       /* 0: live before the file begins */
                            "a 10 1 1000 0 0\n" /* 1: live at the start of the window */
                            "a 20 2 2000 0 0\n" /* 2 */
                            "l 25 8192\n"       /* 3 */
                            "f 30 2 0 0\n"      /* 4 */
                            "r 40 1 3 3000 0\n" /* 5: the block of the window's start */
                            "a 50 4 4000 1 0\n" /* 6 */
                            "u 60 3 1\n"        /* 7 */
                            "w 70 1 5\n"        /* 8 */
                            "f 80 3 0 0\n"      /* 9 */
                            "a 90 5 5000 0 0\n" /* 10 */
                            "f 95 4 1 0\n";     /* 11 */

TEST(test_a_window_begins_with_its_state)
{
    struct trace *trace = trace_of_text(plain);
    expect(trace, (struct trace_filter){EVENTS(6, 10)},
           "#wtr 1\n#clock ns\n#dev 0 cap=8192\n#note events 6 to 10 of 12\n"
           "p 9 512 0\np 3 3000 0\na 50 4 4000 1 0\nu 60 3 1\nw 70 1 5\nf 80 3 0 0\na 90 5 5000 0 0\n",
           NUMBERS(6, 6, 6, 7, 8, 9, 10));
    struct trace *part = part_of(trace, (struct trace_filter){EVENTS(7, 10)});
    assert_int_equal(part->part->first, 7);
    assert_int_equal(part->part->last, 10);
    assert_int_equal(part->part->stream_count, 0);
    assert_string_equal(part->part->text, "events 7 to 10 of 12");
    trace_free(part);
    trace_free(trace);
}

TEST(test_blocks_keep_their_tags)
{
    struct trace *trace = trace_of_text("#wtr 1\n@0 layer\na 0 1 1000 0 0\na 1 2 1000 0 0 @0\nw 2 0 5\n");
    struct trace *part = part_of(trace, (struct trace_filter){EVENTS(2, 2)});
    assert_int_equal(part->events[0].event.tag, WEIR_TRACE_NONE);
    assert_int_equal(part->events[1].event.tag, 0);
    trace_free(part);
    trace_free(trace);
}

TEST(test_ends_are_numbers_or_times)
{
    struct trace *trace = trace_of_text(plain);
    const char *text = "#wtr 1\n#clock ns\n#dev 0 cap=8192\n#note events 9 to 10 of 12\n"
                       "p 9 512 0\np 3 3000 0\np 4 4000 1\nf 80 3 0 0\na 90 5 5000 0 0\n";
    expect(trace, (struct trace_filter){EVENTS(9, 10)}, text, NUMBERS(9, 9, 9, 9, 10));
    expect(trace, (struct trace_filter){TIMES(71, 94)}, text, NUMBERS(9, 9, 9, 9, 10));
    expect(trace, (struct trace_filter){TIMES(80, 90)}, text, NUMBERS(9, 9, 9, 9, 10));
    expect(trace, (struct trace_filter){.from = {TRACE_BOUND_EVENT, 9}, .to = {TRACE_BOUND_TIME, 90}}, text,
           NUMBERS(9, 9, 9, 9, 10));
    expect(trace, (struct trace_filter){.to = {TRACE_BOUND_EVENT, 1}},
           "#wtr 1\n#clock ns\n#note events 0 to 1 of 12\np 9 512 0\na 10 1 1000 0 0\n", NUMBERS(0, 1));
    expect(
        trace, (struct trace_filter){.from = {TRACE_BOUND_EVENT, 11}, .to = {TRACE_BOUND_EVENT, 99999}},
        "#wtr 1\n#clock ns\n#dev 0 cap=8192\n#note events 11 to 11 of 12\np 9 512 0\np 4 4000 1\np 5 5000 0\nf 95 4 1 0\n",
        NUMBERS(11, 11, 11, 11));
    trace_free(trace);
}

/* The recorded allocator maps and unmaps memory in pieces. The window begins with the memory that is still mapped at
 * its start. */
TEST(test_recorded_memory_at_the_start)
{
    struct trace *trace = trace_of_text("#wtr 1\n"
                                        "s 0 + 0x1000 4096 0\n"   /* 0 */
                                        "z 1 + 0x10000 65536 0\n" /* 1: a hole follows in it */
                                        "z 2 - 0x14000 4096 0\n"  /* 2 */
                                        "s 3 - 0x1000 4096 0\n"   /* 3 */
                                        "z 4 - 0x1c000 65536 0\n" /* 4: reaches beyond the piece */
                                        "s 5 + 0x0 100 0\n"       /* 5: no address */
                                        "s 6 + 0x0 50 0\n"        /* 6 */
                                        "s 7 - 0x0 20 0\n"        /* 7 */
                                        "s 8 + 0x1000 8192 0\n"   /* 8 */
                                        "a 9 1 600 0 0 addr=0x1000\n"
                                        "s 10 + 0x90000 4096 0\n");
    expect(trace, (struct trace_filter){.from = {TRACE_BOUND_EVENT, 10}},
           "#wtr 1\n#clock ns\n#note events 10 to 10 of 11\n"
           "s 10 + 0x0 130 0\ns 10 + 0x1000 8192 0\nz 10 + 0x10000 16384 0\nz 10 + 0x15000 28672 0\n"
           "p 1 600 0 0x1000\ns 10 + 0x90000 4096 0\n",
           NUMBERS(10, 10, 10, 10, 10, 10));
    trace_free(trace);
}

/* The lines of the file's starting state describe one moment: a window that begins or ends among them has all of
 * them. */
TEST(test_a_window_does_not_cut_the_start_of_a_file)
{
    struct trace *trace = trace_of_text("#wtr 1\n"
                                        "s 0 + 0x1000 4096 0\n"
                                        "p 1 512 0 0x1000\n"
                                        "s 0 + 0x8000 4096 0\n"
                                        "p 2 512 0 0x8000\n"
                                        "a 1 3 512 0 0 addr=0x8200\n"
                                        "f 2 1 0 0\n");
    const char *start = "s 0 + 0x1000 4096 0\np 1 512 0 0x1000\ns 0 + 0x8000 4096 0\np 2 512 0 0x8000\n";
    char text[300];
    for (uint64_t first = 0; first < 4; first++) {
        (void)snprintf(text, sizeof(text), "#wtr 1\n#clock ns\n#note events 0 to 3 of 6\n%s", start);
        expect(trace, (struct trace_filter){EVENTS(first, first)}, text, NUMBERS(0, 1, 2, 3));
        (void)snprintf(text, sizeof(text), "#wtr 1\n#clock ns\n#note events 0 to 4 of 6\n%s%s", start,
                       "a 1 3 512 0 0 addr=0x8200\n");
        expect(trace, (struct trace_filter){EVENTS(first, 4)}, text, NUMBERS(0, 1, 2, 3, 4));
    }
    trace_free(trace);
}

/* The p line of a block of PyTorch's allocator has the size of the block. */
TEST(test_sizes_at_the_start)
{
    static const char text[] = "#wtr 1\n"
                               "s 0 + 0x7f0000000000 2097152 0\n"
                               "a 1 1 1000 0 0 addr=0x7f0000000000\n"
                               "a 2 2 1000 0 0 addr=0x7f0000000400\n"
                               "f 3 2 0 0\n";
    struct trace *trace = trace_of_text(text);
    assert_int_equal(trace->pad_bytes, 0);
    expect(trace, (struct trace_filter){.from = {TRACE_BOUND_EVENT, 3}},
           "#wtr 1\n#clock ns\n#note events 3 to 3 of 4\ns 3 + 0x7f0000000000 2097152 0\n"
           "p 1 1024 0 0x7f0000000000\np 2 1024 0 0x7f0000000400\nf 3 2 0 0\n",
           NUMBERS(3, 3, 3, 3));
    trace_free(trace);
}

TEST(test_the_blocks_of_a_stream)
{
    struct trace *trace = trace_of_text("#wtr 1\n"
                                        "s 0 + 0x1000 4096 2\n"     /* 0 */
                                        "s 0 + 0x2000 4096 1\n"     /* 1 */
                                        "a 1 10 512 0 0 addr=0x1\n" /* 2 */
                                        "a 2 11 512 1 0 addr=0x2\n" /* 3 */
                                        "a 3 12 512 2 0 addr=0x3\n" /* 4 */
                                        "u 4 11 3\n"                /* 5: a block of stream 1 on stream 3 */
                                        "u 5 12 1\n"                /* 6: a block of stream 2 on stream 1 */
                                        "w 6 3 7\n"                 /* 7 */
                                        "w 7 2 7\n"                 /* 8 */
                                        "e 8 5 3\n"                 /* 9 */
                                        "x 9 5 0\n"                 /* 10 */
                                        "x 10 5 1\n"                /* 11 */
                                        "y 11 *\n"                  /* 12 */
                                        "y 12 2\n"                  /* 13 */
                                        "v 13 9 9\n"                /* 14 */
                                        "f 14 11 3 0\n"             /* 15 */
                                        "f 15 12 2 0\n"             /* 16 */
                                        "m 16 I half\n"             /* 17 */
                                        "o 17 100 5\n");            /* 18 */
    expect(trace, (struct trace_filter){STREAMS(1)},
           "#wtr 1\n#clock ns\n#note events 0 to 18 of 19, blocks of stream 1\n"
           "s 0 + 0x2000 4096 0\na 2 11 512 0 0 addr=0x2\nu 4 11 1\nw 6 1 7\ne 8 5 1\nx 10 5 0\ny 11 *\nf 14 11 1 0\n"
           "m 16 I half\n",
           NUMBERS(1, 3, 5, 7, 9, 11, 12, 15, 17));
    struct trace *part = part_of(trace, (struct trace_filter){STREAMS(2, 0), EVENTS(9, 16)});
    assert_string_equal(part->part->text, "events 9 to 16 of 19, blocks of streams 2, 0");
    assert_int_equal(part->part->stream_count, 2);
    assert_int_equal(part->part->streams[0], 2);
    trace_free(part);
    trace_free(trace);
}

/* A window of a trace with several devices has all these devices. A trace of one of them, made from the window,
 * describes itself by the window. */
/* A window begins with the captures that are under way, and has the releases of captures that it shows. */
TEST(test_captures)
{
    struct trace *trace = trace_of_text("#wtr 1\n"
                                        "a 0 1 512 0 0\n" /* 0 */
                                        "a 0 2 512 1 0\n" /* 1 */
                                        "g 1 B 0 0\n"     /* 2 */
                                        "a 2 3 512 0 0\n" /* 3 */
                                        "g 3 B 1 1\n"     /* 4 */
                                        "a 4 4 512 1 0\n" /* 5 */
                                        "g 5 E 0 0\n"     /* 6 */
                                        "a 6 5 512 0 0\n" /* 7 */
                                        "g 7 E 1 1\n"     /* 8 */
                                        "g 8 R 0\n"       /* 9 */
                                        "g 9 R 1\n");     /* 10 */
    expect(trace, (struct trace_filter){.from = {TRACE_BOUND_EVENT, 5}},
           "#wtr 1\n#clock ns\n#note events 5 to 10 of 11\n"
           "p 1 512 0\np 2 512 1\np 3 512 0\ng 4 B 0 0\ng 4 B 1 1\n"
           "a 4 4 512 1 0\ng 5 E 0 0\na 6 5 512 0 0\ng 7 E 1 1\ng 8 R 0\ng 9 R 1\n",
           NUMBERS(5, 5, 5, 5, 5, 5, 6, 7, 8, 9, 10));
    expect(trace, (struct trace_filter){.from = {TRACE_BOUND_EVENT, 7}},
           "#wtr 1\n#clock ns\n#note events 7 to 10 of 11\n"
           "p 1 512 0\np 2 512 1\np 3 512 0\np 4 512 1\ng 6 B 1 1\na 6 5 512 0 0\ng 7 E 1 1\ng 9 R 1\n",
           NUMBERS(7, 7, 7, 7, 7, 7, 8, 10));
    expect(trace, (struct trace_filter){STREAMS(1)},
           "#wtr 1\n#clock ns\n#note events 0 to 10 of 11, blocks of stream 1\n"
           "a 0 2 512 0 0\ng 3 B 1 0\na 4 4 512 0 0\ng 7 E 1 0\ng 9 R 1\n",
           NUMBERS(1, 4, 5, 8, 10));
    trace_free(trace);
}

TEST(test_devices)
{
    struct trace *trace = trace_of_text("#wtr 1\n#dev 0 cap=1024\n#dev 1 cap=2048\n"
                                        "s 0 + 0x1000 4096 0\ns 0 + 0x1000 8192 1 d=1\n"
                                        "a 1 1 512 0 0\na 2 2 512 1 0 d=1\nf 3 1 0 0\nu 4 2 2\nf 5 2 1 0\n");
    struct trace *part = part_of(trace, (struct trace_filter){EVENTS(4, 6)});
    struct trace *one = NULL;
    struct trace_error error = {0};
    assert_int_equal(part->device, TRACE_NO_INDEX);
    assert_int_equal(trace_of_device(part, 1, &one, &error), WEIR_OK);
    assert_true(one->one_of_several);
    assert_false(part->one_of_several);
    assert_string_equal(one->part->text, "events 4 to 6 of 7");
    assert_int_equal(one->event_count, 3); /* stream 2 is of device 0 */
    assert_int_equal(one->events[0].event.size, 8192);
    assert_int_equal(one->events[1].event.kind, WEIR_TRACE_PRIOR);
    assert_int_equal(trace_event_number(one, 1), 4);
    assert_int_equal(one->devices[1].capacity, 2048);
    trace_free(one);
    trace_free(part);
    trace_free(trace);
}

TEST(test_refusals)
{
    expect_refusal(plain, (struct trace_filter){EVENTS(12, 20)},
                   "t.wtr: no event is at or after event 12; the last is at event 11");
    expect_refusal(plain, (struct trace_filter){TIMES(96, 200)},
                   "t.wtr: no event is at or after 96 ns; the last is at 95 ns");
    expect_refusal(plain, (struct trace_filter){TIMES(81, 89)}, "t.wtr: no event is between 81 ns and 89 ns");
    expect_refusal(plain, (struct trace_filter){STREAMS(0, 2)},
                   "t.wtr: there is no stream 2; the trace has the streams 0 to 1");
    expect_refusal(plain, (struct trace_filter){STREAMS(1), EVENTS(0, 5)},
                   "t.wtr: no block of the streams is live in the window");
    expect_refusal("#wtr 1\n#clock order\na 0 0 8 0 0\n", (struct trace_filter){TIMES(0, 1)},
                   "t.wtr: its clock has no nanoseconds, so the window needs event numbers");
    expect_refusal("#wtr 1\n", (struct trace_filter){EVENTS(0, 1)}, "t.wtr: has no events, so no window");
}

/* In every window of random traces each block is live at the same moments as in the whole trace. */
static uint64_t roll(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

enum { events = 60 };

static uint64_t live_bytes(const struct trace *trace, size_t count)
{
    uint64_t sizes[events + 1] = {0};
    uint64_t live = 0;
    for (size_t i = 0; i < count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->event.kind == WEIR_TRACE_FREE) {
            live -= sizes[event->index];
            continue;
        }
        if (event->event.kind == WEIR_TRACE_REALLOC) {
            live -= sizes[event->old_index];
        }
        sizes[event->index] = event->event.size;
        live += event->event.size;
    }
    return live;
}

static struct trace *random_trace(uint64_t *state)
{
    char text[events * 40];
    unsigned open[events];
    unsigned open_count = 0;
    size_t used = (size_t)snprintf(text, sizeof(text), "#wtr 1\n");
    for (unsigned i = 0; i < events; i++) {
        const unsigned size = 1 + (unsigned)(roll(state) % 5000);
        const unsigned chosen = open_count > 0 ? (unsigned)(roll(state) % open_count) : 0;
        const uint64_t kind = open_count == 0 ? 0 : roll(state) % 5;
        if (kind < 2) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "a %u %u %u 0 0\n", i, i, size);
            open[open_count++] = i;
        } else if (kind < 4) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "f %u %u 0 0\n", i, open[chosen]);
            open[chosen] = open[--open_count];
        } else {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "r %u %u %u %u 0\n", i, open[chosen], i, size);
            open[chosen] = i;
        }
    }
    return trace_of_text(text);
}

TEST(test_random_windows)
{
    uint64_t state = 20261123;
    for (int i = 0; i < 300; i++) {
        struct trace *trace = random_trace(&state);
        const size_t first = roll(&state) % events;
        const size_t last = first + roll(&state) % (events - first);
        struct trace *part = part_of(trace, (struct trace_filter){EVENTS(first, last)});
        const size_t start = part->event_count - (last - first + 1);
        for (size_t k = first; k <= last; k++) {
            assert_int_equal(live_bytes(part, start + k - first), live_bytes(trace, k));
            assert_int_equal(trace_event_number(part, start + k - first), k);
        }
        assert_int_equal(live_bytes(part, part->event_count), live_bytes(trace, last + 1));
        trace_free(part);
        trace_free(trace);
    }
}
