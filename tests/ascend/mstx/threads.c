/* tests/ascend/mstx/threads.c: several threads on an announced pool, under the checking tool: threads exchange blocks,
 * memory is trimmed, and one thread attaches and detaches all the time. No finding, and no announced memory at the
 * end. */
#include "rig/test.h"

#include <weir/caching.h>
#include <weir/mstx.h>
#include <weir/sim.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "checker.h"

#define REGION UINT64_C(65536)

enum { workers = 2, lanes = 3, handed = 16, steps = 4000 };

struct shared {
    weir_pool *pool;
    weir_stream *stream[lanes];
    weir_block *_Atomic table[handed];
    atomic_bool stop;
};

struct worker {
    struct shared *shared;
    uint64_t random;
    int lane;
    uint64_t failures;
};

static uint64_t below(struct worker *worker, uint64_t n)
{
    worker->random = worker->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (worker->random >> 33) % n;
}

static void *work(void *ctx)
{
    struct worker *worker = ctx;
    struct shared *shared = worker->shared;
    for (int step = 0; step < steps; step++) {
        weir_block *block = NULL;
        const uint64_t size = below(worker, 4) == 0 ? 1 + below(worker, 3 * REGION) : 512;
        weir_status status = weir_pool_alloc(shared->pool, shared->stream[worker->lane], size, 0, &block);
        worker->failures += status != WEIR_OK;
        block = atomic_exchange(&shared->table[below(worker, handed)], status == WEIR_OK ? block : NULL);
        if (block != NULL) {
            status = weir_pool_free(shared->pool, block, shared->stream[below(worker, lanes)]);
            worker->failures += status != WEIR_OK;
        }
        if (below(worker, 200) == 0) {
            status = weir_pool_trim(shared->pool, 0, WEIR_TRIM_WAIT, NULL);
            worker->failures += status != WEIR_OK;
        }
    }
    return NULL;
}

static void *attach_and_detach(void *ctx)
{
    struct worker *visitor = ctx;
    while (!atomic_load(&visitor->shared->stop)) {
        weir_mstx *mstx = NULL;
        weir_status status = weir_mstx_attach(visitor->shared->pool, NULL, &mstx);
        visitor->failures += status != WEIR_OK;
        const struct timespec moment = {.tv_nsec = 300000};
        (void)nanosleep(&moment, NULL);
        weir_mstx_stats counters = WEIR_MSTX_STATS_INIT;
        status = weir_mstx_get_stats(mstx, &counters);
        visitor->failures += status != WEIR_OK || counters.lost != 0;
        status = weir_mstx_detach(mstx);
        visitor->failures += status != WEIR_OK;
    }
    return NULL;
}

static void run(uint32_t flags, const char *domain, bool visited)
{
    weir_sim *sim = NULL;
    weir_sim_config device = WEIR_SIM_CONFIG_INIT;
    device.capacity_bytes = 256 * REGION;
    device.region_granularity_bytes = REGION;
    device.page_bytes = REGION;
    device.no_audit = true;
    assert_int_equal(weir_sim_create(&device, &sim), WEIR_OK);
    static const weir_caching_config small = {.struct_size = sizeof(small), .small_region_bytes = REGION};
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    config.strategy_config = &small;
    config.flags = flags;
    struct shared shared = {.stop = false};
    assert_int_equal(weir_pool_create(&config, &shared.pool), WEIR_OK);
    for (int i = 0; i < lanes; i++) {
        weir_sim_stream *native = NULL;
        assert_int_equal(weir_sim_stream_create(sim, &native), WEIR_OK);
        assert_int_equal(weir_pool_stream(shared.pool, native, &shared.stream[i]), WEIR_OK);
    }
    weir_mstx *mstx = NULL;
    weir_mstx_config announce = WEIR_MSTX_CONFIG_INIT;
    announce.domain = domain;
    struct worker hands[workers + 1];
    pthread_t threads[workers + 1];
    for (int i = 0; i <= workers; i++) {
        hands[i] = (struct worker){.shared = &shared, .random = (uint64_t)i + 1, .lane = i % lanes};
    }
    if (visited) {
        assert_int_equal(pthread_create(&threads[workers], NULL, attach_and_detach, &hands[workers]), 0);
    } else {
        assert_int_equal(weir_mstx_attach(shared.pool, &announce, &mstx), WEIR_OK);
    }
    for (int i = 0; i < workers; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &hands[i]), 0);
    }
    for (int i = 0; i < workers; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    atomic_store(&shared.stop, true);
    if (visited) {
        assert_int_equal(pthread_join(threads[workers], NULL), 0);
        assert_int_equal(weir_mstx_attach(shared.pool, &announce, &mstx), WEIR_OK);
    }
    for (int i = 0; i <= workers; i++) {
        assert_int_equal(hands[i].failures, 0);
    }
    for (int i = 0; i < handed; i++) {
        weir_block *block = shared.table[i];
        assert_true(block == NULL ||
                    check_covers((const void *)(uintptr_t)weir_block_address(block), weir_block_capacity(block)));
    }
    assert_int_equal(weir_pool_destroy(shared.pool), WEIR_OK); /* frees the blocks that are left */
    assert_int_equal(weir_mstx_detach(mstx), WEIR_OK);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    uint64_t heaps = 1;
    uint64_t regions = 1;
    check_announced(&heaps, &regions);
    assert_int_equal(heaps + regions, 0);
    assert_int_equal(check_findings(NULL), 0);
}

TEST(threads_share_an_announced_pool)
{
    run(WEIR_POOL_REGIONS, NULL, false);
    run(0, NULL, false);
    run(WEIR_POOL_REGIONS, "", false);
    run(0, "ptaCaching", false); /* no heaps, no handles */
}

TEST(attachments_come_and_go)
{
    run(WEIR_POOL_REGIONS, NULL, true);
    run(0, NULL, true);
}

int main(void)
{
    load_checker(NULL);
    return run_all_tests("tests");
}
