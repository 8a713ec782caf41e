/* tests/pool/unit/stream_many_test.c: a thousand streams: the number of searches and calls of a request if other
 * streams have no memory for it.
 *
 * The strategy is `caching` with its searches counted; the device is the simulator behind an adaptor that counts calls.
 */
#include "rig/sim.h"

#include "state/state.h"

#include <weir/adaptor.h>
#include <weir/caching.h>

#include <malloc.h>

enum { many = 1000, rounds = 20 };

static const weir_strategy_ops *caching;
static uint64_t searches;

static weir_status counted_alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align,
                                 weir_range *range)
{
    searches++;
    return caching->alloc(state, lane, limit, size, align, range);
}

struct world {
    weir_sim *sim;
    weir_device *device;
    weir_pool *pool;
    weir_sim_stream *native[many];
    weir_stream *stream[many];
};

static struct world w;
static weir_strategy_ops counted;

static void open_world(int streams)
{
    memset(&w, 0, sizeof(w));
    caching = weir_caching_strategy();
    counted = *caching;
    counted.alloc = counted_alloc;
    weir_sim_config config = free_of_charge();
    config.capacity_bytes = UINT64_C(64) << 30;
    w.sim = new_sim(config);
    ok(weir_count_create(weir_sim_device(w.sim), &w.device));
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
    pool.device = w.device;
    pool.strategy = &counted;
    pool.flags = WEIR_POOL_REGIONS;
    ok(weir_pool_create(&pool, &w.pool));
    for (int i = 0; i < streams; i++) {
        w.native[i] = new_stream(w.sim);
        ok(weir_pool_stream(w.pool, w.native[i], &w.stream[i]));
    }
}

static void close_world(void)
{
    const char *why = "";
    if (weir_pool_check(w.pool, &why) != WEIR_OK) {
        fail_msg("check: %s", why);
    }
    ok(weir_pool_destroy(w.pool));
    ok(weir_device_destroy(w.device));
    ok(weir_sim_destroy(w.sim));
}

static void use_once(int stream, uint64_t size)
{
    weir_block *block = NULL;
    ok(weir_pool_alloc(w.pool, w.stream[stream], size, 0, &block));
    ok(weir_pool_free(w.pool, block, w.stream[stream]));
}

static uint64_t device_calls(void)
{
    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t all = 0;
    ok(weir_count_get(w.device, calls, NULL));
    for (int call = 0; call < WEIR_CALL_COUNT; call++) {
        all += calls[call];
    }
    return all;
}

static uint64_t region_allocs(void)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w.pool, &stats));
    return stats.region_allocs;
}

/* Returns the number of streams that the next poll looks at. */
static unsigned to_poll(void)
{
    unsigned count = 0;
    for (size_t lane = 0; (lane = next_lane(w.pool, lane + 1, lanes_to_poll)) != 0;) {
        count++;
    }
    return count;
}

/* Every stream has used memory once, and all of its work is complete and known to be. Requests of one stream find no
 * memory on other streams: each costs a few searches and a few device calls, independent of the number of streams. */
TEST(test_a_request_queries_no_idle_stream)
{
    open_world(many);
    for (int i = 0; i < many; i++) {
        use_once(i, 3 * MIB);
    }
    weir_block *held[rounds];
    ok(weir_pool_alloc(w.pool, w.stream[0], 40 * MIB, 0, &held[0]));
    assert_true(to_poll() <= 2);
    const uint64_t searches_before = searches;
    const uint64_t calls_before = device_calls();
    for (int i = 1; i < rounds; i++) {
        ok(weir_pool_alloc(w.pool, w.stream[0], (uint64_t)(40 + 2 * i) * MIB, 0, &held[i]));
        assert_true(to_poll() <= 2);
    }
    assert_true((searches - searches_before) / (rounds - 1) <= 16);
    assert_true((device_calls() - calls_before) / (rounds - 1) <= 8);
    for (int i = 0; i < rounds; i++) {
        ok(weir_pool_free(w.pool, held[i], w.stream[0]));
    }
    close_world();
}

/* Returns the bytes that the program has from malloc; 0 if another malloc than that of glibc serves it. */
static size_t host_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* A stream that holds no freed memory costs its record and little more, and a size in use costs a group of slots. */
TEST(test_a_stream_weighs_little)
{
    enum { stream_bytes = 3 * KIB, slot_bytes = 5 * KIB };
    open_world(1);
    for (int i = 1; i < many; i++) {
        w.native[i] = new_stream(w.sim);
    }
    const size_t before = host_bytes();
    for (int i = 1; i < many; i++) {
        ok(weir_pool_stream(w.pool, w.native[i], &w.stream[i]));
    }
    assert_true(host_bytes() - before <= (size_t)(many - 1) * stream_bytes);
    for (int i = 0; i < many; i++) {
        use_once(i, 4 * KIB);
        use_once(i, 8 * KIB);
    }
    assert_true(host_bytes() - before <= (size_t)many * (stream_bytes + slot_bytes));
    close_world();
}

/* Two streams hand one block's memory to each other, again and again: each free is found, although a poll has found the
 * stream empty before. */
TEST(test_a_poll_finds_each_new_free)
{
    static const uint64_t sizes[] = {3 * MIB, MIB / 2, 40 * MIB};
    for (size_t size = 0; size < sizeof(sizes) / sizeof(sizes[0]); size++) {
        open_world(2);
        use_once(0, sizes[size]);
        const uint64_t regions = region_allocs();
        for (int i = 1; i < rounds; i++) {
            use_once(i % 2, sizes[size]);
            use_once(i % 2, sizes[size]); /* through the register */
            assert_int_equal(region_allocs(), regions);
        }
        close_world();
    }
}

/* Each handle leads to its stream, before and after other streams have ended. */
TEST(test_handles_lead_to_their_streams)
{
    open_world(many);
    for (int i = 0; i < many; i += 3) {
        ok(weir_stream_retire(w.pool, w.stream[i]));
    }
    for (int i = 0; i < many; i++) {
        weir_stream *found = NULL;
        if (i % 3 != 0) {
            ok(weir_pool_stream(w.pool, w.native[i], &found));
            assert_ptr_equal(found, w.stream[i]);
        }
    }
    for (int i = 0; i < many; i += 3) {
        weir_stream *found = NULL;
        ok(weir_pool_stream(w.pool, w.native[i], &found)); /* takes the lowest free stream number */
        assert_ptr_equal(found, w.stream[i]);
    }
    close_world();
}
