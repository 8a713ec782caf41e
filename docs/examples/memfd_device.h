/* memfd_device.h: an example of a new device, see docs/device.md. */
#ifndef MEMFD_DEVICE_H
#define MEMFD_DEVICE_H

#include <weir/device.h>

/* Creates a device of host memory, of at most `capacity_bytes`. WEIR_ERR_NO_MEMORY: no memory for the device object. */
weir_status memfd_device_create(uint64_t capacity_bytes, weir_device **device);

#endif
