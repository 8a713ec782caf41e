/* metering_device.h: a device that forwards every call and records the figures of a replay: device calls, their virtual
 * time, and the lifetimes of regions and mappings. */
#ifndef WEIR_BENCHMARKS_WATCH_H
#define WEIR_BENCHMARKS_WATCH_H

#include <weir/sim.h>

#include "replay/replay.h"

struct metering {
    weir_sim *sim;
    weir_device *device; /* the device for the pool */
    uint64_t held_bytes; /* bytes that the device has given and not got back */
    uint64_t peak_bytes; /* highest held_bytes */
    uint64_t calls;
    uint64_t ns;
    int64_t event; /* number of the current event, recorded with changes of regions */
    bool keep;     /* true: record regions */
    bool failed;   /* a region was not recorded for lack of host memory */
    struct replay_region *regions;
    size_t region_count;
    size_t region_capacity;
};

weir_status metering_init(struct metering *metering, weir_sim *sim, bool keep);
/* Destroys the metering device and frees its list of regions. The pool must have been destroyed. */
void metering_fini(struct metering *metering);

#endif
