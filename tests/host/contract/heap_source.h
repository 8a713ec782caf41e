/* tests/host/contract/heap_source.h: a heap over each kind of source, for the programs that are compiled once for each.
 *
 *   HEAP_SOURCE   PROCESS      memory of the process
 *                 HOST_POOL    a host pool with the pads of the carve rule, which other users share
 *                 POOL         a shared pool of a simulated device with memory that the host cannot touch
 *                 POOL_BACKED  a shared pool of a simulated device with memory that the host can touch
 */
#ifndef TESTS_CONTRACT_HEAP_SOURCE_H
#define TESTS_CONTRACT_HEAP_SOURCE_H

#include "rig/units.h"

#include <weir/caching.h>
#include <weir/heap.h>
#include <weir/sim.h>

#include <stdint.h>

enum heap_source { PROCESS, HOST_POOL, POOL, POOL_BACKED };

static const enum heap_source heap_source = HEAP_SOURCE;

/* The limit of the memory under a heap, for the sources that take one. */
#define SOURCE_MOST_BYTES (64 * MIB)

/* The source of a heap, and a config that names it. */
struct under {
    weir_heap_config config;
    weir_host_pool *host_pool;
    weir_sim *sim;
    weir_pool *pool;
    weir_stream *stream;
};

static weir_status under_open_pool(struct under *u, weir_device *device)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.limit_bytes = SOURCE_MOST_BYTES;
    config.flags = heap_source == POOL ? 0 : WEIR_POOL_REGIONS; /* one of them maps its memory */
    weir_status status = weir_pool_create(&config, &u->pool);
    if (status == WEIR_OK) {
        status = weir_pool_stream(u->pool, NULL, &u->stream);
    }
    u->config.source.pool = u->pool;
    u->config.source.stream = u->stream;
    u->config.flags = heap_source == POOL ? (uint32_t)WEIR_HEAP_NO_HOST_ACCESS : 0;
    return status;
}

static weir_status under_open(struct under *u)
{
    const weir_heap_config defaults = WEIR_HEAP_CONFIG_INIT;
    *u = (struct under){.config = defaults};
    weir_status status = WEIR_OK;
    if (heap_source == HOST_POOL) {
        weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
        config.flags = WEIR_HOST_ALLOW_UNPINNED;
        config.kinds = 1u << WEIR_HOST_UNPINNED;
        config.limit_bytes = SOURCE_MOST_BYTES;
        status = weir_host_pool_create(&config, &u->host_pool);
        u->config.source.host_pool = u->host_pool;
    } else if (heap_source != PROCESS) {
        weir_sim_config config = WEIR_SIM_CONFIG_INIT;
        config.mode = heap_source == POOL_BACKED ? WEIR_SIM_BACKED : WEIR_SIM_ACCOUNTING;
        config.capacity_bytes = 2 * SOURCE_MOST_BYTES;
        status = weir_sim_create(&config, &u->sim);
        if (status == WEIR_OK) {
            status = under_open_pool(u, weir_sim_device(u->sim));
        }
    } else {
        u->config.limit_bytes = SOURCE_MOST_BYTES;
    }
    return status;
}

static weir_status under_close(struct under *u)
{
    const weir_status host = weir_host_pool_destroy(u->host_pool);
    const weir_status pool = weir_pool_destroy(u->pool);
    if (u->sim != NULL) {
        (void)!weir_sim_destroy(u->sim);
    }
    return host != WEIR_OK ? host : pool;
}

#define CAN_TOUCH (heap_source != POOL)

#endif
