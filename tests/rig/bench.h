/* tests/rig/bench.h: a simulator with three streams and a region, for the tests of its auditor. Work takes LONG_NS, so
 * it is still running at the next step. Each test runs on a fresh bench. A file that needs a larger region, or the
 * config's direct_access, defines REGION or DIRECT_ACCESS first.
 */
#ifndef WEIR_RIG_BENCH_H
#define WEIR_RIG_BENCH_H

#include "sim.h"

#ifndef REGION
#define REGION (16 * MIB)
#endif
#ifndef DIRECT_ACCESS
#define DIRECT_ACCESS false
#endif

static struct {
    weir_sim *sim;
    weir_device *device;
    weir_sim_stream *a;
    weir_sim_stream *b;
    weir_sim_stream *c;
    uint64_t region; /* of REGION bytes */
} t;

static inline int begin_bench(void **unused)
{
    weir_sim_config config = free_of_charge();
    (void)unused;
    config.direct_access = DIRECT_ACCESS;
    t.sim = new_sim(config);
    t.device = weir_sim_device(t.sim);
    t.a = new_stream(t.sim);
    t.b = new_stream(t.sim);
    t.c = new_stream(t.sim);
    t.region = new_region(t.sim, REGION);
    return 0;
}

static inline int end_bench(void **unused)
{
    (void)unused;
    if (test_passed) {
        assert_int_equal(weir_sim_destroy(t.sim), WEIR_OK);
    }
    return 0;
}

EACH_TEST(begin_bench, end_bench)

/* Ends the bench and opens a fresh one, for a test with several runs. */
static inline void renew(void)
{
    assert_int_equal(weir_sim_destroy(t.sim), WEIR_OK);
    (void)begin_bench(NULL);
}

/* Tells the auditor of a block `at` bytes behind the start of the region. */
static inline void hand_out(uint64_t at, uint64_t size, weir_sim_stream *stream, const char *tag)
{
    weir_sim_block_alloc(t.sim, t.region + at, size, stream, tag);
}

static inline void take_back(uint64_t at, weir_sim_stream *stream, const char *tag)
{
    weir_sim_block_free(t.sim, t.region + at, stream, tag);
}

/* Work on the bytes from `at` on. */
static inline void touch_at(weir_sim_stream *stream, uint64_t at, uint64_t size, bool write, const char *tag)
{
    touch(t.sim, stream, t.region + at, size, write, LONG_NS, tag);
}

static inline void write_at(weir_sim_stream *stream, uint64_t at, uint64_t size, const char *tag)
{
    touch_at(stream, at, size, true, tag);
}

static inline void read_at(weir_sim_stream *stream, uint64_t at, uint64_t size, const char *tag)
{
    touch_at(stream, at, size, false, tag);
}

static inline void return_region(void)
{
    give_region(t.sim, t.region, REGION);
}

static inline uint64_t count_of(weir_sim_finding_kind kind)
{
    return weir_sim_finding_count(t.sim, kind);
}

static inline void is_only(weir_sim_finding_kind kind, const char *earlier, const char *later)
{
    (void)only_finding(t.sim, kind, earlier, later);
}

/* An address range of 8 MiB with `size` bytes of memory mapped at its start. */
static inline uint64_t map_memory(uint64_t size, weir_vm_handle *handle)
{
    uint64_t base = 0;
    ok(weir_device_vm_reserve(t.device, 8 * MIB, &base));
    ok(weir_device_vm_create(t.device, size, handle));
    ok(weir_device_vm_map(t.device, base, size, *handle));
    return base;
}

#endif
