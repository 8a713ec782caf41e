/* soma_random_test.c: random calls of memory pools on several streams.
 *
 * Two checks: the auditor, which sees every access and every wait and no pool, and a count of the bytes in use, which
 * the test compares with each attribute after each call. With one stream the promise is exact: the pool never reserves
 * more than the peak of bytes in use.
 */
#include "acl_check.h"

#include <stdio.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)

enum { STREAMS = 4, EVENTS = 6, BLOCKS = 24, POOLS = 2 };
static const size_t most[POOLS] = {96 * MIB, 40 * MIB};

typedef struct block {
    char *address; /* NULL: none */
    size_t size;
    int pool;
    int stream; /* the stream of its last use */
} block;

typedef struct world {
    aclrtStream stream[STREAMS];
    aclrtEvent event[EVENTS];
    bool recorded[EVENTS];
    aclrtMemPool pool[POOLS];
    uint64_t threshold[POOLS];
    uint64_t used[POOLS];
    uint64_t used_high[POOLS];
    block block[BLOCKS];
} world;

static uint64_t random_state;
static world w;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

static size_t rounded(size_t size)
{
    return (size + PAGE - 1) / PAGE * PAGE;
}

static uint64_t number(int pool, aclrtMemPoolAttr attr)
{
    uint64_t value = 0;
    acl_ok(aclrtMemPoolGetAttr(w.pool[pool], attr, &value));
    return value;
}

static void look_at(int pool)
{
    const uint64_t reserved = number(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT);
    const uint64_t high = number(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH);
    assert_int_equal(number(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT), w.used[pool]);
    assert_int_equal(number(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH), w.used_high[pool]);
    assert_true(reserved >= w.used[pool] && reserved <= high && high <= most[pool]);
    assert_int_equal(reserved % PAGE, 0);
}

static void use(block *b, int stream)
{
    acl_ok(aclrtMemsetAsync(b->address, b->size, 1, 1 + draw((uint32_t)(b->size < MIB ? b->size : MIB)),
                            w.stream[stream]));
}

static bool allocate(block *b, int pool, int stream, size_t size)
{
    void *pointer = NULL;
    const aclError error = aclrtMemPoolMallocAsync(&pointer, size, w.pool[pool], w.stream[stream]);
    if (error != ACL_SUCCESS) {
        assert_int_equal(error, ACL_ERROR_RT_INTERNAL_ERROR);
        assert_null(pointer);
        return false;
    }
    *b = (block){pointer, size, pool, stream};
    w.used[pool] += rounded(size);
    w.used_high[pool] = w.used[pool] > w.used_high[pool] ? w.used[pool] : w.used_high[pool];
    assert_true(w.used[pool] <= most[pool]);
    for (const block *other = w.block; other < w.block + BLOCKS; other++) {
        assert_true(other == b || other->address == NULL || other->address + rounded(other->size) <= b->address ||
                    b->address + rounded(size) <= other->address);
    }
    use(b, stream);
    return true;
}

static void release(block *b)
{
    acl_ok(aclrtMemPoolFreeAsync(b->address, w.stream[b->stream]));
    w.used[b->pool] -= rounded(b->size);
    b->address = NULL;
}

/* Another stream uses the block next, in order. */
static void hand_over(block *b)
{
    const int to = (int)draw(STREAMS);
    const int e = (int)draw(EVENTS);
    acl_ok(aclrtRecordEvent(w.event[e], w.stream[b->stream]));
    acl_ok(aclrtStreamWaitEvent(w.stream[to], w.event[e]));
    w.recorded[e] = true;
    b->stream = to;
    use(b, to);
}

static void step_on_block(block *b)
{
    if (b->address == NULL) {
        (void)allocate(b, (int)draw(POOLS), (int)draw(STREAMS), 1 + draw(draw(4) == 0 ? 14 * MIB : 4 * MIB));
    } else if (draw(3) == 0) {
        hand_over(b);
    } else {
        release(b);
    }
}

static void synchronize(void)
{
    acl_ok(draw(8) == 0 ? aclrtSynchronizeDevice() : aclrtSynchronizeStream(w.stream[draw(STREAMS)]));
}

static void change_attribute(int pool)
{
    uint32_t on = draw(2);
    uint64_t threshold = draw(3) * 12 * MIB;
    if (draw(2) == 0) {
        acl_ok(aclrtMemPoolSetAttr(w.pool[pool], (aclrtMemPoolAttr)(1 + draw(3)), &on));
    } else {
        acl_ok(aclrtMemPoolSetAttr(w.pool[pool], ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
        w.threshold[pool] = threshold;
    }
}

static void trim(int pool)
{
    const uint64_t to = draw((uint32_t)most[pool] + 1);
    acl_expect(to < w.used[pool] ? ACL_ERROR_RT_INTERNAL_ERROR : ACL_SUCCESS, aclrtMemPoolTrimTo(w.pool[pool], to));
    if (to >= w.used[pool]) {
        assert_true(number(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) <= rounded(to));
    }
}

static void replace_stream(void)
{
    const int s = (int)draw(STREAMS);
    for (const block *b = w.block; b < w.block + BLOCKS; b++) {
        if (b->address != NULL && b->stream == s) {
            return;
        }
    }
    acl_ok(aclrtDestroyStream(w.stream[s]));
    acl_ok(aclrtCreateStream(&w.stream[s]));
}

static void one_step(void)
{
    const uint32_t what = draw(100);
    const int e = (int)draw(EVENTS);
    if (what < 60) {
        step_on_block(&w.block[draw(BLOCKS)]);
    } else if (what < 70) {
        acl_ok(aclrtRecordEvent(w.event[e], w.stream[draw(STREAMS)]));
        w.recorded[e] = true;
    } else if (what < 82) {
        if (w.recorded[e]) {
            acl_ok(aclrtStreamWaitEvent(w.stream[draw(STREAMS)], w.event[e]));
        }
    } else if (what < 90) {
        synchronize();
    } else if (what < 94) {
        change_attribute((int)draw(POOLS));
    } else if (what < 98) {
        trim((int)draw(POOLS));
    } else {
        replace_stream();
    }
}

static void begin(uint64_t seed)
{
    memset(&w, 0, sizeof(w));
    random_state = seed;
    for (int i = 0; i < STREAMS; i++) {
        acl_ok(aclrtCreateStream(&w.stream[i]));
    }
    for (int i = 0; i < EVENTS; i++) {
        acl_ok(aclrtCreateEventExWithFlag(&w.event[i], ACL_EVENT_SYNC));
    }
    for (int i = 0; i < POOLS; i++) {
        aclrtMemPoolProps props;
        memset(&props, 0, sizeof(props));
        props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
        props.maxSize = most[i];
        acl_ok(aclrtMemPoolCreate(&w.pool[i], &props));
    }
}

static void end(void)
{
    for (block *b = w.block; b < w.block + BLOCKS; b++) {
        if (b->address != NULL) {
            release(b);
        }
    }
    for (int i = 0; i < POOLS; i++) {
        uint64_t zero = 0;
        acl_ok(aclrtMemPoolSetAttr(w.pool[i], ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &zero));
    }
    acl_ok(aclrtSynchronizeDevice());
    for (int i = 0; i < POOLS; i++) {
        assert_int_equal(number(i, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT), 0);
        acl_ok(aclrtMemPoolDestroy(w.pool[i]));
    }
    for (int i = 0; i < STREAMS; i++) {
        acl_ok(aclrtDestroyStream(w.stream[i]));
    }
    for (int i = 0; i < EVENTS; i++) {
        acl_ok(aclrtDestroyEvent(w.event[i]));
    }
}

static void several_streams_never_meet(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        begin(seed);
        for (int step = 0; step < 600; step++) {
            one_step();
            look_at((int)draw(POOLS));
        }
        end();
    }
}

/* Any pattern of calls on one stream, never synchronised: the reserved bytes equal the peak of bytes in use, whatever
 * the sizes. */
static void one_stream_reserves_what_it_used(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        begin(seed);
        const uint64_t all = most[0];
        acl_ok(aclrtMemPoolSetAttr(w.pool[0], ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, (void *)&(uint64_t){all}));
        for (int step = 0; step < 800; step++) {
            block *b = &w.block[draw(BLOCKS)];
            if (b->address != NULL) {
                release(b);
            } else {
                const size_t size = 1 + draw(10 * MIB);
                const bool fits = w.used[0] + rounded(size) <= most[0];
                assert_int_equal(allocate(b, 0, 0, size), fits);
            }
            assert_int_equal(number(0, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH), w.used_high[0]);
        }
        end();
    }
}

/* Equal rounds one after another do not grow the pool. Each program draws other sizes. */
static void rounds_repeat_without_growth(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        uint64_t first = 0;
        begin(seed);
        acl_ok(aclrtMemPoolSetAttr(w.pool[0], ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, (void *)&(uint64_t){UINT64_MAX}));
        for (int round = 0; round < 10; round++) {
            random_state = seed;
            for (int step = 0; step < 100; step++) {
                block *b = &w.block[draw(BLOCKS)];
                if (b->address != NULL) {
                    release(b);
                } else {
                    (void)allocate(b, 0, 0, 1 + draw(6 * MIB));
                }
            }
            for (block *b = w.block; b < w.block + BLOCKS; b++) {
                if (b->address != NULL) {
                    release(b);
                }
            }
            first = round == 0 ? number(0, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH) : first;
            assert_int_equal(number(0, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH), first);
        }
        end();
    }
}

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    return 0;
}

int main(void)
{
    acl_environment("CAPACITY", "128MiB"); /* less than both pools together */
    acl_environment("COSTS", "fill_per_mib=300000");
    acl_environment("EXIT_CODE", "3");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_streams_never_meet),
        cmocka_unit_test(one_stream_reserves_what_it_used),
        cmocka_unit_test(rounds_repeat_without_growth),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
