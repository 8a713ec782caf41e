/* null_device.h: a device with calls that cost nothing, so that a pool above it shows its own cost alone.
 *
 * Addresses rise and are never reused, and no two regions touch. Work on a stream is complete as soon as it is queued. Every
 * call of memory is counted. Any thread may call anything.
 */
#ifndef WEIR_BENCHMARKS_NULL_DEVICE_H
#define WEIR_BENCHMARKS_NULL_DEVICE_H

#include <weir/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct null_device;

/* Of every null device: holds every workload, even with a region for each block. */
#define NULL_DEVICE_CAPACITY_BYTES (UINT64_C(4) << 40)

/* With virtual memory only where it is asked for. NULL without host memory. */
struct null_device *null_device_create(bool virtual_memory);
/* The pools on it have ended. */
void null_device_destroy(struct null_device *device);

/* The device for pools; borrowed. */
weir_device *null_device_of(struct null_device *device);

/* Calls that allocate, free, reserve, release, create, destroy, map or unmap memory, since the device was created. */
uint64_t null_device_calls(const struct null_device *device);

#ifdef __cplusplus
}
#endif

#endif
