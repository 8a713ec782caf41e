/* notify_test.c: order without events: value writes and waits, notifies. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { SIZE = 1 << 20, KERNEL_NS = 100000, DATA = 4096 };

#include "two_streams.h"

static uint64_t *word;

static aclError fill(void *value)
{
    memset(memory + DATA, (int)(intptr_t)value, DATA);
    return ACL_SUCCESS;
}

/* Launches a kernel that fills the data and then sets the word. */
static void launch_fill(aclrtStream stream, int value)
{
    const weir_ascendcl_range range = {.address = memory + DATA, .size = DATA, .write = true};
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = KERNEL_NS;
    kernel.ranges = &range;
    kernel.range_count = 1;
    kernel.compute = fill;
    kernel.ctx = (void *)(intptr_t)value;
    acl_ok(weir_ascendcl_launch(stream, &kernel));
}

static void expect_data(int value)
{
    for (int i = 0; i < DATA; i++) {
        assert_int_equal(memory[DATA + i], value);
    }
}

static bool is_complete(aclrtStream stream)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    acl_ok(aclrtStreamQuery(stream, &status));
    return status == ACL_STREAM_STATUS_COMPLETE;
}

static int set_up(void **unused)
{
    (void)unused;
    make_streams();
    acl_ok(aclrtMemset(memory, SIZE, 0, SIZE));
    word = (uint64_t *)(void *)memory;
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    drop_streams();
    assert_int_equal(weir_ascendcl_finding_count(NULL), 0);
    return 0;
}

/* --- values --- */

TEST(values_have_their_codes)
{
    uint64_t outside = 0;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtValueWrite(NULL, 1, 0, a));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtValueWait(NULL, 1, 0, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWrite(word, 1, 1, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWait(word, 1, 4, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWrite(&outside, 1, 0, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWait(&outside, 1, 0, a));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtValueWrite(word, 1, 0, &outside));
    acl_ok(aclrtSynchronizeStream(a));
    assert_true(*word == 0);
}

TEST(a_value_is_written_in_the_order_of_its_stream)
{
    launch_fill(a, 3);
    acl_ok(aclrtValueWrite(word, 0x123456789abcdef0u, 0, a));
    assert_true(*word == 0);
    acl_ok(aclrtSynchronizeStream(a));
    assert_true(*word == 0x123456789abcdef0u);
    assert_true(word[1] == 0);
    /* the default stream needs no wait, because the host has waited for the other stream */
    acl_ok(aclrtValueWrite(word, 1, 0, NULL));
    acl_ok(aclrtSynchronizeStream(NULL));
    assert_true(*word == 1);
}

/* The vendor's runtime does not check the alignment. Words that share bytes follow each other. */
TEST(a_value_lies_at_any_multiple_of_four)
{
    uint64_t found = 0;
    for (uintptr_t offset = 0; offset <= 8; offset += 4) {
        acl_ok(aclrtValueWrite(memory + offset, 7 + offset, 0, a));
        acl_ok(aclrtValueWait(memory + offset, 7 + offset, ACL_STREAM_WAIT_VALUE_EQ, b));
        launch_fill(b, (int)offset); /* ordered after the write */
        acl_ok(aclrtSynchronizeStream(b));
        acl_ok(aclrtSynchronizeStream(a));
        acl_ok(aclrtMemcpy(&found, sizeof(found), memory + offset, sizeof(found), ACL_MEMCPY_DEVICE_TO_HOST));
        memset(&memory[offset], 0, sizeof(found));
    }
}

TEST(a_wait_compares_in_four_ways)
{
    static const struct {
        uint32_t how;
        uint64_t before, value, after;
    } cases[] = {
        {ACL_STREAM_WAIT_VALUE_GEQ, 4, 5, 5},
        {ACL_STREAM_WAIT_VALUE_GEQ, 4, 5, 9},
        {ACL_STREAM_WAIT_VALUE_GEQ, (uint64_t)-1, 5, 5}, /* -1: a signed distance */
        {ACL_STREAM_WAIT_VALUE_EQ, 6, 5, 5},
        {ACL_STREAM_WAIT_VALUE_AND, 8, 5, 4},
        {ACL_STREAM_WAIT_VALUE_NOR, 0xffffffffffffff00u, 0xff, 0xf0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        acl_ok(aclrtValueWrite(word, cases[i].before, 0, b));
        acl_ok(aclrtSynchronizeStream(b));
        acl_ok(aclrtValueWait(word, cases[i].value, cases[i].how, a));
        assert_false(is_complete(a));
        acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(a, 2));
        acl_ok(aclrtValueWrite(word, cases[i].after, 0, b));
        acl_ok(aclrtSynchronizeStream(a));
        acl_ok(aclrtValueWait(word, cases[i].value, cases[i].how, a)); /* still true: no wait */
        acl_ok(aclrtSynchronizeStream(a));
    }
}

/* After the wait, the stream may touch the data and write the word: the auditor knows the order. */
TEST(a_wait_orders_two_streams)
{
    for (int round = 1; round <= 20; round++) {
        const uint64_t before = weir_ascendcl_now();
        acl_ok(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, b));
        launch_fill(b, -round);
        acl_ok(aclrtValueWrite(word, 0, 0, b));
        launch_fill(a, round);
        acl_ok(aclrtValueWrite(word, 1, 0, a));
        acl_ok(aclrtSynchronizeStream(b));
        expect_data(-round);
        assert_true(weir_ascendcl_now() >= before + 2 * KERNEL_NS);
        acl_ok(aclrtSynchronizeStream(a));
    }
}

/* The value of the word before the stream reaches its wait does not matter. */
TEST(a_wait_looks_when_its_stream_has_come_to_it)
{
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    acl_ok(aclrtValueWrite(word, 1, 0, b));
    acl_ok(aclrtSynchronizeStream(b));
    kernel.duration_ns = 10 * KERNEL_NS;
    acl_ok(weir_ascendcl_launch(a, &kernel));
    acl_ok(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, a));
    kernel.duration_ns = KERNEL_NS;
    acl_ok(weir_ascendcl_launch(b, &kernel));
    acl_ok(aclrtValueWrite(word, 0, 0, b));
    acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(a, 3));
    acl_ok(aclrtValueWrite(word, 1, 0, b));
    acl_ok(aclrtSynchronizeStream(a));
}

TEST(many_words_and_their_memory_come_and_go)
{
    enum { WORDS = 600 };
    for (int round = 0; round < 3; round++) {
        uint64_t *words = NULL;
        acl_ok(aclrtMalloc((void **)&words, WORDS * sizeof(*words), ACL_MEM_MALLOC_HUGE_FIRST));
        acl_ok(aclrtMemset(words, WORDS * sizeof(*words), 0, WORDS * sizeof(*words)));
        for (uint64_t i = 0; i < WORDS; i++) {
            acl_ok(aclrtValueWait(&words[i], i + 1, ACL_STREAM_WAIT_VALUE_EQ, b));
        }
        for (uint64_t i = WORDS; i-- > 0;) {
            acl_ok(aclrtValueWrite(&words[i], i + 1, 0, a));
        }
        acl_ok(aclrtSynchronizeStream(b));
        acl_ok(aclrtSynchronizeStream(a));
        acl_ok(aclrtFree(words));
    }
}

TEST(a_copy_ends_a_wait_as_well)
{
    const uint64_t one = 1;
    acl_ok(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, a));
    assert_false(is_complete(a));
    acl_ok(aclrtMemcpy(word, sizeof(one), &one, sizeof(one), ACL_MEMCPY_HOST_TO_DEVICE));
    acl_ok(aclrtSynchronizeStream(a));
}

TEST(a_word_whose_memory_is_gone_is_the_streams_error)
{
    acl_ok(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, a));
    assert_false(is_complete(a));
    acl_ok(aclrtFree(memory));
    memory = NULL;
    acl_expect(ACL_ERROR_RT_DEVICE_MEM_ERROR, aclrtSynchronizeStream(a));
    acl_ok(aclrtSynchronizeStream(a));
}

TEST(waits_end_with_their_stream)
{
    acl_ok(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, a));
    launch_fill(a, 1);
    acl_ok(aclrtStreamAbort(a));
    acl_expect(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(a));
    acl_ok(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, a));
    expect_data(0);
    acl_ok(aclrtValueWrite(word, 1, 0, b));
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtValueWait(word, 2, ACL_STREAM_WAIT_VALUE_EQ, a)); /* for the tear-down */
}

/* --- notifies --- */

TEST(notifies_have_their_codes)
{
    aclrtNotify notify = NULL;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtCreateNotify(NULL, 0));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtCreateNotify(&notify, 0x100));
    assert_null(notify);
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtDestroyNotify(NULL));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtRecordNotify(NULL, a));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtWaitAndResetNotify(NULL, a, 0));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyNotify(&notify));
    acl_ok(aclrtCreateNotify(&notify, ACL_NOTIFY_DEVICE_USE_ONLY));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordNotify(notify, &notify));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtWaitAndResetNotify(notify, &notify, 0));
    acl_ok(aclrtDestroyNotify(notify));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyNotify(notify));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordNotify(notify, a));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtWaitAndResetNotify(notify, a, 0));
}

TEST(a_device_has_8192_notifies)
{
    enum { LIMIT = 8192 };
    static aclrtNotify all[LIMIT];
    aclrtNotify more = NULL;
    for (int i = 0; i < LIMIT; i++) {
        acl_ok(aclrtCreateNotify(&all[i], ACL_NOTIFY_DEFAULT));
    }
    acl_expect(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, aclrtCreateNotify(&more, ACL_NOTIFY_DEFAULT));
    acl_ok(aclrtDestroyNotify(all[7]));
    acl_ok(aclrtCreateNotify(&all[7], ACL_NOTIFY_DEFAULT));
    for (int i = 0; i < LIMIT; i++) {
        acl_ok(aclrtDestroyNotify(all[i]));
    }
}

TEST(a_notify_orders_two_streams_and_is_reset)
{
    aclrtNotify notify;
    acl_ok(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    for (int round = 1; round <= 20; round++) {
        const uint64_t before = weir_ascendcl_now();
        acl_ok(aclrtWaitAndResetNotify(notify, b, 0));
        launch_fill(b, -round);
        assert_false(is_complete(b));
        launch_fill(a, round);
        acl_ok(aclrtRecordNotify(notify, a));
        acl_ok(aclrtSynchronizeStream(b));
        expect_data(-round);
        assert_true(weir_ascendcl_now() >= before + 2 * KERNEL_NS);
        acl_ok(aclrtSynchronizeStream(a));
    }
    acl_ok(aclrtDestroyNotify(notify));
}

TEST(a_notify_is_one_bit)
{
    aclrtNotify notify;
    acl_ok(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    acl_ok(aclrtRecordNotify(notify, a)); /* two records before any wait count once */
    acl_ok(aclrtRecordNotify(notify, a));
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtWaitAndResetNotify(notify, b, 0));
    acl_ok(aclrtSynchronizeStream(b));
    acl_ok(aclrtWaitAndResetNotify(notify, b, 0));
    acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(b, 2));
    acl_ok(aclrtRecordNotify(notify, NULL));
    acl_ok(aclrtSynchronizeStream(b));
    acl_ok(aclrtDestroyNotify(notify));
}

TEST(a_wait_for_a_notify_may_time_out)
{
    aclrtNotify notify;
    acl_ok(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    struct timespec before, after;
    acl_ok(aclrtWaitAndResetNotify(notify, a, 1000));
    weir_ascendcl_advance(999000000000);
    assert_false(is_complete(a));
    weir_ascendcl_advance(2000000000);
    acl_expect(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(a));
    acl_ok(aclrtSynchronizeStream(a));

    acl_ok(aclrtWaitAndResetNotify(notify, a, 1)); /* in real time, since the device is idle */
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    acl_expect(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(a));
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    assert_in_range(after.tv_sec - before.tv_sec, 0, 10);
    acl_ok(aclrtWaitAndResetNotify(notify, a, 1000));
    acl_ok(aclrtRecordNotify(notify, b)); /* in time */
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtDestroyNotify(notify));
}

TEST(destroying_a_notify_that_is_waited_for_is_an_error_of_the_stream)
{
    aclrtNotify notify;
    acl_ok(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    acl_ok(aclrtWaitAndResetNotify(notify, a, 0));
    acl_ok(aclrtDestroyNotify(notify));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(a));
    acl_ok(aclrtSynchronizeStream(a));

    acl_ok(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT)); /* recorded in time: it may be destroyed */
    launch_fill(b, 1);
    acl_ok(aclrtRecordNotify(notify, b));
    acl_ok(aclrtSynchronizeStream(b));
    acl_ok(aclrtWaitAndResetNotify(notify, a, 0));
    acl_ok(aclrtDestroyNotify(notify));
    acl_ok(aclrtSynchronizeStream(a));
}

TEST(a_forced_reset_ends_the_notifies_of_its_device)
{
    aclrtContext before;
    aclrtNotify mine, elsewhere;
    aclrtStream stream;
    acl_ok(aclrtGetCurrentContext(&before));
    acl_ok(aclrtCreateNotify(&mine, ACL_NOTIFY_DEFAULT));
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtCreateNotify(&elsewhere, ACL_NOTIFY_DEFAULT));
    acl_ok(aclrtWaitAndResetNotify(elsewhere, stream, 0));
    acl_ok(aclrtResetDeviceForce(1));
    acl_ok(aclrtSetCurrentContext(before));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyNotify(elsewhere));
    acl_ok(aclrtDestroyNotify(mine));
}

static void *records(void *notify)
{
    const struct timespec time = {.tv_nsec = 5000000};
    acl_ok(aclrtSetDevice(0));
    (void)nanosleep(&time, NULL);
    acl_ok(aclrtRecordNotify(notify, NULL));
    acl_ok(aclrtResetDevice(0));
    return NULL;
}

TEST(another_thread_may_record)
{
    pthread_t thread;
    aclrtNotify notify;
    acl_ok(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    acl_ok(aclrtWaitAndResetNotify(notify, a, 0));
    assert_int_equal(pthread_create(&thread, NULL, records, notify), 0);
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(pthread_join(thread, NULL), 0);
    acl_ok(aclrtDestroyNotify(notify));
}

/* A pool has addresses without memory. */
TEST(a_word_of_a_pool_may_lose_its_memory)
{
    aclrtMemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = 64 << 20;
    aclrtMemPool pool;
    void *block = NULL;
    acl_ok(aclrtMemPoolCreate(&pool, &props));
    acl_ok(aclrtMemPoolMallocAsync(&block, SIZE, pool, a));
    acl_ok(aclrtMemsetAsync(block, SIZE, 0, SIZE, a));
    acl_ok(aclrtSynchronizeStream(a));
    char *beyond = (char *)block + (8 << 20);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWrite(beyond, 1, 0, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtValueWait(beyond, 1, ACL_STREAM_WAIT_VALUE_EQ, a));
    acl_ok(aclrtValueWait(block, 1, ACL_STREAM_WAIT_VALUE_EQ, b));
    acl_ok(aclrtMemPoolFreeAsync(block, a));
    acl_ok(aclrtSynchronizeStream(a)); /* frees the memory */
    acl_expect(ACL_ERROR_RT_DEVICE_MEM_ERROR, aclrtSynchronizeStream(b));
    acl_ok(aclrtMemPoolDestroy(pool));
}

ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(CAPACITY, "1GiB") /* small: the thread sanitizer leaves few addresses */
EACH_TEST(set_up, tear_down)
