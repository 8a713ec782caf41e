/* memfd_device.h: a device of one's own, see docs/device.md. */
#ifndef MEMFD_DEVICE_H
#define MEMFD_DEVICE_H

#include <weir/device.h>

/* Host memory, of which at most `capacity_bytes` are given. WEIR_ERR_NO_MEMORY: no host memory for the device itself. */
weir_status memfd_device_create(uint64_t capacity_bytes, weir_device **device);

#endif
