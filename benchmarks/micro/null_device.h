/* null_device.h: a device with calls that cost nothing, so that the cost of a pool over it is the pool's own cost.
 *
 * Addresses rise and are never reused, and no two regions are adjacent. Work on a stream is complete as soon as it is
 * queued. The device counts memory calls. All functions are thread-safe.
 */
#ifndef WEIR_BENCHMARKS_NULL_DEVICE_H
#define WEIR_BENCHMARKS_NULL_DEVICE_H

#include <weir/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct null_device;

/* Capacity of every null device: enough for every workload, even with one region per block. */
#define NULL_DEVICE_CAPACITY_BYTES (UINT64_C(4) << 40)

/* Creates a device, with virtual memory if requested. NULL when out of host memory. */
struct null_device *null_device_create(bool virtual_memory);
/* Destroys the device. Its pools must have been destroyed. */
void null_device_destroy(struct null_device *device);

/* Returns the device for pools; the null device owns it. */
weir_device *null_device_of(struct null_device *device);

/* Returns the number of calls that allocated, freed, reserved, released, created, destroyed, mapped or unmapped
 * memory. */
uint64_t null_device_calls(const struct null_device *device);

#ifdef __cplusplus
}
#endif

#endif
