/* The host pool when host memory runs out: every request for host memory fails in turn, and so does
 * every device call. */
#include "rig/test.h"
#include "pool/fault/failing.h"

#include <weir/host.h>
#include <weir/sim.h>

#include <stdio.h>
#include <string.h>

static const weir_topology *machine;
static weir_device *streams; /* a simulated device; its own requests do not count as the pool's */

static const uint64_t sizes[] = {100, 5000, 60000, 70000, MIB, 3 * MIB};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

static weir_status make(weir_host_pool **pool, uint32_t flags)
{
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    runtime.device = streams;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = flags | (uint32_t)WEIR_HOST_ALLOW_UNPINNED;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    config.topology = machine;
    config.runtime = &runtime;
    config.chunk_bytes = 2 * MIB;
    return weir_host_pool_create(&config, pool);
}

static bool is_expected(weir_status status)
{
    return status == WEIR_OK || (host_struck && status == WEIR_ERR_NO_MEMORY) ||
           (fail_every != 0 && (status == WEIR_ERR_DEVICE || status == WEIR_ERR_NO_MEMORY));
}

/* Uses every function of a pool, several times. Returns false if the pool could not be created. */
static bool live_and_die(uint32_t flags)
{
    weir_host_pool *pool = NULL;
    weir_sim_stream *stream = NULL; /* the default stream */
    const weir_status made = POOL(make(&pool, flags));
    assert_true(is_expected(made));
    if (made != WEIR_OK) {
        assert_null(pool);
        return false;
    }
    uint64_t live = 0;
    void *blocks[3 * SIZES] = {0};
    for (size_t i = 0; i < 3 * SIZES; i++) {
        const uint64_t size = sizes[i % SIZES];
        weir_status status = POOL(weir_host_alloc(pool, size, WEIR_HOST_THREAD_NODE, &blocks[i]));
        assert_true(is_expected(status));
        assert_true((status == WEIR_OK) == (blocks[i] != NULL));
        if (blocks[i] != NULL) {
            memset(blocks[i], (int)i, size);
            live++;
        }
        if (i % 3 == 2 && blocks[i] != NULL) {
            status = POOL(weir_host_free_after(pool, blocks[i], stream));
            assert_true(is_expected(status));
            if (status != WEIR_OK) { /* the block was not freed */
                assert_int_equal(POOL(weir_host_free(pool, blocks[i])), WEIR_OK);
            }
            blocks[i] = NULL;
            live--;
        }
    }
    for (size_t i = 0; i < 3 * SIZES; i++) {
        if (blocks[i] != NULL) {
            assert_int_equal(*(unsigned char *)blocks[i], i);
            assert_int_equal(POOL(weir_host_free(pool, blocks[i])), WEIR_OK); /* a free never fails */
            live--;
        }
    }
    const char *why = "";
    assert_true(is_expected(POOL(weir_host_stream_retire(pool, stream))));
    assert_true(is_expected(POOL(weir_host_trim(pool, 0, NULL))));
    const weir_status checked = POOL(weir_host_check(pool, &why));
    assert_true(is_expected(checked) || checked == WEIR_ERR_INTERNAL);
    if (checked == WEIR_ERR_INTERNAL) {
        fail_msg("%s", why);
    }
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    assert_int_equal(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats), WEIR_OK);
    assert_int_equal(live, 0);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.allocs, stats.frees);
    /* Without further failures the pool works. */
    fail_at = 0;
    const uint64_t every = fail_every;
    fail_every = 0;
    void *ptr = NULL;
    assert_int_equal(POOL(weir_host_alloc(pool, 3 * MIB, WEIR_HOST_THREAD_NODE, &ptr)), WEIR_OK);
    assert_int_equal(POOL(weir_host_free(pool, ptr)), WEIR_OK);
    fail_every = every;
    assert_true(is_expected(POOL(weir_host_pool_destroy(pool))));
    return true;
}

TEST(test_every_request_for_host_memory_fails)
{
    if (CANNOT_REPLACE_MALLOC) {
        print_message("malloc cannot be made to fail under this sanitizer\n");
        skip();
    }
    for (uint32_t flags = 0; flags <= WEIR_HOST_NO_THREAD_CACHE; flags += WEIR_HOST_NO_THREAD_CACHE) {
        uint64_t nth = 1;
        do {
            host_struck = false;
            requests = 0;
            fail_at = nth++;
            (void)live_and_die(flags);
        } while (host_struck);
        fail_at = 0;
        assert_true(nth > 20);
    }
}

TEST(test_device_calls_fail)
{
    for (fail_every = 40; fail_every > 1; fail_every--) {
        device_calls = 0;
        assert_true(live_and_die(0));
    }
    fail_every = 0;
}

int main(void)
{
    weir_topology *topology = NULL;
    weir_sim *sim = NULL;
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    if (weir_topology_create(NULL, &topology) != WEIR_OK) {
        (void)printf("skipped: this machine tells nothing of its memory\n");
        return 77;
    }
    machine = topology;
    if (weir_sim_create(&config, &sim) != WEIR_OK) {
        return 1;
    }
    inner = weir_sim_device(sim);
    if (weir_device_create(&pass_ops, NULL, &streams) != WEIR_OK) {
        return 1;
    }
    const int failed = run_all_tests("tests");
    assert_int_equal(weir_device_destroy(streams), WEIR_OK);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    weir_topology_destroy(topology);
    return failed;
}
