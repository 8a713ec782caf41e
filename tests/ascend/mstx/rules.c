/* tests/ascend/mstx/rules.c: weir_mstx_attach under tools that follow different rules: with and without handles, with
 * totals instead of heaps, tools that refuse a heap or a domain; domains and devices; arguments. */
#include "rig/sim.h"

#include <weir/caching.h>
#include <weir/mstx.h>
#include <weir/observer.h>

#include <sys/wait.h>
#include <unistd.h>

#include "fake_tool.h"

#define REGION (64 * KIB)

struct world {
    weir_sim *sim;
    weir_pool *pool;
    weir_stream *stream;
};

static struct world open_world(uint32_t flags)
{
    weir_caching_config caching = WEIR_CACHING_CONFIG_INIT;
    weir_sim_config device = free_of_charge();
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    struct world w = {0};
    caching.small_region_bytes = REGION;
    device.capacity_bytes = 64 * REGION;
    device.region_granularity_bytes = REGION;
    device.page_bytes = REGION;
    w.sim = new_sim(device);
    config.device = weir_sim_device(w.sim);
    config.strategy = weir_caching_strategy();
    config.strategy_config = &caching;
    config.flags = flags;
    ok(weir_pool_create(&config, &w.pool));
    ok(weir_pool_stream(w.pool, new_stream(w.sim), &w.stream));
    return w;
}

static void close_world(struct world *w)
{
    ok(weir_pool_destroy(w->pool));
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

static weir_mstx *attach(struct world *w, const char *domain)
{
    weir_mstx *mstx = NULL;
    weir_mstx_config config = WEIR_MSTX_CONFIG_INIT;
    config.domain = domain;
    config.device_id = 5;
    ok(weir_mstx_attach(w->pool, &config, &mstx));
    assert_non_null(mstx);
    return mstx;
}

static weir_block *alloc(struct world *w, uint64_t size)
{
    weir_block *block = NULL;
    ok(weir_pool_alloc(w->pool, w->stream, size, 0, &block));
    return block;
}

static bool covered(const weir_block *block)
{
    const uint64_t start = weir_block_address(block);
    return fake_covered(start, start + weir_block_capacity(block)) == weir_block_capacity(block);
}

static weir_mstx_stats counters_of(weir_mstx *mstx)
{
    weir_mstx_stats counters = WEIR_MSTX_STATS_INIT;
    ok(weir_mstx_get_stats(mstx, &counters));
    return counters;
}

static void nothing_is_left(void)
{
    assert_int_equal(fake_count(fake_heaps) + fake_count(fake_regions), 0);
}

/* Checks that the sentence of the last refusal begins with `text`. */
static void assert_said(const char *text)
{
    assert_memory_equal(weir_last_error(), text, strlen(text));
}

TEST(refuses_bad_arguments)
{
    static const struct {
        bool no_pool;
        bool no_attachment;
        bool no_size;
        const char *domain; /* "-": a name that is too long */
        const char *sentence;
    } bad[] = {
        {.no_pool = true, .sentence = "weir_mstx_attach: pool is NULL"},
        {.no_attachment = true, .sentence = "weir_mstx_attach: attachment is NULL"},
        {.no_size = true, .sentence = "weir_mstx_attach: config has no struct_size"},
        {.domain = "a b", .sentence = "weir_mstx_attach: config.domain "},
        {.domain = "a-b", .sentence = "weir_mstx_attach: config.domain "},
        {.domain = "\xc3\xa9", .sentence = "weir_mstx_attach: config.domain "},
        {.domain = "atb.2", .sentence = "weir_mstx_attach: config.domain "},
        {.domain = "-", .sentence = "weir_mstx_attach: config.domain "},
    };
    char long_name[1025];
    struct world w = open_world(WEIR_POOL_REGIONS);
    weir_mstx *mstx = NULL;
    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[1024] = '\0';
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        weir_mstx_config config = WEIR_MSTX_CONFIG_INIT;
        config.struct_size = bad[i].no_size ? 0 : config.struct_size;
        config.domain = bad[i].domain != NULL && bad[i].domain[0] == '-' ? long_name : bad[i].domain;
        fails(weir_mstx_attach(bad[i].no_pool ? NULL : w.pool, &config, bad[i].no_attachment ? NULL : &mstx),
              WEIR_ERR_INVALID);
        assert_said(bad[i].sentence);
    }
    struct {
        weir_mstx_config config;
        uint64_t beyond;
    } newer = {.config = WEIR_MSTX_CONFIG_INIT, .beyond = 1};
    newer.config.struct_size = sizeof(newer);
    fails(weir_mstx_attach(w.pool, &newer.config, &mstx), WEIR_ERR_UNSUPPORTED);
    assert_said("weir_mstx_attach: config sets members beyond");
    assert_null(mstx);
    assert_int_equal(fake_calls, 0);
    weir_mstx *first = attach(&w, NULL);
    fails(weir_mstx_attach(w.pool, NULL, &mstx), WEIR_ERR_BUSY);
    assert_said("weir_mstx_attach: the pool is attached already");
    ok(weir_mstx_detach(first));
    ok(weir_mstx_detach(NULL));
    weir_mstx_stats counters = WEIR_MSTX_STATS_INIT;
    ok(weir_mstx_get_stats(NULL, &counters));
    assert_int_equal(counters.heaps + counters.regions + counters.lost + counters.refused, 0);
    fails(weir_mstx_get_stats(NULL, NULL), WEIR_ERR_INVALID);
    assert_said("weir_mstx_get_stats: counters is NULL");
    counters.struct_size = 0;
    fails(weir_mstx_get_stats(NULL, &counters), WEIR_ERR_INVALID);
    assert_said("weir_mstx_get_stats: counters has no struct_size");
    assert_true(weir_mstx_has_tool());
    close_world(&w);
}

/* One program under each rule: memory and blocks that exist before the attach, growth, blocks across granules, frees, a
 * trim. */
static void announce_all(enum fake_style style, const char *domain, uint32_t flags, bool pool_first)
{
    fake_style = style;
    struct world w = open_world(flags);
    weir_block *blocks[6];
    blocks[0] = alloc(&w, 1000);
    blocks[1] = alloc(&w, 3 * REGION + 512);
    weir_mstx *mstx = attach(&w, domain);
    assert_int_equal(fake_device, 5);
    for (int i = 2; i < 6; i++) {
        blocks[i] = alloc(&w, (uint64_t)i * REGION - 512);
    }
    for (int i = 0; i < 6; i++) {
        assert_true(covered(blocks[i]));
    }
    const weir_mstx_stats all = counters_of(mstx);
    assert_int_equal(all.regions, fake_count(fake_regions));
    assert_true(all.heaps > 0 && all.lost == 0 && all.refused == 0 && !all.no_listener);
    assert_true((flags == 0) == (all.regions > 6)); /* one in each granule */
    const uint64_t batches = fake_batches;
    for (int i = 1; i < 5; i++) {
        ok(weir_pool_free(w.pool, blocks[i], w.stream));
    }
    /* weir withdraws the regions of a freed block in one batch, however many regions the block has */
    assert_int_equal(fake_batches - batches, 4);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w.pool, &stats));
    if (style == FAKE_TOTALS) {
        assert_int_equal(fake_total, stats.reserved_bytes);
    } else {
        assert_int_equal(fake_count(fake_heaps), counters_of(mstx).heaps);
    }
    assert_true(covered(blocks[0]) && covered(blocks[5]) && counters_of(mstx).heaps < all.heaps);
    if (pool_first) {
        close_world(&w); /* two blocks are live */
        nothing_is_left();
        ok(weir_mstx_detach(mstx));
    } else {
        ok(weir_mstx_detach(mstx));
        nothing_is_left();
        close_world(&w);
    }
    assert_true(style != FAKE_TOTALS || fake_total == 0);
}

TEST(follows_each_rule)
{
    for (int i = 0; i < 4; i++) {
        const uint32_t flags = i % 2 == 0 ? WEIR_POOL_REGIONS : 0;
        announce_all(FAKE_ORDINARY, "ordinary", flags, i >= 2);
        announce_all(FAKE_ORDINARY, "atb", flags, i >= 2);
        announce_all(FAKE_NO_REGION_HANDLES, "by_address", flags, i >= 2);
        announce_all(FAKE_TOTALS, "ptaCaching", flags, i >= 2);
        announce_all(FAKE_TOTALS, "mindsporeMemPool", flags, i >= 2);
        announce_all(FAKE_ORDINARY, "ptaWorkspace", flags, i >= 2); /* a tool that knows heaps, for every name */
    }
}

/* A domain is created once in a process: some tools return NULL the second time. */
TEST(creates_a_domain_once)
{
    fake_style = FAKE_ORDINARY;
    struct world a = open_world(WEIR_POOL_REGIONS);
    struct world b = open_world(WEIR_POOL_REGIONS);
    const uint64_t before = fake_domains;
    weir_mstx *of_a = attach(&a, "shared");
    fake_style = FAKE_DEAF; /* a second request for the domain would fail */
    weir_mstx *of_b = attach(&b, "shared");
    assert_int_equal(fake_domains - before, 1);
    assert_string_equal(fake_domain_name, "shared");
    assert_false(counters_of(of_b).no_listener);
    fake_style = FAKE_ORDINARY;
    ok(weir_mstx_detach(of_a));
    ok(weir_mstx_detach(of_b));

    /* The empty name stands for the global domain, for which no domain is created. */
    (void)snprintf(fake_domain_name, sizeof(fake_domain_name), "-");
    of_a = attach(&a, "");
    weir_block *block = alloc(&a, 100);
    assert_true(fake_domain == NULL && covered(block));
    assert_string_equal(fake_domain_name, "-");
    ok(weir_mstx_detach(of_a));
    close_world(&a);
    close_world(&b);
    nothing_is_left();
}

TEST(totals_are_of_a_device)
{
    fake_style = FAKE_TOTALS;
    struct world a = open_world(WEIR_POOL_REGIONS);
    struct world b = open_world(WEIR_POOL_REGIONS);
    weir_mstx *of_a = attach(&a, "msleaks");
    weir_mstx *of_b = attach(&b, "msleaks");
    (void)alloc(&a, REGION);
    const uint64_t of_one = fake_total;
    (void)alloc(&a, 2 * REGION);
    const uint64_t of_two = fake_total;
    assert_true(of_one > 0 && of_two > of_one);
    /* b's memory has the same addresses as a's, in another simulator; only its size matters here. */
    ok(weir_pool_unobserve(a.pool, of_a));
    ok(weir_mstx_detach(of_b));
    assert_int_equal(fake_total, of_two);
    /* a's pool has lost its observer, as by a program's mistake. weir_mstx_detach still withdraws all its memory. */
    ok(weir_mstx_detach(of_a));
    assert_int_equal(fake_total, 0);
    nothing_is_left();
    close_world(&a);
    close_world(&b);
}

TEST(nothing_is_announced_without_a_listener)
{
    fake_style = FAKE_DEAF;
    struct world w = open_world(WEIR_POOL_REGIONS);
    weir_mstx *mstx = attach(&w, "unknown_to_it");
    const uint64_t calls = fake_calls;
    weir_block *block = alloc(&w, 1000);
    ok(weir_pool_free(w.pool, block, w.stream));
    assert_true(counters_of(mstx).no_listener);
    assert_int_equal(fake_calls, calls);
    /* A tool that knows no domain costs nothing: the pool is not observed. */
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    for (int i = 0; i < 3; i++) {
        ok(weir_pool_free(w.pool, alloc(&w, 1000), w.stream));
    }
    ok(weir_pool_get_stats(w.pool, &stats));
    assert_true(stats.served[WEIR_RUNG_FRONT] > 0);
    ok(weir_mstx_detach(mstx));
    close_world(&w);
}

TEST(a_tool_may_refuse_a_heap)
{
    fake_style = FAKE_REFUSES;
    struct world w = open_world(WEIR_POOL_REGIONS);
    weir_mstx *mstx = attach(&w, "refused");
    weir_block *block = alloc(&w, 1000);
    assert_int_equal(counters_of(mstx).heaps + counters_of(mstx).regions, 0);
    assert_int_equal(counters_of(mstx).refused, 2);
    ok(weir_pool_free(w.pool, block, w.stream));
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    ok(weir_mstx_detach(mstx));
    close_world(&w);

    /* The tool refuses one granule of several: the rest of the block is announced. */
    fake_style = FAKE_ORDINARY;
    w = open_world(0);
    mstx = attach(&w, "one_refused");
    fake_refuse_at = 2;
    block = alloc(&w, 4 * REGION);
    const uint64_t start = weir_block_address(block);
    assert_int_equal(fake_covered(start, start + 4 * REGION), 3 * REGION);
    assert_int_equal(counters_of(mstx).regions, 3);
    ok(weir_pool_free(w.pool, block, w.stream));
    close_world(&w);
    nothing_is_left();
    ok(weir_mstx_detach(mstx));
}

TEST(announces_exact_sizes)
{
    fake_style = FAKE_ORDINARY;
    for (int exact = 0; exact < 2; exact++) {
        struct world w = open_world(WEIR_POOL_REGIONS);
        weir_mstx *mstx = NULL;
        weir_mstx_config config = WEIR_MSTX_CONFIG_INIT;
        config.exact_sizes = exact;
        ok(weir_mstx_attach(w.pool, &config, &mstx));
        weir_block *block = alloc(&w, 1000);
        const uint64_t start = weir_block_address(block);
        assert_int_equal(fake_covered(start, start + 4096), exact ? 1000 : weir_block_capacity(block));
        ok(weir_mstx_detach(mstx));
        close_world(&w);
    }
}

TEST(a_forked_child_announces_nothing)
{
    fake_style = FAKE_ORDINARY;
    struct world w = open_world(0);
    weir_mstx *mstx = attach(&w, "parent");
    weir_block *block = alloc(&w, 3 * REGION);
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const uint64_t calls = fake_calls;
        const bool ended = weir_pool_destroy(w.pool) == WEIR_OK && weir_mstx_detach(mstx) == WEIR_OK;
        _exit(ended && fake_calls == calls ? 0 : 1);
    }
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    assert_true(covered(block));
    close_world(&w);
    ok(weir_mstx_detach(mstx));
    nothing_is_left();
}

int main(void)
{
    (void)unsetenv("MSTX_INJECTION_PATH");
    return run_all_tests("tests");
}
