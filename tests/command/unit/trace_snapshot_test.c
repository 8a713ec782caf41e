/* trace_snapshot_test.c: the import of PyTorch and torch_npu snapshots, on pickles that the test makes itself. Each
 * test has its expected trace as text. */
#include "rig/wtr.h"

#include <stdio.h>

#include "pickle_writer.h"
#define ALLOC "alloc"
#define REQUESTED "free_requested"
#define COMPLETED "free_completed"
#define BASE 0x700000000000u

/* Imports the pickle and frees the writer. Writes the trace as text, checks that the text can be read again, and
 * returns the trace. */
static struct trace *import(struct pickle_writer *writer)
{
    struct trace *trace = trace_of_bytes("dir/s.pickle", writer->bytes, writer->size);
    struct trace_error error;
    char *text = NULL;
    size_t size = 0;
    assert_int_equal(trace_write_memory(trace, &text, &size, &error), WEIR_OK);
    struct trace *again = trace_of_bytes("again", text, size);
    assert_int_equal(again->event_count, trace->event_count);
    for (size_t i = 0; i < trace->event_count; i++) { /* tags keep their stacks; unused tags are not written */
        const uint32_t tag = trace->events[i].event.tag;
        const uint32_t tag_again = again->events[i].event.tag;
        assert_int_equal(tag == WEIR_TRACE_NONE, tag_again == WEIR_TRACE_NONE);
        if (tag != WEIR_TRACE_NONE) {
            assert_string_equal(again->tags[tag_again], trace->tags[tag]);
            const char *const stack = trace->stacks != NULL ? trace->stacks[tag] : NULL;
            const char *const stack_again = again->stacks != NULL ? again->stacks[tag_again] : NULL;
            assert_string_equal(stack_again != NULL ? stack_again : "", stack != NULL ? stack : "");
        }
    }
    trace_free(again);
    free(text);
    pw_free(writer);
    return trace;
}

/* Compares the lines of a trace of one device behind its head. */
static void expect_text(struct trace *trace, const char *clock, const char *expected)
{
    char head[100];
    char *text = NULL;
    size_t size = 0;
    struct trace_error error;
    const int length = snprintf(head, sizeof(head), "#wtr 1\n#src torch-snapshot s.pickle dev0%s\n#clock %s\n#dev 0\n",
                                trace->device_count > 1 ? " dev1" : "", clock);
    assert_int_equal(trace_write_memory(trace, &text, &size, &error), WEIR_OK);
    assert_int_equal(strncmp(text, head, (size_t)length), 0);
    assert_string_equal(text + length, expected);
    free(text);
    trace_free(trace);
}

static void bad(struct pickle_writer *writer, weir_status status, const char *message)
{
    is_refused("s.pickle", writer->bytes, writer->size, status, message);
    pw_free(writer);
}

static void put_free(struct pickle_writer *w, uint64_t address, uint64_t size, uint64_t stream, uint64_t time_us)
{
    pw_entry(w, REQUESTED, address, size, stream, time_us);
    pw_entry(w, COMPLETED, address, size, stream, time_us);
}

/* --- the ordinary case --- */

/* Makes a history that begins with one live block and ends with another, with an alloc and a free of a segment, frames,
 * an OOM and a snapshot entry. */
static void make_ordinary(struct pickle_writer *w)
{
    pw_snapshot(w);
    pw_segment(w, 0, BASE, 2 * MIB, 0, 0);
    pw_block(w, BASE, 512, 100, "active_allocated");
    pw_block(w, BASE + 512, 2 * MIB - 512, 0, "inactive");
    pw_segment_end(w);
    pw_segment(w, 0, BASE + 64 * MIB, 20 * MIB, 0, 0);
    pw_block(w, BASE + 64 * MIB, 3 * MIB, 3 * MIB, "active_allocated");
    pw_block(w, BASE + 67 * MIB, 17 * MIB, 0, "inactive");
    pw_segment_end(w);
    pw_history(w);
    put_free(w, BASE + 512, 700, 0, 1000);
    pw_entry(w, "segment_alloc", BASE + 64 * MIB, 20 * MIB, 0, 1001);
    pw_entry_open(w, ALLOC, BASE + 64 * MIB, 3 * MIB, 0, 1002);
    pw_str(w, "frames");
    pw_list(w);
    pw_frame(w, "??", "native()");
    pw_frame(w, "/usr/lib/python3/site-packages/torch/nn/modules/linear.py", "forward");
    pw_frame(w, "C:\\code\\model.py", "step");
    pw_list_end(w);
    pw_dict_end(w);
    pw_dict(w);
    pw_key_str(w, "action", "oom");
    pw_key_int(w, "size", 99 * MIB);
    pw_key_int(w, "device_free", 5 * MIB);
    pw_key_int(w, "stream", 0);
    pw_key_int(w, "time_us", 1003);
    pw_dict_end(w);
    pw_entry(w, "snapshot", 0, 0, 0, 1004);
    pw_history_end(w);
}

TEST(test_ordinary)
{
    struct pickle_writer w;
    make_ordinary(&w);
    struct trace *trace = import(&w);
    assert_int_equal(trace->pad_bytes, 0);
    assert_true(trace->has_addresses);
    assert_true(trace->has_segments);
    assert_false(trace->expandable);
    assert_null(trace->recorded_note);
    assert_string_equal(trace->path, "dir/s.pickle");
    expect_text(trace, "ns",
                "s 0 + 0x700000000000 2097152 0\n"
                "p 0 512 0 0x700000000000\n"
                "p 1 1024 0 0x700000000200\n"
                "f 0 1 0 0\n"
                "s 1000 + 0x700004000000 20971520 0\n"
                "@0 model.py:step:1\n"
                "#stack 0 native()\n"
                "#stack 0 /usr/lib/python3/site-packages/torch/nn/modules/linear.py:1:forward\n"
                "#stack 0 C:\\code\\model.py:1:step\n"
                "a 2000 2 3145728 0 0 addr=0x700004000000 @0\n"
                "o 3000 103809024 5242880\n"
                "m 4000 I snapshot\n");
}

/* The text of the allocator's settings, under each of its names; it survives weir's own format. An empty text and a
 * value that is no text are not kept. */
TEST(test_allocator_settings)
{
    static const struct {
        const char *key;
        const char *text; /* NULL: a number */
        const char *kept;
    } cases[] = {
        {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "expandable_segments:True"},
        {"PYTORCH_ALLOC_CONF", "max_split_size_mb: 64", "max_split_size_mb: 64"},
        {"PYTORCH_NPU_ALLOC_CONF", "page_size:1g ", "page_size:1g"},
        {"PYTORCH_CUDA_ALLOC_CONF", "", NULL},
        {"PYTORCH_CUDA_ALLOC_CONF", NULL, NULL},
        {"max_split_size", "64", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pickle_writer w;
        struct trace_error error;
        char *text = NULL;
        size_t size = 0;
        pw_snapshot(&w);
        pw_segment(&w, 0, BASE, 2 * MIB, 0, 0);
        pw_block(&w, BASE, 2 * MIB, 2 * MIB, "active_allocated");
        pw_segment_end(&w);
        pw_list_end(&w);
        pw_str(&w, "allocator_settings");
        pw_dict(&w);
        if (cases[i].text != NULL) {
            pw_key_str(&w, cases[i].key, cases[i].text);
        } else {
            pw_key_int(&w, cases[i].key, 1);
        }
        pw_dict_end(&w);
        pw_dict_end(&w);
        pw_end(&w);
        struct trace *trace = import(&w);
        assert_int_equal(trace_write_memory(trace, &text, &size, &error), WEIR_OK);
        struct trace *again = trace_of_bytes("again", text, size);
        if (cases[i].kept == NULL) {
            assert_null(trace->allocator_settings);
            assert_null(again->allocator_settings);
        } else {
            assert_string_equal(trace->allocator_settings, cases[i].kept);
            assert_string_equal(again->allocator_settings, cases[i].kept);
            assert_int_equal(again->note_count, 0);
        }
        trace_free(again);
        trace_free(trace);
        free(text);
    }
}

/* A pickle that is cut at any point is an error with an offset, never a crash and never a trace. */
TEST(test_truncated)
{
    struct pickle_writer w;
    make_ordinary(&w);
    for (size_t size = 0; size < w.size; size++) {
        struct trace *trace = NULL;
        struct trace_error error;
        unsigned char *cut = malloc(size + 1); /* a buffer of its own, so that a sanitizer finds a read beyond it */
        assert_non_null(cut);
        cut = realloc(cut, size > 0 ? size : 1);
        memcpy(cut, w.bytes, size);
        assert_int_equal(trace_read_memory("s.pickle", cut, size, NULL, &trace, &error), WEIR_ERR_INVALID);
        assert_null(trace);
        if (size > 0) {
            char expected[80];
            snprintf(expected, sizeof(expected), "s.pickle: byte %zu: the pickle ends in the middle", size);
            assert_memory_equal(error.message, expected, strlen(expected));
        }
        free(cut);
    }
    pw_free(&w);
}

/* --- variations --- */

TEST(test_two_devices)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    pw_segment(&w, 0, BASE, 2 * MIB, 0, 0);
    pw_block(&w, BASE, 512, 512, "active_allocated");
    pw_segment_end(&w);
    pw_segment(&w, 1, BASE, 2 * MIB, 0, 0);
    pw_block(&w, BASE, 1024, 1024, "active_allocated");
    pw_segment_end(&w);
    pw_history(&w);
    pw_entry(&w, ALLOC, BASE + 4096, 5, 0x5000, 2000);
    pw_entry(&w, REQUESTED, BASE + 4096, 5, 0x5000, 2004);
    pw_entry(&w, COMPLETED, BASE + 4096, 5, 0x5000, 2004);
    pw_list_end(&w);
    pw_list(&w);
    pw_entry(&w, ALLOC, BASE + 4096, 6, 0x5000, 2001);
    pw_entry(&w, ALLOC, BASE + 8192, 7, 0, 2002);
    put_free(&w, BASE + 4096, 6, 0x5000, 2003);
    put_free(&w, BASE + 8192, 7, 0, 2005);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_int_equal(trace->device_count, 2);
    assert_int_equal(trace->stream_count, 4);
    assert_int_equal(trace->stream_device[0], 0);
    assert_int_equal(trace->stream_device[1], 1);
    assert_int_equal(trace->stream_device[2], 0);
    assert_int_equal(trace->stream_device[3], 1);
    expect_text(trace, "ns",
                "#dev 1\n"
                "s 0 + 0x700000000000 2097152 0\n"
                "s 0 + 0x700000000000 2097152 1 d=1\n"
                "p 0 512 0 0x700000000000\n"
                "p 1 1024 1 0x700000000000 d=1\n"
                "a 0 2 5 2 0 addr=0x700000001000\n"
                "a 1000 3 6 3 0 d=1 addr=0x700000001000\n"
                "a 2000 4 7 1 0 d=1 addr=0x700000002000\n"
                "f 3000 3 3 0\n"
                "f 4000 2 2 0\n"
                "f 5000 4 1 0\n");
}

/* The ring lost its beginning and there is no map: a block freed without an alloc existed before the first event. */
TEST(test_lost_start)
{
    struct pickle_writer w;
    pw_history_alone(&w);
    pw_entry(&w, COMPLETED, BASE + 4096, 513, 0, 10); /* the record has lost the request of this free too */
    pw_entry(&w, ALLOC, BASE, 600, 0, 11);
    put_free(&w, BASE, 600, 0, 12);
    put_free(&w, BASE + 512, 5, 0, 13);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_string_equal(trace->recorded_note,
                        "there is no final map: what was reserved or live during the whole window is unknown");
    expect_text(trace, "ns",
                "#note recorded: there is no final map: what was reserved or live during "
                "the whole window is "
                "unknown\n"
                "p 0 512 0 0x700000000200\n"
                "p 1 1024 0 0x700000001000\n"
                "f 0 1 0 0\n"
                "a 1000 2 600 0 0 addr=0x700000000000\n"
                "f 2000 2 0 0\n"
                "f 3000 0 0 0\n");
}

/* A block is live until free_completed; without free_completed it stays live. */
TEST(test_late_completion)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    pw_segment(&w, 0, BASE, 2 * MIB, 0, 0);
    pw_block(&w, BASE + 512, 512, 10, "active_pending_free");
    pw_segment_end(&w);
    pw_history(&w);
    pw_entry(&w, ALLOC, BASE, 5, 0, 10);
    pw_entry(&w, REQUESTED, BASE, 5, 0, 11);
    pw_entry(&w, ALLOC, BASE + 512, 10, 0, 12);
    pw_entry(&w, COMPLETED, BASE, 5, 0, 13);
    pw_entry(&w, REQUESTED, BASE + 512, 10, 0, 14);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_null(trace->recorded_note);
    expect_text(trace, "ns",
                "s 0 + 0x700000000000 2097152 0\n"
                "a 0 0 5 0 0 addr=0x700000000000\n"
                "a 2000 1 10 0 0 addr=0x700000000200\n"
                "f 3000 0 0 0\n");
}

/* torch_npu: no clock, 32 bytes added before rounding, expandable segments, a workspace entry of its own. */
TEST(test_npu)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    pw_segment(&w, 0, BASE, 2 * MIB, 77, 1);
    pw_block(&w, BASE, 1024, 512, "active_allocated");
    pw_segment_end(&w);
    pw_segment(&w, 0, BASE + 8 * MIB, 2 * MIB, 77, 1);
    pw_segment_end(&w);
    pw_history(&w);
    pw_entry(&w, "workspace_snapshot", 0, 0, 77, PW_NO_TIME);
    put_free(&w, BASE + 4 * MIB, 512, 77, PW_NO_TIME);
    pw_entry(&w, "segment_unmap", BASE + 2 * MIB, 6 * MIB, 77, PW_NO_TIME);
    pw_entry(&w, "segment_map", BASE + 8 * MIB, 2 * MIB, 77, PW_NO_TIME);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_int_equal(trace->pad_bytes, 32);
    assert_true(trace->expandable);
    assert_null(trace->recorded_note);
    expect_text(trace, "order",
                "z 0 + 0x700000000000 8388608 0\n"
                "p 0 1024 0 0x700000000000\n"
                "p 1 1024 0 0x700000400000\n"
                "m 0 I workspace_snapshot\n"
                "f 2 1 0 0\n"
                "z 3 - 0x700000200000 6291456 0\n"
                "z 4 + 0x700000800000 2097152 0\n");
}

/* The import goes backwards over two unmaps: one in the middle of a range, and one that overlaps the end of a range. */
TEST(test_mapped_pieces)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    pw_segment(&w, 0, BASE, 6 * MIB, 0, 1);
    pw_segment_end(&w);
    pw_history(&w);
    pw_entry(&w, "segment_map", BASE + 2 * MIB, 2 * MIB, 0, PW_NO_TIME); /* leaves a hole at the start */
    pw_history_end(&w);
    expect_text(import(&w), "order",
                "z 0 + 0x700000000000 2097152 0\n"
                "z 0 + 0x700000400000 2097152 0\n"
                "z 0 + 0x700000200000 2097152 0\n");
    pw_snapshot(&w);
    pw_segment(&w, 0, BASE, 2 * MIB, 0, 1);
    pw_segment_end(&w);
    pw_history(&w);
    pw_entry(&w, "segment_map", BASE + MIB, 2 * MIB, 0, PW_NO_TIME);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_non_null(trace->recorded_note);
    trace_free(trace);
}

/* Adjacent mapped ranges of two streams stay two segments. */
TEST(test_mapped_neighbours_of_two_streams)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    pw_segment(&w, 0, BASE, 2 * MIB, 7, 1);
    pw_segment_end(&w);
    pw_segment(&w, 0, BASE + 2 * MIB, 2 * MIB, 8, 1);
    pw_segment_end(&w);
    pw_history(&w);
    put_free(&w, BASE, 512, 7, PW_NO_TIME);
    pw_history_end(&w);
    expect_text(import(&w), "order",
                "z 0 + 0x700000000000 2097152 0\n"
                "z 0 + 0x700000200000 2097152 1\n"
                "p 0 512 0 0x700000000000\n"
                "f 1 0 0 0\n");
}

/* The events of two devices are merged by time; within a device the order of the list decides, even if
 * its times fall. */
TEST(test_falling_times_of_two_devices)
{
    struct pickle_writer w;
    pw_history_alone(&w);
    pw_entry(&w, ALLOC, BASE, 5, 0, 10);
    pw_entry(&w, COMPLETED, BASE, 5, 0, 5);
    pw_list_end(&w);
    pw_list(&w);
    pw_entry(&w, ALLOC, BASE, 6, 0, 7);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_int_equal(trace->event_count, 3);
    assert_int_equal(trace->events[0].event.device, 1);
    assert_int_equal(trace->events[1].event.size, 5);
    assert_int_equal(trace->events[2].event.kind, WEIR_TRACE_FREE);
    trace_free(trace);
}

TEST(test_unknown_actions)
{
    struct pickle_writer w;
    pw_history_alone(&w);
    pw_entry(&w, "defragment", BASE, 1, 0, 5);
    pw_entry(&w, ALLOC, BASE, 1, 0, 6);
    pw_entry(&w, "defragment", BASE, 1, 0, 7);
    pw_entry(&w, "pool\nswitch", BASE, 1, 0, 8);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_int_equal(trace->note_count, 1);
    assert_string_equal(trace->notes[0], "3 entries with unknown actions left out: defragment, pool\\x0aswitch");
    assert_int_equal(trace->event_count, 1);
    trace_free(trace);
}

/* Entries without their fields, with fields of other types, and with impossible sizes. */
TEST(test_malformed_entries)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    pw_op(&w, 'N');
    pw_segment(&w, 0, UINT64_MAX - 5, 100, 0, 0);
    pw_segment_end(&w);
    pw_segment(&w, 5000, BASE, 100, 0, 0);
    pw_segment_end(&w);
    pw_histories(&w);
    pw_op(&w, 'N');
    pw_list(&w);
    pw_int(&w, 1);
    pw_dict(&w);
    pw_key_str(&w, "action", ALLOC);
    pw_key_int(&w, "size", 1);
    pw_dict_end(&w);
    pw_entry(&w, ALLOC, BASE, UINT64_MAX, 0, 6);
    pw_entry(&w, "segment_alloc", BASE, 0, 0, 6);
    pw_entry(&w, ALLOC, BASE, 0, 0, 6);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_int_equal(trace->event_count, 1);
    assert_int_equal(trace->events[0].event.size, 1);
    assert_int_equal(trace->events[0].event.device, 1);
    assert_string_equal(trace->notes[0], "8 entries left out that lack an address or a size");
    assert_non_null(trace->recorded_note);
    trace_free(trace);
}

/* Frees and allocs that contradict each other still give a trace that obeys the rules. */
TEST(test_contradictions)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    pw_segment(&w, 0, BASE, 2 * MIB, 0, 0);
    pw_segment_end(&w);
    pw_history(&w);
    pw_entry(&w, ALLOC, BASE, 5, 0, 10);
    /* this entry has an earlier time than the one before; the order of the list decides */
    pw_entry(&w, ALLOC, BASE, 6, 0, 9);
    put_free(&w, BASE, 6, 0, 12);
    put_free(&w, BASE, 6, 0, 13);
    pw_entry(&w, "segment_free", BASE, 2 * MIB, 0, 14);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_string_equal(trace->notes[0], "1 frees added where an address was handed out while its block was live");
    assert_string_equal(trace->notes[1], "1 frees of blocks that were not live left out");
    assert_string_equal(trace->recorded_note, "the events do not lead back from the final map: 1 "
                                              "allocations and 0 segments or mappings are "
                                              "missing there, 2 are there twice, 0 blocks at the "
                                              "start overlap or lie outside the segments, "
                                              "0 entries are incomplete");
    expect_text(trace, "ns",
                "#note 1 frees added where an address was handed out while its block was live\n"
                "#note 1 frees of blocks that were not live left out\n"
                "#note recorded: the events do not lead back from the final map: 1 allocations and 0 "
                "segments "
                "or mappings are missing there, 2 are there twice, 0 blocks at the start overlap or lie "
                "outside the segments, 0 entries are incomplete\n"
                "s 0 + 0x700000000000 2097152 0\n"
                "a 0 0 5 0 0 addr=0x700000000000\n"
                "f 0 0 0 0\n"
                "a 0 1 6 0 0 addr=0x700000000000\n"
                "f 2000 1 0 0\n"
                "s 4000 - 0x700000000000 2097152 0\n");
}

/* A block that is live before the first event and lies outside of every segment. */
TEST(test_misplaced)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    pw_segment(&w, 0, BASE, 2 * MIB, 0, 0);
    pw_block(&w, BASE, 1024, 1024, "active_allocated");
    pw_block(&w, BASE + 512, 512, 512, "active_allocated");
    pw_segment_end(&w);
    pw_history(&w);
    put_free(&w, BASE + 3 * MIB, 6, 0, 13);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_int_equal(trace->event_count, 5);
    assert_non_null(strstr(trace->recorded_note, "2 blocks at the start overlap or lie outside"));
    trace_free(trace);
}

/* Maps of old versions of PyTorch have no block addresses, no flags and no pools; the snapshot may be the list of
 * segments alone. */
TEST(test_old_map)
{
    struct pickle_writer w;
    pw_begin(&w);
    pw_list(&w);
    pw_segment(&w, 0, BASE, 2 * MIB, 0, 0);
    pw_block(&w, 0, 512, 1, "inactive");
    pw_block(&w, 0, 1024, 1000, "active_allocated");
    pw_block(&w, 0, 2048, 2000, "active_pending_free");
    pw_segment_end(&w);
    pw_list_end(&w);
    pw_end(&w);
    expect_text(import(&w), "ns",
                "s 0 + 0x700000000000 2097152 0\n"
                "p 0 1024 0 0x700000000200\n"
                "p 1 2048 0 0x700000000600\n");
}

/* The pool of a block is named by its entry, otherwise by the segment around its address. */
TEST(test_pools)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    pw_dict(&w);
    pw_key_int(&w, "address", BASE);
    pw_key_int(&w, "total_size", 2 * MIB);
    pw_str(&w, "segment_pool_id");
    pw_pair(&w, 0, 4);
    pw_dict_end(&w);
    pw_history(&w);
    pw_entry(&w, ALLOC, BASE + 512, 1, 0, 1);
    pw_entry(&w, ALLOC, BASE + 64 * MIB, 1, 0, 2);
    pw_entry_open(&w, ALLOC, BASE + 1024, 1, 0, 3);
    pw_str(&w, "pool_id");
    pw_pair(&w, 3, 0);
    pw_dict_end(&w);
    pw_entry_open(&w, ALLOC, BASE + 2048, 1, 0, 3);
    pw_str(&w, "pool_id");
    pw_pair(&w, 0, 0);
    pw_dict_end(&w);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_int_equal(trace->pool_count, 2);
    assert_int_equal(trace->events[1].event.pool, 0);
    assert_int_equal(trace->events[2].event.pool, WEIR_TRACE_NONE);
    assert_int_equal(trace->events[3].event.pool, 1);
    assert_int_equal(trace->events[4].event.pool, WEIR_TRACE_NONE);
    trace_free(trace);
}

/* The segments of the final map may be in any order of addresses. */
TEST(test_pools_of_unsorted_segments)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    for (unsigned i = 8; i-- > 0;) {
        pw_dict(&w);
        pw_key_int(&w, "address", BASE + i * 2 * MIB);
        pw_key_int(&w, "total_size", 2 * MIB);
        pw_str(&w, "segment_pool_id");
        pw_pair(&w, 0, i + 1);
        pw_dict_end(&w);
    }
    pw_history(&w);
    for (unsigned i = 0; i < 8; i++) {
        pw_entry(&w, ALLOC, BASE + i * 2 * MIB + 512, 1, 0, i);
    }
    pw_history_end(&w);
    struct trace *trace = import(&w);
    if (trace->pool_count != 8) {
        fail_msg("the blocks of 8 segments are in %u pools", (unsigned)trace->pool_count);
    }
    trace_free(trace);
}

TEST(test_tags)
{
    struct pickle_writer w;
    pw_history_alone(&w);
    pw_entry_open(&w, ALLOC, BASE, 1, 0, 1);
    pw_str(&w, "frames"); /* torch only: its innermost frame */
    pw_list(&w);
    pw_frame(&w, "memory.cpp", "malloc");
    pw_frame(&w, "/lib/torch/optim/adam.py", "step");
    pw_frame(&w, "/lib/torch/optim/optimizer.py", "wrapper");
    pw_list_end(&w);
    pw_op(&w, 0x94); /* memoizes the list for the next entry */
    pw_dict_end(&w);
    pw_entry_open(&w, ALLOC, BASE + 512, 1, 0, 1);
    pw_str(&w, "frames");
    pw_raw(&w, "h\0", 2);
    pw_dict_end(&w);
    pw_entry_open(&w, ALLOC, BASE + 1024, 1, 0, 1);
    pw_str(&w, "frames"); /* another list with the same frame: the import makes a second tag with the same text */
    pw_list(&w);
    pw_frame(&w, "/lib/torch/optim/adam.py", "step");
    pw_list_end(&w);
    pw_dict_end(&w);
    pw_entry_open(&w, ALLOC, BASE + 2048, 1, 0, 1);
    pw_str(&w, "frames"); /* the list has only a frame of the allocator */
    pw_list(&w);
    pw_frame(&w, "??", "c10::alloc_cpu(unsigned long)");
    pw_int(&w, 5);
    pw_list_end(&w);
    pw_dict_end(&w);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    assert_int_equal(trace->tag_count, 2);
    assert_string_equal(trace->tags[0], "adam.py:step:1");
    assert_string_equal(trace->tags[1], "adam.py:step:1");
    assert_string_equal(
        trace->stacks[0],
        "memory.cpp:1:malloc\n/lib/torch/optim/adam.py:1:step\n/lib/torch/optim/optimizer.py:1:wrapper");
    assert_string_equal(trace->stacks[1], "/lib/torch/optim/adam.py:1:step");
    assert_int_equal(trace->events[0].event.tag, 0);
    assert_int_equal(trace->events[1].event.tag, 0);
    assert_int_equal(trace->events[2].event.tag, 1);
    assert_int_equal(trace->events[3].event.tag, WEIR_TRACE_NONE);
    trace_free(trace);
}

/* Imports an allocation with `repeats` times the frame, within the frames of an allocator and of a thread. */
/* Opens a block of the final map. */
static void open_block(struct pickle_writer *w, uint64_t address, uint64_t size)
{
    pw_dict(w);
    pw_key_int(w, "address", address);
    pw_key_int(w, "size", size);
    pw_key_int(w, "requested_size", size);
    pw_key_str(w, "state", "active_allocated");
}

static void put_frames(struct pickle_writer *w, const char *file, const char *function)
{
    pw_str(w, "frames");
    pw_list(w);
    pw_frame(w, file, function);
    pw_list_end(w);
}

/* Blocks of the final map have frames, or a history with frames. A block that was freed in the window is no longer in
 * the map. */
TEST(test_tags_of_blocks_at_the_start)
{
    struct pickle_writer w;
    pw_snapshot(&w);
    pw_segment(&w, 0, BASE, 2 * MIB, 0, 0);
    open_block(&w, BASE, 512);
    put_frames(&w, "/a/model.py", "weights");
    pw_dict_end(&w);
    open_block(&w, BASE + 512, 512);
    pw_str(&w, "history");
    pw_list(&w);
    pw_dict(&w);
    pw_key_int(&w, "real_size", 512);
    put_frames(&w, "/a/optimizer.py", "state");
    pw_dict_end(&w);
    pw_list_end(&w);
    pw_dict_end(&w);
    pw_block(&w, BASE + 1024, 2 * MIB - 1024, 0, "inactive");
    pw_segment_end(&w);
    pw_history(&w);
    put_free(&w, BASE + 1024, 512, 0, 1000);
    pw_history_end(&w);
    expect_text(import(&w), "ns",
                "s 0 + 0x700000000000 2097152 0\n"
                "@0 model.py:weights:1\n"
                "#stack 0 /a/model.py:1:weights\n"
                "p 0 512 0 0x700000000000 @0\n"
                "@1 optimizer.py:state:1\n"
                "#stack 1 /a/optimizer.py:1:state\n"
                "p 1 512 0 0x700000000200 @1\n"
                "p 2 512 0 0x700000000400\n"
                "f 0 2 0 0\n");
}

static void put_labelled(struct pickle_writer *w, uint64_t address, const char *category, const char *metadata,
                         const char *compile)
{
    pw_entry_open(w, ALLOC, address, 512, 0, 1000);
    put_frames(w, "/a/model.py", "step");
    pw_key_str(w, "category", category);
    pw_key_str(w, "user_metadata", metadata);
    pw_key_str(w, "compile_context", compile);
    pw_dict_end(w);
}

TEST(test_labels)
{
    struct pickle_writer w;
    pw_history_alone(&w);
    put_labelled(&w, BASE, "unknown", "", "N/A");
    put_labelled(&w, BASE + 512, "activation", "batch 7", "0/1");
    put_labelled(&w, BASE + 1024, "activation", "batch 7", "0/1");
    put_labelled(&w, BASE + 1536, "unknown", "batch 7", "None");
    pw_entry_open(&w, ALLOC, BASE + 2048, 512, 0, 1000); /* labels without frames */
    pw_key_str(&w, "category", "parameter");
    pw_dict_end(&w);
    pw_history_end(&w);
    struct trace *trace = import(&w);
    static const char *const expected[] = {
        "model.py:step:1",
        "model.py:step:1 [activation; batch 7; compile 0/1]",
        "model.py:step:1 [activation; batch 7; compile 0/1]",
        "model.py:step:1 [batch 7]",
        "[parameter]",
    };
    assert_int_equal(trace->tag_count, 4);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(trace->tags[trace->events[i].event.tag], expected[i]);
    }
    assert_string_equal(trace->stacks[trace->events[2].event.tag], "/a/model.py:1:step");
    trace_free(trace);
}

static void put_annotation(struct pickle_writer *w, const char *stage, const char *name, uint64_t device,
                           uint64_t time_us)
{
    pw_dict(w);
    pw_key_str(w, "stage", stage);
    pw_key_str(w, "name", name);
    pw_key_int(w, "device", device);
    pw_key_int(w, "time_us", time_us);
    pw_dict_end(w);
}

TEST(test_annotations)
{
    struct pickle_writer w;
    pw_history_alone(&w);
    pw_entry(&w, ALLOC, BASE, 512, 0, 1000);
    pw_entry(&w, ALLOC, BASE + 512, 512, 0, 1002);
    pw_entry(&w, ALLOC, BASE + 1024, 512, 0, 1004);
    pw_list_end(&w);
    pw_list_end(&w);
    pw_str(&w, "external_annotations");
    pw_list(&w);
    put_annotation(&w, "END", "before", 0, 999);
    put_annotation(&w, "START", "step ", 0, 1002);
    put_annotation(&w, "END", "step", 0, 1004);
    put_annotation(&w, "START", "  ", 0, 1003); /* a mark without a name is written with the name "-" */
    put_annotation(&w, "START", "elsewhere", 3, 1004);
    put_annotation(&w, "MIDDLE", "step", 0, 1004);
    pw_snapshot_end(&w);
    expect_text(import(&w), "ns",
                "#note 2 annotations left out that lack a name, a stage, a time or a device\n"
                "#note recorded: there is no final map: what was reserved or live during the whole window is "
                "unknown\n"
                "a 0 0 512 0 0 addr=0x700000000000\n"
                "m 2000 B step\n"
                "a 2000 1 512 0 0 addr=0x700000000200\n"
                "m 3000 B -\n"
                "a 4000 2 512 0 0 addr=0x700000000400\n"
                "m 4000 E step\n");
}

static struct trace *import_native(const char *frame, unsigned repeats)
{
    struct pickle_writer w;
    pw_history_alone(&w);
    for (unsigned i = 0; i < 2; i++) { /* two lists of equal frames: one tag */
        pw_entry_open(&w, ALLOC, BASE + (uint64_t)512 * i, 1, 0, 1);
        pw_str(&w, "frames");
        pw_list(&w);
        pw_frame(&w, "??", "torch::unwind::unwind()");
        pw_frame(&w, "", "c10::cuda::CUDACachingAllocator::Native::allocate(unsigned long)");
        pw_frame(&w, "??", "at::detail::empty_cuda(c10::ArrayRef<long>)");
        pw_frame(&w, "??", "at::_ops::empty_strided::call(c10::SymInt)");
        for (unsigned k = 0; k < repeats; k++) {
            pw_frame(&w, "file.cpp", frame);
        }
        pw_list_end(&w);
        pw_dict_end(&w);
    }
    pw_history_end(&w);
    return import(&w);
}

TEST(test_native_tags)
{
    static const struct {
        const char *frame;
        const char *tag;
    } cases[] = {
        {"torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)", "MmBackward0"},
        {"at::_ops::mul_Tensor::call(at::Tensor const&)", "at::mul_Tensor"},
        {"at::_ops::mm::redispatch(c10::DispatchKeySet)", "at::mm"},
        {"at::native::cat_cuda(at::Tensor const&)", "at::native::cat_cuda"},
        {"at::native::copy_impl<float>(int)", "at::native::copy_impl"},
        {"c10d::ProcessGroupNCCL::allreduce(int)", "c10d::ProcessGroupNCCL::allreduce"},
        {"at_npu::native::custom_ops::npu_linear(int)", "at_npu::native::custom_ops::npu_linear"},
        {"op_api::mul(at::Tensor const&)", "op_api::mul"},
        {"my::(anonymous namespace)::kernel(int)", "my::(anonymous namespace)::kernel"},
        {"start_thread", "start_thread"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct trace *trace = import_native(cases[i].frame, 1);
        assert_int_equal(trace->tag_count, 1);
        assert_string_equal(trace->tags[0], cases[i].tag);
        assert_int_equal(trace->events[1].event.tag, 0);
        trace_free(trace);
    }
}

/* A stack keeps 64 frames. */
TEST(test_deep_stack)
{
    struct trace *trace = import_native("at::native::add(int)", 100);
    unsigned frames = 1;
    for (const char *c = trace->stacks[0]; *c != '\0'; c++) {
        frames += *c == '\n';
    }
    assert_int_equal(frames, 64);
    trace_free(trace);
}

/* A frame keeps 512 bytes of clean text: each byte of the name becomes four. */
TEST(test_long_frame)
{
    char name[201];
    memset(name, 1, sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct trace *trace = import_native(name, 1);
    assert_int_equal(strlen(strrchr(trace->stacks[0], '\n') + 1), 512);
    trace_free(trace);
}

/* --- refused snapshots --- */

TEST(test_not_a_snapshot)
{
    static const char dict[] = "s.pickle: byte 0: the pickle holds a dict that is no PyTorch memory snapshot; expected "
                               "a dict with \"segments\" or \"device_traces\"";
    struct pickle_writer w;
    pw_begin(&w);
    pw_dict(&w);
    pw_key_int(&w, "weights", 1);
    pw_dict_end(&w);
    pw_end(&w);
    bad(&w, WEIR_ERR_INVALID, dict);
    pw_begin(&w);
    pw_dict(&w);
    pw_key_int(&w, "segments", 1);
    pw_dict_end(&w);
    pw_end(&w);
    bad(&w, WEIR_ERR_INVALID, dict);
    pw_begin(&w);
    pw_list(&w);
    pw_list_end(&w);
    pw_end(&w);
    bad(&w, WEIR_ERR_INVALID,
        "s.pickle: byte 0: the pickle holds a list that is no PyTorch memory snapshot; expected a "
        "dict with \"segments\" or \"device_traces\"");
}

TEST(test_code)
{
    struct pickle_writer w;
    pw_begin(&w);
    pw_raw(&w, "cos\nsystem\n", 11);
    pw_str(&w, "true");
    pw_raw(&w, "\x85R", 2);
    pw_end(&w);
    bad(&w, WEIR_ERR_UNSUPPORTED,
        "s.pickle: byte 2: opcode GLOBAL (0x63) is refused; a memory snapshot is plain data and "
        "nothing is executed");
}

/* A history that contains one entry a million times is short in the file but long to walk. */
TEST(test_repeated_objects)
{
    struct pickle_writer w;
    pw_history_alone(&w);
    pw_entry(&w, ALLOC, BASE, 1, 0, 1);
    pw_op(&w, 0x94);
    for (int i = 0; i < 1000; i++) {
        pw_raw(&w, "h\0", 2);
    }
    pw_history_end(&w);
    bad(&w, WEIR_ERR_LIMIT, "s.pickle: byte 0: the snapshot repeats the same objects more often than its size allows");
}

/* "segments" and "device_traces" may even be the list that holds them. */
TEST(test_self_reference)
{
    struct pickle_writer w;
    pw_begin(&w);
    pw_dict(&w);
    pw_str(&w, "segments");
    pw_raw(&w, "]\x94(h\0h\0e", 8);
    pw_str(&w, "device_traces");
    pw_raw(&w, "]\x94(h\1h\1e", 8);
    pw_dict_end(&w);
    pw_end(&w);
    struct trace *trace = import(&w);
    assert_int_equal(trace->event_count, 0);
    trace_free(trace);
}
