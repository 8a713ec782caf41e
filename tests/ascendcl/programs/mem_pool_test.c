/* mem_pool_test.c: aclrtMemPool: the four kinds of reuse, reserved and released memory, refused calls. The auditor
 * watches every access: the process fails if a stream got memory too early. */
#include "rig/acl.h"

#include <string.h>

#define PAGE (2 * MIB)

static aclrtStream a, b, c;
static char *scratch; /* memory for work that keeps streams busy */

static aclrtMemPool pool_of(size_t most)
{
    aclrtMemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = most;
    aclrtMemPool pool = NULL;
    acl_ok(aclrtMemPoolCreate(&pool, &props));
    assert_non_null(pool);
    return pool;
}

static uint64_t number(aclrtMemPool pool, aclrtMemPoolAttr attr)
{
    uint64_t value = UINT64_MAX;
    acl_ok(aclrtMemPoolGetAttr(pool, attr, &value));
    return value;
}

static uint64_t reserved(aclrtMemPool pool)
{
    return number(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT);
}

static uint64_t used(aclrtMemPool pool)
{
    return number(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT);
}

static void set_switch(aclrtMemPool pool, aclrtMemPoolAttr attr, uint32_t on)
{
    acl_ok(aclrtMemPoolSetAttr(pool, attr, &on));
}

static void keep(aclrtMemPool pool, uint64_t bytes)
{
    acl_ok(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

static char *take(aclrtMemPool pool, size_t size, aclrtStream stream)
{
    void *pointer = NULL;
    acl_ok(aclrtMemPoolMallocAsync(&pointer, size, pool, stream));
    assert_int_equal((uintptr_t)pointer % 512, 0);
    acl_ok(aclrtMemsetAsync(pointer, size, 1, size, stream));
    return pointer;
}

static void give(void *pointer, aclrtStream stream)
{
    acl_ok(aclrtMemsetAsync(pointer, 1, 2, 1, stream));
    acl_ok(aclrtMemPoolFreeAsync(pointer, stream));
}

/* Keeps the stream busy for 16 ms of device time: main sets the price of a memset. */
static void keep_busy(aclrtStream stream)
{
    acl_ok(aclrtMemsetAsync(scratch + (stream == a   ? 0
                                       : stream == b ? 16 * MIB
                                                     : 32 * MIB),
                            16 * MIB, 0, 16 * MIB, stream));
}

static bool is_busy(aclrtStream stream)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    acl_ok(aclrtStreamQuery(stream, &status));
    return status == ACL_STREAM_STATUS_NOT_READY;
}

static void finish(void)
{
    acl_ok(aclrtSynchronizeDevice());
}

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&a));
    acl_ok(aclrtCreateStream(&b));
    acl_ok(aclrtCreateStream(&c));
    acl_ok(aclrtMalloc((void **)&scratch, 48 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtDestroyStream(a));
    acl_ok(aclrtDestroyStream(b));
    acl_ok(aclrtDestroyStream(c));
    acl_ok(aclrtFree(scratch));
    acl_ok(aclrtResetDevice(0));
    return 0;
}

TEST(creating_checks_its_properties)
{
    aclrtMemPoolProps props, good;
    aclrtMemPool pool = NULL;
    memset(&good, 0, sizeof(good));
    good.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolCreate(NULL, &good));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolCreate(&pool, NULL));
    props = good;
    props.allocType = (aclrtMemAllocationType)1;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolCreate(&pool, &props));
    props = good;
    props.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolCreate(&pool, &props));
    props = good;
    props.reserved[31] = 1;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolCreate(&pool, &props));
    props = good;
    props.location.id = 2;
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemPoolCreate(&pool, &props));
    props = good;
    props.maxSize = 256 * MIB + 1;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolCreate(&pool, &props));
    props.maxSize = SIZE_MAX;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolCreate(&pool, &props));
    assert_null(pool);
    props.maxSize = 0;
    acl_ok(aclrtMemPoolCreate(&pool, &props));
    assert_int_equal(reserved(pool), 0);
    acl_ok(aclrtMemPoolDestroy(pool));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolDestroy(pool));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolDestroy(NULL));
}

TEST(attributes_have_widths_and_rules)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    for (int attr = 1; attr <= 3; attr++) {
        uint32_t two[2] = {9, 9};
        acl_ok(aclrtMemPoolGetAttr(pool, (aclrtMemPoolAttr)attr, two));
        assert_int_equal(two[0], 0);
        assert_int_equal(two[1], 9);
        two[0] = 5;
        acl_ok(aclrtMemPoolSetAttr(pool, (aclrtMemPoolAttr)attr, two));
        acl_ok(aclrtMemPoolGetAttr(pool, (aclrtMemPoolAttr)attr, two));
        assert_int_equal(two[0], 1);
        two[0] = 0;
        acl_ok(aclrtMemPoolSetAttr(pool, (aclrtMemPoolAttr)attr, two));
        acl_ok(aclrtMemPoolGetAttr(pool, (aclrtMemPoolAttr)attr, two));
        assert_int_equal(two[0], 0);
    }
    for (int attr = 4; attr <= 8; attr++) {
        assert_int_equal(number(pool, (aclrtMemPoolAttr)attr), 0);
    }
    const uint64_t threshold = (UINT64_C(5) << 32) + 1;
    keep(pool, threshold);
    assert_int_equal(number(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD), threshold);
    uint64_t value = 0;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID,
               aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, &value));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &value));
    acl_ok(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, &value));
    acl_ok(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &value));
    value = 1;
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, &value));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &value));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolSetAttr(pool, (aclrtMemPoolAttr)9, &value));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolGetAttr(pool, (aclrtMemPoolAttr)0, &value));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolSetAttr(NULL, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolGetAttr(NULL, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, NULL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, NULL));
    acl_ok(aclrtMemPoolDestroy(pool));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value));
}

TEST(requests_are_checked)
{
    const aclrtMemPool pool = pool_of(8 * MIB);
    void *p = (void *)1;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolMallocAsync(NULL, 1, pool, a));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolMallocAsync(&p, 1, NULL, a));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolMallocAsync(&p, 1, pool, NULL));
    acl_ok(aclrtMemPoolMallocAsync(&p, 0, pool, a));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolMallocAsync(&p, 1, &p, a));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolMallocAsync(&p, 8 * MIB + 1, pool, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolMallocAsync(&p, SIZE_MAX, pool, a));
    assert_ptr_equal(p, (void *)1);
    assert_int_equal(reserved(pool), 0);
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolFreeAsync(NULL, a));
    char *q = take(pool, 100, a);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolFreeAsync(q + 512, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolFreeAsync(q + PAGE, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(q + 512));
    give(q, a);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolFreeAsync(q, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(q));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolTrimTo(NULL, 0));
    finish();
    acl_ok(aclrtMemPoolDestroy(pool));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolMallocAsync(&p, 1, pool, a));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolTrimTo(pool, 0));
}

TEST(exhaustion_says_so)
{
    const aclrtMemPool pool = pool_of(8 * MIB - 1);
    char *p = take(pool, 5 * MIB, a);
    void *q = NULL;
    assert_int_equal(used(pool), 6 * MIB);
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolMallocAsync(&q, 3 * MIB, pool, a));
    assert_int_equal(reserved(pool), 6 * MIB);
    char *r = take(pool, 2 * MIB, a);
    give(p, a);
    give(r, a);
    char *all = take(pool, 8 * MIB, a);
    give(all, a);
    finish();
    acl_ok(aclrtMemPoolDestroy(pool));
}

/* The pool does not use device memory that is allocated elsewhere. */
TEST(the_device_may_have_less_than_the_pool)
{
    const aclrtMemPool pool = pool_of(0);
    const size_t before = left();
    void *p = NULL, *q = NULL;
    acl_ok(aclrtMalloc(&q, before - 6 * MIB, ACL_MEM_MALLOC_HUGE_ONLY));
    const size_t rest = left();
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolMallocAsync(&p, rest + 1, pool, a));
    assert_int_equal(reserved(pool), 0);
    assert_int_equal(left(), rest);
    char *all = take(pool, rest, a);
    assert_int_equal(left(), 0);
    give(all, a);
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(left(), rest);
    acl_ok(aclrtFree(q));
    acl_ok(aclrtMemPoolDestroy(pool));
    assert_int_equal(left(), before);
}

TEST(one_stream_reuses_at_once)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    keep_busy(a);
    char *p = take(pool, 4 * MIB, a);
    give(p, a);
    for (int i = 0; i < 10; i++) {
        char *q = take(pool, 3 * MIB + 1, a);
        assert_ptr_equal(p, q);
        give(q, a);
    }
    assert_true(is_busy(a));
    assert_int_equal(number(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH), 4 * MIB);
    assert_int_equal(used(pool), 0);
    finish();
    acl_ok(aclrtMemPoolDestroy(pool));
}

TEST(the_closest_size_is_taken)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    char *p[6];
    static const size_t sizes[6] = {8 * MIB, 2 * MIB, 6 * MIB, 2 * MIB, 4 * MIB, 2 * MIB};
    for (int i = 0; i < 6; i++) {
        p[i] = take(pool, sizes[i], a);
    }
    for (int i = 0; i < 6; i += 2) {
        give(p[i], a);
    }
    char *six = take(pool, 5 * MIB, a);
    assert_ptr_equal(six, p[2]);
    char *four = take(pool, 4 * MIB, a);
    assert_ptr_equal(four, p[4]);
    char *two = take(pool, 1, a);
    assert_ptr_equal(two, p[0]);
    give(six, a);
    give(four, a);
    give(two, a);
    for (int i = 1; i < 6; i += 2) {
        give(p[i], a);
    }
    assert_int_equal(number(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH), 24 * MIB);
    finish();
    acl_ok(aclrtMemPoolDestroy(pool));
}

/* Without a reuse switch another stream gets other memory; after the host has waited it gets the same memory. */
TEST(another_stream_waits_for_the_host)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    keep(pool, 64 * MIB);
    keep_busy(a);
    char *p = take(pool, 2 * MIB, a);
    give(p, a);
    char *q = take(pool, 2 * MIB, b);
    assert_ptr_not_equal(p, q);
    give(q, b);
    acl_ok(aclrtSynchronizeStream(b));
    assert_true(is_busy(a));
    acl_ok(aclrtSynchronizeStream(a));
    /* both freed blocks together serve this request: they are adjacent, and their work is complete, so any stream may
     * use them */
    char *r = take(pool, 4 * MIB, c);
    assert_int_equal(reserved(pool), 4 * MIB);
    give(r, c);
    finish();
    acl_ok(aclrtMemPoolDestroy(pool));
}

TEST(events_order_through_any_number_of_streams)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    aclrtEvent first = NULL, second = NULL;
    keep(pool, 64 * MIB);
    acl_ok(aclrtCreateEventExWithFlag(&first, ACL_EVENT_SYNC));
    acl_ok(aclrtCreateEventExWithFlag(&second, ACL_EVENT_SYNC));
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1);
    keep_busy(a);
    char *p = take(pool, 2 * MIB, a), *between = take(pool, 2 * MIB, a), *late = take(pool, 6 * MIB, a);
    give(p, a);
    acl_ok(aclrtRecordEvent(first, a));
    give(late, a); /* the program frees `late` after the record, so the event does not cover this free */
    char *q = take(pool, 2 * MIB, c);
    assert_ptr_not_equal(q, p);
    acl_ok(aclrtStreamWaitEvent(b, first));
    acl_ok(aclrtRecordEvent(second, b));
    acl_ok(aclrtStreamWaitEvent(c, second));
    char *r = take(pool, 2 * MIB, c);
    assert_ptr_equal(r, p);
    char *s = take(pool, 6 * MIB, c);
    assert_ptr_not_equal(s, late);
    assert_true(is_busy(a));
    give(between, a);
    give(q, c);
    give(r, c);
    give(s, c);
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0);
    finish();
    acl_ok(aclrtDestroyEvent(first));
    acl_ok(aclrtDestroyEvent(second));
    acl_ok(aclrtMemPoolDestroy(pool));
}

TEST(events_order_reuse_only_with_the_switch)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    aclrtEvent event = NULL;
    acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    keep_busy(a);
    char *p = take(pool, 2 * MIB, a);
    give(p, a);
    acl_ok(aclrtRecordEvent(event, a));
    acl_ok(aclrtStreamWaitEvent(b, event));
    char *q = take(pool, 2 * MIB, b);
    assert_ptr_not_equal(q, p);
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1);
    char *r = take(pool, 2 * MIB, b);
    assert_ptr_equal(r, p);
    give(q, b);
    give(r, b);
    finish();
    acl_ok(aclrtDestroyEvent(event));
    acl_ok(aclrtMemPoolDestroy(pool));
}

/* Opportunistic reuse takes memory as soon as the work on it is complete, even if the host has not waited. */
TEST(opportunistic_reuse_needs_completed_work)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    keep(pool, 64 * MIB);
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, 1);
    keep_busy(a);
    char *p = take(pool, 2 * MIB, a);
    give(p, a);
    char *q = take(pool, 2 * MIB, b);
    assert_ptr_not_equal(q, p);
    while (is_busy(a)) {
    }
    char *r = take(pool, 2 * MIB, b);
    assert_ptr_equal(r, p);
    give(q, b);
    give(r, b);
    finish();
    acl_ok(aclrtMemPoolDestroy(pool));
}

/* Internal dependencies: the pool makes the stream wait. */
TEST(internal_dependencies_make_the_stream_wait)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
    keep_busy(a);
    char *p = take(pool, 2 * MIB, a);
    give(p, a);
    keep_busy(a);
    char *q = take(pool, 2 * MIB, b);
    assert_ptr_equal(q, p);
    acl_ok(aclrtMemPoolFreeAsync(q, b));
    acl_ok(aclrtSynchronizeStream(b));
    assert_true(is_busy(a)); /* the wait covers only the work of a before the free, so a is still busy */
    finish();
    acl_ok(aclrtMemPoolDestroy(pool));
}

/* If a block is freed on another stream than the one that allocated it, the stream of the free decides which work must
 * end before the reuse. */
TEST(the_freeing_stream_decides)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    aclrtEvent event = NULL;
    keep(pool, 64 * MIB);
    acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    char *p = take(pool, 2 * MIB, a);
    acl_ok(aclrtRecordEvent(event, a));
    acl_ok(aclrtStreamWaitEvent(b, event));
    keep_busy(b);
    give(p, b);
    char *q = take(pool, 2 * MIB, a);
    assert_ptr_not_equal(q, p);
    char *r = take(pool, 2 * MIB, b);
    assert_ptr_equal(r, p);
    give(q, a);
    give(r, b);
    finish();
    acl_ok(aclrtDestroyEvent(event));
    acl_ok(aclrtMemPoolDestroy(pool));
}

/* A block is allocated on one stream and freed, unused, on a second stream without an order between them. Work of the
 * first stream may still run when the work of the second is over, so the pool waits for both. */
TEST(an_unordered_free_waits_for_both)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    void *q = NULL;
    keep_busy(a);
    char *p = take(pool, 2 * MIB, a);
    give(p, a);
    acl_ok(aclrtMemPoolMallocAsync(&q, 2 * MIB, pool, a));
    assert_ptr_equal(p, q);
    acl_ok(aclrtMemPoolFreeAsync(q, b));
    char *r = take(pool, 2 * MIB, b);
    assert_ptr_not_equal(r, q);
    /* the first stream does not get the block back either, because b has used it last */
    char *s = take(pool, 2 * MIB, a);
    assert_ptr_not_equal(s, q);
    give(r, b);
    give(s, a);
    finish();
    assert_int_equal(reserved(pool), 0);
    acl_ok(aclrtMemPoolDestroy(pool));
}

TEST(the_threshold_decides_at_a_synchronisation)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    const size_t before = left();
    char *p = take(pool, 6 * MIB, a), *q = take(pool, 4 * MIB, a);
    give(p, a);
    give(q, a);
    assert_int_equal(reserved(pool), 10 * MIB);
    assert_int_equal(before - left(), 10 * MIB);
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(reserved(pool), 0);
    assert_int_equal(left(), before);
    keep(pool, 4 * MIB);
    p = take(pool, 6 * MIB, a);
    q = take(pool, 4 * MIB, a);
    give(p, a);
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(reserved(pool), 8 * MIB); /* bytes in use and 4 MiB of idle memory */
    give(q, a);
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(reserved(pool), 4 * MIB);
    assert_int_equal(number(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH), 10 * MIB);
    assert_int_equal(number(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH), 10 * MIB);
    uint64_t zero = 0;
    acl_ok(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH, &zero));
    acl_ok(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &zero));
    assert_int_equal(number(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH), 4 * MIB);
    assert_int_equal(number(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH), 0);
    acl_ok(aclrtMemPoolDestroy(pool));
    assert_int_equal(left(), before);
}

/* Memory that another stream's work may still touch is not released. */
TEST(a_synchronisation_releases_only_what_is_complete)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    keep_busy(a);
    keep_busy(a);
    char *p = take(pool, 2 * MIB, a), *q = take(pool, 4 * MIB, b);
    give(p, a);
    give(q, b);
    acl_ok(aclrtSynchronizeStream(b));
    assert_int_equal(reserved(pool), 2 * MIB);
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(reserved(pool), 0);
    acl_ok(aclrtMemPoolDestroy(pool));
}

TEST(trimming_outranks_the_threshold)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    keep(pool, 64 * MIB);
    char *p = take(pool, 8 * MIB, a), *q = take(pool, 4 * MIB, a);
    give(p, a);
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolTrimTo(pool, 4 * MIB - 1));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolTrimTo(pool, 0));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolTrimTo(pool, 64 * MIB + 1));
    acl_ok(aclrtMemPoolTrimTo(pool, 64 * MIB));
    assert_int_equal(reserved(pool), 12 * MIB);
    acl_ok(aclrtMemPoolTrimTo(pool, 8 * MIB));
    assert_int_equal(reserved(pool), 8 * MIB);
    acl_ok(aclrtMemPoolTrimTo(pool, 4 * MIB));
    assert_int_equal(reserved(pool), 4 * MIB);
    acl_ok(aclrtMemsetAsync(q, 4 * MIB, 3, 4 * MIB, a));
    give(q, a);
    acl_ok(aclrtMemPoolTrimTo(pool, 3 * MIB)); /* the pool keeps at least 3 MiB, rounded up to whole pages */
    assert_int_equal(reserved(pool), 4 * MIB);
    acl_ok(aclrtMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 0);
    acl_ok(aclrtMemPoolDestroy(pool));
}

/* Four idle pieces of 2 MiB do not serve a request of 8 MiB: idle memory is not moved, so the pool grows. */
TEST(fragments_stay_where_they_are)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    keep(pool, 64 * MIB);
    char *p[8];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 8; i++) {
            p[i] = take(pool, 2 * MIB, a);
        }
        for (int i = 0; i < 8; i += 2) {
            give(p[i], a);
        }
        char *large = take(pool, 8 * MIB, a);
        give(large, a);
        for (int i = 1; i < 8; i += 2) {
            give(p[i], a);
        }
        assert_int_equal(number(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH), 24 * MIB);
    }
    finish();
    acl_ok(aclrtMemPoolDestroy(pool));
}

TEST(memory_outside_pools_is_freed_in_stream_order)
{
    const size_t before = left();
    void *p = NULL;
    acl_ok(aclrtMalloc(&p, 4 * MIB - 32, ACL_MEM_MALLOC_HUGE_FIRST));
    keep_busy(a);
    acl_ok(aclrtMemsetAsync(p, 4 * MIB - 32, 7, 4 * MIB - 32, a));
    acl_ok(aclrtMemPoolFreeAsync(p, a));
    assert_int_equal(before - left(), 4 * MIB);
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(left(), before);
    /* aclrtMemPoolFreeAsync accepts the default stream. It also accepts an unknown address: the call itself reports no
     * error. */
    acl_ok(aclrtMalloc(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemPoolFreeAsync(p, NULL));
    int local = 0;
    acl_ok(aclrtMemPoolFreeAsync(&local, NULL));
    acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(left(), before);
}

TEST(aclrtFree_gives_a_block_to_all_streams)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    char *p = take(pool, 4 * MIB, a);
    void *base = NULL;
    size_t size = 0;
    acl_ok(aclrtMemGetAddressRange(p + 100, &base, &size));
    assert_ptr_equal(base, p);
    assert_int_equal(size, 4 * MIB);
    aclrtPtrAttributes attributes;
    acl_ok(aclrtPointerGetAttributes(p + 1, &attributes));
    assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    keep(pool, 64 * MIB);
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtFree(p));
    assert_int_equal(used(pool), 0);
    assert_int_equal(reserved(pool), 4 * MIB);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemGetAddressRange(p + 100, &base, &size));
    char *q = take(pool, 4 * MIB, b);
    assert_ptr_equal(p, q);
    give(q, b);
    finish();
    acl_ok(aclrtMemPoolDestroy(pool));
}

TEST(copies_work_like_on_any_memory)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    char *p = take(pool, 5 * MIB, a);
    char *host = NULL;
    acl_ok(aclrtMallocHost((void **)&host, 5 * MIB));
    for (size_t i = 0; i < 5 * MIB; i++) {
        host[i] = (char)(i * 31 >> 7);
    }
    acl_ok(aclrtMemcpyAsync(p, 5 * MIB, host, 5 * MIB, ACL_MEMCPY_HOST_TO_DEVICE, a));
    char *q = take(pool, 5 * MIB, a);
    acl_ok(aclrtMemcpyAsync(q, 5 * MIB, p, 5 * MIB, ACL_MEMCPY_DEVICE_TO_DEVICE, a));
    acl_ok(aclrtMemPoolFreeAsync(p, a));
    acl_ok(aclrtSynchronizeStream(a));
    memset(host, 0, 5 * MIB);
    acl_ok(aclrtMemcpy(host, 5 * MIB, q, 5 * MIB, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < 5 * MIB; i++) {
        assert_int_equal(host[i], (char)(i * 31 >> 7));
    }
    acl_ok(aclrtMemPoolFreeAsync(q, a));
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtFreeHost(host));
    acl_ok(aclrtMemPoolDestroy(pool));
}

/* The host holds up a stream. No other stream gets memory of that stream, and the pool does not wait for the stream. */
TEST(memory_of_a_blocked_stream_is_not_reused)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    aclrtEvent gate = NULL;
    acl_ok(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, 1);
    acl_ok(aclrtStreamWaitEvent(a, gate)); /* the event has a flag, so the stream waits until a record */
    char *p = take(pool, 4 * MIB, a);
    give(p, a);
    char *q = take(pool, 4 * MIB, b);
    assert_ptr_not_equal(q, p);
    char *r = take(pool, 4 * MIB, a);
    assert_ptr_equal(r, p);
    give(r, a);
    char *large = take(pool, 8 * MIB, a);
    give(large, a);
    give(q, b);
    acl_ok(aclrtMemPoolTrimTo(pool, 0));
    assert_true(reserved(pool) >= 8 * MIB);
    acl_ok(aclrtRecordEvent(gate, b));
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(reserved(pool), 0);
    finish();
    acl_ok(aclrtDestroyEvent(gate));
    acl_ok(aclrtMemPoolDestroy(pool));
}

/* After a stream is destroyed, no work of it can touch memory. */
TEST(memory_of_a_destroyed_stream_is_reused)
{
    const aclrtMemPool pool = pool_of(64 * MIB);
    aclrtStream gone = NULL;
    keep(pool, 64 * MIB);
    char *first = NULL;
    for (int i = 0; i < 50; i++) {
        acl_ok(aclrtCreateStream(&gone));
        char *p = take(pool, 4 * MIB, gone);
        first = first != NULL ? first : p;
        assert_ptr_equal(p, first);
        give(p, gone);
        acl_ok(i % 2 == 0 ? aclrtDestroyStream(gone) : aclrtDestroyStreamForce(gone));
    }
    assert_int_equal(reserved(pool), 4 * MIB);
    finish();
    acl_ok(aclrtMemPoolDestroy(pool));
}

TEST(a_pool_goes_with_its_device)
{
    aclrtMemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.location = (aclrtMemLocation){1, ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtMemPool pool = NULL;
    void *p = NULL;
    acl_ok(aclrtMemPoolCreate(&pool, &props));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolMallocAsync(&p, 1, pool, a));
    acl_ok(aclrtSetDevice(1));
    aclrtStream theirs = NULL;
    acl_ok(aclrtCreateStream(&theirs));
    (void)take(pool, 4 * MIB, theirs);
    acl_ok(aclrtSynchronizeStream(theirs));
    const size_t before = left();
    acl_ok(aclrtResetDeviceForce(1));
    acl_ok(aclrtSetDevice(1));
    assert_int_equal(left() - before, 4 * MIB);
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolDestroy(pool));
    acl_ok(aclrtResetDeviceForce(1));
    acl_ok(aclrtSetDevice(0));
}

TEST(a_pool_with_blocks_in_use_goes_all_the_same)
{
    const size_t before = left();
    const aclrtMemPool pool = pool_of(64 * MIB);
    char *p = take(pool, 4 * MIB, a);
    (void)take(pool, 4 * MIB, a);
    give(p, a);
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtMemPoolDestroy(pool));
    assert_int_equal(left(), before);
}

ACL_ENVIRONMENT(CAPACITY, "256MiB")
ACL_ENVIRONMENT(COSTS, "fill_per_mib=1000000")
ACL_ENVIRONMENT(EXIT_CODE, "3")
ALL_TESTS(set_up, tear_down)
