/* watch.h: a device that passes everything on and notes what the replay reports: calls, their virtual time, and when
 * which region or mapping came and went. */
#ifndef WEIR_BENCHMARKS_WATCH_H
#define WEIR_BENCHMARKS_WATCH_H

#include <weir/sim.h>

#include "replay/replay.h"

/* What the devices of one replay hold together, and held at most. */
struct watch_total {
    uint64_t held_bytes;
    uint64_t peak_bytes;
};

struct watch {
    weir_sim *sim;
    struct watch_total *total;
    weir_device *device; /* what the pool is given */
    uint64_t calls;
    uint64_t ns;
    int64_t event; /* index that region changes are noted under */
    bool keep;     /* note regions at all */
    bool failed;   /* no host memory to note one */
    struct replay_region *regions;
    size_t region_count;
    size_t region_capacity;
};

weir_status watch_init(struct watch *watch, weir_sim *sim, struct watch_total *total, bool keep);
/* The pool is gone. The regions stay until watch_fini. */
void watch_fini(struct watch *watch);

#endif
