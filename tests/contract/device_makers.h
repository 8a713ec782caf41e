/* device_makers.h: devices of the tree for device_contract.c. */
#ifndef DEVICE_MAKERS_H
#define DEVICE_MAKERS_H

#include <weir/adaptor.h>
#include <weir/sim.h>

static weir_sim *made_sim;

static inline weir_status make_sim_of(weir_sim_mode mode, uint64_t capacity_bytes, weir_device **device)
{
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    config.mode = mode;
    config.capacity_bytes = capacity_bytes;
    const weir_status status = weir_sim_create(&config, &made_sim);
    if (status == WEIR_OK) {
        *device = weir_sim_device(made_sim);
    }
    return status;
}

static inline weir_status make_sim(uint64_t capacity_bytes, weir_device **device)
{
    return make_sim_of(WEIR_SIM_ACCOUNTING, capacity_bytes, device);
}

static inline weir_status make_sim_backed(uint64_t capacity_bytes, weir_device **device)
{
    return make_sim_of(WEIR_SIM_BACKED, capacity_bytes, device);
}

static inline void end_sim(weir_device *device)
{
    (void)device; /* the simulator's own */
    (void)!weir_sim_destroy(made_sim);
}

static inline weir_status make_limited(uint64_t capacity_bytes, weir_device **device)
{
    weir_device *sim = NULL;
    weir_status status = make_sim_of(WEIR_SIM_ACCOUNTING, 2 * capacity_bytes, &sim);
    if (status == WEIR_OK) {
        status = weir_limit_create(sim, capacity_bytes, device);
    }
    return status;
}

static inline void end_limited(weir_device *device)
{
    (void)!weir_device_destroy(device);
    (void)!weir_sim_destroy(made_sim);
}

#endif
