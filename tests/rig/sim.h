/* tests/rig/sim.h: short helper functions for tests of the simulator. */
#ifndef WEIR_RIG_SIM_H
#define WEIR_RIG_SIM_H

#include "test.h"

#include <weir/sim.h>

#include <stdio.h>
#include <string.h>

#define ok(call) assert_int_equal((call), WEIR_OK)
#define fails(call, status) assert_int_equal((call), (status))

/* Returns a config in which no call costs host time, so that tests can count nanoseconds. */
static inline weir_sim_config free_of_charge(void)
{
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        config.costs.call_ns[i] = WEIR_SIM_FREE_OF_CHARGE;
    }
    config.costs.region_alloc_ns_per_mib = WEIR_SIM_FREE_OF_CHARGE;
    config.costs.region_free_ns_per_mib = WEIR_SIM_FREE_OF_CHARGE;
    config.costs.vm_create_ns_per_mib = WEIR_SIM_FREE_OF_CHARGE;
    config.costs.launch_ns = WEIR_SIM_FREE_OF_CHARGE;
    config.costs.transfer_ns = 1000;
    config.costs.device_copy_ns_per_mib = WEIR_SIM_FREE_OF_CHARGE;
    config.costs.host_copy_ns_per_mib = WEIR_SIM_FREE_OF_CHARGE;
    config.costs.fill_ns_per_mib = WEIR_SIM_FREE_OF_CHARGE;
    return config;
}

static inline weir_sim *new_sim(weir_sim_config config)
{
    weir_sim *sim = NULL;
    ok(weir_sim_create(&config, &sim));
    assert_non_null(sim);
    return sim;
}

static inline weir_sim_stream *new_stream(weir_sim *sim)
{
    weir_sim_stream *stream = NULL;
    ok(weir_sim_stream_create(sim, &stream));
    assert_non_null(stream);
    return stream;
}

static inline uint64_t new_region(weir_sim *sim, uint64_t size)
{
    uint64_t address = 0;
    ok(weir_device_region_alloc(weir_sim_device(sim), size, &address));
    assert_int_not_equal(address, 0);
    return address;
}

static inline void give_region(weir_sim *sim, uint64_t address, uint64_t size)
{
    ok(weir_device_region_free(weir_sim_device(sim), address, size));
}

static inline weir_event *new_event(weir_sim *sim)
{
    weir_event *event = NULL;
    ok(weir_device_event_create(weir_sim_device(sim), &event));
    assert_non_null(event);
    return event;
}

/* Makes work queued on `to` from now on run after all work that is on `from` now. */
static inline void order(weir_sim *sim, weir_sim_stream *from, weir_sim_stream *to)
{
    weir_event *event = new_event(sim);
    ok(weir_device_event_record(weir_sim_device(sim), event, from));
    ok(weir_device_stream_wait_event(weir_sim_device(sim), to, event));
    ok(weir_device_event_destroy(weir_sim_device(sim), event));
}

static inline void sync_stream(weir_sim *sim, weir_sim_stream *stream)
{
    ok(weir_device_stream_sync(weir_sim_device(sim), stream));
}

static inline void touch(weir_sim *sim, weir_sim_stream *stream, uint64_t address, uint64_t size, bool write,
                         uint64_t duration_ns, const char *tag)
{
    weir_sim_access access = {.address = address, .size = size, .write = write};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = duration_ns;
    work.accesses = &access;
    work.access_count = 1;
    work.tag = tag;
    ok(weir_sim_launch(sim, stream, &work));
}

#define LONG_NS ((uint64_t)1000000)

/* Queues a kernel that is still running at the next step of the test. */
static inline void writes(weir_sim *sim, weir_sim_stream *stream, uint64_t address, uint64_t size, const char *tag)
{
    touch(sim, stream, address, size, true, LONG_NS, tag);
}

static inline void reads(weir_sim *sim, weir_sim_stream *stream, uint64_t address, uint64_t size, const char *tag)
{
    touch(sim, stream, address, size, false, LONG_NS, tag);
}

static inline void busy(weir_sim *sim, weir_sim_stream *stream, uint64_t duration_ns)
{
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = duration_ns;
    ok(weir_sim_launch(sim, stream, &work));
}

/* Fails with the finding's text if there is a finding. */
static inline void is_clean(weir_sim *sim)
{
    weir_sim_finding finding;
    for (size_t i = 0; weir_sim_finding_at(sim, i, &finding); i++) {
        print_error("%s\n", finding.text);
    }
    assert_int_equal(weir_sim_finding_count(sim, WEIR_SIM_FINDING_KINDS), 0);
}

/* Checks for exactly one finding. It is of this kind, and names these two operations by their tags (NULL: an operation
 * without a tag). */
static inline weir_sim_finding only_finding(weir_sim *sim, weir_sim_finding_kind kind, const char *earlier,
                                            const char *later)
{
    weir_sim_finding finding = {.kind = WEIR_SIM_FINDING_KINDS};
    for (size_t i = 0; weir_sim_finding_at(sim, i, &finding); i++) {
        if (i > 0 || finding.kind != kind) {
            print_error("%s\n", finding.text);
        }
    }
    assert_int_equal(weir_sim_finding_count(sim, WEIR_SIM_FINDING_KINDS), 1);
    assert_int_equal(weir_sim_finding_count(sim, kind), 1);
    assert_int_equal(finding.kind, kind);
    assert_string_equal(finding.earlier.tag, earlier != NULL ? earlier : "");
    assert_string_equal(finding.later.tag, later != NULL ? later : "");
    if (earlier != NULL) {
        assert_non_null(strstr(finding.text, earlier));
    }
    if (later != NULL) {
        assert_non_null(strstr(finding.text, later));
    }
    assert_true(strlen(finding.text) + 1 < sizeof(finding.text));
    return finding;
}

#endif
