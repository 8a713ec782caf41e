/* strategy_config_test.c: the config structs of strategies between callers and libraries of different age, through
 * every strategy that has one. config_test.c has the rule itself. */
#include "rig/strategy.h"
#include "refusal.h"

#include <weir/bump.h>
#include <weir/caching.h>
#include <weir/pool.h>
#include <weir/sim.h>
#include <weir/size_class.h>

#include <stdlib.h>

/* --- the strategies --- */

TEST(every_strategy_reads_by_size)
{
    const struct {
        const weir_strategy_ops *ops;
        size_t size;
    } strategies[] = {
        {weir_caching_strategy(), sizeof(weir_caching_config)},
        {weir_size_class_strategy(), sizeof(weir_size_class_config)},
        {weir_bump_strategy(), sizeof(weir_bump_config)},
    };
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        const weir_strategy_ops *ops = strategies[i].ops;
        const size_t longer = strategies[i].size + 24;
        union {
            size_t struct_size;
            unsigned char bytes[256];
        } config = {.struct_size = longer};
        assert_true(longer <= sizeof(config));
        assert_int_equal(try_config(ops, NULL), WEIR_OK);
        assert_int_equal(try_config(ops, &config), WEIR_OK);
        config.bytes[longer - 1] = 1;
        assert_int_equal(try_config(ops, &config), WEIR_ERR_UNSUPPORTED);
        config.struct_size = longer - 1; /* the byte is no longer part of the struct */
        assert_int_equal(try_config(ops, &config), WEIR_OK);
        config.struct_size = sizeof(size_t);
        assert_int_equal(try_config(ops, &config), WEIR_OK);
        config.struct_size = sizeof(size_t) - 1;
        assert_int_equal(try_config(ops, &config), WEIR_ERR_INVALID);
    }
}

/* --- sentences --- */

TEST(refusals_reach_the_caller_of_the_pool)
{
    const size_t none = 0;
    union {
        size_t struct_size;
        unsigned char bytes[256];
    } newer = {.struct_size = 256};
    newer.bytes[255] = 1;
    const struct {
        const weir_strategy_ops *ops;
        const void *config;
        weir_status status;
        const char *words;
    } calls[] = {
        {weir_caching_strategy(), &none, WEIR_ERR_INVALID, "weir_caching_config has no struct_size"},
        {weir_caching_strategy(), &newer, WEIR_ERR_UNSUPPORTED, "weir_caching_config sets members beyond"},
        {weir_size_class_strategy(), &none, WEIR_ERR_INVALID, "weir_size_class_config has no struct_size"},
        {weir_size_class_strategy(), &newer, WEIR_ERR_UNSUPPORTED, "weir_size_class_config sets members beyond"},
        {weir_bump_strategy(), &none, WEIR_ERR_INVALID, "weir_bump_config has no struct_size"},
        {weir_bump_strategy(), &newer, WEIR_ERR_UNSUPPORTED, "weir_bump_config sets members beyond"},
    };
    weir_sim *sim = NULL;
    assert_int_equal(weir_sim_create(NULL, &sim), WEIR_OK);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        weir_pool *pool = NULL;
        weir_pool_config config = WEIR_POOL_CONFIG_INIT;
        config.device = weir_sim_device(sim);
        config.strategy = calls[i].ops;
        config.strategy_config = calls[i].config;
        refused(weir_pool_create(&config, &pool), calls[i].status, calls[i].words);
        assert_null(pool);
    }
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* --- members --- */

static uint64_t address_of(const weir_strategy_ops *caching, void *state, uint64_t size)
{
    weir_range range = {0};
    assert_int_equal(caching->alloc(state, 0, WEIR_TICK_MAX, size, 1, &range), WEIR_OK);
    return range.address;
}

/* Virtual memory: requests up to 1 MiB take the high end of free memory, but those below low_bytes. */
TEST(small_requests_take_the_low_end_if_told)
{
    const weir_strategy_ops *caching = weir_caching_strategy();
    const uint64_t bytes[] = {0, 64 * KIB, 4 * MIB};
    for (size_t i = 0; i < 3; i++) {
        weir_caching_config config = WEIR_CACHING_CONFIG_INIT;
        config.low_bytes = bytes[i];
        void *region = NULL;
        void *state = calloc(1, caching->state_size(&config));
        assert_non_null(state);
        assert_int_equal(caching->init(state, &config), WEIR_OK);
        assert_int_equal(caching->lane_add(state, 0), WEIR_OK);
        assert_int_equal(caching->region_add(state, 64 * MIB, 16 * MIB, 0, 0, 0, &region), WEIR_OK);
        assert_int_equal(address_of(caching, state, 64 * KIB - 512), i == 0 ? 80 * MIB - 64 * KIB + 512 : 64 * MIB);
        assert_int_equal(address_of(caching, state, 64 * KIB) > 72 * MIB, i < 2);
        assert_int_equal(address_of(caching, state, MIB) > 72 * MIB, i < 2);
        assert_true(address_of(caching, state, MIB + 512) < 72 * MIB);
        caching->fini(state);
        free(state);
    }
}
