/* control_test.c: the functions of weir/ascendcl.h beyond ACL: kernels, virtual time, findings, figures. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <stdio.h>
#include <string.h>

enum { SIZE = 4 << 20, KERNEL_NS = 1000000 };

#include "two_streams.h"

static int computed, ended;

static aclError compute(void *unused)
{
    (void)unused;
    assert_int_equal(computed, ended);
    computed++;
    return ACL_SUCCESS;
}

static void end(void *unused)
{
    (void)unused;
    ended++;
}

static weir_ascendcl_kernel kernel_of(const weir_ascendcl_range *ranges, size_t count)
{
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = KERNEL_NS;
    kernel.ranges = ranges;
    kernel.range_count = count;
    kernel.compute = compute;
    kernel.end = end;
    return kernel;
}

static int set_up(void **unused)
{
    (void)unused;
    make_streams();
    computed = 0;
    ended = 0;
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    drop_streams();
    return 0;
}

/* --- kernels and time --- */

TEST(kernels_take_their_time_and_overlap_on_two_streams)
{
    const weir_ascendcl_kernel kernel = kernel_of(NULL, 0);
    const uint64_t before = weir_ascendcl_now();
    acl_ok(weir_ascendcl_launch(a, &kernel));
    acl_ok(weir_ascendcl_launch(a, &kernel));
    acl_ok(weir_ascendcl_launch(b, &kernel));
    acl_ok(weir_ascendcl_launch(NULL, &kernel));
    assert_int_equal(computed, 0);
    weir_ascendcl_advance(KERNEL_NS / 2);
    assert_int_equal(computed, 0);
    weir_ascendcl_advance(KERNEL_NS);
    assert_int_equal(computed, 3);
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(computed, 4);
    assert_int_equal(ended, 4);
    assert_in_range(weir_ascendcl_now() - before, 2 * KERNEL_NS, 2 * KERNEL_NS + 100000);
    acl_ok(aclrtSynchronizeDevice());
    const uint64_t now = weir_ascendcl_now();
    weir_ascendcl_advance(12345);
    assert_true(weir_ascendcl_now() == now + 12345);
}

TEST(a_kernel_that_is_dropped_calls_its_end_function)
{
    weir_ascendcl_kernel kernel = kernel_of(NULL, 0);
    acl_ok(weir_ascendcl_launch(a, &kernel));
    acl_ok(weir_ascendcl_launch(a, &kernel));
    acl_ok(aclrtStreamAbort(a));
    assert_int_equal(ended, 2);
    acl_expect(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(a));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, weir_ascendcl_launch(&a, &kernel));
    assert_int_equal(ended, 3);
    kernel.range_count = 1;
    acl_expect(ACL_ERROR_INVALID_PARAM, weir_ascendcl_launch(a, &kernel));
    assert_int_equal(ended, 4);
    /* fresh memory is filled with a pattern other than 0, so the stream waits */
    acl_ok(aclrtValueWait(memory, 0, ACL_STREAM_WAIT_VALUE_EQ, b));
    kernel.range_count = 0;
    acl_ok(weir_ascendcl_launch(b, &kernel));
    acl_ok(aclrtDestroyStreamForce(b));
    assert_int_equal(ended, 5);
    assert_int_equal(computed, 0);
    acl_ok(aclrtCreateStream(&b));
}

TEST(newer_and_older_kernels)
{
    struct {
        weir_ascendcl_kernel known;
        uint64_t newer;
    } kernel;
    memset(&kernel, 0, sizeof(kernel));
    kernel.known = kernel_of(NULL, 0);
    kernel.known.struct_size = sizeof(kernel);
    acl_ok(weir_ascendcl_launch(a, &kernel.known)); /* the unknown newer members are zero */
    kernel.newer = 1;
    acl_expect(ACL_ERROR_INVALID_PARAM, weir_ascendcl_launch(a, &kernel.known));
    kernel.known.struct_size = offsetof(weir_ascendcl_kernel, compute); /* a caller with an older header */
    acl_ok(weir_ascendcl_launch(a, &kernel.known));
    acl_expect(ACL_ERROR_INVALID_PARAM, weir_ascendcl_launch(a, NULL));
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(computed, 1);
    assert_int_equal(ended, 1);
}

TEST(time_goes_from_end_to_end)
{
    aclrtNotify notify;
    aclrtEvent first, last;
    float ms = 0;
    weir_ascendcl_kernel kernel = kernel_of(NULL, 0);
    kernel.end = NULL;
    kernel.compute = NULL;
    acl_ok(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    acl_ok(aclrtCreateEvent(&first));
    acl_ok(aclrtCreateEvent(&last));
    acl_ok(aclrtWaitAndResetNotify(notify, b, 0));
    acl_ok(weir_ascendcl_launch(b, &kernel));
    acl_ok(aclrtRecordEvent(last, b));
    acl_ok(aclrtRecordEvent(first, a));
    acl_ok(weir_ascendcl_launch(a, &kernel));
    acl_ok(aclrtRecordNotify(notify, a));
    /* the work of b begins when that of a is done, not at the end of the advanced time */
    weir_ascendcl_advance((uint64_t)100 * KERNEL_NS);
    acl_ok(aclrtSynchronizeStream(b));
    acl_ok(aclrtEventElapsedTime(&ms, first, last));
    assert_true(ms > 1.99f && ms < 2.1f);
    acl_ok(aclrtDestroyEvent(first));
    acl_ok(aclrtDestroyEvent(last));
    acl_ok(aclrtDestroyNotify(notify));
}

/* --- findings --- */

TEST(findings_are_counted_and_told)
{
    char text[512] = "x";
    const uint64_t before = weir_ascendcl_finding_count(NULL);
    weir_ascendcl_range ranges[20];
    for (size_t i = 0; i < 20; i++) { /* more than few */
        ranges[i] = (weir_ascendcl_range){.address = memory + i * 4096, .size = 100, .write = i == 19};
    }
    weir_ascendcl_kernel kernel = kernel_of(ranges, 20);
    kernel.tag = "the writer";
    acl_ok(weir_ascendcl_launch(a, &kernel));
    kernel.tag = "the reader";
    ranges[19].write = false;
    acl_ok(weir_ascendcl_launch(b, &kernel));
    assert_true(weir_ascendcl_finding_count(NULL) == before + 1);
    assert_int_equal(weir_ascendcl_finding_count("unordered"), 1);
    assert_int_equal(weir_ascendcl_finding_count("no such"), 0);
    assert_true(weir_ascendcl_finding((size_t)before, text, sizeof(text)));
    assert_non_null(strstr(text, "the writer"));
    assert_non_null(strstr(text, "the reader"));
    assert_true(weir_ascendcl_finding((size_t)before, text, 8));
    assert_int_equal(strlen(text), 7);
    assert_false(weir_ascendcl_finding((size_t)before + 1, text, sizeof(text)));
    assert_string_equal(text, "");
    assert_true(weir_ascendcl_finding((size_t)before, NULL, 0));
}

/* The auditor finds a free that comes before the end of the kernel, in every run, because virtual time stands still
 * until the host waits. If the host has waited for the kernel, the auditor finds nothing. */
TEST(memory_freed_before_its_kernel_has_finished_is_found)
{
    const weir_ascendcl_range range = {.address = memory, .size = SIZE, .write = true};
    const weir_ascendcl_kernel kernel = kernel_of(&range, 1);
    const uint64_t before = weir_ascendcl_finding_count("region_pending");
    acl_ok(weir_ascendcl_launch(a, &kernel));
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtFree(memory));
    acl_ok(aclrtMalloc((void **)&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_true(weir_ascendcl_finding_count("region_pending") == before);
    const weir_ascendcl_range again = {.address = memory, .size = SIZE, .write = true};
    const weir_ascendcl_kernel late = kernel_of(&again, 1);
    acl_ok(weir_ascendcl_launch(a, &late));
    acl_ok(aclrtFree(memory));
    memory = NULL;
    assert_true(weir_ascendcl_finding_count("region_pending") == before + 1);
    acl_ok(aclrtSynchronizeStream(a));
}

TEST(blocks_of_the_programs_own_are_judged)
{
    const uint64_t before = weir_ascendcl_finding_count(NULL);
    const weir_ascendcl_range range = {.address = memory, .size = 1000, .write = true};
    const weir_ascendcl_kernel kernel = kernel_of(&range, 1);
    acl_ok(weir_ascendcl_block_alloc(memory, 1000, a, "mine"));
    acl_ok(weir_ascendcl_launch(a, &kernel));
    acl_ok(weir_ascendcl_block_free(memory, a, NULL));
    acl_ok(weir_ascendcl_block_alloc(memory, 500, a, "again")); /* correct: in the order of the stream */
    acl_ok(weir_ascendcl_block_free(memory, a, NULL));
    assert_true(weir_ascendcl_finding_count(NULL) == before);
    acl_ok(weir_ascendcl_block_alloc(memory, 500, b, "too early"));
    assert_int_equal(weir_ascendcl_finding_count("early_reuse"), 1);
    acl_ok(weir_ascendcl_block_free(memory, b, NULL));
    acl_ok(weir_ascendcl_block_free(memory, b, NULL));
    assert_int_equal(weir_ascendcl_finding_count("double_free"), 1);
    acl_expect(ACL_ERROR_INVALID_PARAM, weir_ascendcl_block_alloc(NULL, 1, a, NULL));
    acl_expect(ACL_ERROR_INVALID_PARAM, weir_ascendcl_block_alloc(memory, 0, a, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, weir_ascendcl_block_alloc(memory, 1, &a, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, weir_ascendcl_block_free(memory, &a, NULL));
    acl_ok(aclrtSynchronizeStream(a));
}

/* --- figures --- */

TEST(calls_and_bytes_are_counted)
{
    void *more = NULL;
    const uint64_t all = weir_ascendcl_calls(NULL);
    const uint64_t mallocs = weir_ascendcl_calls("aclrtMalloc");
    const uint64_t held = weir_ascendcl_held_bytes(0);
    const uint64_t peak = weir_ascendcl_peak_bytes(0);
    assert_true(held >= SIZE && peak >= held);
    acl_ok(aclrtMalloc(&more, 32 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMalloc(&more, 0, ACL_MEM_MALLOC_HUGE_FIRST)); /* failed calls count too */
    assert_true(weir_ascendcl_calls("aclrtMalloc") == mallocs + 2);
    assert_true(weir_ascendcl_calls(NULL) == all + 2);
    assert_int_equal(weir_ascendcl_calls("aclrtNoSuch"), 0);
    assert_true(weir_ascendcl_held_bytes(0) >= held + (32 << 20));
    assert_true(weir_ascendcl_held_bytes(0) <= held + (34 << 20));
    acl_ok(aclrtFree(more));
    assert_true(weir_ascendcl_held_bytes(0) == held);
    assert_true(weir_ascendcl_peak_bytes(0) >= held + (32 << 20));
    assert_int_equal(weir_ascendcl_held_bytes(1), 0);
    assert_int_equal(weir_ascendcl_held_bytes(-1), 0);
    assert_int_equal(weir_ascendcl_peak_bytes(16), 0);
    weir_ascendcl_report(NULL);
    FILE *file = tmpfile();
    assert_non_null(file);
    weir_ascendcl_report(file);
    char text[4096];
    rewind(file);
    const size_t length = fread(text, 1, sizeof(text) - 1, file);
    text[length] = '\0';
    (void)fclose(file);
    assert_non_null(strstr(text, "aclrtMalloc"));
    assert_non_null(strstr(text, "the auditor found"));
}

ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(CAPACITY, "1GiB") /* small: the thread sanitizer leaves few addresses */
EACH_TEST(set_up, tear_down)
