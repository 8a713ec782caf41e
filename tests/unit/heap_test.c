/* tests/unit/heap_test.c: the heap over each kind of source: blocks, bad input, limits, reclaiming, realloc, several heaps. */
#include <weir/caching.h>
#include <weir/heap.h>
#include <weir/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

/* --- the kinds of source --- */

enum kind { PROCESS, HOST_POOL, POOL, KINDS };
static const char *const kind_names[] = {"process", "host pool", "pool"};

/* A heap with what lies under it. */
struct fixture {
    enum kind kind;
    weir_heap *heap;
    weir_heap_config config;
    weir_host_pool *host_pool;
    weir_sim *sim;
    weir_pool *pool;
    weir_stream *stream;
};

static void open_source(struct fixture *f, enum kind kind)
{
    *f = (struct fixture){.kind = kind, .config = WEIR_HEAP_CONFIG_INIT};
    if (kind == HOST_POOL) {
        weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
        config.flags = WEIR_HOST_ALLOW_UNPINNED;
        config.kinds = 1u << WEIR_HOST_UNPINNED;
        assert_int_equal(weir_host_pool_create(&config, &f->host_pool), WEIR_OK);
        f->config.source.host_pool = f->host_pool;
    } else if (kind == POOL) {
        weir_sim_config sim_config = WEIR_SIM_CONFIG_INIT;
        sim_config.capacity_bytes = 64 * MIB;
        assert_int_equal(weir_sim_create(&sim_config, &f->sim), WEIR_OK);
        weir_pool_config config = WEIR_POOL_CONFIG_INIT;
        config.device = weir_sim_device(f->sim);
        config.strategy = weir_caching_strategy();
        assert_int_equal(weir_pool_create(&config, &f->pool), WEIR_OK);
        assert_int_equal(weir_pool_stream(f->pool, NULL, &f->stream), WEIR_OK);
        f->config.source.pool = f->pool;
        f->config.source.stream = f->stream;
        f->config.flags = WEIR_HEAP_NO_HOST_ACCESS;
    }
}

static void open_heap(struct fixture *f, enum kind kind)
{
    open_source(f, kind);
    assert_int_equal(weir_heap_create(&f->config, &f->heap), WEIR_OK);
}

static void close_source(struct fixture *f)
{
    assert_int_equal(weir_host_pool_destroy(f->host_pool), WEIR_OK);
    assert_int_equal(weir_pool_destroy(f->pool), WEIR_OK);
    if (f->sim != NULL) {
        weir_sim_destroy(f->sim);
    }
}

static void close_heap(struct fixture *f)
{
    assert_int_equal(weir_heap_destroy(f->heap), WEIR_OK);
    close_source(f);
}

static bool can_touch(const struct fixture *f)
{
    return (f->config.flags & WEIR_HEAP_NO_HOST_ACCESS) == 0;
}

static weir_heap_stats stats_of(weir_heap *heap)
{
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    assert_int_equal(weir_heap_get_stats(heap, &stats), WEIR_OK);
    return stats;
}

static void check(weir_heap *heap)
{
    const char *why = "";
    if (weir_heap_check(heap, &why) != WEIR_OK) {
        fail_msg("%s", why);
    }
}

static void for_each_kind(void (*test)(struct fixture *f))
{
    for (enum kind kind = PROCESS; kind < KINDS; kind++) {
        struct fixture f;
        print_message("  over a %s\n", kind_names[kind]);
        open_heap(&f, kind);
        test(&f);
        check(f.heap);
        close_heap(&f);
    }
}

/* --- blocks --- */

static const size_t sizes[] = {1, 63, 64, 65, 500, 4096, 5000, 65535, 65536, 70000, 300000, 3 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void blocks(struct fixture *f)
{
    void *held[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        held[i] = weir_heap_alloc(f->heap, sizes[i]);
        assert_non_null(held[i]);
        assert_int_equal((uintptr_t)held[i] % 64, 0);
        assert_true(weir_heap_usable_size(f->heap, held[i]) >= sizes[i]);
        if (can_touch(f)) {
            memset(held[i], (int)i, weir_heap_usable_size(f->heap, held[i]));
        }
    }
    weir_heap_stats stats = stats_of(f->heap);
    assert_int_equal(stats.allocs, SIZES);
    assert_int_equal(stats.live_blocks, SIZES);
    assert_int_equal(stats.largest_bytes, 3 << 20);
    assert_true(stats.live_bytes >= 3 << 20 && stats.live_bytes <= stats.held_bytes);
    assert_int_equal(stats.peak_live_bytes, stats.live_bytes);
    const uint64_t peak = stats.live_bytes;
    for (size_t i = 0; i < SIZES; i++) {
        if (can_touch(f)) {
            for (size_t j = 0; j < sizes[i]; j++) {
                assert_int_equal(((unsigned char *)held[i])[j], i);
            }
        }
        assert_int_equal(weir_heap_free(f->heap, held[i]), WEIR_OK);
    }
    stats = stats_of(f->heap);
    assert_int_equal(stats.frees, SIZES);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.peak_live_bytes, peak);
    assert_true(stats.peak_held_bytes >= peak);
    uint64_t released = 0;
    assert_int_equal(weir_heap_trim(f->heap, 0, &released), WEIR_OK);
    assert_int_equal(released, stats.held_bytes);
    assert_int_equal(stats_of(f->heap).held_bytes, 0);
}

static void test_blocks(void **state)
{
    (void)state;
    for_each_kind(blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
