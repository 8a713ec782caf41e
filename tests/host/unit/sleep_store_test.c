/* tests/host/unit/sleep_store_test.c: a pool sleeps with its contents in a host pool (weir/host_sleep.h): exact sizes,
 * limits of several processes, and nothing left once all is awake.
 */
enum { A, B, streams };

#include "rig/pool.h"

#include <weir/host_sleep.h>

#define PAGE (64 * KIB)

struct store {
    weir_shared_limit *limit;
    weir_host_pool *host;
    weir_sleep_config config;
};

static struct store open_store(uint64_t limit_bytes)
{
    struct store s = {.config = WEIR_SLEEP_CONFIG_INIT};
    weir_shared_limit_config limit = WEIR_SHARED_LIMIT_CONFIG_INIT;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    limit.limit_bytes = limit_bytes;
    ok(weir_shared_limit_create(&limit, &s.limit));
    config.flags = WEIR_HOST_NO_PAD | WEIR_HOST_ALLOW_UNPINNED; /* a test may not pin */
    config.kinds = UINT32_C(1) << WEIR_HOST_UNPINNED;
    config.chunk_bytes = 2 * MIB;
    config.shared_limit = s.limit;
    ok(weir_host_pool_create(&config, &s.host));
    ok(weir_host_sleep_store(s.host, &s.config.store));
    return s;
}

static void close_store(struct store *s)
{
    ok(weir_host_check(s->host, NULL));
    ok(weir_host_pool_destroy(s->host));
    ok(weir_shared_limit_destroy(s->limit));
}

static uint64_t shared_bytes(const struct store *s)
{
    weir_shared_limit_stats stats = WEIR_SHARED_LIMIT_STATS_INIT;
    ok(weir_shared_limit_get_stats(s->limit, &stats));
    return stats.held_bytes;
}

static uint64_t host_bytes(const struct store *s)
{
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    ok(weir_host_get_stats(s->host, WEIR_HOST_ANY_NODE, &stats));
    return stats.held_bytes;
}

static struct world open_pool(void)
{
    weir_sim_config device = device_of_units(PAGE, 0);
    device.mode = WEIR_SIM_BACKED;
    return world_over(new_sim(device), (weir_pool_config)WEIR_POOL_CONFIG_INIT);
}

/* Sizes are no multiples of anything: 130 MiB in eleven blocks of two tags. */
static uint64_t fill(struct world *w, weir_block **blocks, weir_tag tag)
{
    uint64_t bytes = 0;
    for (int i = 0; i < 11; i++) {
        const uint64_t size = 12 * MIB + 77777 * (uint64_t)i;
        ok(weir_pool_alloc_tagged(w->pool, w->stream[i % 2], size, 0, i % 2 == 0 ? tag : 0, &blocks[i]));
        ok(weir_sim_fill(w->sim, w->native[i % 2], weir_block_address(blocks[i]), size, (uint8_t)(i + 1), "fill"));
        bytes += size;
    }
    return bytes;
}

static void must_have(struct world *w, weir_block *const *blocks)
{
    ok(weir_sim_sync(w->sim));
    for (int i = 0; i < 11; i++) {
        const uint64_t size = weir_block_size(blocks[i]);
        const uint8_t *bytes = weir_sim_bytes(w->sim, weir_block_address(blocks[i]), size);
        assert_non_null(bytes);
        for (uint64_t at = 0; at < size; at += 65521) {
            assert_int_equal(bytes[at], i + 1);
        }
        assert_int_equal(bytes[size - 1], i + 1);
    }
}

TEST(test_what_is_kept_takes_its_bytes)
{
    struct world w = open_pool();
    struct store s = open_store(UINT64_C(1) << 30);
    weir_block *blocks[11];
    weir_tag tag = 0;
    ok(weir_pool_tag(w.pool, "weights", &tag));
    const uint64_t bytes = fill(&w, blocks, tag);
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    for (int cycle = 0; cycle < 5; cycle++) {
        ok(weir_pool_sleep(w.pool, &s.config, &report));
        assert_true(report.kept_bytes >= bytes);
        assert_true(report.host_bytes <= report.kept_bytes + report.kept_bytes / 50);
        assert_true(host_bytes(&s) <= bytes + bytes / 50); /* in whole chunks */
        assert_int_equal(shared_bytes(&s), host_bytes(&s));
        ok(weir_pool_wake(w.pool, &tag, 1, &report)); /* a part is enough for its host memory to go */
        assert_true(host_bytes(&s) <= bytes / 2);
        ok(weir_pool_wake(w.pool, NULL, 0, &report));
        assert_int_equal(host_bytes(&s), 0);
        assert_int_equal(shared_bytes(&s), 0);
    }
    must_have(&w, blocks);
    end_world(&w);
    close_store(&s);
}

/* Another process holds the memory: the pool stays awake. */
TEST(test_the_limit_of_all_processes)
{
    struct world w = open_pool();
    struct store s = open_store(140 * MIB);
    weir_block *blocks[11];
    weir_tag tag = 0;
    ok(weir_pool_tag(w.pool, "weights", &tag));
    (void)fill(&w, blocks, tag);
    ok(weir_shared_limit_take(s.limit, 40 * MIB));
    fails(weir_pool_sleep(w.pool, &s.config, NULL), WEIR_ERR_LIMIT);
    assert_int_equal(host_bytes(&s), 0);
    for (int i = 0; i < 11; i++) {
        assert_false(weir_block_is_asleep(blocks[i]));
    }
    must_have(&w, blocks);
    ok(weir_shared_limit_give(s.limit, 40 * MIB));
    ok(weir_pool_sleep(w.pool, &s.config, NULL));
    ok(weir_pool_wake(w.pool, NULL, 0, NULL));
    must_have(&w, blocks);
    end_world(&w);
    close_store(&s);
}

TEST(test_a_pool_that_ends_asleep)
{
    struct world w = open_pool();
    struct store s = open_store(UINT64_C(1) << 30);
    weir_block *blocks[11];
    (void)fill(&w, blocks, 0);
    ok(weir_pool_sleep(w.pool, &s.config, NULL));
    assert_true(host_bytes(&s) > 0);
    end_world(&w);
    assert_int_equal(host_bytes(&s), 0);
    close_store(&s);
}

TEST(test_refusals)
{
    weir_sleep_store store;
    struct store s = open_store(UINT64_C(1) << 30);
    fails(weir_host_sleep_store(NULL, &store), WEIR_ERR_INVALID);
    fails(weir_host_sleep_store(s.host, NULL), WEIR_ERR_INVALID);
    close_store(&s);
}
