/* device_makers.h: describes weir's own devices for device_contract.h. */
#ifndef DEVICE_MAKERS_H
#define DEVICE_MAKERS_H

#include "device_contract.h"

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

static inline void *sim_bytes(weir_device *device, uint64_t address, uint64_t size)
{
    (void)device;
    return weir_sim_bytes(made_sim, address, size);
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

static inline weir_status end_limited(weir_device *device)
{
    const weir_status status = weir_device_destroy(device);
    return status == WEIR_OK ? weir_sim_destroy(made_sim) : status;
}

/* --- work --- */

#define SIM_UNIT_NS (UINT64_C(3600) * 1000 * 1000 * 1000) /* an hour of virtual time */

static inline weir_status make_sim_stream(weir_device *device, void **native_stream)
{
    (void)device;
    weir_sim_stream *stream = NULL;
    const weir_status status = weir_sim_stream_create(made_sim, &stream);
    if (status == WEIR_OK) {
        *native_stream = stream;
    }
    return status;
}

static inline weir_status end_sim_stream(weir_device *device, void *native_stream)
{
    (void)device;
    return weir_sim_stream_destroy(made_sim, (weir_sim_stream *)native_stream);
}

static inline weir_status queue_on_sim(weir_device *device, void *native_stream, unsigned units,
                                       void (*ended)(void *ctx), void *ctx)
{
    (void)device;
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = units * SIM_UNIT_NS;
    work.host_function = ended;
    work.host_ctx = ctx;
    return weir_sim_launch(made_sim, (weir_sim_stream *)native_stream, &work);
}

#define SIM_WORK .stream_create = make_sim_stream, .stream_destroy = end_sim_stream, .queue = queue_on_sim

static const weir_tested_device the_sim = {.name = "sim", .create = make_sim, SIM_WORK};
static const weir_tested_device the_backed_sim = {
    .name = "sim_backed", .create = make_sim_backed, .bytes = sim_bytes, SIM_WORK};
static const weir_tested_device the_limit = {.name = "limit", .create = make_limited, .destroy = end_limited, SIM_WORK};

#endif
