/* sleep_test.c: a pool over the CUDA driver sleeps and wakes (weir/sleep.h) on the driver's double: the device gets its
 * memory back, and the contents return, also when calls of the driver fail for a time.
 */
#include "rig/seeds.h"
#include "cuda_test.h"

#include <weir/budget.h>
#include <weir/sleep.h>

#include <stdlib.h>

#define LARGE (80 * MIB) /* goes in several pieces */

static unsigned char host[LARGE];

static unsigned char byte_at(size_t at, int seed)
{
    return (unsigned char)(at + at / 509 + at / MIB * 31 + (size_t)seed);
}

static weir_block *filled(struct world *w, size_t size, weir_tag tag, int seed)
{
    weir_block *block = NULL;
    ok(weir_pool_alloc_tagged(w->pool, w->stream[0], size, 0, tag, &block));
    for (size_t i = 0; i < size; i++) {
        host[i] = byte_at(i, seed);
    }
    cu_ok(cuMemcpyHtoDAsync(address_of(block), host, size, w->native[0]));
    cu_ok(cuStreamSynchronize(w->native[0]));
    return block;
}

static bool has(struct world *w, const weir_block *block, int seed)
{
    const size_t size = (size_t)weir_block_size(block);
    memset(host, 0, size);
    cu_ok(cuMemcpyDtoHAsync(host, address_of(block), size, w->native[0]));
    cu_ok(cuStreamSynchronize(w->native[0]));
    size_t same = 0;
    while (same < size && host[same] == (seed < 0 ? 0 : byte_at(same, seed))) {
        same++;
    }
    return same == size;
}

TEST(test_contents_come_back)
{
    struct world w = make_world(0);
    weir_tag cache = 0;
    ok(weir_pool_tag(w.pool, "kv_cache", &cache));
    const uint64_t before = fake_cuda_held_bytes(0);
    weir_block *first = filled(&w, LARGE, 0, 1);
    weir_block *second = filled(&w, LARGE, 0, 2);
    weir_block *zeroed = filled(&w, 5 * MIB, cache, 3);
    const weir_sleep_rule rule = {cache, WEIR_SLEEP_ZERO};
    weir_sleep_config config = WEIR_SLEEP_CONFIG_INIT;
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    config.rules = &rule;
    config.rule_count = 1;
    for (int cycle = 0; cycle < 2; cycle++) {
        cu_ok(fake_cuda_work(w.native[0], 1000000, address_of(first), LARGE, NULL, NULL)); /* still queued */
        ok(weir_pool_sleep(w.pool, &config, &report));
        assert_int_equal(report.kept_bytes, 2 * LARGE);
        assert_int_equal(fake_cuda_held_bytes(0), before);
        ok(weir_pool_wake(w.pool, NULL, 0, &report));
        assert_int_equal(report.asleep_blocks, 0);
        assert_true(has(&w, first, 1));
        assert_true(has(&w, second, 2));
        assert_true(has(&w, zeroed, -1));
    }
    ok(weir_pool_free(w.pool, first, w.stream[0]));
    ok(weir_pool_free(w.pool, second, w.stream[0]));
    ok(weir_pool_free(w.pool, zeroed, w.stream[0]));
    end_world(&w);
}

/* Calls of the driver fail, from one on. Each call of the pool is repeated. Returns false if no call has failed. */
static bool sleep_with_outage(unsigned first, unsigned count)
{
    struct world w = make_world(0);
    weir_block *block = filled(&w, 5 * MIB, 0, 4);
    bool struck = false;
    fake_cuda_outage(NULL, first, count, CU_ERROR_OUT_OF_MEMORY);
    for (int turn = 0; turn < 2; turn++) {
        weir_status status = WEIR_ERR_DEVICE;
        for (int i = 0; i < 12 && status != WEIR_OK; i++) {
            status = turn == 0 ? weir_pool_sleep(w.pool, NULL, NULL) : weir_pool_wake(w.pool, NULL, 0, NULL);
        }
        ok(status);
    }
    (void)fake_cuda_calls(&struck);
    fake_cuda_outage(NULL, 0, 0, CU_SUCCESS);
    assert_false(weir_block_is_asleep(block));
    assert_true(has(&w, block, 4));
    ok(weir_pool_free(w.pool, block, w.stream[0]));
    end_world(&w);
    return struck;
}

/* With WEIR_FAULT_STEP=n in the environment, an outage begins at every n-th call, one call later for each length. */
TEST(test_calls_fail_for_a_time)
{
    const unsigned step = (unsigned)seeds_read("WEIR_FAULT_STEP", 1);
    for (unsigned count = 1; count <= 3; count++) {
        unsigned first = count;
        while (sleep_with_outage(first, count)) {
            first += step;
        }
        assert_true(first > 20); /* there are calls */
    }
}
