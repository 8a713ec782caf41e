/* model_recorded_test.c: the check of the pytorch model against a recording, on small traces written here. If
 * WEIR_TRACES_DIR has recordings of real programs, the model must reproduce every address in them. */
#include "rig/wtr.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "recorded.h"

static struct recorded_report check_padded(const char *lines, int pad_bytes)
{
    char text[4096];
    struct recorded_report report;
    int length = snprintf(text, sizeof(text), "#wtr 1\n%s", lines);
    assert_true(length > 0 && (size_t)length < sizeof(text));
    struct trace *trace = trace_of_text(text);
    assert_int_equal(recorded_check(trace, pad_bytes, &report), WEIR_OK);
    trace_free(trace);
    return report;
}

static struct recorded_report check(const char *lines)
{
    return check_padded(lines, RECORDED_PAD_BEST);
}

static void assert_addresses(const struct recorded_report *report, unsigned matched, unsigned total)
{
    assert_true(report->checkable);
    if (report->addresses_matched != matched || report->addresses_total != total) {
        fail_msg("%u of %u addresses expected, %u of %u found; first mismatch: %s", matched, total,
                 (unsigned)report->addresses_matched, (unsigned)report->addresses_total, report->first_mismatch);
    }
}

static void assert_segments(const struct recorded_report *report, unsigned matched, unsigned total)
{
    if (report->segments_matched != matched || report->segments_total != total) {
        fail_msg("%u of %u segments expected, %u of %u found; first mismatch: %s", matched, total,
                 (unsigned)report->segments_matched, (unsigned)report->segments_total, report->first_mismatch);
    }
}

static void assert_all_met(const struct recorded_report *report)
{
    assert_string_equal(report->first_mismatch, "");
    assert_addresses(report, (unsigned)report->addresses_total, (unsigned)report->addresses_total);
    assert_segments(report, (unsigned)report->segments_total, (unsigned)report->segments_total);
    assert_int_equal(report->removals_matched, report->removals_total);
    assert_int_equal(report->priors_placed, report->priors_total);
}

/* --- traces written here --- */

TEST(test_from_an_empty_heap)
{
    struct recorded_report report = check("s 0 + 0x40000000 2097152 0\n"
                                          "a 0 0 4096 0 0 addr=0x40000000\n"
                                          "a 1 1 100 0 0 addr=0x40001000\n"
                                          "f 2 0 0 0\n"
                                          "a 3 2 512 0 0 addr=0x40000000\n"
                                          "s 4 + 0x50000000 20971520 0\n"
                                          "a 4 3 9000000 0 0 addr=0x50000000\n"
                                          "s 5 + 0x60000000 31457280 0\n"
                                          "a 5 4 30000000 0 0 addr=0x60000000\n");
    assert_all_met(&report);
    assert_addresses(&report, 5, 5);
    assert_segments(&report, 3, 3);
}

/* The recorded allocator put the second block elsewhere. The mismatch is counted once, and later blocks are placed
 * around the block's recorded position. */
TEST(test_a_mismatch_is_counted_once)
{
    struct recorded_report report = check_padded("s 0 + 0x40000000 2097152 0\n"
                                                 "a 0 0 512 0 0 addr=0x40000000\n"
                                                 "a 1 1 512 0 0 addr=0x40000600\n"
                                                 "a 2 2 2048 0 0 addr=0x40000800\n"
                                                 "a 3 3 512 0 0 addr=0x40000200\n"
                                                 "a 4 4 512 0 0 addr=0x40000400\n",
                                                 0);
    assert_addresses(&report, 4, 5);
    assert_segments(&report, 1, 1);
    assert_string_equal(report.first_mismatch, "event 2: block of 512 bytes on stream 0: expected at 0x40000200, "
                                               "recorded at 0x40000600");
}

/* If the recorded address of a block is taken in the model, the model leaves the block out. */
TEST(test_a_mismatch_without_a_place)
{
    struct recorded_report report = check_padded("s 0 + 0x40000000 2097152 0\n"
                                                 "a 0 0 512 0 0 addr=0x40000000\n"
                                                 "a 1 1 512 0 0 addr=0x40000000\n"
                                                 "a 2 2 512 0 0 addr=0x70000000\n"
                                                 "f 3 1 0 0\n"
                                                 "f 4 0 0 0\n"
                                                 "a 5 3 512 0 0 addr=0x40000000\n",
                                                 0);
    assert_addresses(&report, 2, 4);
}

TEST(test_streams_are_apart)
{
    struct recorded_report report = check("s 0 + 0x40000000 2097152 0\n"
                                          "a 0 0 512 0 0 addr=0x40000000\n"
                                          "s 1 + 0x50000000 2097152 1\n"
                                          "a 1 1 512 1 0 addr=0x50000000\n"
                                          "f 2 0 0 0\n"
                                          "a 3 2 512 1 0 addr=0x50000200\n"
                                          "a 4 3 512 0 0 addr=0x40000000\n");
    assert_all_met(&report);
}

/* Equal addresses on two devices belong to two heaps. */
TEST(test_devices_are_apart)
{
    struct recorded_report report = check("s 0 + 0x40000000 2097152 0\n"
                                          "a 0 0 512 0 0 d=0 addr=0x40000000\n"
                                          "s 1 + 0x40000000 2097152 1\n"
                                          "a 1 1 512 1 0 d=1 addr=0x40000000\n"
                                          "a 2 2 512 1 0 d=1 addr=0x40000200\n"
                                          "a 3 3 1024 0 0 d=0 addr=0x40000200\n");
    assert_all_met(&report);
}

TEST(test_private_pools_are_apart)
{
    struct recorded_report report = check("s 0 + 0x40000000 2097152 0\n"
                                          "s 0 + 0x50000000 2097152 0\n"
                                          "p 0 512 0 0x40000000\n"
                                          "p 1 512 0 0x50000000\n"
                                          "a 1 2 512 0 0 pool=0 addr=0x40000200\n"
                                          "a 2 3 512 0 0 addr=0x50000200\n"
                                          "s 3 + 0x60000000 20971520 0\n"
                                          "a 3 4 2097152 0 0 pool=0 addr=0x60000000\n"
                                          "s 4 + 0x70000000 20971520 0\n"
                                          "a 4 5 2097152 0 0 addr=0x70000000\n");
    assert_all_met(&report);
    assert_segments(&report, 2, 2);
}

TEST(test_segments_come_and_go)
{
    struct recorded_report report = check("s 0 + 0x40000000 2097152 0\n"
                                          "a 0 0 512 0 0 addr=0x40000000\n"
                                          "f 1 0 0 0\n"
                                          "c 2\n"
                                          "s 2 - 0x40000000 2097152 0\n"
                                          "s 3 + 0x40000000 20971520 0\n"
                                          "a 3 1 5000000 0 0 addr=0x40000000\n");
    assert_all_met(&report);
    assert_int_equal(report.removals_total, 1);
}

TEST(test_a_segment_that_should_not_go)
{
    struct recorded_report report = check_padded("s 0 + 0x40000000 2097152 0\n"
                                                 "a 0 0 512 0 0 addr=0x40000000\n"
                                                 "s 1 - 0x40000000 2097152 0\n"
                                                 "s 2 - 0x40000000 2097152 0\n"
                                                 "f 3 0 0 0\n"
                                                 "s 4 + 0x40000000 2097152 0\n"
                                                 "a 4 1 512 0 0 addr=0x40000000\n",
                                                 0);
    assert_addresses(&report, 2, 2);
    assert_segments(&report, 2, 2);
    assert_int_equal(report.removals_total, 2);
    assert_int_equal(report.removals_matched, 0);
    assert_non_null(strstr(report.first_mismatch, "event 2: segment 0x40000000"));
}

TEST(test_a_segment_without_a_request)
{
    struct recorded_report report = check_padded("s 0 + 0x40000000 2097152 0\n"
                                                 "a 0 0 512 0 0 addr=0x40000000\n"
                                                 "s 1 + 0x50000000 2097152 0\n"
                                                 "a 1 1 512 0 0 addr=0x50000000\n"
                                                 "s 2 + 0x60000000 4194304 0\n"
                                                 "a 2 2 3000000 0 0 addr=0x60000000\n",
                                                 0);
    assert_addresses(&report, 3, 3);
    assert_segments(&report, 1, 3);
}

/* Gaps between prior blocks are free. A rest that is too small for a free block of the large pool belongs to the block
 * before it. */
TEST(test_start_of_the_window)
{
    struct recorded_report report = check("s 0 + 0x40000000 20971520 0\n"
                                          "s 0 + 0x50000000 2097152 0\n"
                                          "p 0 4194304 0 0x40000000\n"
                                          "p 1 4194304 0 0x40480000\n"
                                          "p 2 512 0 0x50000200\n"
                                          "a 1 3 512 0 0 addr=0x50000000\n"
                                          "f 2 0 0 0\n"
                                          "a 3 4 4194304 0 0 addr=0x40000000\n"
                                          "a 4 5 4194304 0 0 addr=0x40880000\n");
    assert_all_met(&report);
    assert_int_equal(report.priors_total, 3);
    assert_int_equal(report.priors_enlarged, 0);
}

/* Block 0 was handed out with a rest of 512 KiB. The size in the record lacks this rest; the address of block 1 shows
 * it. */
TEST(test_start_is_corrected)
{
    struct recorded_report report = check("s 0 + 0x40000000 20971520 0\n"
                                          "p 0 4194304 0 0x40000000\n"
                                          "a 1 1 4194304 0 0 addr=0x40480000\n"
                                          "a 2 2 2097152 0 0 addr=0x40880000\n");
    assert_all_met(&report);
    assert_int_equal(report.priors_enlarged, 1);
}

/* Empty segments precede the first request. In the first trace all three existed before the window. In the second trace
 * the first one did, and the recorded allocator took the last one for the first request. */
TEST(test_free_segments_at_the_start)
{
    struct recorded_report report = check("s 0 + 0x40000000 2097152 0\n"
                                          "s 0 + 0x50000000 20971520 0\n"
                                          "s 0 + 0x60000000 20971520 1\n"
                                          "a 0 0 512 0 0 addr=0x40000000\n"
                                          "a 1 1 2097152 1 0 addr=0x60000000\n"
                                          "a 2 2 2097152 0 0 addr=0x50000000\n");
    assert_all_met(&report);
    assert_segments(&report, 0, 0);
    report = check("s 0 + 0x40000000 2097152 0\n"
                   "s 0 + 0x50000000 20971520 0\n"
                   "a 0 0 2097152 0 0 addr=0x50000000\n"
                   "a 1 1 512 0 0 addr=0x40000000\n");
    assert_all_met(&report);
    assert_segments(&report, 1, 1);
}

TEST(test_padding_is_found)
{
    const char *lines = "s 0 + 0x40000000 2097152 0\n"
                        "a 0 0 512 0 0 addr=0x40000000\n"
                        "a 1 1 480 0 0 addr=0x40000400\n"
                        "a 2 2 512 0 0 addr=0x40000600\n";
    struct recorded_report report = check(lines);
    assert_all_met(&report);
    assert_int_equal(report.pad_bytes, 32);
    report = check_padded(lines, 32);
    assert_all_met(&report);
    report = check_padded(lines, 0);
    assert_int_equal(report.pad_bytes, 0);
    assert_addresses(&report, 1, 3);
}

TEST(test_a_tie_is_no_padding)
{
    struct recorded_report report = check("s 0 + 0x40000000 2097152 0\n"
                                          "a 0 0 100 0 0 addr=0x40000000\n"
                                          "a 1 1 100 0 0 addr=0x40000200\n");
    assert_all_met(&report);
    assert_int_equal(report.pad_bytes, 0);
}

TEST(test_what_cannot_be_checked)
{
    const char *lines[] = {
        "s 0 + 0x40000000 2097152 0\na 0 0 512 0 0\n",
        "s 0 + 0x40000000 2097152 0\na 0 0 512 0 0 addr=0x40000000\nz 1 + 0x50000000 2097152 0\n",
        "a 0 0 512 0 0 addr=0x40000000\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct recorded_report report = check(lines[i]);
        assert_false(report.checkable);
        assert_true(strlen(report.reason) > 0);
        assert_int_equal(report.addresses_total, 0);
    }
}

/* The check counts invalid records and does not apply them to the model. */
TEST(test_broken_records)
{
    struct recorded_report report = check_padded("s 0 + 0x40000000 2097152 0\n"
                                                 "s 0 + 0x40100000 2097152 0\n"
                                                 "s 0 + 0x60000000 1000 0\n"
                                                 "p 0 1024 0 0x40000000\n"
                                                 "p 1 1024 0 0x40000200\n"
                                                 "p 2 4194304 0 0x40001000\n"
                                                 "p 3 512 0 0x90000000\n"
                                                 "a 1 4 9223372036854775807 0 0 addr=0x40000400\n"
                                                 "f 2 1 0 0\n"
                                                 "f 3 0 0 0\n"
                                                 "a 4 5 512 0 0 addr=0x40000000\n",
                                                 0);
    assert_int_equal(report.priors_total, 4);
    assert_int_equal(report.priors_placed, 1);
    assert_addresses(&report, 1, 2);
    assert_true(strlen(report.first_mismatch) > 0);
}

TEST(test_padding_is_checked)
{
    const char *text = "#wtr 1\ns 0 + 0x40000000 2097152 0\na 0 0 512 0 0 addr=0x40000000\n";
    struct trace *trace = NULL;
    struct trace_error error;
    struct recorded_report report;
    assert_int_equal(trace_read_memory("test", text, strlen(text), NULL, &trace, &error), WEIR_OK);
    assert_int_equal(recorded_check(trace, -2, &report), WEIR_ERR_INVALID);
    assert_int_equal(recorded_check(trace, 512, &report), WEIR_ERR_INVALID);
    trace_free(trace);
}

/* --- recordings of real programs --- */

struct recording {
    const char *name;
    unsigned addresses;
    unsigned segments;
    unsigned pad_bytes;
};

static const struct recording recordings[] = {
    {"tiny_silmont_36allocs", 36, 9, 0},      {"infer_gpt_small_bf16_ctx128", 937, 0, 0},
    {"infer_gpt_medium_ctx1024", 1280, 0, 0}, {"train_gpt_medium_ctx128", 6526, 0, 0},
    {"train_gpt_bcrafton", 2162, 0, 0},       {"train_gpt_charan", 3221, 9, 0},
    {"federated_opt_decomfl", 7946, 61, 0},   {"npu_resnet_full", 3216, 52, 32},
};

static void check_recording(const struct recording *recording, const char *suffix)
{
    char path[1024];
    struct stat facts;
    struct trace *trace = NULL;
    struct trace_error error;
    struct recorded_report report;
    (void)snprintf(path, sizeof(path), "%s/pytorch/%s%s", WEIR_TRACES_DIR, recording->name, suffix);
    if (stat(path, &facts) != 0) {
        printf("skipped: %s is not there\n", path);
        return;
    }
    if (trace_read(path, NULL, &trace, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(recorded_check(trace, RECORDED_PAD_BEST, &report), WEIR_OK);
    trace_free(trace);
    assert_all_met(&report);
    assert_addresses(&report, recording->addresses, recording->addresses);
    assert_segments(&report, recording->segments, recording->segments);
    assert_int_equal(report.pad_bytes, recording->pad_bytes);
}

TEST(test_recordings)
{
    for (size_t i = 0; i < sizeof(recordings) / sizeof(recordings[0]); i++) {
        check_recording(&recordings[i], ".wtr.xz");
        check_recording(&recordings[i], ".pickle.xz");
    }
}

int main(void)
{
    struct stat facts;
    const int failed = run_all_tests("the check of recordings");
    return failed == 0 && stat(WEIR_TRACES_DIR "/pytorch", &facts) != 0 ? 77 : failed;
}
