/* tests/pool/fault/outage_fault.c: random lives of a pool over a simulated device that fails for a time.
 *
 * Seeds: rig/seeds.h; 1,000 lives, and one for each seed beyond.
 */
#include "rig/outage.h"

#include <string.h>
#include <weir/sim.h>

#include "failing.h"

static weir_sim *sim;

static weir_status device_create(weir_device **device)
{
    return weir_device_create(&pass_ops, NULL, device);
}

static void begin(const char *function, unsigned first, unsigned count)
{
    memset(&outage, 0, sizeof(outage));
    while (function != NULL && strcmp(weir_device_call_name(outage.call), function) != 0) {
        outage.call++;
    }
    outage.call = function != NULL ? outage.call : WEIR_CALL_ANY;
    outage.status = first % 2 == 0 ? WEIR_ERR_DEVICE : WEIR_ERR_NO_MEMORY;
    outage.first = first;
    outage.count = count;
}

static bool end(void)
{
    const bool struck = outage.struck;
    memset(&outage, 0, sizeof(outage));
    return struck;
}

static void *stream_create(void)
{
    weir_sim_stream *made = NULL;
    assert_int_equal(weir_sim_stream_create(sim, &made), WEIR_OK);
    return made;
}

static void stream_destroy(void *native)
{
    assert_int_equal(weir_sim_stream_destroy(sim, native), WEIR_OK);
}

static void queue_work(void *native, uint64_t address, uint64_t size)
{
    const weir_sim_access access = {.address = address, .size = size, .write = true};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = 20000;
    work.accesses = &access;
    work.access_count = 1;
    assert_int_equal(weir_sim_launch(sim, native, &work), WEIR_OK);
}

static uint64_t held_bytes(void)
{
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    return weir_sim_get_stats(sim, &stats) == WEIR_OK ? stats.held_bytes : UINT64_MAX;
}

static bool is_restored(void)
{
    return true;
}

static bool is_clean(void)
{
    weir_sim_finding finding;
    weir_sim_audit_leaks(sim);
    if (weir_sim_finding_at(sim, 0, &finding)) {
        print_error("%s\n", finding.text);
        return false;
    }
    return true;
}

#define NAME(name, slot) #slot,
static const char *const functions[] = {WEIR_DEVICE_CALL_LIST(NAME)};
#undef NAME

static const struct outage_runtime runtime = {
    .device_create = device_create,
    .begin = begin,
    .end = end,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .work = queue_work,
    .held_bytes = held_bytes,
    .is_restored = is_restored,
    .is_clean = is_clean,
    .functions = functions,
    .function_count = sizeof(functions) / sizeof(functions[0]),
};

TEST(test_random_lives)
{
    const uint64_t count = seeds_count(1000, 1);
    uint64_t struck = 0;
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    config.capacity_bytes = 96 * MIB;
    config.direct_access = true; /* the auditor is not told of blocks */
    for (uint64_t i = 0; i < count; i++) {
        if (i % 100 == 0) { /* the simulator remembers all streams that it had */
            assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
            assert_int_equal(weir_sim_create(&config, &sim), WEIR_OK);
            inner = weir_sim_device(sim);
        }
        struck += outage_play(&runtime, seeds_first() + i);
    }
    print_message("%llu lives, %llu outages\n", (unsigned long long)count, (unsigned long long)struck);
    assert_true(2 * struck >= count);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}
