/* tests/pool/unit/pool_settings_test.c: a pool's config from a text and from the environment. */
#include "rig/test.h"

#include <weir/caching.h>
#include <weir/pool.h>
#include <weir/size_class.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "WEIR_TEST_POOL"

static const weir_strategy_ops *known[2];

static int setup(void **state)
{
    (void)state;
    known[0] = weir_caching_strategy();
    known[1] = weir_size_class_strategy();
    return unsetenv(VARIABLE);
}

static weir_status from_env(const char *text, weir_pool_config *config)
{
    assert_int_equal(setenv(VARIABLE, text, 1), 0);
    return weir_pool_config_from_env(VARIABLE, known, 2, config);
}

/* What the owner has set stays, unless the text names it. */
TEST(test_members)
{
    static const struct {
        const char *text;
        const char *strategy;
        uint64_t limit;
        uint64_t soft_limit;
        weir_growth growth;
        uint32_t flags;
    } cases[] = {
        {"", "caching", GIB, 0, WEIR_GROWTH_WAIT_FIRST, WEIR_POOL_SINGLE_THREADED},
        {"strategy:size_class", "size_class", GIB, 0, WEIR_GROWTH_WAIT_FIRST, WEIR_POOL_SINGLE_THREADED},
        {"limit:48GiB,", "caching", 48 * GIB, 0, WEIR_GROWTH_WAIT_FIRST, WEIR_POOL_SINGLE_THREADED},
        {"limit:0,soft_limit:2GiB", "caching", 0, 2 * GIB, WEIR_GROWTH_WAIT_FIRST, WEIR_POOL_SINGLE_THREADED},
        {"soft_limit:1048576", "caching", GIB, 1048576, WEIR_GROWTH_WAIT_FIRST, WEIR_POOL_SINGLE_THREADED},
        {"growth:balanced", "caching", GIB, 0, WEIR_GROWTH_BALANCED, WEIR_POOL_SINGLE_THREADED},
        {"growth:grow_first", "caching", GIB, 0, WEIR_GROWTH_GROW_FIRST, WEIR_POOL_SINGLE_THREADED},
        {"virtual_memory:0", "caching", GIB, 0, WEIR_GROWTH_WAIT_FIRST, WEIR_POOL_SINGLE_THREADED | WEIR_POOL_REGIONS},
        {"virtual_memory:0,virtual_memory:1", "caching", GIB, 0, WEIR_GROWTH_WAIT_FIRST, WEIR_POOL_SINGLE_THREADED},
        {"limit:1GiB,limit:3GiB,strategy:size_class,growth:balanced", "size_class", 3 * GIB, 0, WEIR_GROWTH_BALANCED,
         WEIR_POOL_SINGLE_THREADED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weir_pool_config config = WEIR_POOL_CONFIG_INIT;
        config.strategy = known[0];
        config.limit_bytes = GIB;
        config.growth = WEIR_GROWTH_WAIT_FIRST;
        config.flags = WEIR_POOL_SINGLE_THREADED;
        config.oom_ctx = &config;
        assert_int_equal(from_env(cases[i].text, &config), WEIR_OK);
        assert_string_equal(config.strategy->name, cases[i].strategy);
        assert_int_equal(config.limit_bytes, cases[i].limit);
        assert_int_equal(config.soft_limit_bytes, cases[i].soft_limit);
        assert_int_equal(config.growth, cases[i].growth);
        assert_int_equal(config.flags, cases[i].flags);
        assert_ptr_equal(config.oom_ctx, &config);
        assert_int_equal(config.struct_size, sizeof(config));
    }
}

TEST(test_no_variable)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.limit_bytes = GIB;
    assert_int_equal(weir_pool_config_from_env(VARIABLE, known, 2, &config), WEIR_OK);
    assert_int_equal(config.limit_bytes, GIB);
    assert_int_equal(weir_pool_config_read(NULL, known, 2, &config), WEIR_OK);
    assert_int_equal(weir_pool_config_read("strategy:caching", known, 1, &config), WEIR_OK);
    assert_ptr_equal(config.strategy, known[0]);
    assert_int_equal(weir_pool_config_from_env(NULL, known, 2, &config), WEIR_ERR_INVALID);
    assert_int_equal(weir_pool_config_from_env("", known, 2, &config), WEIR_ERR_INVALID);
    assert_string_equal(weir_last_error(), "weir_pool_config_from_env: no variable is named");
}

/* A text with a mistake changes nothing, and the sentence says what and where. */
TEST(test_mistakes)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"limit", "\"limit\" is not key:value"},
        {"limit:2GiB,,growth:balanced", "\"\" is not key:value"},
        {"limit:2GiB, growth:balanced", "there is no \" growth\" (of \"balanced\")"},
        {"strategie:caching", "there is no \"strategie\" (of \"caching\")"},
        {"Limit:2GiB", "there is no \"Limit\" (of \"2GiB\")"},
        {":2GiB", "there is no \"\" (of \"2GiB\")"},
        {"limit:2GiB,limit:", "\"limit\" cannot be \"\""},
        {"limit:-1", "\"limit\" cannot be \"-1\""},
        {"limit:2 GiB", "\"limit\" cannot be \"2 GiB\""},
        {"limit:99999999999TiB", "\"limit\" cannot be \"99999999999TiB\""},
        {"soft_limit:1.5GiB", "\"soft_limit\" cannot be \"1.5GiB\""},
        {"strategy:bump", "\"strategy\" cannot be \"bump\""},
        {"growth:fast", "\"growth\" cannot be \"fast\""},
        {"virtual_memory:yes", "\"virtual_memory\" cannot be \"yes\""},
        {"limit:000000000000000000000000000000000000000000000000000000000000000000001",
         "\"limit\" cannot be \"000000000000000000000000000000000000000000000000000000000000000000001\""},
        {"limit:1GiB,soft_limit:2GiB", "soft_limit is above limit"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[256];
        weir_pool_config config = WEIR_POOL_CONFIG_INIT;
        config.limit_bytes = 7 * GIB;
        const weir_pool_config before = config;
        assert_int_equal(from_env(cases[i].text, &config), WEIR_ERR_INVALID);
        (void)snprintf(why, sizeof(why), "weir_pool_config_from_env: " VARIABLE ": %s", cases[i].why);
        assert_string_equal(weir_last_error(), why);
        assert_memory_equal(&config, &before, sizeof(config));
        assert_int_equal(weir_pool_config_read(cases[i].text, known, 2, &config), WEIR_ERR_INVALID);
        (void)snprintf(why, sizeof(why), "weir_pool_config_read: %s", cases[i].why);
        assert_string_equal(weir_last_error(), why);
    }
}

/* A caller with an older, shorter struct; one without a size. */
TEST(test_struct_size)
{
    weir_pool_config config;
    memset(&config, 0xa5, sizeof(config));
    config = (weir_pool_config){.struct_size = offsetof(weir_pool_config, soft_limit_bytes), .soft_limit_bytes = 5};
    assert_int_equal(weir_pool_config_read("limit:4096", known, 2, &config), WEIR_OK);
    assert_int_equal(config.limit_bytes, 4096);
    assert_int_equal(config.soft_limit_bytes, 5);
    config.struct_size = 0;
    assert_int_equal(weir_pool_config_read("limit:4096", known, 2, &config), WEIR_ERR_INVALID);
    assert_int_equal(weir_pool_config_read("limit:4096", known, 2, NULL), WEIR_ERR_INVALID);
}

EACH_TEST(setup, NULL)
