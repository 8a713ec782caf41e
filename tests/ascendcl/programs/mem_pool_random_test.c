/* mem_pool_random_test.c: random calls of memory pools on several streams.
 *
 * There are two checks. The auditor sees every access and every wait, and knows nothing of the pool. A count of the
 * bytes in use is compared with each attribute of the pool after each call. With one stream a model of the pages also
 * predicts the address of every block: the best fit.
 */
#include "rig/acl.h"

#include <stdio.h>
#include <string.h>

#define PAGE (2 * MIB)

enum { STREAMS = 4, EVENTS = 6, BLOCKS = 24, POOLS = 2 };
static const size_t most[POOLS] = {96 * MIB, 40 * MIB};

struct block {
    char *address; /* NULL: none */
    size_t size;
    int pool;
    int stream; /* the stream of its last use */
};

struct world {
    aclrtStream stream[STREAMS];
    aclrtEvent event[EVENTS];
    bool recorded[EVENTS];
    aclrtMemPool pool[POOLS];
    uint64_t threshold[POOLS];
    uint64_t used[POOLS];
    uint64_t used_high[POOLS];
    struct block block[BLOCKS];
};

static uint64_t random_state;
static struct world w;

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

static void use(struct block *b, int stream)
{
    acl_ok(aclrtMemsetAsync(b->address, b->size, 1, 1 + draw((uint32_t)(b->size < MIB ? b->size : MIB)),
                            w.stream[stream]));
}

static bool allocate(struct block *b, int pool, int stream, size_t size)
{
    void *pointer = NULL;
    const aclError error = aclrtMemPoolMallocAsync(&pointer, size, w.pool[pool], w.stream[stream]);
    if (error != ACL_SUCCESS) {
        assert_int_equal(error, ACL_ERROR_RT_INTERNAL_ERROR);
        assert_null(pointer);
        return false;
    }
    *b = (struct block){pointer, size, pool, stream};
    w.used[pool] += rounded(size);
    w.used_high[pool] = w.used[pool] > w.used_high[pool] ? w.used[pool] : w.used_high[pool];
    assert_true(w.used[pool] <= most[pool]);
    for (const struct block *other = w.block; other < w.block + BLOCKS; other++) {
        assert_true(other == b || other->address == NULL || other->address + rounded(other->size) <= b->address ||
                    b->address + rounded(size) <= other->address);
    }
    use(b, stream);
    return true;
}

static void release(struct block *b)
{
    acl_ok(aclrtMemPoolFreeAsync(b->address, w.stream[b->stream]));
    w.used[b->pool] -= rounded(b->size);
    b->address = NULL;
}

/* Makes another stream the next user of the block, ordered after the present one. */
static void hand_over(struct block *b)
{
    const int to = (int)draw(STREAMS);
    const int e = (int)draw(EVENTS);
    acl_ok(aclrtRecordEvent(w.event[e], w.stream[b->stream]));
    acl_ok(aclrtStreamWaitEvent(w.stream[to], w.event[e]));
    w.recorded[e] = true;
    b->stream = to;
    use(b, to);
}

static void step_on_block(struct block *b)
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
    for (const struct block *b = w.block; b < w.block + BLOCKS; b++) {
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
    for (struct block *b = w.block; b < w.block + BLOCKS; b++) {
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

TEST(streams_never_share_unfinished_memory)
{
    for (uint64_t seed = 1; seed <= 25; seed++) {
        begin(seed);
        for (int step = 0; step < 600; step++) {
            one_step();
            look_at((int)draw(POOLS));
        }
        end();
    }
}

/* --- a model of a pool that is used by one stream --- */

enum { PAGES = 48 }; /* pages of pool 0 */
typedef enum page_state { EMPTY, IDLE, IN_USE } page_state;
static page_state page[PAGES];

/* Returns the first page of the shortest run of at least `count` pages in a state, the lowest of equals; -1: none. */
static int shortest_run(page_state state, int count)
{
    int best = -1, best_length = PAGES + 1;
    for (int i = 0; i < PAGES;) {
        int length = 0;
        while (i + length < PAGES && page[i + length] == state) {
            length++;
        }
        if (length >= count && length < best_length) {
            best = i;
            best_length = length;
        }
        i += length > 0 ? length : 1;
    }
    return best;
}

static void set_pages(int first, int count, page_state state)
{
    for (int i = first; i < first + count; i++) {
        page[i] = state;
    }
}

/* Returns the page at which the pool has to place a request; -1: it has to refuse. If neither idle memory nor empty
 * addresses hold the request, the pool returns the idle memory that no unfinished work touches. With one stream that is
 * all idle memory. */
static int best_place(int count)
{
    int place = shortest_run(IDLE, count);
    place = place >= 0 ? place : shortest_run(EMPTY, count);
    if (place < 0) {
        acl_ok(aclrtSynchronizeStream(w.stream[0]));
        for (int i = 0; i < PAGES; i++) {
            page[i] = page[i] == IDLE ? EMPTY : page[i];
        }
        place = shortest_run(EMPTY, count);
    }
    return place;
}

static uint64_t pages_with_memory(void)
{
    uint64_t count = 0;
    for (int i = 0; i < PAGES; i++) {
        count += page[i] != EMPTY;
    }
    return count;
}

/* Any pattern of calls on one stream: each block lies where the best fit is, and the pool holds the pages of the model.
 */
TEST(one_stream_gets_the_best_fit)
{
    assert_int_equal(PAGES * PAGE, most[0]);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        begin(seed);
        set_pages(0, PAGES, EMPTY);
        char *start = NULL;
        acl_ok(aclrtMemPoolSetAttr(w.pool[0], ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, (void *)&(uint64_t){most[0]}));
        for (int step = 0; step < 800; step++) {
            struct block *b = &w.block[draw(BLOCKS)];
            const size_t size = b->address != NULL ? b->size : 1 + draw(10 * MIB);
            const int count = (int)(rounded(size) / PAGE);
            if (b->address != NULL) {
                set_pages((int)((size_t)(b->address - start) / PAGE), count, IDLE);
                release(b);
            } else {
                const int place = best_place(count);
                assert_int_equal(allocate(b, 0, 0, size), place >= 0);
                if (place >= 0) {
                    start = start != NULL ? start : b->address;
                    assert_ptr_equal(b->address, start + (size_t)place * PAGE);
                    set_pages(place, count, IN_USE);
                }
            }
            assert_int_equal(number(0, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT), pages_with_memory() * PAGE);
        }
        end();
    }
}

/* Equal rounds one after another do not grow the pool. Each random program draws other sizes. */
TEST(rounds_repeat_without_growth)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        uint64_t first = 0;
        begin(seed);
        acl_ok(aclrtMemPoolSetAttr(w.pool[0], ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, (void *)&(uint64_t){UINT64_MAX}));
        for (int round = 0; round < 10; round++) {
            random_state = seed;
            for (int step = 0; step < 100; step++) {
                struct block *b = &w.block[draw(BLOCKS)];
                if (b->address != NULL) {
                    release(b);
                } else {
                    (void)allocate(b, 0, 0, 1 + draw(6 * MIB));
                }
            }
            for (struct block *b = w.block; b < w.block + BLOCKS; b++) {
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

ACL_ENVIRONMENT(CAPACITY, "128MiB") /* less than both pools together */
ACL_ENVIRONMENT(COSTS, "fill_per_mib=300000")
ACL_ENVIRONMENT(EXIT_CODE, "3")
ALL_TESTS(use_device, NULL)
