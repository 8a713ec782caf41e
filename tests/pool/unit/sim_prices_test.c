/* sim_prices_test.c: price tables in files: the reader and its refusals, the writer, WEIR_SIM_PRICES. */
#include "rig/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weir/adaptor.h>
#include <weir/sim.h>

#define ok(call) assert_int_equal((call), WEIR_OK)

static char path[] = "/tmp/weir-prices-XXXXXX";

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

TEST(test_reads_a_table)
{
    weir_sim_costs costs;
    write_file("# measured\n\nregion_alloc_ns 5000 # a comment\n  "
               "region_alloc_ns_per_mib\t7\r\nvm_map_ns 0\nfill_ns_per_mib 9");
    ok(weir_sim_costs_read(path, &costs));
    assert_int_equal(costs.call_ns[WEIR_CALL_REGION_ALLOC], 5000);
    assert_int_equal(costs.region_alloc_ns_per_mib, 7);
    assert_true(costs.call_ns[WEIR_CALL_VM_MAP] == WEIR_SIM_FREE_OF_CHARGE);
    assert_int_equal(costs.fill_ns_per_mib, 9);
    assert_int_equal(costs.launch_ns, 0);
    assert_int_equal(weir_sim_costs_assumed(&costs), WEIR_CALL_COUNT + 8 - 4);
}

TEST(test_refuses_what_is_no_table)
{
    static const struct {
        const char *text;
        const char *part;
    } rows[] = {
        {"launch_ns 1\nlaunch 2900\n", ":2: there is no price 'launch'"},
        {"launch_ns\n", ":1: 'launch_ns' needs one number"},
        {"launch_ns 1 2\n", ":1: 'launch_ns' needs one number"},
        {"launch_ns -1\n", ":1: '-1' is not a number of nanoseconds"},
        {"launch_ns 1.5\n", ":1: '1.5' is not a number of nanoseconds"},
        {"launch_ns 3600000000001\n", ":1: '3600000000001' is not"},
        {"launch_ns 99999999999999999999999\n", "is not a number of nanoseconds"},
        {"launch_ns 1\n#\nlaunch_ns 0\n", ":3: 'launch_ns' has a price already"},
        {"launch_ns 0\nlaunch_ns 1\n", ":2: 'launch_ns' has a price already"},
        {"# nothing\n", "no price in the file"},
        {"", "no price in the file"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        weir_sim_costs costs = {.launch_ns = 77};
        write_file(rows[i].text);
        assert_int_equal(weir_sim_costs_read(path, &costs), WEIR_ERR_INVALID);
        assert_memory_equal(weir_last_error(), "weir_sim_costs_read: /tmp/", 26);
        if (strstr(weir_last_error(), rows[i].part) == NULL) {
            fail_msg("\"%s\" does not have \"%s\"", weir_last_error(), rows[i].part);
        }
        assert_int_equal(costs.launch_ns, 77);
    }
    char line[400];
    memset(line, '#', sizeof(line) - 2);
    (void)strcpy(line + sizeof(line) - 2, "\n");
    weir_sim_costs costs;
    write_file(line);
    assert_int_equal(weir_sim_costs_read(path, &costs), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), ":1: the line is longer"));
    assert_int_equal(weir_sim_costs_read("/nonexistent/prices", &costs), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "/nonexistent/prices: No such file"));
    assert_int_equal(weir_sim_costs_read("/", &costs), WEIR_ERR_INVALID);
    assert_int_equal(weir_sim_costs_read(NULL, &costs), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "path is NULL"));
    assert_int_equal(weir_sim_costs_read(path, NULL), WEIR_ERR_INVALID);
}

/* Every price has a line of its own, and is read back. */
TEST(test_writes_what_it_reads)
{
    weir_sim_costs all;
    weir_sim_costs back;
    uint64_t values[sizeof(all) / sizeof(uint64_t)];
    char text[4096];
    char cut[40];
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        values[i] = i + 1;
    }
    memcpy(&all, values, sizeof(all));
    all.call_ns[WEIR_CALL_EVENT_QUERY] = WEIR_SIM_FREE_OF_CHARGE;
    assert_int_equal(weir_sim_costs_assumed(&all), 0);
    const size_t length = weir_sim_costs_format(&all, text, sizeof(text));
    assert_int_equal(length, strlen(text));
    assert_non_null(strstr(text, "event_query_ns 0\n"));
    write_file(text);
    ok(weir_sim_costs_read(path, &back));
    assert_memory_equal(&all, &back, sizeof(all));

    assert_int_equal(weir_sim_costs_format(&all, cut, sizeof(cut)), length);
    assert_int_equal(strlen(cut), sizeof(cut) - 1);
    assert_int_equal(weir_sim_costs_format(&all, NULL, 0), length);
    assert_int_equal(weir_sim_costs_format(&(weir_sim_costs){.launch_ns = 5}, text, sizeof(text)), 12);
    assert_string_equal(text, "launch_ns 5\n");
}

/* The host time of one region_alloc of 2 MiB. */
static uint64_t price_of_a_region(const weir_sim_config *config)
{
    weir_sim *sim = NULL;
    uint64_t address = 0;
    ok(weir_sim_create(config, &sim));
    ok(weir_device_region_alloc(weir_sim_device(sim), 2 * MIB, &address));
    const uint64_t ns = weir_sim_now(sim);
    ok(weir_device_region_free(weir_sim_device(sim), address, 2 * MIB));
    ok(weir_sim_destroy(sim));
    return ns;
}

TEST(test_the_environment)
{
    weir_sim *sim = NULL;
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    assert_int_equal(price_of_a_region(NULL), 100000 + 2 * 1000);
    write_file("region_alloc_ns 5000\n");
    assert_int_equal(setenv("WEIR_SIM_PRICES", path, 1), 0);
    assert_int_equal(price_of_a_region(NULL), 5000 + 2 * 1000); /* the other prices stay */
    config.costs.call_ns[WEIR_CALL_REGION_ALLOC] = 300;
    config.costs.region_alloc_ns_per_mib = WEIR_SIM_FREE_OF_CHARGE;
    assert_int_equal(price_of_a_region(&config), 300); /* a config's own prices go first */
    write_file("region_alloc_ns 0\nregion_alloc_ns_per_mib 0\n");
    assert_int_equal(price_of_a_region(NULL), 0);
    write_file("region_alloc 5000\n");
    assert_int_equal(weir_sim_create(NULL, &sim), WEIR_ERR_INVALID);
    assert_memory_equal(weir_last_error(), "weir_sim_create: WEIR_SIM_PRICES: /tmp/", 39);
    assert_non_null(strstr(weir_last_error(), ":1: there is no price 'region_alloc'"));
    assert_int_equal(setenv("WEIR_SIM_PRICES", "", 1), 0); /* as if it were not set */
    assert_int_equal(price_of_a_region(NULL), 100000 + 2 * 1000);
    assert_int_equal(unsetenv("WEIR_SIM_PRICES"), 0);
}

int main(void)
{
    const int file = mkstemp(path);
    if (file < 0) {
        return 1;
    }
    (void)close(file);
    const int failed = run_all_tests("tests");
    (void)unlink(path);
    return failed;
}
