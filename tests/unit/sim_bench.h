/* tests/unit/sim_bench.h: a simulator with three streams and a region, for the tests of its auditor. A file that needs
 * a larger region defines REGION first. */
#ifndef WEIR_UNIT_SIM_BENCH_H
#define WEIR_UNIT_SIM_BENCH_H

#include "sim_test.h"

#ifndef REGION
#define REGION (16 * MIB)
#endif

typedef struct bench {
    weir_sim *sim;
    weir_device *device;
    weir_sim_stream *a;
    weir_sim_stream *b;
    weir_sim_stream *c;
    uint64_t region; /* of REGION bytes */
} bench;

static inline bench set_up_with(weir_sim_config config)
{
    bench t = {.sim = new_sim(config)};
    t.device = weir_sim_device(t.sim);
    t.a = new_stream(t.sim);
    t.b = new_stream(t.sim);
    t.c = new_stream(t.sim);
    t.region = new_region(t.sim, REGION);
    return t;
}

static inline void tear_down(bench *t)
{
    assert_int_equal(weir_sim_destroy(t->sim), WEIR_OK);
}

#endif
